/* ---- exact answers ---- */

struct rounding {
    double weight, self_weight, gamma, offset;
};

