static struct single_query power_known_@(double squared_norm, double product, double scale) {
    struct single_query known = {0, 0, 1.0, 0.0, 0};
    const double length = sqrt(squared_norm) + 1e-150, longest = LONGEST_@ + 1e-150;
    const double inside = scale * length * longest * (1.0 + 1e-8) + fabs(SHIFT_@);
    known.error = 1.001 * scale * product + 4.0 * UNIT * inside + DBL_MIN;
    known.most = power_of(inside + known.error, DEGREE_@) * (1.0 + 1e-9);
    known.is_known = is_finite(known.most);
    return known;
}

/* What is known of a query whose products are wrong by at most that much. */
static struct single_query products_known_@(double squared_norm, double product) {
    struct single_query known = power_known_@(squared_norm, product, KIND_@ == SINGLE_SIGMOID ? fabs(SCALE_@) : SCALE_@);
    if (KIND_@ == SINGLE_NORMALIZED) {
        const double norm = sqrt(power_of(SCALE_@ * squared_norm + SHIFT_@, DEGREE_@));
        const int is_seen = squared_norm > 1e-200 || SHIFT_@ > 1e-270 * SCALE_@;
        known.divisor = norm;
        known.norms = NORMS_@;
        known.is_known = known.is_known && norm > 1e-120 && norm < 1e120 && is_seen && NORMS_@ < 1e-3;
    }
    if (KIND_@ == SINGLE_SIGMOID) {
        known.error = capped(known.error, 2.0) + 4.0 * DBL_EPSILON;
        known.most = 1.0 + 1e-9;
    }
    return known;
}

/* What is known of a query in float. */
static struct single_query single_known_@(double squared_norm) {
    struct single_query known = {0, 1.0, 1.0, 0.0, 0};
    double length, longest, product, squares, most;
    if (!is_sane(squared_norm) || !is_sane(LONGEST_@ * LONGEST_@)) return known;
    length = sqrt(squared_norm) * (1.0 + 1e-9) + 1e-150;
    longest = LONGEST_@ + 1e-150;
    product = gamma_single(TERMS_@ + 3.0) * length * longest + 1e-150 * (length + longest);
    if (KIND_@ != SINGLE_GAUSSIAN) return products_known_@(squared_norm, product);
    if (!(SCALE_@ >= 1e-30 && SCALE_@ <= 1e30)) return known;
    squares = (length * length + longest * longest) * 2.2 * 0x1p-24;
    most = capped(SCALE_@ * 1.01 * ((length + longest) * (length + longest)), 88.0);
    return gaussian_known(SCALE_@ * (2.0 * product + squares) * 1.001 + 3.2 * 0x1p-24 * most + 1e-40, 0x1p-23);
}

static void prove_single_@(struct query *q, unsigned score, const struct single_query *known, double sum, double size) {
    const struct single_weights *weights = &weights_@[score];
    double value, error;
    if (KIND_@ == SINGLE_GAUSSIAN) {
        const double relative = known->error + gamma_single(16.0) + STEPS_GAMMA_@;
        value = sum;
        error = relative * size * (1.0 + 1e-5) + 5e-38 * weights->used + weights->lost;
    } else {
        const double p = KIND_@ == SINGLE_SIGMOID ? 1.0 : (double)DEGREE_@, rows = MERCER_SUPPORTS + 1.0;
        const double sized = p > 1.0 ? size + rows * 64.0 * LEAST : weights->used;
        const double from_products = p * known->error * sized * (1.0 + 1e-6);
        const double from_coefficients = rows * LEAST * known->most;
        const double from_sums = SUMS_GAMMA_@ * weights->used * known->most;
        const double underflow = from_coefficients + DBL_MIN * weights->used + rows * LEAST;
        error = from_products + from_sums + underflow;
        error = error / known->divisor * (1.0 + 1e-6) + known->norms * weights->original;
        value = sum / known->divisor;
    }
    error = (error + 8.0 * UNIT * (fabs(value) + fabs(weights->offset))) * (1.0 + 1e-9) + DBL_MIN;
    prove(q, score, value - weights->offset - error, value - weights->offset + error);
}

