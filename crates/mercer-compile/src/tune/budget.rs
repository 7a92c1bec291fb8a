//! A budget in microseconds as a limit of the cost of a query, by times measured for each plan; and what a budget would
//! have to be. Budgets are charged in `mercer_query`, not here.

use mercer_data::Matrix;
use mercer_query::{CostTimes, QueryOptions};

use super::Aim;
use super::search::{Context, PlanCandidate};
use super::timing::{Runner, rounded};
use super::validate::ValidatedCandidate;
use crate::CompileError;

/// What queries of this plan cost, and how long they take one at a time.
pub(super) fn cost_times(
    context: &Context<'_>,
    candidate: &PlanCandidate,
    rows: &Matrix,
) -> Result<CostTimes, CompileError> {
    let (timer, plan) = (context.timer.with_aim(Aim::Latency), &candidate.plan);
    let rows = rows.select(0..rows.rows().min(timer.policy.budget_rows));
    CostTimes::measure(plan, &rows, &candidate.options, |options, rows| {
        let runner = Runner { plan, options, rows };
        Ok(timer.time(runner, timer.policy.baseline_rounds)?.microseconds())
    })
}

/// Turns the time that a query may take into a limit of its cost, by the times of this plan, and finds the share of these
/// rows that it leaves unsettled.
pub(super) fn set_budget(
    context: &Context<'_>,
    candidate: &mut PlanCandidate,
    rows: &Matrix,
) -> Result<(), CompileError> {
    let Some(microseconds) = context.tuner.budget_us else { return Ok(()) };
    let budget = cost_times(context, candidate, rows)?.budget(microseconds);
    candidate.budget = Some(budget);
    let answers = candidate.plan.decide_with(rows, &candidate.limited())?;
    candidate.unsettled = answers.unsettled as f64 / rows.rows().max(1) as f64;
    Ok(())
}

/// The error that says what budget can be met: by the candidate that needs the least time.
pub(super) fn not_met(
    context: &Context<'_>,
    candidates: &[ValidatedCandidate],
    settled: f64,
) -> Result<CompileError, CompileError> {
    let (asked, allowed) = (context.tuner.budget_us.unwrap_or(0.0), context.tuner.unsettled);
    let mut best: Option<(f64, f64, &str)> = None;
    for ValidatedCandidate { candidate, sections, .. } in candidates {
        let (most, all) = needed(context, candidate, allowed)?;
        if best.is_none_or(|(least, ..)| most < least) {
            best = Some((most, all, &sections.spec));
        }
    }
    let (most, all, plan) = best.unwrap_or_default();
    let percent = |share: f64| (1e4 * share).round() / 100.0;
    Ok(CompileError::BudgetNotMet {
        microseconds: asked,
        settled: percent(settled),
        asked: percent(1.0 - allowed),
        plan: plan.to_owned(),
        most: rounded_up(most),
        all: rounded_up(all),
    })
}

/// Microseconds in which a plan settles all but this share of the queries, and all of them.
fn needed(
    context: &Context<'_>,
    candidate: &PlanCandidate,
    unsettled: f64,
) -> Result<(f64, f64), CompileError> {
    let rows = &context.sample.measure.rows;
    let times = cost_times(context, candidate, rows)?;
    let unlimited = QueryOptions { budget: None, ..candidate.options };
    let answers = candidate.plan.decide_with(rows, &unlimited)?;
    let mut costs: Vec<u64> =
        answers.decisions.iter().map(|decision| decision.cost.multiply_adds).collect();
    costs.sort_unstable();
    let left = (unsettled * costs.len() as f64) as usize;
    let time =
        |left: usize| costs.iter().rev().nth(left).map_or(0.0, |cost| times.microseconds(*cost));
    Ok((time(left), time(0)))
}

/// To two digits, never down: a budget that is typed again suffices.
fn rounded_up(microseconds: f64) -> f64 {
    if !(microseconds > 0.0 && microseconds.is_finite()) {
        return 0.0;
    }
    let unit = 10f64.powf(microseconds.log10().floor() - 1.0);
    rounded((microseconds / unit).ceil() * unit)
}
