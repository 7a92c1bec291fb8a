/* Coordinates of a query along sixteen directions: entries that are not zero go to four chains in turn. */
PART void project_row(const struct query *q, const unsigned *places, const float *strip, float *out) {
    float sums[4][16] = {{0}};
    unsigned c, lane, n = 0;
    for (c = 0; c < MERCER_COLUMNS; c++) {
        const float value = (float)q->row[c];
        if (q->row[c] == 0) continue;
        if (places[c] < MERCER_LIVE_COLUMNS) {
            const float *row = strip + 16 * (size_t)places[c];
            for (lane = 0; lane < 16; lane++) sums[n % 4][lane] = fmaf(value, row[lane], sums[n % 4][lane]);
        } else if (!is_finite((double)value)) {
            for (lane = 0; lane < 16; lane++) sums[n % 4][lane] = NAN;
        }
        n++;
    }
    for (lane = 0; lane < 16; lane++)
        out[lane] = (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]);
}

/* The same of a centred machine, whose live columns all count. */
PART void project_centred(const struct query *q, const float *strip, float *out) {
    float sums[4][16] = {{0}};
    unsigned c, lane;
    for (c = 0; c < MERCER_LIVE_COLUMNS; c++)
        for (lane = 0; lane < 16; lane++)
            sums[c % 4][lane] = fmaf((float)q->live[c], strip[16 * (size_t)c + lane], sums[c % 4][lane]);
    for (lane = 0; lane < 16; lane++)
        out[lane] = (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]);
}

