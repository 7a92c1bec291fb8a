//! Phase 5, choose: the fastest validated candidate is kept, checked on the test rows and reported.
//!
//! What the report says is in `report.rs`.

use mercer_machine::{Speed, Verification};
use mercer_query::Plan;

use super::budget::{cost_times, not_met, set_budget};
use super::report::{self, Report};
use super::timing::{RunTimes, Runner, rounded};
use super::validate::{Validated, ValidatedCandidate};
use super::{Aim, Tuned};
use crate::CompileError;

/// Chooses a candidate and writes down how it was found.
pub(super) fn choose(mut validated: Validated<'_>) -> Result<Tuned, CompileError> {
    let Choice { mut chosen, why, compared } = fastest(&mut validated)?;
    let Validated { search, candidates, notes } = &mut validated;
    let mut verified = report::verify(&search.context, &candidates[chosen])?;
    let disagreements = verified.verification.disagreements;
    if disagreements > 0 && !candidates[chosen].estimates() {
        // Impossible by proof; if it ever happens such a plan must not be used.
        notes.push(format!(
            "{} disagrees with exact on {disagreements} test queries, which its proof excludes: \
             please report it",
            candidates[chosen].sections.spec,
        ));
        chosen = 0;
        verified = report::verify(&search.context, &candidates[0])?;
    }
    let (context, candidates) = (&validated.search.context, &validated.candidates);
    let Verification { queries, unsettled, .. } = verified.verification;
    let unsettled = unsettled as f64 / queries.max(1) as f64;
    if context.tuner.budget_us.is_some() && unsettled > context.tuner.unsettled {
        return Err(not_met(context, candidates, 1.0 - unsettled)?);
    }
    let measured = &context.sample.measure.rows;
    let times = cost_times(context, &candidates[chosen].candidate, measured)?;
    let (exact, plan) = speeds(&validated, chosen, &compared)?;
    Ok(report::tuned(validated, Report { chosen, why, compared, times, exact, plan, verified }))
}

/// A choice among the candidates.
struct Choice {
    /// Its position.
    chosen: usize,
    why: Why,
    /// Microseconds a query of each candidate, for what is optimised, timed in turns.
    compared: Vec<f64>,
}

/// Why it was chosen.
pub(super) struct Why {
    /// Relative differences below this are noise.
    pub noise: f64,
    /// The fastest other plan and its time relative to exact, if exact was kept because nothing is faster.
    pub beaten: Option<(String, f64)>,
}

/// The fastest candidate; but exact unless it is clearly slower, and a certified plan rather than the fastest that
/// estimates unless that is clearly faster.
fn fastest(validated: &mut Validated<'_>) -> Result<Choice, CompileError> {
    let Validated { search, candidates, notes } = validated;
    for validated in candidates.iter_mut() {
        // On the same rows for all, with the thresholds that they have now.
        set_budget(&search.context, &mut validated.candidate, &search.context.sample.measure.rows)?;
    }
    let (policy, timer) = (&search.context.policy.choose, search.context.timer);
    let runners: Vec<Runner<'_>> = match timer.aim {
        Aim::Latency => candidates
            .iter()
            .map(|validated| validated.candidate.runner(&search.exact_rows))
            .collect(),
        Aim::Throughput => candidates.iter().map(ValidatedCandidate::runner).collect(),
    };
    let times = timer.compare(&runners, policy.rounds)?;
    let noise = times.iter().map(RunTimes::noise).fold(policy.least_noise, f64::max);
    let noise = noise.min(policy.most_noise);
    let unsettled = |at: usize| candidates[at].candidate.unsettled;
    let estimates = |at: &usize| candidates[*at].estimates();
    let by_time = |a: &usize, b: &usize| times[*a].best.total_cmp(&times[*b].best);
    // The best plan of the search comes last; it may have stages that pay off on rare queries alone.
    let certified: Vec<usize> = (1..candidates.len()).filter(|at| !estimates(at)).collect();
    let certified = certified.last().map(|best| {
        let beats = |at: &usize| times[*at].best * (1.0 + noise) < times[*best].best;
        certified.iter().copied().filter(beats).min_by(by_time).unwrap_or(*best)
    });
    let estimating: Vec<usize> = (1..candidates.len()).filter(estimates).collect();
    let estimating = fastest_estimating(search, candidates, &estimating)?;
    let mut chosen = 0;
    for at in certified.into_iter().chain(estimating) {
        let is_faster = times[at].best * (1.0 + noise) < times[chosen].best;
        let settles_as_many = unsettled(at) == unsettled(chosen);
        if unsettled(at) < unsettled(chosen) || (is_faster && settles_as_many) {
            chosen = at;
        }
    }
    let beaten = (1..candidates.len())
        .min_by(by_time)
        .filter(|_| chosen == 0)
        .map(|at| (candidates[at].sections.spec.clone(), times[at].best / times[0].best));
    if search.context.tuner.budget_us.is_some() && unsettled(chosen) > 0.0 {
        let share = 100.0 * unsettled(chosen);
        notes.push(format!("{share:.1} % of the queries do not fit the budget"));
    }
    let compared = times.iter().map(|times| rounded(times.microseconds())).collect();
    Ok(Choice { chosen, why: Why { noise, beaten }, compared })
}

