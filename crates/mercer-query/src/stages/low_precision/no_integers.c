static int run_integers_@(struct query *q) {
    (void)q;
    return 0;
}

