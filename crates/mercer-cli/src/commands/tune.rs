//! `mercer tune`: finds the fastest plan that satisfies a contract. The HTML report is in `tune/page.rs`.

mod page;
pub(super) mod sets;

use std::fmt::Write as _;

use anyhow::Context;
use mercer::compile::Repeats;
use mercer::machine::{Model, Tuning};
use mercer::query::PlanTrust;
use mercer::tune::{Aim, Point, Tuned, Tuner};
use serde_json::{Value, json};

use super::fitting::{FittingRows, watched};
use super::{StopSignal, compile, load, save, trust};
use crate::args::{AimName, Tune};
use crate::console::Console;
use crate::failure::DONE;
use crate::output::save_text;

pub(super) use page::page;

pub(super) fn run(arguments: &Tune, seed: u64, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let model = load(&arguments.model, console)?;
    let Tune { sample, training, memory, .. } = arguments;
    let rows = FittingRows::read(Some(sample), training.as_deref(), *memory, &model, console)?;
    let rows = rows.data();
    let whole = rows.sample.context("a sample was read")?;
    let sets = sets::Sets::fit(&model, whole, rows.sample_labels, arguments.coverage, seed)?;
    let (sample, sample_labels) = sets::rest(sets.as_ref(), whole, rows.sample_labels);
    let (sample, sample_labels) = (sample.as_ref(), sample_labels.as_deref());
    let (tuned, _) = watched(console, &stop, |watch| {
        Tuner::new(&model.machine, sample)
            .training(rows.training)
            .sample_labels(sample_labels)
            .contract(arguments.contract)
            .aim(match arguments.aim {
                AimName::Latency => Aim::Latency,
                AimName::Throughput => Aim::Throughput,
            })
            .budget_us(arguments.budget_us)
            .unsettled(arguments.unsettled)
            .tolerance(arguments.tolerance)
            .time_limit(arguments.time_limit)
            .seed(seed)
            .trust_sample(arguments.trust_sample)
            .watch(watch)
            .run()
    })?;
    let Tuned { sections, points } = tuned;
    let conformal = sets.as_ref().map_or(model.conformal, |sets| Some(sets.fit.conformal));
    let tuned = Model { plan: Some(sections), conformal, ..model };
    save(&tuned, &arguments.output)?;
    if let Some(sections) = &tuned.plan {
        trust::remember(sections, PlanTrust::Everything, console);
    }
    trust::remember_sets(&tuned, console);
    let tuning = tuned.plan.as_ref().and_then(|plan| plan.tuning.as_deref());
    let tuning = tuning.context("a tuned plan has a record")?;
    if let Some(path) = &arguments.report {
        let name = arguments.model.file_stem().unwrap_or_default().to_string_lossy();
        save_text(path, &page(&name, &tuned, tuning, &points, sets.as_ref()))?;
    }
    let repeats = Repeats::count(&tuned.machine, sample, sample_labels);
    if repeats.are_training_rows() && !arguments.trust_sample {
        console.warn(&format!(
            "{} of {} rows of the sample equal supports of the machine; is the sample training data? (--trust-sample: it is not)",
            repeats.found, repeats.rows
        ));
    }
    if console.json {
        let mut object = value(&tuned, tuning);
        object["difficulty"] = difficulty(&points);
        if let Some(sets) = &sets {
            object["conformal"] = sets.object();
        }
        println!("{object}");
    } else {
        summary_lines(&tuned, tuning).iter().for_each(|line| println!("{line}"));
        if let Some(sets) = &sets {
            println!("{}", sets.sentence());
        }
    }
    Ok(DONE)
}

/// The tuning record as JSON, with the plan and its calibration.
fn value(model: &Model, tuning: &Tuning) -> Value {
    let mut object = tuning.to_json();
    let plan = model.plan.as_ref();
    object["plan"] = json!(plan.map(|plan| &plan.spec));
    object["calibration"] =
        json!(plan.and_then(|plan| plan.calibration.as_ref()).map(compile::value));
    object["guarantee"] = json!(guarantee(model, tuning));
    object
}

/// The guarantee of the plan in words.
pub(super) fn guarantee(model: &Model, tuning: &Tuning) -> String {
    let plan = model.plan.as_ref();
    let calibration = plan.and_then(|plan| plan.calibration.as_ref());
    let is_exact = plan.is_none_or(|plan| plan.sections.is_empty());
    let mut text = if let Some(calibration) = calibration {
        compile::sentence(calibration)
    } else if is_exact {
        "every answer is the exact evaluation in f64".to_owned()
    } else if let Some(tolerance) = tuning.tolerance {
        format!(
            "every value is certified to be within {tolerance} of the exact one, rounding included"
        )
    } else {
        "every label equals the exact one: it is certified, rounding included, or evaluated exactly"
            .to_owned()
    };
    if let Some(budget) = &tuning.budget {
        let _ = write!(
            text,
            "; each query has a budget of {} multiply-adds ({} us) and is marked unsettled if that is too little",
            budget.multiply_adds, budget.microseconds,
        );
    }
    text
}

