//! \[DeCoste03\], Table 2: steps until the sign of each training row is certified, for every order, beside the
//! paper's numbers; what the other certified stages do on the same machines; machines with all
//! coefficients; low-rank machines; a figure of bounds against steps.

mod figure;
mod measure;

mod table;

use anyhow::bail;
use mercer::data::{Dataset, Matrix, Targets, synthetic};
use mercer::kernel::{KernelRef, parse};
use mercer::machine::{ClassName, Machine, Output, Scheme, Score};
use mercer::train::{Report, Training, formulation, train};
use serde_json::{Value, json};

use crate::tasks::{self, Task};
use crate::{Paper, Session};
use measure::{StepsRow, Subject};

pub(crate) static PAPER: Paper = Paper {
    key: "decoste03",
    title: "D. DeCoste, Anytime Query-Tuned Kernel Machine Classifiers via Cholesky Factorization, 2003",
    quick: &["Sonar", "Haberman"],
    run,
};

/// All orders, as Table 2 has them and then ours.
const ORDERS: [&str; 9] =
    ["given", "sgma", "min_wz", "min_wz_n", "hybrid", "mean_lh", "log_gap", "stop_count", "moved"];

/// Steps `k` as the paper prints them: min, mean, median, max.
const PRINTED: [(&str, &str, [f64; 4]); 18] = [
    ("Sonar", "given", [1.0, 47.7, 45.0, 140.0]),
    ("Sonar", "sgma", [f64::NAN, 26.2, f64::NAN, f64::NAN]),
    ("Sonar", "min_wz", [1.0, 21.3, 17.0, 123.0]),
    ("Sonar", "min_wz_n", [1.0, 22.5, 19.0, 109.0]),
    ("Sonar", "hybrid", [1.0, 21.3, 18.0, 129.0]),
    ("Haberman", "given", [1.0, 4.2, 3.0, 22.0]),
    ("Haberman", "sgma", [f64::NAN, 4.5, f64::NAN, f64::NAN]),
    ("Haberman", "min_wz", [1.0, 7.0, 8.0, 9.0]),
    ("Haberman", "min_wz_n", [1.0, 6.1, 6.0, 9.0]),
    ("Haberman", "hybrid", [1.0, 4.0, 3.0, 12.0]),
    ("MNIST 3v8", "given", [1.0, 220.8, 233.0, 258.0]),
    ("MNIST 3v8", "min_wz", [1.0, 150.3, 154.0, 205.0]),
    ("MNIST 3v8", "min_wz_n", [1.0, 148.8, 155.0, 215.0]),
    ("MNIST 3v8", "hybrid", [1.0, 151.4, 157.0, 217.0]),
    ("MNIST 0v1", "given", [1.0, 61.1, 60.0, 76.0]),
    ("MNIST 0v1", "min_wz", [1.0, 21.3, 21.0, 32.0]),
    ("MNIST 0v1", "min_wz_n", [1.0, 17.9, 18.0, 35.0]),
    ("MNIST 0v1", "hybrid", [1.0, 17.1, 17.0, 33.0]),
];

/// Supports of the paper: all, bounded, positive, negative.
const PRINTED_SUPPORTS: [(&str, [usize; 4]); 4] = [
    ("Sonar", [165, 153, 81, 84]),
    ("Haberman", [180, 150, 79, 101]),
    ("MNIST 3v8", [262, 71, 132, 130]),
    ("MNIST 0v1", [76, 1, 24, 52]),
];

/// Formulations whose machines keep all coefficients, by the penalty C.
const ALL_COEFFICIENTS: [(&str, fn(f64) -> String); 3] = [
    ("KFD", |c| format!("fisher(C={c})")),
    ("LS-SVM", |c| format!("ls_svm(C={c})")),
    ("ridge", |c| format!("ridge(lambda={})", 1.0 / c)),
];

/// A machine of the table, as trained here.
struct TrainedTask {
    name: String,
    machine: Machine,
    rows: Dataset,
    report: Report,
}

