//! Query options from the flags and from the tuned plan; a budget in microseconds becomes multiply-adds.

use mercer::data::Matrix;
use mercer::machine::{Budget, Model, Tuning};
use mercer::query::{Plan, QueryOptions, Require};
use mercer::tune::two_digits;
use mercer_report::timing::best_us;

use crate::args::{QueryFlags, RequireName};

/// Queries that are timed to measure the rate.
const TIMED: usize = 128;

/// Query options, and where the budget comes from if it was given as a time.
pub(super) struct ResolvedOptions {
    pub(super) query_options: QueryOptions,
    pub(super) budget: Option<Budget>,
}

/// Takes options from the flags and, where a flag is absent, from the tuned plan. A time becomes multiply-adds
/// at the rate given, at the tuned plan's rate, or at the rate measured on these rows. Multiply-adds are counted,
/// not timed, so answers do not depend on other load on the computer.
pub(super) fn resolve(
    flags: &QueryFlags,
    model: &Model,
    plan: &Plan,
    rows: &Matrix,
) -> anyhow::Result<ResolvedOptions> {
    let tuning = model.plan.as_ref().and_then(|plan| plan.tuning.as_deref());
    let columns = model.machine.columns() as u64;
    let mut query_options = QueryOptions {
        budget: flags.budget_kernels.map(|kernels| kernels.saturating_mul(columns)),
        tolerance: flags.value_tolerance.or_else(|| tuning?.tolerance),
        require: match flags.require {
            Some(RequireName::Certified) => Require::Certified,
            None => Require::Nothing,
        },
    };
    if query_options.budget.is_some() {
        return Ok(ResolvedOptions { query_options, budget: None });
    }
    let budget = match flags.budget_us {
        Some(microseconds) => Some(limit(microseconds, flags.rate, tuning, plan, rows)?),
        None => tuning.and_then(|tuning| tuning.budget),
    };
    query_options.budget = budget.map(|budget| budget.multiply_adds);
    Ok(ResolvedOptions { query_options, budget })
}

fn limit(
    microseconds: f64,
    rate: Option<f64>,
    tuning: Option<&Tuning>,
    plan: &Plan,
    rows: &Matrix,
) -> anyhow::Result<Budget> {
    anyhow::ensure!(
        microseconds > 0.0 && microseconds.is_finite(),
        "--budget-us is {microseconds}; it must be positive"
    );
    let stored = tuning.and_then(|tuning| tuning.budget).map(|budget| budget.rate);
    let rate = match rate.or(stored) {
        Some(rate) => rate,
        None => measured(plan, rows)?,
    };
    anyhow::ensure!(rate > 0.0 && rate.is_finite(), "--rate is {rate}; it must be positive");
    let multiply_adds = (microseconds * rate).min(1e18) as u64;
    Ok(Budget { microseconds, rate, multiply_adds })
}

/// Multiply-adds per microsecond when these rows are decided one by one, rounded down to two digits.
fn measured(plan: &Plan, rows: &Matrix) -> anyhow::Result<f64> {
    let rows = rows.select(0..rows.rows().min(TIMED));
    let query_options = QueryOptions::default();
    let cost = plan.decide_with(&rows, &query_options)?.mean_cost();
    let mut worker = plan.worker();
    let us = best_us(5, rows.rows(), || {
        for row in 0..rows.rows() {
            let _ = std::hint::black_box(
                worker.decide(&rows, row..row + 1, &query_options).map(<[_]>::len),
            );
        }
    });
    Ok(two_digits(cost / us))
}

/// The budget in words, with the options that repeat it.
pub(super) fn sentence(budget: &Budget) -> String {
    format!(
        "budget: {} us at {} multiply-adds per microsecond = {} multiply-adds per query (for the same answers on \
         another computer: --budget-us {} --rate {})",
        budget.microseconds, budget.rate, budget.multiply_adds, budget.microseconds, budget.rate,
    )
}
