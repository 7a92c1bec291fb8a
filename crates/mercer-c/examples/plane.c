/* Trains on points of the plane, makes certified answers fast, and prints some of them.
 *
 *   cc -I include examples/plane.c -lmercer -o example && ./example */
#include <stdio.h>
#include <stdlib.h>

#include "mercer.h"

static void stop_if(int failed) {
    if (failed) {
        fprintf(stderr, "error: %s\n", mercer_last_error());
        exit(1);
    }
}

int main(void) {
    enum { ROWS = 400 };
    static double points[2 * ROWS], labels[ROWS];
    for (int i = 0; i < ROWS; i++) {
        double x = (i % 20) / 10.0 - 1.0, y = (i / 20) / 10.0 - 1.0;
        points[2 * i] = x;
        points[2 * i + 1] = y;
        labels[i] = x * x + y * y < 0.5 ? 1 : -1;
    }
    mercer_rows rows = mercer_dense(points, ROWS, 2);

    mercer_training training = mercer_training_default();
    mercer_training_report report;
    mercer_model *model, *fast;
    stop_if(mercer_train(&rows, labels, &training, &model, &report) != MERCER_OK);
    printf("%zu supports, %llu iterations\n", report.supports, (unsigned long long)report.iterations);

    /* The same labels, proved, from integers first. */
    const char *plan = "cascade(low_precision, exact)";
    stop_if(mercer_compile(model, plan, NULL, NULL, NULL, &fast) != MERCER_OK);
    mercer_decision decisions[3];
    double queries[] = {0.0, 0.0, 0.9, 0.9, 0.5, 0.49};
    mercer_rows asked = mercer_dense(queries, 3, 2);
    stop_if(mercer_decide(fast, &asked, NULL, decisions) != MERCER_OK);
    for (int i = 0; i < 3; i++) {
        printf("label %2.0f, score in [%.4f, %.4f], %s, %llu multiply-adds\n", decisions[i].label,
               decisions[i].low, decisions[i].high,
               decisions[i].certainty == MERCER_CERTIFIED ? "certified" : "exact",
               (unsigned long long)decisions[i].cost);
    }
    mercer_model_free(fast);
    mercer_model_free(model);
    puts("done");
    return 0;
}