fn run(session: &Session<'_>) -> anyhow::Result<()> {
    let mut objects: Vec<Value> = Vec::new();
    let data = session.data();
    let mut drawn = false;
    for task in tasks::of(PAPER.key)?.iter().filter(|task| session.wants(&task.name)) {
        let rows = match task.rows(data.as_deref())? {
            Ok(rows) => rows,
            Err(missing) => {
                session.warn(&format!("{} is left out: {missing}", task.name));
                continue;
            }
        };
        let trained = train_task(task, rows, session)?;
        let supports = supports(&trained);
        session.line(&table::title(&trained.name, supports, printed_supports(&trained.name)));
        session.line(&table::header());
        let machine = json!({
            "task": trained.name, "kernel": task.kernel, "C": task.c, "supports": supports[0],
            "bounded": supports[1], "positive": supports[2], "negative": supports[3],
            "paper": printed_supports(&trained.name), "converged": trained.report.converged,
        });
        let mut rows = orders(task, &trained, session)?;
        rows.extend(least_squares_machines(task, &trained, session)?);
        let rows: Vec<Value> = rows.iter().map(StepsRow::object).collect();
        objects.push(json!({ "machine": machine, "rows": rows }));
        if session.wants_figures() && !drawn {
            let svg = figure::bounds(&trained.machine, &trained.rows.examples)?;
            session.figure(&PAPER, "bounds", &svg)?;
            drawn = true;
        }
    }
    if session.wants("low rank") {
        let rows: Vec<Value> = low_rank(session)?.iter().map(StepsRow::object).collect();
        objects.push(json!({ "machine": { "task": "low rank" }, "rows": rows }));
    }
    session.detail("tasks", json!(objects));
    session.line(table::FOOTER);
    Ok(())
}

fn printed_supports(name: &str) -> Option<[usize; 4]> {
    PRINTED_SUPPORTS.iter().find(|(other, _)| *other == name).map(|(_, counts)| *counts)
}

/// Trains the machine of a task.
fn train_task(task: &Task, rows: Dataset, session: &Session<'_>) -> anyhow::Result<TrainedTask> {
    let (kernel, c_svc) = (parse(&task.kernel)?, formulation(&format!("c_svc(C={})", task.c))?);
    let training = Training::default().tolerance(task.tolerance).cancel(session.cancel());
    let trained = train(&rows, &kernel, &c_svc, &training, &mut |_| {})?;
    session.check()?;
    let (machine, report) = (trained.machine, trained.report);
    Ok(TrainedTask { name: task.name.clone(), machine, rows, report })
}

/// Supports: all, bounded, positive, negative.
fn supports(trained: &TrainedTask) -> [usize; 4] {
    let Score::Expansion { coefficients, .. } = &trained.machine.scores()[0] else {
        return [0; 4];
    };
    let positive = coefficients.iter().filter(|beta| **beta > 0.0).count();
    [coefficients.len(), trained.report.bounded, positive, coefficients.len() - positive]
}

