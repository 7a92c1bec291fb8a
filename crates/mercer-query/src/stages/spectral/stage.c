static void stage_@(struct query *q) {
    struct energy energies[MERCER_SCORES];
    double head[MERCER_SCORES] = {0}, spent[MERCER_SCORES] = {0}, products_of[WIDEST_@];
    unsigned char undecided[MERCER_SCORES], runs[MERCER_SCORES];
    unsigned round, s, first;
    need_bounds(q);
    for (s = 0; s < MERCER_SCORES; s++) energies[s] = energy_of(&forms_@[s], q->squared_norm, RELATIVE_@);
    single_rounds_@(q, energies);
    if (q->is_answered) return;
    for (round = 0; round + 1 <= ROUNDS_@; round++) {
        int any = 0;
        undecided_scores(q, undecided);
        for (s = 0; s < MERCER_SCORES; s++) {
            const struct quadratic *form = &forms_@[s];
            runs[s] = undecided[s] && round < form->chunks && energies[s].is_known;
            if (!runs[s]) continue;
            if (!charge(q, (uint64_t)chunks_@[form->first_chunk + round].rows * MERCER_COLUMNS)) return;
            any = 1;
        }
        if (!any) return;
        for (s = 0; s < MERCER_SCORES; s++) {
            const struct quadratic *form = &forms_@[s];
            const struct eigen_chunk *chunk = &chunks_@[form->first_chunk + round];
            if (!runs[s]) continue;
            for (first = 0; first < chunk->rows; first += 8)
                products(chunk->vectors + (size_t)first * MERCER_LIVE_COLUMNS, q->live, MERCER_LIVE_COLUMNS,
                         products_of + first);
            add_products(products_of, eigenvalues_@ + form->first + chunk->first,
                         shifts_@ + form->first + chunk->first, chunk->rows, &head[s], &spent[s]);
            prove_form(q, s, form, &chunk->checkpoint, &energies[s], head[s], spent[s]);
        }
        if (!settle(q)) return;
    }
}

