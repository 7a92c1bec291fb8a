struct scale {
    double slope, shift, residual_rms;
};

/* Takes an estimate; answers the query if it is farther from a change of label than the threshold. */
PART void take_estimate(struct query *q, const struct scale *scale, double raw, int is_score, int label) {
    const double value = scale->slope * raw + scale->shift;
    double strength = (is_score ? fabs(value) : value) / scale->residual_rms;
    if (!is_finite(strength)) strength = 0.0;
    if (!is_finite(value)) return;
    q->estimate.label = is_score ? label_of_score(value) : label;
    q->estimate.value = 0;
    put_around(value, CALIBRATION_THRESHOLD * scale->residual_rms, &q->estimate.low, &q->estimate.high);
    q->has_estimate = 1;
    if (strength > CALIBRATION_THRESHOLD) answer(q, &q->estimate, MERCER_CALIBRATED);
}

/* The score if there is one, else the largest output and its lead over the second. */
PART void estimate_outputs(struct query *q, const struct scale *scale, const double *outputs, unsigned count) {
    double best = -INFINITY, second = -INFINITY, sum = 0;
    unsigned n;
    int label = 0;
    if (count == 1) {
        take_estimate(q, scale, outputs[0], 1, 0);
        return;
    }
    for (n = 0; n < count; n++) {
        sum += outputs[n];
        if (outputs[n] > best) {
            label = (int)n;
            second = best;
            best = outputs[n];
        } else {
            second = max_of(second, outputs[n]);
        }
    }
    take_estimate(q, scale, is_finite(sum) ? best - second : NAN, 0, label);
}

