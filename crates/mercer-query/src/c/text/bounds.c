/* ---- rounding bounds of kernel values ---- */

PART double magnitude_of(double uu, double vv) {
    return (KERNEL_MAGNITUDE) * (1.0 + 1e-6);
}

PART double bound_value(double uu, double vv) {
    double bound;
    uu = larger(uu, HIDDEN);
    vv = larger(vv, HIDDEN);
    bound = finish_bound(uu, vv, magnitude_of(uu, vv));
    return bound != bound ? INFINITY : bound + DBL_MIN;
}

PART double bound_error(double uu, double vv) {
    const double underflow = (MERCER_COLUMNS + 1.0) * DBL_MIN;
    double error;
    uu = larger(uu, HIDDEN);
    vv = larger(vv, HIDDEN);
    error = finish_error(uu, vv, magnitude_of(uu, vv) + underflow);
    return error != error ? INFINITY : error * (1.0 + 8.0 * UNIT) + underflow;
}

/* Lengths of some rows. */
struct row_sizes {
    double longest, shortest, ordinary_error;
    int is_ordinary, has_ordinary_error;
    /* By squared norm: factor, error of a kernel value, its relative error or -1. */
    const double (*by_norm)[3];
};

struct query_size {
    double factor, kernel_error, relative_error;
    int has_relative_error;
};

PART int is_safe(double squared_norm) { return squared_norm > 1e-25 && finish_is_ordinary(squared_norm); }

PART int is_ordinary_norm(double squared_norm) { return squared_norm >= 1e-20 && squared_norm < 1e20; }

PART struct query_size size_exactly(const struct row_sizes *rows, double squared_norm) {
    struct query_size size = {0, INFINITY, 0, 0};
    double shortest;
    squared_norm = larger(squared_norm, HIDDEN);
    size.factor = KERNEL_IS_SEMIDEFINITE
        ? sqrt(bound_value(squared_norm, squared_norm)) * (1.0 + 1e-15)
        : bound_value(squared_norm, rows->longest);
    if (rows->has_ordinary_error && is_ordinary_norm(squared_norm)) {
        size.has_relative_error = 1;
        size.relative_error = rows->ordinary_error;
        return size;
    }
    shortest = smaller(rows->shortest, rows->longest);
    size.kernel_error =
        larger(bound_error(squared_norm, rows->longest), bound_error(squared_norm, shortest));
    if (KERNEL_IS_SEMIDEFINITE && is_finite(size.kernel_error) && KERNEL_HAS_RELATIVE_ERROR) {
        size.has_relative_error = is_safe(smaller(squared_norm, shortest))
            && is_safe(larger(squared_norm, rows->longest));
        size.relative_error = KERNEL_RELATIVE_ERROR;
    }
    return size;
}

/* Looked up where the squared norm is an ordinary one. */
PART struct query_size size_of_query(const struct row_sizes *rows, double squared_norm) {
    if (is_ordinary_norm(squared_norm)) {
        const double *known = rows->by_norm[(bits_of(squared_norm) >> 50) - (bits_of(1e-20) >> 50)];
        struct query_size size;
        size.factor = known[0];
        size.kernel_error = known[1];
        size.relative_error = known[2];
        size.has_relative_error = known[2] >= 0;
        return size;
    }
    return size_exactly(rows, squared_norm);
}

