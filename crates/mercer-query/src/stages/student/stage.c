static void stage_@(struct query *q) {
    float all[WIDEST_@], y[WIDEST_@];
    double outputs[OUTPUTS_@];
    const float *forms = forms_@, *lines = lines_@;
    unsigned level, n, known = 0;
    for (level = 0; level < LEVELS_@; level++) {
        const unsigned size = level_sizes_@[level], width = (size + 15) / 16 * 16;
        if (!charge(q, costs_@[level])) return;
        for (; known < width; known += 16) PROJECT_@(q, strips_@ + (size_t)known * MERCER_LIVE_COLUMNS, all + known);
        for (n = 0; n < width; n++) y[n] = n < size ? all[n] : 0.0f;
        for (n = 0; n < OUTPUTS_@; n++) {
            outputs[n] = quadratic_form(size, width, forms, lines, y) + constants_@[level * OUTPUTS_@ + n];
            forms += (size_t)size * width;
            lines += width;
        }
        ESTIMATE_@(level, outputs, OUTPUTS_@);
        if (q->is_answered) return;
    }
}

