//! Eq. 26 of \[DeCoste03\] as a function of a basis point that moves: by how much the bounds of a sample, all queries
//! together, still fail to show their signs.
//!
//! With `s = <Q_res, z>`, `c = <W_res, z>`, `d` the squared distance of `z` from the span, and `R²`, `Ω²` what is left of
//! query and machine, one more basis point gives the sum `f + c s / d` and the gap `√(R² - s²/d) √(Ω² - c²/d)`.

use mercer_kernel::Profile;
use mercer_kernel::eigen::dot;
use mercer_kernel::factor::{Factor, KernelColumns};
use mercer_machine::Machine;

use super::super::pool::Pool;
use super::CostSlopes;
use crate::kernel_gradient::{KernelGradient, backwards, kernel_gradient};

/// Queries looked at, at most.
const MOST: usize = 400;
/// What is left of a query or of the machine is at least this share of it, so that slopes stay finite.
const LEAST: f64 = 1e-12;

/// A query of the sample.
struct SampleQuery {
    /// Its row in the factor.
    row: usize,
    square: f64,
    /// `R²`.
    left: f64,
    /// Coefficients over the basis of its projection onto it.
    explained: Vec<f64>,
    /// Of each score: the sign, and the sum so far.
    signs: Vec<f64>,
    sums: Vec<f64>,
}

/// The bounds of a sample of queries.
pub(super) struct SampleBounds {
    columns: usize,
    rows: Vec<f64>,
    queries: Vec<SampleQuery>,
    offsets: Vec<f64>,
    /// `Ω²` of each score.
    rests: Vec<f64>,
}

impl SampleBounds {
    pub(super) fn new(machine: &Machine, pool: &Pool) -> Self {
        let columns = machine.columns();
        let step = pool.witnesses.len().div_ceil(MOST).max(1);
        let (mut rows, mut queries) = (Vec::new(), Vec::new());
        let scores = 0..machine.scores().len();
        for row in pool.witnesses.clone().step_by(step) {
            let first = rows.len();
            rows.resize(first + columns, 0.0);
            pool.rows.row(row).write_dense(&mut rows[first..]);
            let square = dot(&rows[first..], &rows[first..]);
            let signs = scores.clone().map(|score| pool.score(score, row));
            let signs = signs.map(|truth| if truth == 0.0 { 0.0 } else { truth.signum() });
            let signs: Vec<f64> = signs.collect();
            let (explained, sums) = (Vec::new(), vec![0.0; signs.len()]);
            queries.push(SampleQuery { row, square, left: 0.0, explained, signs, sums });
        }
        Self { columns, rows, queries, offsets: pool.offsets.clone(), rests: Vec::new() }
    }

    /// A query in input space.
    pub(super) fn row(&self, place: usize) -> &[f64] {
        &self.rows[place * self.columns..][..self.columns]
    }

    /// Takes the basis points of the factor into account.
    pub(super) fn renew(&mut self, factor: &Factor<KernelColumns>, triangle: &[Vec<f64>]) {
        self.rests = factor.targets().iter().map(|target| target.square().max(0.0)).collect();
        for query in &mut self.queries {
            let y = factor.row(query.row);
            query.left = factor.distances()[query.row].max(0.0);
            for ((sum, target), offset) in
                query.sums.iter_mut().zip(factor.targets()).zip(&self.offsets)
            {
                *sum = dot(target.coordinates(), &y) - offset;
            }
            query.explained = backwards(triangle, &y);
        }
    }

    /// Eq. 26 with the basis points so far.
    pub(super) fn cost(&self) -> f64 {
        let mut cost = 0.0;
        for query in &self.queries {
            for ((sign, sum), rest) in query.signs.iter().zip(&query.sums).zip(&self.rests) {
                if *sign != 0.0 {
                    cost += ((query.left * rest).sqrt() - sign * sum).max(0.0);
                }
            }
        }
        cost
    }

    /// Eq. 26 with one more basis point `z`: `basis` are its kernel values with the others, `products` is `c` of each
    /// score and `distance` is `d`.
    pub(super) fn slopes(
        &self,
        profile: Profile,
        z: &[f64],
        basis: &[f64],
        products: &[f64],
        distance: f64,
    ) -> CostSlopes {
        let own_square = dot(z, z);
        let mut slopes = CostSlopes {
            value: 0.0,
            products: vec![0.0; products.len()],
            distance: 0.0,
            basis: vec![0.0; basis.len()],
            queries: Vec::with_capacity(self.queries.len()),
        };
        for (place, query) in self.queries.iter().enumerate() {
            let product = dot(self.row(place), z);
            let kernel = kernel_gradient(profile, product, query.square, own_square);
            let slope = self.query_slopes(query, &kernel, basis, (products, distance), &mut slopes);
            if slope != 0.0 {
                let pairs = slopes.basis.iter_mut().zip(&query.explained);
                pairs.for_each(|(place, a)| *place -= slope * a);
            }
            slopes.queries.push((slope, kernel));
        }
        slopes
    }

    /// Adds what one query contributes; returns the slope in `s`.
    fn query_slopes(
        &self,
        query: &SampleQuery,
        kernel: &KernelGradient,
        basis: &[f64],
        point: (&[f64], f64),
        slopes: &mut CostSlopes,
    ) -> f64 {
        let (products, d) = point;
        let s = kernel.value - dot(&query.explained, basis);
        let left = (query.left - s * s / d).max(LEAST * query.left).max(f64::MIN_POSITIVE).sqrt();
        let mut slope = 0.0;
        for (score, c) in products.iter().enumerate() {
            let (sign, whole) = (query.signs[score], self.rests[score]);
            let rest = (whole - c * c / d).max(LEAST * whole).max(f64::MIN_POSITIVE).sqrt();
            let lacks = left * rest - sign * (query.sums[score] + c * s / d);
            if sign == 0.0 || lacks <= 0.0 {
                continue;
            }
            slopes.value += lacks;
            slopes.products[score] -= left / rest * c / d + sign * s / d;
            slope -= rest / left * s / d + sign * c / d;
            slopes.distance += left / rest * c * c / (2.0 * d * d)
                + rest / left * s * s / (2.0 * d * d)
                + sign * c * s / (d * d);
        }
        slope
    }
}
