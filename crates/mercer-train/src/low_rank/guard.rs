//! The guard: an exact machine on a part of the examples that costs as much, compared on the same held-out
//! rows. The better one is kept.

use mercer_kernel::factor::Blocked;
use mercer_simd::Real;

use super::problem::{FactorQp, LowRankProblem, SolvedProgram};
use crate::backend::{Fit, FittedScores};
use crate::control::Control;
use crate::gram::kernel_sums;
use crate::gram_backend::GramBackend;
use crate::problem::Problem;
use crate::solvers::Method;
use crate::validate::{merit, shuffled_by_class};
use crate::{FormulationRef, Goal, Measure, Qp, ScaleAndOffset, Subproblem, TrainError, solver};

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
    /// The extrapolated quality of the exact machine of equal cost, where it was not trained because of it.
    pub within_reach: Option<f64>,
    /// Which one won and why.
    pub sentence: String,
}

/// Rows held out, and the programs without them.
pub(super) struct HeldOut {
    /// Rows of the factor.
    rows: Vec<u32>,
    /// The others, dealt by class.
    rest: Vec<u32>,
    pub(super) programs: Vec<FactorQp>,
}

/// The comparison, and the exact machine where that one is better.
pub(super) struct GuardOutcome {
    pub(super) report: GuardReport,
    pub(super) exact: Option<Box<Fit>>,
}

impl HeldOut {
    /// `None` where nothing can be compared, or the guard is off.
    pub(super) fn new(
        problem: &LowRankProblem<'_>,
        programs: &[FactorQp],
    ) -> Result<Option<Self>, TrainError> {
        let count = problem.examples.len();
        let goal = problem.formulation.goal();
        if !problem.solver.guard || count < LEAST || goal == Goal::Novelty {
            return Ok(None);
        }
        let mut place = vec![u32::MAX; problem.problem.examples.rows()];
        (0u32..).zip(problem.examples).for_each(|(row, example)| place[*example as usize] = row);
        let (targets, rows) = (problem.problem.targets, problem.problem.examples.rows());
        let by_class = goal == Goal::Classes;
        let order = shuffled_by_class(targets, rows, by_class, problem.solver.seed)?;
        let order: Vec<u32> =
            order.into_iter().map(|row| place[row]).filter(|row| *row != u32::MAX).collect();
        let step = SHARE.max(count.div_ceil(MOST));
        let (mut rows, mut rest) = (Vec::new(), Vec::new());
        for (at, row) in order.iter().enumerate() {
            if at % step == step - 1 { rows.push(*row) } else { rest.push(*row) }
        }
        let mut is_held = vec![false; count];
        rows.iter().for_each(|row| is_held[*row as usize] = true);
        let programs: Option<Vec<FactorQp>> =
            programs.iter().map(|program| trained_without(problem, program, &is_held)).collect();
        Ok(programs.map(|programs| Self { rows, rest, programs }))
    }

    /// Compares the low-rank machine of the other rows with exact ones of more and more of them, up to as many
    /// as cost the same; not so far where their curve does not lead to the low-rank machine.
    pub(super) fn compare<T: Real>(
        &self,
        problem: &LowRankProblem<'_>,
        factor: &Blocked<T>,
        solved: &[SolvedProgram],
        control: &mut Control<'_>,
    ) -> Result<GuardOutcome, TrainError> {
        let measure = Measure::of(problem.formulation.goal(), problem.problem.targets);
        let low_rank = self.quality(problem, &self.low_rank_scores(problem, factor, solved)?);
        let equal = self.equal_cost(problem, factor.rank(), solved);
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
        let mut last: Option<(f64, Box<Fit>)> = None;
        let mut is_ahead = equal / PARTS[0] < SMALL;
        for part in PARTS {
            // A part that is better already leaves nothing to foresee.
            if is_ahead && part > 1 {
                continue;
            }
            let Some((exact, fit)) = self.exact_fit(problem, equal / part, control) else {
                continue;
            };
            report.within_reach = match &last {
                Some((before, _)) if part > 1 => Some(reach(measure, *before, exact, part)),
                _ => None,
            };
            (report.examples, report.exact) = (equal / part, exact);
            is_ahead |= measure.prefers(exact, low_rank);
            last = Some((exact, fit));
            let is_beyond = |reach: f64| !measure.prefers(reach, low_rank);
            if control.stop().is_some() || report.within_reach.is_some_and(is_beyond) {
                break;
            }
        }
        let Some((exact, fit)) = last else { return Ok(GuardOutcome { report, exact: None }) };
        let is_whole = report.examples == equal && control.stop().is_none();
        report.kept_low_rank = !(is_whole && measure.prefers(exact, low_rank));
        report.sentence = sentence(&report, self.rest.len(), factor);
        let exact = (!report.kept_low_rank).then_some(fit);
        Ok(GuardOutcome { report, exact })
    }

