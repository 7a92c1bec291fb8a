//! LIBSVM's functions for any layout of a model. Null pointers give an answer without an error; a panic inside becomes
//! one too, because a caller in C could not catch it.
//!
//! # Safety
//! Of every function here: pointers are null or point to what LIBSVM's README says, and nobody changes that meanwhile.
#![expect(clippy::missing_safety_doc, reason = "said once, above")]

use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};

use mercer::data::caught;

use crate::layout::{Fields, Layout, svm_node, svm_parameter, svm_problem, svm_type};
use crate::memory::{self, release};
use crate::predict::Prediction;
use crate::print::{self, PrintFunction};
use crate::train::Problem;
use crate::{check, file, known};

/// Runs the body of a function; after a panic its result is the given one.
fn guarded<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    caught(body).unwrap_or(otherwise)
}

/// A model in memory of its own, known from now on.
fn allocated<M: Layout>(fields: &Fields) -> *mut M {
    let model = memory::copied(&[M::of(fields)]);
    if !model.is_null() {
        known::remember(model.addr());
    }
    model
}

/// `svm_train`.
pub unsafe fn svm_train<M: Layout>(
    problem: *const svm_problem,
    param: *const svm_parameter,
) -> *mut M {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: as the caller of this function promises.
        unsafe {
            let Some(problem) = Problem::new(problem, param) else {
                eprintln!("mercer: svm_train: there are no rows, or a pointer is null");
                return std::ptr::null_mut();
            };
            allocated(&problem.model(M::HAS_MARKS))
        }
    })
}

/// `svm_cross_validation`.
pub unsafe fn svm_cross_validation<M: Layout>(
    problem: *const svm_problem,
    param: *const svm_parameter,
    folds: c_int,
    target: *mut f64,
) {
    guarded((), || {
        // SAFETY: as the caller of this function promises.
        let Some(problem) = (unsafe { Problem::new(problem, param) }) else { return };
        let rows = problem.targets.len();
        let mut folds = usize::try_from(folds).unwrap_or(1).max(1);
        if folds > rows {
            eprintln!(
                "WARNING: # folds ({folds}) > # data ({rows}). Will use # folds = # data instead \
                 (i.e., leave-one-out cross validation)"
            );
            folds = rows;
        }
        let answers = problem.run(|task| task.cross_validation(folds));
        // SAFETY: as the caller of this function promises.
        let out = unsafe { memory::slice_mut(target, rows) };
        match answers {
            Ok(answers) if out.len() == rows => out.copy_from_slice(&answers),
            Ok(_) => {}
            Err(sentence) => {
                eprintln!("mercer: svm_cross_validation: {sentence}; all answers are 0");
                out.fill(0.0);
            }
        }
    });
}

/// A path of the caller.
unsafe fn path(text: *const c_char) -> Option<PathBuf> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as the caller of this function promises.
    let text = unsafe { CStr::from_ptr(text) };
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        Some(Path::new(std::ffi::OsStr::from_bytes(text.to_bytes())).to_owned())
    }
    #[cfg(not(unix))]
    {
        text.to_str().ok().map(|text| Path::new(text).to_owned())
    }
}

/// `svm_save_model`.
pub unsafe fn svm_save_model<M: Layout>(name: *const c_char, model: *const M) -> c_int {
    guarded(-1, || {
        // SAFETY: as the caller of this function promises.
        unsafe {
            let (Some(path), Some(model)) = (path(name), model.as_ref()) else { return -1 };
            match file::save(&path, &model.fields()) {
                Ok(()) => 0,
                Err(sentence) => {
                    crate::pack::log(|| format!("svm_save_model: {sentence}"));
                    -1
                }
            }
        }
    })
}

