PART void kernel_values(const double *rows, const double *norms, const double *x, unsigned columns,
                        double norm, double *out) {
    unsigned lane;
    products(rows, x, columns, out);
    for (lane = 0; lane < 8; lane++) out[lane] = finish_value(out[lane], norm, norms[lane]);
}

