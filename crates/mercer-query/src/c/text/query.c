/* ---- a query on its way through the stages ---- */

enum mercer_certainty { MERCER_UNSETTLED, MERCER_CALIBRATED, MERCER_CERTIFIED, MERCER_EXACT };

/* What mercer_answer returns instead of 0. */
enum mercer_failure { MERCER_NOT_FINITE = 1, MERCER_NEGATIVE = 2 };

struct mercer_decision {
    int label;          /* position in mercer_names; 1 or -1 for novelty; 0 for values */
    double value;       /* the value of a regression */
    double low, high;   /* range of the score, or of the margin of several classes */
    int certainty;      /* one of enum mercer_certainty */
    uint64_t cost;      /* multiply-adds */
    unsigned stage;     /* position of the stage that answered; the exact one is the last */
};

struct outcome {
    int label;
    double value, low, high;
};

struct query {
    const double *row;
    const double *centred;
    double live[MERCER_LIVE];
    double norm;            /* squared norm, one chain */
    double squared_norm;    /* the same in eight sums, for bounds */
    int has_bounds;
    double low[MERCER_SCORES], high[MERCER_SCORES], bound[MERCER_SCORES];
    struct outcome estimate;
    int has_estimate, is_answered;
    uint64_t cost;
    unsigned stage;
    struct mercer_decision *decision;
};

PART void answer(struct query *q, const struct outcome *outcome, int certainty) {
    struct mercer_decision *decision = q->decision;
    decision->label = outcome->label;
    decision->value = outcome->value;
    decision->low = outcome->low;
    decision->high = outcome->high;
    decision->certainty = certainty;
    decision->cost = q->cost;
    decision->stage = q->stage;
    q->is_answered = 1;
}

PART void put_around(double middle, double half, double *low, double *high) {
    *low = next_down(middle - half);
    *high = next_up(middle + half);
}

