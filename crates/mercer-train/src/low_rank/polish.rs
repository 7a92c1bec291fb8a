//! From the low-rank solution to the exact one.
//! It hands a starting point to [`crate::gram_backend`], which trains as always.

use super::duality_gap::{Inside, restore_sums};
use super::problem::{FactorQp, LowRankProblem, SolvedProgram};
use crate::backend::Fit;
use crate::control::Control;
use crate::gram::{Gram, Source, View};
use crate::gram_backend::GramBackend;
use crate::problem::Problem;
use crate::solvers::{GramProblem, GramSolver, Method, StartPoint, StoppingTest};
use crate::{LowRankReport, Qp, TrainError, solver};

/// The active set is solved first where no more than this share of the objective was lost.
const GATE: f64 = 1e-2;

/// How the exact machine was reached.
#[derive(Debug, Clone, PartialEq)]
pub struct PolishReport {
    /// Pair steps on the active sets alone.
    pub active_steps: u64,
    /// Examples in the active sets.
    pub active_examples: usize,
    /// Whether the active sets were solved first: so little was lost that they are nearly right.
    pub is_gated: bool,
    /// Pair steps of all examples after that.
    pub steps: u64,
}

/// Solves the active sets exactly, then hands the coefficients to `smo`.
pub(super) fn polish(
    problem: &LowRankProblem<'_>,
    programs: &[FactorQp],
    solved: &[SolvedProgram],
    mut report: LowRankReport,
    control: &mut Control<'_>,
) -> Result<Fit, TrainError> {
    let smo = solver("smo").expect("smo is registered");
    let Method::Gram(gram_solver) = smo.method() else {
        unreachable!("smo works on kernel values of pairs")
    };
    let training = problem.training().clone().solver(smo.clone());
    let training = training.polish(false).default_tolerance();
    control.tolerance = training.tolerance_used();
    let before = control.iterations;
    let (mut starts, mut active_examples) = (Vec::new(), 0);
    let mut errors = report.approximation.iter();
    let is_gated = errors.all(|error| error.quadratic <= GATE * error.objective.abs());
    for (number, (program, result)) in programs.iter().zip(solved).enumerate() {
        let mut point = Inside::of(&program.qp, &result.solution.identified);
        restore_sums(&program.qp, &mut point);
        let beta = point.beta(&program.qp);
        if !is_gated || control.stop().is_some() {
            starts.push(reordered(program, &beta));
            continue;
        }
        control.start_subproblem(number);
        let (beta, count) = solve_active(problem, program, beta, gram_solver, control)?;
        active_examples += count;
        starts.push(reordered(program, &beta));
    }
    let active_steps = control.iterations - before;
    let whole = problem.problem;
    let exact =
        Problem::new(whole.examples, whole.targets, whole.kernel, problem.formulation, &training)?;
    let backend = GramBackend { solver: gram_solver };
    let mut fit = backend.solve_from(&exact, Some(starts), control)?;
    let steps = control.iterations - before - active_steps;
    report.polish = Some(PolishReport { active_steps, active_examples, is_gated, steps });
    fit.details.low_rank = Some(Box::new(report));
    Ok(fit)
}

/// The same point in the order of the reduction.
fn reordered(program: &FactorQp, beta: &[f64]) -> Vec<f64> {
    let rows = program.qp.rows;
    let mut out = vec![0.0; beta.len()];
    for (v, value) in beta.iter().enumerate() {
        out[v / rows * rows + program.places[v % rows] as usize] = *value;
    }
    out
}

/// Solves the program over the examples that have a coefficient; the others stay at zero.
fn solve_active(
    problem: &LowRankProblem<'_>,
    program: &FactorQp,
    mut beta: Vec<f64>,
    solver: &dyn GramSolver,
    control: &mut Control<'_>,
) -> Result<(Vec<f64>, usize), TrainError> {
    let qp = &program.qp;
    let folded = qp.fold(&beta);
    let active: Vec<usize> = (0..qp.rows).filter(|row| folded[*row] != 0.0).collect();
    if active.is_empty() {
        return Ok((beta, 0));
    }
    let examples = problem.examples_of(program);
    let named: Vec<u32> = active.iter().map(|row| examples[*row]).collect();
    let variables: Vec<usize> = (0..qp.len() / qp.rows)
        .flat_map(|side| active.iter().map(move |row| side * qp.rows + row))
        .collect();
    let pick = |values: &[f64]| -> Vec<f64> { variables.iter().map(|v| values[*v]).collect() };
    let start = pick(&beta);
    let part = Qp {
        rows: active.len(),
        lower: pick(&qp.lower),
        upper: pick(&qp.upper),
        linear: pick(&qp.linear),
        start: start.clone(),
        groups: variables.iter().map(|v| qp.groups[*v]).collect(),
    };
    let matrix = problem.problem.matrix()?;
    let memory = problem.training().memory_beside(matrix);
    let source = Source::new(problem.problem.kernel, matrix);
    let mut gram = Gram::new(source, vec![named], memory);
    let view = View::new(&[0]);
    let from = StartPoint::Point(start);
    let (gram, stopping_test) = (&mut gram, StoppingTest::Recomputed);
    let mut problem = GramProblem {
        gram,
        view,
        qp: &part,
        from,
        shared: false,
        stopping_test,
        memory,
        file: None,
    };
    let solution = solver.solve(&mut problem, control)?;
    for (v, value) in variables.iter().zip(&solution.beta) {
        beta[*v] = *value;
    }
    Ok((beta, active.len()))
}