/// `svm_load_model`.
pub unsafe fn svm_load_model<M: Layout>(name: *const c_char) -> *mut M {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: as the caller of this function promises.
        unsafe {
            let Some(path) = path(name) else { return std::ptr::null_mut() };
            // LIBSVM says nothing of a file that cannot be opened.
            let Ok(bytes) = std::fs::read(path) else { return std::ptr::null_mut() };
            match file::load(&bytes, M::HAS_MARKS) {
                Ok(fields) => allocated(&fields),
                Err(sentence) => {
                    eprintln!("{sentence}");
                    std::ptr::null_mut()
                }
            }
        }
    })
}

/// `svm_get_svm_type`.
pub unsafe fn svm_get_svm_type<M: Layout>(model: *const M) -> c_int {
    // SAFETY: as the caller of this function promises.
    unsafe { model.as_ref() }.map_or(-1, |model| model.fields().param.svm_type)
}

/// `svm_get_nr_class`.
pub unsafe fn svm_get_nr_class<M: Layout>(model: *const M) -> c_int {
    // SAFETY: as the caller of this function promises.
    unsafe { model.as_ref() }.map_or(0, |model| model.fields().classes)
}

/// `svm_get_labels`.
pub unsafe fn svm_get_labels<M: Layout>(model: *const M, labels: *mut c_int) {
    // SAFETY: as the caller of this function promises.
    unsafe {
        let Some(model) = model.as_ref() else { return };
        let known = model.fields().labels();
        let out = memory::slice_mut(labels, known.len());
        out.copy_from_slice(&known[..out.len()]);
    }
}

/// `svm_get_sv_indices`.
pub unsafe fn svm_get_sv_indices<M: Layout>(model: *const M, indices: *mut c_int) {
    // SAFETY: as the caller of this function promises.
    unsafe {
        let Some(model) = model.as_ref() else { return };
        let fields = model.fields();
        let known = memory::slice(fields.indices, fields.count);
        let out = memory::slice_mut(indices, known.len());
        out.copy_from_slice(&known[..out.len()]);
    }
}

/// `svm_get_nr_sv`.
pub unsafe fn svm_get_nr_sv<M: Layout>(model: *const M) -> c_int {
    // SAFETY: as the caller of this function promises.
    unsafe { model.as_ref() }.map_or(0, |model| model.fields().count)
}

/// `svm_get_svr_probability`.
pub unsafe fn svm_get_svr_probability<M: Layout>(model: *const M) -> f64 {
    // SAFETY: as the caller of this function promises.
    let fields = unsafe { model.as_ref() }.map(Layout::fields);
    match fields {
        Some(fields) if fields.param.is_regression() && !fields.prob_a.is_null() => {
            // SAFETY: as the caller of this function promises.
            unsafe { *fields.prob_a }
        }
        _ => {
            eprintln!("Model doesn't contain information for SVR probability inference");
            0.0
        }
    }
}

/// A model and a row; `None` for a null model.
unsafe fn prediction<'a, M: Layout>(
    model: *const M,
    row: *const svm_node,
) -> Option<Prediction<'a>> {
    // SAFETY: as the caller of this function promises.
    unsafe { model.as_ref().map(|known| Prediction::new(known.fields(), model.addr(), row)) }
}

/// `svm_predict_values`.
pub unsafe fn svm_predict_values<M: Layout>(
    model: *const M,
    row: *const svm_node,
    out: *mut f64,
) -> f64 {
    guarded(0.0, || {
        // SAFETY: as the caller of this function promises.
        let Some(prediction) = (unsafe { prediction(model, row) }) else { return 0.0 };
        let (values, label) = prediction.values();
        // SAFETY: as the caller of this function promises.
        let out = unsafe { memory::slice_mut(out, values.len()) };
        out.copy_from_slice(&values[..out.len()]);
        label
    })
}

/// `svm_predict`.
pub unsafe fn svm_predict<M: Layout>(model: *const M, row: *const svm_node) -> f64 {
    guarded(0.0, || {
        // SAFETY: as the caller of this function promises.
        unsafe { prediction(model, row) }.map_or(0.0, |prediction| prediction.label())
    })
}

