/* What programs do with LIBSVM: train, save, load, predict from many threads, build models by hand, change them, reuse their
   memory, and send nonsense. Prints "done". */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "interface.h"

#define ROWS 200
#define COLUMNS 5

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);            \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

static struct svm_node space[ROWS][COLUMNS + 1];
static struct svm_node *rows[ROWS];
static double targets[ROWS];
static int printed;

static void count_print(const char *text) { printed += (int)strlen(text); }

static double next_number(void) {
    static unsigned state = 7;
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / 16777216.0 * 2.0 - 1.0;
}

static void make_rows(int classes) {
    int i, j;
    for (i = 0; i < ROWS; i++) {
        double sum = 0;
        for (j = 0; j < COLUMNS; j++) {
            space[i][j].index = j + 1;
            space[i][j].value = next_number();
        }
        space[i][COLUMNS].index = -1;
        rows[i] = space[i];
        sum = space[i][0].value * 2 + space[i][1].value * space[i][2].value + 0.1 * next_number();
        targets[i] = classes == 0 ? sum : classes == 2 ? (sum > 0 ? 1 : -1) : sum > 0.7 ? 5 : sum > -0.5 ? 2 : 9;
    }
}

static struct svm_parameter usual(int type, int kernel) {
    struct svm_parameter p;
    memset(&p, 0, sizeof p);
    p.svm_type = type;
    p.kernel_type = kernel;
    p.degree = 3;
    p.gamma = 0.5;
    p.coef0 = 0.5;
    p.cache_size = 10;
    p.eps = 1e-3;
    p.C = 2;
    p.nu = 0.4;
    p.p = 0.1;
    p.shrinking = 1;
    return p;
}

/* LIBSVM's formula, by hand. */
static double kernel(const struct svm_parameter *p, const struct svm_node *u, const struct svm_node *v) {
    double dot = 0, uu = 0, vv = 0;
    const struct svm_node *a, *b;
    for (a = u; a->index != -1; a++) {
        uu += a->value * a->value;
        for (b = v; b->index != -1; b++)
            if (a->index == b->index) dot += a->value * b->value;
    }
    for (b = v; b->index != -1; b++) vv += b->value * b->value;
    switch (p->kernel_type) {
    case LINEAR: return dot;
    case POLY: return pow(p->gamma * dot + p->coef0, p->degree);
    case RBF: return exp(-p->gamma * (uu + vv - 2 * dot));
    default: return tanh(p->gamma * dot + p->coef0);
    }
}

/* Compares predictions of a model with sums made by hand. */
static void compare(const struct svm_model *m) {
    int r, i, j, k, p;
    double values[64], sizes[64];
    for (r = 0; r < ROWS; r++) {
        int votes[8] = {0}, start[8] = {0}, best = 0, pairs = 0;
        double label = svm_predict_values(m, rows[r], values);
        int classes = m->nr_class;
        CHECK(svm_predict(m, rows[r]) == label || m->param.svm_type >= EPSILON_SVR);
        if (m->param.svm_type >= ONE_CLASS) {
            double sum = -m->rho[0], size = fabs(m->rho[0]);
            for (i = 0; i < m->l; i++) {
                double term = m->sv_coef[0][i] * kernel(&m->param, rows[r], m->SV[i]);
                sum += term;
                size += fabs(term);
            }
            CHECK(fabs(values[0] - sum) <= 1e-9 * size + 1e-12);
            if (m->param.svm_type == ONE_CLASS) CHECK(label == (values[0] > 0 ? 1 : -1));
            else CHECK(label == values[0] && fabs(svm_predict(m, rows[r]) - label) <= 1e-9 * size);
            continue;
        }
        for (i = 1; i < classes; i++) start[i] = start[i - 1] + m->nSV[i - 1];
        p = 0;
        for (i = 0; i < classes; i++)
            for (j = i + 1; j < classes; j++, p++) {
                double sum = -m->rho[p], size = fabs(m->rho[p]);
                for (k = 0; k < m->nSV[i]; k++) {
                    double t = m->sv_coef[j - 1][start[i] + k] * kernel(&m->param, rows[r], m->SV[start[i] + k]);
                    sum += t;
                    size += fabs(t);
                }
                for (k = 0; k < m->nSV[j]; k++) {
                    double t = m->sv_coef[i][start[j] + k] * kernel(&m->param, rows[r], m->SV[start[j] + k]);
                    sum += t;
                    size += fabs(t);
                }
                sizes[p] = size;
                CHECK(fabs(values[p] - sum) <= 1e-9 * size + 1e-12);
                votes[values[p] > 0 ? i : j]++;
                pairs++;
            }
        CHECK(pairs == classes * (classes - 1) / 2 && sizes[0] >= 0);
        for (i = 1; i < classes; i++)
            if (votes[i] > votes[best]) best = i;
        CHECK(label == m->label[best]);
    }
}

