/* What the C library promises, checked as a program in C sees it. Prints "done" if all holds. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mercer.h"

#define CHECK(what)                                                                   \
    do {                                                                              \
        if (!(what)) {                                                                \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, mercer_last_error()); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

enum { ROWS = 200, COLUMNS = 3, THREADS = 4 };
static double values[ROWS * COLUMNS];
static double targets[ROWS];

static double next_number(void) {
    static unsigned long long state = 1;
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (double)(state >> 11) / 9007199254740992.0 * 4.0 - 2.0;
}

static void make_rows(void) {
    for (int row = 0; row < ROWS; row++) {
        double *x = values + row * COLUMNS;
        for (int column = 0; column < COLUMNS; column++) x[column] = next_number();
        targets[row] = x[0] * x[0] + x[1] * x[1] < 1.5 ? 7.0 : -3.0;
    }
}

static int count_calls(void *user, const mercer_progress *progress) {
    if (progress->subproblems == 0) return 1;
    *(int *)user += 1;
    return 0;
}

static mercer_model *trained(void) {
    mercer_rows rows = mercer_dense(values, ROWS, COLUMNS);
    mercer_training training = mercer_training_default();
    mercer_training_report report;
    mercer_model *model = NULL;
    int calls = 0;
    training.formulation = "c_svc(C=10)";
    training.observer = count_calls;
    training.user = &calls;
    CHECK(mercer_train(&rows, targets, &training, &model, &report) == MERCER_OK);
    CHECK(report.converged && report.supports > 0 && report.gap >= 0.0);
    return model;
}

static void *ask(void *argument) {
    const mercer_model *model = argument;
    mercer_rows rows = mercer_dense(values, ROWS, COLUMNS);
    double *labels = malloc(ROWS * sizeof *labels);
    int wrong = 0;
    CHECK(mercer_predict(model, &rows, labels) == MERCER_OK);
    for (int row = 0; row < ROWS; row++) wrong += labels[row] != targets[row];
    free(labels);
    CHECK(wrong < ROWS / 10);
    return NULL;
}

static void answers_agree(const mercer_model *model) {
    mercer_decision batch[ROWS], one;
    double scores[ROWS];
    mercer_rows rows = mercer_dense(values, ROWS, COLUMNS);
    CHECK(mercer_decide(model, &rows, NULL, batch) == MERCER_OK);
    CHECK(mercer_scores(model, &rows, scores) == MERCER_OK);
    for (size_t row = 0; row < ROWS; row++) {
        uint64_t starts[2] = {0, COLUMNS};
        uint32_t indices[COLUMNS] = {0, 1, 2};
        mercer_rows sparse = mercer_csr(starts, indices, values + row * COLUMNS, 1, COLUMNS);
        CHECK(mercer_decide(model, &sparse, NULL, &one) == MERCER_OK);
        CHECK(one.label == batch[row].label && one.cost == batch[row].cost);
        CHECK(one.low == batch[row].low && one.high == batch[row].high);
        CHECK(one.certainty == batch[row].certainty && one.stage == batch[row].stage);
        CHECK(batch[row].low <= scores[row] && scores[row] <= batch[row].high);
        CHECK(batch[row].class_index == 0 || batch[row].class_index == 1);
        CHECK(one.class_index == (scores[row] > 0 ? 0 : 1));
    }
    /* A stride: only the first rows of every second one. */
    mercer_rows strided = {ROWS / 2, COLUMNS, values, 2 * COLUMNS, NULL, NULL};
    mercer_decision half[ROWS / 2];
    CHECK(mercer_decide(model, &strided, NULL, half) == MERCER_OK);
    for (size_t row = 0; row < ROWS / 2; row++) CHECK(half[row].low == batch[2 * row].low);
}

