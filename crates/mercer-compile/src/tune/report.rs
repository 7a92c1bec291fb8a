//! The report on the chosen plan: its check on the test rows, its speed, and the reason in one sentence. It chooses
//! nothing: that is `choose.rs`.

use mercer_machine::{
    Answer, PlanSections, SampleParts, SettledByStage, Speed, Trial, Tuning, Verification,
};
use mercer_query::{Answers, Certainty, CostTimes, Plan};
use mercer_simd::Isa;

use super::choose::Why;
use super::search::{Context, Search};
use super::timing::rounded;
use super::validate::{Validated, ValidatedCandidate};
use super::{Aim, Contract, Point, Tuned};
use crate::CompileError;

/// The choice, and what was measured of it.
pub(super) struct Report {
    /// Position of the chosen candidate.
    pub chosen: usize,
    pub why: Why,
    /// Microseconds a query of each candidate, timed in turns.
    pub compared: Vec<f64>,
    /// Costs and times of its queries.
    pub times: CostTimes,
    /// The speed of exact answers.
    pub exact: Speed,
    /// The speed of the chosen plan.
    pub plan: Speed,
    pub verified: Verified,
}

/// The answers to the test rows.
pub(super) struct Verified {
    pub verification: Verification,
    pub points: Vec<Point>,
}

/// The chosen plan with its record.
pub(super) fn tuned(validated: Validated<'_>, report: Report) -> Tuned {
    let Validated { search, candidates, notes } = validated;
    let Context { tuner, sample, .. } = &search.context;
    let reason = reason(&search, &candidates[report.chosen], &report, &notes);
    let Report { chosen, times, compared, exact, plan, verified, .. } = report;
    let tried = compared_trials(&search, &candidates, &compared);
    let ValidatedCandidate { candidate, sections, .. } =
        candidates.into_iter().nth(chosen).expect("the chosen candidate is one of them");
    let tuning = Tuning {
        contract: tuner.contract.to_string(),
        aim: tuner.aim.name().to_owned(),
        seed: tuner.seed,
        instruction_set: Isa::current().name().to_owned(),
        threads: rayon::current_num_threads(),
        budget: candidate.budget,
        times: times.points().to_vec(),
        tolerance: tuner.tolerance,
        sample: SampleParts {
            rows: tuner.sample.rows(),
            fitted: sample.fit.rows(),
            measured: sample.measure.rows.rows(),
            verified: sample.test.rows.rows(),
            repeated: search.context.repeated,
        },
        exact,
        plan,
        tried,
        refused: search.cache.refused,
        stopped: search.is_cut_short,
        verification: verified.verification,
        reason,
    };
    let sections = PlanSections { tuning: Some(Box::new(tuning)), ..sections };
    Tuned { sections, points: verified.points }
}

/// The plans that were tried. Those of the last comparison have the times of it; times of the others are those of the
/// search, relative to exact.
fn compared_trials(
    search: &Search<'_>,
    candidates: &[ValidatedCandidate],
    compared: &[f64],
) -> Vec<Trial> {
    let scale = compared[0] / search.exact_us;
    let time = |trial: &Trial| {
        let named = |candidate: &ValidatedCandidate| candidate.sections.spec == trial.plan;
        candidates.iter().position(named).map(|at| compared[at])
    };
    let trials = search.tried.iter().map(|trial| match time(trial) {
        Some(us) => Trial { us, compared: true, ..trial.clone() },
        None => Trial { us: rounded(scale * trial.us), ..trial.clone() },
    });
    trials.collect()
}

