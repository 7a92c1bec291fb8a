/* Gaussians from products in float. */
typedef float value_@;

static void finish_products_@(const struct query *q, unsigned first, const float *dots, value_@ *values) {
    const float norm = (float)q->squared_norm, gamma = (float)SCALE_@;
    unsigned lane;
    for (lane = 0; lane < 16; lane++) {
        const float distance = fmaf(dots[lane], -2.0f, norm + squares_@[first + lane]);
        values[lane] = exp_single(-gamma * (distance < 0 ? 0.0f : distance));
    }
}

