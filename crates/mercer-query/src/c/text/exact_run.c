PART void exact_scores(const struct query *q, double *scores) {
    double partials[MERCER_SCORES][8] = {{0}};
    double values[8];
    unsigned chunk, first, s, lane;
    for (chunk = 0; chunk < EXACT_CHUNKS; chunk++) {
        const unsigned start = chunk * EXACT_CHUNK_ROWS;
        const unsigned end = start + EXACT_CHUNK_ROWS < MERCER_SUPPORTS ? start + EXACT_CHUNK_ROWS
                                                                        : MERCER_SUPPORTS;
        for (first = start; first < end; first += 8) {
            const unsigned count = end - first < 8 ? end - first : 8;
            kernel_values(support_values + (size_t)first * MERCER_LIVE_COLUMNS,
                          support_norms + first, q->live, MERCER_LIVE_COLUMNS, q->norm, values);
            for (s = exact_starts[chunk]; s < exact_starts[chunk + 1]; s++) {
                const double *betas = exact_coefficients + (size_t)s * EXACT_CHUNK_ROWS + (first - start);
                double *sums = partials[exact_scores_of[s]];
                for (lane = 0; lane < count; lane++) sums[lane] = fma(values[lane], betas[lane], sums[lane]);
            }
        }
    }
    for (s = 0; s < MERCER_SCORES; s++) scores[s] = fold8(partials[s]) - offsets[s];
}

/* The exact answer of a query that no stage settled. */
PART int answer_exactly(struct query *q) {
    double scores[MERCER_SCORES], low, high;
    struct query_size size;
    struct outcome outcome;
    unsigned s;
    if (!charge(q, EXACT_COST)) return 0;
    exact_scores(q, scores);
    for (s = 0; s < MERCER_SCORES; s++)
        if (!is_finite(scores[s])) return MERCER_NOT_FINITE;
    size = size_exactly(&exact_sizes, q->norm);
    exact_outcome(scores, &size, &outcome);
    if (MERCER_SCORES == 1) {
        low = max_of(outcome.low, q->low[0]);
        high = min_of(outcome.high, q->high[0]);
        if (low <= high) {
            outcome.low = low;
            outcome.high = high;
        }
    }
    answer(q, &outcome, MERCER_EXACT);
    return 0;
}