/// Every order, then the other certified stages.
fn orders(
    task: &Task,
    trained: &TrainedTask,
    session: &Session<'_>,
) -> anyhow::Result<Vec<StepsRow>> {
    let (machine, rows) = (&trained.machine, &trained.rows.examples);
    let subject = Subject { name: "SVM", machine, rows, repeats: session.options.repeats };
    let mut rows = Vec::new();
    for order in ORDERS {
        let steps = if order == "moved" { task.moved } else { machine.supports().rows() };
        let text = format!("anytime(order={order}, steps={steps}");
        let printed = PRINTED.iter().find(|(name, other, _)| *name == task.name && *other == order);
        let mut row = subject.anytime(order, &text, session)?;
        row.printed = printed.map(|(_, _, steps)| *steps);
        session.line(&table::row(&row));
        rows.push(row);
    }
    for stage in ["spectral", "monomials", "low_precision"] {
        if let Some(row) = subject.other(stage, session)? {
            session.line(&table::row(&row));
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Machines with all coefficients on the same rows; one dense solve each.
fn least_squares_machines(
    task: &Task,
    trained: &TrainedTask,
    session: &Session<'_>,
) -> anyhow::Result<Vec<StepsRow>> {
    let Targets::Numbers(signs) = &trained.rows.targets else { bail!("targets are numbers") };
    let kernel = parse(&task.kernel)?;
    // A thousand rows are enough, and one dense solve is fast.
    let count = signs.len().min(1000);
    let (rows, signs) = (trained.rows.examples.select(0..count), &signs[..count]);
    let mut measured = Vec::new();
    for (name, text) in ALL_COEFFICIENTS {
        let machine = least_squares(&text(task.c), &kernel, &rows, signs, session)?;
        measured.extend(all_coefficients(name, &machine, &rows, session)?);
    }
    Ok(measured)
}

/// A machine by one linear system, as a classifier by sign.
fn least_squares(
    text: &str,
    kernel: &KernelRef,
    rows: &Matrix,
    signs: &[f64],
    session: &Session<'_>,
) -> anyhow::Result<Machine> {
    let targets = Targets::Numbers(signs.to_vec());
    let data = Dataset { examples: rows.clone(), targets, names: None };
    let training = Training::default().cancel(session.cancel());
    let machine = train(&data, kernel, &formulation(text)?, &training, &mut |_| {})?.machine;
    let names = vec![ClassName::Number(1.0), ClassName::Number(-1.0)];
    let output = Output::Classes { names, scheme: Scheme::OneVsOne };
    let (supports, mut scores) = ((**machine.supports()).clone(), machine.scores().to_vec());
    if machine.classes().first() == Some(&ClassName::Number(-1.0)) {
        scores = scores.iter().map(negated).collect();
    }
    Ok(Machine::new(kernel.clone(), supports, scores, output)?)
}

/// The score of the opposite class.
fn negated(score: &Score) -> Score {
    let Score::Expansion { supports, coefficients, offset } = score else { return score.clone() };
    Score::Expansion {
        supports: supports.clone(),
        coefficients: coefficients.iter().map(|beta| -beta).collect(),
        offset: -offset,
    }
}

fn all_coefficients(
    name: &'static str,
    machine: &Machine,
    rows: &Matrix,
    session: &Session<'_>,
) -> anyhow::Result<Vec<StepsRow>> {
    let subject = Subject { name, machine, rows, repeats: session.options.repeats };
    let mut measured =
        vec![subject.anytime("log_gap", "anytime(order=log_gap, steps=400", session)?];
    for stage in ["spectral", "monomials"] {
        measured.extend(subject.other(stage, session)?);
    }
    measured.iter().for_each(|row| session.line(&table::row(row)));
    Ok(measured)
}

/// Smooth kernels in two dimensions: a machine from SMO, and one with all coefficients.
fn low_rank(session: &Session<'_>) -> anyhow::Result<Vec<StepsRow>> {
    let data = synthetic::ripley(8000, 1);
    let kernel: KernelRef = parse("rbf(gamma=1)")?;
    let training = Training::default().cancel(session.cancel());
    let c_svc = formulation("c_svc(C=1)")?;
    let machine = train(&data, &kernel, &c_svc, &training, &mut |_| {})?.machine;
    session.check()?;
    session.line(&format!("\nLow rank: Ripley's two dimensions, {}, C = 1", kernel.spec()));
    session.line(&table::header());
    let queries = synthetic::ripley(4000, 2).examples;
    let subject = Subject {
        name: "SVM",
        machine: &machine,
        rows: &queries,
        repeats: session.options.repeats,
    };
    let mut rows = Vec::new();
    for order in ["min_wz", "log_gap", "moved"] {
        let text = format!("anytime(order={order}, steps=60");
        let row = subject.anytime(order, &text, session)?;
        session.line(&table::row(&row));
        rows.push(row);
    }
    let signs: Vec<f64> = match &data.targets {
        Targets::Numbers(numbers) => {
            numbers.iter().map(|y| if *y > 0.5 { 1.0 } else { -1.0 }).collect()
        }
        _ => bail!("targets are numbers"),
    };
    let few = data.examples.select(0..2000);
    let machine = least_squares("fisher(C=1)", &kernel, &few, &signs[..2000], session)?;
    let subject = Subject {
        name: "KFD",
        machine: &machine,
        rows: &queries,
        repeats: session.options.repeats,
    };
    let row = subject.anytime("log_gap", "anytime(order=log_gap, steps=60", session)?;
    session.line(&table::row(&row));
    rows.push(row);
    Ok(rows)
}
