/* A bound on the distance between a query and a combination of vectors, or -1. */
static double distance_@(const struct projection *known, const unsigned *vectors, const double *weights,
                         unsigned count, double along, double square) {
    const double q = known->root;
    double sized = 0, plain = 0, among, rounding, errors, left, distance;
    unsigned n;
    if (!HAS_AMONG_@) return -1.0;
    for (n = 0; n < count; n++) {
        sized += fabs(weights[n]) * lengths_@[vectors[n]];
        plain += fabs(weights[n]);
    }
    among = IS_RELATIVE_@ ? sized * sized : plain * plain;
    rounding = gamma_of(2.0 * (double)count + 12.0) * ((q + 1.1 * sized) * (q + 1.1 * sized));
    errors = (2.0 * q * (known->relative * sized + known->absolute * plain) + AMONG_@ * among + rounding)
        * (1.0 + 1e-9);
    left = at_least_zero(q * q - 2.0 * along + square + errors);
    distance = sqrt(left) * (1.0 + 1e-12) + DBL_MIN;
    return is_finite(distance) ? distance : -1.0;
}

/* Ranges of all undecided scores, given a combination of vectors near the query. */
static void prove_near_@(struct query *query, const struct projection *known, const double *sums,
                         const unsigned *vectors, const double *weights, unsigned count, double distance) {
    unsigned char undecided[MERCER_SCORES];
    unsigned s, n;
    undecided_scores(query, undecided);
    for (s = 0; s < MERCER_SCORES; s++) {
        const double q = known->root, middle = sums[s] - offsets[s];
        const double from_kernel = q * (known->relative * sized_@[s] + known->absolute * plain_@[s]);
        const double chain = CHAIN_GAMMA_@ * 1.1 * q * sized_@[s];
        double slant = 0, half;
        if (!undecided[s]) continue;
        for (n = 0; n < count; n++) slant += fabs(weights[n]) * slants_@[(size_t)s * SIZE_@ + vectors[n]];
        half = (strays_@[s] * distance + from_kernel + chain + slant) * (1.0 + 1e-12)
            + 8.0 * UNIT * (fabs(sums[s]) + fabs(offsets[s])) + DBL_MIN;
        prove(query, s, next_down(middle - half), next_up(middle + half));
    }
    settle(query);
}

/* The vector of the largest K_j^2 / K_jj, the first of equals. */
static void by_one_@(struct query *q, const struct projection *known, const double *values, const double *sums) {
    double most = 0, weight, along, distance;
    unsigned n, nearest = 0;
    for (n = 0; n < SIZE_@; n++) {
        const double near = values[n] * values[n] * inverses_@[n];
        if (near > most) {
            most = near;
            nearest = n;
        }
    }
    if (!(most > 0 && is_finite(most))) return;
    weight = values[nearest] * inverses_@[nearest];
    along = weight * values[nearest];
    distance = distance_@(known, &nearest, &weight, 1, along, along);
    if (distance >= 0) prove_near_@(q, known, sums, &nearest, &weight, 1, distance);
}

/* A kernel value of two vectors. */
static double among_@(unsigned a, unsigned b) {
    double x[LIVE_@], values[8];
    unsigned c;
    for (c = 0; c < LIVE_@; c++) x[c] = vectors_@[((size_t)(a / 8 * 8) * LIVE_@) + 8 * (size_t)c + a % 8];
    kernel_values(vectors_@ + (size_t)(b / 8 * 8) * LIVE_@, norms_@ + b / 8 * 8, x, LIVE_@, norms_@[a], values);
    return values[b % 8];
}

/* Solves a small semidefinite system by Cholesky; returns whether it could. */
static int solve_@(double table[8][8], const double *right, unsigned count, double *x) {
    double factor[8][8] = {{0}};
    unsigned i, j, l;
    for (i = 0; i < count; i++) {
        double sum;
        for (j = 0; j <= i; j++) {
            sum = table[i][j] + (i == j ? 1e-10 * table[i][i] : 0.0);
            for (l = 0; l < j; l++) sum = sum - factor[i][l] * factor[j][l];
            if (i == j) {
                if (sum != sum || sum <= 0) return 0;
                factor[i][i] = sqrt(sum);
            } else {
                factor[i][j] = sum / factor[j][j];
            }
        }
        sum = right[i];
        for (l = 0; l < i; l++) sum = sum - factor[i][l] * x[l];
        x[i] = sum / factor[i][i];
    }
    for (i = count; i-- > 0;) {
        double sum = x[i];
        for (l = i + 1; l < count; l++) sum = sum - factor[l][i] * x[l];
        x[i] = sum / factor[i][i];
    }
    for (i = 0; i < count; i++)
        if (!is_finite(x[i])) return 0;
    return 1;
}

/* The best combination of the 8 nearest vectors. */
static void by_few_@(struct query *q, const struct projection *known, const double *values, const double *sums) {
    double nears[8] = {0}, table[8][8] = {{0}}, right[8] = {0}, x[8] = {0};
    double along = 0, square = 0, distance;
    unsigned few[8] = {0}, count = 0, n, a, b, place;
    for (n = 0; n < SIZE_@; n++) {
        const double near = values[n] * values[n] * inverses_@[n];
        if (near != near || near <= 0 || (count == 8 && near <= nears[7])) continue;
        if (count < 8) count++;
        place = count - 1;
        while (place > 0 && nears[place - 1] < near) {
            nears[place] = nears[place - 1];
            few[place] = few[place - 1];
            place--;
        }
        nears[place] = near;
        few[place] = n;
    }
    for (a = 0; a < count; a++) {
        for (b = 0; b < count; b++) table[a][b] = among_@(few[a], few[b]);
        right[a] = values[few[a]];
    }
    if (!solve_@(table, right, count, x)) return;
    for (a = 0; a < count; a++) {
        double inner = -0.0;
        along += x[a] * right[a];
        for (b = 0; b < count; b++) inner += x[b] * table[a][b];
        square += x[a] * inner;
    }
    distance = distance_@(known, few, x, count, along, square);
    if (distance >= 0) prove_near_@(q, known, sums, few, x, count, distance);
}