static void check_all_types(int few) {
    int type, k, i;
    for (type = C_SVC; type <= NU_SVR; type++)
        for (k = few ? RBF : LINEAR; k <= (few ? RBF : SIGMOID); k++) {
            struct svm_parameter p = usual(type, k);
            struct svm_problem problem = {ROWS, targets, rows};
            struct svm_model *m, *again;
            char name[64];
            int is_sigmoid_nu = type == NU_SVC && k == SIGMOID; /* others have no margin */
            if (is_sigmoid_nu) p.gamma = 0.05, p.coef0 = 0;
            make_rows(type > NU_SVC ? 0 : k % 2 && !is_sigmoid_nu ? 3 : 2);
            CHECK(svm_check_parameter(&problem, &p) == NULL);
            m = svm_train(&problem, &p);
            CHECK(m != NULL && m->l > 0 && m->free_sv == 0);
            CHECK(svm_get_svm_type(m) == type && svm_get_nr_sv(m) == m->l);
            for (i = 0; i < m->l; i++) CHECK(m->SV[i] == rows[m->sv_indices[i] - 1]);
            compare(m);
            sprintf(name, "model.%d.%d", type, k);
            CHECK(svm_save_model(name, m) == 0);
            again = svm_load_model(name);
            CHECK(again != NULL && again->l == m->l && again->free_sv == 1 && again->sv_indices == NULL);
            compare(again);
            svm_free_and_destroy_model(&again);
            CHECK(again == NULL);
            svm_free_and_destroy_model(&m);
        }
}

/* A model made by the caller, field by field, in memory that is used again for another one. */
static void check_models_of_callers(void) {
    struct svm_parameter p = usual(C_SVC, RBF);
    struct svm_problem problem = {ROWS, targets, rows};
    struct svm_model *m, own;
    struct svm_node query[COLUMNS + 1];
    double before[3], after[3], *rho;
    int i, changed = 0;
    make_rows(3);
    m = svm_train(&problem, &p);
    own = *m;
    compare(&own);
    /* Numbers of a model that was trained here. */
    m->rho[0] += 0.75;
    compare(m);
    m->sv_coef[0][0] *= -3;
    compare(m);
    compare(&own);
    /* Supports of a copy, in place: the addresses stay. */
    memcpy(query, rows[3], sizeof query);
    svm_predict_values(&own, query, before);
    for (i = 0; i < own.l; i++) own.SV[i][0].value += 0.5;
    svm_predict_values(&own, query, after);
    for (i = 0; i < 3; i++) changed += before[i] != after[i];
    CHECK(changed == 3);
    compare(&own);
    /* Another kernel under the same addresses. */
    own.param.kernel_type = POLY;
    compare(&own);
    own.param.gamma = 0.25;
    compare(&own);
    /* The caller's own free, and another model in the same place. */
    rho = malloc(3 * sizeof *rho);
    memcpy(rho, m->rho, 3 * sizeof *rho);
    free(m->rho);
    m->rho = rho;
    svm_free_model_content(m);
    CHECK(m->SV == NULL && m->rho == NULL && m->label == NULL);
    svm_free_model_content(m);
    free(m);
}

static void *kept(const void *from, size_t bytes) {
    void *to = malloc(bytes + 1);
    CHECK(to != NULL);
    memcpy(to, from, bytes);
    return to;
}

