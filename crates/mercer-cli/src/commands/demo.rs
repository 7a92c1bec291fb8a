//! `mercer demo`: imports, trains and tunes on data that are part of the program. Nothing is downloaded; times depend
//! on the computer.

use std::io::Cursor;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use mercer::compile::risk::Target;
use mercer::compile::{CompileError, Progress, Watch};
use mercer::data::{Dataset, Matrix, Targets, read, synthetic};
use mercer::machine::{Answer, Machine, Model, file};
use mercer::query::{Certainty, Plan, QueryOptions};
use mercer::train::{Training, formulation, train};
use mercer::tune::{Contract, Tuner};
use mercer_report::timing::PlanTimes;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};

use super::{StopSignal, tune};
use crate::args::Demo;
use crate::console::Console;
use crate::failure::{DONE, Interrupted};
use crate::labels::Fit;
use crate::output::save_text;

/// A machine trained by LIBSVM on the first 1,200 of 1,797 handwritten digits.
static LIBSVM_MODEL: &[u8] = mercer_datasets::DIGITS_MODEL;
static DIGITS: &[u8] = mercer_datasets::DIGITS;
const TRAINING_ROWS: usize = 1200;
/// Queries to tune on: enough for a risk of 1 in 1,000.
const SAMPLE: usize = 6000;
/// Test queries, not used for tuning.
const UNSEEN: usize = 2000;
/// Time limit of each of the six tunings.
const TIME_LIMIT: Duration = Duration::from_secs(8);

/// One line of the table.
struct DemoRow {
    machine: &'static str,
    contract: Contract,
    plan: String,
    accuracy: f64,
    disagreements: usize,
    /// Exact, certified, calibrated.
    shares: [f64; 3],
    times: PlanTimes,
}

/// A machine with queries to tune on and queries to test on.
struct DemoTask {
    name: &'static str,
    machine: Machine,
    sample: Matrix,
    unseen: Dataset,
}

/// How the imported LIBSVM model and the machine trained here compare on held-out digits.
struct LibsvmComparison {
    supports: usize,
    /// Held-out digits.
    queries: usize,
    /// Labels that change when the LIBSVM model is written as a mercer file.
    changed_by_mercer: usize,
    /// Labels that change when it is written as LIBSVM text.
    changed_by_libsvm: usize,
    training_seconds: f64,
    /// Labels of the machine trained here that differ from those of the LIBSVM model.
    disagreements: usize,
}

pub(super) fn run(demo: &Demo, seed: u64, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let (training, held_out) = digits()?;
    let (machine, comparison) = compare_with_libsvm(&training, &held_out)?;
    let tasks = tasks(machine, &held_out, seed)?;
    if !console.json {
        comparison.print();
        println!(
            "Tuned on {SAMPLE} queries, tested on {UNSEEN} others (digits: held-out digits with noise; times in \
             microseconds per query, best of 5):"
        );
        println!();
        header();
    }
    let mut rows = Vec::new();
    for task in &tasks {
        for contract in contracts() {
            let row = tune_row(task, contract, seed, &stop, console, demo)?;
            if !console.json {
                print(&row);
            }
            rows.push(row);
        }
    }
    let report = demo.report.display();
    if console.json {
        let object = json!({
            "queries": comparison.queries,
            "changed_by_mercer_format": comparison.changed_by_mercer,
            "changed_by_libsvm_format": comparison.changed_by_libsvm,
            "training_seconds": comparison.training_seconds,
            "disagreements_with_libsvm": comparison.disagreements,
            "sample_rows": SAMPLE, "unseen_rows": UNSEEN,
            "results": rows.iter().map(object).collect::<Vec<Value>>(), "report": report.to_string(),
        });
        println!("{object}");
        return Ok(DONE);
    }
    println!();
    println!(
        "Why these plans were chosen, and what they guarantee: {report} (open it in a browser)"
    );
    println!("Try it on your own model: mercer import your.model -o your.mercer");
    println!(
        "                          mercer tune your.mercer --sample queries.svm -o fast.mercer"
    );
    Ok(DONE)
}

