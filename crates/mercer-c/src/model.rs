//! Models for callers in C: opened, described, saved, freed. Their answers are in `answer.rs`.

use std::ffi::{CString, c_char};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use mercer::machine::{ClassName, Model, Output, file};
use mercer::query::{KnownPlans, Plan, PlanTrust, QueryOptions};
use mercer::threads;
use rayon::ThreadPool;

use crate::failure::{
    Failure, MERCER_ABSENT, MERCER_ARGUMENT, MERCER_FILE, MERCER_INTERNAL, MERCER_PLAN,
    mercer_status, run,
};
use crate::pointers::{output, reference, slice, text};

/// A model with its plan. Many threads may use one at the same time; `mercer_model_free` frees it.
#[allow(non_camel_case_types, reason = "a name of the C interface")]
pub struct mercer_model {
    pub(crate) model: Model,
    pub(crate) plan: Plan,
    texts: Texts,
    /// The pool of the last call that had many rows, and its threads.
    pool: Mutex<Option<(usize, Arc<ThreadPool>)>>,
}

/// Texts that callers read.
struct Texts {
    kernel: CString,
    plan: CString,
    contract: CString,
    digest: CString,
    left_out: CString,
    classes: Vec<CString>,
    columns: Vec<CString>,
}

/// What the answers of a model are.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "names of the C interface")]
pub enum mercer_output {
    /// One of several classes.
    MERCER_CLASSES = 0,
    /// A value (regression).
    MERCER_VALUE = 1,
    /// Whether a row is like the training data (one class): label 1 or -1.
    MERCER_NOVELTY = 2,
}

/// What a model holds.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types, reason = "a name of the C interface")]
pub struct mercer_info {
    /// What its answers are.
    pub output: mercer_output,
    /// Number of classes; 0 for regression and novelty.
    pub classes: usize,
    /// Real functions: one for each binary subproblem.
    pub scores: usize,
    /// Distinct support vectors.
    pub supports: usize,
    /// Columns of a row; 0 if rows of any width fit.
    pub columns: usize,
    /// Whether `mercer_probabilities` works.
    pub has_probabilities: bool,
    /// Most multiply-adds of one query by the budget it was tuned for; 0 means no limit.
    pub budget: u64,
    /// Bytes of packed supports and stages.
    pub bytes: usize,
}

// Texts about a model: numbers, not an enumeration, because a caller may send any.
/// The kernel: `rbf(gamma=0.5)`.
pub const MERCER_KERNEL: u32 = 0;
/// The plan that answers: `cascade(low_precision, exact)`.
pub const MERCER_PLAN_TEXT: u32 = 1;
/// The contract it was tuned for: `certified`; empty if it was not tuned.
pub const MERCER_CONTRACT: u32 = 2;
/// SHA-256 of the machine.
pub const MERCER_DIGEST: u32 = 3;
/// Stages of the file that do not run because they are not verified, and why, and the budget that is not in force then; empty
/// if all run.
pub const MERCER_LEFT_OUT: u32 = 4;

impl mercer_model {
    pub(crate) fn new(model: Model, trust: PlanTrust) -> Result<Self, Failure> {
        let plan = match &model.plan {
            Some(sections) => Plan::load(&model.machine, sections, trust),
            None => Ok(Plan::exact(&model.machine)),
        };
        let plan = plan.map_err(Failure::of(MERCER_PLAN))?;
        let texts = Texts::of(&model, &plan);
        Ok(Self { model, plan, texts, pool: Mutex::default() })
    }

    /// A model of a file: its plan is believed as far as this user's cache knows it.
    fn of_file(model: Model, trust_plan: bool) -> Result<Self, Failure> {
        let known = |sections| KnownPlans::of_user().map(|known| known.trust(sections));
        let trust = match &model.plan {
            Some(_) if trust_plan => PlanTrust::Everything,
            Some(sections) => known(sections).unwrap_or(PlanTrust::Nothing),
            None => PlanTrust::Everything,
        };
        Self::new(model, trust)
    }