/* Labels against any threshold are those of the exact scores, also by a plan; other models refuse one. */
static void thresholds_move_the_border(const mercer_model *model) {
    mercer_decision found[ROWS];
    double scores[ROWS];
    mercer_rows rows = mercer_dense(values, ROWS, COLUMNS);
    mercer_query_options options;
    mercer_model *fast = NULL, *regression = NULL;
    mercer_training training = mercer_training_default();
    CHECK(mercer_scores(model, &rows, scores) == MERCER_OK);
    CHECK(mercer_query_options_of(model, &options) == MERCER_OK && !options.has_threshold);
    CHECK(mercer_compile(model, "cascade(low_precision, exact)", NULL, NULL, NULL, &fast) == MERCER_OK);
    options.has_threshold = true;
    for (int i = -2; i <= 2; i++) {
        const mercer_model *models[2] = {model, fast};
        int moved = 0;
        options.threshold = i == 0 ? scores[7] : i * 0.4;
        for (int m = 0; m < 2; m++) {
            CHECK(mercer_decide(models[m], &rows, &options, found) == MERCER_OK);
            for (int row = 0; row < ROWS; row++) {
                CHECK(found[row].class_index == (scores[row] > options.threshold ? 0 : 1));
                moved += found[row].class_index != (scores[row] > 0 ? 0 : 1);
            }
        }
        CHECK(moved > 0 || i == 0);
    }
    options.threshold = NAN;
    CHECK(mercer_decide(model, &rows, &options, found) == MERCER_ARGUMENT);
    options.threshold = 0.5;
    training.formulation = "epsilon_svr";
    CHECK(mercer_train(&rows, targets, &training, &regression, NULL) == MERCER_OK);
    CHECK(mercer_decide(regression, &rows, &options, found) == MERCER_ARGUMENT);
    mercer_model_free(regression);
    mercer_model_free(fast);
}

static void bad_input_is_refused(const mercer_model *model) {
    mercer_rows rows = mercer_dense(values, ROWS, COLUMNS), narrow = mercer_dense(values, 1, 2);
    mercer_rows nothing = mercer_dense(NULL, 1, COLUMNS), none = mercer_dense(NULL, 0, COLUMNS);
    mercer_rows endless = mercer_dense(values, (size_t)-1 / 8, COLUMNS);
    mercer_training training = mercer_training_default();
    mercer_model *out = NULL;
    mercer_info info;
    double label, bad[COLUMNS] = {0.0, NAN, 0.0};
    mercer_rows not_finite = mercer_dense(bad, 1, COLUMNS);
    uint64_t starts[2] = {0, 2}, backward[3] = {0, 2, 1};
    uint32_t indices[2] = {1, 0}, far_away[2] = {0, 4000000000u};
    mercer_rows unsorted = mercer_csr(starts, indices, values, 1, COLUMNS);
    mercer_rows outside = mercer_csr(starts, far_away, values, 1, COLUMNS);
    mercer_rows decreasing = mercer_csr(backward, indices, values, 2, COLUMNS);

    CHECK(mercer_predict(NULL, &rows, &label) == MERCER_ARGUMENT);
    CHECK(strcmp(mercer_last_error(), "model is a null pointer") == 0);
    CHECK(mercer_predict(model, NULL, &label) == MERCER_ARGUMENT);
    CHECK(mercer_predict(model, &rows, NULL) == MERCER_ARGUMENT);
    CHECK(mercer_predict(model, &nothing, &label) == MERCER_ARGUMENT);
    CHECK(mercer_predict(model, &endless, &label) == MERCER_ARGUMENT);
    CHECK(mercer_predict(model, &none, NULL) == MERCER_OK);
    CHECK(mercer_predict(model, &narrow, &label) == MERCER_ROWS);
    CHECK(mercer_predict(model, &not_finite, &label) == MERCER_ROWS);
    CHECK(strstr(mercer_last_error(), "row 1") && strstr(mercer_last_error(), "column 2"));
    CHECK(mercer_predict(model, &unsorted, &label) == MERCER_ROWS);
    CHECK(mercer_predict(model, &outside, &label) == MERCER_ROWS);
    CHECK(mercer_predict(model, &decreasing, &label) == MERCER_ROWS);
    CHECK(mercer_probabilities(model, &rows, &label) == MERCER_ABSENT);
    CHECK(mercer_model_info(model, NULL) == MERCER_ARGUMENT);
    CHECK(mercer_model_info(NULL, &info) == MERCER_ARGUMENT);
    CHECK(mercer_model_text(model, 99) == NULL && mercer_model_text(NULL, MERCER_KERNEL) == NULL);
    CHECK(mercer_model_class(model, 2) == NULL && mercer_model_column(model, 0) == NULL);
    CHECK(mercer_model_open("no such file", false, &out) == MERCER_FILE && out == NULL);
    CHECK(mercer_model_read((const uint8_t *)"abc", 3, false, &out) == MERCER_FILE && out == NULL);
    CHECK(mercer_model_save(model, "x", "no such format") == MERCER_ARGUMENT);
    CHECK(mercer_compile(model, "no_such_stage", NULL, NULL, NULL, &out) != MERCER_OK);
    CHECK(mercer_compile(model, "cascade(", NULL, NULL, NULL, &out) == MERCER_SPEC);
    CHECK(mercer_tune(model, &rows, "certified", NAN, NULL, NULL, &out) == MERCER_ARGUMENT);
    CHECK(mercer_tune(model, &rows, "sometimes", 1, NULL, NULL, &out) == MERCER_SPEC);
    training.kernel = "rbf(gamma=-1)";
    CHECK(mercer_train(&rows, targets, &training, &out, NULL) == MERCER_SPEC && out == NULL);
    training.kernel = NULL;
    CHECK(mercer_train(&rows, targets, &training, &out, NULL) == MERCER_ARGUMENT);
    training = mercer_training_default();
    training.threads = 100000;
    CHECK(mercer_train(&rows, targets, &training, &out, NULL) == MERCER_ARGUMENT);
    training.threads = 0;
    CHECK(mercer_train(&rows, NULL, &training, &out, NULL) == MERCER_TRAINING);
    mercer_model_free(NULL);
    mercer_bytes_free(NULL, 0);
}

