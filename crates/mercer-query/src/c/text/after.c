    return answer_exactly(&q);
}

int mercer_decide(const double *row) {
    struct mercer_decision decision;
    return mercer_answer(row, &decision) ? -2 : decision.label;
}

int mercer_scores(const double *row, double *scores) {
    struct query q;
    double memory[PREPARED_NUMBERS];
    const int failure = prepare(&q, row, memory);
    unsigned s;
    if (failure) return failure;
    exact_scores(&q, scores);
    for (s = 0; s < MERCER_SCORES; s++)
        if (!is_finite(scores[s])) return MERCER_NOT_FINITE;
    return 0;
}