/// Trains a machine on the digits that LIBSVM had, and compares both.
fn compare_with_libsvm(
    training: &Dataset,
    held_out: &Dataset,
) -> anyhow::Result<(Machine, LibsvmComparison)> {
    let imported = file::from_bytes(LIBSVM_MODEL)?;
    let changed_by_mercer = changed(&imported, "mercer", held_out)?;
    let changed_by_libsvm = changed(&imported, "libsvm", held_out)?;
    let start = Instant::now();
    let machine = train_on(training, "rbf(gamma=0.001)", "c_svc(C=10)")?;
    let training_seconds = start.elapsed().as_secs_f64();
    let disagreements = differing(&imported.machine, &machine, &held_out.examples)?;
    let comparison = LibsvmComparison {
        supports: imported.machine.supports().rows(),
        queries: held_out.examples.rows(),
        changed_by_mercer,
        changed_by_libsvm,
        training_seconds,
        disagreements,
    };
    Ok((machine, comparison))
}

impl LibsvmComparison {
    fn print(&self) {
        let Self { supports, queries, changed_by_mercer, changed_by_libsvm, .. } = self;
        println!(
            "A LIBSVM model of handwritten digits: {supports} support vectors, 10 classes, 45 one-vs-one \
             classifiers."
        );
        println!(
            "  labels that change when it is written as a mercer file: {changed_by_mercer}; as LIBSVM text: \
             {changed_by_libsvm}"
        );
        let seconds = self.training_seconds;
        println!("Trained here on the same {TRAINING_ROWS} digits in {seconds:.2} s:");
        if self.disagreements == 0 {
            println!("  {queries} new digits: identical labels to LIBSVM");
        } else {
            println!("  {queries} new digits: {} labels differ from LIBSVM's", self.disagreements);
        }
    }
}

/// The machines to tune: digits, and two noisy classes of points in the plane.
fn tasks(digits: Machine, held_out: &Dataset, seed: u64) -> anyhow::Result<[DemoTask; 2]> {
    let crescents = train_on(&synthetic::ripley(2000, seed), "rbf(gamma=1)", "c_svc(C=1)")?;
    Ok([
        DemoTask {
            name: "digits, 10 classes",
            machine: digits,
            sample: noisy(held_out, SAMPLE, seed + 1)?.examples,
            unseen: noisy(held_out, UNSEEN, seed + 2)?,
        },
        DemoTask {
            name: "two columns, noisy",
            machine: crescents,
            sample: synthetic::ripley(SAMPLE, seed + 1).examples,
            unseen: synthetic::ripley(UNSEEN, seed + 2),
        },
    ])
}

fn contracts() -> [Contract; 3] {
    [Contract::Exact, Contract::Certified, Contract::Calibrated(Target::default())]
}

fn header() {
    println!(
        "{:19} {:33} {:>7} {:>7} {:>8} {:>6} {:>6} {:>6}  plan",
        "machine", "contract", "single", "batch", "accuracy", "disagr", "cert.", "calib."
    );
}

fn print(row: &DemoRow) {
    println!(
        "{:19} {:33} {:>7.2} {:>7.2} {:>7.2}% {:>6} {:>5.1}% {:>5.1}%  {}",
        row.machine,
        row.contract.to_string(),
        row.times.single,
        row.times.batch_all_threads,
        100.0 * row.accuracy,
        row.disagreements,
        100.0 * row.shares[1],
        100.0 * row.shares[2],
        row.plan,
    );
}

fn object(row: &DemoRow) -> Value {
    json!({
        "machine": row.machine, "contract": row.contract.to_string(), "plan": row.plan,
        "accuracy": row.accuracy, "disagreements": row.disagreements,
        "exact_share": row.shares[0], "certified_share": row.shares[1],
        "calibrated_share": row.shares[2],
        "batch_us": row.times.batch, "single_us": row.times.single,
        "batch_us_all_threads": row.times.batch_all_threads,
    })
}

