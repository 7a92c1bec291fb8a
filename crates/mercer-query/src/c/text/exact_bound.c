PART double rounding_bound(unsigned score, const struct query_size *size) {
    const struct rounding *known = &roundings[score];
    double magnitude, from_kernel, error;
    if (known->weight == 0) return gamma_of(1.0) * known->offset;
    magnitude = (KERNEL_IS_SEMIDEFINITE ? known->self_weight : known->weight) * size->factor;
    from_kernel = size->has_relative_error ? size->relative_error * magnitude
                                           : known->weight * size->kernel_error;
    error = known->gamma * (magnitude + from_kernel + known->offset) + from_kernel;
    return error != error ? INFINITY : error * (1.0 + 1e-15) + DBL_MIN;
}

