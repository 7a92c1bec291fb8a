static struct single_query coded_known_@(double squared_norm, const struct coded_@ *coded) {
    struct single_query known = {0, 1.0, 1.0, 0.0, 0};
    const double codes = sqrt((double)coded->squares) * (1.0 + 1e-15);
    const double factor = SCALE_@ * STEP_@ * STEP_@;
    double apart, distance, most, furthest, from_grid;
    if (!is_sane(squared_norm) || !is_sane(LONGEST_@ * LONGEST_@)) return known;
    if (!(SCALE_@ >= 1e-30 && SCALE_@ <= 1e30) || !(factor >= 1e-30 && factor <= 1e30)) return known;
    apart = coded->residual + LEFTOVER_@ + 1e-150;
    distance = STEP_@ * (codes + LONGEST_CODE_@);
    most = capped(SCALE_@ * 1.01 * (distance * distance + coded->beyond), 88.0);
    furthest = sqrt(most / SCALE_@) * 1.001;
    from_grid = SCALE_@ * apart * (2.0 * furthest + apart) * 1.001;
    return gaussian_known(from_grid + 3.2 * 0x1p-24 * most + 1e-40, (double)3e-7f);
}

static void finish_codes_@(const struct coded_@ *coded, unsigned first, const uint32_t *dots, value_@ *values) {
    const double gamma = SCALE_@ * 1.44269504088896340735992468100189214;
    const float scale = (float)(gamma * STEP_@ * STEP_@), shift = (float)(gamma * coded->beyond);
    unsigned lane;
    for (lane = 0; lane < 16; lane++) {
        const uint32_t steps = (uint32_t)coded->squares + (uint32_t)code_squares_@[first + lane] - 2 * dots[lane];
        values[lane] = exp2_single(fmaf((float)(int32_t)steps, -scale, -shift));
    }
}

