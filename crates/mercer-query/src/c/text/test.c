int main(void) {
    int t, wrong = 0;
    for (t = 0; t < TESTS; t++) {
        const struct mercer_decision *e = test_answers + t;
        struct mercer_decision d;
        memset(&d, 0, sizeof d);
        if (mercer_answer(test_rows + (long)t * MERCER_COLUMNS, &d) != 0 || d.label != e->label
            || bits_of(d.value) != bits_of(e->value) || bits_of(d.low) != bits_of(e->low)
            || bits_of(d.high) != bits_of(e->high) || d.certainty != e->certainty || d.cost != e->cost
            || d.stage != e->stage)
            wrong++;
    }
    printf("%d of %d wrong\n", wrong, TESTS);
    return wrong != 0;
}
#endif