/// Tunes a machine under a contract and tests it on queries that were not used for tuning.
fn tune_row(
    task: &DemoTask,
    contract: Contract,
    seed: u64,
    stop: &StopSignal,
    console: &Console,
    demo: &Demo,
) -> anyhow::Result<DemoRow> {
    let DemoTask { name, machine, sample, unseen } = task;
    let status = console.status();
    let watch = |progress: Progress| {
        status.set_message(format!("{name}, {contract}: {}", progress.what));
        stop.check().is_ok()
    };
    let tuned = Tuner::new(machine, sample)
        .contract(contract)
        .seed(seed)
        .time_limit(TIME_LIMIT)
        .watch(Watch::new(&watch))
        .run();
    status.finish_and_clear();
    let tuned = match tuned {
        Err(CompileError::Interrupted) => return Err(Interrupted.into()),
        other => other?,
    };
    let plan = Plan::fitted(machine, &tuned.sections)?;
    let decisions = plan.decide(&unseen.examples)?;
    let truth = Plan::exact(machine).decide(&unseen.examples)?;
    let answers: Vec<Answer> = decisions.iter().map(|decision| decision.answer).collect();
    let mut fit = Fit::default();
    fit.add(machine.classes(), &answers, &unseen.targets);
    let share = |kind: Certainty| {
        let count = decisions.iter().filter(|decision| decision.certainty == kind).count();
        count as f64 / decisions.len() as f64
    };
    if matches!(contract, Contract::Calibrated(_)) {
        // Each page replaces the one before; the last machine gains most from tuning.
        let model = Model { plan: Some(tuned.sections.clone()), ..Model::from(machine.clone()) };
        page(&demo.report, name, &model, &tuned)?;
    }
    Ok(DemoRow {
        machine: name,
        contract,
        plan: tuned.sections.spec.clone(),
        accuracy: fit.accuracy(),
        disagreements: truth.iter().zip(&decisions).filter(|(a, b)| a.answer != b.answer).count(),
        shares: [Certainty::Exact, Certainty::Certified, Certainty::Calibrated].map(share),
        times: PlanTimes::measure(&plan, &unseen.examples, &QueryOptions::default(), 5, 1000)?,
    })
}

fn page(path: &Path, name: &str, model: &Model, tuned: &mercer::tune::Tuned) -> anyhow::Result<()> {
    save_text(path, &tune::page(name, model, tuned.tuning(), &tuned.points, None))
}

/// The embedded digits: training rows and held-out rows.
fn digits() -> anyhow::Result<(Dataset, Dataset)> {
    let options = read::Options::default();
    let mut chunks = read::from_packed(Cursor::new(DIGITS), "digits.csv.gz", &options)?;
    let all = read::read_all(&mut *chunks)?;
    let Targets::Numbers(targets) = &all.targets else {
        anyhow::bail!("the embedded digits have no labels")
    };
    let part = |rows: std::ops::Range<usize>| Dataset {
        examples: all.examples.select(rows.clone()),
        targets: Targets::Numbers(targets[rows].to_vec()),
        names: None,
    };
    Ok((part(0..TRAINING_ROWS), part(TRAINING_ROWS..all.examples.rows())))
}

/// Digits drawn with noise, as many as are needed: a fifth of the pixels one shade darker or lighter.
fn noisy(digits: &Dataset, rows: usize, seed: u64) -> anyhow::Result<Dataset> {
    let Targets::Numbers(targets) = &digits.targets else {
        anyhow::bail!("the embedded digits have no labels")
    };
    let (columns, count) = (digits.examples.columns(), digits.examples.rows());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    let mut pixels = vec![0.0; columns];
    for _ in 0..rows {
        let digit = rng.random_range(0..count);
        digits.examples.row(digit).write_dense(&mut pixels);
        for pixel in &mut pixels {
            let shade = match rng.random_range(0..10) {
                0 => -1.0,
                1 => 1.0,
                _ => 0.0,
            };
            *pixel = (*pixel + shade).clamp(0.0, 16.0);
        }
        values.extend_from_slice(&pixels);
        labels.push(targets[digit]);
    }
    let examples = Matrix::dense(columns, values)?;
    Ok(Dataset { examples, targets: Targets::Numbers(labels), names: None })
}

fn train_on(data: &Dataset, kernel: &str, what: &str) -> anyhow::Result<Machine> {
    let kernel = mercer::kernel::parse(kernel)?;
    Ok(train(data, &kernel, &formulation(what)?, &Training::default(), &mut |_| {})?.machine)
}

/// On how many rows the labels of two machines differ; both have the classes 0 to 9, maybe in another order.
fn differing(a: &Machine, b: &Machine, rows: &Matrix) -> anyhow::Result<usize> {
    let names = |machine: &Machine| -> anyhow::Result<Vec<String>> {
        let decisions = Plan::exact(machine).decide(rows)?;
        Ok(decisions.iter().map(|d| crate::labels::text(machine.classes(), d.answer)).collect())
    };
    Ok(names(a)?.iter().zip(&names(b)?).filter(|(a, b)| a != b).count())
}

/// How many labels change when the model is written in a format and read back.
fn changed(model: &Model, format: &str, queries: &Dataset) -> anyhow::Result<usize> {
    let format = file::format(format).with_context(|| format!("no format '{format}'"))?;
    let again = file::from_bytes(&file::to_bytes(model, format)?)?;
    differing(&model.machine, &again.machine, &queries.examples)
}
