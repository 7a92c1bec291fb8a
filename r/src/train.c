/* Training and plans: rows and texts in, a new model out. */

#include "glue.h"

/* All rows of a call at once. */
static mercer_rows whole(const queries *all) {
    chunk_space space = space_for(all, all->count);
    return chunk_of(all, 0, all->count, &space);
}

static const char *text_or_null(SEXP texts, R_xlen_t at) {
    return STRING_ELT(texts, at) == NA_STRING ? NULL : CHAR(STRING_ELT(texts, at));
}

SEXP mercer_r_train(SEXP rows, SEXP targets, SEXP texts, SEXP numbers, SEXP class_labels, SEXP class_factors) {
    queries all = queries_of(rows, R_NilValue, R_NilValue);
    if (targets != R_NilValue && (TYPEOF(targets) != REALSXP || XLENGTH(targets) != all.count))
        Rf_error("there is not one target for each row");
    if (XLENGTH(class_labels) != XLENGTH(class_factors)) Rf_error("there is not one weight for each class");
    mercer_training training = mercer_training_default();
    training.kernel = text_or_null(texts, 0);
    training.formulation = text_or_null(texts, 1);
    training.solver = text_or_null(texts, 2);
    training.tolerance = REAL(numbers)[0];
    training.memory = (size_t)REAL(numbers)[1];
    training.threads = (size_t)REAL(numbers)[2];
    training.class_weights = (size_t)XLENGTH(class_labels);
    training.class_labels = REAL(class_labels);
    training.class_factors = REAL(class_factors);
    mercer_rows examples = whole(&all);
    mercer_training_report report;
    mercer_model *model = NULL;
    must(mercer_train(&examples, targets == R_NilValue ? NULL : REAL(targets), &training, &model, &report));
    SEXP pointer = PROTECT(pointer_to(model));
    const char *names[] = {"pointer", "converged", "iterations", "objective", "gap", "bounded", "seconds", ""};
    SEXP answer = PROTECT(Rf_mkNamed(VECSXP, names));
    SET_VECTOR_ELT(answer, 0, pointer);
    SET_VECTOR_ELT(answer, 1, Rf_ScalarLogical(report.converged));
    SET_VECTOR_ELT(answer, 2, Rf_ScalarReal((double)report.iterations));
    SET_VECTOR_ELT(answer, 3, Rf_ScalarReal(report.objective));
    SET_VECTOR_ELT(answer, 4, Rf_ScalarReal(report.gap));
    SET_VECTOR_ELT(answer, 5, Rf_ScalarReal((double)report.bounded));
    SET_VECTOR_ELT(answer, 6, Rf_ScalarReal(report.seconds));
    UNPROTECT(2);
    return answer;
}

SEXP mercer_r_tune(SEXP pointer, SEXP rows, SEXP center, SEXP scale, SEXP contract, SEXP seconds) {
    const mercer_model *model = model_of(pointer);
    queries all = queries_of(rows, center, scale);
    mercer_rows sample = whole(&all);
    mercer_model *tuned = NULL;
    must(mercer_tune(model, &sample, CHAR(STRING_ELT(contract, 0)), Rf_asReal(seconds), NULL, NULL, &tuned));
    return pointer_to(tuned);
}

SEXP mercer_r_compile(SEXP pointer, SEXP plan, SEXP rows, SEXP center, SEXP scale) {
    const mercer_model *model = model_of(pointer);
    const char *text = CHAR(STRING_ELT(plan, 0));
    mercer_model *compiled = NULL;
    if (rows == R_NilValue) {
        must(mercer_compile(model, text, NULL, NULL, NULL, &compiled));
    } else {
        queries all = queries_of(rows, center, scale);
        mercer_rows sample = whole(&all);
        must(mercer_compile(model, text, &sample, NULL, NULL, &compiled));
    }
    return pointer_to(compiled);
}

SEXP mercer_r_verify(SEXP pointer, SEXP rows, SEXP center, SEXP scale) {
    const mercer_model *model = model_of(pointer);
    mercer_model *verified = NULL;
    if (rows == R_NilValue) {
        must(mercer_verify(model, NULL, &verified));
    } else {
        queries all = queries_of(rows, center, scale);
        mercer_rows sample = whole(&all);
        must(mercer_verify(model, &sample, &verified));
    }
    return pointer_to(verified);
}
