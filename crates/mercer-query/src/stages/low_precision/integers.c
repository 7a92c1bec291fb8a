/* Codes a row; returns whether it lies on the grid. */
static int code_row_@(const double *row, struct coded_@ *coded) {
    double worst = 0, squares = 0;
    unsigned c, n;
    memset(coded, 0, sizeof *coded);
    for (c = 0; c < MERCER_COLUMNS; c++) {
        const double shifted = (row[c] - BASE_@) * INVERSE_STEP_@ + 6755399441055744.0;
        const double given = shifted - 6755399441055744.0;
        const double code = given < 0 ? 0.0 : given > 255.0 ? 255.0 : given;
        const double residual = row[c] - (BASE_@ + STEP_@ * code);
        if (fabs(residual) > worst) worst = fabs(residual);
        squares += residual * residual;
    }
    if (!(worst <= OFF_GRID_@)) return 0;
    for (n = 0; n + 1 <= CODED_@; n++) {
        const double shifted = (row[coded_columns_@[n]] - BASE_@) * INVERSE_STEP_@ + 6755399441055744.0;
        const double given = shifted - 6755399441055744.0;
        const int32_t code = given < 0 ? 0 : given > 255.0 ? 255 : (int32_t)given;
        coded->codes[n] = (unsigned char)code;
        coded->sum += code;
        coded->squares += code * code;
    }
    for (n = 0; n + 1 <= DEAD_@; n++) {
        const double x = row[DEAD_COLUMN_@(n)];
        coded->beyond += (x - BASE_@) * (x - BASE_@);
        coded->dead_sum += x;
        coded->dead_size += fabs(x);
    }
    coded->residual = IS_ROUNDED_@
        ? sqrt(squares) * (1.0 + 1e-9) + ALL_ROOT_@ * (0.0 * (1.0 + 1e-9) + SPARE_@)
        : LIVE_ROOT_@ * (worst * (1.0 + 1e-9) + SPARE_@);
    return 1;
}

/* Runs a query that lies on the grid; returns whether it did. */
static int run_integers_@(struct query *q) {
    struct coded_@ coded;
    struct sums_@ sums;
    struct single_query known, in_float;
    unsigned chunk, first, n, lane;
    if (!code_row_@(q->row, &coded)) return 0;
    known = coded_known_@(q->squared_norm, &coded);
    in_float = single_known_@(q->squared_norm);
    if (!known.is_known) return 0;
    if (!IS_ROUNDED_@ && in_float.is_known && !(known.error <= in_float.error)) return 0;
    if (!charge(q, COST_@)) return 1;
    memset(&sums, 0, sizeof sums);
    SET_ERROR_@(sums, known);
    for (chunk = 0; chunk < COEFFICIENT_CHUNKS_@; chunk++) {
        const unsigned start = chunk * CHUNK_ROWS_@;
        const unsigned end = start + CHUNK_ROWS_@ < MERCER_SUPPORTS ? start + CHUNK_ROWS_@ : MERCER_SUPPORTS;
        if (coefficient_starts_@[chunk] == coefficient_starts_@[chunk + 1]) continue;
        begin_chunk_@(&sums, chunk);
        for (first = start; first < end; first += 16) {
            uint32_t dots[16] = {0};
            value_@ values[16];
            const unsigned char *rows = codes_@ + (size_t)first * CODED_@;
            for (n = 0; n + 1 <= CODED_@; n++)
                for (lane = 0; lane < 16; lane++) dots[lane] += (uint32_t)coded.codes[n] * rows[16 * (size_t)n + lane];
            finish_codes_@(&coded, first, dots, values);
            add_values_@(&sums, chunk, first - start, end - first < 16 ? end - first : 16, values);
        }
        end_chunk_@(&sums, chunk);
    }
    report_@(q, &known, &sums);
    return 1;
}

