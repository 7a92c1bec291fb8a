//! \[OG98\]: support vectors before and after. The paper's Ripley rows, its two methods and those that came
//! after, all at equal size, on machines from two to 784 columns; and what the certified cascade of each
//! small machine and the whole one gains. The paper's Skin and Electrons data are not public.

use std::path::PathBuf;
use std::time::Instant;

use mercer::compile::compress::Judged;
use mercer::compile::{
    CompileError, Compressed, Compression, CompressionReport, FittingData, Goal, Progress, Watch,
    compile_with, compressor,
};
use mercer::data::{Dataset, Matrix};
use mercer::kernel::parse;
use mercer::machine::Machine;
use mercer::query::{Certainty, Plan};
use mercer::train::{Cancel, Report, Training, formulation, train};
use serde_json::{Value, json};

use super::super::{StopSignal, compress};
use super::tasks::{self, Task};
use super::{Paper, Reproduce};
use crate::console::Console;
use crate::failure::Interrupted;
use crate::output::whole;
use crate::timing::best_us;

pub(super) static PAPER: Paper = Paper {
    key: "og98",
    title: "E. Osuna and F. Girosi, Reducing the Run-time Complexity of Support Vector Machines, 1998",
    quick: &["Ripley RBF", "banana"],
    run,
};

/// Methods at equal size: the paper's first as it is and re-fitted, its second with three attractors, ours.
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

/// Rows of the paper whose data nobody can have.
const NOT_PUBLIC: [&str; 2] = ["Skin", "Electrons"];

/// A machine of the table, as trained here.
struct Trained {
    machine: Machine,
    data: Dataset,
    queries: Matrix,
    report: Report,
}

fn run(arguments: &Reproduce, console: &Console, stop: &StopSignal) -> anyhow::Result<()> {
    let is_wanted =
        |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    let data =
        arguments.data.clone().or_else(|| std::env::var_os("MERCER_DATA").map(PathBuf::from));
    let (mut objects, mut drawn): (Vec<Value>, bool) = (Vec::new(), false);
    for task in tasks::of(PAPER.key)?.iter().filter(|task| is_wanted(&task.name)) {
        let (data, queries) = match task.parts(data.as_deref())? {
            Ok(parts) => parts,
            Err(missing) => {
                console.warn(&format!("{} is left out: {missing}", task.name));
                objects.push(json!({ "machine": { "task": task.name }, "rows": null }));
                continue;
            }
        };
        let mut trained = learn(task, data, queries, stop)?;
        let pace = pace(task, &mut trained, arguments.repeats, stop)?;
        head(task, &trained, &pace, console);
        let mut rows = Vec::new();
        for size in &task.sizes {
            rows.extend(methods(&trained, *size, console, stop)?);
        }
        let cascades = cascades(task, &trained, arguments.repeats, console, stop)?;
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
        if let (Some(path), false) = (&arguments.svg, drawn) {
            let size = trained.machine.supports().rows() / 3;
            if let Ok((report, _)) = one("greedy", &trained, Goal::Size(size.max(1)), stop)? {
                whole(path, &compress::drawing(&report))?;
                drawn = true;
            }
        }
    }
    for name in NOT_PUBLIC.iter().filter(|name| is_wanted(name)) {
        objects.push(json!({ "machine": { "task": name }, "rows": null }));
        if !console.json {
            println!("\n{name}: the data are not public");
        }
    }
    if console.json {
        println!("{}", json!({ "paper": PAPER.key, "title": PAPER.title, "tasks": objects }));
    }
    Ok(())
}

fn learn(
    task: &Task,
    data: Dataset,
    queries: Matrix,
    stop: &StopSignal,
) -> anyhow::Result<Trained> {
    let (machine, report) = taught(task, &data, stop)?;
    Ok(Trained { machine, data, queries, report })
}

fn taught(task: &Task, data: &Dataset, stop: &StopSignal) -> anyhow::Result<(Machine, Report)> {
    let (kernel, c_svc) = (parse(&task.kernel)?, formulation(&format!("c_svc(C={})", task.c))?);
    let training =
        Training::default().tolerance(task.tolerance).cancel(Cancel::from_flag(stop.flag()));
    let trained = train(data, &kernel, &c_svc, &training, &mut |_| {})?;
    stop.check()?;
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

/// Training and compression to a fifth of the supports by turns, so that all meet the same noise; the least
/// time of each counts.
fn pace(
    task: &Task,
    trained: &mut Trained,
    repeats: u32,
    stop: &StopSignal,
) -> anyhow::Result<Vec<Pace>> {
    let size = trained.machine.supports().rows() / 5;
    let mut training = trained.report.seconds;
    let mut best = [(f64::INFINITY, f64::INFINITY); PACED.len()];
    for _ in 0..repeats.max(1) {
        training = training.min(taught(task, &trained.data, stop)?.1.seconds);
        for (best, method) in best.iter_mut().zip(PACED) {
            if let Ok((small, seconds)) = timed(method, trained, Goal::Size(size.max(1)), stop)? {
                *best = (best.0.min(seconds), small.report.error.relative);
            }
        }
    }
    trained.report.seconds = training;
    let pace = |(method, (seconds, error))| Pace { method, size, error, seconds, training };
    Ok(PACED.into_iter().zip(best).filter(|(_, best)| best.0.is_finite()).map(pace).collect())
}

fn head(task: &Task, trained: &Trained, pace: &[Pace], console: &Console) {
    if console.json {
        return;
    }
    let Report { supports, bounded, seconds, .. } = trained.report;
    println!(
        "\n{}: {}, C = {}, {} examples, {} queries; {supports} supports, {bounded} at the bound, trained in {seconds:.2} s",
        task.name,
        task.kernel,
        task.c,
        trained.data.examples.rows(),
        trained.queries.rows(),
    );
    for Pace { method, size, error, seconds, training } in pace {
        println!(
            "  {method} to a fifth, {size} vectors: error {error:.4e}, {seconds:.4} s, training {training:.4} s: {:.2}x",
            seconds / training
        );
    }
    println!(
        "  {:<30} {:>8} {:>8} {:>12} {:>14} {:>10} {:>9}",
        "method", "asked", "vectors", "error", "other labels", "certified", "seconds"
    );
}

/// A smaller machine and the seconds it took, or why there is none.
type Timed = Result<(Compressed, f64), String>;

/// What one method makes of a machine, without a sample.
fn timed(method: &str, trained: &Trained, goal: Goal, stop: &StopSignal) -> anyhow::Result<Timed> {
    let watch = |_: Progress| stop.check().is_ok();
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
        Err(CompileError::Ended) => Err(Interrupted.into()),
        other => Ok(other.map_err(|error| error.to_string())),
    }
}

