/* The bound of all vectors: the steps of a projection. */
static void by_all_@(struct query *q, const struct projection *known, const double *values) {
    double coordinates[SIZE_@], squares[SIZE_@], errors[SIZE_@], sums[MERCER_SCORES] = {0}, spent = 0;
    const double *row = triangle_@;
    unsigned k, j;
    for (k = 0; k < SIZE_@; row += ++k) {
        double sum = 0;
        for (j = 0; j <= k; j++) sum = fma(row[j], values[j], sum);
        coordinates[k] = sum + 0.0;
    }
    run_steps(q, known, coordinates, 0, SIZE_@, SIZE_@, steps_@, shared_steps_@, &spent, sums, squares, errors);
}

#define BY_ALL_@(q, known, values) \
    do { \
        if (charge(q, ALL_COST_@)) by_all_@(q, known, values); \
    } while (0)

