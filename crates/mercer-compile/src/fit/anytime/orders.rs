//! Rules that choose basis points by what they do to a sample of queries (\[DeCoste03\] section 4).

use mercer_data::draw;
use mercer_kernel::factor::{Factor, Gain, KernelColumns, Pivots};

use super::pool::Pool;
use super::settings::{AnytimeSettings, Order};

/// Of so many drawn candidates one is among the best 5 % with probability 0.95 (Smola and Schölkopf 2000).
const DRAWN: usize = 59;
/// Candidates whose rest of the machine is within this factor of the best are ties.
const TIE: f64 = 1.01;

/// Chooses among supports and, where there are some, training rows drawn anew at each step.
#[derive(Debug)]
pub(super) struct Ordering<'p> {
    order: Order,
    pool: &'p Pool,
    seed: u64,
    /// What of each support each witness still meets: `<Φ_i, Q_res>`.
    shared: Vec<Vec<f64>>,
    witnesses: Vec<Witness>,
    column: Vec<f64>,
}

/// A query of the sample, for one score.
#[derive(Debug, Clone)]
struct Witness {
    /// Place among the witnesses.
    place: usize,
    score: usize,
    /// The score, and the part of it that the steps so far explain.
    truth: f64,
    sum: f64,
    is_settled: bool,
}

impl<'p> Ordering<'p> {
    pub(super) fn new(
        pool: &'p Pool,
        settings: &AnytimeSettings,
        factor: &mut Factor<KernelColumns>,
    ) -> Self {
        let order = settings.order;
        let (mut shared, mut witnesses) = (Vec::new(), Vec::new());
        let mut column = vec![0.0; factor.rows()];
        if order.needs_sample() {
            for support in pool.supports.clone() {
                factor.residual_column(support, &mut column);
                shared.push(column[pool.witnesses.clone()].to_vec());
            }
            for score in 0..pool.offsets.len() {
                for (place, row) in pool.witnesses.clone().enumerate() {
                    let truth = pool.score(score, row);
                    let sum = explained(factor, score, row) - pool.offsets[score];
                    let is_settled = truth == 0.0 || sum * truth.signum() > gap(factor, score, row);
                    witnesses.push(Witness { place, score, truth, sum, is_settled });
                }
            }
        }
        Self { order, pool, seed: settings.seed, shared, witnesses, column }
    }

    fn candidates(&self, factor: &Factor<KernelColumns>) -> Vec<usize> {
        let open = |row: &usize| factor.is_open(*row);
        let mut rows: Vec<usize> = self.pool.supports.clone().filter(open).collect();
        if self.order == Order::MinWz {
            return rows;
        }
        let seed = self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(factor.rank() as u64);
        if self.order == Order::Sgma {
            rows.extend(self.pool.extras.clone().filter(open));
            return draw(rows.len(), DRAWN, seed).into_iter().map(|at| rows[at]).collect();
        }
        let extras: Vec<usize> = self.pool.extras.clone().filter(open).collect();
        rows.extend(draw(extras.len(), DRAWN, seed).into_iter().map(|at| extras[at]));
        rows
    }

    /// How much of the Gram matrix's residual a row takes with it.
    fn trace_gain(&mut self, factor: &mut Factor<KernelColumns>, row: usize) -> f64 {
        factor.residual_column(row, &mut self.column);
        let span = self.pool.supports.start..self.pool.extras.end;
        self.column[span].iter().map(|x| x * x).sum::<f64>() / factor.distances()[row]
    }

