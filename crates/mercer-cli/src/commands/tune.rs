mod page;

use std::fmt::Write as _;

use anyhow::Context;
use mercer::compile::{CompileError, Progress, Watch};
use mercer::data::read::Options;
use mercer::machine::{Model, Tuning, file};
use mercer::tune::{Aim, Point, Tuned, Tuner};
use serde_json::{Value, json};

use super::{StopSignal, compile, load};
use crate::args::{AimName, Tune};
use crate::console::Console;
use crate::failure::{DONE, Interrupted};
use mercer_report::save_text;
use crate::queries::Queries;

pub(super) use page::page;

pub(super) fn run(arguments: &Tune, seed: u64, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let model = load(&arguments.model, console)?;
    let read = |path| Queries::whole(path, Options::default(), &model, console);
    let sample = read(&arguments.sample)?;
    let training = arguments.training.as_deref().map(read).transpose()?;
    let status = console.status();
    let watch = |progress: Progress| {
        let Progress { what, done, most } = progress;
        status.set_message(format!("{what}: {done} of {most}"));
        stop.check().is_ok()
    };
    let tuned = Tuner::new(&model.machine, &sample.examples)
        .training(training.as_ref().map(|data| &data.examples))
        .contract(arguments.contract)
        .aim(match arguments.aim {
            AimName::Latency => Aim::Latency,
            AimName::Throughput => Aim::Throughput,
        })
        .budget_us(arguments.budget_us)
        .tolerance(arguments.tolerance)
        .time_limit(arguments.time_limit)
        .seed(seed)
        .trust_sample(arguments.trust_sample)
        .watch(Watch::new(&watch))
        .run();
    status.finish_and_clear();
    let Tuned { sections, points } = match tuned {
        Err(CompileError::Ended) => return Err(Interrupted.into()),
        other => other?,
    };
    let tuned = Model { plan: Some(sections), ..model };
    let own = file::format("mercer").context("the mercer format is always registered")?;
    file::save(&tuned, own, &arguments.output)
        .with_context(|| arguments.output.display().to_string())?;
    let tuning = tuned.plan.as_ref().and_then(|plan| plan.tuning.as_deref());
    let tuning = tuning.context("a tuned plan has a record")?;
    if let Some(path) = &arguments.report {
        let name = arguments.model.file_stem().unwrap_or_default().to_string_lossy();
        save_text(path, &page(&name, &tuned, tuning, &points))?;
    }
    if tuning.sample.repeated > 0 {
        console.warn(&format!(
            "{} rows of the sample equal supports of the machine: is it training data?",
            tuning.sample.repeated
        ));
    }
    if console.json {
        let mut object = value(&tuned, tuning)?;
        object["difficulty"] = difficulty(&points);
        println!("{object}");
    } else {
        story(&tuned, tuning).iter().for_each(|line| println!("{line}"));
    }
    Ok(DONE)
}

/// The record as JSON, with the plan and its calibration.
pub(super) fn value(model: &Model, tuning: &Tuning) -> anyhow::Result<Value> {
    let mut object = serde_json::to_value(tuning)?;
    let plan = model.plan.as_ref();
    object["spec"] = json!(plan.map(|plan| &plan.spec));
    object["calibration"] =
        json!(plan.and_then(|plan| plan.calibration.as_ref()).map(compile::value));
    object["guarantee"] = json!(guarantee(model, tuning));
    Ok(object)
}

/// What the plan promises, in words.
pub(super) fn guarantee(model: &Model, tuning: &Tuning) -> String {
    let plan = model.plan.as_ref();
    let calibration = plan.and_then(|plan| plan.calibration.as_ref());
    let is_exact = plan.is_none_or(|plan| plan.sections.is_empty());
    let mut text = if let Some(calibration) = calibration {
        compile::sentence(calibration)
    } else if is_exact {
        "every answer is the specified evaluation in doubles".to_owned()
    } else if let Some(tolerance) = tuning.tolerance {
        format!("every value lies within {tolerance} of the machine's, proved, rounding included")
    } else {
        "every label is the exact one: proved, rounding included, or evaluated exactly".to_owned()
    };
    if let Some(budget) = &tuning.budget {
        let _ = write!(
            text,
            "; a query gets {} multiply-adds ({} us at {} a microsecond), and is marked unsettled \
             if that does not suffice",
            budget.multiply_adds, budget.microseconds, budget.rate,
        );
    }
    text
}

/// What the promise means, and what it does not.
pub(super) fn meaning(model: &Model) -> &'static [&'static str] {
    let plan = model.plan.as_ref();
    if plan.is_some_and(|plan| plan.calibration.is_some()) {
        return &[
            "Calibrated: the promise belongs to the plan, over all its queries. It was tested on queries \
             like yours; it holds for queries from the same source, prepared the same way. When the source \
             drifts it is void: tune again on a new sample.",
            "It says nothing about one query. Ask with --require certified where one answer must be proved.",
        ];
    }
    if plan.is_none_or(|plan| plan.sections.is_empty()) {
        return &[
            "Exact: same model, same row, same bits, on any machine, batch and thread count.",
        ];
    }
    &[
        "Certified: a range that provably contains the score, rounding included, lies on one side of \
         every change of label. No sample is involved in the proof: it holds for every query, whatever its \
         source. Queries that no stage can settle are evaluated exactly.",
    ]
}

/// Tenths of the test, from the hardest to the easiest queries, with their mean cost.
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

/// What was found, line by line; `inspect` tells the same.
pub(super) fn story(model: &Model, tuning: &Tuning) -> Vec<String> {
    let Tuning { exact, plan, verification, sample, .. } = tuning;
    let spec = model.plan.as_ref().map_or("exact", |plan| plan.spec.as_str());
    let mut lines = vec![
        format!("contract       {}, for {}", tuning.contract, tuning.aim),
        format!("plan           {spec}"),
        format!("why            {}", tuning.reason),
        format!("promise        {}", guarantee(model, tuning)),
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
        "cost           {:.0} of {} multiply-adds a query, {fewer:.1}x fewer",
        verification.mean_cost, verification.exact_cost,
    ));
    lines.push(format!(
        "tested on      {} queries not looked at before: {} unlike exact",
        verification.queries, verification.differences,
    ));
    lines.push(format!(
        "sample         {} rows: {} fitted, {} measured, {} tested; seed {}, {} threads, {}",
        sample.rows,
        sample.fitted,
        sample.scaled + sample.measured,
        sample.verified,
        tuning.seed,
        tuning.threads,
        tuning.instruction_set,
    ));
    let early = if tuning.stopped { "; the time limit ended the search" } else { "" };
    let dropped = tuning.tried.iter().filter(|trial| trial.dropped).count();
    lines.push(format!(
        "tried          {} plans, {dropped} dropped early; {} stages refused{early}",
        tuning.tried.len(),
        tuning.refused.len(),
    ));
    lines
}
