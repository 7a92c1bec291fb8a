//! From the low-rank solution to the exact one.

use super::question::{Ask, Asked, Solved};
use crate::control::Control;
use crate::gram::{Gram, Source, View};
use crate::solvers::{GramProblem, Method, StartPoint, Steering, StoppingTest};
use crate::training::on_gram;
use crate::{Qp, TrainError, Trained, solver};

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
    asked: &Asked<'_>,
    asks: &[Ask],
    solved: &[Solved],
    low_rank: Trained,
    control: &mut Control<'_>,
) -> Result<Trained, TrainError> {
    let smo = solver("smo").expect("smo is registered");
    let training = asked.training.clone().solver(smo).polish(false).no_tolerance();
    control.tolerance = training.tolerance_used();
    let before = control.iterations;
    let (mut starts, mut active_examples) = (Vec::new(), 0);
    let report = low_rank.report.low_rank;
    let lost = report.iter().flat_map(|report| &report.lost);
    let is_gated = lost.clone().all(|lost| lost.quadratic <= GATE * lost.objective.abs());
    for (number, (ask, one)) in asks.iter().zip(solved).enumerate() {
        let beta = one.found.point.beta(&ask.qp);
        if !is_gated || control.stop().is_some() {
            starts.push(placed(ask, &beta));
            continue;
        }
        control.start_part(number);
        let (beta, count) = on_active(asked, ask, beta, &training, control)?;
        active_examples += count;
        starts.push(placed(ask, &beta));
    }
    let active_steps = control.iterations - before;
    let training = training.starts(starts);
    let mut trained = on_gram(asked.data, asked.kernel, asked.formulation, &training, control)?;
    let steps = control.iterations - before - active_steps;
    trained.report.low_rank = report.map(|mut report| {
        report.polish = Some(PolishReport { active_steps, active_examples, is_gated, steps });
        report
    });
    Ok(trained)
}

/// The same point in the order in which `smo` asks the question.
fn placed(ask: &Ask, beta: &[f64]) -> Vec<f64> {
    let rows = ask.qp.rows;
    let mut out = vec![0.0; beta.len()];
    for (v, value) in beta.iter().enumerate() {
        out[v / rows * rows + ask.places[v % rows] as usize] = *value;
    }
    out
}

/// Solves the quadratic program over the examples that have a coefficient; the others stay at zero.
fn on_active(
    asked: &Asked<'_>,
    ask: &Ask,
    mut beta: Vec<f64>,
    training: &crate::Training,
    control: &mut Control<'_>,
) -> Result<(Vec<f64>, usize), TrainError> {
    let qp = &ask.qp;
    let folded = qp.fold(&beta);
    let active: Vec<usize> = (0..qp.rows).filter(|row| folded[*row] != 0.0).collect();
    if active.is_empty() {
        return Ok((beta, 0));
    }
    let examples = asked.examples_of(ask);
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
    let memory = training.memory_beside(&asked.data.examples);
    let source = Source::new(asked.kernel, &asked.data.examples);
    let mut gram = Gram::new(source, vec![named], memory);
    let Method::Gram(smo) = training.solver.method() else {
        return Ok((beta, 0));
    };
    let view = View::new(&[0]);
    let from = StartPoint::Point(start);
    let (gram, stopping_test) = (&mut gram, StoppingTest::Recomputed);
    let mut problem =
        GramProblem { gram, view, qp: &part, from, shared: false, stopping_test, memory };
    let solution = smo.solve(&mut problem, &mut Steering(control))?;
    for (v, value) in variables.iter().zip(&solution.beta) {
        beta[*v] = *value;
    }
    Ok((beta, active.len()))
}
