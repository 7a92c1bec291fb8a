//! The last round, the test, and what is written down about it.

use mercer_data::Matrix;
use mercer_machine::{
    Answer, Calibration, PlanSections, SampleParts, Settled, Speed, Tuning, Verification,
};
use mercer_query::{Answers, Certainty, Plan};
use mercer_simd::Isa;

use super::clock::{self, Laps, Runner, in_places, long_batch, race, rounded};
use super::last::CONTENDERS;
use super::parts::{Judged, Parts};
use super::search::{Candidate, Search};
use super::{Aim, Contract, Point, Tuned, Tuner};
use crate::CompileError;
use crate::risk::Target;

/// Laps of the last round.
const ROUNDS: usize = 7;
/// Differences below this share are noise on any machine.
const LEAST_NOISE: f64 = 0.03;
/// A machine noisier than this is not told apart by waiting.
const MOST_NOISE: f64 = 0.15;
/// Places at which the costs of the test are kept.
const PLACES: usize = 21;

/// A plan in the last round.
struct Finalist {
    candidate: Candidate,
    sections: PlanSections,
    /// What it is asked on the clock.
    rows: Matrix,
}

impl Finalist {
    fn new(
        candidate: Candidate,
        sections: PlanSections,
        search: &Search<'_>,
        parts: &Parts,
    ) -> Result<Self, CompileError> {
        let long = long_batch(candidate.runner(&search.few), &parts.measured.rows)?;
        let rows = long.unwrap_or_else(|| search.few.clone());
        Ok(Self { candidate, sections, rows })
    }

    fn runner(&self) -> Runner<'_> {
        self.candidate.runner(&self.rows)
    }
}

pub(super) fn finish(
    tuner: &Tuner<'_>,
    mut search: Search<'_>,
    parts: &Parts,
    repeated: usize,
) -> Result<Tuned, CompileError> {
    let mut notes = Vec::new();
    if let Some(needed) = parts.needed {
        notes.push(format!(
            "the sample has {} rows, {needed} are needed for {}: only proved plans were tried",
            tuner.sample.rows(),
            tuner.contract,
        ));
    }
    let finalists = finalists(tuner, &mut search, parts, &mut notes)?;
    let (mut winner, why) = choose(tuner, &search, &finalists, &mut notes)?;
    let mut seen = verify(tuner, &finalists[winner], &parts.verified)?;
    let is_calibrated = finalists[winner].sections.calibration.is_some();
    if seen.verification.disagreements > 0 && !is_calibrated {
        // Impossible by proof; if it ever happens nobody shall get such a plan.
        notes.push(format!(
            "{} gave {} labels unlike exact on the test part, which its proof forbids: please report it",
            finalists[winner].sections.spec, seen.verification.disagreements,
        ));
        winner = 0;
        seen = verify(tuner, &finalists[0], &parts.verified)?;
    }
    let (exact, plan) = speeds(&finalists, winner, &search)?;
    let reason = reason(tuner, &search, &finalists[winner], &exact, &plan, why, &notes);
    let Finalist { candidate, sections, .. } =
        finalists.into_iter().nth(winner).expect("the winner is one of them");
    let rows = |part: &Judged| part.rows.rows();
    let tuning = Tuning {
        contract: tuner.contract.to_string(),
        aim: tuner.aim.name().to_owned(),
        seed: tuner.seed,
        instruction_set: Isa::current().name().to_owned(),
        threads: rayon::current_num_threads(),
        budget: candidate.budget,
        tolerance: tuner.tolerance,
        sample: SampleParts {
            rows: tuner.sample.rows(),
            fitted: parts.fitted.rows(),
            measured: rows(&parts.measured),
            verified: rows(&parts.verified),
            repeated,
        },
        exact,
        plan,
        tried: search.tried,
        refused: search.shelf.refused,
        stopped: search.is_cut_short,
        verification: seen.verification,
        reason,
    };
    let sections = PlanSections { tuning: Some(Box::new(tuning)), ..sections };
    Ok(Tuned { sections, points: seen.points })
}

