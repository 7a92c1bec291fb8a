/* Sums of powers in double: eight chains, and a bound of all scores for each chunk. */
struct sums_@ {
    double eights[MERCER_SCORES][8], sizes[MERCER_SCORES], error, chains[8];
};

static void begin_chunk_@(struct sums_@ *sums, unsigned chunk) {
    (void)chunk;
    memset(sums->chains, 0, sizeof sums->chains);
}

static void add_values_@(struct sums_@ *sums, unsigned chunk, unsigned inside, unsigned count, const double *products_of) {
    double values[16];
    unsigned s, lane;
    for (lane = 0; lane < count; lane++) {
        const double value = fma(products_of[lane], SCALE_@, SHIFT_@);
        values[lane] = KIND_@ == SINGLE_SIGMOID ? TANH_@(value) : power_of(value, DEGREE_@);
    }
    for (lane = 0; DEGREE_@ > 1 && lane < count; lane++) {
        const double size = fabs(SCALE_@ * products_of[lane] + SHIFT_@) + sums->error;
        const double power = power_of(fma(size, 1.0, 0.0), DEGREE_@ - 1);
        sums->chains[lane % 8] =
            fma(power, sizes_@[(size_t)chunk * CHUNK_ROWS_@ + inside + lane], sums->chains[lane % 8]);
    }
    for (s = coefficient_starts_@[chunk]; s < coefficient_starts_@[chunk + 1]; s++) {
        const double *betas = coefficients_@ + (size_t)s * CHUNK_ROWS_@ + inside;
        double *eights = sums->eights[coefficient_scores_@[s]];
        for (lane = 0; lane < count; lane++) eights[lane % 8] = fma(values[lane], betas[lane], eights[lane % 8]);
    }
}

static void end_chunk_@(struct sums_@ *sums, unsigned chunk) {
    const double size = fold8(sums->chains);
    unsigned s;
    for (s = coefficient_starts_@[chunk]; DEGREE_@ > 1 && s < coefficient_starts_@[chunk + 1]; s++)
        sums->sizes[coefficient_scores_@[s]] += size;
}

static void report_@(struct query *q, const struct single_query *known, const struct sums_@ *sums) {
    unsigned s;
    for (s = 0; s < MERCER_SCORES; s++) prove_single_@(q, s, known, fold8(sums->eights[s]), sums->sizes[s]);
    settle(q);
}