/// `svm_predict_probability`.
pub unsafe fn svm_predict_probability<M: Layout>(
    model: *const M,
    row: *const svm_node,
    out: *mut f64,
) -> f64 {
    guarded(0.0, || {
        // SAFETY: as the caller of this function promises.
        let Some(prediction) = (unsafe { prediction(model, row) }) else { return 0.0 };
        let (each, label) = prediction.probabilities();
        if let Some(each) = each {
            // SAFETY: as the caller of this function promises.
            let out = unsafe { memory::slice_mut(out, each.len()) };
            out.copy_from_slice(&each[..out.len()]);
        }
        label
    })
}

/// `svm_free_model_content`.
pub unsafe fn svm_free_model_content<M: Layout>(model: *mut M) {
    known::forget(model.addr());
    // SAFETY: as the caller of this function promises; what the members point to came from `malloc`, of this library
    // or of the caller.
    unsafe {
        let Some(known) = model.as_mut() else { return };
        let mut fields = known.fields();
        let rows = memory::slice(fields.supports, fields.count);
        if fields.frees_supports != 0 {
            rows.first().copied().into_iter().for_each(|row| release(row));
        }
        // As many as LIBSVM: also a regression has two classes, and one array.
        memory::slice(fields.coefficients, fields.classes - 1)
            .iter()
            .for_each(|array| release(*array));
        release(fields.supports);
        release(fields.coefficients);
        release(fields.rho);
        release(fields.prob_a);
        release(fields.prob_b);
        release(fields.marks);
        release(fields.indices);
        release(fields.labels);
        release(fields.per_class);
        fields.supports = std::ptr::null_mut();
        fields.coefficients = std::ptr::null_mut();
        fields.rho = std::ptr::null_mut();
        fields.prob_a = std::ptr::null_mut();
        fields.prob_b = std::ptr::null_mut();
        fields.marks = std::ptr::null_mut();
        fields.indices = std::ptr::null_mut();
        fields.labels = std::ptr::null_mut();
        fields.per_class = std::ptr::null_mut();
        *known = M::of(&fields);
    }
}

/// `svm_free_and_destroy_model`.
pub unsafe fn svm_free_and_destroy_model<M: Layout>(model: *mut *mut M) {
    // SAFETY: as the caller of this function promises.
    unsafe {
        let Some(place) = model.as_mut() else { return };
        if !place.is_null() {
            svm_free_model_content(*place);
            release(*place);
            *place = std::ptr::null_mut();
        }
    }
}

/// `svm_destroy_param`.
pub unsafe fn svm_destroy_param<M: Layout>(param: *mut svm_parameter) {
    // SAFETY: as the caller of this function promises.
    unsafe {
        let Some(param) = param.as_mut() else { return };
        release(param.weight_label);
        release(param.weight);
    }
}

/// `svm_check_parameter`.
pub unsafe fn svm_check_parameter<M: Layout>(
    problem: *const svm_problem,
    param: *const svm_parameter,
) -> *const c_char {
    // SAFETY: as the caller of this function promises.
    unsafe {
        let Some(param) = param.as_ref() else { return c"no parameters".as_ptr() };
        let targets =
            problem.as_ref().map_or(&[][..], |problem| memory::slice(problem.y, problem.l));
        check::parameter(param, targets, M::HAS_MARKS).map_or(std::ptr::null(), CStr::as_ptr)
    }
}

/// `svm_check_probability_model`.
pub unsafe fn svm_check_probability_model<M: Layout>(model: *const M) -> c_int {
    // SAFETY: as the caller of this function promises.
    let Some(fields) = (unsafe { model.as_ref() }).map(Layout::fields) else { return 0 };
    let knows = match fields.param.svm_type {
        svm_type::ONE_CLASS => !fields.marks.is_null(),
        _ if fields.param.is_regression() => !fields.prob_a.is_null(),
        _ => !fields.prob_a.is_null() && !fields.prob_b.is_null(),
    };
    c_int::from(knows)
}

/// `svm_set_print_string_function`.
pub unsafe fn svm_set_print_string_function<M: Layout>(function: PrintFunction) {
    print::set(function);
}
