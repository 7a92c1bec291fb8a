//! `f = Kβ` of all rows: updated by changes, and recomputed from β.
//! Which rows change, and by how much, is decided in `run`.

use super::run::{Moved, Rounds};
use super::scores::RoundSupports;
use crate::TrainError;
use crate::gram::F32Rows;
use crate::solvers::State;

/// Supports that are packed at the same time.
const SUPPORTS: usize = 16_384;

impl Rounds<'_> {
    /// Adds the changes of some rows to `Kβ` of all rows.
    pub(super) fn update_sums(&mut self, moved: &Moved) -> Result<(), TrainError> {
        let mut k_beta = std::mem::take(&mut self.state.k_beta);
        let added = self.add_changes(moved, &mut k_beta);
        self.state.k_beta = k_beta;
        added
    }

    /// Adds changes to `Kβ` that were found without all kernel values between them: of clusters, which were solved without
    /// each other, or over a factor. If they overshoot so far that the objective grows, all are shortened to the best
    /// common step, `-F'D / D'KD`.
    pub(super) fn update_by_step(
        &mut self,
        before: &[f64],
        moved: &Moved,
    ) -> Result<(), TrainError> {
        let mut sums = vec![0.0; self.rows.len()];
        self.add_changes(moved, &mut sums)?;
        let terms = moved.rows.iter().zip(&moved.changes);
        let curvature: f64 = terms.map(|(row, change)| change * sums[*row as usize]).sum();
        let State { beta, k_beta, .. } = &mut self.state;
        let qp = self.qp;
        let gradient = |v: usize| k_beta[v % qp.rows] + qp.linear[v];
        let slope: f64 = (0..qp.len()).map(|v| (beta[v] - before[v]) * gradient(v)).sum();
        let step = if slope + 0.5 * curvature < 0.0 { 1.0 } else { (-slope / curvature).max(0.0) };
        if step < 1.0 {
            for (value, old) in beta.iter_mut().zip(before) {
                *value = old + step * (*value - old);
            }
        }
        k_beta.iter_mut().zip(&sums).for_each(|(value, sum)| *value += step * sum);
        Ok(())
    }

    /// Adds `Σ change K(row, ·)` of some rows to the sums of all rows. Small changes are added from f32 kernel values.
    fn add_changes(&mut self, moved: &Moved, sums: &mut [f64]) -> Result<(), TrainError> {
        let most = self.most_in_f32;
        let is_small = |change: f64| !self.state.is_f64 && change.abs() <= most;
        let terms = || moved.rows.iter().copied().zip(moved.changes.iter().copied());
        let (rows, changes): (Vec<u32>, Vec<f64>) =
            terms().filter(|(_, change)| !is_small(*change)).unzip();
        let (small_rows, small): (Vec<u32>, Vec<f64>) =
            terms().filter(|(_, change)| is_small(*change)).unzip();
        self.add_terms(&rows, &changes, None, sums)?;
        self.add_terms(&small_rows, &small, self.f32_rows, sums)
    }

    /// Adds `Σ weight K(row, ·)` of some rows to the sums of all rows, from f32 kernel values if `f32_rows` are given.
    fn add_terms(
        &mut self,
        rows: &[u32],
        weights: &[f64],
        f32_rows: Option<&F32Rows>,
        sums: &mut [f64],
    ) -> Result<(), TrainError> {
        for (rows, weights) in rows.chunks(SUPPORTS).zip(weights.chunks(SUPPORTS)) {
            let matrix = self.rows.gather(rows)?;
            let supports = RoundSupports::new(self.kernel, f32_rows, &matrix, weights, self.centre);
            self.rows.add_sums(&supports, sums)?;
            self.work.kernel_values += (rows.len() * self.rows.len()) as u64;
            self.work.peak_bytes = self.work.peak_bytes.max(supports.bytes() + matrix.bytes());
        }
        Ok(())
    }

    /// `Kβ` of all rows, from β alone.
    pub(super) fn recompute_k_beta(&mut self) -> Result<Vec<f64>, TrainError> {
        let folded = self.qp.fold(&self.state.beta);
        let used = (0u32..).zip(folded).filter(|(_, beta)| *beta != 0.0);
        let (rows, weights): (Vec<u32>, Vec<f64>) = used.unzip();
        let mut sums = vec![0.0; self.rows.len()];
        self.add_terms(&rows, &weights, None, &mut sums)?;
        Ok(sums)
    }
}
