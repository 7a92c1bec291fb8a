static void single_rounds_@(struct query *q, const struct energy *energies) {
    (void)q;
    (void)energies;
}

