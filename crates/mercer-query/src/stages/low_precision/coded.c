/* What is known of a query on the grid beside its codes. */
struct coded_@ {
    unsigned char codes[CODED_@ > 0 ? CODED_@ : 1];
    int32_t squares, sum;
    double residual, beyond, dead_sum, dead_size;
};

