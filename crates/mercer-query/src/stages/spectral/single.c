static void single_rounds_@(struct query *q, const struct energy *energies) {
    double head[MERCER_SCORES] = {0}, spent[MERCER_SCORES] = {0};
    unsigned round, s, j;
    for (round = 0; round < SINGLE_ROUNDS_@; round++) {
        if (!charge(q, single_costs_@[round])) return;
        for (s = 0; s < MERCER_SCORES; s++) {
            const struct quadratic *form = &forms_@[s];
            const unsigned chunk = round * MERCER_SCORES + s, first = round * 16;
            float coordinates[16];
            double products[16];
            unsigned count;
            if (!(energies[s].is_known && energies[s].low >= 1e-20 && energies[s].high <= 1e20)) continue;
            if (first >= form->count) continue;
            count = form->count - first < 16 ? form->count - first : 16;
            PROJECT_@(q, strips_@ + (size_t)chunk * 16 * MERCER_LIVE_COLUMNS, coordinates);
            for (j = 0; j < count; j++) products[j] = (double)coordinates[j];
            add_products(products, eigenvalues_@ + form->first + first, shifts_@ + form->first + first, count,
                         &head[s], &spent[s]);
            prove_form(q, s, form, &single_checkpoints_@[chunk], &energies[s], head[s], spent[s]);
        }
        if (!settle(q)) return;
    }
}

