static struct single_query coded_known_@(double squared_norm, const struct coded_@ *coded) {
    struct single_query known = {0, 1.0, 1.0, 0.0, 0};
    const double codes = sqrt((double)coded->squares) * (1.0 + 1e-15);
    double length, longest, left, base, sizes, roundings;
    if (!is_sane(squared_norm) || !is_sane(LONGEST_@ * LONGEST_@)) return known;
    length = sqrt(squared_norm) * (1.0 + 1e-9) + 1e-150;
    longest = LONGEST_@ + 1e-150;
    left = coded->residual * longest + (length + coded->residual) * LEFTOVER_@;
    base = fabs(BASE_@) * sqrt(CODED_LIVE_@);
    sizes = (STEP_@ * codes + base) * (longest + LEFTOVER_@ + 2.0 * base) + fabs(BASE_@) * coded->dead_size;
    roundings = 10.0 + (BASE_@ == 0 ? 0.0 : (double)MERCER_COLUMNS);
    return products_known_@(squared_norm, (left + roundings * UNIT * sizes) * (1.0 + 1e-9) + 1e-150);
}

static void finish_codes_@(const struct coded_@ *coded, unsigned first, const uint32_t *dots, value_@ *values) {
    const double sum = STEP_@ * (double)coded->sum + CODED_LIVE_@ * BASE_@ + coded->dead_sum;
    const double constant = BASE_@ * sum, pairs = STEP_@ * STEP_@, single = BASE_@ * STEP_@;
    unsigned lane;
    for (lane = 0; lane < 16; lane++)
        values[lane] = pairs * (double)(int32_t)dots[lane] + (single * code_sums_@[first + lane] + constant);
}

