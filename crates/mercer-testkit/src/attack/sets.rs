//! Prediction sets of an attacked machine: what ranges decide must be what exact scores decide, for quantiles at the margins of
//! queries and beside them.

use mercer_machine::{Answer, Conformal, Output, nonconformity};
use mercer_query::{Certainty, EmptySets, Interval, Plan, PredictionSet, SetDecision, SetOptions};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::check::{AttackCounts, ENOUGH, Violation};
use super::{AttackCase, TrueScore};
use crate::Wide;

/// The name under which prediction sets are counted.
pub const SETS: &str = "sets";

/// Quantiles for each plan.
const QUANTILES: usize = 2;

/// What is asked of a plan.
#[derive(Debug)]
struct SetCase {
    quantile: f64,
    options: SetOptions,
}

impl AttackCase {
    /// Asks `plan`, whose first stage is `stage`, for the sets of all queries whose scores are finite; `truth` holds
    /// [`AttackCase::true_scores`] of each query.
    ///
    /// # Panics
    /// If sets are refused.
    pub fn check_sets(
        &self,
        stage: &'static str,
        plan: &Plan,
        truth: &[Vec<TrueScore>],
        counts: &mut AttackCounts,
    ) -> Vec<Violation> {
        let output = self.machine.output();
        let (mut found, mut rng) = (Vec::new(), self.plan_rng(stage, 2));
        if *output == Output::Novelty || self.queries.rows() == 0 {
            return found;
        }
        let count = self.machine.scores().len();
        let exact = plan.exact_stage();
        let mut all = vec![0.0; self.queries.rows() * count];
        let rows = (0..self.queries.rows()).map(|query| self.queries.row(query));
        exact.scores(rows, &mut exact.scratch(), &mut all);
        let is_finite = |query: &usize| all[query * count..][..count].iter().all(|f| f.is_finite());
        let queries: Vec<usize> = (0..self.queries.rows()).filter(is_finite).collect();
        let rows = self.queries.select(queries.iter().copied());
        counts.by_stage.entry((SETS, self.scale)).or_default().machines += 1;
        for _ in 0..QUANTILES {
            let Some(case) = draw(&mut rng, output, &all, count) else { continue };
            let conformal =
                Conformal::from_parts(0.9, 99, case.quantile).expect("a finite quantile").vouched();
            let sets = match plan.predict_sets(&rows, &conformal, &case.options) {
                Ok(sets) => sets,
                Err(error) => panic!("{error} at {case:?}; {}", self.replay()),
            };
            for (query, set) in queries.iter().zip(&sets) {
                let scores = &all[query * count..][..count];
                self.count_set(set, counts);
                if let Some(what) = self.wrong_set(&case, scores, &truth[*query], set) {
                    let what = format!("query {query} under {stage}: {what}, {case:?}");
                    found.push(self.violation(SETS, what));
                    if found.len() == ENOUGH {
                        return found;
                    }
                }
            }
        }
        found
    }

    /// Counts the targets whose membership is compared; as certified the sets that ranges decided.
    fn count_set(&self, set: &SetDecision, counts: &mut AttackCounts) {
        let count = counts.by_stage.entry((SETS, self.scale)).or_default();
        count.pairs += self.machine.classes().len().max(1) as u64;
        count.certified += u64::from(set.certainty == Certainty::Certified);
    }

    fn wrong_set(
        &self,
        case: &SetCase,
        scores: &[f64],
        truth: &[TrueScore],
        decision: &SetDecision,
    ) -> Option<String> {
        let (output, quantile) = (self.machine.output(), case.quantile);
        match &decision.set {
            PredictionSet::Classes(members) => {
                let with_label = case.options.empty == EmptySets::Never;
                let belongs = |class: &usize| {
                    let own = nonconformity(output, scores, Answer::Class(*class));
                    let is_label = with_label && output.answer(scores) == Answer::Class(*class);
                    is_label || own.is_some_and(|own| own <= quantile)
                };
                let expected: Vec<usize> =
                    (0..self.machine.classes().len()).filter(belongs).collect();
                let certainty = decision.certainty;
                (expected != *members).then(|| {
                    format!(
                        "{members:?} is {certainty:?}, exact scores {scores:?} give {expected:?}"
                    )
                })
            }
            PredictionSet::Interval(Interval { low, high }) => {
                let half = Wide::from(if quantile > 0.0 { quantile } else { 0.0 });
                let exact = Wide::from(scores[0]);
                let [first, last] = [exact - half, exact + half].map(|end| end.to_dd().to_f64());
                let has_exact = is_above(exact - half, *low) && is_above(-(exact + half), -*high);
                let moved = |by: f64| Interval { low: *low + by, high: *high - by };
                // Ends moved in by q are rounded, by less than the next number outwards.
                let around = moved(if quantile > 0.0 { quantile } else { 0.0 });
                let around = Interval { low: around.low.next_down(), high: around.high.next_up() };
                let has_true =
                    decision.certainty != Certainty::Certified || truth[0].is_within(around);
                (!has_exact || !has_true).then(|| {
                    format!("[{low:e}, {high:e}] lacks [{first:e}, {last:e}] of the exact score, or the true one")
                })
            }
        }
    }
}

/// Whether a number is at least another one, which may be infinite.
fn is_above(number: Wide, low: f64) -> bool {
    if low.is_infinite() { low < 0.0 } else { number >= Wide::from(low) }
}

/// A quantile at the margin of a query and a class, or an ulp or two beside it, or of another size.
fn draw(
    rng: &mut Xoshiro256PlusPlus,
    output: &Output,
    scores: &[f64],
    count: usize,
) -> Option<SetCase> {
    let query = rng.random_range(0..scores.len() / count);
    let scores = &scores[query * count..][..count];
    let size = scores.iter().fold(0.0f64, |most, score| most.max(score.abs()));
    let margin = match output {
        Output::Classes { names, .. } => {
            let class = rng.random_range(0..names.len());
            nonconformity(output, scores, Answer::Class(class))?
        }
        _ => size * rng.random::<f64>(),
    };
    let quantile = match rng.random_range(0..8) {
        0 => 0.0,
        1 => -0.0,
        2 => margin.next_up(),
        3 => margin.next_down(),
        4 => size * 10f64.powf(-4.0 + 5.0 * rng.random::<f64>()),
        5 => -margin,
        _ => margin,
    };
    let tolerance = (*output == Output::Value && rng.random_range(0..4) > 0)
        .then(|| size * 10f64.powf(-8.0 + 8.0 * rng.random::<f64>()));
    let empty = if rng.random_range(0..2) == 0 { EmptySets::Allowed } else { EmptySets::Never };
    // The largest number has no next one.
    let is_sound = quantile.abs() < f64::MAX && tolerance.is_none_or(f64::is_finite);
    is_sound.then_some(SetCase { quantile, options: SetOptions { tolerance, empty } })
}
