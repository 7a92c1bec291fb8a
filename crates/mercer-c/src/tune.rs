//! Plans for callers in C: tuning with a sample, compiling by text, verifying. What a plan is: `docs/guide/tune.md`.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mercer::compile::{CompileError, FittingData, PlanVerification, Watch, compile_with};
use mercer::machine::Model;
use mercer::query::{KnownPlans, PlanTrust};
use mercer::spec::{Spec, SpecError};
use mercer::tune::{Contract, Tuner};

use crate::failure::{
    Failure, MERCER_ARGUMENT, MERCER_CANCELLED, MERCER_PLAN, MERCER_SPEC, mercer_status, run,
};
use crate::model::mercer_model;
use crate::pointers::{output, reference, text};
use crate::rows::mercer_rows;

/// Called again and again during long work, on one thread at a time: done steps, all steps (0 if not known). Work ends
/// soon after it returns anything but 0.
#[allow(non_camel_case_types, reason = "a name of the C interface")]
pub type mercer_watch =
    Option<unsafe extern "C" fn(user: *mut c_void, done: u64, all: u64) -> c_int>;

/// A callback of the caller that may be called from any thread, one at a time.
struct Watcher {
    call: mercer_watch,
    user: usize,
    lock: std::sync::Mutex<()>,
    is_stopped: AtomicBool,
}

impl Watcher {
    fn new(call: mercer_watch, user: *mut c_void) -> Self {
        let (lock, is_stopped) = (std::sync::Mutex::new(()), AtomicBool::new(false));
        Self { call, user: user.expose_provenance(), lock, is_stopped }
    }

    /// Whether work goes on.
    fn goes_on(&self, done: u64, all: u64) -> bool {
        if let Some(call) = self.call {
            let _one_at_a_time = self.lock.lock();
            let user = std::ptr::with_exposed_provenance_mut(self.user);
            // SAFETY: the caller gave the function and its argument for this; `mercer.h` says when it is called.
            if unsafe { call(user, done, all) } != 0 {
                self.is_stopped.store(true, Ordering::Relaxed);
            }
        }
        !self.is_stopped.load(Ordering::Relaxed)
    }

    fn failure(&self, error: &CompileError) -> Failure {
        let is_stopped = self.is_stopped.load(Ordering::Relaxed);
        Failure::new(if is_stopped { MERCER_CANCELLED } else { MERCER_PLAN }, error)
    }
}

/// The fastest plan that honours a contract (`certified`, `calibrated(eps=0.001, delta=0.05)`, `exact`) on queries like the
/// sample, as a new model. `seconds` limits the search. The sample must not be training data.
///
/// # Safety
/// `model` is a model of this library; the arrays of `sample` are as long as they say; `contract` ends with NUL; `watch`
/// is null or may be called with `user` from other threads during the call; `tuned` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_tune(
    model: *const mercer_model,
    sample: *const mercer_rows,
    contract: *const c_char,
    seconds: f64,
    watch: mercer_watch,
    user: *mut c_void,
    tuned: *mut *mut mercer_model,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let (handle, out) = unsafe { (reference(model, "model")?, output(tuned, "tuned")?) };
        *out = std::ptr::null_mut();
        // SAFETY: as the caller of this function promises.
        let (sample, contract) = unsafe { (handle.prepared(sample)?, text(contract, "contract")?) };
        let contract: Contract =
            contract.parse().map_err(|error: SpecError| Failure::new(MERCER_SPEC, error))?;
        let limit = Duration::try_from_secs_f64(seconds).map_err(|error| {
            Failure::new(MERCER_ARGUMENT, format!("seconds is {seconds}: {error}"))
        })?;
        let watcher = Watcher::new(watch, user);
        let goes_on = |progress: mercer::compile::Progress| {
            watcher.goes_on(progress.done as u64, progress.most as u64)
        };
        let work = || {
            Tuner::new(&handle.model.machine, &sample)
                .contract(contract)
                .time_limit(limit)
                .watch(Watch::new(&goes_on))
                .run()
        };
        let found = handle.pool(0)?.install(work).map_err(|error| watcher.failure(&error))?;
        let model = Model { plan: Some(found.sections), ..handle.model.clone() };
        *out = Box::into_raw(Box::new(mercer_model::new(model, PlanTrust::Everything)?));
        Ok(())
    })
}

/// A model with a given plan, such as `cascade(low_precision, exact)`. A null sample is right for stages that need none.
///
/// # Safety
/// As `mercer_tune`; `sample` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_compile(
    model: *const mercer_model,
    plan: *const c_char,
    sample: *const mercer_rows,
    watch: mercer_watch,
    user: *mut c_void,
    compiled: *mut *mut mercer_model,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let (handle, out) = unsafe { (reference(model, "model")?, output(compiled, "compiled")?) };
        *out = std::ptr::null_mut();
        // SAFETY: as the caller of this function promises.
        let plan = unsafe { text(plan, "plan") }?;
        let plan: Spec =
            plan.parse().map_err(|error: SpecError| Failure::new(MERCER_SPEC, error))?;
        let sample = if sample.is_null() {
            None
        } else {
            // SAFETY: as the caller of this function promises.
            Some(unsafe { handle.prepared(sample) }?)
        };
        let watcher = Watcher::new(watch, user);
        let goes_on = |progress: mercer::compile::Progress| {
            watcher.goes_on(progress.done as u64, progress.most as u64)
        };
        let work = || {
            let data = FittingData { sample: sample.as_ref(), ..FittingData::default() };
            compile_with(&handle.model.machine, &plan, data, Watch::new(&goes_on))
        };
        let sections = handle.pool(0)?.install(work).map_err(|error| watcher.failure(&error))?;
        let model = Model { plan: Some(sections), ..handle.model.clone() };
        *out = Box::into_raw(Box::new(mercer_model::new(model, PlanTrust::Everything)?));
        Ok(())
    })
}

/// Verifies all that the plan of a model rests on, and remembers it for this user; the model that runs all verified stages
/// is a new one. A calibration needs a sample of the caller's own queries; without one its stages stay left out.
///
/// # Safety
/// As `mercer_tune`; `sample` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_verify(
    model: *const mercer_model,
    sample: *const mercer_rows,
    verified: *mut *mut mercer_model,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let (handle, out) = unsafe { (reference(model, "model")?, output(verified, "verified")?) };
        *out = std::ptr::null_mut();
        let model = handle.model.clone();
        let Some(sections) = &model.plan else {
            *out = Box::into_raw(Box::new(mercer_model::new(model, PlanTrust::Everything)?));
            return Ok(());
        };
        let work = || PlanVerification::new(&model.machine, sections, &Watch::NOBODY);
        let mut found = handle.pool(0)?.install(work).map_err(Failure::of(MERCER_PLAN))?;
        if !sample.is_null() {
            // SAFETY: as the caller of this function promises.
            let rows = unsafe { handle.prepared(sample) }?;
            let work = || found.tested(&model.machine, sections, &rows, None);
            found = handle.pool(0)?.install(work).map_err(Failure::of(MERCER_PLAN))?;
        }
        let trust = found.trust().ok_or_else(|| {
            let said = "the calibration of the plan does not hold on this sample";
            Failure::new(MERCER_PLAN, said)
        })?;
        if let Some(known) = KnownPlans::of_user() {
            // A cache that cannot be written costs a verification later, no more.
            let _ = known.remember(sections, trust);
        }
        *out = Box::into_raw(Box::new(mercer_model::new(model, trust)?));
        Ok(())
    })
}
