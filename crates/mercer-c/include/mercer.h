/* The C library of Mercer: kernel machines that answer fast, with the same decisions.
 *
 * Written by cbindgen from crates/mercer-c/src; a guide is docs/guide/c.md.
 *
 * Every function returns a status; a sentence about the last error of the calling thread is in mercer_last_error().
 * Nothing prints or exits. One model may be used by many threads at the same time. */

#ifndef MERCER_H
#define MERCER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Changes when a program that was compiled with another `mercer.h` can no longer use this library.
#define MERCER_ABI_VERSION 1

// The kernel: `rbf(gamma=0.5)`.
#define MERCER_KERNEL 0

// The plan that answers: `cascade(low_precision, exact)`.
#define MERCER_PLAN_TEXT 1

// The contract it was tuned for: `certified`; empty if it was not tuned.
#define MERCER_CONTRACT 2

// SHA-256 of the machine.
#define MERCER_DIGEST 3

// Stages of the file that do not run because they are not verified, and why, and the budget that is not in force then; empty
// if all run.
#define MERCER_LEFT_OUT 4

// How a call ended.
typedef enum mercer_status {
  // Done.
  MERCER_OK = 0,
  // An argument is wrong: a null pointer, a text that is not UTF-8, a number out of range.
  MERCER_ARGUMENT = 1,
  // A file cannot be read or written, or is not a model.
  MERCER_FILE = 2,
  // Rows do not fit the model, or hold what is not a number.
  MERCER_ROWS = 3,
  // A text such as `rbf(gamma=0.5)` is wrong.
  MERCER_SPEC = 4,
  // The plan of a model is wrong, or cannot be fitted.
  MERCER_PLAN = 5,
  // Training failed.
  MERCER_TRAINING = 6,
  // The model has no such thing, for instance no probabilities.
  MERCER_ABSENT = 7,
  // A callback asked to stop, and nothing usable was there yet.
  MERCER_CANCELLED = 8,
  // A mistake in the library; the process goes on.
  MERCER_INTERNAL = 9,
} mercer_status;

// How sure an answer is.
typedef enum mercer_certainty {
  // The budget was spent before the label was settled.
  MERCER_UNSETTLED = 0,
  // Statistical, with the risk and the confidence of the plan's contract.
  MERCER_CALIBRATED = 1,
  // Proved, rounding included.
  MERCER_CERTIFIED = 2,
  // The label of the specified f64 evaluation.
  MERCER_EXACT = 3,
} mercer_certainty;

// What the answers of a model are.
typedef enum mercer_output {
  // One of several classes.
  MERCER_CLASSES = 0,
  // A value (regression).
  MERCER_VALUE = 1,
  // Whether a row is like the training data (one class): label 1 or -1.
  MERCER_NOVELTY = 2,
} mercer_output;

// A model with its plan. Many threads may use one at the same time; `mercer_model_free` frees it.
typedef struct mercer_model mercer_model;

// What a caller allows and requires; `mercer_query_options_of` fills it.
typedef struct mercer_query_options {
  // Most multiply-adds of one query; 0 means no limit.
  uint64_t budget;
  // Half-width at which the value of a regression is settled; below 0: only exact values are.
  double tolerance;
  // Whether queries go on to the exact stage if the budget does not suffice.
  bool require_certified;
  // Threads for many rows: 0 means one for each core, 1 the caller's own.
  size_t threads;
  // Whether the score is compared with `threshold`, not with 0: for two classes and novelty. Answers are then proved or
  // exact, because a calibration was tested against 0.
  bool has_threshold;
  // The first class (an inlier) is answered where the score is above it.
  double threshold;
} mercer_query_options;

// Rows, dense or compressed (CSR). `mercer_dense` and `mercer_csr` fill it; the arrays stay the caller's.
typedef struct mercer_rows {
  // Number of rows.
  size_t rows;
  // Number of columns.
  size_t columns;
  // Dense: row after row, each at a multiple of `stride`. Compressed: the values of all rows.
  const double *values;
  // Dense: values from the start of one row to that of the next, at least `columns`. Compressed: not used.
  size_t stride;
  // Compressed: `rows + 1` numbers; row i holds the entries `starts[i]` to `starts[i + 1] - 1`. Dense: null.
  const uint64_t *starts;
  // Compressed: column of each entry, from 0, increasing within a row. Dense: null.
  const uint32_t *indices;
} mercer_rows;

// An answer.
typedef struct mercer_decision {
  // The class if it is named by a number, else its position; the value of a regression; 1 or -1 for novelty.
  double label;
  // Position of the class, from 0 (`mercer_model_class` names it); -1 for regression and novelty.
  int64_t class_index;
  // Lower end of the range of the score (of the margin, with more than two classes).
  double low;
  // Upper end.
  double high;
  // What it cost, in multiply-adds.
  uint64_t cost;
  // How sure it is.
  enum mercer_certainty certainty;
  // Position of the stage of the plan that answered; the exact one is the last.
  uint32_t stage;
} mercer_decision;

