//! A calibration tested again, on queries of whoever received the model: the file's own numbers prove nothing to them.

use mercer_data::Matrix;
use mercer_machine::{Answer, Calibration, Counts};
use mercer_query::{Certainty, Plan};

use super::{Risk, Tally, Target};
use crate::CompileError;

/// What a second test of a calibrated plan found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retest {
    /// Queries asked.
    pub queries: u64,
    /// Counts on them.
    pub tally: Tally,
    /// Upper bound on the share that is promised to be small, at the confidence of the calibration.
    pub bound: f64,
    /// The share that the file promises.
    pub risk: f64,
}

impl Retest {
    /// Whether these queries prove the promise.
    pub fn holds(&self) -> bool {
        self.bound <= self.risk
    }
}

/// Asks a plan with its stored calibration the rows, and counts disagreements with exact labels (or excess errors, where those
/// are promised and the rows have labels). One test of one plan: it holds at the confidence that the calibration states, as
/// long as whoever made the file did not know these rows.
///
/// # Errors
/// If the plan has no calibration, there are too few rows to prove the promise, or labels are needed and missing.
pub fn retest(
    plan: &Plan,
    rows: &Matrix,
    labels: Option<&[Option<Answer>]>,
) -> Result<Retest, CompileError> {
    let Some(Calibration { risk, delta, counts, .. }) = plan.calibration() else {
        return Err(CompileError::Load(mercer_query::LoadError::Uncalibrated));
    };
    let of = match counts {
        Counts::Disagreements => Risk::Disagreements,
        Counts::ExcessErrors { .. } => Risk::ExcessErrors,
    };
    if of == Risk::ExcessErrors && labels.is_none() {
        return Err(CompileError::NoLabels);
    }
    let target = Target { risk: *risk, delta: *delta, of };
    target.check()?;
    let (found, needed) = (rows.rows(), target.needed());
    if found < needed {
        return Err(CompileError::SmallSample { found, needed, risk: *risk, delta: *delta });
    }
    let (decisions, exact) = (plan.decide(rows)?, plan.exact_answers(rows)?);
    let mut tally = Tally::default();
    for (row, (decision, exact)) in decisions.iter().zip(&exact).enumerate() {
        if decision.certainty != Certainty::Calibrated || decision.answer == exact.answer {
            continue;
        }
        tally.disagreements += 1;
        let label = labels.and_then(|labels| *labels.get(row)?);
        tally.worse += u64::from(label == Some(exact.answer));
        tally.better += u64::from(label == Some(decision.answer));
    }
    let queries = found as u64;
    Ok(Retest { queries, tally, bound: target.bound(&tally, queries), risk: *risk })
}
