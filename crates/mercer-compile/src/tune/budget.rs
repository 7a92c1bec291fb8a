//! A budget in microseconds as a number of multiply-adds, which is what plans count. Budgets are charged in
//! `mercer_query`, not here.

use mercer_data::Matrix;
use mercer_machine::Budget;

use super::Aim;
use super::search::{Context, PlanCandidate};
use crate::CompileError;

/// Turns the time that a query may take into multiply-adds, at the rate of this plan.
pub(super) fn set_budget(
    context: &Context<'_>,
    candidate: &mut PlanCandidate,
    timed: &Matrix,
) -> Result<(), CompileError> {
    let Some(microseconds) = context.tuner.budget_us else { return Ok(()) };
    let timer = context.timer.with_aim(Aim::Latency);
    let rows = timed.select(0..timed.rows().min(timer.policy.budget_rows));
    let times = timer.time(candidate.runner(&rows), timer.policy.baseline_rounds)?;
    let cost = candidate.plan.decide_with(&rows, &candidate.options)?.mean_cost();
    let rate = two_digits(cost / times.microseconds());
    let multiply_adds = (microseconds * rate).clamp(0.0, 1e18) as u64;
    candidate.options.budget = Some(multiply_adds);
    candidate.budget = Some(Budget { microseconds, rate, multiply_adds });
    Ok(())
}

/// Rounded down to two digits: a rate that is printed, typed again and means the same.
pub fn two_digits(value: f64) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return 0.0;
    }
    let unit = 10f64.powf(value.log10().floor() - 1.0);
    let rounded = (value / unit).floor() * unit;
    // Through text, so that it is the number that is printed.
    format!("{rounded:.1e}").parse().unwrap_or(rounded)
}