    /// What the bounds of the sample would be with one more basis point; lower is better.
    fn cost(&mut self, factor: &mut Factor<KernelColumns>, row: usize) -> f64 {
        if !self.pool.supports.contains(&row) {
            factor.residual_column(row, &mut self.column);
        }
        let shared = if self.pool.supports.contains(&row) {
            &self.shared[row]
        } else {
            &self.column[self.pool.witnesses.clone()]
        };
        let root = factor.distances()[row].sqrt();
        let (mut cost, mut left) = (0.0, 0usize);
        let first = self.pool.witnesses.start;
        let per_score = self.pool.witnesses.len();
        for (target, witnesses) in
            factor.targets().iter().zip(self.witnesses.chunks(per_score.max(1)))
        {
            let weight = target.values()[row] / root;
            let rest = (target.square() - weight * weight).max(0.0).sqrt();
            for witness in witnesses.iter().filter(|witness| !witness.is_settled) {
                let y = shared[witness.place] / root;
                let distance = factor.distances()[first + witness.place] - y * y;
                let gap = distance.max(0.0).sqrt() * rest;
                let towards = (witness.sum + weight * y) * witness.truth.signum();
                left += usize::from(towards <= gap);
                cost += match self.order {
                    Order::MeanLh | Order::Hybrid => (gap - towards).max(0.0),
                    _ => (gap / witness.truth.abs()).max(1e-3).ln().max(0.0),
                };
            }
        }
        match self.order {
            // The sum of logarithms decides between equal counts.
            Order::StopCount => left as f64 + cost / (1.0 + 50.0 * self.witnesses.len() as f64),
            _ => cost,
        }
    }

    /// Keeps candidates within 1 % of the least rest of the machine.
    fn keep_ties(factor: &Factor<KernelColumns>, rows: &mut Vec<usize>) {
        let whole: f64 = factor.targets().iter().map(|target| target.square().max(0.0)).sum();
        let rest = |row: usize| (whole - Gain::of(factor, row)).max(0.0).sqrt();
        let best = rows.iter().map(|row| rest(*row)).fold(f64::INFINITY, f64::min);
        rows.retain(|row| rest(*row) <= TIE * best);
    }
}

/// What the basis points so far explain of a score.
fn explained(factor: &Factor<KernelColumns>, score: usize, row: usize) -> f64 {
    let weights = factor.targets()[score].coordinates();
    weights.iter().enumerate().map(|(k, w)| w * factor.coordinate(k)[row]).sum()
}

/// How far the score of a row may be from what is explained.
fn gap(factor: &Factor<KernelColumns>, score: usize, row: usize) -> f64 {
    let rest = factor.targets()[score].square().max(0.0).sqrt();
    factor.distances()[row].max(0.0).sqrt() * rest
}

impl Pivots<KernelColumns> for Ordering<'_> {
    fn propose(&mut self, factor: &mut Factor<KernelColumns>, out: &mut Vec<usize>) {
        let mut rows = self.candidates(factor);
        if self.order == Order::Hybrid {
            Self::keep_ties(factor, &mut rows);
        }
        let is_blind = self.order.needs_sample() && self.witnesses.iter().all(|w| w.is_settled);
        let mut best: Option<(usize, f64)> = None;
        for row in rows {
            let value = match self.order {
                Order::Sgma => -self.trace_gain(factor, row),
                // With nothing left to settle the machine's rest decides.
                _ if is_blind || !self.order.needs_sample() => -Gain::of(factor, row),
                _ => self.cost(factor, row),
            };
            if best.is_none_or(|(_, least)| value < least) {
                best = Some((row, value));
            }
        }
        out.extend(best.map(|(row, _)| row));
    }

    fn chosen(&mut self, factor: &Factor<KernelColumns>) {
        if !self.order.needs_sample() {
            return;
        }
        let axis = factor.coordinate(factor.rank() - 1);
        let seen = &axis[self.pool.witnesses.clone()];
        for (support, shared) in self.pool.supports.clone().zip(&mut self.shared) {
            let g = axis[support];
            shared.iter_mut().zip(seen).for_each(|(place, y)| *place -= g * y);
        }
        let first = self.pool.witnesses.start;
        for witness in &mut self.witnesses {
            let target = &factor.targets()[witness.score];
            let weight = target.coordinates()[factor.rank() - 1];
            witness.sum += weight * seen[witness.place];
            let gap = gap(factor, witness.score, first + witness.place);
            witness.is_settled |= witness.sum * witness.truth.signum() > gap;
        }
    }
}
