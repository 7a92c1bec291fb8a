//! `min ½ |W - Σ g_i Φ_i|² + λ Σ w_i |g_i|` by coordinate descent: the primal reformulation with an attractor, and the
//! compressor `lasso`. Which columns take part and what λ is, is decided by the caller.
//!
//! With several scores `g_i` is a list, one number for each, and `|g_i|` its length, so that a vector is
//! left out of all scores or of none.

use mercer_kernel::factor::GramColumns;

/// A sweep that changes nothing by more than this share of the penalty ends the descent.
const CONVERGED: f64 = 1e-3;

/// A descent that can be continued with another penalty, and with more columns.
#[derive(Debug)]
pub struct SparseDescent<C> {
    columns: C,
    /// Weight of each coefficient in the penalty.
    weights: Vec<f64>,
    /// Coefficients, and the inner products with the residual `W - W~`, score after score.
    g: Vec<Vec<f64>>,
    residual: Vec<Vec<f64>>,
    column: Vec<f64>,
}

impl<C: GramColumns> SparseDescent<C> {
    /// All coefficients zero; `products` are the inner products `<Φ_i, W>`, score after score.
    pub fn new(columns: C, products: Vec<Vec<f64>>, weights: Vec<f64>) -> Self {
        let count = columns.diagonal().len();
        let g = vec![vec![0.0; count]; products.len()];
        Self { columns, weights, g, residual: products, column: vec![0.0; count] }
    }

    /// The same coefficients over more columns: those so far come first. `residual` are the inner products of the new
    /// ones with what is left of W, score after score.
    pub fn extended(mut self, columns: C, residual: &[Vec<f64>], weights: &[f64]) -> Self {
        let count = columns.diagonal().len();
        self.weights.extend(weights);
        for (list, new) in self.residual.iter_mut().zip(residual) {
            list.extend(new);
        }
        self.g.iter_mut().for_each(|list| list.resize(count, 0.0));
        self.column.resize(count, 0.0);
        Self { columns, ..self }
    }

    /// Coefficients, score after score.
    pub fn coefficients(&self) -> &[Vec<f64>] {
        &self.g
    }

    /// The columns.
    pub fn into_columns(self) -> C {
        self.columns
    }

    /// Minimises with a penalty, from the current coefficients, in at most so many sweeps over the columns; `false` if
    /// `go_on`, which gets the number of sweeps and the largest number, stopped it.
    pub fn solve(
        &mut self,
        penalty: f64,
        sweeps: usize,
        go_on: &mut dyn FnMut(usize, usize) -> bool,
    ) -> bool {
        let all: Vec<usize> = (0..self.weights.len()).collect();
        let mut done = 0;
        while done < sweeps {
            if !go_on(done, sweeps) {
                return false;
            }
            let change = self.sweep(&all, penalty);
            done += 1;
            if change <= CONVERGED * penalty {
                break;
            }
            let active: Vec<usize> = all.iter().copied().filter(|row| self.is_kept(*row)).collect();
            while done < sweeps {
                done += 1;
                if self.sweep(&active, penalty) <= CONVERGED * penalty {
                    break;
                }
            }
        }
        true
    }

    /// One pass; returns the largest change of an inner product with itself.
    fn sweep(&mut self, rows: &[usize], penalty: f64) -> f64 {
        let mut most = 0.0f64;
        for row in rows.iter().copied() {
            let diagonal = self.columns.diagonal()[row];
            if diagonal.is_nan() || diagonal <= 0.0 {
                continue;
            }
            let pairs = self.g.iter().zip(&self.residual);
            let minimum: Vec<f64> =
                pairs.map(|(g, residual)| g[row] + residual[row] / diagonal).collect();
            let length = minimum.iter().map(|v| v * v).sum::<f64>().sqrt();
            let limit = penalty * self.weights[row] / diagonal;
            let share = if length > limit { 1.0 - limit / length } else { 0.0 };
            let change: Vec<f64> =
                minimum.iter().zip(&self.g).map(|(v, g)| share * v - g[row]).collect();
            if change.iter().all(|x| *x == 0.0) {
                continue;
            }
            self.columns.column(row, &mut self.column);
            for ((g, residual), change) in self.g.iter_mut().zip(&mut self.residual).zip(&change) {
                g[row] += change;
                residual.iter_mut().zip(&self.column).for_each(|(place, k)| *place -= change * k);
            }
            most = most.max(change.iter().map(|x| x * x).sum::<f64>().sqrt() * diagonal);
        }
        most
    }

    fn is_kept(&self, row: usize) -> bool {
        self.g.iter().any(|g| g[row] != 0.0)
    }

    /// Columns with a coefficient.
    pub fn kept(&self) -> Vec<usize> {
        (0..self.weights.len()).filter(|row| self.is_kept(*row)).collect()
    }
}
