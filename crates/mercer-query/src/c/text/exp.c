/* e^x - 1 after its reduction by k ln 2; k is in the low bits of an integer. */
PART double reduced_exp(double x, uint64_t *k_bits) {
    const double shifted = fma(x, 1.44269504088896340735992468100189214, 6755399441055744.0);
    const double k = shifted - 6755399441055744.0;
    const double r = fma(k, -1.90821492927058770002e-10, fma(k, -6.93147180369123816490e-1, x));
    const double square = r * r, fourth = square * square;
    const double low = fma(fma(0.008333333333494463, r, 0.041666666666530155), square,
                           fma(0.16666666666666413, r, 0.5000000000000011));
    const double middle = fma(fma(2.755758637826493e-6, r, 2.4801493098786526e-5), square,
                              fma(0.00019841269506574313, r, 0.0013888888943630218));
    const double high = fma(2.500006005363822e-8, r, 2.763024842399636e-7);
    *k_bits = bits_of(shifted);
    return fma(square, fma(fma(high, fourth, middle), fourth, low), r);
}

PART double exp_of(double x) {
    uint64_t k;
    const double minus_one = reduced_exp(x, &k);
    if (x != x) return x;
    if (x > 709.7827128933839) return INFINITY;
    if (x < -708.0) return 0.0;
    return of_bits(bits_of(1.0 + minus_one) + (k << 52));
}

