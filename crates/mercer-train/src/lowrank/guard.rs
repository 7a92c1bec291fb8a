//! The guard: an exact machine on a part of the examples that costs as much, judged on the same held-out
//! rows. The better one is kept.

use mercer_kernel::factor::Blocked;
use mercer_machine::Answer;
use mercer_simd::Real;

use super::question::{Ask, Asked, Solved};
use crate::control::Control;
use crate::gram::kernel_sums;
use crate::training::{conclusion_of, majority, on_gram};
use crate::validate::dealt;
use crate::{FormulationRef, Goal, Measure, Qp, Subproblem, TrainError, Trained, solver};

/// Below so many rows nothing is held out.
const LEAST: usize = 1000;
/// Relative gap at which machines are compared; that held-out rows do not see the rest is assumed.
pub(super) const CLOSE: f64 = 5e-3;
/// One row in so many is held out, at most [`MOST`].
const SHARE: usize = 10;
const MOST: usize = 4000;
/// Work of sequential minimal optimisation beside kernel values, in multiply-adds for each pair of examples.
const PAIR: f64 = 40.0;

/// Exact machines are trained on these parts of as many examples as cost the same, one after the other.
const PARTS: [usize; 4] = [8, 4, 2, 1];
/// A smallest part of fewer examples than this says nothing: then the whole is trained at once.
const SMALL: usize = 100;

/// How the exact machine on a part of the examples compares.
#[derive(Debug, Clone, PartialEq)]
pub struct GuardReport {
    /// Whether the low-rank machine was kept.
    pub kept_low_rank: bool,
    /// Examples of the last exact machine that was trained.
    pub examples: usize,
    /// Examples for which an exact machine costs as much as the low-rank one.
    pub equal_cost: usize,
    /// Rows held out.
    pub held_out: usize,
    /// What was measured on them.
    pub measure: Measure,
    /// Of the low-rank machine.
    pub low_rank: f64,
    /// Of the last exact machine.
    pub exact: f64,
    /// What the exact machine of equal cost would have reached if its curve goes on as that of smaller ones, where
    /// it was not trained for that reason: foretold, not proved.
    pub within_reach: Option<f64>,
    /// Which one won and why.
    pub sentence: String,
}

/// Rows held out, and the questions without them.
pub(super) struct Held {
    /// Rows of the factor.
    rows: Vec<u32>,
    /// The others, dealt by class.
    rest: Vec<u32>,
    pub(super) asks: Vec<Ask>,
}

/// What the guard says; a machine where the exact one won.
pub(super) struct Outcome {
    pub(super) report: GuardReport,
    pub(super) machine: Option<Box<Trained>>,
}

impl Held {
    /// `None` where nothing can be compared, or it was not asked for.
    pub(super) fn new(asked: &Asked<'_>, asks: &[Ask]) -> Result<Option<Self>, TrainError> {
        let count = asked.examples.len();
        let goal = asked.formulation.goal();
        if !asked.recipe.guard || count < LEAST || goal == Goal::Novelty {
            return Ok(None);
        }
        let mut place = vec![u32::MAX; asked.data.examples.rows()];
        (0u32..).zip(asked.examples).for_each(|(row, example)| place[*example as usize] = row);
        let order = dealt(asked.data, goal == Goal::Classes, asked.recipe.seed)?;
        let order: Vec<u32> =
            order.into_iter().map(|row| place[row]).filter(|row| *row != u32::MAX).collect();
        let step = SHARE.max(count.div_ceil(MOST));
        let (mut rows, mut rest) = (Vec::new(), Vec::new());
        for (at, row) in order.iter().enumerate() {
            if at % step == step - 1 { rows.push(*row) } else { rest.push(*row) }
        }
        let mut is_held = vec![false; count];
        rows.iter().for_each(|row| is_held[*row as usize] = true);
        let asks: Option<Vec<Ask>> =
            asks.iter().map(|ask| trained_without(asked, ask, &is_held)).collect();
        Ok(asks.map(|asks| Self { rows, rest, asks }))
    }

