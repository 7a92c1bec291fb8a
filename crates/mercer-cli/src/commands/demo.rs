use std::io::Cursor;

use anyhow::Context;
use mercer::compile::compile;
use mercer::data::{Dataset, Matrix, Targets, read};
use mercer::machine::{Answer, Machine, Model, file};
use mercer::query::{Certainty, Plan};
use mercer::train::{Training, formulation, train};
use serde_json::{Value, json};

use super::bench::{Times, times};
use crate::console::Console;
use crate::failure::DONE;
use crate::labels::Fit;

/// A machine trained by LIBSVM on the first 1,200 of 1,797 handwritten digits.
static LIBSVM_MODEL: &[u8] = include_bytes!("../../../../datasets/digits/digits.model");
static DIGITS: &[u8] = include_bytes!("../../../../datasets/digits/digits.csv.gz");
const TRAINING_ROWS: usize = 1200;

/// One line of the table.
struct Row {
    machine: &'static str,
    plan: String,
    accuracy: f64,
    certified: f64,
    disagreements: usize,
    times: Times,
}

pub(super) fn run(console: &Console) -> anyhow::Result<u8> {
    let (training, queries) = digits()?;
    let imported = file::from_bytes(LIBSVM_MODEL)?;
    let own = changed(&imported, "mercer", &queries)?;
    let text = changed(&imported, "libsvm", &queries)?;
    let start = std::time::Instant::now();
    let rbf = learn(&training, "rbf(gamma=0.001)")?;
    let seconds = start.elapsed().as_secs_f64();
    let degree_2 = learn(&training, "polynomial(degree=2, gamma=0.01, coef0=1)")?;
    let differing = differing(&imported.machine, &rbf, &queries.examples)?;
    let rows = [
        measure("LIBSVM's, rbf", &imported.machine, "exact", &queries)?,
        measure("ours, rbf", &rbf, "exact", &queries)?,
        measure("ours, rbf", &rbf, "cascade(low_precision, exact)", &queries)?,
        measure("ours, degree 2", &degree_2, "exact", &queries)?,
        measure("ours, degree 2", &degree_2, "cascade(spectral, exact)", &queries)?,
    ];
    if console.json {
        let object = json!({
            "queries": queries.examples.rows(), "changed_by_own_format": own,
            "changed_by_libsvm_format": text, "training_seconds": seconds,
            "labels_unlike_libsvm": differing,
            "rows": rows.iter().map(object).collect::<Vec<Value>>(),
        });
        println!("{object}");
        return Ok(DONE);
    }
    let supports = imported.machine.supports().rows();
    println!("A LIBSVM model of handwritten digits: {supports} supports, 10 classes, 45 duels.");
    println!("  labels changed by writing it as a mercer file: {own}; as LIBSVM text: {text}");
    println!("Trained here on the same {TRAINING_ROWS} digits in {seconds:.2} s:");
    println!("  labels unlike LIBSVM's on {} new digits: {differing}", queries.examples.rows());
    println!("Asked about the new digits (microseconds per query, best of 5):\n");
    println!(
        "{:15} {:30} {:>8} {:>9} {:>8} {:>8} {:>8}",
        "machine", "plan", "accuracy", "certified", "disagree", "batch", "single"
    );
    for row in &rows {
        println!(
            "{:15} {:30} {:>7.2}% {:>8.1}% {:>8} {:>8.2} {:>8.2}",
            row.machine,
            row.plan,
            100.0 * row.accuracy,
            100.0 * row.certified,
            row.disagreements,
            row.times.batch,
            row.times.single,
        );
    }
    println!("\nTry it on your own model: mercer import your.model -o your.mercer");
    Ok(DONE)
}

fn object(row: &Row) -> Value {
    json!({
        "machine": row.machine, "plan": row.plan, "accuracy": row.accuracy,
        "certified": row.certified, "disagreements": row.disagreements,
        "batch_us": row.times.batch, "single_us": row.times.single,
        "batch_us_all_threads": row.times.batch_all_threads,
    })
}

/// The bundled digits: rows to learn from, rows to ask about.
fn digits() -> anyhow::Result<(Dataset, Dataset)> {
    let options = read::Options::default();
    let mut chunks = read::from_packed(Cursor::new(DIGITS), "digits.csv.gz", &options)?;
    let all = read::whole(&mut *chunks)?;
    let Targets::Numbers(targets) = &all.targets else {
        anyhow::bail!("the bundled digits have lost their labels")
    };
    let part = |rows: std::ops::Range<usize>| Dataset {
        examples: all.examples.select(rows.clone()),
        targets: Targets::Numbers(targets[rows].to_vec()),
        names: None,
    };
    Ok((part(0..TRAINING_ROWS), part(TRAINING_ROWS..all.examples.rows())))
}

fn learn(data: &Dataset, kernel: &str) -> anyhow::Result<Machine> {
    let kernel = mercer::kernel::parse(kernel)?;
    let c_svc = formulation("c_svc(C=10)")?;
    Ok(train(data, &kernel, &c_svc, &Training::default(), &mut |_| {})?.machine)
}

fn measure(
    name: &'static str,
    machine: &Machine,
    plan: &str,
    queries: &Dataset,
) -> anyhow::Result<Row> {
    let sections = compile(machine, &plan.parse()?, None)?;
    let compiled = Plan::load(machine, &sections)?;
    let decisions = compiled.decide(&queries.examples)?;
    let truth = Plan::exact(machine).decide(&queries.examples)?;
    let answers: Vec<Answer> = decisions.iter().map(|decision| decision.answer).collect();
    let mut fit = Fit::default();
    fit.add(machine, &answers, &queries.targets);
    let certified = decisions.iter().filter(|d| d.certainty == Certainty::Certified).count();
    Ok(Row {
        machine: name,
        plan: plan.to_owned(),
        accuracy: fit.accuracy(),
        certified: certified as f64 / decisions.len() as f64,
        disagreements: truth.iter().zip(&decisions).filter(|(a, b)| a.answer != b.answer).count(),
        times: times(&compiled, &queries.examples, 5, 597)?,
    })
}

/// How many labels two machines do not share; both name the digits 0 to 9, maybe in another order.
fn differing(a: &Machine, b: &Machine, rows: &Matrix) -> anyhow::Result<usize> {
    let names = |machine: &Machine| -> anyhow::Result<Vec<String>> {
        let decisions = Plan::exact(machine).decide(rows)?;
        Ok(decisions.iter().map(|d| crate::labels::text(machine, d.answer)).collect())
    };
    Ok(names(a)?.iter().zip(&names(b)?).filter(|(a, b)| a != b).count())
}

/// How many labels change when the model is written in a format and read back.
fn changed(model: &Model, format: &str, queries: &Dataset) -> anyhow::Result<usize> {
    let format = file::format(format).with_context(|| format!("no format '{format}'"))?;
    let again = file::from_bytes(&file::to_bytes(model, format)?)?;
    differing(&model.machine, &again.machine, &queries.examples)
}
