//! Kernels that are products over columns: `exp(-Σ_j t_j)`, with `t_j` a function of the values in column j.
//!
//! For one support s and one background row z the game is `Π_j (a_j if j in S else b_j)`, with `a_j = exp(-t(x_j, s_j))` and
//! `b_j = exp(-t(z_j, s_j))`. Its Shapley value is `(a_j - b_j) ∫ Π_(k≠j) (τ a_k + (1-τ) b_k) dτ` over [0, 1]: the multilinear
//! extension \[Owen72\]. The integrand is a polynomial of positive terms: Gauss-Legendre rules are exact for it, and nothing cancels.
//! Columns in which x equals z contribute nothing and one common factor.

use mercer_kernel::Term;
use mercer_kernel::bound::UNIT;
use mercer_machine::{Machine, Score};
use mercer_simd::{Isa, exp, exp1, product_integrals};
use rayon::prelude::*;

use super::{Contributions, Dense};
use crate::certify::quadrature::{self, GaussLegendre, LN_NEGLIGIBLE, SIZES};
use crate::certify::shapley::{ProductError, VANISHES, factor_error, sum_error};

/// The exponent of one column.
#[derive(Debug, Clone, Copy)]
pub(super) enum Exponent<'a> {
    /// `gamma (u - v)²`
    Square { gamma: f64 },
    /// `gamma κ(u, v)`
    Term { term: &'a dyn Term, gamma: f64 },
    /// `gamma (κ(u, u) + κ(v, v) - 2 κ(u, v))`
    Distance { term: &'a dyn Term, gamma: f64 },
}

impl Exponent<'_> {
    /// The exponent and a bound on its error; infinite where a number overflows.
    fn at(self, u: f64, v: f64) -> (f64, f64) {
        let (t, error) = match self {
            Self::Square { gamma } => {
                let difference = u - v;
                let square = difference * difference;
                let error =
                    if square < f64::INFINITY { 5.0 * UNIT * gamma * square } else { square };
                (gamma * square, error + gamma * f64::MIN_POSITIVE)
            }
            Self::Term { term, gamma } => {
                let value = value(term, u, v);
                let units = (term.rounding() + 3.0) * UNIT;
                let error =
                    if value < f64::INFINITY { units * gamma * value } else { f64::INFINITY };
                (gamma * value, error + gamma * f64::MIN_POSITIVE)
            }
            Self::Distance { term, gamma } => {
                let [uu, vv, uv] = [value(term, u, u), value(term, v, v), value(term, u, v)];
                let units = (term.rounding() + 4.0) * UNIT;
                let error = units * gamma * (uu + vv + 2.0 * uv) + 8.0 * gamma * f64::MIN_POSITIVE;
                let distance = uu + vv - 2.0 * uv;
                (if distance > 0.0 { gamma * distance } else { 0.0 }, error)
            }
        };
        if (t + error).is_finite() { (t, error) } else { (f64::INFINITY, f64::INFINITY) }
    }
}

/// The scalar kernel, zero where it vanishes.
fn value(term: &dyn Term, u: f64, v: f64) -> f64 {
    let is_zero = u == 0.0 && v == 0.0;
    let vanishes = term.vanishes_at_zero() && (u == 0.0 || v == 0.0);
    if is_zero || vanishes { 0.0 } else { term.term(u, v) }
}

/// Supports whose contributions are summed together; the sums of such chunks are added in order.
const CHUNK: usize = 16;

#[derive(Debug)]
pub(super) struct Products<'a> {
    exponent: Exponent<'a>,
    isa: Isa,
}

impl<'a> Products<'a> {
    pub(super) fn new(exponent: Exponent<'a>) -> Self {
        Self { exponent, isa: Isa::current() }
    }