// What a model holds.
typedef struct mercer_info {
  // What its answers are.
  enum mercer_output output;
  // Number of classes; 0 for regression and novelty.
  size_t classes;
  // Real functions: one for each binary subproblem.
  size_t scores;
  // Distinct support vectors.
  size_t supports;
  // Columns of a row; 0 if rows of any width fit.
  size_t columns;
  // Whether `mercer_probabilities` works.
  bool has_probabilities;
  // Most multiply-adds of one query by the budget it was tuned for; 0 means no limit.
  uint64_t budget;
  // Bytes of packed supports and stages.
  size_t bytes;
} mercer_info;

// How far a training is.
typedef struct mercer_progress {
  // Pair steps or coordinate updates so far.
  uint64_t iterations;
  // The binary subproblem being solved, from 0.
  size_t subproblem;
  // How many there are.
  size_t subproblems;
  // Maximal violation of the optimality conditions.
  double violation;
  // Duality gap.
  double gap;
  // Seconds since the start.
  double seconds;
} mercer_progress;

// Called again and again during a training, on one thread at a time. The training ends soon after it returns anything
// but 0, with the best machine so far.
typedef int (*mercer_observer)(void *user, const struct mercer_progress *progress);

// What is trained; `mercer_training_default` fills it.
typedef struct mercer_training {
  // Such as `rbf(gamma=0.5)`.
  const char *kernel;
  // Such as `c_svc(C=1)`, `epsilon_svr(C=1, epsilon=0.1)`, `one_class(nu=0.1)`.
  const char *formulation;
  // Such as `low_rank`; null means `smo`.
  const char *solver;
  // The largest violation at the end; 0 means the default of the solver.
  double tolerance;
  // Bytes for kernel rows that are kept; 0 means the default.
  size_t memory;
  // Seconds after which the best machine so far is returned; 0 means no limit.
  double seconds;
  // A weight for each row, or null.
  const double *weights;
  // How many classes have a weight of their own.
  size_t class_weights;
  // Their labels.
  const double *class_labels;
  // Factors of C for them.
  const double *class_factors;
  // Threads: 0 means one for each core.
  size_t threads;
  // Called with the progress, or null.
  mercer_observer observer;
  // Given to the observer.
  void *user;
} mercer_training;

// How a training ended.
typedef struct mercer_training_report {
  // Whether every subproblem reached the tolerance.
  bool converged;
  // Pair steps or coordinate updates.
  uint64_t iterations;
  // Dual objective as LIBSVM prints it, summed over the subproblems.
  double objective;
  // Recomputed duality gap.
  double gap;
  // Distinct support vectors.
  size_t supports;
  // Bounded support vectors, summed over the subproblems.
  size_t bounded;
  // Seconds it took.
  double seconds;
} mercer_training_report;

// Called again and again during long work, on one thread at a time: done steps, all steps (0 if not known). Work ends
// soon after it returns anything but 0.
typedef int (*mercer_watch)(void *user, uint64_t done, uint64_t all);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The `MERCER_ABI_VERSION` of the library that is loaded; compare it with that of the header.
uint32_t mercer_abi_version(void);

// The version of the library, such as `0.1.0`.
const char *mercer_version(void);

// The options that a model was tuned for: its budget and its tolerance, all cores.
//
// # Safety
// `model` is a model of this library; `options` may be written.
enum mercer_status mercer_query_options_of(const struct mercer_model *model,
                                           struct mercer_query_options *options);

// Decisions for all rows, one for each; null options are those that the model was tuned for.
//
// # Safety
// `model` is a model of this library; the arrays of `rows` are as long as they say; `options` is null or points to
// options; `decisions` has a place for each row.
enum mercer_status mercer_decide(const struct mercer_model *model,
                                 const struct mercer_rows *rows,
                                 const struct mercer_query_options *options,
                                 struct mercer_decision *decisions);

// Labels of all rows, with the options that the model was tuned for: numbers of classes, values, or 1 and -1. Fails if
// classes are named by texts, or a budget leaves a query unsettled: `mercer_decide` says more.
//
// # Safety
// As `mercer_decide`; `labels` has a place for each row.
enum mercer_status mercer_predict(const struct mercer_model *model,
                                  const struct mercer_rows *rows,
                                  double *labels);

// Exact scores of all rows: `mercer_info.scores` numbers for each row, row after row.
//
// # Safety
// As `mercer_decide`; `scores` has that many places.
enum mercer_status mercer_scores(const struct mercer_model *model,
                                 const struct mercer_rows *rows,
                                 double *scores);

// Probabilities of all classes: `mercer_info.classes` numbers for each row, row after row.
//
// # Safety
// As `mercer_decide`; `probabilities` has that many places.
enum mercer_status mercer_probabilities(const struct mercer_model *model,
                                        const struct mercer_rows *rows,
                                        double *probabilities);

// What went wrong in the last call of this thread that did not return `MERCER_OK`; empty before the first one. The text
// stays until the next such call of the same thread.
const char *mercer_last_error(void);