/// The fastest of the candidates that estimate: they are close, so they are timed in several memory layouts.
fn fastest_estimating(
    search: &super::search::Search<'_>,
    candidates: &[ValidatedCandidate],
    among: &[usize],
) -> Result<Option<usize>, CompileError> {
    if among.len() < 2 {
        return Ok(among.first().copied());
    }
    let (timer, limit) = (search.context.timer, search.context.limit);
    let queried = among.iter().map(|at| {
        let is_latency = timer.aim == Aim::Latency;
        let rows = if is_latency { &search.exact_rows } else { &candidates[*at].rows };
        (&candidates[*at].candidate.options, rows)
    });
    let queried: Vec<_> = queried.collect();
    let seconds = timer.compare_over_reloads(&queried, |number, reload| {
        limit.step("re-timing validated plans", reload, timer.policy.reloads)?;
        let sections = &candidates[among[number]].sections;
        Ok(Plan::fitted(search.context.tuner.machine, sections)?)
    })?;
    let least = (0..among.len()).min_by(|a, b| seconds[*a].total_cmp(&seconds[*b]));
    Ok(least.map(|at| among[at]))
}

/// Exact and the chosen plan. What is optimised was timed when the plan was chosen, and these are the times; the other
/// of single queries and batches is timed here, in turns.
fn speeds(
    validated: &Validated<'_>,
    chosen: usize,
    compared: &[f64],
) -> Result<(Speed, Speed), CompileError> {
    let Validated { search, candidates, .. } = validated;
    let (policy, timer) = (&search.context.policy.choose, search.context.timer);
    let both = [&candidates[0], &candidates[chosen]];
    let known = [compared[0], compared[chosen]];
    let rows = &search.exact_rows;
    let few = rows.select(0..rows.rows().min(policy.report_rows));
    let (aim, runners) = match timer.aim {
        Aim::Latency => (Aim::Throughput, both.map(ValidatedCandidate::runner)),
        Aim::Throughput => (Aim::Latency, both.map(|validated| validated.candidate.runner(&few))),
    };
    let times = timer.with_aim(aim).compare(&runners, policy.report_rounds)?;
    let speed = |at: usize| {
        let other = rounded(times[at].microseconds());
        let (single_us, batch_us) = match timer.aim {
            Aim::Latency => (known[at], other),
            Aim::Throughput => (other, known[at]),
        };
        Speed { single_us, batch_us, bytes: both[at].candidate.plan.bytes() as u64 }
    };
    let exact = speed(0);
    let plan = if chosen == 0 { exact } else { speed(1) };
    Ok((exact, plan))
}
