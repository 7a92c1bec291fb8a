//! Query options from the flags and from the tuned plan; a budget in microseconds becomes multiply-adds.

use mercer::data::Matrix;
use mercer::machine::{Budget, Model};
use mercer::query::{CostTimes, Plan, QueryOptions, Require};

use crate::args::{QueryFlags, RequireName};

/// Queries that show what queries cost and how long they take.
const TIMED: usize = 512;

/// Query options, and the budget if it was given as a time.
pub(super) struct ResolvedOptions {
    pub(super) query_options: QueryOptions,
    pub(super) budget: Option<ResolvedBudget>,
}

/// A budget that was given as a time, and what queries of the plan need.
pub(super) struct ResolvedBudget {
    pub(super) budget: Budget,
    times: Option<CostTimes>,
}

/// Takes options from the flags and, where a flag is absent, from the tuned plan. A time becomes multiply-adds by the
/// times that the tuned plan has, or by those measured on these rows. Multiply-adds are counted, not timed, so answers do
/// not depend on other load on the computer.
pub(super) fn resolve(
    flags: &QueryFlags,
    model: &Model,
    plan: &Plan,
    rows: &Matrix,
) -> anyhow::Result<ResolvedOptions> {
    let tuned = QueryOptions::of(model, plan);
    let tuning = plan.tuning(model);
    let mut query_options = QueryOptions {
        budget: flags.budget.or(tuned.budget),
        tolerance: flags.value_tolerance.or(tuned.tolerance),
        require: match flags.require {
            Some(RequireName::Certified) => Require::Certified,
            None => Require::Nothing,
        },
        threshold: flags.threshold,
    };
    let stored = tuning.and_then(CostTimes::stored);
    let budget = match (flags.budget, flags.budget_us) {
        (Some(_), _) => None,
        (None, None) => {
            let budget = tuning.and_then(|tuning| tuning.budget);
            budget.map(|budget| ResolvedBudget { budget, times: stored })
        }
        (None, Some(microseconds)) => {
            anyhow::ensure!(
                microseconds > 0.0 && microseconds.is_finite(),
                "--budget-us is {microseconds}; it must be positive"
            );
            let times = match stored {
                Some(times) => times,
                None => {
                    let rows = rows.select(0..rows.rows().min(TIMED));
                    CostTimes::by_clock(plan, &rows, &query_options)?
                }
            };
            let budget = times.budget(microseconds);
            query_options.budget = Some(budget.multiply_adds);
            Some(ResolvedBudget { budget, times: Some(times) })
        }
    };
    Ok(ResolvedOptions { query_options, budget })
}

impl ResolvedBudget {
    /// The budget in words, with the option that repeats it.
    pub(super) fn sentence(&self) -> String {
        let Budget { microseconds, multiply_adds, .. } = self.budget;
        format!(
            "budget: {microseconds} us = {multiply_adds} multiply-adds per query (for the same answers on any computer: \
             --budget {multiply_adds})"
        )
    }

    /// Why queries stay unsettled, with the time in which all those measured would be settled.
    pub(super) fn too_little(&self) -> Option<String> {
        let all = self.times.as_ref()?.points().last()?.microseconds;
        Some(format!(
            "{} us are too little for them, and the most costly path through the plan takes {all:.3} us",
            self.budget.microseconds,
        ))
    }
}