    pub(super) fn of_row(
        &self,
        machine: &Machine,
        score: &Score,
        x: &[f64],
        background: &Dense,
    ) -> Contributions {
        let Score::Expansion { supports, coefficients, .. } = score else {
            return Totals::new(x.len()).finish(0, 1);
        };
        let chunks = supports.par_chunks(CHUNK).zip(coefficients.par_chunks(CHUNK));
        let parts = chunks.map(|(supports, coefficients)| {
            let mut pair = Pair::new(self, x);
            let mut totals = Totals::new(x.len());
            let mut dense = vec![0.0; x.len()];
            for (support, beta) in supports.iter().zip(coefficients) {
                machine.supports().row(*support as usize).write_dense(&mut dense);
                pair.start(&dense);
                background.rows().for_each(|z| pair.add(z, &dense));
                totals.add(*beta, &pair.sums);
            }
            totals
        });
        let parts: Vec<Totals> = parts.collect();
        let mut all = Totals::new(x.len());
        parts.iter().for_each(|part| all.add(1.0, part));
        let rows = background.rows().len();
        all.finish(CHUNK + parts.len() + rows, rows)
    }
}

/// Sums of contributions, of their absolute values, and of bounds on their errors.
#[derive(Debug)]
struct Totals {
    values: Vec<f64>,
    sizes: Vec<f64>,
    errors: Vec<f64>,
}

impl Totals {
    fn new(columns: usize) -> Self {
        let zeros = || vec![0.0; columns];
        Self { values: zeros(), sizes: zeros(), errors: zeros() }
    }

    fn add(&mut self, factor: f64, other: &Self) {
        let size = factor.abs();
        for column in 0..self.values.len() {
            self.values[column] += factor * other.values[column];
            self.sizes[column] += size * other.sizes[column];
            self.errors[column] += size * other.errors[column];
        }
    }

    /// Means over so many background rows; each number was the sum of `terms` others at most.
    fn finish(self, terms: usize, rows: usize) -> Contributions {
        let rows = rows as f64;
        let errors = self.sizes.iter().zip(&self.errors).map(|(size, error)| {
            // The bounds were summed too: far fewer roundings than 1e9.
            (error * (1.0 + 1e-6) + sum_error(terms, 8.0, *size)) / rows * (1.0 + 1e-9)
        });
        let values = self.values.iter().map(|value| value / rows);
        Contributions { values: values.collect(), errors: errors.collect() }
    }
}

/// The work on one support and one background row after the other.
#[derive(Debug)]
struct Pair<'a> {
    products: &'a Products<'a>,
    x: &'a [f64],
    /// Exponents of x with the support, and their errors.
    own: Vec<(f64, f64)>,
    /// Columns in which x and the background row differ.
    columns: Vec<u32>,
    /// Exponents there, then factors; of x and of the background row.
    factors: [Vec<f64>; 2],
    /// Relative errors of the factors.
    errors: [Vec<f64>; 2],
    prefixes: Vec<f64>,
    integrals: Vec<f64>,
    sums: Totals,
}

/// What the columns of a pair have in common.
#[derive(Debug, Default)]
struct Shared {
    /// Exponent of the columns in which both rows agree, its error, and how many they are.
    exponent: f64,
    error: f64,
    /// `Σ min(t_a, t_b)` of the others: no contribution exceeds `exp(-(exponent + nearest))`.
    nearest: f64,
    /// At least `Σ (1 - min(a, b) / max(a, b))` of the others.
    spread: f64,
    /// Errors of all exponents.
    all_errors: f64,
}

impl<'a> Pair<'a> {
    fn new(products: &'a Products<'a>, x: &'a [f64]) -> Self {
        let two = || [Vec::new(), Vec::new()];
        Self {
            products,
            x,
            own: Vec::with_capacity(x.len()),
            columns: Vec::new(),
            factors: two(),
            errors: two(),
            prefixes: Vec::new(),
            integrals: Vec::new(),
            sums: Totals::new(x.len()),
        }
    }

    /// Goes to another support.
    fn start(&mut self, support: &[f64]) {
        let exponent = self.products.exponent;
        self.own.clear();
        self.own.extend(self.x.iter().zip(support).map(|(x, s)| exponent.at(*x, *s)));
        for sums in [&mut self.sums.values, &mut self.sums.sizes, &mut self.sums.errors] {
            sums.fill(0.0);
        }
    }

