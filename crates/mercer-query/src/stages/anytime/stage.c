static void stage_@(struct query *q) {
    struct projection known;
    double x[LIVE_@], values[STEPS_@ + 8], coordinates[WIDEST_@], squares[WIDEST_@], errors[WIDEST_@];
    double sums[MERCER_SCORES] = {0}, eight[8], spent = 0;
    const double *row = triangle_@;
    unsigned at, c, n, k, j;
    need_bounds(q);
    known = project_query(&sizes_@, q->squared_norm, RELATIVE_@);
    if (!known.is_known) return;
    for (c = 0; c < LIVE_@; c++) x[c] = q->centred[live_@[c]];
    for (at = 0; at < CHUNKS_@; at++) {
        const struct basis_chunk *chunk = &chunks_@[at];
        if (!charge(q, chunk->cost)) return;
        for (n = 0; n < chunk->rows; n += 8) {
            kernel_values(chunk->vectors + (size_t)n * LIVE_@, chunk->norms + n, x, LIVE_@, q->norm, eight);
            for (k = 0; k < 8 && n + k < chunk->rows; k++) values[chunk->first + n + k] = eight[k];
        }
        for (k = 0; k < chunk->rows; k++) {
            const unsigned length = chunk->first + k + 1;
            double sum = 0;
            for (j = 0; j < length; j++) sum = fma(row[j], values[j], sum);
            coordinates[k] = sum + 0.0;
            row += length;
        }
        run_steps(q, &known, coordinates, chunk->first, chunk->rows, STEPS_@, steps_@, shared_steps_@, &spent, sums,
                  squares, errors);
        if (q->is_answered) return;
    }
}

