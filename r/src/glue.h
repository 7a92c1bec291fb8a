/* What the files of the glue between R and libmercer share. */

#ifndef MERCER_R_GLUE_H
#define MERCER_R_GLUE_H

#include <mercer.h>

#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>

/* Rows of one call: columns of an R matrix, scaled as (x - center) / scale, or compressed rows. */
typedef struct {
    R_xlen_t count;
    size_t columns;
    const double *dense;  /* column after column, or NULL */
    const double *center; /* NULL: not scaled */
    const double *scale;
    const double *starts; /* compressed rows */
    const int *indices;
    const double *values;
} queries;

/* Rows that are handed to the library at once: R can be interrupted in between, and the arrays of a chunk are used again for
   the next one, so that their memory is in the cache. */
#define CHUNK ((R_xlen_t)1 << 14)

/* Arrays for one chunk, used again for the next. */
typedef struct {
    double *values;
    uint64_t *starts;
} chunk_space;

queries queries_of(SEXP rows, SEXP center, SEXP scale);
R_xlen_t chunk_length(const queries *all, R_xlen_t first);
/* Arrays that R frees at the end of the call. */
chunk_space space_for(const queries *all, R_xlen_t length);
mercer_rows chunk_of(const queries *all, R_xlen_t first, R_xlen_t length, chunk_space *space);

/* The model of an external pointer; an R error if it is dead. */
mercer_model *model_of(SEXP pointer);
/* An external pointer that owns the model. */
SEXP pointer_to(mercer_model *model);
/* An R error with the sentence of the library, unless the status is MERCER_OK. */
void must(mercer_status status);
/* As `must`, for rows from `first`. */
void must_rows(mercer_status status, R_xlen_t first);

SEXP mercer_r_abi(void);
SEXP mercer_r_compile(SEXP pointer, SEXP plan, SEXP rows, SEXP center, SEXP scale);
SEXP mercer_r_decide(SEXP pointer, SEXP rows, SEXP center, SEXP scale, SEXP options);
SEXP mercer_r_info(SEXP pointer);
SEXP mercer_r_is_alive(SEXP pointer);
SEXP mercer_r_open(SEXP path, SEXP trust);
SEXP mercer_r_probabilities(SEXP pointer, SEXP rows, SEXP center, SEXP scale);
SEXP mercer_r_read(SEXP bytes, SEXP trust);
SEXP mercer_r_save(SEXP pointer, SEXP path, SEXP format);
SEXP mercer_r_scores(SEXP pointer, SEXP rows, SEXP center, SEXP scale);
SEXP mercer_r_train(SEXP rows, SEXP targets, SEXP texts, SEXP numbers, SEXP class_labels, SEXP class_factors);
SEXP mercer_r_tune(SEXP pointer, SEXP rows, SEXP center, SEXP scale, SEXP contract, SEXP seconds);
SEXP mercer_r_verify(SEXP pointer, SEXP rows, SEXP center, SEXP scale);
SEXP mercer_r_write(SEXP pointer, SEXP format);

#endif