    /// Compares the low-rank machine of the other rows with exact ones of more and more of them, up to as many
    /// as cost the same; not so far where their curve does not lead to the low-rank machine.
    pub(super) fn judge<T: Real>(
        &self,
        asked: &Asked<'_>,
        factor: &Blocked<T>,
        solved: &[Solved],
        control: &mut Control<'_>,
    ) -> Result<Outcome, TrainError> {
        let measure = Measure::of(asked.formulation.goal(), &asked.data.targets);
        let low_rank = self.quality(asked, &self.low_rank_scores(asked, factor, solved)?);
        let equal = self.equal_cost(asked, factor.rank(), solved);
        let mut report = GuardReport {
            kept_low_rank: true,
            examples: equal,
            equal_cost: equal,
            held_out: self.rows.len(),
            measure,
            low_rank,
            exact: f64::NAN,
            within_reach: None,
            sentence: "no exact machine could be trained on a part of the examples".to_owned(),
        };
        let mut last: Option<(f64, Box<Trained>)> = None;
        let mut is_ahead = equal / PARTS[0] < SMALL;
        for part in PARTS {
            // A part that is better already leaves nothing to foresee.
            if is_ahead && part > 1 {
                continue;
            }
            let Some((exact, trained)) = self.rival(asked, equal / part, control) else { continue };
            report.within_reach = match &last {
                Some((before, _)) if part > 1 => Some(reach(measure, *before, exact, part)),
                _ => None,
            };
            (report.examples, report.exact) = (equal / part, exact);
            is_ahead |= measure.prefers(exact, low_rank);
            last = Some((exact, trained));
            let is_beyond = |reach: f64| !measure.prefers(reach, low_rank);
            if control.stop().is_some() || report.within_reach.is_some_and(is_beyond) {
                break;
            }
        }
        let Some((exact, trained)) = last else { return Ok(Outcome { report, machine: None }) };
        let is_whole = report.examples == equal && control.stop().is_none();
        report.kept_low_rank = !(is_whole && measure.prefers(exact, low_rank));
        report.sentence = sentence(&report, self.rest.len(), factor);
        let machine = (!report.kept_low_rank).then_some(trained);
        Ok(Outcome { report, machine })
    }

    /// An exact machine of some of the rows that are not held out, and what it is worth on those that are.
    fn rival(
        &self,
        asked: &Asked<'_>,
        examples: usize,
        control: &mut Control<'_>,
    ) -> Option<(f64, Box<Trained>)> {
        let chosen = self.subsample(examples);
        let named: Vec<usize> =
            chosen.iter().map(|row| asked.examples[*row as usize] as usize).collect();
        let data = asked.data.select(&named);
        let weights = asked.training.example_weights();
        let weights = weights.map(|all| named.iter().map(|row| all[*row]).collect());
        let training = asked.training.clone().solver(solver("smo").expect("smo is registered"));
        let training = training.weights(weights).polish(false).no_tolerance();
        let parts = (control.parts, control.tolerance);
        control.tolerance = training.tolerance_used();
        let trained = on_gram(&data, asked.kernel, asked.formulation, &training, control);
        (control.parts, control.tolerance) = parts;
        let trained = trained.ok()?;
        let exact = self.quality(asked, &self.exact_scores(asked, &named, &trained));
        Some((exact, Box::new(trained)))
    }

    /// Examples for which sequential minimal optimisation costs what the low rank cost, in multiply-adds.
    fn equal_cost(&self, asked: &Asked<'_>, rank: usize, solved: &[Solved]) -> usize {
        let (rows, k, width) = (asked.examples.len() as f64, rank as f64, asked.width() as f64);
        // The last solution, of all examples, costs about as much again.
        let updates = 2 * solved.iter().map(|one| one.found.updates).sum::<u64>();
        let iterations: usize = solved.iter().map(|one| one.found.iterations).sum();
        let cost = rows * k * (width + 0.5 * k)
            + 2.0 * updates as f64 * k
            + iterations as f64 * rows * k * (0.5 * k + 10.0);
        let questions = solved.len().max(1) as f64;
        let each = 0.5 * (width + PAIR) * questions.sqrt();
        ((cost / each).sqrt() as usize).clamp(2, self.rest.len())
    }

