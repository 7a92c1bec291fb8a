/* Sums of Gaussians in float, chunk by chunk: sixteen chains, the bound of all scores first. */
struct sums_@ {
    double sums[MERCER_SCORES], sizes[MERCER_SCORES];
    float chains[MERCER_SCORES + 1][16];
};

static void begin_chunk_@(struct sums_@ *sums, unsigned chunk) {
    const unsigned count = coefficient_starts_@[chunk + 1] - coefficient_starts_@[chunk];
    memset(sums->chains, 0, (count + 1) * sizeof sums->chains[0]);
}

static void add_values_@(struct sums_@ *sums, unsigned chunk, unsigned inside, unsigned count, const float *values) {
    const unsigned first = coefficient_starts_@[chunk], scores = coefficient_starts_@[chunk + 1] - first;
    unsigned s, lane;
    for (s = 0; s <= scores; s++) {
        const float *weights = coefficients_@ + ((size_t)first + chunk + s) * CHUNK_ROWS_@ + inside;
        for (lane = 0; lane < count; lane++)
            sums->chains[s][lane] = fmaf(values[lane], weights[lane], sums->chains[s][lane]);
    }
}

static void end_chunk_@(struct sums_@ *sums, unsigned chunk) {
    const unsigned first = coefficient_starts_@[chunk], scores = coefficient_starts_@[chunk + 1] - first;
    double half[8], size = 0;
    unsigned s, lane;
    for (s = 0; s <= scores; s++) {
        for (lane = 0; lane < 8; lane++)
            half[lane] = (double)sums->chains[s][lane] + (double)sums->chains[s][lane + 8];
        if (s == 0) {
            size = fold8(half);
        } else {
            const unsigned score = coefficient_scores_@[first + s - 1];
            sums->sums[score] += fold8(half);
            sums->sizes[score] += size;
        }
    }
}

static void report_@(struct query *q, const struct single_query *known, const struct sums_@ *sums) {
    unsigned s;
    for (s = 0; s < MERCER_SCORES; s++)
        prove_single_@(q, s, known, sums->sums[s] * COEFFICIENT_UNIT_@, sums->sizes[s] * COEFFICIENT_UNIT_@);
    settle(q);
}

