//! Powers of dot products, `(scale u·v + shift)^p` of a low degree.
//!
//! For one support s and one background row z the game is `(c + Σ_j (a_j if j in S else b_j))^p`, with `a_j = scale x_j s_j` and
//! `b_j = scale z_j s_j`. Its Shapley value is the integral over [0, 1] of `E[(c + a_j + R)^p - (c + b_j + R)^p]`, where R is the sum
//! over the other columns and each of them takes `a_k` with probability τ, else `b_k`, independently. Moments of R come from those
//! of the columns before j and after it; the integrand is a polynomial of degree below p in τ.

use mercer_kernel::bound::larger;
use mercer_machine::{Machine, Score};
use rayon::prelude::*;

use super::{Contributions, Dense, MAX_ATTRIBUTED_DEGREE};
use crate::certify::quadrature::GaussLegendre;
use crate::certify::shapley::{power_error, sum_error};

/// Scaled moments `E[R^q] / q!` for q below the degree.
type Moments = [f64; MAX_ATTRIBUTED_DEGREE as usize];

/// Supports whose contributions are summed together; the sums of such chunks are added in order.
const CHUNK: usize = 16;

#[derive(Debug)]
pub(super) struct PowerKernel {
    scale: f64,
    shift: f64,
    degree: usize,
    factorial: f64,
}

/// Sums of contributions, of their absolute values, and of bounds on their errors.
#[derive(Debug)]
struct Sums {
    values: Vec<f64>,
    sizes: Vec<f64>,
    errors: Vec<f64>,
}

impl PowerKernel {
    pub(super) fn new(scale: f64, shift: f64, degree: u32) -> Self {
        let factorial = (1..=degree).map(f64::from).product();
        Self { scale, shift, degree: degree as usize, factorial }
    }

    pub(super) fn of_row(
        &self,
        machine: &Machine,
        score: &Score,
        x: &[f64],
        background: &Dense,
    ) -> Contributions {
        let rows = background.rows().len();
        let zeros = || vec![0.0; x.len()];
        let Score::Expansion { supports, coefficients, .. } = score else {
            return Contributions { values: zeros(), errors: zeros() };
        };
        let chunks = supports.par_chunks(CHUNK).zip(coefficients.par_chunks(CHUNK));
        let parts = chunks.map(|(supports, coefficients)| {
            let mut sums = Sums { values: zeros(), sizes: zeros(), errors: zeros() };
            let mut dense = zeros();
            let mut pair = PowerPair::default();
            for (support, beta) in supports.iter().zip(coefficients) {
                machine.supports().row(*support as usize).write_dense(&mut dense);
                for z in background.rows() {
                    pair.evaluate(self, x, z, &dense);
                    pair.add_to(&mut sums, self, *beta);
                }
            }
            sums
        });
        let parts: Vec<Sums> = parts.collect();
        let (mut values, mut errors) = (zeros(), zeros());
        for column in 0..x.len() {
            let sum =
                |of: fn(&Sums) -> &Vec<f64>| parts.iter().map(|part| of(part)[column]).sum::<f64>();
            values[column] = sum(|part| &part.values) / rows as f64;
            let rounding = sum_error(CHUNK * rows + parts.len(), 8.0, sum(|part| &part.sizes));
            errors[column] = (sum(|part| &part.errors) * (1.0 + 1e-6) + rounding) / rows as f64;
        }
        Contributions { values, errors }
    }
}

/// The work on one support and one background row.
#[derive(Debug, Default)]
struct PowerPair {
    columns: Vec<u32>,
    /// `a_j` and `b_j`, and `a_j^q / q!`, `b_j^q / q!` for q up to the degree.
    values: Vec<[f64; 2]>,
    powers: Vec<[[f64; MAX_ATTRIBUTED_DEGREE as usize + 1]; 2]>,
    prefixes: Vec<Moments>,
    found: Vec<f64>,
    /// `|c| + Σ max(|a_k|, |b_k|)`.
    all: f64,
}