    /// Exact scores from some of the rows that are not held out, and their quality on those that are.
    fn exact_fit(
        &self,
        problem: &LowRankProblem<'_>,
        count: usize,
        control: &mut Control<'_>,
    ) -> Option<(f64, Box<Fit>)> {
        let rows = self.subsample(count);
        let chosen: Vec<usize> =
            rows.iter().map(|row| problem.examples[*row as usize] as usize).collect();
        let whole = problem.problem;
        let examples = whole.matrix().ok()?.select(chosen.iter().copied());
        let targets = whole.targets.select(&chosen);
        let weights = problem.training().example_weights();
        let weights = weights.map(|all| chosen.iter().map(|row| all[*row]).collect());
        let smo = solver("smo").expect("smo is registered");
        let Method::Gram(gram_solver) = smo.method() else { return None };
        let training = problem.training().clone().solver(smo.clone());
        let training = training.weights(weights).polish(false).default_tolerance();
        let part =
            Problem::new(&examples, &targets, whole.kernel, problem.formulation, &training).ok()?;
        let before = (control.subproblems, control.tolerance);
        control.subproblems = part.subproblem_count();
        control.tolerance = training.tolerance_used();
        let fit = GramBackend { solver: gram_solver }.solve_from(&part, None, control);
        (control.subproblems, control.tolerance) = before;
        let mut fit = fit.ok()?;
        name_examples(&mut fit.scores, &chosen);
        let exact = self.quality(problem, &self.exact_scores(problem, &fit.scores));
        Some((exact, Box::new(fit)))
    }

    /// Examples for which sequential minimal optimisation costs what the low rank cost, in multiply-adds.
    fn equal_cost(
        &self,
        problem: &LowRankProblem<'_>,
        rank: usize,
        solved: &[SolvedProgram],
    ) -> usize {
        let (rows, k, width) =
            (problem.examples.len() as f64, rank as f64, problem.numbers_per_value() as f64);
        // The last solution, of all examples, costs about as much again.
        let updates = 2 * solved.iter().map(|result| result.solution.updates).sum::<u64>();
        let iterations: usize = solved.iter().map(|result| result.solution.iterations).sum();
        let cost = rows * k * (width + 0.5 * k)
            + 2.0 * updates as f64 * k
            + iterations as f64 * rows * k * (0.5 * k + 10.0);
        let subproblems = solved.len().max(1) as f64;
        let each = 0.5 * (width + PAIR) * subproblems.sqrt();
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
        problem: &LowRankProblem<'_>,
        factor: &Blocked<T>,
        solved: &[SolvedProgram],
    ) -> Result<Vec<Vec<f64>>, TrainError> {
        let mut scores = vec![Vec::new(); self.rows.len()];
        let values = factor.store().gather(&self.rows);
        let isa = mercer_simd::Isa::current();
        for (program, result) in self.programs.iter().zip(solved) {
            let ScaleAndOffset { scale, offset } =
                problem.scale_and_offset(program, result, true)?;
            for (row, scores) in values.chunks_exact(factor.rank().max(1)).zip(&mut scores) {
                let sum = mercer_simd::row_dot(isa, row, &result.solution.w);
                scores.push(scale * sum - offset);
            }
        }
        Ok(scores)
    }

    fn exact_scores(&self, problem: &LowRankProblem<'_>, scores: &FittedScores) -> Vec<Vec<f64>> {
        let held: Vec<u32> = self.rows.iter().map(|row| problem.examples[*row as usize]).collect();
        let mut all = vec![Vec::new(); held.len()];
        let FittedScores::Expansions { expansions, .. } = scores else { return all };
        for score in expansions {
            let sums = kernel_sums(problem.source, &held, &score.examples, &score.coefficients);
            all.iter_mut().zip(sums).for_each(|(all, sum)| all.push(sum - score.offset));
        }
        all
    }

    fn quality(&self, problem: &LowRankProblem<'_>, scores: &[Vec<f64>]) -> f64 {
        let mut sum = 0.0;
        for (row, scores) in self.rows.iter().zip(scores) {
            sum += merit(problem.problem, problem.examples[*row as usize] as usize, scores);
        }
        sum / self.rows.len().max(1) as f64
    }
}

/// Names examples of a sample by their numbers in the whole data.
fn name_examples(scores: &mut FittedScores, chosen: &[usize]) {
    let FittedScores::Expansions { example_sets, expansions } = scores else { return };
    let examples = expansions.iter_mut().map(|score| &mut score.examples).chain(example_sets);
    for example in examples.flatten() {
        *example = chosen[*example as usize] as u32;
    }
}

/// The program without the held-out rows; `None` if a class is then missing or nothing satisfies its constraints.
fn trained_without(
    problem: &LowRankProblem<'_>,
    program: &FactorQp,
    is_held: &[bool],
) -> Option<FactorQp> {
    if problem.formulation.goal() == Goal::Classes && program.classes_left(is_held) != (true, true)
    {
        return None;
    }
    without(problem.formulation, program, is_held).ok()
}

/// The program with the held-out rows at zero.
pub(super) fn without(
    formulation: &FormulationRef,
    program: &FactorQp,
    is_held: &[bool],
) -> Result<FactorQp, TrainError> {
    let kept: Vec<usize> = (0..program.qp.rows).filter(|at| !is_held[program.row(*at)]).collect();
    let pick = |values: &[f64]| -> Vec<f64> { kept.iter().map(|at| values[*at]).collect() };
    let (targets, weights) = (pick(&program.targets), pick(&program.weights));
    let subproblem = Subproblem { name: &program.name, targets: &targets, weights: &weights };
    let qp = formulation.quadratic_program(&subproblem)?;
    Ok(FactorQp {
        name: program.name.clone(),
        rows: program.rows.clone(),
        places: program.places.clone(),
        targets: program.targets.clone(),
        weights: program.weights.clone(),
        qp: widened(&qp, &kept, program.qp.rows),
    })
}

/// A program over more rows: the others stay at zero.
fn widened(qp: &Qp, kept: &[usize], rows: usize) -> Qp {
    let sides = qp.len() / qp.rows.max(1);
    let widen = |values: &[f64]| {
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
        lower: widen(&qp.lower),
        upper: widen(&qp.upper),
        linear: widen(&qp.linear),
        start: widen(&qp.start),
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
