//! Phase 4, validate: candidates that estimate get their acceptance thresholds from the test rows, which nothing has
//! looked at before.
//!
//! Several candidates are validated on the same rows; each gets a share of delta (union bound), so all their promises
//! hold at once with confidence `1 - delta`, and the fastest may be chosen. How a threshold is tested is in `risk.rs`.

use mercer_data::Matrix;
use mercer_machine::PlanSections;
use mercer_query::Plan;

use super::Contract;
use super::policy::ValidatePolicy;
use super::search::{PlanCandidate, Search};
use super::timing::{Runner, rounded};
use crate::CompileError;
use crate::risk::{self, References, Risk, Target};

/// How `delta` is shared between the best plan and alternatives that are tested on the same rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeltaShares<'a> {
    target: &'a Target,
    policy: &'a ValidatePolicy,
}

impl<'a> DeltaShares<'a> {
    pub(super) fn new(target: &'a Target, policy: &'a ValidatePolicy) -> Self {
        Self { target, policy }
    }

    /// Whether the best plan is allowed nearly as many disagreements on so many queries as with the whole delta, and
    /// alternatives can pass at all.
    pub(super) fn is_worthwhile(&self, queries: usize) -> bool {
        let allowed = |target: &Target| target.allowed(queries) as f64;
        let best = self.of_best(self.policy.alternatives);
        self.target.of == Risk::Disagreements
            && self.of_alternative().needed() <= queries
            && allowed(&best) >= self.policy.kept_allowance * allowed(self.target)
    }

    /// The target of the best plan beside so many alternatives.
    pub(super) fn of_best(&self, alternatives: usize) -> Target {
        let rest = 1.0 - self.policy.alternative_share * alternatives as f64;
        Target { delta: self.target.delta * rest, ..*self.target }
    }

    /// The target of each alternative.
    pub(super) fn of_alternative(&self) -> Target {
        Target { delta: self.target.delta * self.policy.alternative_share, ..*self.target }
    }
}

/// A candidate whose promise holds.
pub(super) struct ValidatedCandidate {
    pub candidate: PlanCandidate,
    pub sections: PlanSections,
    /// The batch that it is timed on.
    pub rows: Matrix,
}

impl ValidatedCandidate {
    fn new(
        candidate: PlanCandidate,
        sections: PlanSections,
        search: &Search<'_>,
    ) -> Result<Self, CompileError> {
        let measured = &search.context.sample.measure.rows;
        let runner = candidate.runner(&search.exact_rows);
        let long = search.context.timer.long_batch(runner, measured)?;
        let rows = long.unwrap_or_else(|| search.exact_rows.clone());
        Ok(Self { candidate, sections, rows })
    }

    pub(super) fn runner(&self) -> Runner<'_> {
        self.candidate.runner(&self.rows)
    }

    pub(super) fn estimates(&self) -> bool {
        self.sections.calibration.is_some()
    }
}

/// A finished search with its validated candidates.
pub(super) struct Validated<'a> {
    pub search: Search<'a>,
    /// Exact comes first.
    pub candidates: Vec<ValidatedCandidate>,
    /// What the report should say about the validation.
    pub notes: Vec<String>,
}

