//! LIBSVM's C interface on Mercer: its structures, its nineteen functions, its texts and its files. Programs that load
//! `libsvm.so` run unchanged; labels are LIBSVM's, decision values too (to rounding), and both come faster.
//!
//! The shared libraries are `mercer-libsvm3` and `mercer-libsvm4`, one for each layout of a model: they hold nothing but
//! [`export!`]. A guide is `docs/guide/libsvm.md`.
#![expect(unsafe_code, reason = "pointers of the caller; each block says why it may be read")]

mod check;
mod direct;
mod examples;
mod file;
mod fingerprint;
mod fit;
pub mod functions;
mod known;
mod layout;
mod linear;
mod memory;
mod pack;
mod partial;
mod predict;
mod print;
mod sigmoid;
mod snapshot;
mod train;
mod workers;

pub use layout::{Fields, Layout, svm_model_3, svm_model_4, svm_node, svm_parameter, svm_problem};
pub use print::PrintFunction;

/// Defines LIBSVM's functions and its data symbol for a layout of a model, in a crate that becomes a shared library.
#[macro_export]
macro_rules! export {
    ($model:ty, $version:literal) => {
        use ::std::ffi::{c_char, c_int};
        use $crate::{PrintFunction, functions, svm_node, svm_parameter, svm_problem};

        /// The version of LIBSVM whose interface this is.
        #[allow(non_upper_case_globals, reason = "a name of LIBSVM's interface")]
        #[unsafe(no_mangle)]
        pub static libsvm_version: c_int = $version;

        $crate::export! { @each $model;
            /// Trains a model.
            svm_train(problem: *const svm_problem, param: *const svm_parameter) -> *mut $model;
            /// Answers each row by the model of the other folds.
            svm_cross_validation(
                problem: *const svm_problem,
                param: *const svm_parameter,
                folds: c_int,
                target: *mut f64
            ) -> ();
            /// Writes a model to a file: 0, or -1 if that fails.
            svm_save_model(path: *const c_char, model: *const $model) -> c_int;
            /// Reads a model from a file; null if that fails.
            svm_load_model(path: *const c_char) -> *mut $model;
            /// The number of the type.
            svm_get_svm_type(model: *const $model) -> c_int;
            /// The number of classes.
            svm_get_nr_class(model: *const $model) -> c_int;
            /// The labels of the classes.
            svm_get_labels(model: *const $model, labels: *mut c_int) -> ();
            /// The numbers of the rows that are support vectors, from 1.
            svm_get_sv_indices(model: *const $model, indices: *mut c_int) -> ();
            /// The number of support vectors.
            svm_get_nr_sv(model: *const $model) -> c_int;
            /// The scale of the errors of a regression.
            svm_get_svr_probability(model: *const $model) -> f64;
            /// All decision values and the label.
            svm_predict_values(
                model: *const $model,
                row: *const svm_node,
                values: *mut f64
            ) -> f64;
            /// The label, or the value of a regression.
            svm_predict(model: *const $model, row: *const svm_node) -> f64;
            /// The label and the probability of each class.
            svm_predict_probability(
                model: *const $model,
                row: *const svm_node,
                probabilities: *mut f64
            ) -> f64;
            /// Releases what a model points to.
            svm_free_model_content(model: *mut $model) -> ();
            /// Releases a model and sets the pointer to null.
            svm_free_and_destroy_model(model: *mut *mut $model) -> ();
            /// Releases the weights of parameters.
            svm_destroy_param(param: *mut svm_parameter) -> ();
            /// What is wrong with parameters; null if nothing is.
            svm_check_parameter(
                problem: *const svm_problem,
                param: *const svm_parameter
            ) -> *const c_char;
            /// Whether a model knows probabilities.
            svm_check_probability_model(model: *const $model) -> c_int;
            /// Texts of trainings go to this function; null means the standard output.
            svm_set_print_string_function(function: PrintFunction) -> ();
        }
    };
    (@each $model:ty; $(
        $(#[$about:meta])*
        $name:ident($($argument:ident: $kind:ty),*) -> $result:ty;
    )*) => {
        $(
            $(#[$about])*
            ///
            /// # Safety
            /// The pointers are null or point to what LIBSVM's README says.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
                // SAFETY: as the caller of this function promises.
                unsafe { functions::$name::<$model>($($argument),*) }
            }
        )*
    };
}