// Opens a model file: Mercer's own, LIBSVM's, LIBLINEAR's or ONNX. The plan of a file is verified first; stages that are
// not verified are left out (`MERCER_LEFT_OUT`), unless `trust_plan` is true.
//
// # Safety
// `path` is a text that ends with NUL; `model` may be written.
enum mercer_status mercer_model_open(const char *path,
                                     bool trust_plan,
                                     struct mercer_model **model);

// As `mercer_model_open`, from the bytes of a file.
//
// # Safety
// `bytes` are `length` bytes; `model` may be written.
enum mercer_status mercer_model_read(const uint8_t *bytes,
                                     size_t length,
                                     bool trust_plan,
                                     struct mercer_model **model);

// Frees a model; a null pointer is right.
//
// # Safety
// `model` is null or came from this library, and nobody uses it any more.
void mercer_model_free(struct mercer_model *model);

// What a model holds.
//
// # Safety
// `model` is a model of this library; `info` may be written.
enum mercer_status mercer_model_info(const struct mercer_model *model, struct mercer_info *info);

// A text about a model (`MERCER_KERNEL`, `MERCER_PLAN_TEXT`, ...), which stays as long as the model; null if the model is
// null or there is no such text.
//
// # Safety
// `model` is null or a model of this library.
const char *mercer_model_text(const struct mercer_model *model,
                              uint32_t what);

// The name of a class, from 0, which stays as long as the model; null if there is no such class.
//
// # Safety
// `model` is null or a model of this library.
const char *mercer_model_class(const struct mercer_model *model, size_t class_index);

// The name of a column, from 0, which stays as long as the model; null if it has none.
//
// # Safety
// `model` is null or a model of this library.
const char *mercer_model_column(const struct mercer_model *model, size_t column);

// Writes a model file: format `mercer`, `libsvm`, `liblinear`, `onnx`, `c` or `c-float`. The file appears whole or not at
// all. A plan is kept by `mercer` only.
//
// # Safety
// `model` is a model of this library; `path` and `format` are texts that end with NUL.
enum mercer_status mercer_model_save(const struct mercer_model *model,
                                     const char *path,
                                     const char *format);

// A model as the bytes of a file; `mercer_bytes_free` frees them.
//
// # Safety
// `model` is a model of this library; `format` is a text that ends with NUL; `bytes` and `length` may be written.
enum mercer_status mercer_model_write(const struct mercer_model *model,
                                      const char *format,
                                      uint8_t **bytes,
                                      size_t *length);

// Frees bytes of `mercer_model_write`; a null pointer is right.
//
// # Safety
// `bytes` and `length` came from one call of `mercer_model_write`, and nobody uses them any more.
void mercer_bytes_free(uint8_t *bytes, size_t length);

// Dense rows without gaps.
struct mercer_rows mercer_dense(const double *values, size_t rows, size_t columns);

// Compressed rows (CSR).
struct mercer_rows mercer_csr(const uint64_t *starts,
                              const uint32_t *indices,
                              const double *values,
                              size_t rows,
                              size_t columns);

// C-SVC with C = 1 and the kernel `rbf(gamma=scale)`, all cores, no limits.
struct mercer_training mercer_training_default(void);

// Learns a model from rows and targets (one for each row: class or value; null for one-class machines). Labels of classes are
// numbers. `report` may be null.
//
// # Safety
// The arrays of `rows` and `training` are as long as they say, `targets` is null or has a number for each row, `model`
// may be written, `report` is null or may be written. The observer may be called from another thread during the call.
enum mercer_status mercer_train(const struct mercer_rows *rows,
                                const double *targets,
                                const struct mercer_training *training,
                                struct mercer_model **model,
                                struct mercer_training_report *report);

// The fastest plan that honours a contract (`certified`, `calibrated(eps=0.001, delta=0.05)`, `exact`) on queries like the
// sample, as a new model. `seconds` limits the search. The sample must not be training data.
//
// # Safety
// `model` is a model of this library; the arrays of `sample` are as long as they say; `contract` ends with NUL; `watch`
// is null or may be called with `user` from other threads during the call; `tuned` may be written.
enum mercer_status mercer_tune(const struct mercer_model *model,
                               const struct mercer_rows *sample,
                               const char *contract,
                               double seconds,
                               mercer_watch watch,
                               void *user,
                               struct mercer_model **tuned);

// A model with a given plan, such as `cascade(low_precision, exact)`. A null sample is right for stages that need none.
//
// # Safety
// As `mercer_tune`; `sample` may be null.
enum mercer_status mercer_compile(const struct mercer_model *model,
                                  const char *plan,
                                  const struct mercer_rows *sample,
                                  mercer_watch watch,
                                  void *user,
                                  struct mercer_model **compiled);

// Verifies all that the plan of a model rests on, and remembers it for this user; the model that runs all verified stages
// is a new one. A calibration needs a sample of the caller's own queries; without one its stages stay left out.
//
// # Safety
// As `mercer_tune`; `sample` may be null.
enum mercer_status mercer_verify(const struct mercer_model *model,
                                 const struct mercer_rows *sample,
                                 struct mercer_model **verified);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MERCER_H */
