/* y'Ay + b y: Ay in float in four chains, the rest in double. Rows of A are as wide as y, padded to sixteens. */
PART double quadratic_form(unsigned size, unsigned width, const float *form, const float *line, const float *y) {
    double sums[8] = {0};
    unsigned first, row, at;
    for (first = 0; first < width; first += 16) {
        float chains[4][16] = {{0}};
        for (row = 0; row < size; row++)
            for (at = 0; at < 16; at++)
                chains[row % 4][at] = fmaf(y[row], form[(size_t)row * width + first + at], chains[row % 4][at]);
        for (at = 0; at < 16; at++) {
            const float product = (chains[0][at] + chains[1][at]) + (chains[2][at] + chains[3][at]);
            sums[at % 8] += (double)y[first + at] * ((double)line[first + at] + (double)product);
        }
    }
    return fold8(sums);
}

