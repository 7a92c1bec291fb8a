//! Times a plan beside the exact one: `compare_plans MODEL DATA PLAN`, on one thread, both in turns, in processor time.
//! The plan `stored` is the one in the model file. Environment variables: with SAMPLE the rows are the sample of queries
//! and the training rows too, with DENSE they are dense, with SHORT the runs are so short that few are disturbed, with
//! PROFILE the plan runs alone, for a profiler. Not a benchmark of record: those are `cargo xtask bench`.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use mercer_compile::{FittingData, Watch, compile_with};
use mercer_data::{Matrix, read};
use mercer_machine::{Model, Output, file};
use mercer_query::{Certainty, Decision, Plan, QueryError, QueryOptions};

const RUNS: usize = 11;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, data, text] = arguments.as_slice() else {
        return Err("usage: compare_plans MODEL DATA PLAN".into());
    };
    let model = file::load(Path::new(model))?;
    let rows = read::dataset(Path::new(data), &read::Options::default())?.examples;
    let rows = if std::env::var_os("DENSE").is_some() { rows.to_dense() } else { rows };
    let plan = load(&model, text, &rows)?;
    if let Ok(how) = std::env::var("PROFILE") {
        return profile(&plan, &rows, &how);
    }
    let exact = Plan::exact(&model.machine);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    pool.install(|| describe(&plan, &exact, &rows))?;
    if !matches!(model.machine.output(), Output::Value)
        && (text.starts_with("cascade(spectral") || text.starts_with("cascade(anytime"))
    {
        println!("mean steps until the sign is proved {:.2}", mean_steps(&plan, &rows)?);
    }
    if std::env::var_os("SHORT").is_some() {
        for (name, plan) in [("exact", &exact), ("plan", &plan)] {
            let single = least_single(plan, &rows);
            let few = rows.select(0..rows.rows().min(1024));
            let batch = pool.install(|| least(400, || drop(plan.decide(&few))));
            let batch = batch.as_secs_f64() * 1e6 / few.rows() as f64;
            println!("{name}: single {single:.3} us, batch {batch:.3} us");
        }
        return Ok(());
    }
    let batch = |plan: &Plan| drop(plan.decide(&rows));
    let single = |plan: &Plan| {
        let (mut worker, options) = (plan.worker(), QueryOptions::default());
        for row in 0..rows.rows() {
            drop(worker.decide(&rows, row..row + 1, &options).map(<[_]>::len));
        }
    };
    pool.install(|| {
        compare("batch", rows.rows(), || batch(&exact), || batch(&plan));
        compare("single", rows.rows(), || single(&exact), || single(&plan));
    });
    Ok(())
}

/// The stored plan, or a plan compiled from its text.
fn load(model: &Model, text: &str, rows: &Matrix) -> Result<Plan, Box<dyn Error>> {
    let start = Instant::now();
    let sections = if let ("stored", Some(stored)) = (text, &model.plan) {
        stored.clone()
    } else {
        let sample = std::env::var_os("SAMPLE").map(|_| rows);
        let fitting_data = FittingData { sample, training: sample, ..FittingData::default() };
        compile_with(&model.machine, &text.parse()?, fitting_data, Watch::NOBODY)?
    };
    println!("compiled in {:.2?}", start.elapsed());
    let start = Instant::now();
    let plan = Plan::fitted(&model.machine, &sections)?;
    println!("loaded in {:.2?}", start.elapsed());
    Ok(plan)
}

/// Runs the plan alone, in batches or with single queries.
fn profile(plan: &Plan, rows: &Matrix, how: &str) -> Result<(), Box<dyn Error>> {
    if how == "batch" {
        for _ in 0..100 {
            plan.decide(rows)?;
        }
        return Ok(());
    }
    let mut worker = plan.worker();
    for row in (0..100 * rows.rows()).map(|at| at % rows.rows()) {
        worker.decide(rows, row..row + 1, &QueryOptions::default())?;
    }
    Ok(())
}

