static void stage_@(struct query *q) {
    struct projection known;
    double x[LIVE_@], values[(SIZE_@ + 7) / 8 * 8], sums[MERCER_SCORES];
    unsigned c, n, s;
    need_bounds(q);
    known = project_query(&sizes_@, q->squared_norm, RELATIVE_@);
    if (!known.is_known || !charge(q, FIRST_COST_@)) return;
    for (c = 0; c < LIVE_@; c++) x[c] = q->centred[live_@[c]];
    for (n = 0; n < SIZE_@; n += 8)
        kernel_values(vectors_@ + (size_t)n * LIVE_@, norms_@ + n, x, LIVE_@, q->norm, values + n);
    for (s = 0; s < MERCER_SCORES; s++) {
        const double *betas = coefficients_@ + (size_t)s * SIZE_@;
        double eights[8] = {0};
        for (n = 0; n < SIZE_@; n++) eights[n % 8] = fma(values[n], betas[n], eights[n % 8]);
        sums[s] = fold8(eights);
    }
    by_one_@(q, &known, values, sums);
    if (q->is_answered) return;
    if (USES_FEW_@) {
        if (!charge(q, FEW_COST_@)) return;
        by_few_@(q, &known, values, sums);
        if (q->is_answered) return;
    }
    BY_ALL_@(q, &known, values);
}

