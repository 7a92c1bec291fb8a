/* Models as external pointers: opened, described, written, freed. Their answers are in answer.c. */

#include "glue.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A model and the process that opened it. */
typedef struct {
    mercer_model *model;
    pid_t process;
} handle;

static SEXP tag(void) { return Rf_install("mercer_model"); }

void must(mercer_status status) {
    if (status != MERCER_OK) Rf_errorcall(R_NilValue, "%s", mercer_last_error());
}

void must_rows(mercer_status status, R_xlen_t first) {
    if (status != MERCER_OK && first > 0)
        Rf_errorcall(R_NilValue, "in the rows after %.0f: %s", (double)first, mercer_last_error());
    must(status);
}

static void finalize(SEXP pointer) {
    handle *kept = R_ExternalPtrAddr(pointer);
    if (kept == NULL) return;
    R_ClearExternalPtr(pointer);
    /* The threads of a model did not come along into a forked process; it is left to the process's end. */
    if (kept->process == getpid()) mercer_model_free(kept->model);
    free(kept);
}

SEXP pointer_to(mercer_model *model) {
    handle *kept = malloc(sizeof *kept);
    if (kept == NULL) {
        mercer_model_free(model);
        Rf_error("no memory for a handle");
    }
    kept->model = model;
    kept->process = getpid();
    SEXP pointer = PROTECT(R_MakeExternalPtr(kept, tag(), R_NilValue));
    R_RegisterCFinalizerEx(pointer, finalize, TRUE);
    UNPROTECT(1);
    return pointer;
}

/* A model of its own for a forked process (parallel::mclapply), whose threads would be missing otherwise. */
static void reopen(handle *kept) {
    uint8_t *bytes = NULL;
    size_t length = 0;
    mercer_model *model = NULL;
    const char *left_out = mercer_model_text(kept->model, MERCER_LEFT_OUT);
    bool is_whole = left_out == NULL || left_out[0] == '\0';
    must(mercer_model_write(kept->model, "mercer", &bytes, &length));
    mercer_status status = mercer_model_read(bytes, length, is_whole, &model);
    mercer_bytes_free(bytes, length);
    must(status);
    kept->model = model;
    kept->process = getpid();
}

static handle *handle_of(SEXP pointer) {
    if (TYPEOF(pointer) != EXTPTRSXP || R_ExternalPtrTag(pointer) != tag())
        Rf_error("this is not a model of mercer");
    return R_ExternalPtrAddr(pointer);
}

mercer_model *model_of(SEXP pointer) {
    handle *kept = handle_of(pointer);
    if (kept == NULL)
        Rf_errorcall(R_NilValue, "the model is gone: R's own save() and saveRDS() keep only a dead pointer to it; "
                                 "use save_model() and load_model()");
    if (kept->process != getpid()) reopen(kept);
    return kept->model;
}

SEXP mercer_r_is_alive(SEXP pointer) { return Rf_ScalarLogical(handle_of(pointer) != NULL); }

SEXP mercer_r_abi(void) {
    int is_right = mercer_abi_version() == MERCER_ABI_VERSION;
    return Rf_ScalarLogical(is_right);
}

SEXP mercer_r_open(SEXP path, SEXP trust) {
    mercer_model *model = NULL;
    must(mercer_model_open(CHAR(STRING_ELT(path, 0)), Rf_asLogical(trust) == TRUE, &model));
    return pointer_to(model);
}

SEXP mercer_r_read(SEXP bytes, SEXP trust) {
    mercer_model *model = NULL;
    must(mercer_model_read(RAW(bytes), (size_t)XLENGTH(bytes), Rf_asLogical(trust) == TRUE, &model));
    return pointer_to(model);
}

SEXP mercer_r_save(SEXP pointer, SEXP path, SEXP format) {
    must(mercer_model_save(model_of(pointer), CHAR(STRING_ELT(path, 0)), CHAR(STRING_ELT(format, 0))));
    return R_NilValue;
}

/* The bytes of a model, kept until `raw_of` is done with them, whether it ends well or not. */
typedef struct {
    uint8_t *bytes;
    size_t length;
} owned_bytes;

static SEXP raw_of(void *data) {
    owned_bytes *owned = data;
    SEXP raw = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)owned->length));
    memcpy(RAW(raw), owned->bytes, owned->length);
    UNPROTECT(1);
    return raw;
}

static void free_owned(void *data) {
    owned_bytes *owned = data;
    mercer_bytes_free(owned->bytes, owned->length);
}

SEXP mercer_r_write(SEXP pointer, SEXP format) {
    owned_bytes owned = {NULL, 0};
    must(mercer_model_write(model_of(pointer), CHAR(STRING_ELT(format, 0)), &owned.bytes, &owned.length));
    return R_ExecWithCleanup(raw_of, &owned, free_owned, &owned);
}

static SEXP text(const char *found) {
    return found == NULL ? NA_STRING : Rf_mkCharCE(found, CE_UTF8);
}

static SEXP names_of_classes(const mercer_model *model, size_t count) {
    SEXP names = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)count));
    for (size_t i = 0; i < count; i++) SET_STRING_ELT(names, (R_xlen_t)i, text(mercer_model_class(model, i)));
    UNPROTECT(1);
    return names;
}

SEXP mercer_r_info(SEXP pointer) {
    const mercer_model *model = model_of(pointer);
    mercer_info info;
    must(mercer_model_info(model, &info));
    const char *names[] = {"output", "classes", "scores", "supports", "columns", "has_probabilities",
                           "bytes",  "kernel",  "plan",   "contract", "digest",  "left_out", ""};
    SEXP all = PROTECT(Rf_mkNamed(VECSXP, names));
    const char *outputs[] = {"classes", "value", "novelty"};
    SET_VECTOR_ELT(all, 0, Rf_mkString(outputs[info.output]));
    SET_VECTOR_ELT(all, 1, names_of_classes(model, info.classes));
    SET_VECTOR_ELT(all, 2, Rf_ScalarReal((double)info.scores));
    SET_VECTOR_ELT(all, 3, Rf_ScalarReal((double)info.supports));
    SET_VECTOR_ELT(all, 4, Rf_ScalarReal((double)info.columns));
    SET_VECTOR_ELT(all, 5, Rf_ScalarLogical(info.has_probabilities));
    SET_VECTOR_ELT(all, 6, Rf_ScalarReal((double)info.bytes));
    const uint32_t texts[] = {MERCER_KERNEL, MERCER_PLAN_TEXT, MERCER_CONTRACT, MERCER_DIGEST, MERCER_LEFT_OUT};
    for (int i = 0; i < 5; i++)
        SET_VECTOR_ELT(all, 7 + i, Rf_ScalarString(text(mercer_model_text(model, texts[i]))));
    UNPROTECT(1);
    return all;
}