/* A model as bindings build it, field by field in memory of malloc: all rows in one block that belongs to the model. */
static struct svm_model *built(const struct svm_model *from) {
    struct svm_model *m = calloc(1, sizeof *m);
    struct svm_node *block = malloc((size_t)from->l * (COLUMNS + 1) * sizeof *block);
    int i, pairs = from->nr_class * (from->nr_class - 1) / 2;
    CHECK(m != NULL && block != NULL);
    m->param = from->param;
    m->nr_class = from->nr_class;
    m->l = from->l;
    m->SV = malloc((size_t)m->l * sizeof *m->SV);
    for (i = 0; i < m->l; i++) {
        m->SV[i] = block + (size_t)i * (COLUMNS + 1);
        memcpy(m->SV[i], from->SV[i], (COLUMNS + 1) * sizeof *block);
    }
    m->sv_coef = malloc((size_t)(m->nr_class - 1) * sizeof *m->sv_coef);
    for (i = 0; i < m->nr_class - 1; i++)
        m->sv_coef[i] = kept(from->sv_coef[i], (size_t)m->l * sizeof **m->sv_coef);
    m->rho = kept(from->rho, (size_t)pairs * sizeof *m->rho);
    m->label = kept(from->label, (size_t)m->nr_class * sizeof *m->label);
    m->nSV = kept(from->nSV, (size_t)m->nr_class * sizeof *m->nSV);
    m->free_sv = 1;
    return m;
}

/* Models of callers that come and go, mostly at the same addresses, with other numbers each time. */
static void check_models_built_field_by_field(int few) {
    struct svm_parameter p = usual(C_SVC, RBF);
    struct svm_problem problem = {ROWS, targets, rows};
    struct svm_model *trained, *m;
    int i, round;
    make_rows(3);
    trained = svm_train(&problem, &p);
    for (round = 0; round < (few ? 3 : 20); round++) {
        m = built(trained);
        for (i = 0; i < m->l; i++) m->SV[i][round % COLUMNS].value += 0.1 * round;
        m->param.gamma = 0.2 + 0.05 * round;
        compare(m);
        m->sv_coef[round % 2][round] += 1;
        compare(m);
        m->SV[m->l / 2][0].value -= 1;
        compare(m);
        if (round % 2) {
            svm_free_and_destroy_model(&m);
            CHECK(m == NULL);
        } else {
            svm_free_model_content(m);
            free(m);
        }
    }
    svm_free_and_destroy_model(&trained);
}

/* Models that are freed, by either function, take their packs with them. */
static void check_memory_is_given_back(void) {
    struct svm_parameter p = usual(C_SVC, RBF);
    struct svm_problem problem = {ROWS, targets, rows};
    struct svm_model *trained, *m;
    struct rusage usage;
    long before = 0;
    double value[3];
    int round;
    make_rows(3);
    trained = svm_train(&problem, &p);
    CHECK(svm_save_model("given_back", trained) == 0);
    for (round = 0; round < 1200; round++) {
        if (round == 200) {
            getrusage(RUSAGE_SELF, &usage);
            before = usage.ru_maxrss;
        }
        m = round % 2 ? svm_load_model("given_back") : built(trained);
        m->sv_coef[0][0] += 1e-3 * round;
        svm_predict(m, rows[0]);
        svm_predict_values(m, rows[1], value);
        if (round % 3) svm_free_and_destroy_model(&m);
        else svm_free_model_content(m), free(m);
    }
    getrusage(RUSAGE_SELF, &usage);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what is freed */
    /* A thousand packs are 50 MB at least. */
    CHECK(usage.ru_maxrss - before < 8 << 10);
#else
    CHECK(before > 0);
#endif
    svm_free_and_destroy_model(&trained);
}

/* Supports of a model of the library, changed in place: a change of all of them is noticed at once, a change of one entry
   after as many predictions as there are supports, at most. */