/// Exact, the fastest that estimate, once they have their thresholds from the test part, and the fastest proved plan.
fn finalists(
    tuner: &Tuner<'_>,
    search: &mut Search<'_>,
    parts: &Parts,
    notes: &mut Vec<String>,
) -> Result<Vec<Finalist>, CompileError> {
    let again = search.exact_again()?;
    let best = std::mem::replace(&mut search.best, again);
    let mut finalists = Vec::new();
    let exact = search.exact_again()?;
    let sections = search.sections(&exact.stages);
    finalists.push(Finalist::new(exact, sections, search, parts)?);
    let mut proved = search.proved.take();
    if search.shelf.estimates(&best.stages) {
        finalists.extend(estimating(tuner, search, parts, best, notes)?);
    } else {
        proved = Some(best);
    }
    if let Some(candidate) = proved.filter(|proved| !proved.stages.is_empty()) {
        let sections = search.sections(&candidate.stages);
        finalists.push(Finalist::new(candidate, sections, search, parts)?);
    }
    Ok(finalists)
}

/// The best plan, and others that may turn out faster, each with its threshold. They share `delta`: all their promises
/// hold at once, with the confidence that was asked for, so the fastest may be kept.
fn estimating(
    tuner: &Tuner<'_>,
    search: &mut Search<'_>,
    parts: &Parts,
    best: Candidate,
    notes: &mut Vec<String>,
) -> Result<Vec<Finalist>, CompileError> {
    let Contract::Calibrated(target) = &tuner.contract else { return Ok(Vec::new()) };
    let can_share = target.can_share(parts.verified.rows.rows(), CONTENDERS);
    let mut candidates = vec![best];
    if tuner.budget_us.is_none() && can_share {
        for stages in search.contenders(&candidates[0]) {
            let (options, relative) = (candidates[0].options, candidates[0].relative);
            let plan = search.load(&stages)?;
            let contender =
                Candidate { stages, plan, options, budget: None, relative, unsettled: 0.0 };
            candidates.push(contender);
        }
    }
    let plans = candidates.len();
    let (first, other) = (target.first_of(plans - 1), target.contender());
    if plans > 1 {
        notes.push(format!(
            "{plans} plans shared the test: the one that seemed fastest at delta = {}, others at {}",
            rounded(first.delta),
            rounded(other.delta),
        ));
    }
    let mut finalists = Vec::new();
    for (place, candidate) in candidates.into_iter().enumerate() {
        let share = if place == 0 { &first } else { &other };
        let found = calibrated(tuner, search, parts, (candidate, share), notes)?;
        finalists.extend(found.map(|mut finalist| {
            // The bound is that of its share of delta, and holds with the confidence of the whole.
            if let Some(calibration) = &mut finalist.sections.calibration {
                calibration.delta = target.delta;
            }
            finalist
        }));
    }
    Ok(finalists)
}

/// Gives a plan its threshold by its one test on the rows that nobody has looked at.
fn calibrated(
    tuner: &Tuner<'_>,
    search: &Search<'_>,
    parts: &Parts,
    (candidate, target): (Candidate, &Target),
    notes: &mut Vec<String>,
) -> Result<Option<Finalist>, CompileError> {
    let mut sections = search.sections(&candidate.stages);
    let plan = Plan::load(tuner.machine, &sections)?;
    let Judged { rows, scores } = &parts.verified;
    let calibration = match search.calibrate(&plan, rows, scores, target) {
        Ok(calibration) => calibration,
        Err(CompileError::NothingToTrust { disagreements, queries }) => {
            notes.push(format!(
                "{} failed the test: {disagreements} of {queries} labels unlike exact even at its \
                 widest margin",
                sections.spec,
            ));
            return Ok(None);
        }
        Err(other) => return Err(other),
    };
    let plan = plan.calibrated(calibration.clone())?;
    faithful(tuner, &plan, parts, &calibration)?;
    sections.calibration = Some(calibration);
    Finalist::new(Candidate { plan, ..candidate }, sections, search, parts).map(Some)
}

/// The finished plan must do what was tested.
fn faithful(
    tuner: &Tuner<'_>,
    plan: &Plan,
    parts: &Parts,
    calibration: &Calibration,
) -> Result<(), CompileError> {
    let decisions = plan.decide(&parts.verified.rows)?;
    let truths = parts.verified.answers(tuner.machine);
    let is_wrong = |(decision, truth): &(&mercer_query::Decision, mercer_machine::Verdict)| {
        decision.certainty == Certainty::Calibrated && decision.answer != truth.answer
    };
    let found = decisions.iter().zip(truths).filter(is_wrong).count() as u64;
    let expected = calibration.disagreements;
    if found == expected { Ok(()) } else { Err(CompileError::Unfaithful { found, expected }) }
}

