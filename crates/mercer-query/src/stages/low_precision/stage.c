/* Products with sixteen rows side by side: chains of some columns each, whose sums are added. */
static void single_products_@(const float *rows, const float *x, float *out) {
    unsigned c, lane, first;
    for (first = 0; first < MERCER_LIVE_COLUMNS; first += CHAIN_@) {
        const unsigned end = first + CHAIN_@ < MERCER_LIVE_COLUMNS ? first + CHAIN_@ : MERCER_LIVE_COLUMNS;
        float sums[16] = {0};
        for (c = first; c < end; c++)
            for (lane = 0; lane < 16; lane++) sums[lane] = fmaf(rows[16 * (size_t)c + lane], x[c], sums[lane]);
        for (lane = 0; lane < 16; lane++) out[lane] = first == 0 ? sums[lane] : out[lane] + sums[lane];
    }
    for (lane = 0; lane < 16; lane++) out[lane] = out[lane] + 0.0f;
}

static void stage_@(struct query *q) {
    struct single_query known;
    struct sums_@ sums;
    float x[MERCER_LIVE];
    unsigned chunk, first, c;
    need_bounds(q);
    if (run_integers_@(q)) return;
    known = single_known_@(q->squared_norm);
    if (!known.is_known || !charge(q, COST_@)) return;
    for (c = 0; c < MERCER_LIVE_COLUMNS; c++) x[c] = (float)q->live[c];
    memset(&sums, 0, sizeof sums);
    SET_ERROR_@(sums, known);
    for (chunk = 0; chunk < COEFFICIENT_CHUNKS_@; chunk++) {
        const unsigned start = chunk * CHUNK_ROWS_@;
        const unsigned end = start + CHUNK_ROWS_@ < MERCER_SUPPORTS ? start + CHUNK_ROWS_@ : MERCER_SUPPORTS;
        if (coefficient_starts_@[chunk] == coefficient_starts_@[chunk + 1]) continue;
        begin_chunk_@(&sums, chunk);
        for (first = start; first < end; first += 16) {
            float dots[16];
            value_@ values[16];
            single_products_@(rows_@ + (size_t)first * MERCER_LIVE_COLUMNS, x, dots);
            finish_products_@(q, first, dots, values);
            add_values_@(&sums, chunk, first - start, end - first < 16 ? end - first : 16, values);
        }
        end_chunk_@(&sums, chunk);
    }
    report_@(q, &known, &sums);
}

