//! Asks a plan the queries of an attacked machine, and compares every range and every certified label with the truth.

use std::collections::BTreeMap;
use std::fmt;

use mercer_machine::Answer;
use mercer_query::{Certainty, Decision, ExplanationStep, Plan, QueryError, QueryOptions};

use super::truth::{class, margin};
use super::{AttackCase, SETS, Scale, TrueScore};

/// A range without the true score, a certified label that is not the true one, or a prediction set that is not that of exact scores.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The stage.
    pub stage: &'static str,
    /// How large the machine's numbers are.
    pub scale: Scale,
    /// The kernel.
    pub kernel: String,
    /// What happened, with the query and the numbers.
    pub what: String,
    /// The command that runs the machine again.
    pub replay: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, scale, kernel, what, replay } = self;
        write!(f, "{stage}, {}, {kernel}: {what}\n    {replay}", scale.name())
    }
}

/// How much of one stage was looked at, at one scale; attributions and prediction sets are counted as stages are.
#[derive(Debug, Clone, Copy, Default)]
pub struct StageCount {
    /// Ranges compared with the truth, those of columns among them; of prediction sets targets compared with exact scores.
    pub pairs: u64,
    /// Those whose truth was computed in multiple precision.
    pub precise: u64,
    /// Certified labels compared with the truth; signs of attributions that are proved; sets that ranges decided.
    pub certified: u64,
    /// Machines that the stage took.
    pub machines: u64,
}

/// What was looked at, by stage and scale.
#[derive(Debug, Clone, Default)]
pub struct AttackCounts {
    /// One entry for each stage and scale.
    pub by_stage: BTreeMap<(&'static str, Scale), StageCount>,
    /// True scores that were computed in multiple precision.
    pub references: u64,
    /// Queries without an answer, since a score overflows.
    pub refused: u64,
}

impl AttackCounts {
    /// Adds those of another part.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for (key, count) in &other.by_stage {
            let own = self.by_stage.entry(*key).or_default();
            own.pairs += count.pairs;
            own.precise += count.precise;
            own.certified += count.certified;
            own.machines += count.machines;
        }
        self.references += other.references;
        self.refused += other.refused;
        self
    }

    /// All stages and scales together, and attributions, but not prediction sets.
    pub fn total(&self) -> StageCount {
        self.sum(|name| name != SETS)
    }

    /// Prediction sets at all scales.
    pub fn sets(&self) -> StageCount {
        self.sum(|name| name == SETS)
    }

    fn sum(&self, is_wanted: impl Fn(&str) -> bool) -> StageCount {
        let wanted = self.by_stage.iter().filter(|((name, _), _)| is_wanted(name));
        wanted.fold(StageCount::default(), |sum, (_, count)| StageCount {
            pairs: sum.pairs + count.pairs,
            precise: sum.precise + count.precise,
            certified: sum.certified + count.certified,
            machines: sum.machines + count.machines,
        })
    }
}

/// Violations of one plan after which it is asked no further queries.
pub(super) const ENOUGH: usize = 5;

/// One query on its way through a plan.
struct Asked<'a> {
    query: usize,
    truth: &'a [TrueScore],
    decision: Decision,
    steps: &'a [ExplanationStep],
}

impl AttackCase {
    /// Asks `plan`, whose first stage is `stage`, all queries; `truth` holds [`AttackCase::true_scores`] of each.
    /// Returns the first few at which something is wrong, also with more digits.
    pub fn check(
        &self,
        stage: &'static str,
        plan: &Plan,
        truth: &[Vec<TrueScore>],
        counts: &mut AttackCounts,
    ) -> Vec<Violation> {
        let (mut worker, mut steps, mut found) = (plan.worker(), Vec::new(), Vec::new());
        let options = QueryOptions::default();
        counts.by_stage.entry((stage, self.scale)).or_default().machines += 1;
        for (query, truth) in truth.iter().enumerate() {
            if found.len() == ENOUGH {
                break;
            }
            let decision = match worker.explain(&self.queries, query, &options, &mut steps) {
                Ok((decision, _)) => decision,
                Err(QueryError::NotFinite { .. }) => {
                    counts.refused += 1;
                    continue;
                }
                Err(other) => panic!("{other}; {}", self.replay()),
            };
            let asked = Asked { query, truth, decision, steps: &steps };
            self.count(stage, plan, &asked, counts);
            if self.wrong(&asked).is_some() {
                // Digits that cancel may mislead the reference; enough of them do not.
                let confirmed = self.confirmed_scores(query);
                let Some(wrong) = self.wrong(&Asked { truth: &confirmed, ..asked }) else {
                    continue;
                };
                let stage = if wrong.stage < plan.stages().len() { stage } else { "exact" };
                found.push(self.violation(stage, wrong.sentence));
            }
        }
        found
    }

    /// Something that is wrong with this machine.
    pub(super) fn violation(&self, stage: &'static str, what: String) -> Violation {
        let kernel = self.machine.kernel().spec().to_string();
        Violation { stage, scale: self.scale, kernel, what, replay: self.replay() }
    }

    fn count(
        &self,
        stage: &'static str,
        plan: &Plan,
        asked: &Asked<'_>,
        counts: &mut AttackCounts,
    ) {
        let is_precise = asked.truth.iter().any(TrueScore::is_precise);
        for step in asked.steps.iter().filter(|step| !step.is_estimate) {
            let name = if step.stage < plan.stages().len() { stage } else { "exact" };
            let count = counts.by_stage.entry((name, self.scale)).or_default();
            count.pairs += 1;
            count.precise += u64::from(is_precise);
        }
        if asked.decision.certainty == Certainty::Certified {
            let count = counts.by_stage.entry((stage, self.scale)).or_default();
            count.certified += 1;
        }
    }

    /// The first thing that is wrong with an answer.
    fn wrong(&self, asked: &Asked<'_>) -> Option<Wrong> {
        let Asked { query, truth, decision, steps } = asked;
        for step in steps.iter().filter(|step| !step.is_estimate) {
            let score = &truth[step.score];
            if !score.is_within(step.range) {
                let (low, high) = (step.range.low, step.range.high);
                let sentence = format!(
                    "query {query}, score {}, step {}: the true score {:e} is not in [{low:e}, {high:e}]",
                    step.score,
                    step.progress,
                    score.to_f64()
                );
                return Some(Wrong { stage: step.stage, sentence });
            }
        }
        let last = steps.last().map_or(usize::MAX, |step| step.stage);
        if decision.certainty < Certainty::Certified {
            return None;
        }
        let output = self.machine.output();
        let label = match decision.answer {
            Answer::Class(class) => class,
            Answer::Inlier(is_inlier) => usize::from(!is_inlier),
            Answer::Value(_) => 0,
        };
        let (low, high) = (decision.range.low, decision.range.high);
        let truly = class(output, truth);
        if decision.certainty == Certainty::Certified && label != truly {
            let sentence = format!("query {query}: {label} is certified, {truly} is true");
            return Some(Wrong { stage: last, sentence });
        }
        let margin = margin(output, truth, label);
        if !margin.is_within(decision.range) {
            let sentence = format!(
                "query {query}: the true margin {:e} is not in [{low:e}, {high:e}]",
                margin.to_f64()
            );
            return Some(Wrong { stage: last, sentence });
        }
        None
    }
}

/// Something that is wrong with an answer, and the stage that said it.
struct Wrong {
    stage: usize,
    sentence: String,
}
