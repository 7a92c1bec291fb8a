//! Where a sequence ends: where going on costs more than answering exactly, measured on a sample.

use mercer_kernel::factor::{Factor, KernelColumns};
use mercer_query::Exact;

use super::SequenceConstants;
use super::pool::Pool;

/// What things cost in time, in multiply-adds of an exact answer. Measured on machines of 3 to 784 columns
/// (`cargo run --release -p mercer-compile --example compare_plans`): a few basis points at once run half
/// as fast as a panel of supports.
const BASIS: f64 = 2.0;
/// The sums and bounds of one step.
const STEP: f64 = 100.0;
/// The function and the sum of one kernel value of an exact answer.
const VALUE: f64 = 40.0;
/// A non-zero of a sparse row costs this many columns of a dense one.
const SPARSE: f64 = 2.2;

/// Costs of one machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    /// Columns of one product, as time goes.
    columns: f64,
    supports: f64,
}

impl Costs {
    pub(super) fn new(exact: &Exact) -> Self {
        let supports = exact.machine().supports();
        let (rows, live) = (supports.rows().max(1) as f64, exact.packed().live_columns() as f64);
        let nonzeros: usize = supports.iter().map(|row| row.nonzeros().count()).sum();
        let columns = live.min(SPARSE * nonzeros as f64 / rows);
        Self { columns, supports: rows }
    }

    /// `k` steps.
    fn steps(self, k: usize) -> f64 {
        let k = k as f64;
        k * (BASIS * self.columns + STEP) + k * (k + 1.0) / 2.0
    }

    /// An exact answer.
    fn exact(self) -> f64 {
        self.supports * (self.columns + VALUE)
    }

    /// The most steps that cost no more than an exact answer; not the paper's `min(m, √(dm))`, which is
    /// late.
    pub(super) fn break_even(self) -> usize {
        let all = 1..=self.supports as usize;
        all.take_while(|k| self.steps(*k) <= self.exact()).last().unwrap_or(1)
    }
}

/// The number of steps that costs the sample least, all that are not settled by then answered exactly.
pub(super) fn cheapest(
    costs: Costs,
    pool: &Pool,
    factor: &Factor<KernelColumns>,
    constants: &SequenceConstants,
) -> usize {
    let steps = constants.steps();
    let mut settled = vec![0usize; steps + 1];
    for row in pool.witnesses.clone() {
        if let Some(at) = settling_step(pool, factor, constants, row) {
            settled[at] += 1;
        }
    }
    let all = pool.witnesses.len();
    let (mut best, mut least) = (steps, f64::INFINITY);
    let (mut spent, mut done) = (0.0, 0);
    for k in 1..=steps {
        spent += settled[k] as f64 * costs.steps(k);
        done += settled[k];
        let total = spent + (all - done) as f64 * (costs.steps(k) + costs.exact());
        if total < least {
            (best, least) = (k, total);
        }
    }
    best
}

/// Steps after which all scores of a row have a sure sign.
pub(super) fn settling_step(
    pool: &Pool,
    factor: &Factor<KernelColumns>,
    constants: &SequenceConstants,
    row: usize,
) -> Option<usize> {
    let explained: f64 = factor.row(row).iter().map(|y| y * y).sum();
    let whole = explained + factor.distances()[row].max(0.0);
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
