//! The product form of Fine and Scheinberg: a stable factorisation of `D + V V'`, one scalar at a time.

use mercer_kernel::factor::Store;
use mercer_simd::Real;

use super::{folded, rows_f64};

/// `D + V V' = L_1 .. L_k Λ L_k' .. L_1'`, each `L_j` a unit lower triangle given by two vectors
/// (\[FS01\] Fig. 1), computed row by row, so that V is read once.
///
/// Differs from the paper: with `τ = 1 / t` there is no special case `t = ∞`. A zero D gives `λ = τ p²`,
/// `β = 1 / p`, `τ = 0`, and thereafter `β = 0`.
#[derive(Debug)]
pub(crate) struct ProductForm {
    rank: usize,
    /// `p` of each row and column.
    steps: Vec<f64>,
    /// `β` of each row and column.
    shares: Vec<f64>,
    lambda: Vec<f64>,
}

impl ProductForm {
    /// `rows` are V, row-major.
    pub(crate) fn new(mut rows: Vec<f64>, rank: usize, d: &[f64]) -> Self {
        let mut shares = vec![0.0; rows.len()];
        let mut lambda = d.to_vec();
        let mut sigma = vec![0.0; rank * rank];
        let mut tau = vec![1.0; rank];
        let width = rank.max(1);
        let each = rows.chunks_exact_mut(width).zip(shares.chunks_exact_mut(width));
        for ((row, shares), lambda) in each.zip(&mut lambda) {
            for j in 0..rank {
                let p = row[j];
                let grown = *lambda + tau[j] * p * p;
                let share = if grown > 0.0 { tau[j] * p / grown } else { 0.0 };
                if grown > 0.0 {
                    tau[j] *= *lambda / grown;
                    *lambda = grown;
                }
                shares[j] = share;
                let later =
                    row[j + 1..].iter_mut().zip(&mut sigma[j * rank + j + 1..(j + 1) * rank]);
                for (q, sigma) in later {
                    *q -= p * *sigma;
                    *sigma += *q * share;
                }
            }
        }
        Self { rank, steps: rows, shares, lambda }
    }

    /// Solves in place.
    pub(crate) fn solve(&self, u: &mut [f64]) {
        let (rank, width) = (self.rank, self.rank.max(1));
        let mut sums = vec![0.0; rank];
        let rows = || self.steps.chunks_exact(width).zip(self.shares.chunks_exact(width));
        for (value, (steps, shares)) in u.iter_mut().zip(rows()) {
            for j in 0..rank {
                *value -= steps[j] * sums[j];
                sums[j] += *value * shares[j];
            }
        }
        for (value, lambda) in u.iter_mut().zip(&self.lambda) {
            *value = if *lambda > 0.0 { *value / lambda } else { 0.0 };
        }
        sums.fill(0.0);
        for (value, (steps, shares)) in u.iter_mut().zip(rows()).rev() {
            for j in (0..rank).rev() {
                *value -= shares[j] * sums[j];
                sums[j] += *value * steps[j];
            }
        }
    }
}

/// The product form of all variables that are not fixed.
#[derive(Debug)]
pub(crate) struct FullProductForm {
    form: ProductForm,
    used: Vec<u32>,
    variables: usize,
}

impl FullProductForm {
    pub(super) fn new<T: Real>(store: &Store<T>, d: &[f64]) -> Self {
        let used: Vec<u32> = (0..d.len() as u32).filter(|v| d[*v as usize].is_finite()).collect();
        let used_d: Vec<f64> = used.iter().map(|v| d[*v as usize]).collect();
        let form = ProductForm::new(rows_f64(store, &used), store.rank(), &used_d);
        Self { form, used, variables: d.len() }
    }

    pub(super) fn solve<T: Real>(
        &self,
        store: &Store<T>,
        w: &[f64],
        r: &[f64],
    ) -> (Vec<f64>, Vec<f64>) {
        let v_r = store.times(r);
        let value = |v: usize| w[v] + v_r[v % v_r.len().max(1)];
        let mut values: Vec<f64> = self.used.iter().map(|v| value(*v as usize)).collect();
        self.form.solve(&mut values);
        let mut u = vec![0.0; self.variables];
        self.used.iter().zip(values).for_each(|(v, value)| u[*v as usize] = value);
        let mut p = store.transposed_times(&folded(&u, store.rows()));
        p.iter_mut().zip(r).for_each(|(p, r)| *p -= r);
        (u, p)
    }
}