/// What the last round said of the winner.
struct Why {
    noise: f64,
    /// The fastest other plan, if exact was kept for want of a gain.
    beaten: Option<(String, f64)>,
}

/// Which finalist is kept: the fastest, but exact unless it is clearly slower, and a proved plan rather than
/// the fastest that estimates unless that is clearly faster.
fn choose(
    tuner: &Tuner<'_>,
    search: &Search<'_>,
    finalists: &[Finalist],
    notes: &mut Vec<String>,
) -> Result<(usize, Why), CompileError> {
    let runners: Vec<Runner<'_>> = match tuner.aim {
        Aim::Latency => finalists.iter().map(|of| of.candidate.runner(&search.few)).collect(),
        Aim::Throughput => finalists.iter().map(Finalist::runner).collect(),
    };
    let (laps, _) = race(&runners, tuner.aim, ROUNDS, f64::INFINITY)?;
    let noise = laps.iter().map(Laps::noise).fold(LEAST_NOISE, f64::max).min(MOST_NOISE);
    let unsettled = |at: usize| finalists[at].candidate.unsettled;
    let estimates = |at: &usize| finalists[*at].sections.calibration.is_some();
    let by_time = |a: &usize, b: &usize| laps[*a].best.total_cmp(&laps[*b].best);
    let proved = (1..finalists.len()).filter(|at| !estimates(at)).min_by(by_time);
    let estimating: Vec<usize> = (1..finalists.len()).filter(estimates).collect();
    let estimating = fastest(tuner, search, finalists, &estimating)?;
    let mut winner = 0;
    for at in proved.into_iter().chain(estimating) {
        let is_faster = laps[at].best * (1.0 + noise) < laps[winner].best;
        let settles_more = unsettled(at) + 0.005 < unsettled(winner);
        let settles_less = unsettled(at) > unsettled(winner) + 0.005;
        if settles_more || (is_faster && !settles_less) {
            winner = at;
        }
    }
    let beaten = (1..finalists.len())
        .min_by(by_time)
        .filter(|_| winner == 0)
        .map(|at| (finalists[at].sections.spec.clone(), laps[at].best / laps[0].best));
    if tuner.budget_us.is_some() && unsettled(winner) > 0.0 {
        let share = 100.0 * unsettled(winner);
        notes.push(format!("{share:.1} % of the queries do not fit the budget"));
    }
    Ok((winner, Why { noise, beaten }))
}

/// The fastest of those finalists that estimate: they are close, so they run in several places of memory.
fn fastest(
    tuner: &Tuner<'_>,
    search: &Search<'_>,
    finalists: &[Finalist],
    among: &[usize],
) -> Result<Option<usize>, CompileError> {
    if among.len() < 2 {
        return Ok(among.first().copied());
    }
    let asked = among.iter().map(|at| {
        let rows = if tuner.aim == Aim::Latency { &search.few } else { &finalists[*at].rows };
        (&finalists[*at].candidate.options, rows)
    });
    let seconds = in_places(&asked.collect::<Vec<_>>(), tuner.aim, |run, place| {
        search.patience.step("measuring tested plans", place, clock::PLACES)?;
        Ok(Plan::load(tuner.machine, &finalists[among[run]].sections)?)
    })?;
    let least = (0..among.len()).min_by(|a, b| seconds[*a].total_cmp(&seconds[*b]));
    Ok(least.map(|at| among[at]))
}

/// Exact and the winner, in turns, both ways of options.
fn speeds(
    finalists: &[Finalist],
    winner: usize,
    search: &Search<'_>,
) -> Result<(Speed, Speed), CompileError> {
    let of = [&finalists[0], &finalists[winner]];
    let few = search.few.select(0..search.few.rows().min(512));
    let alone = of.map(|finalist| finalist.candidate.runner(&few));
    let (single, _) = race(&alone, Aim::Latency, 5, f64::INFINITY)?;
    let (batch, _) = race(&of.map(Finalist::runner), Aim::Throughput, 5, f64::INFINITY)?;
    let speed = |at: usize, finalist: &Finalist| Speed {
        single_us: rounded(single[at].microseconds()),
        batch_us: rounded(batch[at].microseconds()),
        bytes: finalist.candidate.plan.bytes() as u64,
    };
    let exact = speed(0, &finalists[0]);
    let plan = if winner == 0 { exact } else { speed(1, &finalists[winner]) };
    Ok((exact, plan))
}

