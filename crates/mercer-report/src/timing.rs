//! Time per query: the best of several timings.

use std::time::Instant;

use mercer::data::Matrix;
use mercer::query::{Plan, QueryOptions};

/// The best of several timings of `work`, in microseconds per item, after one run to warm up.
pub fn best_us(repeats: u32, items: usize, mut work: impl FnMut()) -> f64 {
    work();
    let one = |()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    let best = std::iter::repeat_n((), repeats as usize).map(one).fold(f64::INFINITY, f64::min);
    best * 1e6 / items.max(1) as f64
}

/// How long a plan takes, in microseconds per query.
#[derive(Debug, Clone, Copy)]
pub struct PlanTimes {
    /// All queries in one batch, one thread.
    pub batch: f64,
    /// One query at a time, one thread.
    pub single: f64,
    /// All queries in one batch, all threads.
    pub batch_all_threads: f64,
}

impl PlanTimes {
    /// Times `plan` on these queries; at most `single_queries` of them one at a time.
    pub fn measure(
        plan: &Plan,
        rows: &Matrix,
        query_options: &QueryOptions,
        repeats: u32,
        single_queries: usize,
    ) -> anyhow::Result<Self> {
        let run_batch = || {
            let _ = std::hint::black_box(plan.decide_with(rows, query_options));
        };
        let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
        let batch = one_thread.install(|| best_us(repeats, rows.rows(), run_batch));
        let count = rows.rows().min(single_queries);
        let mut worker = plan.worker();
        let single = best_us(repeats, count, || {
            for row in 0..count {
                let _ = std::hint::black_box(
                    worker.decide(rows, row..row + 1, query_options).map(<[_]>::len),
                );
            }
        });
        let batch_all_threads = best_us(repeats, rows.rows(), run_batch);
        Ok(Self { batch, single, batch_all_threads })
    }
}