static int stop(void *user, uint64_t done, uint64_t all) {
    (void)user, (void)done, (void)all;
    return 1;
}

static void files_keep_labels(const mercer_model *model) {
    const char *formats[] = {"mercer", "libsvm"};
    double labels[ROWS], again[ROWS];
    mercer_rows rows = mercer_dense(values, ROWS, COLUMNS);
    CHECK(mercer_predict(model, &rows, labels) == MERCER_OK);
    for (int i = 0; i < 2; i++) {
        mercer_model *copy = NULL;
        uint8_t *bytes = NULL;
        size_t length = 0;
        CHECK(mercer_model_save(model, "saved.model", formats[i]) == MERCER_OK);
        CHECK(mercer_model_open("saved.model", false, &copy) == MERCER_OK);
        CHECK(mercer_predict(copy, &rows, again) == MERCER_OK);
        CHECK(memcmp(labels, again, sizeof labels) == 0);
        mercer_model_free(copy);
        CHECK(mercer_model_write(model, formats[i], &bytes, &length) == MERCER_OK);
        CHECK(mercer_model_read(bytes, length, false, &copy) == MERCER_OK);
        mercer_bytes_free(bytes, length);
        CHECK(mercer_predict(copy, &rows, again) == MERCER_OK);
        CHECK(memcmp(labels, again, sizeof labels) == 0);
        mercer_model_free(copy);
    }
}

static void plans_keep_labels(const mercer_model *model) {
    mercer_model *fast = NULL, *verified = NULL;
    mercer_rows rows = mercer_dense(values, ROWS, COLUMNS);
    double labels[ROWS], again[ROWS];
    mercer_decision decisions[ROWS];
    mercer_query_options options;
    const char *plan = "cascade(low_precision, exact)";
    CHECK(mercer_predict(model, &rows, labels) == MERCER_OK);
    CHECK(mercer_compile(model, plan, NULL, NULL, NULL, &fast) == MERCER_OK);
    CHECK(strstr(mercer_model_text(fast, MERCER_PLAN_TEXT), "low_precision"));
    CHECK(mercer_predict(fast, &rows, again) == MERCER_OK);
    CHECK(memcmp(labels, again, sizeof labels) == 0);
    CHECK(mercer_verify(fast, NULL, &verified) == MERCER_OK);
    CHECK(strcmp(mercer_model_text(verified, MERCER_LEFT_OUT), "") == 0);
    mercer_model_free(verified);
    CHECK(mercer_query_options_of(fast, &options) == MERCER_OK && options.budget == 0);
    options.budget = 1;
    options.threads = 1;
    CHECK(mercer_decide(fast, &rows, &options, decisions) == MERCER_OK);
    for (int row = 0; row < ROWS; row++) CHECK(decisions[row].certainty == MERCER_UNSETTLED);
    options.require_certified = true;
    CHECK(mercer_decide(fast, &rows, &options, decisions) == MERCER_OK);
    for (int row = 0; row < ROWS; row++) CHECK(decisions[row].certainty >= MERCER_CERTIFIED);
    mercer_model_free(fast);
    fast = NULL;
    CHECK(mercer_compile(model, "cascade(anytime, exact)", NULL, stop, NULL, &fast) ==
          MERCER_CANCELLED);
    CHECK(fast == NULL);
}

