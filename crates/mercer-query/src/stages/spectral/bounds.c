struct quadratic {
    double factor, offset, constant, residual, defect, largest;
    int is_normalized;
    unsigned first, count, first_chunk, chunks;
};

struct checkpoint {
    double least, most, noise;
};

struct eigen_chunk {
    const double *vectors;
    unsigned first, rows;
    struct checkpoint checkpoint;
};

struct energy {
    double low, high;
    int is_known;
};

PART struct energy energy_of(const struct quadratic *form, double squared_norm, double relative) {
    const double sum = squared_norm + form->constant;
    struct energy energy;
    energy.low = sum * (1.0 - relative);
    energy.high = sum * (1.0 + relative);
    energy.is_known = energy.high >= 1e-200 && energy.high <= 1e250
        && energy.high * form->largest >= 1e-250 && relative < 0.01;
    return energy;
}

PART void prove_form(struct query *q, unsigned score, const struct quadratic *form,
                     const struct checkpoint *at, const struct energy *energy, double head, double spent) {
    const double g = energy->high;
    const double rest = at_least_zero((1.0 + form->defect) * g - spent + at->noise * g);
    const double error = 1.05 * (form->residual + form->largest * at->noise) * g;
    double low = head + at->least * rest - error;
    double high = head + at->most * rest + error;
    double slack;
    if (form->is_normalized) {
        low = smaller(low / energy->low, low / g);
        high = larger(high / energy->low, high / g);
    } else {
        low = form->factor * low;
        high = form->factor * high;
    }
    slack = 8.0 * UNIT * (larger(fabs(low), fabs(high)) + fabs(form->offset)) + DBL_MIN;
    prove(q, score, low - form->offset - slack, high - form->offset + slack);
}

/* Adds the products of a query with some eigenvectors, one after the other. */
PART void add_products(const double *products, const double *values, const double *shifts, unsigned count,
                       double *head, double *spent) {
    unsigned j;
    for (j = 0; j < count; j++) {
        const double y = products[j] + shifts[j];
        const double square = y * y;
        *head += values[j] * square;
        *spent += square;
    }
}

