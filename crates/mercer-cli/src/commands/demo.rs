use std::io::Cursor;

use mercer::data::{Targets, read};
use mercer::machine::{Answer, Model, file};
use mercer::query::{Certainty, Plan};
use serde_json::json;

use super::bench::times;
use crate::console::Console;
use crate::failure::DONE;
use crate::labels::Fit;

/// A machine trained by LIBSVM on 1,200 handwritten digits, and 597 others to ask it about.
static MODEL: &[u8] = include_bytes!("../../../../datasets/digits/digits.model");
static QUERIES: &[u8] = include_bytes!("../../../../datasets/digits/queries.svm");

pub(super) fn run(console: &Console) -> anyhow::Result<u8> {
    let model = file::from_bytes(MODEL)?;
    let machine = &model.machine;
    let mut chunks =
        read::from_reader(Cursor::new(QUERIES), "queries.svm", &read::Options::default())?;
    let mut rows = None;
    while let Some(chunk) = chunks.next_chunk(1 << 16)? {
        rows = Some(chunk);
    }
    let data = rows.ok_or_else(|| anyhow::anyhow!("the bundled queries are empty"))?;
    let plan = Plan::exact(machine);
    let decisions = plan.decide(&data.examples)?;
    let answers: Vec<Answer> = decisions.iter().map(|decision| decision.answer).collect();
    let mut fit = Fit::default();
    fit.add(machine, &answers, &data.targets);
    let exact = decisions.iter().filter(|d| d.certainty == Certainty::Exact).count();
    let (own, text) = (changed(&model, "mercer", &data)?, changed(&model, "libsvm", &data)?);
    let times = times(&plan, &data.examples, 5, 597)?;
    let (supports, source) = (machine.supports().rows(), model.provenance.source_supports);
    if console.json {
        let object = json!({
            "queries": decisions.len(), "supports": supports, "accuracy": fit.accuracy(),
            "exact": exact, "changed_by_own_format": own, "changed_by_libsvm_format": text,
            "exact_batch_us": times.batch, "exact_single_us": times.single,
            "exact_batch_us_all_threads": times.batch_all_threads,
        });
        println!("{object}");
        return Ok(DONE);
    }
    println!(
        "A LIBSVM model of handwritten digits ({}), read from its text file:",
        machine.kernel().spec()
    );
    println!(
        "  {} classes, {} duels, {supports} distinct supports ({} in the file)",
        machine.classes().len(),
        machine.scores().len(),
        source.unwrap_or(supports),
    );
    println!("Asked about {} digits it has not seen:", decisions.len());
    println!("  accuracy                        {:8.2} %", 100.0 * fit.accuracy());
    println!("  answers marked exact            {exact:8}");
    println!("  labels changed by mercer file   {own:8}");
    println!("  labels changed by LIBSVM text   {text:8}");
    println!("Microseconds per query (best of 5):");
    println!("  batch, one thread               {:8.2}", times.batch);
    println!("  batch, all threads              {:8.2}", times.batch_all_threads);
    println!("  one query at a time             {:8.2}", times.single);
    println!("Try it on your own model: mercer import your.model -o your.mercer");
    Ok(DONE)
}

/// How many labels change when the model is written in a format and read back.
fn changed(model: &Model, format: &str, data: &mercer::data::Dataset) -> anyhow::Result<usize> {
    let format = file::format(format).ok_or_else(|| anyhow::anyhow!("no format '{format}'"))?;
    let again = file::from_bytes(&file::to_bytes(model, format)?)?;
    let (before, after) = (Plan::exact(&model.machine), Plan::exact(&again.machine));
    let (before, after) = (before.decide(&data.examples)?, after.decide(&data.examples)?);
    debug_assert!(matches!(data.targets, Targets::Numbers(_)));
    Ok(before.iter().zip(&after).filter(|(a, b)| a.answer != b.answer).count())
}