static void check_supports_changed_in_place(void) {
    struct svm_parameter p = usual(C_SVC, RBF);
    struct svm_problem problem = {ROWS, targets, rows};
    struct svm_model *models[2], *m;
    struct svm_node query[COLUMNS + 1];
    double before, after;
    int i, k;
    make_rows(2);
    /* A copy: the supports of the first model are rows of the problem. */
    memcpy(query, rows[3], sizeof query);
    models[0] = svm_train(&problem, &p);
    CHECK(svm_save_model("in_place", models[0]) == 0);
    models[1] = svm_load_model("in_place");
    CHECK(models[1] != NULL);
    for (k = 0; k < 2; k++) {
        m = models[k];
        compare(m);
        svm_predict_values(m, query, &before);
        for (i = 0; i < m->l; i++) m->SV[i][0].value += 0.5;
        svm_predict_values(m, query, &after);
        CHECK(before != after);
        compare(m);
        compare(m);
        m->SV[m->l / 2][COLUMNS - 1].value -= 2;
        for (i = 0; i < m->l; i++) svm_predict(m, query);
        compare(m);
        /* A row that ends earlier. */
        m->SV[m->l / 3][1].index = -1;
        for (i = 0; i < m->l; i++) svm_predict(m, query);
        compare(m);
        svm_free_and_destroy_model(&models[k]);
    }
}

static void check_probabilities(int few) {
    struct svm_parameter p = usual(C_SVC, RBF);
    struct svm_problem problem = {ROWS, targets, rows};
    struct svm_model *m;
    double each[3], folds[ROWS];
    int labels[3], i, right = 0;
    make_rows(3);
    p.probability = 1;
    m = svm_train(&problem, &p);
    CHECK(svm_check_probability_model(m) == 1 && svm_get_nr_class(m) == 3);
    svm_get_labels(m, labels);
    for (i = 0; i < ROWS; i++) {
        double label = svm_predict_probability(m, rows[i], each);
        int best = each[1] > each[0] ? 1 : 0;
        if (each[2] > each[best]) best = 2;
        CHECK(label == labels[best] && fabs(each[0] + each[1] + each[2] - 1) < 1e-9);
    }
    svm_free_and_destroy_model(&m);
    p.probability = 0;
    svm_cross_validation(&problem, &p, 4, folds);
    for (i = 0; i < ROWS; i++) right += folds[i] == targets[i];
    CHECK(right > ROWS / 2);
    if (!few) svm_cross_validation(&problem, &p, 100000, folds);
    p = usual(EPSILON_SVR, RBF);
    p.probability = 1;
    make_rows(0);
    m = svm_train(&problem, &p);
    CHECK(svm_get_svr_probability(m) > 0);
    svm_free_and_destroy_model(&m);
    p = usual(ONE_CLASS, RBF);
    p.probability = 1;
    m = svm_train(&problem, &p);
#ifdef HAS_MARKS
    CHECK(svm_check_probability_model(m) == 1);
    CHECK(svm_predict_probability(m, rows[0], each) != 0 && each[0] + each[1] == 1);
#else
    CHECK(svm_check_probability_model(m) == 0);
#endif
    svm_free_and_destroy_model(&m);
}