    /// An even part of what is not held out: classes keep their shares.
    fn subsample(&self, count: usize) -> Vec<u32> {
        let all = self.rest.len();
        let mut chosen: Vec<u32> = (0..count).map(|at| self.rest[at * all / count]).collect();
        chosen.sort_unstable();
        chosen
    }

    fn low_rank_scores<T: Real>(
        &self,
        asked: &Asked<'_>,
        factor: &Blocked<T>,
        solved: &[Solved],
    ) -> Result<Vec<Vec<f64>>, TrainError> {
        let mut scores = vec![Vec::new(); self.rows.len()];
        let values = factor.store().gather(&self.rows);
        let isa = mercer_simd::Isa::current();
        for (ask, one) in self.asks.iter().zip(solved) {
            let end = conclusion_of(asked.formulation, &one.found.evaluation.multipliers, true)?;
            let nothing = one.found.w.iter().all(|w| *w == 0.0);
            let offset = if nothing { majority(&ask.targets, end.offset) } else { end.offset };
            for (row, scores) in values.chunks_exact(factor.rank().max(1)).zip(&mut scores) {
                let sum = mercer_simd::row_dot(isa, row, &one.found.w);
                scores.push(end.scale * sum - offset);
            }
        }
        Ok(scores)
    }

    fn exact_scores(&self, asked: &Asked<'_>, named: &[usize], trained: &Trained) -> Vec<Vec<f64>> {
        let held: Vec<u32> = self.rows.iter().map(|row| asked.examples[*row as usize]).collect();
        let mut scores = vec![Vec::new(); held.len()];
        for part in &trained.expansions {
            let supports: Vec<u32> =
                part.examples.iter().map(|row| named[*row as usize] as u32).collect();
            let sums = kernel_sums(asked.source, &held, &supports, &part.coefficients);
            scores.iter_mut().zip(sums).for_each(|(all, sum)| all.push(sum - part.offset));
        }
        scores
    }

    fn quality(&self, asked: &Asked<'_>, scores: &[Vec<f64>]) -> f64 {
        let mut sum = 0.0;
        for (row, scores) in self.rows.iter().zip(scores) {
            let example = asked.examples[*row as usize] as usize;
            sum += match asked.inputs.output.verdict(scores).answer {
                Answer::Class(class) => {
                    f64::from(u8::from(class == asked.inputs.labels.class_of[example] as usize))
                }
                Answer::Value(value) => (value - asked.inputs.values[example]).powi(2),
                Answer::Inlier(_) => 0.0,
            };
        }
        sum / self.rows.len().max(1) as f64
    }
}

/// The question without the held-out rows; `None` if a class is then missing or it cannot be asked.
fn trained_without(asked: &Asked<'_>, ask: &Ask, is_held: &[bool]) -> Option<Ask> {
    let row_of = |at: usize| ask.rows.as_ref().map_or(at, |rows| rows[at] as usize);
    let has =
        |sign: f64| (0..ask.qp.rows).any(|at| ask.targets[at] == sign && !is_held[row_of(at)]);
    if asked.formulation.goal() == Goal::Classes && !(has(1.0) && has(-1.0)) {
        return None;
    }
    without(asked.formulation, ask, is_held).ok()
}

