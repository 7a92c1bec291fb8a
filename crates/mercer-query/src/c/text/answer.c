int mercer_answer(const double *row, struct mercer_decision *decision) {
    struct query q;
    double memory[PREPARED_NUMBERS];
    const int failure = prepare(&q, row, memory);
    if (failure) return failure;
    q.decision = decision;