/// What one method makes of a machine, or why not. The sample is asked afterwards, so that only compression
/// is timed.
fn one(
    method: &str,
    trained: &Trained,
    goal: Goal,
    stop: &StopSignal,
) -> anyhow::Result<Result<(CompressionReport, f64), String>> {
    let (small, seconds) = match timed(method, trained, goal, stop)? {
        Ok(made) => made,
        Err(reason) => return Ok(Err(reason)),
    };
    let fitting_data = FittingData { sample: Some(&trained.queries), ..FittingData::default() };
    let judged = refused(small.judge(&trained.machine, fitting_data, None))?;
    Ok(judged.map(|judged| (CompressionReport { judged, ..small.report }, seconds)))
}

/// Every method at one size.
fn methods(
    trained: &Trained,
    size: usize,
    console: &Console,
    stop: &StopSignal,
) -> anyhow::Result<Vec<Value>> {
    let mut rows = Vec::new();
    for method in METHODS {
        let goal = if method.starts_with("exact") { Goal::Own } else { Goal::Size(size) };
        let found = one(method, trained, goal, stop)?;
        stop.check()?;
        if !console.json {
            match &found {
                Ok((report, seconds)) => line(method, size, report, *seconds),
                Err(reason) => println!("  {method:<30} {size:>8} {reason}"),
            }
        }
        rows.push(match found {
            Ok((report, seconds)) => {
                let mut object = compress::object(&report, seconds);
                object["curve"] = Value::Null;
                object["asked"] = json!(size);
                object["of_training"] = json!(seconds / trained.report.seconds.max(1e-9));
                object
            }
            Err(reason) => json!({ "method": method, "asked": size, "refused": reason }),
        });
    }
    Ok(rows)
}

fn line(method: &str, size: usize, report: &CompressionReport, seconds: f64) {
    let judged = report.judged.as_ref();
    let share = |share: Option<f64>| share.map_or(String::new(), |x| format!("{:.2} %", 100.0 * x));
    println!(
        "  {method:<30} {size:>8} {:>8} {:>12.4e} {:>14} {:>10} {seconds:>9.3}",
        report.after,
        report.error.relative,
        share(judged.map(Judged::disagreement)),
        share(judged.and_then(Judged::certified_share)),
    );
}

/// The certified cascade at each size against exact answers, in a batch.
fn cascades(
    task: &Task,
    trained: &Trained,
    repeats: u32,
    console: &Console,
    stop: &StopSignal,
) -> anyhow::Result<Vec<Value>> {
    let (machine, queries) = (&trained.machine, &trained.queries);
    let exact = Plan::exact(machine);
    let truth = exact.decide(queries)?;
    let mut rows = Vec::new();
    for size in &task.sizes {
        let text = format!("cascade(compressed({size}), exact)");
        let watch = |_: Progress| stop.check().is_ok();
        let fitting_data = FittingData::default();
        let sections = compile_with(machine, &text.parse()?, fitting_data, Watch::new(&watch));
        stop.check()?;
        let Ok(sections) = sections else { continue };
        let plan = Plan::load(machine, &sections)?;
        let answers = plan.decide(queries)?;
        let pairs = answers.iter().zip(&truth);
        let others = pairs.filter(|(own, exact)| own.answer != exact.answer).count();
        let proved = answers.iter().filter(|d| d.certainty == Certainty::Certified).count();
        let count = queries.rows();
        // By turns, so that both meet the same noise.
        let (mut own, mut whole) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..repeats.max(1) {
            own = own.min(best_us(1, count, || drop(plan.decide(queries))));
            whole = whole.min(best_us(1, count, || drop(exact.decide(queries))));
        }
        let (ratio, share) = (whole / own, proved as f64 / count.max(1) as f64);
        if !console.json {
            println!(
                "  {text:<40} {:.2} % certified, {others} other labels, {own:.2} us against {whole:.2} us exact: {ratio:.1}x",
                100.0 * share,
            );
        }
        rows.push(json!({
            "plan": text, "certified": share, "disagreements": others, "microseconds": own,
            "exact_microseconds": whole, "speedup": ratio,
        }));
    }
    Ok(rows)
}
