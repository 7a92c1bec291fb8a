/* The scores that can still change the answer: the only one. */
PART void undecided_scores(const struct query *q, unsigned char *undecided) {
    (void)q;
    undecided[0] = 1;
}

PART void best_estimate(const struct query *q, struct outcome *out) {
    const double middle = q->low[0] / 2.0 + q->high[0] / 2.0;
    const double score = is_finite(middle) ? middle : -offsets[0];
    out->label = label_of_score(score);
    out->value = MERCER_IS_VALUE ? score : 0;
    out->low = q->low[0];
    out->high = q->high[0];
}

PART void exact_outcome(const double *scores, const struct query_size *size, struct outcome *out) {
    out->label = label_of_score(scores[0]);
    out->value = MERCER_IS_VALUE ? scores[0] : 0;
    put_around(scores[0], rounding_bound(0, size), &out->low, &out->high);
}

