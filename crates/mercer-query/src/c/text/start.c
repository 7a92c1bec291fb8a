/* Scales, checks and centres a row; memory holds what comes of it. */
PART int prepare(struct query *q, const double *row, double *memory) {
    unsigned c, s;
    for (c = 0; c < MERCER_COLUMNS; c++)
        if (!is_finite(row[c])) return MERCER_NOT_FINITE;
    q->row = PREPARED_ROW;
    for (c = 0; c < MERCER_COLUMNS; c++) {
        if (!is_finite(q->row[c])) return MERCER_NOT_FINITE;
        if (KERNEL_IS_NON_NEGATIVE && q->row[c] < 0) return MERCER_NEGATIVE;
    }
    q->centred = PREPARED_CENTRED;
    (void)memory;
    for (c = 0; c < MERCER_LIVE_COLUMNS; c++) q->live[c] = q->centred[live_columns[c]];
    q->norm = chained_norm(q->centred);
    q->squared_norm = 0;
    q->has_bounds = 0;
    q->has_estimate = 0;
    q->is_answered = 0;
    q->cost = 0;
    q->stage = 0;
    memset(&q->estimate, 0, sizeof q->estimate);
    for (s = 0; s < MERCER_SCORES; s++) {
        q->low[s] = -INFINITY;
        q->high[s] = INFINITY;
        q->bound[s] = INFINITY;
    }
    return 0;
}

