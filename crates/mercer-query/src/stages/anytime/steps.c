/* What is known of a query that is projected onto vectors. */
struct projection {
    double root, inverse, relative, absolute;
    int is_known;
};

PART struct projection project_query(const struct row_sizes *sizes, double squared_norm, double relative) {
    struct projection known = {0, 0, 0, 0, 0};
    struct query_size size;
    double square;
    squared_norm = squared_norm * (1.0 + relative) + HIDDEN;
    if (!(sizes->is_ordinary && finish_is_ordinary(squared_norm))) return known;
    size = size_of_query(sizes, squared_norm);
    square = finish_self_bound(squared_norm) * (1.0 + 1e-15);
    if (!(square >= 1e-100 && square <= 1e100)) return known;
    known.root = sqrt(square) * (1.0 + 4.0 * UNIT);
    known.inverse = 1.0 / square;
    if (size.has_relative_error) known.relative = 1.01 * size.relative_error * larger(size.factor / known.root, 1.0);
    else known.absolute = 1.001 * size.kernel_error / known.root;
    known.is_known = is_finite(known.relative) && is_finite(known.absolute);
    return known;
}

/* The steps of a projection, one after the other: `count` coordinates from `first` on, of `total` in all. Each undecided score
 * is reported at the first step that may settle it, or else at the last. squares and errors are memory for `count` numbers. */
PART void run_steps(struct query *q, const struct projection *known, const double *coordinates, unsigned first,
                    unsigned count, unsigned total, const double *all_steps, const double *all_shared, double *spent,
                    double *sums, double *squares, double *errors) {
    unsigned char undecided[MERCER_SCORES];
    unsigned s, k, left = 0;
    undecided_scores(q, undecided);
    for (s = 0; s < MERCER_SCORES; s++) {
        const double *steps = all_steps + ((size_t)s * total + first) * 4;
        unsigned stop = count;
        double sum = 0, half, middle;
        for (k = 0; k < count; k++) {
            const double *step = steps + 4 * (size_t)k;
            double away, gap;
            sums[s] += step[0] * coordinates[k];
            if (!undecided[s] || stop < count) continue;
            if (left == k) {
                const double *shared = all_shared + 4 * ((size_t)first + k);
                const double error = shared[2] + known->relative * shared[1] + known->absolute * shared[0];
                const double noise = shared[3] + (2.1 + error) * error;
                *spent += coordinates[k] * coordinates[k];
                squares[k] = at_least_zero(1.0 - *spent * known->inverse + noise);
                errors[k] = error;
                left++;
            }
            away = fabs(sums[s] - offsets[s]) - known->root * (step[2] * errors[k] + step[3]);
            gap = step[1] * known->root;
            sum = sums[s];
            if (away > 0 && away * away > gap * gap * squares[k]) stop = k;
        }
        if (!undecided[s]) continue;
        k = stop < count ? stop : count - 1;
        if (errors[k] != errors[k] || errors[k] > 0.1) continue;
        half = known->root
            * (steps[4 * (size_t)k + 1] * sqrt(squares[k]) + steps[4 * (size_t)k + 2] * errors[k] + steps[4 * (size_t)k + 3])
            * (1.0 + 1e-12) + 8.0 * UNIT * (fabs(sum) + fabs(offsets[s])) + DBL_MIN;
        middle = sum - offsets[s];
        prove(q, s, next_down(middle - half), next_up(middle + half));
    }
    for (k = left; k < count; k++) *spent += coordinates[k] * coordinates[k];
    settle(q);
}

