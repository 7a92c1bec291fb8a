//! \[OG98\]: compression. The paper's Ripley rows, its two methods and later ones, all at equal size, on
//! machines from two to 784 columns; and the speedup of the certified cascade of each compressed machine.
//! The paper's Skin and Electrons data are not public.

use std::fmt::Write as _;
use std::time::Instant;

use mercer::compile::compress::SampleAgreement;
use mercer::compile::{
    CompileError, Compressed, Compression, CompressionReport, FittingData, Goal, Progress, Watch,
    compile_with, compressor,
};
use mercer::data::{Dataset, Matrix};
use mercer::kernel::parse;
use mercer::machine::Machine;
use mercer::query::{Certainty, Plan};
use mercer::train::{Report, Training, formulation, train};
use mercer_report::compression;
use mercer_report::timing::best_us;
use serde_json::{Value, json};

use crate::Interrupted;
use crate::tasks::{self, Task};
use crate::{Paper, Session};

pub(crate) static PAPER: Paper = Paper {
    key: "og98",
    title: "E. Osuna and F. Girosi, Reducing the Run-time Complexity of Support Vector Machines, 1998",
    quick: &["Ripley RBF", "banana"],
    run,
};

/// Methods at equal size: the paper's first, as printed and re-fitted; its second with three penalties; ours.
const METHODS: [&str; 9] = [
    "regression(refit=no)",
    "regression",
    "primal(penalty=l1)",
    "primal(penalty=margin)",
    "primal(penalty=errors)",
    "exact_basis(tolerance=1e-12)",
    "lasso",
    "greedy",
    "moved",
];

/// Methods whose time is compared with that of training, at a fifth of the supports.
const PACED: [&str; 2] = ["greedy", "moved"];

/// Rows of the paper whose data are not public.
const NOT_PUBLIC: [&str; 2] = ["Skin", "Electrons"];

/// A machine of the table, as trained here.
struct CompressionTask {
    machine: Machine,
    data: Dataset,
    queries: Matrix,
    report: Report,
}

fn run(session: &Session<'_>) -> anyhow::Result<()> {
    let data = session.data();
    let (mut objects, mut drawn): (Vec<Value>, bool) = (Vec::new(), false);
    for task in tasks::of(PAPER.key)?.iter().filter(|task| session.wants(&task.name)) {
        let (data, queries) = match task.parts(data.as_deref())? {
            Ok(parts) => parts,
            Err(missing) => {
                session.warn(&format!("{} is left out: {missing}", task.name));
                objects.push(json!({ "machine": { "task": task.name }, "rows": null }));
                continue;
            }
        };
        let (machine, report) = train_task(task, &data, session)?;
        let mut trained = CompressionTask { machine, data, queries, report };
        let pace = pace(task, &mut trained, session)?;
        session.line(&title(task, &trained, &pace));
        let mut rows = Vec::new();
        for size in &task.sizes {
            rows.extend(methods(&trained, *size, session)?);
        }
        let cascades = cascades(task, &trained, session)?;
        let report = &trained.report;
        objects.push(json!({
            "machine": {
                "task": task.name, "kernel": task.kernel, "C": task.c,
                "examples": trained.data.examples.rows(), "queries": trained.queries.rows(),
                "supports": report.supports, "bounded": report.bounded,
                "training_seconds": report.seconds, "converged": report.converged,
            },
            "rows": rows, "cascades": cascades, "pace": pace.iter().map(Pace::object).collect::<Vec<_>>(),
        }));
        if session.wants_figures() && !drawn {
            let size = trained.machine.supports().rows() / 3;
            if let Ok((report, _)) = compress("greedy", &trained, Goal::Size(size.max(1)), session)?
            {
                session.figure(&PAPER, "sizes", &compression::figure(&report))?;
                drawn = true;
            }
        }
    }
    for name in NOT_PUBLIC.iter().filter(|name| session.wants(name)) {
        objects.push(json!({ "machine": { "task": name }, "rows": null }));
        session.line(&format!("\n{name}: the data are not public"));
    }
    session.detail("tasks", json!(objects));
    Ok(())
}

