PART uint32_t bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

PART float float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* n v / (1 - n v) of float, rounded up. */
PART double gamma_single(double n) {
    const double nv = n * 0x1p-24;
    return nv < 0.5 ? nv / (1.0 - nv) * (1.0 + 4.0 * UNIT) : INFINITY;
}

PART float exp_single(float x) {
    const float shifted = fmaf(x, 1.44269504088896340735992468100189214f, 12582912.0f);
    const float k = shifted - 12582912.0f;
    const float r = fmaf(k, -1.4286068e-6f, fmaf(k, -0.69314575f, x));
    const float square = r * r;
    const float high = fmaf(0.00019790341f, r, 0.0013944659f);
    const float low = fmaf(fmaf(0.008333497f, r, 0.041666295f), square,
                           fmaf(0.16666666f, r, 0.5f));
    const float tail = fmaf(high, square * square, low);
    const float value = 1.0f + fmaf(square, tail, r);
    if (x != x) return x;
    if (x > 88.72283f) return INFINITY;
    if (x < -87.0f) return 0.0f;
    return float_of_bits(bits_of_float(value) + (bits_of_float(shifted) << 23));
}

/* 2^x for x <= 0. */
PART float exp2_single(float given) {
    const float x = given > -126.0f ? given : -126.0f;
    const float shifted = x + 12582912.0f;
    const float f = x - (shifted - 12582912.0f);
    const float tail = fmaf(fmaf(fmaf(fmaf(0.0013264726f, f, 0.009671513f), f, 0.055507336f), f,
                                 0.24022242f), f, 0.693147f);
    const float value = fmaf(tail, f, 1.0f);
    return float_of_bits(bits_of_float(value) + (bits_of_float(shifted) << 23));
}

