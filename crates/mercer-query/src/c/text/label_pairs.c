PART int label_of_score(double score) { (void)score; return 0; }

/* Whether the exact score is positive (1), not (0), or unknown (-1). */
PART int is_positive(const struct query *q, unsigned score) {
    if (q->low[score] > q->bound[score]) return 1;
    return q->high[score] < -q->bound[score] ? 0 : -1;
}

/* Fewest and most votes of each class. */
struct votes {
    unsigned fewest[MERCER_CLASSES], most[MERCER_CLASSES];
};

PART void count_votes(const struct query *q, struct votes *votes) {
    unsigned i, j, at = 0;
    memset(votes, 0, sizeof *votes);
    for (i = 0; i < MERCER_CLASSES; i++)
        for (j = i + 1; j < MERCER_CLASSES; j++) {
            const int sign = is_positive(q, at++);
            votes->fewest[i] += sign == 1;
            votes->fewest[j] += sign == 0;
            votes->most[i] += sign != 0;
            votes->most[j] += sign != 1;
        }
}

PART int surely_beats(const struct votes *votes, unsigned candidate, unsigned other) {
    return votes->fewest[candidate] > votes->most[other]
        || (votes->fewest[candidate] == votes->most[other] && candidate < other);
}

PART void put_margin(const struct query *q, unsigned candidate, struct outcome *out) {
    unsigned i, j, at = 0;
    out->low = INFINITY;
    out->high = INFINITY;
    for (i = 0; i < MERCER_CLASSES; i++)
        for (j = i + 1; j < MERCER_CLASSES; j++, at++) {
            if (i == candidate) {
                out->low = min_of(out->low, q->low[at]);
                out->high = min_of(out->high, q->high[at]);
            } else if (j == candidate) {
                out->low = min_of(out->low, -q->high[at]);
                out->high = min_of(out->high, -q->low[at]);
            }
        }
}

PART int settled(const struct query *q, struct outcome *out) {
    struct votes votes;
    unsigned candidate, other;
    count_votes(q, &votes);
    for (candidate = 0; candidate < MERCER_CLASSES; candidate++) {
        for (other = 0; other < MERCER_CLASSES; other++)
            if (other != candidate && !surely_beats(&votes, candidate, other)) break;
        if (other == MERCER_CLASSES) {
            out->label = (int)candidate;
            out->value = 0;
            put_margin(q, candidate, out);
            return 1;
        }
    }
    return 0;
}

/* The scores that can still change the answer. */
PART void undecided_scores(const struct query *q, unsigned char *undecided) {
    struct votes votes;
    unsigned char may_win[MERCER_CLASSES];
    unsigned i, j, at = 0;
    count_votes(q, &votes);
    for (i = 0; i < MERCER_CLASSES; i++) {
        may_win[i] = 1;
        for (j = 0; j < MERCER_CLASSES; j++)
            if (j != i && surely_beats(&votes, j, i)) may_win[i] = 0;
    }
    for (i = 0; i < MERCER_CLASSES; i++)
        for (j = i + 1; j < MERCER_CLASSES; j++, at++)
            undecided[at] = is_positive(q, at) < 0 && (may_win[i] || may_win[j]);
}

PART unsigned vote(const double *scores, const unsigned char *is_known) {
    unsigned votes[MERCER_CLASSES] = {0};
    unsigned i, j, at = 0, best = 0;
    for (i = 0; i < MERCER_CLASSES; i++)
        for (j = i + 1; j < MERCER_CLASSES; j++, at++)
            if (is_known[at]) votes[scores[at] > 0 ? i : j]++;
    for (i = 1; i < MERCER_CLASSES; i++)
        if (votes[i] > votes[best]) best = i;
    return best;
}

PART void best_estimate(const struct query *q, struct outcome *out) {
    double middles[MERCER_SCORES];
    unsigned char is_known[MERCER_SCORES];
    unsigned s, known = 0;
    for (s = 0; s < MERCER_SCORES; s++) {
        middles[s] = q->low[s] / 2.0 + q->high[s] / 2.0;
        is_known[s] = (unsigned char)is_finite(middles[s]);
        known += is_known[s];
    }
    for (s = 0; known == 0 && s < MERCER_SCORES; s++) {
        middles[s] = -offsets[s];
        is_known[s] = 1;
    }
    s = vote(middles, is_known);
    out->label = (int)s;
    out->value = 0;
    put_margin(q, s, out);
}

PART void exact_outcome(const double *scores, const struct query_size *size, struct outcome *out) {
    unsigned char is_known[MERCER_SCORES];
    double margin = INFINITY, bound = 0;
    unsigned i, j, at = 0, winner;
    memset(is_known, 1, sizeof is_known);
    winner = vote(scores, is_known);
    for (i = 0; i < MERCER_CLASSES; i++)
        for (j = i + 1; j < MERCER_CLASSES; j++, at++) {
            if (i != winner && j != winner) continue;
            margin = min_of(margin, i == winner ? scores[at] : -scores[at]);
            bound = larger(bound, rounding_bound(at, size));
        }
    out->label = (int)winner;
    out->value = 0;
    put_around(margin, bound, &out->low, &out->high);
}

