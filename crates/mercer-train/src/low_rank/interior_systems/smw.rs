//! The Sherman-Morrison-Woodbury formula (\[FS01\] section 3.1): fast, but not stable; for comparison.

use mercer_kernel::cholesky::Cholesky;
use mercer_kernel::factor::Store;
use mercer_kernel::triangle;
use mercer_simd::Real;

use super::folded;

/// `p = (I + V' D^-1 V)^-1 (V' D^-1 w - r)`, `u = D^-1 (w - V p)`. Where D is small it
/// loses digits; residuals and the recomputed gap show it.
#[derive(Debug)]
pub(crate) struct Smw {
    rank: usize,
    inverse: Vec<f64>,
    lower: Cholesky,
}

impl Smw {
    pub(super) fn new<T: Real>(store: &Store<T>, d: &[f64]) -> Option<Self> {
        let rank = store.rank();
        let inverse: Vec<f64> = d.iter().map(|d| 1.0 / d).collect();
        if inverse.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut lower = store.weighted_square(&folded(&inverse, store.rows()));
        (0..rank).for_each(|at| lower[at * rank + at] += 1.0);
        let lower = Cholesky::new(lower, rank, &mut |_| true).ok()?;
        Some(Self { rank, inverse, lower })
    }

    pub(super) fn solve<T: Real>(
        &self,
        store: &Store<T>,
        w: &[f64],
        r: &[f64],
    ) -> (Vec<f64>, Vec<f64>) {
        let mut u: Vec<f64> = w.iter().zip(&self.inverse).map(|(w, i)| w * i).collect();
        let mut h = store.transposed_times(&folded(&u, store.rows()));
        h.iter_mut().zip(r).for_each(|(h, r)| *h -= r);
        triangle::solve_lower(self.lower.values(), self.rank, &mut h);
        triangle::solve_transposed(self.lower.values(), self.rank, &mut h);
        let v_p = store.times(&h);
        for (v, (u, inverse)) in u.iter_mut().zip(&self.inverse).enumerate() {
            *u -= inverse * v_p[v % v_p.len()];
        }
        (u, h)
    }
}
