//! What answers may cost and must be: flags, what the tuned plan says, and the clock's rate.

use mercer::data::Matrix;
use mercer::machine::{Budget, Model, Tuning};
use mercer::query::{Plan, QueryOptions, Require};
use mercer::tune::two_digits;

use crate::args::{Demands, RequireName};
use mercer_report::timing::best_us;

/// Queries whose time gives the rate.
const TIMED: usize = 128;

/// What is asked of every query, and where its budget comes from if that was a time.
pub(super) struct Wanted {
    pub(super) query_options: QueryOptions,
    pub(super) budget: Option<Budget>,
}

/// What the flags demand; what they do not say, the tuned plan does. A time becomes multiply-adds at the
/// rate given, at the tuned plan's, or at the one measured on these rows: counting them keeps answers the
/// same whatever else the machine is doing.
pub(super) fn wanted(
    demands: &Demands,
    model: &Model,
    plan: &Plan,
    rows: &Matrix,
) -> anyhow::Result<Wanted> {
    let tuning = model.plan.as_ref().and_then(|plan| plan.tuning.as_deref());
    let columns = model.machine.columns() as u64;
    let mut query_options = QueryOptions {
        budget: demands.budget_kernels.map(|kernels| kernels.saturating_mul(columns)),
        tolerance: demands.value_tolerance.or_else(|| tuning?.tolerance),
        require: match demands.require {
            Some(RequireName::Certified) => Require::Certified,
            None => Require::Nothing,
        },
    };
    if query_options.budget.is_some() {
        return Ok(Wanted { query_options, budget: None });
    }
    let budget = match demands.budget_us {
        Some(microseconds) => Some(limit(microseconds, demands.rate, tuning, plan, rows)?),
        None => tuning.and_then(|tuning| tuning.budget),
    };
    query_options.budget = budget.map(|budget| budget.multiply_adds);
    Ok(Wanted { query_options, budget })
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

/// Multiply-adds in a microsecond when these rows are asked one by one, rounded down to two digits.
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

/// Where the budget comes from, so that the same answers can be asked for again.
pub(super) fn sentence(budget: &Budget) -> String {
    format!(
        "budget: {} us at {} multiply-adds a microsecond are {} multiply-adds a query (the same answers \
         anywhere: --budget-us {} --rate {})",
        budget.microseconds, budget.rate, budget.multiply_adds, budget.microseconds, budget.rate,
    )
}
