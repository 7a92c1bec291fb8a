//! Answers for callers in C: labels, decisions, scores and probabilities of rows.

use std::borrow::Cow;

use mercer::data::Matrix;
use mercer::machine::Answer;
use mercer::query::{Certainty, Decision, QueryError, QueryOptions, Require};

use crate::failure::{Failure, MERCER_ABSENT, MERCER_ARGUMENT, MERCER_ROWS, mercer_status, run};
use crate::model::{class_number, mercer_model};
use crate::pointers::{output, output_slice, reference};
use crate::rows::mercer_rows;

/// Up to so many rows are answered on the caller's thread: waking others takes longer. One block of a plan, at least.
const FEW: usize = 8;

/// How sure an answer is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "names of the C interface")]
pub enum mercer_certainty {
    /// The budget was spent before the label was settled.
    MERCER_UNSETTLED = 0,
    /// Statistical, with the risk and the confidence of the plan's contract.
    MERCER_CALIBRATED = 1,
    /// Proved, rounding included.
    MERCER_CERTIFIED = 2,
    /// The label of the specified f64 evaluation.
    MERCER_EXACT = 3,
}

/// An answer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types, reason = "a name of the C interface")]
pub struct mercer_decision {
    /// The class if it is named by a number, else its position; the value of a regression; 1 or -1 for novelty.
    pub label: f64,
    /// Position of the class, from 0 (`mercer_model_class` names it); -1 for regression and novelty.
    pub class_index: i64,
    /// Lower end of the range of the score (of the margin, with more than two classes).
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// What it cost, in multiply-adds.
    pub cost: u64,
    /// How sure it is.
    pub certainty: mercer_certainty,
    /// Position of the stage of the plan that answered; the exact one is the last.
    pub stage: u32,
}

/// What a caller allows and requires; `mercer_query_options_of` fills it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types, reason = "a name of the C interface")]
pub struct mercer_query_options {
    /// Most multiply-adds of one query; 0 means no limit.
    pub budget: u64,
    /// Half-width at which the value of a regression is settled; below 0: only exact values are.
    pub tolerance: f64,
    /// Whether queries go on to the exact stage if the budget does not suffice.
    pub require_certified: bool,
    /// Threads for many rows: 0 means one for each core, 1 the caller's own.
    pub threads: usize,
    /// Whether the score is compared with `threshold`, not with 0: for two classes and novelty. Answers are then proved or
    /// exact, because a calibration was tested against 0.
    pub has_threshold: bool,
    /// The first class (an inlier) is answered where the score is above it.
    pub threshold: f64,
}

/// The options that a model was tuned for: its budget and its tolerance, all cores.
///
/// # Safety
/// `model` is a model of this library; `options` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_query_options_of(
    model: *const mercer_model,
    options: *mut mercer_query_options,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let (handle, out) = unsafe { (reference(model, "model")?, output(options, "options")?) };
        let own = QueryOptions::of(&handle.model, &handle.plan);
        *out = mercer_query_options {
            budget: own.budget.unwrap_or(0),
            tolerance: own.tolerance.unwrap_or(-1.0),
            require_certified: false,
            threads: 0,
            has_threshold: false,
            threshold: 0.0,
        };
        Ok(())
    })
}

/// The options of a call, and its threads.
///
/// # Safety
/// `options` is null or points to options.
unsafe fn options_of(
    handle: &mercer_model,
    options: *const mercer_query_options,
) -> Result<(QueryOptions, usize), Failure> {
    // SAFETY: as the caller of this function promises.
    let Some(given) = (unsafe { options.as_ref() }) else {
        return Ok((QueryOptions::of(&handle.model, &handle.plan), 0));
    };
    if given.tolerance.is_nan() {
        return Err(Failure::new(MERCER_ARGUMENT, "tolerance is not a number"));
    }
    let require = if given.require_certified { Require::Certified } else { Require::Nothing };
    let budget = (given.budget > 0).then_some(given.budget);
    let tolerance = (given.tolerance >= 0.0).then_some(given.tolerance);
    let threshold = given.has_threshold.then_some(given.threshold);
    let options = QueryOptions { budget, tolerance, require, threshold };
    options.check(&handle.model.machine).map_err(Failure::of(MERCER_ARGUMENT))?;
    Ok((options, given.threads))
}

impl mercer_model {
    /// Rows as the machine sees them.
    ///
    /// # Safety
    /// As `mercer_rows::matrix`.
    pub(crate) unsafe fn prepared(&self, rows: *const mercer_rows) -> Result<Matrix, Failure> {
        // SAFETY: as the caller of this function promises.
        let rows = unsafe { mercer_rows::matrix(rows, "rows") }?;
        if let Some(expected) = self.model.input.features
            && expected != rows.columns()
        {
            let error = QueryError::Width { found: rows.columns(), expected };
            return Err(Failure::new(MERCER_ROWS, error));
        }
        match self.model.input.prepare(&rows).map_err(Failure::of(MERCER_ROWS))? {
            Cow::Borrowed(_) => Ok(rows),
            Cow::Owned(scaled) => Ok(scaled),
        }
    }

    /// Runs work on rows: few on the caller's thread, others on a pool.
    fn on_threads<T: Send>(
        &self,
        rows: &Matrix,
        threads: usize,
        work: impl FnOnce() -> Result<T, QueryError> + Send,
    ) -> Result<T, Failure> {
        let found = if rows.rows() <= FEW { work() } else { self.pool(threads)?.install(work) };
        found.map_err(Failure::of(MERCER_ROWS))
    }

