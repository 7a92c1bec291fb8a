//! Where a sequence ends: where going on costs more than answering exactly, measured on a sample.

use mercer_kernel::factor::{Factor, KernelColumns};
use mercer_query::Exact;

use super::constants::Constants;
use super::pool::Pool;

/// Multiply-adds that the sums and bounds of one step are worth, beside its kernel value and coordinate
/// (`cargo run --release -p mercer-compile --example turns`).
const STEP: f64 = 24.0;

/// Multiply-adds of `k` steps, as time goes.
fn cost(k: usize, columns: f64) -> f64 {
    let k = k as f64;
    k * (columns + STEP) + k * (k + 1.0) / 2.0
}

/// Multiply-adds of an exact answer.
fn exact_cost(exact: &Exact) -> f64 {
    (exact.packed().rows() * exact.packed().live_columns().max(1)) as f64
}

/// The most steps that cost no more than an exact answer; not the paper's `min(m, √(dm))`, which is late.
pub(super) fn break_even(exact: &Exact) -> usize {
    let (columns, most) = (exact.packed().live_columns() as f64, exact_cost(exact));
    (1..=exact.packed().rows()).take_while(|k| cost(*k, columns) <= most).last().unwrap_or(1)
}

/// The number of steps that costs the sample least, all that are not settled by then answered exactly.
pub(super) fn cheapest(
    exact: &Exact,
    pool: &Pool,
    factor: &Factor<KernelColumns>,
    constants: &Constants,
) -> usize {
    let (steps, columns) = (constants.steps(), exact.packed().live_columns() as f64);
    let mut settled = vec![0usize; steps + 1];
    for row in pool.witnesses.clone() {
        if let Some(at) = settling_step(pool, factor, constants, row) {
            settled[at] += 1;
        }
    }
    let (exact, all) = (exact_cost(exact), pool.witnesses.len());
    let (mut best, mut least) = (steps, f64::INFINITY);
    let (mut spent, mut done) = (0.0, 0);
    for k in 1..=steps {
        spent += settled[k] as f64 * cost(k, columns);
        done += settled[k];
        let total = spent + (all - done) as f64 * (cost(k, columns) + exact);
        if total < least {
            (best, least) = (k, total);
        }
    }
    best
}

/// Steps after which all scores of a row have a sure sign.
fn settling_step(
    pool: &Pool,
    factor: &Factor<KernelColumns>,
    constants: &Constants,
    row: usize,
) -> Option<usize> {
    let own: f64 = factor.row(row).iter().map(|y| y * y).sum();
    let whole = own + factor.distances()[row].max(0.0);
    let mut distance = whole;
    let mut sums: Vec<f64> = pool.offsets.iter().map(|offset| -offset).collect();
    let mut is_open = vec![true; sums.len()];
    for k in 0..constants.steps() {
        let y = factor.coordinate(k)[row];
        distance -= y * y;
        let root = (distance.max(0.0) + 1e-12 * whole).sqrt();
        for (score, sum) in sums.iter_mut().enumerate() {
            *sum += constants.weights[score][k] * y;
            let gap = constants.rests[score][k] * root + constants.hidden[score][k] * whole.sqrt();
            is_open[score] &= sum.abs() <= gap;
        }
        if !is_open.contains(&true) {
            return Some(k + 1);
        }
    }
    None
}