static int count_and_stop(void *user, const mercer_progress *progress) {
    *(int *)user += 1;
    return progress->subproblems > 0;
}

/* A training that the observer ends returns the best machine so far, and says that it is not at the end. */
static void an_observer_ends_a_training(void) {
    static double noise[ROWS];
    mercer_rows rows = mercer_dense(values, ROWS, COLUMNS);
    mercer_training training = mercer_training_default();
    mercer_training_report whole, cut;
    mercer_model *model = NULL;
    double labels[ROWS];
    int calls = 0;
    for (int row = 0; row < ROWS; row++) noise[row] = next_number() > 0 ? 1 : 2;
    training.kernel = "rbf(gamma=0.1)";
    training.formulation = "c_svc(C=10000)";
    CHECK(mercer_train(&rows, noise, &training, &model, &whole) == MERCER_OK && whole.converged);
    mercer_model_free(model);
    training.observer = count_and_stop;
    training.user = &calls;
    CHECK(mercer_train(&rows, noise, &training, &model, &cut) == MERCER_OK);
    CHECK(calls > 0 && !cut.converged && cut.iterations < whole.iterations);
    CHECK(mercer_predict(model, &rows, labels) == MERCER_OK);
    for (int row = 0; row < ROWS; row++) CHECK(labels[row] == 1 || labels[row] == 2);
    mercer_model_free(model);
}

static int count_steps(void *user, uint64_t done, uint64_t all) {
    *(int *)user += 1;
    CHECK(all == 0 || done <= all);
    return 0;
}

/* A search with a sample ends with a plan that keeps all labels. */
static void a_search_keeps_labels(const mercer_model *model) {
    static double asked[4 * ROWS * COLUMNS];
    mercer_rows rows = mercer_dense(values, ROWS, COLUMNS);
    mercer_rows sample = mercer_dense(asked, 4 * ROWS, COLUMNS);
    mercer_decision decisions[ROWS];
    double labels[ROWS], again[ROWS];
    mercer_model *fast = NULL;
    int calls = 0;
    for (int i = 0; i < 4 * ROWS * COLUMNS; i++) asked[i] = next_number();
    CHECK(mercer_tune(model, &sample, "certified", 0.3, count_steps, &calls, &fast) == MERCER_OK);
    CHECK(calls > 0 && strcmp(mercer_model_text(fast, MERCER_CONTRACT), "certified") == 0);
    CHECK(strstr(mercer_model_text(fast, MERCER_PLAN_TEXT), "exact"));
    CHECK(mercer_predict(model, &rows, labels) == MERCER_OK);
    CHECK(mercer_predict(fast, &rows, again) == MERCER_OK);
    CHECK(memcmp(labels, again, sizeof labels) == 0);
    CHECK(mercer_decide(fast, &rows, NULL, decisions) == MERCER_OK);
    for (int row = 0; row < ROWS; row++) CHECK(decisions[row].certainty >= MERCER_CERTIFIED);
    mercer_model_free(fast);
}

static mercer_model *read_text(const char *text) {
    mercer_model *model = NULL;
    CHECK(mercer_model_read((const uint8_t *)text, strlen(text), false, &model) == MERCER_OK);
    return model;
}

