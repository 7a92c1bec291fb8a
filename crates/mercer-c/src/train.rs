//! Training for callers in C: rows and targets in, a model out. How it is done is in `mercer_train`.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use mercer::data::{Dataset, Targets};
use mercer::kernel::{KERNELS, fit_words};
use mercer::machine::{ClassName, Input, Model, Provenance};
use mercer::query::PlanTrust;
use mercer::spec::SpecError;
use mercer::train::{Cancel, FormulationRef, Progress, Training, formulation, solver, train};

use crate::failure::{Failure, MERCER_ARGUMENT, MERCER_SPEC, MERCER_TRAINING, mercer_status, run};
use crate::model::mercer_model;
use crate::pointers::{optional_text, output, reference, slice, text};
use crate::rows::mercer_rows;

/// How far a training is.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types, reason = "a name of the C interface")]
pub struct mercer_progress {
    /// Pair steps or coordinate updates so far.
    pub iterations: u64,
    /// The binary subproblem being solved, from 0.
    pub subproblem: usize,
    /// How many there are.
    pub subproblems: usize,
    /// Maximal violation of the optimality conditions.
    pub violation: f64,
    /// Duality gap.
    pub gap: f64,
    /// Seconds since the start.
    pub seconds: f64,
}

/// Called again and again during a training, on one thread at a time. The training ends soon after it returns anything
/// but 0, with the best machine so far.
#[allow(non_camel_case_types, reason = "a name of the C interface")]
pub type mercer_observer =
    Option<unsafe extern "C" fn(user: *mut c_void, progress: *const mercer_progress) -> c_int>;

/// What is trained; `mercer_training_default` fills it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types, reason = "a name of the C interface")]
pub struct mercer_training {
    /// Such as `rbf(gamma=0.5)`.
    pub kernel: *const c_char,
    /// Such as `c_svc(C=1)`, `epsilon_svr(C=1, epsilon=0.1)`, `one_class(nu=0.1)`.
    pub formulation: *const c_char,
    /// Such as `low_rank`; null means `smo`.
    pub solver: *const c_char,
    /// The largest violation at the end; 0 means the default of the solver.
    pub tolerance: f64,
    /// Bytes for kernel rows that are kept; 0 means the default.
    pub memory: usize,
    /// Seconds after which the best machine so far is returned; 0 means no limit.
    pub seconds: f64,
    /// A weight for each row, or null.
    pub weights: *const f64,
    /// How many classes have a weight of their own.
    pub class_weights: usize,
    /// Their labels.
    pub class_labels: *const f64,
    /// Factors of C for them.
    pub class_factors: *const f64,
    /// Threads: 0 means one for each core.
    pub threads: usize,
    /// Called with the progress, or null.
    pub observer: mercer_observer,
    /// Given to the observer.
    pub user: *mut c_void,
}

/// How a training ended.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types, reason = "a name of the C interface")]
pub struct mercer_training_report {
    /// Whether every subproblem reached the tolerance.
    pub converged: bool,
    /// Pair steps or coordinate updates.
    pub iterations: u64,
    /// Dual objective as LIBSVM prints it, summed over the subproblems.
    pub objective: f64,
    /// Recomputed duality gap.
    pub gap: f64,
    /// Distinct support vectors.
    pub supports: usize,
    /// Bounded support vectors, summed over the subproblems.
    pub bounded: usize,
    /// Seconds it took.
    pub seconds: f64,
}

/// C-SVC with C = 1 and the kernel `rbf(gamma=scale)`, all cores, no limits.
#[unsafe(no_mangle)]
pub extern "C" fn mercer_training_default() -> mercer_training {
    mercer_training {
        kernel: c"rbf(gamma=scale)".as_ptr(),
        formulation: c"c_svc(C=1)".as_ptr(),
        solver: std::ptr::null(),
        tolerance: 0.0,
        memory: 0,
        seconds: 0.0,
        weights: std::ptr::null(),
        class_weights: 0,
        class_labels: std::ptr::null(),
        class_factors: std::ptr::null(),
        threads: 0,
        observer: None,
        user: std::ptr::null_mut(),
    }
}

/// The observer of a training with its argument; it is called by the thread that trains.
#[derive(Clone, Copy)]
struct Observer {
    call: mercer_observer,
    user: usize,
}

impl Observer {
    /// Whether the caller wants to stop.
    fn stops(self, progress: &Progress) -> bool {
        let Some(call) = self.call else { return false };
        let seen = mercer_progress {
            iterations: progress.iterations,
            subproblem: progress.subproblem,
            subproblems: progress.subproblems,
            violation: progress.violation,
            gap: progress.gap,
            seconds: progress.elapsed.as_secs_f64(),
        };
        let user = std::ptr::with_exposed_provenance_mut(self.user);
        // SAFETY: the caller gave the function and its argument for this; `mercer.h` says when it is called.
        unsafe { call(user, &raw const seen) != 0 }
    }
}

