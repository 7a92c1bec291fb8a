/* The routines that R may call. */

#include "glue.h"

#include <R_ext/Rdynload.h>

#define ROUTINE(name, arguments) {#name, (DL_FUNC)&mercer_r_##name, arguments}

static const R_CallMethodDef routines[] = {
    ROUTINE(abi, 0),           ROUTINE(compile, 5), ROUTINE(decide, 5), ROUTINE(info, 1),
    ROUTINE(is_alive, 1),      ROUTINE(open, 2),    ROUTINE(probabilities, 4), ROUTINE(read, 2),
    ROUTINE(save, 3),          ROUTINE(scores, 4),  ROUTINE(train, 6),  ROUTINE(tune, 6),
    ROUTINE(verify, 4),        ROUTINE(write, 2),   {NULL, NULL, 0},
};

void R_init_mercer(DllInfo *dll) {
    R_registerRoutines(dll, NULL, routines, NULL, NULL);
    R_useDynamicSymbols(dll, FALSE);
    R_forceSymbols(dll, TRUE);
}