/* LIBSVM's texts, in its order. */
static void check_texts(void) {
    static double rare[ROWS];
    struct { struct svm_parameter p; double *y; const char *said; } wrong[16];
    struct svm_problem problem = {ROWS, targets, rows};
    int i, count = 0;
    make_rows(2);
    for (i = 0; i < ROWS; i++) rare[i] = i < 3 ? 1 : -1, wrong[i % 16].y = targets;
    wrong[count].p = usual(7, RBF), wrong[count++].said = "unknown svm type";
    wrong[count].p = usual(C_SVC, 9), wrong[count++].said = "unknown kernel type";
    wrong[count].p = usual(C_SVC, RBF), wrong[count].p.gamma = -1, wrong[count++].said = "gamma < 0";
    wrong[count].p = usual(C_SVC, POLY), wrong[count].p.degree = -1, wrong[count++].said = "degree of polynomial kernel < 0";
    wrong[count].p = usual(C_SVC, RBF), wrong[count].p.cache_size = 0, wrong[count++].said = "cache_size <= 0";
    wrong[count].p = usual(C_SVC, RBF), wrong[count].p.eps = 0, wrong[count++].said = "eps <= 0";
    wrong[count].p = usual(C_SVC, RBF), wrong[count].p.C = 0, wrong[count++].said = "C <= 0";
    wrong[count].p = usual(NU_SVC, RBF), wrong[count].p.nu = 1.5, wrong[count++].said = "nu <= 0 or nu > 1";
    wrong[count].p = usual(EPSILON_SVR, RBF), wrong[count].p.p = -1, wrong[count++].said = "p < 0";
    wrong[count].p = usual(C_SVC, RBF), wrong[count].p.shrinking = 2, wrong[count++].said = "shrinking != 0 and shrinking != 1";
    wrong[count].p = usual(C_SVC, RBF), wrong[count].p.probability = 2;
    wrong[count++].said = "probability != 0 and probability != 1";
    wrong[count].p = usual(NU_SVC, RBF), wrong[count].y = rare, wrong[count++].said = "specified nu is infeasible";
    /* The first of two. */
    wrong[count].p = usual(C_SVC, RBF), wrong[count].p.eps = -1, wrong[count].p.cache_size = -1;
    wrong[count++].said = "cache_size <= 0";
    for (i = 0; i < count; i++) {
        problem.y = wrong[i].y;
        CHECK(strcmp(svm_check_parameter(&problem, &wrong[i].p), wrong[i].said) == 0);
    }
    problem.y = targets;
    wrong[0].p = usual(ONE_CLASS, RBF), wrong[0].p.probability = 1;
#ifdef HAS_MARKS
    CHECK(svm_check_parameter(&problem, &wrong[0].p) == NULL);
#else
    CHECK(strcmp(svm_check_parameter(&problem, &wrong[0].p), "one-class SVM probability output not supported yet") == 0);
#endif
}

static void check_nonsense(void) {
    struct svm_parameter p = usual(C_SVC, RBF);
    struct svm_problem problem = {ROWS, targets, rows}, none = {0, NULL, NULL};
    struct svm_node disorder[] = {{4, 1}, {2, -1}, {2, 3}, {-1, 0}};
    struct svm_node strange[] = {{1, NAN}, {2, INFINITY}, {3, 1}, {-1, 0}};
    struct svm_node far[] = {{1, 1}, {2147483646, 2}, {-1, 0}};
    struct svm_node end[] = {{-1, 0}};
    struct svm_model *m;
    double values[3];
    make_rows(2);
    CHECK(svm_train(NULL, NULL) == NULL && svm_train(&none, &p) == NULL);
    CHECK(svm_load_model("no such file") == NULL && svm_load_model(NULL) == NULL);
    CHECK(svm_save_model("no such folder/model", NULL) == -1);
    CHECK(svm_predict(NULL, NULL) == 0 && svm_get_nr_class(NULL) == 0);
    svm_free_and_destroy_model(NULL);
    svm_free_model_content(NULL);
    m = svm_train(&problem, &p);
    CHECK(svm_save_model("no such folder/model", m) == -1);
    CHECK(!isnan(svm_predict(m, disorder)) && !isnan(svm_predict(m, strange)));
    CHECK(!isnan(svm_predict(m, far)) && !isnan(svm_predict(m, end)) && !isnan(svm_predict(m, NULL)));
    svm_predict_values(m, strange, values);
    CHECK(!isnan(values[0]));
    svm_free_and_destroy_model(&m);
    space[3][1].value = NAN;
    m = svm_train(&problem, &p); /* a sentence on the standard error output */
    CHECK(m != NULL && m->l == 0 && svm_predict(m, rows[0]) == m->label[1]);
    svm_free_and_destroy_model(&m);
    make_rows(2);
    targets[0] = NAN;
    m = svm_train(&problem, &p);
    svm_free_and_destroy_model(&m);
    make_rows(2);
    p.gamma = NAN;
    m = svm_train(&problem, &p);
    svm_free_and_destroy_model(&m);
    p = usual(C_SVC, POLY);
    p.degree = 1000000;
    m = svm_train(&problem, &p);
    CHECK(!isnan(svm_predict(m, rows[0])));
    svm_free_and_destroy_model(&m);
    {
        static double one[ROWS];
        struct svm_problem single = {ROWS, one, rows};
        struct svm_parameter q = usual(C_SVC, RBF);
        int i;
        for (i = 0; i < ROWS; i++) one[i] = 4;
        m = svm_train(&single, &q);
        CHECK(m->nr_class == 1 && m->l == 0 && svm_predict(m, rows[0]) == 4);
        CHECK(svm_save_model("single", m) == 0);
        svm_free_and_destroy_model(&m);
        m = svm_load_model("single");
        CHECK(m != NULL && svm_predict(m, rows[0]) == 4);
        svm_free_and_destroy_model(&m);
    }
}

