/* Answers: decisions, scores and probabilities of all rows, as R vectors. */

#include "glue.h"

/* Columns of the answer of `mercer_r_decide`. */
enum { LABEL, CLASS, LOW, HIGH, CERTAINTY, COST, STAGE };

/* The vectors of an answer: R checks a vector each time it is asked for its numbers. */
typedef struct {
    double *label, *low, *high, *cost;
    int *class, *certainty, *stage;
} columns;

static columns columns_of(SEXP all) {
    columns found = {REAL(VECTOR_ELT(all, LABEL)),     REAL(VECTOR_ELT(all, LOW)),
                     REAL(VECTOR_ELT(all, HIGH)),      REAL(VECTOR_ELT(all, COST)),
                     INTEGER(VECTOR_ELT(all, CLASS)),  INTEGER(VECTOR_ELT(all, CERTAINTY)),
                     INTEGER(VECTOR_ELT(all, STAGE))};
    return found;
}

static void store(const columns *to, R_xlen_t at, const mercer_decision *decision) {
    to->label[at] = decision->label;
    to->class[at] = (int)decision->class_index + 1;
    to->low[at] = decision->low;
    to->high[at] = decision->high;
    to->certainty[at] = (int)decision->certainty + 1;
    to->cost[at] = (double)decision->cost;
    to->stage[at] = (int)decision->stage + 1;
}

/* What a caller allows; NA means what the model was tuned for. */
static mercer_query_options options_of(const mercer_model *model, SEXP given) {
    mercer_query_options options;
    must(mercer_query_options_of(model, &options));
    if (!Rf_isReal(given) || Rf_length(given) != 4) Rf_error("options are four numbers");
    const double *number = REAL(given);
    if (!ISNAN(number[0])) options.budget = (uint64_t)number[0];
    if (!ISNAN(number[1])) options.tolerance = number[1];
    if (!ISNAN(number[2])) options.threads = (size_t)number[2];
    options.has_threshold = !ISNAN(number[3]);
    options.threshold = options.has_threshold ? number[3] : 0;
    return options;
}

SEXP mercer_r_decide(SEXP pointer, SEXP rows, SEXP center, SEXP scale, SEXP options) {
    const mercer_model *model = model_of(pointer);
    queries all = queries_of(rows, center, scale);
    mercer_query_options allowed = options_of(model, options);
    const char *names[] = {"label", "class", "low", "high", "certainty", "cost", "stage", ""};
    const SEXPTYPE types[] = {REALSXP, INTSXP, REALSXP, REALSXP, INTSXP, REALSXP, INTSXP};
    SEXP answer = PROTECT(Rf_mkNamed(VECSXP, names));
    for (int i = 0; i < 7; i++) SET_VECTOR_ELT(answer, i, Rf_allocVector(types[i], all.count));
    const columns to = columns_of(answer);
    chunk_space space = space_for(&all, chunk_length(&all, 0));
    mercer_decision *found = (mercer_decision *)R_alloc((size_t)chunk_length(&all, 0) + 1, sizeof *found);
    for (R_xlen_t first = 0; first < all.count; first += CHUNK) {
        R_xlen_t length = chunk_length(&all, first);
        mercer_rows chunk = chunk_of(&all, first, length, &space);
        must_rows(mercer_decide(model, &chunk, &allowed, found), first);
        for (R_xlen_t i = 0; i < length; i++) store(&to, first + i, &found[i]);
    }
    UNPROTECT(1);
    return answer;
}

typedef mercer_status (*numbers_function)(const mercer_model *, const mercer_rows *, double *);

/* A matrix with `width` numbers for each row. */
static SEXP matrix_of(SEXP pointer, SEXP rows, SEXP center, SEXP scale, size_t width, numbers_function compute) {
    const mercer_model *model = model_of(pointer);
    queries all = queries_of(rows, center, scale);
    SEXP answer = PROTECT(Rf_allocMatrix(REALSXP, (int)all.count, (int)width));
    chunk_space space = space_for(&all, chunk_length(&all, 0));
    double *found = (double *)R_alloc((size_t)chunk_length(&all, 0) * width + 1, sizeof *found);
    for (R_xlen_t first = 0; first < all.count; first += CHUNK) {
        R_xlen_t length = chunk_length(&all, first);
        mercer_rows chunk = chunk_of(&all, first, length, &space);
        must_rows(compute(model, &chunk, found), first);
        for (R_xlen_t row = 0; row < length; row++)
            for (size_t column = 0; column < width; column++)
                REAL(answer)[(size_t)all.count * column + first + row] = found[(size_t)row * width + column];
    }
    UNPROTECT(1);
    return answer;
}

static mercer_info info_of(SEXP pointer) {
    mercer_info info;
    must(mercer_model_info(model_of(pointer), &info));
    return info;
}

SEXP mercer_r_scores(SEXP pointer, SEXP rows, SEXP center, SEXP scale) {
    return matrix_of(pointer, rows, center, scale, info_of(pointer).scores, mercer_scores);
}

SEXP mercer_r_probabilities(SEXP pointer, SEXP rows, SEXP center, SEXP scale) {
    return matrix_of(pointer, rows, center, scale, info_of(pointer).classes, mercer_probabilities);
}
