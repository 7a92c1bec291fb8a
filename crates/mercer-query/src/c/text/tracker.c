/* ---- what stages report ---- */

/* Charges work before it is done; returns whether the query is still open. */
PART int charge(struct query *q, uint64_t multiply_adds) {
    if (q->is_answered) return 0;
    if (multiply_adds > MERCER_BUDGET - q->cost) {
        struct outcome outcome = q->estimate;
        if (!q->has_estimate) best_estimate(q, &outcome);
        answer(q, &outcome, MERCER_UNSETTLED);
        return 0;
    }
    q->cost += multiply_adds;
    return 1;
}

/* Intersects the range of a score with a proved one; nothing is proved by numbers that are not finite. */
PART void prove(struct query *q, unsigned score, double low, double high) {
    double both_low, both_high;
    if (!(is_finite(low) && is_finite(high) && low <= high)) return;
    both_low = max_of(q->low[score], low);
    both_high = min_of(q->high[score], high);
    if (both_low <= both_high) {
        q->low[score] = both_low;
        q->high[score] = both_high;
    }
}

/* Answers the query if no score within its ranges changes the answer; returns whether it is open. */
PART int settle(struct query *q) {
    struct outcome outcome = {0, 0, 0, 0};
    if (q->is_answered) return 0;
    if (!settled(q, &outcome)) return 1;
    answer(q, &outcome, MERCER_CERTIFIED);
    return 0;
}

/* The rounding bounds of the exact scores: without them no label is certified. */
PART void need_bounds(struct query *q) {
    struct query_size size;
    unsigned score;
    if (q->has_bounds) return;
    q->has_bounds = 1;
    q->squared_norm = loose_squared_norm(q);
    size = size_of_query(&exact_sizes, q->squared_norm * (1.0 + 1e-9));
    for (score = 0; score < MERCER_SCORES; score++) q->bound[score] = rounding_bound(score, &size);
}