/* The model of a text has one score, and the first class has the probability that the sigmoid gives it. */
static void check_probabilities(const char *text, double a, double b) {
    mercer_model *model = read_text(text);
    mercer_rows rows = mercer_dense(values, ROWS, COLUMNS);
    double scores[ROWS], each[2 * ROWS], labels[ROWS];
    mercer_info info;
    CHECK(mercer_model_info(model, &info) == MERCER_OK && info.has_probabilities && info.classes == 2);
    CHECK(mercer_scores(model, &rows, scores) == MERCER_OK);
    CHECK(mercer_probabilities(model, &rows, each) == MERCER_OK);
    CHECK(mercer_predict(model, &rows, labels) == MERCER_OK);
    for (int row = 0; row < ROWS; row++) {
        double *x = values + row * COLUMNS, first = 1 / (1 + exp(a * scores[row] + b));
        CHECK(fabs(each[2 * row] - first) < 1e-9 && fabs(each[2 * row] + each[2 * row + 1] - 1) < 1e-9);
        CHECK(fabs(scores[row] - (x[0] - 2 * x[1])) < 1e-12);
        CHECK(labels[row] == (scores[row] > 0 ? 4 : 8));
    }
    mercer_model_free(model);
}

/* Files of other programs: LIBSVM's and LIBLINEAR's text, and an ONNX file of skl2onnx with answers of ONNX Runtime. */
static void models_of_other_programs_answer(void) {
    mercer_model *model = NULL;
    char line[200];
    int count = 0;
    FILE *answers;
    check_probabilities("svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 4 8\nprobA -1.5\n"
                        "probB 0.25\nnr_sv 1 1\nSV\n1 1:1 \n-1 2:2 \n", -1.5, 0.25);
    check_probabilities("solver_type L2R_LR\nnr_class 2\nlabel 4 8\nnr_feature 2\nbias -1\nw\n1\n-2\n", -1, 0);
    CHECK(mercer_model_open("svc2.onnx", false, &model) == MERCER_OK);
    CHECK((answers = fopen("onnx.txt", "r")) != NULL);
    while (fgets(line, sizeof line, answers) != NULL) {
        double expected, x[COLUMNS], label;
        mercer_rows row = mercer_dense(x, 1, COLUMNS);
        if (sscanf(line, "svc2 %lf %lf %lf %lf", &expected, x, x + 1, x + 2) != 4) continue;
        CHECK(mercer_predict(model, &row, &label) == MERCER_OK && label == expected);
        count++;
    }
    CHECK(fclose(answers) == 0 && count == 40);
    mercer_model_free(model);
}

int main(void) {
    mercer_info info;
    mercer_model *model;
    CHECK(mercer_abi_version() == MERCER_ABI_VERSION);
    CHECK(strlen(mercer_version()) > 0 && strlen(mercer_last_error()) == 0);
    make_rows();
    model = trained();
    CHECK(mercer_model_info(model, &info) == MERCER_OK);
    CHECK(info.output == MERCER_CLASSES && info.classes == 2 && info.scores == 1);
    CHECK(info.columns == COLUMNS && !info.has_probabilities && info.bytes > 0);
    CHECK(strcmp(mercer_model_class(model, 0), "7") == 0 ||
          strcmp(mercer_model_class(model, 0), "-3") == 0);
    CHECK(strncmp(mercer_model_text(model, MERCER_KERNEL), "rbf(", 4) == 0);
    CHECK(strlen(mercer_model_text(model, MERCER_DIGEST)) == 64);
    CHECK(strlen(mercer_model_text(model, MERCER_CONTRACT)) == 0);
    answers_agree(model);
    thresholds_move_the_border(model);
    bad_input_is_refused(model);
    files_keep_labels(model);
    plans_keep_labels(model);
    an_observer_ends_a_training();
    a_search_keeps_labels(model);
    models_of_other_programs_answer();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK(!pthread_create(threads + i, NULL, ask, model));
    for (int i = 0; i < THREADS; i++) CHECK(!pthread_join(threads[i], NULL));
    mercer_model_free(model);
    puts("done");
    return 0;
}