    /// A pool of so many threads, that of the last call if it fits; 0 means one for each core.
    pub(crate) fn pool(&self, count: usize) -> Result<Arc<ThreadPool>, Failure> {
        let mut kept = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, pool)) = &*kept
            && *known == count
        {
            return Ok(Arc::clone(pool));
        }
        let pool = threads::pool(std::num::NonZero::new(count));
        let pool = Arc::new(pool.map_err(Failure::of(MERCER_ARGUMENT))?);
        *kept = Some((count, Arc::clone(&pool)));
        Ok(pool)
    }
}

impl Texts {
    fn of(model: &Model, plan: &Plan) -> Self {
        let text = |text: String| CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
        let tuning = model.plan.as_ref().and_then(|plan| plan.tuning.as_deref());
        let stages = plan.left_out().iter().map(ToString::to_string);
        let left_out: Vec<String> = stages.chain(plan.budget_left_out(model)).collect();
        let columns = model.input.names.iter().flatten();
        Self {
            kernel: text(model.machine.kernel().spec().to_string()),
            plan: text(plan.spec().to_string()),
            contract: text(tuning.map_or(String::new(), |tuning| tuning.contract.clone())),
            digest: text(file::digest(&model.machine)),
            left_out: text(left_out.join("; ")),
            classes: model.machine.classes().iter().map(|name| text(name.to_string())).collect(),
            columns: columns.map(|name| text(name.clone())).collect(),
        }
    }
}

/// Opens a model file: Mercer's own, LIBSVM's, LIBLINEAR's or ONNX. The plan of a file is verified first; stages that are
/// not verified are left out (`MERCER_LEFT_OUT`), unless `trust_plan` is true.
///
/// # Safety
/// `path` is a text that ends with NUL; `model` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_model_open(
    path: *const c_char,
    trust_plan: bool,
    model: *mut *mut mercer_model,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let (path, out) = unsafe { (text(path, "path")?, output(model, "model")?) };
        *out = std::ptr::null_mut();
        let named = |error| Failure::new(MERCER_FILE, format!("{path}: {error}"));
        let model = file::load(Path::new(path)).map_err(named)?;
        *out = Box::into_raw(Box::new(mercer_model::of_file(model, trust_plan)?));
        Ok(())
    })
}

/// As `mercer_model_open`, from the bytes of a file.
///
/// # Safety
/// `bytes` are `length` bytes; `model` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_model_read(
    bytes: *const u8,
    length: usize,
    trust_plan: bool,
    model: *mut *mut mercer_model,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let (bytes, out) = unsafe { (slice(bytes, length, "bytes")?, output(model, "model")?) };
        *out = std::ptr::null_mut();
        let model = file::from_bytes(bytes).map_err(Failure::of(MERCER_FILE))?;
        *out = Box::into_raw(Box::new(mercer_model::of_file(model, trust_plan)?));
        Ok(())
    })
}

/// Frees a model; a null pointer is right.
///
/// # Safety
/// `model` is null or came from this library, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_model_free(model: *mut mercer_model) {
    if !model.is_null() {
        // SAFETY: it came from `Box::into_raw`, and the caller gives it up.
        let model = unsafe { Box::from_raw(model) };
        let _ = run(|| {
            drop(model);
            Ok(())
        });
    }
}

/// What a model holds.
///
/// # Safety
/// `model` is a model of this library; `info` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_model_info(
    model: *const mercer_model,
    info: *mut mercer_info,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let (handle, out) = unsafe { (reference(model, "model")?, output(info, "info")?) };
        let machine = &handle.model.machine;
        *out = mercer_info {
            output: match machine.output() {
                Output::Classes { .. } => mercer_output::MERCER_CLASSES,
                Output::Value => mercer_output::MERCER_VALUE,
                Output::Novelty => mercer_output::MERCER_NOVELTY,
            },
            classes: machine.classes().len(),
            scores: machine.scores().len(),
            supports: machine.supports().rows(),
            columns: handle.model.input.features.unwrap_or(0),
            has_probabilities: handle.model.probabilities.is_some()
                && matches!(machine.output(), Output::Classes { .. }),
            budget: QueryOptions::of(&handle.model, &handle.plan).budget.unwrap_or(0),
            bytes: handle.plan.bytes(),
        };
        Ok(())
    })
}