/* No function needs a pointer that is not null, and none of them a model that is whole. */
static void check_null_pointers(void) {
    struct svm_parameter p = usual(C_SVC, RBF), weighted = usual(C_SVC, RBF);
    struct svm_problem problem = {ROWS, targets, rows}, negative = {-5, targets, rows}, half = {ROWS, NULL, rows};
    struct svm_model *m, *empty = calloc(1, sizeof *empty);
    struct svm_node *row;
    double value;
    int type;
    CHECK(empty != NULL);
    make_rows(2);
    CHECK(svm_train(&negative, &p) == NULL && svm_train(&half, &p) == NULL && svm_train(&problem, NULL) == NULL);
    svm_cross_validation(NULL, &p, 3, NULL);
    svm_cross_validation(&problem, &p, 3, NULL);
    svm_cross_validation(&problem, NULL, 3, &value);
    CHECK(svm_check_parameter(NULL, NULL) != NULL && svm_check_parameter(NULL, &p) == NULL);
    svm_destroy_param(NULL);
    weighted.nr_weight = 5;
    m = svm_train(&problem, &weighted);
    CHECK(m != NULL && m->l > 0);
    svm_get_labels(m, NULL), svm_get_labels(NULL, NULL);
    svm_get_sv_indices(m, NULL), svm_get_sv_indices(NULL, NULL);
    value = svm_predict(m, rows[0]);
    CHECK(svm_predict_values(m, rows[0], NULL) == value && svm_predict_probability(m, rows[0], NULL) == value);
    CHECK(svm_predict_values(NULL, rows[0], &value) == 0 && svm_predict_probability(NULL, NULL, NULL) == 0);
    CHECK(svm_save_model(NULL, m) == -1 && svm_save_model("null", NULL) == -1);
    CHECK(svm_get_nr_sv(NULL) == 0 && svm_check_probability_model(NULL) == 0 && svm_get_svr_probability(m) == 0);
    svm_free_and_destroy_model(&m);
    svm_free_and_destroy_model(&m);
    row = rows[5], rows[5] = NULL;
    m = svm_train(&problem, &p);
    CHECK(m != NULL && m->l > 0 && !isnan(svm_predict(m, rows[0])));
    svm_free_and_destroy_model(&m);
    rows[5] = row;
    for (type = C_SVC; type <= NU_SVR; type++) {
        double values[3] = {0, 0, 0};
        empty->param = usual(type, RBF);
        empty->nr_class = 2;
        empty->l = type == C_SVC ? 100 : 0;
        CHECK(!isnan(svm_predict(empty, rows[0])) && !isnan(svm_predict_values(empty, rows[0], values)));
        CHECK(!isnan(svm_predict_probability(empty, rows[0], values)) && !isnan(values[0]));
        CHECK(svm_save_model("empty", empty) == -1);
    }
    svm_free_and_destroy_model(&empty);
    CHECK(empty == NULL);
}