    /// Adds the contributions with one background row.
    fn add(&mut self, z: &[f64], support: &[f64]) {
        let shared = self.exponents(z, support);
        let count = self.columns.len();
        if count == 0 {
            return;
        }
        let ln_size = -(shared.exponent + shared.nearest) * (1.0 - 1e-9) + shared.all_errors;
        if ln_size <= LN_NEGLIGIBLE {
            let bound = exp1(ln_size) * (1.0 + 1e-6) + f64::MIN_POSITIVE;
            for column in &self.columns {
                self.sums.errors[*column as usize] += bound;
            }
            return;
        }
        let factor_errors = self.take_factors();
        let (rule, truncated) = quadrature::choose(count, shared.spread, ln_size);
        self.integrals.resize(count, 0.0);
        let [a, b] = &self.factors;
        let nodes = GaussLegendre::at(rule).rule();
        product_integrals(self.products.isa, a, b, nodes, &mut self.prefixes, &mut self.integrals);
        // The sum of the shared exponents meets a rounding for each column.
        let roundings = self.x.len() as f64 * UNIT * shared.exponent;
        let common_error = factor_error(shared.error + roundings);
        let bound = ProductError::new(count, SIZES[rule], factor_errors, common_error, truncated);
        let common = exp1(-shared.exponent);
        let errors = self.errors[0].iter().zip(&self.errors[1]);
        let factors = a.iter().zip(b).zip(errors);
        for ((column, integral), ((a, b), (a_error, b_error))) in
            self.columns.iter().zip(&self.integrals).zip(factors)
        {
            let (column, size) = (*column as usize, common * integral);
            let value = (a - b) * size;
            self.sums.values[column] += value;
            self.sums.sizes[column] += value.abs();
            self.sums.errors[column] += bound.of_column(size, [*a, *b], [*a_error, *b_error]);
        }
    }

    /// Finds the columns in which the rows differ and their exponents.
    fn exponents(&mut self, z: &[f64], support: &[f64]) -> Shared {
        let mut shared = Shared::default();
        self.columns.clear();
        self.factors.iter_mut().chain(&mut self.errors).for_each(Vec::clear);
        let rows = self.x.iter().zip(z).zip(support).zip(&self.own);
        for (column, (((x, z), s), (own, own_error))) in (0u32..).zip(rows) {
            if x == z {
                shared.exponent += own;
                shared.error += own_error;
                shared.all_errors += own_error;
                continue;
            }
            let (other, other_error) = self.products.exponent.at(*z, *s);
            self.columns.push(column);
            for (at, (t, error)) in
                [(own, own_error), (&other, &other_error)].into_iter().enumerate()
            {
                self.factors[at].push(*t);
                self.errors[at].push(*error);
            }
            let distance = (own - other).abs();
            shared.nearest += if *own < other { *own } else { other };
            // `1 - exp(-d) <= d`; NaN, of two infinite exponents, becomes 1.
            shared.spread += if distance < 1.0 { distance } else { 1.0 };
            shared.all_errors += own_error + other_error;
        }
        shared.spread *= 1.0 + 1e-9;
        shared
    }

    /// Turns exponents into factors and their errors into relative ones; returns the sum of the larger ones.
    fn take_factors(&mut self) -> f64 {
        for (exponents, errors) in self.factors.iter_mut().zip(&mut self.errors) {
            for (t, error) in exponents.iter_mut().zip(errors) {
                // What vanishes is part of the absolute error.
                let vanishes = *t - *error > VANISHES;
                *error = if vanishes { 0.0 } else { factor_error(*error) };
                *t = if vanishes { -2.0 * VANISHES } else { -*t };
            }
            exp(self.products.isa, exponents);
        }
        let pairs = self.errors[0].iter().zip(&self.errors[1]);
        pairs.map(|(a, b)| if a > b { *a } else { *b }).sum()
    }
}