impl PowerPair {
    fn evaluate(&mut self, powers: &PowerKernel, x: &[f64], z: &[f64], support: &[f64]) {
        let constant = self.columns(powers, x, z, support);
        let degree = powers.degree;
        let mut start: Moments = [0.0; MAX_ATTRIBUTED_DEGREE as usize];
        start[0] = 1.0;
        (1..degree).for_each(|q| start[q] = start[q - 1] * constant / q as f64);
        // Eight nodes are exact to degree 15.
        let rule = GaussLegendre::at(0).rule();
        self.found.clear();
        self.found.resize(self.columns.len(), 0.0);
        for node in 0..rule.nodes.len() {
            let (t, c) = (rule.nodes[node], rule.complements[node]);
            let column = |powers: &[[f64; MAX_ATTRIBUTED_DEGREE as usize + 1]; 2]| -> Moments {
                std::array::from_fn(|q| t * powers[0][q] + c * powers[1][q])
            };
            self.prefixes.clear();
            let mut moments = start;
            for own in &self.powers {
                self.prefixes.push(moments);
                moments = convolved(degree, &moments, &column(own));
            }
            let mut after: Moments = [0.0; MAX_ATTRIBUTED_DEGREE as usize];
            after[0] = 1.0;
            for (at, own) in self.powers.iter().enumerate().rev() {
                let others = convolved(degree, &self.prefixes[at], &after);
                let differences =
                    (1..=degree).map(|q| (own[0][q] - own[1][q]) * others[degree - q]);
                self.found[at] += rule.weights[node] * differences.sum::<f64>();
                after = convolved(degree, &after, &column(own));
            }
        }
    }

    /// Finds the columns in which the pair of rows differs for this support, and returns the sum of the others.
    fn columns(&mut self, powers: &PowerKernel, x: &[f64], z: &[f64], support: &[f64]) -> f64 {
        let (mut constant, mut size) = (powers.shift, powers.shift.abs());
        self.columns.clear();
        self.values.clear();
        self.powers.clear();
        for (column, ((x, z), s)) in (0u32..).zip(x.iter().zip(z).zip(support)) {
            let [a, b] = [x, z].map(|value| powers.scale * (value * s));
            size += larger(a.abs(), b.abs());
            if a.to_bits() == b.to_bits() && x == z {
                constant += a;
                continue;
            }
            if *s == 0.0 {
                continue;
            }
            let of = |value: f64| {
                let mut all = [0.0; MAX_ATTRIBUTED_DEGREE as usize + 1];
                all[0] = 1.0;
                (1..=powers.degree).for_each(|q| all[q] = all[q - 1] * value / q as f64);
                all
            };
            self.columns.push(column);
            self.values.push([a, b]);
            self.powers.push([of(a), of(b)]);
        }
        self.all = size;
        constant
    }

    fn add_to(&self, sums: &mut Sums, powers: &PowerKernel, beta: f64) {
        let found = self.columns.iter().zip(&self.values).zip(&self.found);
        for ((column, [a, b]), found) in found {
            let value = beta * powers.factorial * found;
            let own = larger(a.abs(), b.abs());
            // All columns of the row: those that are shared are summed as well.
            let columns = sums.values.len();
            let error = power_error(columns, powers.degree as u32, powers.scale, own, self.all);
            sums.values[*column as usize] += value;
            sums.sizes[*column as usize] += value.abs();
            sums.errors[*column as usize] += beta.abs() * error;
        }
    }
}

/// Scaled moments of a sum of two independent numbers.
fn convolved(degree: usize, a: &Moments, b: &Moments) -> Moments {
    let mut out = [0.0; MAX_ATTRIBUTED_DEGREE as usize];
    for (q, out) in out.iter_mut().enumerate().take(degree) {
        *out = (0..=q).map(|r| a[r] * b[q - r]).sum();
    }
    out
}
