typedef double value_@;

static void finish_products_@(const struct query *q, unsigned first, const float *dots, value_@ *values) {
    unsigned lane;
    (void)q;
    (void)first;
    for (lane = 0; lane < 16; lane++) values[lane] = (double)dots[lane];
}

