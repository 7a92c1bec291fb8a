/* The cell of a place that holds a positive value. */
static unsigned cell_@(unsigned place, double value) {
    const unsigned first = firsts_@[place], count = firsts_@[place + 1] - first;
    const double *nodes = nodes_@ + first;
    const unsigned *before = before_@ + first + place;
    const double share = sqrt(value * scales_@[place]) * (double)count;
    const unsigned bucket = share >= (double)(count - 1) ? count - 1 : share > 0 ? (unsigned)share : 0;
    unsigned low = before[bucket], high = before[bucket + 1];
    while (low < high) {
        const unsigned middle = low + (high - low) / 2;
        if (nodes[middle] <= value) low = middle + 1;
        else high = middle;
    }
    return first + low - 1;
}

static void stage_@(struct query *q) {
    double lines[MERCER_SCORES] = {0}, radii[MERCER_SCORES] = {0};
    unsigned char undecided[MERCER_SCORES];
    unsigned place, s;
    need_bounds(q);
    if (!charge(q, COST_@)) return;
    for (place = 0; place + 1 <= PLACES_@; place++) {
        const double value = q->row[columns_@[place]];
        unsigned cell;
        double step;
        const double *numbers;
        if (value == 0) continue;
        cell = cell_@(place, value);
        step = value - nodes_@[cell];
        numbers = cells_@ + (size_t)cell * 3 * MERCER_SCORES;
        for (s = 0; s < MERCER_SCORES; s++) lines[s] += numbers[MERCER_SCORES + s] * step + numbers[s];
        for (s = 0; s < MERCER_SCORES; s++) radii[s] += numbers[2 * MERCER_SCORES + s];
    }
    undecided_scores(q, undecided);
    for (s = 0; s < MERCER_SCORES; s++) {
        const double score = lines[s] - offsets[s];
        const double noise = 4.0 * UNIT * (fabs(lines[s]) + fabs(offsets[s]));
        const double half = (radii[s] * (1.0 + GAMMA_@) + noise) * (1.0 + 4.0 * UNIT);
        if (undecided[s]) prove(q, s, next_down(score - half), next_up(score + half));
    }
    settle(q);
}

