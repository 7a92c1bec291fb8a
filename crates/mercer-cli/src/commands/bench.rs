//! `mercer bench`: times a model's plan and its exact machine on a file of queries.

use anyhow::Context;
use mercer::data::Matrix;
use mercer::query::{Plan, QueryOptions};
use mercer_report::timing::PlanTimes;
use serde_json::json;

use super::{StopSignal, compile, input_options, load};
use crate::args::Bench;
use crate::console::Console;
use crate::failure::DONE;
use crate::queries::Queries;

pub(super) fn run(bench: &Bench, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let model = load(&bench.model, console)?;
    let source = || bench.input.data.display().to_string();
    let options = input_options(&bench.input);
    let data = Queries::read_all(&bench.input.data, options, &model, console)?;
    let rows = &data.examples;
    let exact = Plan::exact(&model.machine);
    let truth = exact.decide(rows).with_context(source)?;
    stop.check()?;
    let times = measure(&exact, rows, bench)?;
    stop.check()?;
    let (supports, features) = (model.machine.supports().rows(), model.machine.columns());
    let live = exact.exact_stage().packed().live_columns();
    let threads = rayon::current_num_threads();
    let isa = mercer::simd::Isa::current();
    let mut object = json!({
        "exact_batch_us": times.batch, "exact_single_us": times.single,
        "exact_batch_us_all_threads": times.batch_all_threads,
        "queries": rows.rows(), "supports": supports, "features": features,
        "live_columns": live, "threads": threads, "instruction_set": isa.name(),
    });
    if !console.json {
        let count = rows.rows();
        println!("{count} queries, {supports} supports, {features} columns ({live} used), {isa}");
        println!("microseconds per query, best of {}:", bench.repeats);
        print("exact", &times, threads, None);
    }
    if model.plan.is_some() {
        let plan = Plan::of(&model)?;
        let answers = plan.decide_with(rows, &QueryOptions::default()).with_context(source)?;
        let pairs = truth.iter().zip(&answers.decisions);
        let disagreements = pairs.filter(|(a, b)| a.answer != b.answer).count();
        let plan_times = measure(&plan, rows, bench)?;
        if console.json {
            let names = plan.stages().iter().map(|stage| stage.spec().to_string());
            let names = names.chain(["exact".to_owned()]);
            let settled: serde_json::Map<String, serde_json::Value> =
                names.zip(answers.settled_by_stage.iter().map(|count| json!(count))).collect();
            object["plan"] = json!(plan.spec().to_string());
            object["plan_batch_us"] = json!(plan_times.batch);
            object["plan_single_us"] = json!(plan_times.single);
            object["plan_batch_us_all_threads"] = json!(plan_times.batch_all_threads);
            object["disagreements"] = json!(disagreements);
            object["settled_by_stage"] = settled.into();
            object["mean_cost"] = json!(answers.mean_cost());
            if let Some(calibration) = plan.calibration() {
                object["calibration"] = compile::value(calibration);
            }
        } else {
            println!("{}", plan.spec());
            print("plan", &plan_times, threads, Some(&times));
            let settled: Vec<String> =
                answers.settled_by_stage.iter().map(ToString::to_string).collect();
            println!("  settled by stage              {}", settled.join(", "));
            let cost = answers.mean_cost();
            let gain = exact.exact_stage().cost().multiply_adds as f64 / cost;
            println!(
                "  mean cost                     {cost:10.0} multiply-adds   {gain:.2}x fewer"
            );
            println!("  disagreements with exact      {disagreements:10}");
            if let Some(calibration) = plan.calibration() {
                println!("  {}", compile::sentence(calibration));
            }
        }
    }
    if console.json {
        println!("{object}");
    }
    Ok(DONE)
}

fn print(name: &str, times: &PlanTimes, threads: usize, baseline: Option<&PlanTimes>) {
    let line = |what: &str, time: f64, exact: Option<f64>| {
        let gain = exact.map_or(String::new(), |exact| format!("   {:.2}x", exact / time));
        println!("  {:30}{time:10.2}{gain}", format!("{name}, {what}"));
    };
    line("batch, one thread", times.batch, baseline.map(|b| b.batch));
    let all = format!("batch, {threads} threads");
    line(&all, times.batch_all_threads, baseline.map(|b| b.batch_all_threads));
    line("one query at a time", times.single, baseline.map(|b| b.single));
}

/// Times a plan on these rows with the options of the command line.
fn measure(plan: &Plan, rows: &Matrix, bench: &Bench) -> anyhow::Result<PlanTimes> {
    PlanTimes::measure(plan, rows, bench.repeats, bench.single_queries)
}