/// What the guarantee means, and what it does not.
pub(super) fn meaning(model: &Model) -> &'static [&'static str] {
    let plan = model.plan.as_ref();
    if plan.is_some_and(|plan| plan.calibration.is_some()) {
        return &[
            "Calibrated: the guarantee is about the share of all queries. It was tested on the sample; it holds \
             for queries from the same distribution, prepared the same way. If the distribution changes, it no \
             longer holds: tune again on a new sample.",
            "It says nothing about a single query. Use --require certified where a single answer must be certified.",
        ];
    }
    if plan.is_none_or(|plan| plan.sections.is_empty()) {
        return &[
            "Exact: the same model and the same row give the same bits on any computer, in any batch, with any \
             number of threads.",
        ];
    }
    &[
        "Certified: a range that provably contains the score, rounding included, lies on one side of every \
         decision boundary. The proof uses no sample: it holds for every query from any source. Queries that \
         no stage can settle are evaluated exactly.",
    ]
}

/// Mean cost of each tenth of the test queries, from the hardest to the easiest.
fn difficulty(points: &[Point]) -> Value {
    let mut sorted: Vec<&Point> = points.iter().collect();
    sorted.sort_by(|a, b| a.margin.total_cmp(&b.margin));
    let size = sorted.len().div_ceil(10).max(1);
    let tenths = sorted.chunks(size).map(|part| {
        let cost: f64 = part.iter().map(|point| point.cost as f64).sum();
        let last = part.last().map_or(0.0, |point| point.margin);
        json!({
            "margin_up_to": last, "queries": part.len(), "mean_cost": cost / part.len() as f64,
        })
    });
    tenths.collect()
}

/// The result, line by line; `inspect` prints the same.
pub(super) fn summary_lines(model: &Model, tuning: &Tuning) -> Vec<String> {
    let Tuning { exact, plan, verification, sample, .. } = tuning;
    let spec = model.plan.as_ref().map_or("exact", |plan| plan.spec.as_str());
    let mut lines = vec![
        format!("contract       {}, for {}", tuning.contract, tuning.aim),
        format!("plan           {spec}"),
        format!("why            {}", tuning.reason),
        format!("guarantee      {}", guarantee(model, tuning)),
    ];
    let line = |what: &str, before: f64, after: f64, unit: &str, gain: f64| {
        format!("{what:14} {before:.2} -> {after:.2} {unit}, {gain:.2}x")
    };
    let (single, batch) = (exact.single_us / plan.single_us, exact.batch_us / plan.batch_us);
    lines.push(line("single query", exact.single_us, plan.single_us, "us", single));
    lines.push(line("batch", exact.batch_us, plan.batch_us, "us", batch));
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (before, after) = (mib(exact.bytes), mib(plan.bytes));
    lines.push(format!("memory         {before:.2} -> {after:.2} MiB"));
    let share = |count: u64| 100.0 * count as f64 / verification.queries.max(1) as f64;
    let stages = verification
        .stages
        .iter()
        .map(|stage| format!("{} {:.1} %", stage.stage, share(stage.queries)));
    lines.push(format!("settled by     {}", stages.collect::<Vec<_>>().join(", ")));
    if verification.unsettled > 0 {
        lines.push(format!("unsettled      {:.1} %", share(verification.unsettled)));
    }
    let fewer = verification.exact_cost as f64 / verification.mean_cost.max(1.0);
    lines.push(format!(
        "cost           {:.0} of {} multiply-adds per query, {fewer:.1}x fewer",
        verification.mean_cost, verification.exact_cost,
    ));
    lines.push(format!(
        "test           {} queries not used before: {} disagreements with exact",
        verification.queries, verification.disagreements,
    ));
    lines.push(format!(
        "sample         {} rows: {} to fit, {} to compare plans, {} to test; seed {}, {} threads, {}",
        sample.rows,
        sample.fitted,
        sample.measured,
        sample.verified,
        tuning.seed,
        tuning.threads,
        tuning.instruction_set,
    ));
    let early = if tuning.stopped { "; the time limit stopped the search" } else { "" };
    let dropped = tuning.tried.iter().filter(|trial| trial.dropped).count();
    lines.push(format!(
        "tried          {} plans, {dropped} dropped early; {} stages not applicable{early}",
        tuning.tried.len(),
        tuning.refused.len(),
    ));
    lines
}