fn train_task(
    task: &Task,
    data: &Dataset,
    session: &Session<'_>,
) -> anyhow::Result<(Machine, Report)> {
    let (kernel, c_svc) = (parse(&task.kernel)?, formulation(&format!("c_svc(C={})", task.c))?);
    let training = Training::default().tolerance(task.tolerance).cancel(session.cancel());
    let trained = train(data, &kernel, &c_svc, &training, &mut |_| {})?;
    session.check()?;
    Ok((trained.machine, trained.report))
}

/// How long a method takes beside training.
struct Pace {
    method: &'static str,
    size: usize,
    error: f64,
    seconds: f64,
    training: f64,
}

impl Pace {
    fn object(&self) -> Value {
        let Self { method, size, error, seconds, training } = self;
        json!({
            "method": method, "size": size, "error": error, "seconds": seconds, "training_seconds": training,
            "of_training": seconds / training,
        })
    }
}

/// Training and compression to a fifth of the supports in turn, so that other load on the computer affects
/// all of them; the least time of each counts.
fn pace(
    task: &Task,
    trained: &mut CompressionTask,
    session: &Session<'_>,
) -> anyhow::Result<Vec<Pace>> {
    let size = trained.machine.supports().rows() / 5;
    let mut training = trained.report.seconds;
    let mut best = [(f64::INFINITY, f64::INFINITY); PACED.len()];
    for _ in 0..session.options.repeats.max(1) {
        training = training.min(train_task(task, &trained.data, session)?.1.seconds);
        for (best, method) in best.iter_mut().zip(PACED) {
            if let Ok((small, seconds)) = timed(method, trained, Goal::Size(size.max(1)), session)?
            {
                *best = (best.0.min(seconds), small.report.error.relative);
            }
        }
    }
    trained.report.seconds = training;
    let pace = |(method, (seconds, error))| Pace { method, size, error, seconds, training };
    Ok(PACED.into_iter().zip(best).filter(|(_, best)| best.0.is_finite()).map(pace).collect())
}

/// The machine, the times beside training, and the names of the columns.
fn title(task: &Task, trained: &CompressionTask, pace: &[Pace]) -> String {
    let Report { supports, bounded, seconds, .. } = trained.report;
    let mut text = format!(
        "\n{}: {}, C = {}, {} examples, {} queries; {supports} support vectors, {bounded} of them bounded, \
         trained in {seconds:.2} s\n",
        task.name,
        task.kernel,
        task.c,
        trained.data.examples.rows(),
        trained.queries.rows(),
    );
    for Pace { method, size, error, seconds, training } in pace {
        let _ = writeln!(
            text,
            "  {method} to a fifth, {size} vectors: error {error:.4e}, {seconds:.4} s, training {training:.4} s: {:.2}x",
            seconds / training
        );
    }
    text + &format!(
        "  {:<30} {:>8} {:>8} {:>12} {:>14} {:>10} {:>9}",
        "method", "size", "vectors", "error", "disagreements", "certified", "seconds"
    )
}

/// A compressed machine and the seconds it took, or why the method refuses.
type Timed = Result<(Compressed, f64), String>;

/// Compresses a machine by one method, without a sample.
fn timed(
    method: &str,
    trained: &CompressionTask,
    goal: Goal,
    session: &Session<'_>,
) -> anyhow::Result<Timed> {
    let watch = |_: Progress| !session.is_stopped();
    let start = Instant::now();
    let made = Compression::new(&trained.machine, compressor(method)?)
        .goal(goal)
        .keep_vectors(true)
        .watch(Watch::new(&watch))
        .run();
    let seconds = start.elapsed().as_secs_f64();
    refused(made.map(|made| (made, seconds)))
}

fn refused<T>(made: Result<T, CompileError>) -> anyhow::Result<Result<T, String>> {
    match made {
        Err(CompileError::Interrupted) => Err(Interrupted::default().into()),
        other => Ok(other.map_err(|error| error.to_string())),
    }
}