/// Prints what the plan answers, beside exact.
fn describe(plan: &Plan, exact: &Plan, rows: &Matrix) -> Result<(), QueryError> {
    let answers = plan.decide_with(rows, &QueryOptions::default())?;
    let truth = exact.decide(rows)?;
    let differs = |(a, b): &(&Decision, &Decision)| a.answer != b.answer;
    let disagreements = answers.decisions.iter().zip(&truth).filter(differs).count();
    let is_certified = |decision: &&Decision| decision.certainty == Certainty::Certified;
    let certified = answers.decisions.iter().filter(is_certified).count();
    println!("{} queries, {disagreements} disagreements, {certified} certified", rows.rows());
    let (by_stage, cost) = (&answers.settled_by_stage, answers.mean_cost());
    println!("settled by stage {by_stage:?}, mean cost {cost:.0}");
    println!("exact cost {}", exact.exact_stage().cost().multiply_adds);
    Ok(())
}

/// Runs both in turns, so that other load on the computer hits both alike.
fn compare(name: &str, queries: usize, exact: impl Fn(), plan: impl Fn()) {
    // The system counts in ticks of a few milliseconds: a turn must be long against them.
    let time = |work: &dyn Fn()| {
        let (start, begun) = (processor_time(), Instant::now());
        let mut repeats = 0;
        while begun.elapsed() < Duration::from_millis(150) {
            work();
            repeats += 1;
        }
        processor_time().saturating_sub(start).as_secs_f64() * 1e6 / (queries * repeats) as f64
    };
    let mut pairs: Vec<(f64, f64)> = (0..RUNS).map(|_| (time(&exact), time(&plan))).collect();
    pairs.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    let least = |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).fold(f64::INFINITY, f64::min);
    let (a, b) = (least(|pair| pair.0), least(|pair| pair.1));
    let ratio = |at: usize| pairs[at].0 / pairs[at].1;
    println!(
        "{name}: least exact {a:.2} us, plan {b:.2} us, {:.2}x; ratio of turns, median {:.2}x \
         ({:.2} to {:.2})",
        a / b,
        ratio(RUNS / 2),
        ratio(0),
        ratio(RUNS - 1)
    );
}

/// The least time of many runs.
fn least(runs: usize, mut work: impl FnMut()) -> Duration {
    let run = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..runs).map(run).min().unwrap_or_default()
}

/// Microseconds of a single query: the least times of a few queries at a time, added up.
fn least_single(plan: &Plan, rows: &Matrix) -> f64 {
    const FEW: usize = 32;
    let (mut worker, options) = (plan.worker(), QueryOptions::default());
    let count = rows.rows().min(2048);
    let mut best = vec![Duration::MAX; count.div_ceil(FEW)];
    for _ in 0..40 {
        for (number, best) in best.iter_mut().enumerate() {
            let time = least(1, || {
                for row in number * FEW..((number + 1) * FEW).min(count) {
                    drop(worker.decide(rows, row..row + 1, &options).map(<[_]>::len));
                }
            });
            *best = time.min(*best);
        }
    }
    best.iter().sum::<Duration>().as_secs_f64() * 1e6 / count.max(1) as f64
}

/// Processor time of this thread, where the system reports it; else elapsed time.
fn processor_time() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = text.and_then(|text| text.split(' ').next()?.parse().ok());
    spent.map_or_else(|| START.get_or_init(Instant::now).elapsed(), Duration::from_nanos)
}

/// Eigenvectors after which the sign was proved, one by one; those never proved count all.
fn mean_steps(plan: &Plan, rows: &Matrix) -> Result<f64, QueryError> {
    let mut total = 0;
    for row in 0..rows.rows() {
        let steps = plan.explain(rows, row, &QueryOptions::default())?.steps;
        let first = steps.iter().find(|step| step.range.low > 0.0 || step.range.high < 0.0);
        total += first.or(steps.last()).map_or(0, |step| step.progress);
    }
    Ok(total as f64 / rows.rows().max(1) as f64)
}