/// Answers the test rows and compares with exact.
pub(super) fn verify(
    context: &Context<'_>,
    validated: &ValidatedCandidate,
) -> Result<Verified, CompileError> {
    let (tuner, test) = (context.tuner, &context.sample.test);
    let plan = &validated.candidate.plan;
    let answers = plan.decide_with(&test.rows, &validated.candidate.limited())?;
    let tolerance = tuner.tolerance.unwrap_or(0.0);
    let differs = |given: Answer, truth: Answer| match (given, truth) {
        // The range of the exact value is as wide as its rounding.
        (Answer::Value(a), Answer::Value(b)) => (a - b).abs() > tolerance * (1.0 + 1e-9),
        (a, b) => a != b,
    };
    let mut points = Vec::new();
    let mut disagreements = 0;
    let decisions = answers.decisions.iter().zip(&answers.answered_by);
    for ((decision, stage), truth) in decisions.zip(test.answers(tuner.machine)) {
        let is_settled = decision.certainty != Certainty::Unsettled;
        disagreements += u64::from(is_settled && differs(decision.answer, truth.answer));
        points.push(Point {
            margin: truth.score.abs(),
            cost: decision.cost.multiply_adds,
            stage: *stage,
            certainty: decision.certainty,
        });
    }
    let quantiles = context.policy.choose.cost_quantiles;
    let verification = verification(plan, answers, &points, disagreements, quantiles);
    Ok(Verified { verification, points })
}

fn verification(
    plan: &Plan,
    answers: Answers,
    points: &[Point],
    disagreements: u64,
    quantiles: usize,
) -> Verification {
    let mut costs: Vec<u64> = points.iter().map(|point| point.cost).collect();
    costs.sort_unstable();
    let quantile = |n: usize| costs[n * (costs.len() - 1) / (quantiles - 1)];
    let costs = if costs.is_empty() { Vec::new() } else { (0..quantiles).map(quantile).collect() };
    let names = plan.stages().iter().map(|stage| stage.spec().to_string());
    let names = names.chain(["exact".to_owned()]);
    let settled = names.zip(answers.settled_by_stage);
    let total: f64 = points.iter().map(|point| point.cost as f64).sum();
    Verification {
        queries: points.len() as u64,
        disagreements,
        unsettled: answers.unsettled,
        stages: settled.map(|(stage, queries)| SettledByStage { stage, queries }).collect(),
        mean_cost: rounded(total / points.len().max(1) as f64),
        exact_cost: plan.exact_stage().cost().multiply_adds,
        costs,
    }
}

/// Why this plan, in one sentence.
fn reason(
    search: &Search<'_>,
    chosen: &ValidatedCandidate,
    report: &Report,
    notes: &[String],
) -> String {
    let mut text = if chosen.candidate.stages.is_empty() {
        reason_for_exact(search, &report.why)
    } else {
        let (exact, plan) = (&report.exact, &report.plan);
        let (single, batch) = (exact.single_us / plan.single_us, exact.batch_us / plan.batch_us);
        let what = match search.context.tuner.aim {
            Aim::Latency => format!(
                "{single:.1} times as fast as exact for single queries ({batch:.1} in batches)"
            ),
            Aim::Throughput => format!(
                "{batch:.1} times as fast as exact in batches ({single:.1} for single queries)"
            ),
        };
        let (tried, spec) = (search.tried.len(), &chosen.sections.spec);
        let own = report.compared[report.chosen];
        if own >= report.compared[0] {
            format!("{spec} settles more queries within the budget than exact; it is {what}")
        } else if report.compared.iter().all(|us| own <= *us) {
            format!("{spec} is {what}, the fastest of {tried} plans")
        } else {
            format!("{spec} is {what}; no other of {tried} plans is clearly faster")
        }
    };
    for note in notes {
        text.push_str("; ");
        text.push_str(note);
    }
    text
}

fn reason_for_exact(search: &Search<'_>, why: &Why) -> String {
    let (tuner, tried) = (search.context.tuner, search.tried.len());
    match (&tuner.contract, &why.beaten, tried) {
        (Contract::Exact, ..) => "exact is what the contract asks for".to_owned(),
        _ if !tuner.may_compile() => {
            "exact is kept: values of a regression need a tolerance to be settled by".to_owned()
        }
        (_, Some((plan, times)), _) => format!(
            "exact is kept: of {tried} plans the fastest, {plan}, takes {times:.2} times as long, \
             and differences below {:.0} % are noise here",
            100.0 * why.noise,
        ),
        (_, None, 0) => "exact is kept: no stage fits this machine".to_owned(),
        (_, None, _) => format!("exact is kept: none of {tried} plans is faster"),
    }
}
