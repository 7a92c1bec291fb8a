//! A long test of certificates: ranges of every certifying stage against scores in double-double arithmetic, as many
//! as `MERCER_SOAK` says. `cargo xtask bench soak` runs it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::clouds::{clouds, trained};
use crate::common::stages::stages;
use mercer_compile::{CompileError, compile};
use mercer_data::Matrix;
use mercer_machine::{Machine, Output};
use mercer_testkit::generate;
use mercer_testkit::properties::certify::{CertifyProperty, Tally, Truth};
use rayon::prelude::*;

/// Queries of one machine.
const QUERIES: usize = 2000;
/// Depths of a projection: each is a separate stage, so that every one is tested.
const DEPTHS: usize = 24;

/// `cargo xtask bench soak --pairs 1e9`. Machines and queries come from seeds, kernel after kernel; the score of a query
/// is computed once in double-double arithmetic, and every stage that takes the machine must enclose it at each
/// of its steps. All cores work.
#[test]
#[ignore = "runs for MERCER_SOAK ranges, a hundred million by default"]
fn soak() {
    let count = std::env::var("MERCER_SOAK").ok().and_then(|text| text.parse().ok());
    let count: f64 = count.unwrap_or(1e8);
    let mut kernels: Vec<&str> =
        stages().iter().flat_map(|(_, kernels)| *kernels).copied().collect();
    kernels.sort_unstable();
    kernels.dedup();
    let plans: Vec<String> = stages().into_iter().map(|(plan, _)| plan).collect();
    let by_plan: Vec<AtomicU64> = plans.iter().map(|_| AtomicU64::new(0)).collect();
    let (start, mut pairs, mut printed) = (std::time::Instant::now(), 0, 0.0);
    let at_once = 2 * rayon::current_num_threads().max(1) as u64;
    let mut seed = 0;
    while (pairs as f64) < count {
        (seed..seed + at_once).into_par_iter().for_each(|seed| {
            soak_one(seed, &kernels, &plans, &by_plan);
        });
        seed += at_once;
        pairs = by_plan.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        let share = pairs as f64 / count;
        if share >= printed + 0.01 || share >= 1.0 {
            printed = share;
            let seconds = start.elapsed().as_secs_f64();
            println!("soak: {pairs} ranges hold, {:.0} %, {seconds:.0} s", 100.0 * share.min(1.0));
        }
    }
    for (plan, ranges) in plans.iter().zip(by_plan) {
        println!("soak: {plan}: {} ranges", ranges.into_inner());
    }
    println!("soak: {} kernels, {seed} machines of {QUERIES} queries each", kernels.len());
}

fn on_grid(rows: &Matrix) -> Matrix {
    generate::map(rows, |x| (16.0 * x).round() / 16.0)
}

/// One machine and all stages; adds how many ranges were tested.
fn soak_one(seed: u64, kernels: &[&str], plans: &[String], by_plan: &[AtomicU64]) {
    let count = kernels.len() as u64;
    let (kernel, columns) = (kernels[(seed % count) as usize], 5 + (seed / count % 60) as usize);
    // A regression without tolerance settles nothing, so that every step is tested.
    let mut machine = trained(kernel, columns, 30, Output::Value, 1000 + seed);
    let mut queries = clouds(QUERIES, columns, 1001 + seed);
    if seed.is_multiple_of(3) {
        // Rows on a grid, for the products of integers.
        queries = on_grid(&queries);
        let (kernel, supports) = (machine.kernel().clone(), on_grid(machine.supports()));
        let scores = machine.scores().to_vec();
        machine = Machine::new(kernel, supports, scores, Output::Value).unwrap();
    }
    let truth = Truth::new(&machine).scores(&queries);
    for (plan, found) in plans.iter().zip(by_plan) {
        let depths =
            (1..=columns.min(DEPTHS)).map(|depth| format!("projected(dimensions={depth}), "));
        let text = match plan.as_str() {
            "cascade(projected, exact)" => format!("cascade({}exact)", depths.collect::<String>()),
            plan => plan.to_owned(),
        };
        let sections = match compile(&machine, &text.parse().unwrap(), None) {
            Ok(sections) => sections,
            Err(CompileError::Unfit { .. } | CompileError::Load(_)) => continue,
            Err(other) => panic!("{other}"),
        };
        let name = format!("{text} for {kernel}, seed {seed}");
        let property =
            CertifyProperty { name, machine: &machine, sections: &sections, queries: &queries };
        let mut tally = Tally::default();
        property.ranges_contain(&truth, &mut tally).unwrap();
        found.fetch_add(tally.pairs, Ordering::Relaxed);
    }
}
