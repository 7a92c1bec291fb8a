use anyhow::Context;
use mercer::data::{Matrix, read};
use mercer::query::Plan;
use serde_json::json;

use super::{StopSignal, check_width, load, read_options};
use crate::args::Bench;
use crate::console::Console;
use crate::failure::DONE;
use crate::timing::best_us;

/// What was measured, in microseconds per query.
#[derive(Debug)]
pub(super) struct Times {
    pub(super) batch: f64,
    pub(super) single: f64,
    pub(super) batch_all_threads: f64,
}

pub(super) fn run(bench: &Bench, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let model = load(&bench.model, console)?;
    let source = || bench.input.data.display().to_string();
    let data = read::dataset(&bench.input.data, &read_options(&bench.input, &model))
        .with_context(source)?;
    let rows = &data.examples;
    check_width(&model, rows.columns(), rows.is_sparse()).with_context(source)?;
    let plan = Plan::exact(&model.machine);
    plan.decide(rows).with_context(source)?;
    stop.check()?;
    let times = measure(&plan, rows, bench.repeats, bench.single_queries)?;
    let (supports, features) = (model.machine.supports().rows(), model.machine.columns());
    let live = plan.closing().packed().live_columns();
    let threads = rayon::current_num_threads();
    let isa = mercer::simd::Isa::current();
    if console.json {
        let object = json!({
            "exact_batch_us": times.batch, "exact_single_us": times.single,
            "exact_batch_us_all_threads": times.batch_all_threads,
            "queries": rows.rows(), "supports": supports, "features": features,
            "live_columns": live, "threads": threads, "instruction_set": isa.name(),
        });
        println!("{object}");
        return Ok(DONE);
    }
    println!(
        "{} queries, {supports} supports, {features} columns ({live} live), {isa}",
        rows.rows()
    );
    println!("microseconds per query, best of {}:", bench.repeats);
    println!("  exact, batch, one thread      {:10.2}", times.batch);
    println!("  exact, batch, {threads} threads       {:10.2}", times.batch_all_threads);
    println!("  exact, one query at a time    {:10.2}", times.single);
    Ok(DONE)
}

/// Times a plan on these rows: whole batch on one thread, one at a time, whole batch on all threads.
pub(super) fn measure(
    plan: &Plan,
    rows: &Matrix,
    repeats: u32,
    single_queries: usize,
) -> anyhow::Result<Times> {
    let batch = || {
        let _ = std::hint::black_box(plan.decide(rows));
    };
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let one_thread = alone.install(|| best_us(repeats, rows.rows(), batch));
    let exact = plan.closing();
    let singles = rows.rows().min(single_queries);
    let mut scratch = exact.scratch();
    let single = best_us(repeats, singles, || {
        for row in 0..singles {
            let one = std::iter::once(rows.row(row));
            let _ = std::hint::black_box(exact.decide(one, row, &mut scratch));
        }
    });
    let batch_all_threads = best_us(repeats, rows.rows(), batch);
    Ok(Times { batch: one_thread, single, batch_all_threads })
}
