//! `mercer bench`: times a model's plan and its exact machine on a file of queries. How runs are timed is in
//! `mercer_report::timing`.

use anyhow::Context;
use mercer::data::Matrix;
use mercer::machine::{Answer, Model};
use mercer::query::{Answers, Certainty, Plan, QueryOptions};
use mercer_report::timing::PlanTimes;
use serde_json::{Value, json};

use super::{StopSignal, compile, features, input_options, live_columns, load, trust};
use crate::args::Bench;
use crate::console::Console;
use crate::failure::DONE;
use crate::queries::Queries;

pub(super) fn run(bench: &Bench, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let model = load(&bench.model, console)?;
    let has_plan = model.plan.is_some();
    let plan = trust::load(&bench.model, &model, bench.plan, console)?;
    let source = || bench.input.data.display().to_string();
    let options = bench.memory.limit(input_options(&bench.input));
    let data = Queries::read_all(&bench.input.data, options, &model, console)?;
    let rows = &data.examples;
    let exact = Plan::exact(&model.machine);
    let truth = exact.decide(rows).with_context(source)?;
    stop.check()?;
    let exact_times = measure(&exact, rows, &QueryOptions::default(), bench)?;
    stop.check()?;
    let mut object = exact_object(&model, &exact, rows, &exact_times);
    if !console.json {
        print_exact(&object, bench.repeats, &exact_times);
    }
    if has_plan {
        let query_options = QueryOptions::of(&model, &plan);
        let answers = plan.decide_with(rows, &query_options).with_context(source)?;
        let settled = truth.iter().zip(&answers.decisions);
        let settled = settled.filter(|(_, given)| given.certainty != Certainty::Unsettled);
        let tolerance = query_options.tolerance.unwrap_or(0.0);
        let differ = |a: Answer, b: Answer| match (a, b) {
            (Answer::Value(a), Answer::Value(b)) => (a - b).abs() > tolerance * (1.0 + 1e-9),
            _ => a != b,
        };
        let disagreements = settled.filter(|(a, b)| differ(a.answer, b.answer)).count();
        let times = measure(&plan, rows, &query_options, bench)?;
        let measured = MeasuredPlan { plan, answers, disagreements, times };
        if console.json {
            measured.add_to(&mut object);
            trust::describe(&measured.plan, bench.plan.trust_plan, &mut object);
        } else {
            measured.print(&exact_times);
        }
    }
    if console.json {
        println!("{object}");
    }
    Ok(DONE)
}

/// Times of exact answers, and what they depend on, as JSON.
fn exact_object(model: &Model, exact: &Plan, rows: &Matrix, times: &PlanTimes) -> Value {
    json!({
        "exact_batch_us": times.batch, "exact_single_us": times.single,
        "exact_batch_us_all_threads": times.batch_all_threads,
        "queries": rows.rows(), "supports": model.machine.supports().rows(),
        "features": features(model),
        "live_columns": live_columns(&model.machine, exact),
        "threads": rayon::current_num_threads(),
        "instruction_set": mercer::simd::Isa::current().name(),
    })
}

/// Prints what [`exact_object`] holds.
fn print_exact(object: &Value, repeats: u32, times: &PlanTimes) {
    println!(
        "{} queries, {} supports, {} columns ({} used), {}",
        object["queries"],
        object["supports"],
        object["features"],
        object["live_columns"],
        mercer::simd::Isa::current(),
    );
    println!("microseconds per query, best of {repeats}:");
    print("exact", times, None);
}

/// The plan of the model, with its answers and times.
struct MeasuredPlan {
    plan: Plan,
    answers: Answers,
    disagreements: usize,
    times: PlanTimes,
}

impl MeasuredPlan {
    fn add_to(&self, object: &mut Value) {
        let Self { plan, answers, disagreements, times } = self;
        let names = plan.stages().iter().map(|stage| stage.spec().to_string());
        let names = names.chain(["exact".to_owned()]);
        let settled: Vec<Value> = names
            .zip(&answers.settled_by_stage)
            .map(|(stage, queries)| json!({ "stage": stage, "queries": queries }))
            .collect();
        object["plan"] = json!(plan.spec().to_string());
        object["plan_batch_us"] = json!(times.batch);
        object["plan_single_us"] = json!(times.single);
        object["plan_batch_us_all_threads"] = json!(times.batch_all_threads);
        object["disagreements"] = json!(disagreements);
        object["settled_by_stage"] = settled.into();
        object["mean_cost"] = json!(answers.mean_cost());
        object["unsettled"] = json!(answers.unsettled);
        if let Some(calibration) = plan.calibration() {
            object["calibration"] = compile::value(calibration);
        }
    }

    fn print(&self, exact_times: &PlanTimes) {
        let Self { plan, answers, disagreements, times } = self;
        println!("{}", plan.spec());
        print("plan", times, Some(exact_times));
        let settled: Vec<String> =
            answers.settled_by_stage.iter().map(ToString::to_string).collect();
        println!("  settled by stage              {}", settled.join(", "));
        let cost = answers.mean_cost();
        let gain = plan.exact_stage().cost().multiply_adds as f64 / cost;
        println!("  mean cost                     {cost:10.0} multiply-adds   {gain:.2}x fewer");
        println!("  disagreements with exact      {disagreements:10}");
        if answers.unsettled > 0 {
            println!("  unsettled within the budget   {:10}", answers.unsettled);
        }
        if let Some(calibration) = plan.calibration() {
            println!("  {}", compile::sentence(calibration));
        }
    }
}

fn print(name: &str, times: &PlanTimes, baseline: Option<&PlanTimes>) {
    let threads = rayon::current_num_threads();
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
fn measure(
    plan: &Plan,
    rows: &Matrix,
    query_options: &QueryOptions,
    bench: &Bench,
) -> anyhow::Result<PlanTimes> {
    PlanTimes::measure(plan, rows, query_options, bench.repeats, bench.single_queries)
}