    /// The answer as callers see it.
    fn label(&self, answer: Answer) -> (f64, i64) {
        match answer {
            Answer::Class(class) => {
                (class_number(&self.model, class).unwrap_or(class as f64), class as i64)
            }
            Answer::Value(value) => (value, -1),
            Answer::Inlier(true) => (1.0, -1),
            Answer::Inlier(false) => (-1.0, -1),
        }
    }

    fn decision(&self, decision: &Decision, stage: usize) -> mercer_decision {
        let (label, class_index) = self.label(decision.answer);
        mercer_decision {
            label,
            class_index,
            low: decision.range.low,
            high: decision.range.high,
            cost: decision.cost.multiply_adds,
            certainty: match decision.certainty {
                Certainty::Unsettled => mercer_certainty::MERCER_UNSETTLED,
                Certainty::Calibrated => mercer_certainty::MERCER_CALIBRATED,
                Certainty::Certified => mercer_certainty::MERCER_CERTIFIED,
                Certainty::Exact => mercer_certainty::MERCER_EXACT,
            },
            stage: stage as u32,
        }
    }
}

/// Decisions for all rows, one for each; null options are those that the model was tuned for.
///
/// # Safety
/// `model` is a model of this library; the arrays of `rows` are as long as they say; `options` is null or points to
/// options; `decisions` has a place for each row.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_decide(
    model: *const mercer_model,
    rows: *const mercer_rows,
    options: *const mercer_query_options,
    decisions: *mut mercer_decision,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let handle = unsafe { reference(model, "model") }?;
        // SAFETY: as the caller of this function promises.
        let (rows, (options, threads)) =
            unsafe { (handle.prepared(rows)?, options_of(handle, options)?) };
        // SAFETY: as the caller of this function promises.
        let out = unsafe { output_slice(decisions, rows.rows(), "decisions") }?;
        let found =
            handle.on_threads(&rows, threads, || handle.plan.decide_with(&rows, &options))?;
        for ((out, decision), stage) in out.iter_mut().zip(&found.decisions).zip(found.answered_by)
        {
            *out = handle.decision(decision, stage);
        }
        Ok(())
    })
}

/// Labels of all rows, with the options that the model was tuned for: numbers of classes, values, or 1 and -1. Fails if
/// classes are named by texts, or a budget leaves a query unsettled: `mercer_decide` says more.
///
/// # Safety
/// As `mercer_decide`; `labels` has a place for each row.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_predict(
    model: *const mercer_model,
    rows: *const mercer_rows,
    labels: *mut f64,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let handle = unsafe { reference(model, "model") }?;
        // SAFETY: as the caller of this function promises.
        let rows = unsafe { handle.prepared(rows) }?;
        // SAFETY: as the caller of this function promises.
        let out = unsafe { output_slice(labels, rows.rows(), "labels") }?;
        if !handle.model.machine.classes().is_empty() {
            class_number(&handle.model, 0)?;
        }
        let options = QueryOptions::of(&handle.model, &handle.plan);
        let found = handle.on_threads(&rows, 0, || handle.plan.decide_with(&rows, &options))?;
        if found.unsettled > 0 {
            let said = format!(
                "{} of {} queries are unsettled: the budget of the model does not suffice; mercer_decide answers them",
                found.unsettled,
                rows.rows()
            );
            return Err(Failure::new(MERCER_ABSENT, said));
        }
        for (out, decision) in out.iter_mut().zip(&found.decisions) {
            *out = handle.label(decision.answer).0;
        }
        Ok(())
    })
}

/// Exact scores of all rows: `mercer_info.scores` numbers for each row, row after row.
///
/// # Safety
/// As `mercer_decide`; `scores` has that many places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_scores(
    model: *const mercer_model,
    rows: *const mercer_rows,
    scores: *mut f64,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let handle = unsafe { reference(model, "model") }?;
        // SAFETY: as the caller of this function promises.
        let rows = unsafe { handle.prepared(rows) }?;
        let count = rows.rows().saturating_mul(handle.model.machine.scores().len());
        // SAFETY: as the caller of this function promises.
        let out = unsafe { output_slice(scores, count, "scores") }?;
        let found = handle.on_threads(&rows, 0, || handle.plan.scores(&rows))?;
        out.copy_from_slice(&found);
        Ok(())
    })
}

/// Probabilities of all classes: `mercer_info.classes` numbers for each row, row after row.
///
/// # Safety
/// As `mercer_decide`; `probabilities` has that many places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mercer_probabilities(
    model: *const mercer_model,
    rows: *const mercer_rows,
    probabilities: *mut f64,
) -> mercer_status {
    run(|| {
        // SAFETY: as the caller of this function promises.
        let handle = unsafe { reference(model, "model") }?;
        let machine = &handle.model.machine;
        let absent = || Failure::new(MERCER_ABSENT, "the model has no probabilities of classes");
        let curves = handle.model.probabilities.as_ref().ok_or_else(absent)?;
        let classes = machine.classes().len();
        if classes == 0 {
            return Err(absent());
        }
        // SAFETY: as the caller of this function promises.
        let rows = unsafe { handle.prepared(rows) }?;
        let count = rows.rows().saturating_mul(classes);
        // SAFETY: as the caller of this function promises.
        let out = unsafe { output_slice(probabilities, count, "probabilities") }?;
        let scores = handle.on_threads(&rows, 0, || handle.plan.scores(&rows))?;
        let each = scores.chunks_exact(machine.scores().len());
        for (out, scores) in out.chunks_exact_mut(classes).zip(each) {
            out.copy_from_slice(&curves.of_classes(machine, scores).ok_or_else(absent)?);
        }
        Ok(())
    })
}
