PART double chained_norm(const double *centred) {
    double sum = 0;
    unsigned c;
    for (c = 0; c < MERCER_COLUMNS; c++) sum += term(centred[c], centred[c]);
    return sum;
}

PART double loose_squared_norm(const struct query *q) { return chained_norm(q->centred); }

/* Base sums with eight rows side by side, in column order. */
PART void products(const double *rows, const double *x, unsigned columns, double *out) {
    double sums[8] = {0};
    unsigned c, lane;
    for (c = 0; c < columns; c++)
        for (lane = 0; lane < 8; lane++) sums[lane] += term(x[c], rows[8 * (size_t)c + lane]);
    for (lane = 0; lane < 8; lane++) out[lane] = sums[lane];
}

