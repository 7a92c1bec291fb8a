/* Rows of R for the library: columns become rows, scaled on the way, chunk by chunk. */

#include "glue.h"

#include <string.h>

/* An element of a list by its name. */
static SEXP element(SEXP list, const char *name) {
    SEXP names = Rf_getAttrib(list, R_NamesSymbol);
    for (R_xlen_t i = 0; i < XLENGTH(list) && names != R_NilValue; i++)
        if (strcmp(CHAR(STRING_ELT(names, i)), name) == 0) return VECTOR_ELT(list, i);
    Rf_error("rows have no '%s'", name);
}

static queries compressed(SEXP rows) {
    SEXP starts = element(rows, "starts"), indices = element(rows, "indices"), values = element(rows, "values");
    if (TYPEOF(starts) != REALSXP || TYPEOF(indices) != INTSXP || TYPEOF(values) != REALSXP || XLENGTH(starts) < 1)
        Rf_error("compressed rows have the wrong types");
    queries all = {XLENGTH(starts) - 1, (size_t)Rf_asReal(element(rows, "columns")), NULL, NULL, NULL,
                   REAL(starts), INTEGER(indices), REAL(values)};
    /* The library reads what the starts say; they must not point beyond the arrays. */
    double before = 0;
    for (R_xlen_t i = 0; i <= all.count; i++) {
        if (!(all.starts[i] >= before) || (i == 0 && all.starts[0] != 0))
            Rf_error("row %.0f begins before the one before it ends", (double)i + 1);
        before = all.starts[i];
    }
    if (before > (double)XLENGTH(indices) || XLENGTH(indices) != XLENGTH(values))
        Rf_error("compressed rows have fewer values than they say");
    return all;
}

queries queries_of(SEXP rows, SEXP center, SEXP scale) {
    if (TYPEOF(rows) == VECSXP) return compressed(rows);
    SEXP sizes = Rf_getAttrib(rows, R_DimSymbol);
    if (TYPEOF(rows) != REALSXP || XLENGTH(sizes) != 2) Rf_error("rows are a matrix of numbers");
    queries all = {INTEGER(sizes)[0], (size_t)INTEGER(sizes)[1], REAL(rows), NULL, NULL, NULL, NULL, NULL};
    if (center != R_NilValue) {
        if (TYPEOF(center) != REALSXP || TYPEOF(scale) != REALSXP || (size_t)XLENGTH(center) != all.columns ||
            (size_t)XLENGTH(scale) != all.columns)
            Rf_error("the scaling does not have a number for each column");
        all.center = REAL(center);
        all.scale = REAL(scale);
    }
    return all;
}

R_xlen_t chunk_length(const queries *all, R_xlen_t first) {
    R_xlen_t left = all->count - first;
    return left < CHUNK ? left : CHUNK;
}

chunk_space space_for(const queries *all, R_xlen_t length) {
    size_t most = (size_t)length;
    chunk_space space = {NULL, NULL};
    if (all->dense != NULL)
        space.values = (double *)R_alloc(most * all->columns + 1, sizeof(double));
    else
        space.starts = (uint64_t *)R_alloc(most + 1, sizeof(uint64_t));
    return space;
}

mercer_rows chunk_of(const queries *all, R_xlen_t first, R_xlen_t length, chunk_space *space) {
    R_CheckUserInterrupt();
    if (all->dense == NULL) {
        double base = all->starts[first];
        for (R_xlen_t i = 0; i <= length; i++) space->starts[i] = (uint64_t)(all->starts[first + i] - base);
        return mercer_csr(space->starts, (const uint32_t *)all->indices + (size_t)base, all->values + (size_t)base,
                          (size_t)length, all->columns);
    }
    /* Blocks of rows, so that both the columns read and the rows written stay in the cache. */
    const R_xlen_t block = 256;
    for (R_xlen_t from = 0; from < length; from += block) {
        R_xlen_t end = from + block < length ? from + block : length;
        for (size_t column = 0; column < all->columns; column++) {
            const double *source = all->dense + (size_t)all->count * column + first;
            double center = all->center ? all->center[column] : 0, scale = all->scale ? all->scale[column] : 1;
            for (R_xlen_t row = from; row < end; row++)
                space->values[(size_t)row * all->columns + column] =
                    all->center ? (source[row] - center) / scale : source[row];
        }
    }
    return mercer_dense(space->values, (size_t)length, all->columns);
}
