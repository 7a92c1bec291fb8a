PART double tanh_of(double x) {
    const double size = fabs(x) > 20.0 ? 20.0 : fabs(x);
    uint64_t k;
    const double minus_one = reduced_exp(-2.0 * size, &k);
    const double power = of_bits(bits_of(1.0) + (k << 52));
    const double e = fma(power, minus_one, power - 1.0);
    return copysign(-e / (2.0 + e), x);
}

