PART int label_of_score(double score) { (void)score; return 0; }

PART void put_margin(const struct query *q, unsigned candidate, struct outcome *out) {
    double other_low = -INFINITY, other_high = -INFINITY;
    unsigned s;
    for (s = 0; s < MERCER_SCORES; s++)
        if (s != candidate) {
            other_low = max_of(other_low, q->low[s]);
            other_high = max_of(other_high, q->high[s]);
        }
    out->low = next_down(q->low[candidate] - other_high);
    out->high = next_up(q->high[candidate] - other_low);
}

PART int settled(const struct query *q, struct outcome *out) {
    unsigned candidate, other;
    for (candidate = 0; candidate < MERCER_SCORES; candidate++) {
        const double least = q->low[candidate] - q->bound[candidate];
        for (other = 0; other < MERCER_SCORES; other++)
            if (other != candidate && !(least > q->high[other] + q->bound[other])) break;
        if (other == MERCER_SCORES) {
            out->label = (int)candidate;
            out->value = 0;
            put_margin(q, candidate, out);
            return 1;
        }
    }
    return 0;
}

/* The scores that can still change the answer. */
PART void undecided_scores(const struct query *q, unsigned char *undecided) {
    double best = -INFINITY;
    unsigned s;
    for (s = 0; s < MERCER_SCORES; s++) best = max_of(best, q->low[s] - q->bound[s]);
    for (s = 0; s < MERCER_SCORES; s++) undecided[s] = q->high[s] + q->bound[s] >= best;
}

PART unsigned first_largest(const double *scores) {
    unsigned s, best = 0;
    for (s = 1; s < MERCER_SCORES; s++)
        if (scores[s] > scores[best]) best = s;
    return best;
}

PART void best_estimate(const struct query *q, struct outcome *out) {
    double middles[MERCER_SCORES];
    unsigned s, known = 0;
    for (s = 0; s < MERCER_SCORES; s++) {
        middles[s] = q->low[s] / 2.0 + q->high[s] / 2.0;
        if (is_finite(middles[s])) known++;
        else middles[s] = -INFINITY;
    }
    for (s = 0; known == 0 && s < MERCER_SCORES; s++) middles[s] = -offsets[s];
    s = first_largest(middles);
    out->label = (int)s;
    out->value = 0;
    put_margin(q, s, out);
}

PART void exact_outcome(const double *scores, const struct query_size *size, struct outcome *out) {
    const unsigned winner = first_largest(scores);
    double other = -INFINITY, bound = 0, margin;
    unsigned s;
    for (s = 0; s < MERCER_SCORES; s++)
        if (s != winner) {
            other = max_of(other, scores[s]);
            bound = larger(bound, rounding_bound(s, size));
        }
    margin = scores[winner] - other;
    out->label = (int)winner;
    out->value = 0;
    put_around(margin, rounding_bound(winner, size) + bound + DBL_EPSILON * fabs(margin), &out->low,
               &out->high);
}

