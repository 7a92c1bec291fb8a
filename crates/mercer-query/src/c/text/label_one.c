/* Whether the exact score is positive (1), not (0), or unknown (-1). */
PART int is_positive(const struct query *q, unsigned score) {
    if (q->low[score] > q->bound[score]) return 1;
    return q->high[score] < -q->bound[score] ? 0 : -1;
}

PART int settled(const struct query *q, struct outcome *out) {
    const int sign = is_positive(q, 0);
    out->label = label_of_score(sign > 0 ? 1.0 : -1.0);
    out->value = 0;
    out->low = q->low[0];
    out->high = q->high[0];
    return sign >= 0;
}

