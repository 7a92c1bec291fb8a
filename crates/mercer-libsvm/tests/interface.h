/* LIBSVM's interface as a program in C sees it; HAS_MARKS is the layout from 3.31 on. */
#ifndef INTERFACE_H
#define INTERFACE_H

extern int libsvm_version;

struct svm_node { int index; double value; };
struct svm_problem { int l; double *y; struct svm_node **x; };
enum { C_SVC, NU_SVC, ONE_CLASS, EPSILON_SVR, NU_SVR };
enum { LINEAR, POLY, RBF, SIGMOID, PRECOMPUTED };
struct svm_parameter {
    int svm_type, kernel_type, degree;
    double gamma, coef0, cache_size, eps, C;
    int nr_weight;
    int *weight_label;
    double *weight;
    double nu, p;
    int shrinking, probability;
};
struct svm_model {
    struct svm_parameter param;
    int nr_class, l;
    struct svm_node **SV;
    double **sv_coef;
    double *rho, *probA, *probB;
#ifdef HAS_MARKS
    double *prob_density_marks;
#endif
    int *sv_indices, *label, *nSV;
    int free_sv;
};

struct svm_model *svm_train(const struct svm_problem *, const struct svm_parameter *);
void svm_cross_validation(const struct svm_problem *, const struct svm_parameter *, int, double *);
int svm_save_model(const char *, const struct svm_model *);
struct svm_model *svm_load_model(const char *);
int svm_get_svm_type(const struct svm_model *);
int svm_get_nr_class(const struct svm_model *);
void svm_get_labels(const struct svm_model *, int *);
void svm_get_sv_indices(const struct svm_model *, int *);
int svm_get_nr_sv(const struct svm_model *);
double svm_get_svr_probability(const struct svm_model *);
double svm_predict_values(const struct svm_model *, const struct svm_node *, double *);
double svm_predict(const struct svm_model *, const struct svm_node *);
double svm_predict_probability(const struct svm_model *, const struct svm_node *, double *);
void svm_free_model_content(struct svm_model *);
void svm_free_and_destroy_model(struct svm_model **);
void svm_destroy_param(struct svm_parameter *);
const char *svm_check_parameter(const struct svm_problem *, const struct svm_parameter *);
int svm_check_probability_model(const struct svm_model *);
void svm_set_print_string_function(void (*)(const char *));

#endif
