/* ---- numbers ---- */

#define UNIT 0x1p-53
#define HIDDEN 1e-300
#define LEAST 0x1p-1074

PART uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

PART double of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

PART int is_finite(double x) { return x - x == 0; }

PART double next_up(double x) {
    const uint64_t bits = bits_of(x);
    if (x != x || x == INFINITY) return x;
    if (x == 0) return of_bits(1);
    return of_bits(x > 0 ? bits + 1 : bits - 1);
}

PART double next_down(double x) { return -next_up(-x); }

/* The larger and the smaller of two numbers; a NaN is ignored. */
PART double max_of(double a, double b) { return a != a || a < b ? b : a; }
PART double min_of(double a, double b) { return a != a || a > b ? b : a; }

/* The larger of two bounds; infinite if either is NaN. */
PART double larger(double a, double b) {
    return a != a || b != b ? INFINITY : max_of(a, b);
}

PART double smaller(double a, double b) { return -larger(-a, -b); }

PART double capped(double bound, double limit) {
    return bound != bound ? INFINITY : min_of(bound, limit);
}

PART double at_least_zero(double bound) {
    return bound == -INFINITY ? INFINITY : larger(bound, 0.0);
}

/* n u / (1 - n u), rounded up. */
PART double gamma_of(double n) {
    const double nu = n * UNIT;
    return nu < 0.5 ? nu / (1.0 - nu) * (1.0 + 4.0 * UNIT) : INFINITY;
}

PART double fold8(const double *p) {
    return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
}

PART double power_of(double x, unsigned degree) {
    double power = 1.0, factor = x;
    while (degree > 0) {
        if (degree % 2 == 1) power *= factor;
        factor *= factor;
        degree /= 2;
    }
    return power;
}

