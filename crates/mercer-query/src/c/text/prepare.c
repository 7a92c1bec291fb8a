PART double loose_squared_norm(const struct query *q) {
    double sums[8] = {0};
    unsigned c;
    for (c = 0; c < MERCER_COLUMNS; c++) sums[c % 8] += q->centred[c] * q->centred[c];
    return fold8(sums);
}

PART double chained_norm(const double *centred) {
    double sum = 0;
    unsigned c;
    for (c = 0; c < MERCER_COLUMNS; c++) sum = fma(centred[c], centred[c], sum);
    return sum + 0.0;
}

/* Kernel values with eight rows side by side: one chain of fused multiply-adds in column order for each. */
PART void products(const double *rows, const double *x, unsigned columns, double *out) {
    double sums[8] = {0};
    unsigned c, lane;
    for (c = 0; c < columns; c++)
        for (lane = 0; lane < 8; lane++) sums[lane] = fma(rows[8 * (size_t)c + lane], x[c], sums[lane]);
    for (lane = 0; lane < 8; lane++) out[lane] = sums[lane] + 0.0;
}

