static void stage_@(struct query *q) {
    double outputs[OUTPUTS_@];
    unsigned n, c;
    if (!charge(q, COST_@)) return;
    for (n = 0; n < OUTPUTS_@; n++) {
        double sums[8] = {0};
        const double *weights = weights_@ + (size_t)n * MERCER_COLUMNS;
        for (c = 0; c < MERCER_COLUMNS; c++) sums[c % 8] += weights[c] * q->row[c];
        outputs[n] = fold8(sums) + constants_@[n];
    }
    ESTIMATE_@(0, outputs, OUTPUTS_@);
}