/// What the test showed.
struct Seen {
    verification: Verification,
    points: Vec<Point>,
}

/// Asks the plan the rows that nobody has looked at, and compares with exact.
fn verify(tuner: &Tuner<'_>, finalist: &Finalist, judged: &Judged) -> Result<Seen, CompileError> {
    let Finalist { candidate: Candidate { plan, options, .. }, .. } = finalist;
    let Answers { decisions, settled_by, settled_by_stage, unsettled } =
        plan.decide_with(&judged.rows, options)?;
    let tolerance = tuner.tolerance.unwrap_or(0.0);
    let differs = |given: Answer, truth: Answer| match (given, truth) {
        // The range of the exact value is rounding wide.
        (Answer::Value(a), Answer::Value(b)) => (a - b).abs() > tolerance * (1.0 + 1e-9),
        (a, b) => a != b,
    };
    let mut points = Vec::new();
    let mut disagreements = 0;
    for ((decision, stage), truth) in
        decisions.iter().zip(&settled_by).zip(judged.answers(tuner.machine))
    {
        let is_settled = decision.certainty != Certainty::Unsettled;
        disagreements += u64::from(is_settled && differs(decision.answer, truth.answer));
        points.push(Point {
            margin: truth.score.abs(),
            cost: decision.cost.multiply_adds,
            stage: *stage,
            certainty: decision.certainty,
        });
    }
    let mut costs: Vec<u64> = points.iter().map(|point| point.cost).collect();
    costs.sort_unstable();
    let place = |n: usize| costs[n * (costs.len() - 1) / (PLACES - 1)];
    let costs = if costs.is_empty() { Vec::new() } else { (0..PLACES).map(place).collect() };
    let names = plan.stages().iter().map(|stage| stage.spec().to_string());
    let names = names.chain(["exact".to_owned()]);
    let stages = names.zip(settled_by_stage).map(|(stage, queries)| Settled { stage, queries });
    let total: f64 = points.iter().map(|point| point.cost as f64).sum();
    let verification = Verification {
        queries: points.len() as u64,
        disagreements,
        unsettled,
        stages: stages.collect(),
        mean_cost: rounded(total / points.len().max(1) as f64),
        exact_cost: plan.exact_stage().cost().multiply_adds,
        costs,
    };
    Ok(Seen { verification, points })
}

/// Why this plan, in one sentence for people.
fn reason(
    tuner: &Tuner<'_>,
    search: &Search<'_>,
    kept: &Finalist,
    exact: &Speed,
    plan: &Speed,
    why: Why,
    notes: &[String],
) -> String {
    let tried = search.tried.len();
    let mut text = if kept.candidate.stages.is_empty() {
        match (&tuner.contract, why.beaten, tried) {
            (Contract::Exact, ..) => "exact is what the contract asks for".to_owned(),
            _ if !tuner.may_compile() => {
                "exact is kept: values of a regression need a tolerance to be settled by".to_owned()
            }
            (_, Some((plan, times)), _) => format!(
                "exact is kept: of {tried} plans the fastest, {plan}, takes {times:.2} times as \
                 long, and differences below {:.0} % are noise here",
                100.0 * why.noise,
            ),
            (_, None, 0) => "exact is kept: no stage fits this machine".to_owned(),
            (_, None, _) => format!("exact is kept: none of {tried} plans is faster"),
        }
    } else {
        let (single, batch) = (exact.single_us / plan.single_us, exact.batch_us / plan.batch_us);
        let what = match tuner.aim {
            Aim::Latency => format!(
                "{single:.1} times as fast as exact for single queries ({batch:.1} in batches)"
            ),
            Aim::Throughput => format!(
                "{batch:.1} times as fast as exact in batches ({single:.1} for single queries)"
            ),
        };
        format!("{} is {what}, the fastest of {tried} plans", kept.sections.spec)
    };
    for note in notes {
        text.push_str("; ");
        text.push_str(note);
    }
    text
}
