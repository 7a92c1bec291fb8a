//! The paper's two tables in one: the machine, its regression for several eps, and the primal reformulation.

use mercer::compile::compress::FeatureDistance;
use mercer::compile::{Compressed, Goal};
use mercer::data::Targets;
use mercer::machine::Machine;
use mercer::query::Plan;

use super::{CompressionTask, train_task};
use crate::Session;

/// Accuracies of the regression; those of the paper are lost.
const EPS: [&str; 3] = ["0.1", "0.01", "0.001"];
/// The primal reformulation with its three attractors.
const PRIMAL: [&str; 3] =
    ["primal(penalty=l1)", "primal(penalty=margin)", "primal(penalty=errors)"];

pub(super) fn run(trained: &CompressionTask, session: &Session<'_>) -> anyhow::Result<()> {
    machine(trained, session)?;
    for eps in EPS {
        regression(trained, eps, session)?;
    }
    for solver in PRIMAL {
        primal(trained, solver, session)?;
    }
    Ok(())
}

/// Kernel, C, training accuracy, supports and `|W|`.
fn machine(trained: &CompressionTask, session: &Session<'_>) -> anyhow::Result<()> {
    let task = &trained.task;
    let scores = Plan::exact(&trained.machine).scores(&trained.data.examples)?;
    let Targets::Numbers(signs) = &trained.data.targets else {
        anyhow::bail!("{}: targets are numbers", task.name)
    };
    // The first class is that of the first row, so the sign of a score is known up to one sign for all.
    let agree = scores.iter().zip(signs).filter(|(score, sign)| **score * **sign > 0.0).count();
    let right = agree.max(signs.len() - agree) as f64;
    let note = format!("{}, C = {}, {} examples", task.kernel, task.c, signs.len());
    let accuracy = 100.0 * right / signs.len() as f64;
    let row = |measure: &str| trained.row("smo", measure);
    session.compare(row("training accuracy").ours(accuracy).unit("%").note(note));
    session.compare(row("supports").ours(trained.report.supports as f64));
    session.compare(row("bounded supports").ours(trained.report.bounded as f64));
    session.compare(row("|W|").ours(norm(&trained.machine)?));
    Ok(())
}

/// `|W|` of a machine of one score.
fn norm(machine: &Machine) -> anyhow::Result<f64> {
    let scores = Plan::exact(machine).scores(machine.supports())?;
    let offset = machine.scores()[0].offset();
    let mut square = 0.0;
    if let mercer::machine::Score::Expansion { supports, coefficients, .. } = &machine.scores()[0] {
        for (support, beta) in supports.iter().zip(coefficients) {
            square += beta * (scores[*support as usize] + offset);
        }
    }
    Ok(square.max(0.0).sqrt())
}

fn reduction(before: usize, after: usize) -> f64 {
    100.0 * (1.0 - after as f64 / before.max(1) as f64)
}

/// The paper's first method: vectors, reduction, error, and the error at the supports beside eps.
fn regression(trained: &CompressionTask, eps: &str, session: &Session<'_>) -> anyhow::Result<()> {
    let method = format!("regression(eps={eps}, refit=no)");
    let row = |measure: &str| trained.row(&format!("regression, eps {eps}"), measure);
    let Compressed { report, .. } =
        match trained.compress(&method, Goal::ByParameters, None, session)? {
            Ok(made) => made,
            Err(reason) => {
                session.compare(row("vectors").note(reason));
                return Ok(());
            }
        };
    session.compare(row("vectors").ours(report.after as f64));
    session.compare(row("reduction").ours(reduction(report.before, report.after)).unit("%"));
    session.compare(row("|W - W~| / |W|").ours(report.error.relative));
    if let Some(tube) = report.tube {
        let row = row("largest |f - f~| at supports").ours(tube.achieved);
        let reason = tube.reason.map_or(String::new(), |reason| format!("above eps: {reason}"));
        session.compare(row.note(reason));
    }
    Ok(())
}

/// The paper's second method, as training.
fn primal(trained: &CompressionTask, solver: &str, session: &Session<'_>) -> anyhow::Result<()> {
    let found = train_task(&trained.task, &trained.data, solver, session)?;
    let row = |measure: &str| trained.row(solver, measure);
    let Some(primal) = &found.report.primal else { return Ok(()) };
    let (before, after) = (primal.dual_supports, found.report.supports);
    let note = if primal.unchanged > 0 {
        "the Gram matrix is not rank-deficient: the vectors of smo".to_owned()
    } else {
        format!("penalised: {} of smo, {} here", primal.drawn[0], primal.drawn[1])
    };
    session.compare(row("vectors").ours(after as f64).note(note));
    session.compare(row("reduction").ours(reduction(before, after)).unit("%"));
    let distance = FeatureDistance::between(&trained.machine, &found.machine)?;
    let rounding = distance.rounding.sqrt() * distance.relative / distance.absolute;
    let note = if rounding.is_finite() {
        format!("rounding at most {rounding:.1e}")
    } else {
        String::new()
    };
    session.compare(row("|W - W~| / |W|").ours(distance.relative).note(note));
    let exact = Plan::exact(&trained.machine).scores(&trained.queries)?;
    let other = Plan::exact(&found.machine).scores(&trained.queries)?;
    let change = exact.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    session.compare(row("largest |f - f~|, queries").ours(change));
    let columns =
        format!("of {} rows, in {} pricings", trained.data.examples.rows(), primal.pricings);
    session.compare(row("priced columns").ours(primal.priced as f64).note(columns));
    Ok(())
}