/// A text about a model (`MERCER_KERNEL`, `MERCER_PLAN_TEXT`, ...), which stays as long as the model; null if the model is
/// null or there is no such text.
///
/// # Safety
/// `model` is null or a model of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_model_text(model: *const mercer_model, what: u32) -> *const c_char {
    // SAFETY: as the caller of this function promises.
    let Some(handle) = (unsafe { model.as_ref() }) else { return std::ptr::null() };
    let texts = &handle.texts;
    let text = match what {
        MERCER_KERNEL => &texts.kernel,
        MERCER_PLAN_TEXT => &texts.plan,
        MERCER_CONTRACT => &texts.contract,
        MERCER_DIGEST => &texts.digest,
        MERCER_LEFT_OUT => &texts.left_out,
        _ => return std::ptr::null(),
    };
    text.as_ptr()
}

/// The name of a class, from 0, which stays as long as the model; null if there is no such class.
///
/// # Safety
/// `model` is null or a model of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_model_class(
    model: *const mercer_model,
    class_index: usize,
) -> *const c_char {
    // SAFETY: as the caller of this function promises.
    let handle = unsafe { model.as_ref() };
    let name = handle.and_then(|handle| handle.texts.classes.get(class_index));
    name.map_or(std::ptr::null(), |name| name.as_ptr())
}

/// The name of a column, from 0, which stays as long as the model; null if it has none.
///
/// # Safety
/// `model` is null or a model of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_model_column(
    model: *const mercer_model,
    column: usize,
) -> *const c_char {
    // SAFETY: as the caller of this function promises.
    let handle = unsafe { model.as_ref() };
    let name = handle.and_then(|handle| handle.texts.columns.get(column));
    name.map_or(std::ptr::null(), |name| name.as_ptr())
}

/// Writes a model file: format `mercer`, `libsvm`, `liblinear`, `onnx`, `c` or `c-float`. The file appears whole or not at
/// all. A plan is kept by `mercer` only.
///
/// # Safety
/// `model` is a model of this library; `path` and `format` are texts that end with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_model_save(
    model: *const mercer_model,
    path: *const c_char,
    format: *const c_char,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let (handle, path, format) =
            unsafe { (reference(model, "model")?, text(path, "path")?, text(format, "format")?) };
        let named = |error| Failure::new(MERCER_FILE, format!("{path}: {error}"));
        file::save(&handle.model, format_of(format)?, Path::new(path)).map_err(named)
    })
}

/// A model as the bytes of a file; `mercer_bytes_free` frees them.
///
/// # Safety
/// `model` is a model of this library; `format` is a text that ends with NUL; `bytes` and `length` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_model_write(
    model: *const mercer_model,
    format: *const c_char,
    bytes: *mut *mut u8,
    length: *mut usize,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let (handle, format) = unsafe { (reference(model, "model")?, text(format, "format")?) };
        // SAFETY: as the caller of this function promises.
        let (bytes, length) = unsafe { (output(bytes, "bytes")?, output(length, "length")?) };
        let found = file::to_bytes(&handle.model, format_of(format)?);
        let found = found.map_err(Failure::of(MERCER_FILE))?.into_boxed_slice();
        *length = found.len();
        *bytes = Box::into_raw(found).cast();
        Ok(())
    })
}

/// Frees bytes of `mercer_model_write`; a null pointer is right.
///
/// # Safety
/// `bytes` and `length` came from one call of `mercer_model_write`, and nobody uses them any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_bytes_free(bytes: *mut u8, length: usize) {
    if !bytes.is_null() {
        // SAFETY: it came from `Box::into_raw` of that many bytes, and the caller gives it up.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes, length)) });
    }
}

fn format_of(name: &str) -> Result<&'static file::Format, Failure> {
    file::format(name).ok_or_else(|| {
        let names: Vec<&str> = file::FORMATS.iter().map(|format| format.name).collect();
        let said = format!("no format '{name}'; there are {}", names.join(", "));
        Failure::new(MERCER_ARGUMENT, said)
    })
}

/// The number of a class named by one.
pub(crate) fn class_number(model: &Model, class: usize) -> Result<f64, Failure> {
    match model.machine.classes().get(class) {
        Some(ClassName::Number(number)) => Ok(*number),
        Some(ClassName::Text(_)) => Err(Failure::new(
            MERCER_ABSENT,
            "classes are named by texts, not numbers: use mercer_decide and mercer_model_class",
        )),
        None => Err(Failure::new(MERCER_INTERNAL, "a class without a name")),
    }
}
