/* ---- bounds of sums in low precision ---- */

enum single_kind { SINGLE_GAUSSIAN, SINGLE_POWER, SINGLE_NORMALIZED, SINGLE_SIGMOID };

struct single_weights {
    double used, original, offset, lost;
};

struct single_query {
    double error, most, divisor, norms;
    int is_known;
};

PART int is_sane(double square) { return square == 0 || (square >= 1e-24 && square <= 1e30); }

PART struct single_query gaussian_known(double delta, double exponential) {
    struct single_query known = {0, 1.0, 1.0, 0.0, 0};
    known.error = (delta * (1.0 + delta) + 1.1 * exponential) * 1.01;
    known.is_known = delta <= 0.5;
    return known;
}

