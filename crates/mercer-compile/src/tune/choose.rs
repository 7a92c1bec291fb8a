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
    let Choice { mut chosen, why } = fastest(&mut validated)?;
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
    let (exact, plan) = speeds(&validated, chosen)?;
    Ok(report::tuned(validated, Report { chosen, why, times, exact, plan, verified }))
}

/// A choice among the candidates.
struct Choice {
    /// Its position.
    chosen: usize,
    why: Why,
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
    let certified = (1..candidates.len()).filter(|at| !estimates(at)).min_by(by_time);
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
    Ok(Choice { chosen, why: Why { noise, beaten } })
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

/// Exact and the chosen plan, in turns, for single queries and for batches.
fn speeds(validated: &Validated<'_>, chosen: usize) -> Result<(Speed, Speed), CompileError> {
    let Validated { search, candidates, .. } = validated;
    let (policy, timer) = (&search.context.policy.choose, search.context.timer);
    let compared = [&candidates[0], &candidates[chosen]];
    let rows = &search.exact_rows;
    let few = rows.select(0..rows.rows().min(policy.report_rows));
    let alone = compared.map(|validated| validated.candidate.runner(&few));
    let single = timer.with_aim(Aim::Latency).compare(&alone, policy.report_rounds)?;
    let batches = compared.map(ValidatedCandidate::runner);
    let batch = timer.with_aim(Aim::Throughput).compare(&batches, policy.report_rounds)?;
    let speed = |at: usize| Speed {
        single_us: rounded(single[at].microseconds()),
        batch_us: rounded(batch[at].microseconds()),
        bytes: compared[at].candidate.plan.bytes() as u64,
    };
    let exact = speed(0);
    let plan = if chosen == 0 { exact } else { speed(1) };
    Ok((exact, plan))
}
