//! Measures a plan against the exact one: `speed MODEL DATA PLAN`, on one thread, best of several runs.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use mercer_data::{Matrix, read};
use mercer_machine::{Output, file};
use mercer_query::{Asking, Certainty, Plan};

const RUNS: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, data, text] = arguments.as_slice() else {
        return Err("usage: speed MODEL DATA PLAN".into());
    };
    let model = file::load(Path::new(model))?;
    let rows = read::dataset(Path::new(data), &read::Options::default())?.examples;
    let rows = if std::env::var_os("DENSE").is_some() { rows.to_dense() } else { rows };
    let start = Instant::now();
    let sections = mercer_compile::compile(&model.machine, &text.parse()?, None)?;
    println!("compiled in {:.2?}", start.elapsed());
    let start = Instant::now();
    let plan = Plan::load(&model.machine, &sections)?;
    println!("loaded in {:.2?}", start.elapsed());
    if std::env::var_os("PROFILE").is_some() {
        let mut worker = plan.worker();
        for row in (0..100 * rows.rows()).map(|at| at % rows.rows()) {
            worker.decide(&rows, row..row + 1, &Asking::default())?;
        }
        return Ok(());
    }
    let exact = Plan::exact(&model.machine);
    let asking = Asking::default();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let (answers, truth) = pool.install(|| {
        Ok::<_, mercer_query::QueryError>((plan.decide_with(&rows, &asking)?, exact.decide(&rows)?))
    })?;
    let differs =
        |(a, b): &(&mercer_query::Decision, &mercer_query::Decision)| a.answer != b.answer;
    let disagreements = answers.decisions.iter().zip(&truth).filter(differs).count();
    let certified =
        answers.decisions.iter().filter(|d| d.certainty == Certainty::Certified).count();
    println!("{} queries, {disagreements} disagreements, {certified} certified", rows.rows());
    println!(
        "settled by stage {:?}, mean cost {:.0}",
        answers.settled_by_stage,
        answers.mean_cost()
    );
    println!("exact cost {}", exact.closing().cost().multiply_adds);
    if !matches!(model.machine.output(), Output::Value) && plan.stages().len() == 1 {
        println!("mean steps until the sign is proved {:.2}", mean_steps(&plan, &rows)?);
    }
    let batch = |plan: &Plan| pool.install(|| best(|| drop(plan.decide(&rows))));
    let single = |plan: &Plan| {
        let mut worker = plan.worker();
        best(|| {
            for row in 0..rows.rows() {
                drop(worker.decide(&rows, row..row + 1, &asking).map(<[_]>::len));
            }
        })
    };
    let per = |time: Duration| 1e6 * time.as_secs_f64() / rows.rows() as f64;
    let (a, b) = (per(batch(&exact)), per(batch(&plan)));
    println!("batch:  exact {a:.2} us, plan {b:.2} us, {:.2}x", a / b);
    let (a, b) = (per(single(&exact)), per(single(&plan)));
    println!("single: exact {a:.2} us, plan {b:.2} us, {:.2}x", a / b);
    Ok(())
}

fn best(mut work: impl FnMut()) -> Duration {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..RUNS).map(time).min().unwrap_or_default()
}

/// Eigenvectors after which the sign was proved, one by one; those never proved count all.
fn mean_steps(plan: &Plan, rows: &Matrix) -> Result<f64, mercer_query::QueryError> {
    let mut total = 0;
    for row in 0..rows.rows() {
        let steps = plan.explain(rows, row, &Asking::default())?.steps;
        let first = steps.iter().find(|step| step.range.low > 0.0 || step.range.high < 0.0);
        total += first.or(steps.last()).map_or(0, |step| step.progress);
    }
    Ok(total as f64 / rows.rows().max(1) as f64)
}
