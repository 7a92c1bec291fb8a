//! \[DeCoste03\], Table 2: steps until the sign of each training row is certified, for every order, beside the
//! paper's numbers; what the other certified stages do on the same machines; machines with all
//! coefficients; low-rank machines; query space in parts (section 6); a figure of bounds against steps.

mod figure;
mod measure;
mod partition;
mod table;

use anyhow::bail;
use mercer::data::{Dataset, Matrix, Targets, synthetic};
use mercer::kernel::{KernelRef, parse};
use mercer::machine::{ClassName, Machine, Output, Scheme, Score};
use mercer::train::{Report, Training, formulation, train};

use crate::tasks::{self, Task};
use crate::{Paper, Session};
use measure::Subject;

pub(crate) static PAPER: Paper = Paper {
    key: "decoste03",
    title: "D. DeCoste, Anytime Query-Tuned Kernel Machine Classifiers via Cholesky Factorization, 2003",
    quick: &["Sonar", "Haberman", "low rank"],
    run,
};

/// All orders, as Table 2 has them and then ours.
const ORDERS: [&str; 10] = [
    "given",
    "sgma",
    "min_wz",
    "min_wz_n",
    "hybrid",
    "mean_lh",
    "log_gap",
    "stop_count",
    "moved",
    "moved_mean_lh",
];

/// Formulations whose machines keep all coefficients, by the penalty C.
const ALL_COEFFICIENTS: [(&str, fn(f64) -> String); 3] = [
    ("KFD", |c| format!("fisher(C={c})")),
    ("LS-SVM", |c| format!("ls_svm(C={c})")),
    ("ridge", |c| format!("ridge(lambda={})", 1.0 / c)),
];

/// Rows of a half that is worth splitting.
const LEAST_PART: usize = 100;

/// A machine of the table, as trained here.
struct TrainedTask {
    name: String,
    machine: Machine,
    rows: Dataset,
    report: Report,
}

fn run(session: &Session<'_>) -> anyhow::Result<()> {
    let data = session.data();
    let mut drawn = false;
    for task in tasks::of(PAPER.key)?.iter().filter(|task| session.wants(&task.name)) {
        let rows = match task.rows(data.as_deref())? {
            Ok(rows) => rows,
            Err(missing) => {
                session.leave_out(&task.name, &missing);
                continue;
            }
        };
        let trained = train_task(task, rows, session)?;
        table::machine(session, &trained.name, supports(&trained));
        orders(task, &trained, session)?;
        least_squares_machines(task, &trained, session)?;
        let examples = &trained.rows.examples;
        if session.wants_figures() && !drawn {
            let svg = figure::bounds(&trained.machine, examples)?;
            session.figure(&PAPER, "bounds", &svg)?;
            drawn = true;
        }
        // In hundreds of columns moved points take minutes.
        let moved = if trained.machine.columns() <= 100 { task.moved } else { 0 };
        let most = [trained.machine.supports().rows().min(200), moved];
        if examples.rows() >= 2 * LEAST_PART {
            partition::measure(session, &trained.name, &trained.machine, examples, most)?;
        }
    }
    if session.wants("low rank") {
        low_rank(session)?;
    }
    session.line(table::FOOTER);
    Ok(())
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
fn orders(task: &Task, trained: &TrainedTask, session: &Session<'_>) -> anyhow::Result<()> {
    let (machine, rows) = (&trained.machine, &trained.rows.examples);
    let subject = Subject { name: "SVM", machine, rows, repeats: session.options.repeats };
    for order in ORDERS {
        let is_moved = order.starts_with("moved");
        let steps = if is_moved { task.moved } else { machine.supports().rows() };
        let text = format!("anytime(order={order}, steps={steps}");
        let row = subject.anytime(order, &text, session)?;
        table::report(session, &task.name, &row);
    }
    for stage in ["spectral", "monomials", "low_precision"] {
        if let Some(row) = subject.other(stage, session)? {
            table::report(session, &task.name, &row);
        }
    }
    Ok(())
}

/// Machines with all coefficients on the same rows; one dense solve each.
fn least_squares_machines(
    task: &Task,
    trained: &TrainedTask,
    session: &Session<'_>,
) -> anyhow::Result<()> {
    let Targets::Numbers(signs) = &trained.rows.targets else { bail!("targets are numbers") };
    let kernel = parse(&task.kernel)?;
    // A thousand rows are enough, and one dense solve is fast.
    let count = signs.len().min(1000);
    let (rows, signs) = (trained.rows.examples.select(0..count), &signs[..count]);
    for (name, text) in ALL_COEFFICIENTS {
        let machine = least_squares(&text(task.c), &kernel, &rows, signs, session)?;
        let repeats = session.options.repeats;
        let subject = Subject { name, machine: &machine, rows: &rows, repeats };
        let row = subject.anytime("log_gap", "anytime(order=log_gap, steps=400", session)?;
        table::report(session, &task.name, &row);
        for stage in ["spectral", "monomials"] {
            if let Some(row) = subject.other(stage, session)? {
                table::report(session, &task.name, &row);
            }
        }
    }
    Ok(())
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

/// Ripley's two dimensions under `rbf(gamma=1)`, C = 1.
const LOW_RANK: &str = "low rank";

/// Smooth kernels in two dimensions: a machine from SMO, and one with all coefficients.
fn low_rank(session: &Session<'_>) -> anyhow::Result<()> {
    let data = synthetic::ripley(session.options.rows.min(8000), 1);
    let kernel: KernelRef = parse("rbf(gamma=1)")?;
    let training = Training::default().cancel(session.cancel());
    let c_svc = formulation("c_svc(C=1)")?;
    let machine = train(&data, &kernel, &c_svc, &training, &mut |_| {})?.machine;
    session.check()?;
    let queries = synthetic::ripley(4000, 2).examples;
    let subject = Subject {
        name: "SVM",
        machine: &machine,
        rows: &queries,
        repeats: session.options.repeats,
    };
    for order in ["min_wz", "log_gap", "moved", "moved_mean_lh"] {
        let text = format!("anytime(order={order}, steps=60");
        let row = subject.anytime(order, &text, session)?;
        table::report(session, LOW_RANK, &row);
    }
    partition::measure(session, LOW_RANK, &machine, &queries, [60, 40])?;
    let signs: Vec<f64> = match &data.targets {
        Targets::Numbers(numbers) => {
            numbers.iter().map(|y| if *y > 0.5 { 1.0 } else { -1.0 }).collect()
        }
        _ => bail!("targets are numbers"),
    };
    let count = data.examples.rows().min(2000);
    let few = data.examples.select(0..count);
    let machine = least_squares("fisher(C=1)", &kernel, &few, &signs[..count], session)?;
    let subject = Subject {
        name: "KFD",
        machine: &machine,
        rows: &queries,
        repeats: session.options.repeats,
    };
    let row = subject.anytime("log_gap", "anytime(order=log_gap, steps=60", session)?;
    table::report(session, LOW_RANK, &row);
    Ok(())
}
