//! `mercer demo`: imports, trains and tunes on data that are part of the program. Nothing is downloaded; times depend
//! on the computer.

mod digits;
mod libsvm;
mod page;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use mercer::compile::risk::Target;
use mercer::compile::{CompileError, Progress, Watch};
use mercer::data::{Dataset, Matrix, synthetic};
use mercer::machine::{Answer, Machine};
use mercer::query::{Certainty, Plan, QueryOptions};
use mercer::train::{Training, formulation, train};
use mercer::tune::{Contract, Tuner};
use mercer_report::timing::PlanTimes;
use serde_json::{Value, json};

use super::StopSignal;
use crate::args::Demo;
use crate::console::Console;
use crate::failure::{DONE, Interrupted};
use crate::labels::Fit;
use crate::output::save_text;

use digits::{digits, noisy};
use page::DemoPage;

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

pub(super) fn run(demo: &Demo, seed: u64, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let (training, held_out) = digits()?;
    let report = report_file(demo)?;
    let (machine, comparison) = libsvm::compare(&training, &held_out)?;
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
            let row = tune_row(task, contract, seed, &stop, console)?;
            if !console.json {
                print(&row);
            }
            rows.push(row);
        }
    }
    let findings = DemoPage {
        comparison: &comparison,
        training: &training,
        held_out: &held_out,
        task: &tasks[0],
        rows: &rows,
    };
    save_text(&report, &findings.page()?)?;
    let report = report.display();
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
    println!("Easy and hard digits, and how their ranges close: {report} (open it in a browser)");
    println!("Try it on your own model: mercer import your.model -o your.mercer");
    println!(
        "                          mercer tune your.mercer --sample queries.svm -o fast.mercer"
    );
    Ok(DONE)
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

fn train_on(data: &Dataset, kernel: &str, what: &str) -> anyhow::Result<Machine> {
    let kernel = mercer::kernel::parse(kernel)?;
    Ok(train(data, &kernel, &formulation(what)?, &Training::default(), &mut |_| {})?.machine)
}

/// Where the report goes if nobody says so: below `target/` in a clone of the sources, so that no file is left there; else into the
/// current folder.
fn default_report(current: &Path) -> PathBuf {
    const NAME: &str = "mercer-demo.html";
    let is_clone = |folder: &&Path| folder.join("crates/mercer-cli/Cargo.toml").is_file();
    match current.ancestors().find(is_clone) {
        Some(root) => root.join("target").join(NAME),
        None => NAME.into(),
    }
}

/// The report's file; its folder is made where it is the usual one.
fn report_file(demo: &Demo) -> anyhow::Result<PathBuf> {
    if let Some(file) = &demo.report {
        return Ok(file.clone());
    }
    let file = default_report(&std::env::current_dir().context("the current folder")?);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_goes_below_target_in_a_clone_and_here_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(default_report(root), Path::new("mercer-demo.html"));
        let package = root.join("crates/mercer-cli");
        std::fs::create_dir_all(&package).unwrap();
        std::fs::write(package.join("Cargo.toml"), "").unwrap();
        let inside = root.join("target/mercer-demo.html");
        assert_eq!(default_report(root), inside);
        assert_eq!(default_report(&root.join("docs/guide")), inside);
    }
}