/* Rows and parameters that make no sense: a model or none, never an answer that is no number. */
static void check_absurd_trainings(void) {
    static double folds[ROWS];
    struct svm_problem problem = {ROWS, targets, rows};
    struct { double c, gamma, coef0, eps, cache, weight; } absurd[] = {
        {1e300, 0.5, 0, 1e-3, 10, 1},   {1e-300, 0.5, 0, 1e-3, 10, 1}, {1, 1e300, 0, 1e-3, 10, 1},
        {1, 0.5, NAN, 1e-3, 10, 1},     {NAN, 0.5, 0, 1e-3, 10, 1},    {INFINITY, 0.5, 0, 1e-3, 10, 1},
        {1, 0.5, 1e300, 1e-3, 10, 1},   {1, 0.5, 0, NAN, 10, 1},       {1, 0.5, 0, INFINITY, 10, 1},
        {1, 0.5, 0, 1e-3, 1e-300, 1},   {1, 0.5, 0, 1e-3, 1e300, 1},   {1, 0.5, 0, 1e-3, NAN, 1},
        {1, 0.5, 0, 1e-3, 10, NAN},     {1, 0.5, 0, 1e-3, 10, -1},     {1, 0.5, 0, 1e-3, 10, 1e300},
        {1, 0.5, 0, 1e-3, 10, 0},       {1, -1, 0, 1e-3, 10, 1},       {-1, 0.5, 0, 1e-3, 10, 1},
    };
    int label = 1, i;
    size_t at;
    make_rows(2);
    /* Values of one index twice, and an index that comes late. */
    space[7][1].index = 1, space[8][0].index = 4;
    for (at = 0; at < sizeof absurd / sizeof absurd[0]; at++) {
        struct svm_parameter p = usual(C_SVC, at % 2 ? POLY : RBF);
        struct svm_model *m;
        double value;
        p.C = absurd[at].c, p.gamma = absurd[at].gamma, p.coef0 = absurd[at].coef0;
        p.eps = absurd[at].eps, p.cache_size = absurd[at].cache;
        p.nr_weight = 1, p.weight_label = &label, p.weight = &absurd[at].weight;
        m = svm_train(&problem, &p);
        CHECK(m != NULL);
        for (i = 0; i < ROWS; i++) {
            CHECK(fabs(svm_predict(m, rows[i])) == 1);
            CHECK(fabs(svm_predict_values(m, rows[i], &value)) == 1);
        }
        svm_free_and_destroy_model(&m);
    }
    {
        struct svm_parameter p = usual(NU_SVC, RBF);
        for (i = -3; i < 2; i++) svm_cross_validation(&problem, &p, i, folds);
        for (i = 0; i < ROWS; i++) CHECK(!isnan(folds[i]));
    }
}

static struct svm_model *shared;

static void *ask(void *unused) {
    int i, round;
    for (round = 0; round < 5; round++)
        for (i = 0; i < ROWS; i++) {
            double value;
            CHECK(svm_predict(shared, rows[i]) == svm_predict_values(shared, rows[i], &value));
        }
    return unused;
}

/* The first prediction packs the model while others ask: a model of the library, and one of the caller. */
static void check_threads(void) {
    struct svm_parameter p = usual(C_SVC, RBF);
    struct svm_problem problem = {ROWS, targets, rows};
    struct svm_model *trained;
    pthread_t threads[4];
    int i, k;
    make_rows(2);
    trained = svm_train(&problem, &p);
    for (k = 0; k < 2; k++) {
        shared = k == 0 ? trained : built(trained);
        for (i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, ask, NULL) == 0);
        for (i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
        compare(shared);
        if (k == 1) svm_free_and_destroy_model(&shared);
    }
    svm_free_and_destroy_model(&trained);
}

/* Any argument: fewer trainings, for valgrind. */
int main(int count, char **words) {
    int few = count > 1 && words != NULL;
    CHECK(libsvm_version >= 300);
    svm_set_print_string_function(count_print);
    check_all_types(few);
    CHECK(printed > 0);
    check_models_of_callers();
    check_models_built_field_by_field(few);
    if (!few) check_memory_is_given_back();
    check_supports_changed_in_place();
    check_probabilities(few);
    check_texts();
    check_nonsense();
    check_null_pointers();
    check_absurd_trainings();
    check_threads();
    printf("done\n");
    return 0;
}
