//! Scores that are sums over columns: the contribution of a column is its own part of the score, less the mean of that part
//! over the background. Linear machines, additive kernels and machines of tables.

use std::sync::{Arc, OnceLock};

use mercer_kernel::Term;
use mercer_machine::{Machine, Score};

use super::{Contributions, Dense};
use crate::certify::shapley::{sum_error, term_error};

#[derive(Debug)]
pub(super) struct Separable<'a> {
    machine: &'a Machine,
    /// The scalar kernel; the product of two values where there is none.
    term: Option<&'a dyn Term>,
    background: Arc<Dense>,
    /// For each score the parts of the background, summed over rows: computed when first asked for.
    sums: Vec<OnceLock<Parts>>,
}

/// The part of each column of a score, the sum of absolute values that it was added up from, and what those lost below the
/// normal range before they were multiplied.
#[derive(Debug, Clone)]
struct Parts {
    values: Vec<f64>,
    sizes: Vec<f64>,
    lost: Vec<f64>,
}

impl Parts {
    fn new(columns: usize) -> Self {
        let zeros = || vec![0.0; columns];
        Self { values: zeros(), sizes: zeros(), lost: zeros() }
    }

    fn add(&mut self, column: usize, value: f64) {
        self.values[column] += value;
        self.sizes[column] += value.abs();
    }
}

impl<'a> Separable<'a> {
    pub(super) fn new(
        machine: &'a Machine,
        term: Option<&'a dyn Term>,
        background: &Arc<Dense>,
    ) -> Self {
        let sums = machine.scores().iter().map(|_| OnceLock::new()).collect();
        Self { machine, term, background: Arc::clone(background), sums }
    }

    pub(super) fn of_row(&self, position: usize, x: &[f64]) -> Contributions {
        let score = &self.machine.scores()[position];
        let rows = self.background.rows().len();
        let sums = self.sums[position].get_or_init(|| {
            let mut sums = Parts::new(x.len());
            for z in self.background.rows() {
                let parts = self.parts(score, z);
                for column in 0..x.len() {
                    sums.values[column] += parts.values[column];
                    sums.sizes[column] += parts.sizes[column];
                    sums.lost[column] += parts.lost[column];
                }
            }
            sums
        });
        let own = self.parts(score, x);
        let means = sums.values.iter().map(|sum| sum / rows as f64);
        let values = own.values.iter().zip(means).map(|(own, mean)| own - mean).collect();
        let terms = self.terms(score) + rows + 4;
        let rounding = self.term.map_or(1.0, Term::rounding) + 2.0;
        let error = |column: usize| {
            let both = |own: &[f64], sums: &[f64]| own[column] + sums[column] / rows as f64;
            // What was lost was summed too: far fewer roundings than 1e9.
            sum_error(terms, rounding, both(&own.sizes, &sums.sizes))
                + both(&own.lost, &sums.lost) * (1.0 + 1e-6)
        };
        Contributions { values, errors: (0..x.len()).map(error).collect() }
    }

    /// Terms that a part is added up from.
    fn terms(&self, score: &Score) -> usize {
        match score {
            Score::Expansion { coefficients, .. } => coefficients.len(),
            Score::Linear { .. } => 1,
            Score::Additive { .. } => self.machine.bins().map_or(0, |bins| bins.rank()),
        }
    }

    fn parts(&self, score: &Score, x: &[f64]) -> Parts {
        let mut parts = Parts::new(x.len());
        match score {
            Score::Linear { weights, .. } => {
                for (column, (weight, x)) in weights.iter().zip(x).enumerate() {
                    parts.add(column, weight * x);
                }
            }
            Score::Additive { weights, .. } => {
                let Some(bins) = self.machine.bins() else { return parts };
                let rank = bins.rank();
                let live = x.iter().enumerate().filter(|(_, x)| **x != 0.0);
                for (column, x) in live.take_while(|(column, _)| *column < self.machine.columns()) {
                    let bin = bins.bin(column, *x);
                    let own = &weights[column * rank..(column + 1) * rank];
                    let encoding = &bins.encoding()[bin * rank..(bin + 1) * rank];
                    for (weight, code) in own.iter().zip(encoding) {
                        parts.add(column, f64::from(*weight) * f64::from(*code));
                    }
                }
            }
            Score::Expansion { supports, coefficients, .. } => {
                let mut dense = vec![0.0; x.len()];
                for (support, beta) in supports.iter().zip(coefficients) {
                    self.machine.supports().row(*support as usize).write_dense(&mut dense);
                    for (column, (x, s)) in x.iter().zip(&dense).enumerate() {
                        let (value, lost) = self.value(*x, *s);
                        parts.add(column, beta * value);
                        parts.lost[column] += beta.abs() * lost;
                    }
                }
            }
        }
        parts
    }

    /// The scalar kernel, and a bound on what it lost below the normal range.
    fn value(&self, u: f64, v: f64) -> (f64, f64) {
        match self.term {
            None => (u * v, term_error(0.0)),
            Some(term) if term.vanishes_at_zero() && (u == 0.0 || v == 0.0) => (0.0, 0.0),
            Some(term) => (term.term(u, v), term_error(term.magnitude(u, v))),
        }
    }
}
