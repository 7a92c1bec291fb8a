//! How stable the limit is that a time becomes on a real clock: the digits are tuned several times under each budget, and what
//! came of it is asked one query at a time.
//!
//! `cargo run --release -p mercer --example budgets [-- BUDGET_US ...]` prints a line for each tuning (2 and 6 us, five times each;
//! less than two minutes): the limit of cost, the share of other queries that it leaves unsettled, how long a query takes (median
//! and 99th percentile), and the plan. What a limit means is in `mercer_query::CostTimes`.

use std::path::Path;
use std::time::{Duration, Instant};

use mercer::compile::CompileError;
use mercer::data::{Matrix, read};
use mercer::machine::{Machine, Model, file};
use mercer::query::{Certainty, Plan, QueryOptions};
use mercer::tune::{Aim, Tuner};

type Failure = Box<dyn std::error::Error>;

/// Tunings under each budget; they differ by the clock alone.
const TUNINGS: usize = 5;
/// Time limit of each.
const LIMIT: Duration = Duration::from_secs(8);
/// Queries to tune with; the others are asked.
const SAMPLE: usize = 400;
/// How often each query is asked; all times count.
const ROUNDS: usize = 20;

fn main() -> Result<(), Failure> {
    let given =
        std::env::args().skip(1).map(|text| text.parse()).collect::<Result<Vec<f64>, _>>()?;
    let budgets = if given.is_empty() { vec![2.0, 6.0] } else { given };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/digits");
    let machine = file::load(&folder.join("digits.model"))?.machine;
    let options = read::Options::default();
    let rows = read::dataset(&folder.join("queries.svm"), &options)?.examples;
    let (sample, asked) = (rows.select(0..SAMPLE), rows.select(SAMPLE..rows.rows()));
    let exact = times(&Plan::exact(&machine), &asked, &QueryOptions::default())?;
    println!(
        "{} queries to tune with, {} to ask; exact {}",
        sample.rows(),
        asked.rows(),
        text(&exact)
    );
    for budget in budgets {
        for number in 1..=TUNINGS {
            println!(
                "{budget} us, tuning {number}: {}",
                tuned(machine.clone(), &sample, &asked, budget)?
            );
        }
    }
    Ok(())
}

/// What one tuning gives.
fn tuned(
    machine: Machine,
    sample: &Matrix,
    asked: &Matrix,
    budget: f64,
) -> Result<String, Failure> {
    let tuner = Tuner::new(&machine, sample).aim(Aim::Latency).time_limit(LIMIT).unsettled(1.0);
    let sections = match tuner.budget_us(Some(budget)).run() {
        Ok(tuned) => tuned.sections,
        Err(error @ CompileError::BudgetNotMet { .. }) => return Ok(error.to_string()),
        Err(error) => return Err(error.into()),
    };
    let plan = Plan::fitted(&machine, &sections)?;
    let model = Model { plan: Some(sections), ..Model::from(machine) };
    let options = QueryOptions::of(&model, &plan);
    let decisions = plan.decide_with(asked, &options)?.decisions;
    let open = decisions.iter().filter(|found| found.certainty == Certainty::Unsettled).count();
    let share = 100.0 * open as f64 / decisions.len() as f64;
    let limit = options.budget.unwrap_or(u64::MAX);
    let times = text(&times(&plan, asked, &options)?);
    Ok(format!("limit {limit}, {share:.1} % unsettled, {times}, {}", plan.spec()))
}

/// Microseconds of single queries, in order of size.
fn times(plan: &Plan, rows: &Matrix, options: &QueryOptions) -> Result<Vec<f64>, Failure> {
    let mut worker = plan.worker();
    let mut times = Vec::with_capacity(ROUNDS * rows.rows());
    for row in (0..ROUNDS).flat_map(|_| 0..rows.rows()) {
        let start = Instant::now();
        std::hint::black_box(worker.decide(rows, row..row + 1, options)?);
        times.push(1e6 * start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn text(times: &[f64]) -> String {
    let at = |share: f64| times[(share * (times.len() - 1) as f64) as usize];
    format!("p50 {:.2} us, p99 {:.2} us", at(0.5), at(0.99))
}
