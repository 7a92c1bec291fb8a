PART int label_of_score(double score) { (void)score; return 0; }

PART int settled(const struct query *q, struct outcome *out) {
    const double middle = q->low[0] + (q->high[0] - q->low[0]) / 2.0;
    const double half = next_up(max_of(q->high[0] - middle, middle - q->low[0]));
    out->label = 0;
    out->value = middle;
    out->low = q->low[0];
    out->high = q->high[0];
    return half <= MERCER_TOLERANCE;
}

