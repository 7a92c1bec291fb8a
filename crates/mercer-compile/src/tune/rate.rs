//! Time as a number of multiply-adds, which is what a budget is counted in.

use mercer_data::Matrix;
use mercer_machine::Budget;

use super::clock::race;
use super::search::Candidate;
use super::{Aim, Tuner};
use crate::CompileError;

/// Turns the time that a query may take into multiply-adds, at the rate at which this plan does them.
pub(super) fn limit(
    tuner: &Tuner<'_>,
    candidate: &mut Candidate,
    timed: &Matrix,
) -> Result<(), CompileError> {
    let Some(microseconds) = tuner.budget_us else { return Ok(()) };
    let rows = timed.select(0..timed.rows().min(256));
    let (laps, _) = race(&[candidate.runner(&rows)], Aim::Latency, 3, f64::INFINITY)?;
    let cost = candidate.plan.decide_with(&rows, &candidate.options)?.mean_cost();
    let rate = two_digits(cost / laps[0].microseconds());
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
