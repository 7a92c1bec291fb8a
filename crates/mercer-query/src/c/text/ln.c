PART double ln_of(double x) {
    const int is_tiny = x < DBL_MIN;
    const double normal = is_tiny ? x * 18014398509481984.0 : x;
    const double bias = is_tiny ? 1023.0 + 54.0 : 1023.0;
    const uint64_t bits = bits_of(normal)
        + (UINT64_C(0x3ff0000000000000) - UINT64_C(0x3fe6a09e00000000));
    const double exponent =
        of_bits((bits >> 52) | UINT64_C(0x4330000000000000)) - 4503599627370496.0;
    const double k = exponent - bias;
    const double f = of_bits((bits & UINT64_C(0x000fffffffffffff)) + UINT64_C(0x3fe6a09e00000000)) - 1.0;
    const double s = f / (2.0 + f), z = s * s, w = z * z;
    const double odd = fma(w, fma(w, 1.531383769920937332e-1, 2.222219843214978396e-1),
                           3.999999999940941908e-1) * w;
    const double even = fma(w, fma(w, fma(w, 1.479819860511658591e-1, 1.818357216161805012e-1),
                                   2.857142874366239149e-1), 6.666666666666735130e-1) * z;
    const double half_square = 0.5 * f * f;
    const double small = fma(s, half_square + (odd + even), k * 1.90821492927058770002e-10);
    const double value = fma(k, 6.93147180369123816490e-1, f - (half_square - small));
    if (!(x >= 0)) return NAN;
    if (x == 0) return -INFINITY;
    return x == INFINITY ? x : value;
}

PART double ln_1p_of(double x) {
    const double sum = 1.0 + x, lost = x - (sum - 1.0);
    return ln_of(sum) + lost / sum;
}