/// Compresses a machine by one method and compares it on the queries, or tells why the method refuses.
/// Only the compression is timed.
fn compress(
    method: &str,
    trained: &CompressionTask,
    goal: Goal,
    session: &Session<'_>,
) -> anyhow::Result<Result<(CompressionReport, f64), String>> {
    let (small, seconds) = match timed(method, trained, goal, session)? {
        Ok(made) => made,
        Err(reason) => return Ok(Err(reason)),
    };
    let fitting_data = FittingData { sample: Some(&trained.queries), ..FittingData::default() };
    let agreement = refused(small.agreement(&trained.machine, fitting_data, None))?;
    Ok(agreement.map(|agreement| (CompressionReport { agreement, ..small.report }, seconds)))
}

/// Every method at one size.
fn methods(
    trained: &CompressionTask,
    size: usize,
    session: &Session<'_>,
) -> anyhow::Result<Vec<Value>> {
    let mut rows = Vec::new();
    for method in METHODS {
        let goal = if method.starts_with("exact") { Goal::ByParameters } else { Goal::Size(size) };
        let found = compress(method, trained, goal, session)?;
        session.check()?;
        session.line(&match &found {
            Ok((report, seconds)) => line(method, size, report, *seconds),
            Err(reason) => format!("  {method:<30} {size:>8} {reason}"),
        });
        rows.push(match found {
            Ok((report, seconds)) => {
                let mut object = compression::object(&report, seconds);
                object["curve"] = Value::Null;
                object["requested_size"] = json!(size);
                object["of_training"] = json!(seconds / trained.report.seconds.max(1e-9));
                object
            }
            Err(reason) => json!({ "method": method, "requested_size": size, "refused": reason }),
        });
    }
    Ok(rows)
}

fn line(method: &str, size: usize, report: &CompressionReport, seconds: f64) -> String {
    let agreement = report.agreement.as_ref();
    let share = |share: Option<f64>| share.map_or(String::new(), |x| format!("{:.2} %", 100.0 * x));
    format!(
        "  {method:<30} {size:>8} {:>8} {:>12.4e} {:>14} {:>10} {seconds:>9.3}",
        report.after,
        report.error.relative,
        share(agreement.map(SampleAgreement::disagreement)),
        share(agreement.and_then(SampleAgreement::certified_share)),
    )
}

/// The certified cascade at each size against exact answers, in a batch.
fn cascades(
    task: &Task,
    trained: &CompressionTask,
    session: &Session<'_>,
) -> anyhow::Result<Vec<Value>> {
    let (machine, queries) = (&trained.machine, &trained.queries);
    let exact = Plan::exact(machine);
    let truth = exact.decide(queries)?;
    let mut rows = Vec::new();
    for size in &task.sizes {
        let text = format!("cascade(compressed({size}), exact)");
        let watch = |_: Progress| !session.is_stopped();
        let fitting_data = FittingData::default();
        let sections = compile_with(machine, &text.parse()?, fitting_data, Watch::new(&watch));
        session.check()?;
        let Ok(sections) = sections else { continue };
        let plan = Plan::fitted(machine, &sections)?;
        let answers = plan.decide(queries)?;
        let pairs = answers.iter().zip(&truth);
        let disagreements = pairs.filter(|(a, b)| a.answer != b.answer).count();
        let certified = answers.iter().filter(|d| d.certainty == Certainty::Certified).count();
        let count = queries.rows();
        // In turn, so that other load on the computer affects both.
        let (mut cascade, mut full) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..session.options.repeats.max(1) {
            cascade = cascade.min(best_us(1, count, || drop(plan.decide(queries))));
            full = full.min(best_us(1, count, || drop(exact.decide(queries))));
        }
        let (ratio, share) = (full / cascade, certified as f64 / count.max(1) as f64);
        session.line(&format!(
            "  {text:<40} {:.2} % certified, {disagreements} disagreements, {cascade:.2} us against {full:.2} us exact: {ratio:.1}x",
            100.0 * share,
        ));
        rows.push(json!({
            "plan": text, "certified": share, "disagreements": disagreements, "microseconds": cascade,
            "exact_microseconds": full, "speedup": ratio,
        }));
    }
    Ok(rows)
}