/// The question with the held-out rows at zero.
pub(super) fn without(
    formulation: &FormulationRef,
    ask: &Ask,
    is_held: &[bool],
) -> Result<Ask, TrainError> {
    let row_of = |at: usize| ask.rows.as_ref().map_or(at, |rows| rows[at] as usize);
    let kept: Vec<usize> = (0..ask.qp.rows).filter(|at| !is_held[row_of(*at)]).collect();
    let pick = |values: &[f64]| -> Vec<f64> { kept.iter().map(|at| values[*at]).collect() };
    let (targets, weights) = (pick(&ask.targets), pick(&ask.weights));
    let part = Subproblem { name: &ask.name, targets: &targets, weights: &weights };
    let qp = formulation.quadratic_program(&part)?;
    Ok(Ask {
        name: ask.name.clone(),
        rows: ask.rows.clone(),
        places: ask.places.clone(),
        targets: ask.targets.clone(),
        weights: ask.weights.clone(),
        qp: widened(&qp, &kept, ask.qp.rows),
    })
}

/// A quadratic program over more rows: the others stay at zero.
fn widened(qp: &Qp, kept: &[usize], rows: usize) -> Qp {
    let sides = qp.len() / qp.rows.max(1);
    let spread = |values: &[f64]| {
        let mut wide = vec![0.0; sides * rows];
        for (v, value) in values.iter().enumerate() {
            wide[v / qp.rows * rows + kept[v % qp.rows]] = *value;
        }
        wide
    };
    let mut groups = vec![0; sides * rows];
    for (v, group) in qp.groups.iter().enumerate() {
        groups[v / qp.rows * rows + kept[v % qp.rows]] = *group;
    }
    Qp {
        rows,
        lower: spread(&qp.lower),
        upper: spread(&qp.upper),
        linear: spread(&qp.linear),
        start: spread(&qp.start),
        groups,
    }
}

/// What an exact machine of `part` times as many examples may reach, from the last doubling of them.
///
/// What is left to learn is taken to fall as the square root of the number of examples grows, the slowest rate of
/// learning theory; so does what a doubling gains then. A forecast: held-out rows are noisy, and so is a curve.
fn reach(measure: Measure, before: f64, now: f64, part: usize) -> f64 {
    let gain = if measure.prefers(now, before) { now - before } else { 0.0 };
    let doublings = part.ilog2() as i32;
    let sum: f64 = (1..=doublings).map(|step| 0.5f64.sqrt().powi(step)).sum();
    now + gain * sum
}

fn sentence<T: Real>(report: &GuardReport, all: usize, factor: &Blocked<T>) -> String {
    let name = report.measure.name();
    let left = 100.0 * factor.trace_share();
    let rank = factor.rank();
    let GuardReport { low_rank, exact, examples, equal_cost, .. } = report;
    let part = if *examples >= all {
        "an exact machine on all other examples, which costs no more".to_owned()
    } else if examples < equal_cost {
        format!("an exact machine on {examples} examples")
    } else {
        format!("an exact machine on {examples} examples, which costs as much")
    };
    let curve = report.within_reach.map_or_else(String::new, |reach| {
        format!(
            "; by that curve {equal_cost}, which cost as much, would lead to {reach:.4} at best"
        )
    });
    if report.kept_low_rank {
        format!(
            "rank {rank} is kept: {name} {low_rank:.4} on held-out rows against {exact:.4} of {part}{curve}"
        )
    } else {
        format!(
            "the exact machine is kept: {name} {exact:.4} on held-out rows of {part}, against \
             {low_rank:.4} of rank {rank}, which leaves {left:.1} % of the trace"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_leads_no_farther_than_its_slowest_rate() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let root = 0.5f64.sqrt();
        assert!(near(reach(Measure::Accuracy, 0.80, 0.82, 4), 0.82 + 0.02 * (root + 0.5)));
        assert!(near(reach(Measure::Accuracy, 0.80, 0.82, 2), 0.82 + 0.02 * root));
        assert!(near(reach(Measure::Accuracy, 0.82, 0.80, 4), 0.80));
        assert!(near(reach(Measure::SquaredError, 3.0, 2.0, 2), 2.0 - root));
        assert!(near(reach(Measure::SquaredError, 2.0, 3.0, 2), 3.0));
    }
}