/// Validates exact, the fastest plans that estimate, and the fastest certified plan.
pub(super) fn validate(mut search: Search<'_>) -> Result<Validated<'_>, CompileError> {
    let tuner = search.context.tuner;
    tuner.watch.step("testing the plan", 0, 1)?;
    let mut notes = Vec::new();
    if let Some(needed) = search.context.sample.needed_rows {
        notes.push(format!(
            "the sample has {} rows, {needed} are needed for {}: only certified plans were tried",
            tuner.sample.rows(),
            tuner.contract,
        ));
    }
    let exact = search.context.exact(&search.exact_rows)?;
    let best = std::mem::replace(&mut search.best, exact);
    let exact = search.context.exact(&search.exact_rows)?;
    let sections = search.sections(&exact.stages);
    let mut candidates = vec![ValidatedCandidate::new(exact, sections, &search)?];
    let mut certified = search.best_certified.take();
    if search.cache.estimates(&best.stages) {
        candidates.extend(validate_estimating(&mut search, best, &mut notes)?);
    } else {
        certified = Some(best);
    }
    if let Some(candidate) = certified.filter(|certified| !certified.stages.is_empty()) {
        for other in close_certified(&mut search, &candidate)? {
            let sections = search.sections(&other.stages);
            candidates.push(ValidatedCandidate::new(other, sections, &search)?);
        }
        let sections = search.sections(&candidate.stages);
        candidates.push(ValidatedCandidate::new(candidate, sections, &search)?);
    }
    Ok(Validated { search, candidates, notes })
}

/// Certified plans that took about as long as the best one: the last comparison says whether one is clearly faster. They
/// need no test.
fn close_certified(
    search: &mut Search<'_>,
    best: &PlanCandidate,
) -> Result<Vec<PlanCandidate>, CompileError> {
    let policy = &search.context.policy.validate;
    if search.context.tuner.budget_us.is_some() {
        return Ok(Vec::new());
    }
    let close = search.timed_within(policy.certified_within, best);
    let close: Vec<Vec<usize>> = close.into_iter().take(policy.certified).cloned().collect();
    let candidate = |stages: Vec<usize>| {
        let plan = search.load(&stages)?;
        let PlanCandidate { options, relative_time, .. } = *best;
        Ok(PlanCandidate { stages, plan, options, budget: None, relative_time, unsettled: 0.0 })
    };
    close.into_iter().map(candidate).collect()
}

/// The best plan and alternatives that may turn out faster, each with its threshold; without those that fail.
fn validate_estimating(
    search: &mut Search<'_>,
    best: PlanCandidate,
    notes: &mut Vec<String>,
) -> Result<Vec<ValidatedCandidate>, CompileError> {
    let tuner = search.context.tuner;
    let Contract::Calibrated(target) = &tuner.contract else { return Ok(Vec::new()) };
    let shares = DeltaShares::new(target, &search.context.policy.validate);
    let is_shared = shares.is_worthwhile(search.context.sample.test.rows.rows());
    let mut candidates = vec![best];
    if tuner.budget_us.is_none() && is_shared {
        for stages in search.alternatives(&candidates[0]) {
            let plan = search.load(&stages)?;
            let (options, relative_time) = (candidates[0].options, candidates[0].relative_time);
            candidates.push(PlanCandidate {
                stages,
                plan,
                options,
                budget: None,
                relative_time,
                unsettled: 0.0,
            });
        }
    }
    let count = candidates.len();
    let (of_best, of_alternative) = (shares.of_best(count - 1), shares.of_alternative());
    if count > 1 {
        notes.push(format!(
            "{count} candidate plans were validated together: the one that seemed fastest at \
             delta = {}, the others at {} (union bound)",
            rounded(of_best.delta),
            rounded(of_alternative.delta),
        ));
    }
    let mut validated = Vec::new();
    for (place, candidate) in candidates.into_iter().enumerate() {
        let share = if place == 0 { &of_best } else { &of_alternative };
        let Some(mut passed) = validate_one(search, candidate, share, notes)? else { continue };
        // The bound is that of its share of delta; all bounds together hold at the whole delta.
        if let Some(calibration) = &mut passed.sections.calibration {
            calibration.delta = target.delta;
        }
        validated.push(passed);
    }
    Ok(validated)
}

/// Gives a plan its threshold by its one test; nothing, if it fails.
fn validate_one(
    search: &Search<'_>,
    candidate: PlanCandidate,
    target: &Target,
    notes: &mut Vec<String>,
) -> Result<Option<ValidatedCandidate>, CompileError> {
    let sample = search.context.sample;
    let mut sections = search.sections(&candidate.stages);
    let plan = Plan::fitted(search.context.tuner.machine, &sections)?;
    let scales = risk::fitted_scales(&plan, &sample.measure.rows, &sample.measure.scores)?;
    let references = References { scores: &sample.test.scores, labels: None };
    let calibration = match risk::calibrate(&plan, &sample.test.rows, references, scales, target) {
        Ok(calibration) => calibration,
        Err(CompileError::NoThreshold { disagreements, queries }) => {
            notes.push(format!(
                "{} failed the test: {disagreements} of {queries} labels disagree with exact even \
                 at the largest threshold",
                sections.spec,
            ));
            return Ok(None);
        }
        Err(other) => return Err(other),
    };
    let plan = plan.calibrated(calibration.clone())?;
    let expected = calibration.disagreements;
    risk::check_finished(&plan, &sample.test.rows, &sample.test.scores, expected)?;
    sections.calibration = Some(calibration);
    ValidatedCandidate::new(PlanCandidate { plan, ..candidate }, sections, search).map(Some)
}

impl Search<'_> {
    /// Estimating plans to test beside the best, the fastest first. How low a plan's threshold will be is predicted
    /// badly, but with about the same error for all plans that end with the same estimating stage: so each has another
    /// one.
    fn alternatives(&self, best: &PlanCandidate) -> Vec<Vec<usize>> {
        let policy = &self.context.policy.validate;
        let last_estimating = |stages: &[usize]| {
            let mut estimating = stages.iter().filter(|at| self.cache.stages[**at].estimates);
            estimating.next_back().copied()
        };
        let mut ends = vec![last_estimating(&best.stages)];
        let mut chosen = Vec::new();
        for stages in self.timed_within(policy.alternatives_within, best) {
            let end = last_estimating(stages);
            if chosen.len() < policy.alternatives && !ends.contains(&end) {
                ends.push(end);
                chosen.push(stages.clone());
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::TunePolicy;

    #[test]
    fn plans_share_a_test_where_little_is_lost() {
        let policy = TunePolicy::DEFAULT.validate;
        assert_eq!(policy.alternatives, 4);
        let target = Target { risk: 0.01, ..Target::default() };
        let shares = DeltaShares::new(&target, &policy);
        assert!(shares.is_worthwhile(3000));
        let (best, other) = (shares.of_best(4), shares.of_alternative());
        assert!((best.delta + 4.0 * other.delta - target.delta).abs() < 1e-15);
        assert!(other.allowed(3000) < best.allowed(3000));
        assert!(best.allowed(3000) as f64 >= 0.85 * target.allowed(3000) as f64);
        assert_eq!(shares.of_best(0), target);
        // Where one or none is allowed, or too few queries are there, one plan gets the whole delta.
        for queries in [100, 299, 473, 500, 628] {
            assert!(!shares.is_worthwhile(queries), "{queries}");
        }
        let excess = Target { of: Risk::ExcessErrors, ..target };
        assert!(!DeltaShares::new(&excess, &policy).is_worthwhile(3000));
    }
}