impl mercer_training {
    /// Formulation and options of the training.
    ///
    /// # Safety
    /// Its pointers are null or point to what they say; `rows` is the number of rows.
    unsafe fn options(&self, rows: usize) -> Result<(FormulationRef, Training), Failure> {
        let of_spec = |error: SpecError| Failure::new(MERCER_SPEC, error);
        // SAFETY: as the caller of this function promises.
        let (what, with) = unsafe {
            (text(self.formulation, "formulation")?, optional_text(self.solver, "solver")?)
        };
        let what = formulation(what).map_err(of_spec)?;
        let mut training = Training::default();
        if let Some(with) = with {
            training = training.solver(solver(with).map_err(of_spec)?);
        }
        if self.tolerance != 0.0 {
            training = training.tolerance(self.tolerance);
        }
        if self.memory > 0 {
            training = training.memory(self.memory);
        }
        if self.seconds != 0.0 {
            let limit = Duration::try_from_secs_f64(self.seconds).map_err(|error| {
                Failure::new(MERCER_ARGUMENT, format!("seconds is {}: {error}", self.seconds))
            })?;
            training = training.time_limit(Some(limit));
        }
        if !self.weights.is_null() {
            // SAFETY: as the caller of this function promises.
            let weights = unsafe { slice(self.weights, rows, "weights") }?;
            training = training.weights(Some(weights.to_vec()));
        }
        // SAFETY: as the caller of this function promises.
        let (labels, factors) = unsafe {
            (
                slice(self.class_labels, self.class_weights, "class_labels")?,
                slice(self.class_factors, self.class_weights, "class_factors")?,
            )
        };
        let named = labels.iter().map(|label| ClassName::Number(*label));
        Ok((what, training.class_weights(named.zip(factors.iter().copied()).collect())))
    }
}

/// Learns a model from rows and targets (one for each row: class or value; null for one-class machines). Labels of classes are
/// numbers. `report` may be null.
///
/// # Safety
/// The arrays of `rows` and `training` are as long as they say, `targets` is null or has a number for each row, `model`
/// may be written, `report` is null or may be written. The observer may be called from another thread during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_train(
    rows: *const mercer_rows,
    targets: *const f64,
    training: *const mercer_training,
    model: *mut *mut mercer_model,
    report: *mut mercer_training_report,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let (given, out) = unsafe { (reference(training, "training")?, output(model, "model")?) };
        *out = std::ptr::null_mut();
        // SAFETY: as the caller of this function promises.
        let examples = unsafe { mercer_rows::matrix(rows, "rows") }?;
        // SAFETY: as the caller of this function promises.
        let (what, options) = unsafe { given.options(examples.rows()) }?;
        // SAFETY: as the caller of this function promises.
        let kernel = unsafe { text(given.kernel, "kernel") }?;
        let targets = if targets.is_null() {
            Targets::Absent
        } else {
            // SAFETY: as the caller of this function promises.
            let numbers = unsafe { slice(targets, examples.rows(), "targets") }?;
            if let Some(row) = numbers.iter().position(|number| !number.is_finite()) {
                let said =
                    format!("targets: row {}: {} is not a finite number", row + 1, numbers[row]);
                return Err(Failure::new(MERCER_ARGUMENT, said));
            }
            Targets::Numbers(numbers.to_vec())
        };
        let data = Dataset { examples, targets, names: None };
        let of_spec = |error: SpecError| Failure::new(MERCER_SPEC, error);
        let kernel = fit_words(&kernel.parse().map_err(of_spec)?, &data.examples);
        let kernel = KERNELS.build(&kernel).map_err(of_spec)?;
        let cancel = Cancel::new();
        let options = options.cancel(cancel.clone());
        let observer = Observer { call: given.observer, user: given.user.expose_provenance() };
        let pool = mercer::threads::pool(std::num::NonZero::new(given.threads));
        let pool = pool.map_err(Failure::of(MERCER_ARGUMENT))?;
        let trained = pool.install(|| {
            let mut observe = |progress: &Progress| {
                if observer.stops(progress) {
                    cancel.cancel();
                }
            };
            train(&data, &kernel, &what, &options, &mut observe)
        });
        let trained = trained.map_err(Failure::of(MERCER_TRAINING))?;
        let found = &trained.report;
        // SAFETY: as the caller of this function promises.
        if let Some(report) = unsafe { report.as_mut() } {
            *report = mercer_training_report {
                converged: found.converged,
                iterations: found.iterations,
                objective: found.objective,
                gap: found.gap,
                supports: found.supports,
                bounded: found.bounded,
                seconds: found.seconds,
            };
        }
        let provenance = Provenance {
            origin: "mercer".to_owned(),
            formulation: Some(what.spec().to_string()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Provenance::default()
        };
        let input = Input { features: Some(data.examples.columns()), ..Input::default() };
        let model = Model { input, provenance, ..Model::from(trained.machine) };
        *out = Box::into_raw(Box::new(mercer_model::new(model, PlanTrust::Everything)?));
        Ok(())
    })
}
