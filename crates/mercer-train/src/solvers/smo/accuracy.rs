//! How accurate the running gradient is: when it is compared with one of f64 kernel values, and what follows.
//! The stopping test, which recomputes all of it, is in `smo.rs`.

use super::{DRIFT_SHARE, SmoRun};
use crate::gram::kernel_sums;
use crate::optimality::Optimality;

/// From this round on the gradient is compared with an f64 one, before it only where [`SmoRun::expected_error`] asks for it; the interval
/// grows by a factor of two each time.
pub(super) const FIRST_CHECK: u64 = 64;
/// Rows compared in such a check.
const SAMPLE: usize = 256;
/// Relative rounding error of an f32 kernel value.
const F32_ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;
/// Objectives that differ by this share are equal: more than the rounding errors of a sum of thousands of terms. A start that was moved off its
/// bounds by a rounding error is not gone back to.
const ROUNDING: f64 = 1e-12;

/// Coefficients of all rows, and their `Kβ` in f64.
#[derive(Debug)]
pub(super) struct KnownPoint {
    pub(super) folded: Vec<f64>,
    pub(super) k_beta: Vec<f64>,
}

/// A point, and its objective by recomputed sums.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LowestPoint {
    pub(crate) beta: Vec<f64>,
    pub(crate) objective: f64,
}

/// What a comparison of the running gradient with a recomputed one led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drift {
    /// The difference is small.
    Small,
    /// It is too large: the gradient was recomputed in f64.
    Refreshed,
    /// It is too large for f64 as well, and the objective did not fall since the gradient was last recomputed.
    Stalled,
}

impl SmoRun<'_, '_, '_> {
    /// `Kβ` of all rows, recomputed from f64 kernel values.
    pub(super) fn recompute_k_beta(&mut self) -> Vec<f64> {
        if self.state.is_f64 && self.is_whole() {
            // The rows are f64 kernel values, and most are there.
            let folded = self.problem.qp.fold(&self.state.beta);
            let used = || (0..folded.len()).filter(|row| folded[*row] != 0.0);
            let supports: Vec<u32> = used().map(|row| self.examples[row]).collect();
            let weights: Vec<f64> = used().map(|row| folded[row]).collect();
            return self.problem.gram.sums(&self.problem.view, &supports, &weights);
        }
        let Some(known) = &self.known else { return self.recompute_k_beta_of(&self.examples) };
        // From the last known point where few rows changed since: both parts are f64 kernel values.
        let folded = self.problem.qp.fold(&self.state.beta);
        let used = folded.iter().filter(|value| **value != 0.0).count();
        let changed: Vec<usize> =
            (0..folded.len()).filter(|row| folded[*row] != known.folded[*row]).collect();
        let k_beta = if 2 * changed.len() < used {
            let rows: Vec<u32> = changed.iter().map(|row| self.examples[*row]).collect();
            let weights: Vec<f64> =
                changed.iter().map(|row| folded[*row] - known.folded[*row]).collect();
            let mut sums = kernel_sums(&self.problem.gram.source, &self.examples, &rows, &weights);
            sums.iter_mut().zip(&known.k_beta).for_each(|(sum, before)| *sum += before);
            sums
        } else {
            self.recompute_k_beta_of(&self.examples)
        };
        self.known = Some(KnownPoint { folded, k_beta: k_beta.clone() });
        k_beta
    }

    pub(super) fn recompute_k_beta_of(&self, examples: &[u32]) -> Vec<f64> {
        let folded = self.problem.qp.fold(&self.state.beta);
        let used: Vec<usize> = (0..folded.len()).filter(|row| folded[*row] != 0.0).collect();
        let supports: Vec<u32> = used.iter().map(|row| self.examples[*row]).collect();
        let weights: Vec<f64> = used.iter().map(|row| folded[*row]).collect();
        kernel_sums(&self.problem.gram.source, examples, &supports, &weights)
    }

    /// Whether the running gradient is to be compared with an f64 one before the next round.
    pub(super) fn is_check_due(&self, tolerance: f64) -> bool {
        let rounds = self.state.rounds;
        if rounds >= FIRST_CHECK {
            return rounds >= self.state.next_check;
        }
        let is_early = !self.state.is_f64 && rounds.is_power_of_two();
        is_early && self.expected_error() > DRIFT_SHARE * tolerance
    }

    /// The error of the gradient that rounded kernel values lead to if their errors are independent: a Gram matrix of f32 values differs
    /// from the true one by `e_ij` of size `u max|K|`, and the gradient by `Σ_j e_ij β_j`, of size `u max|K| ‖β‖`. It says when a comparison
    /// is worth its time, and nothing else.
    fn expected_error(&self) -> f64 {
        let diagonal = &self.problem.gram.source.diagonal;
        let rows = self.examples.iter().map(|row| diagonal[*row as usize].abs());
        let squares: f64 = self.state.beta.iter().map(|value| value * value).sum();
        F32_ROUNDING * rows.fold(0.0, f64::max) * squares.sqrt()
    }

    /// Compares the running gradient of some rows with an f64 one; recomputes all of it if the difference is too large.
    pub(super) fn sample_drift(&mut self, tolerance: f64) -> Drift {
        self.state.next_check = 2 * self.state.rounds.max(FIRST_CHECK / 2);
        let step = self.state.active.len().div_ceil(SAMPLE).max(1);
        let places: Vec<usize> = (0..self.state.active.len()).step_by(step).collect();
        let rows = places.iter().map(|at| self.examples[self.state.active[*at] as usize]);
        let recomputed = self.recompute_k_beta_of(&rows.collect::<Vec<u32>>());
        let running = places.iter().map(|at| self.state.k_beta[*at]);
        let drift = running.zip(&recomputed).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        if drift <= DRIFT_SHARE * tolerance {
            return Drift::Small;
        }
        let (was_f64, before) = (self.state.is_f64, self.state.lowest.objective);
        self.switch_to_f64();
        if was_f64 && self.state.lowest.objective >= before {
            return Drift::Stalled;
        }
        Drift::Refreshed
    }

    /// Continues with f64 kernel rows and a recomputed gradient, from the lowest point that is known.
    pub(super) fn switch_to_f64(&mut self) {
        self.problem.gram.switch_to_f64(self.problem.memory);
        self.state.is_f64 = true;
        let k_beta = self.recompute_k_beta();
        let k_beta = self.at_lowest(k_beta);
        self.activate_all(k_beta);
    }

    /// The objective of the present point, given `Kβ` of all rows.
    pub(super) fn objective(&self, k_beta: &[f64]) -> f64 {
        Optimality::of(self.problem.qp, &self.state.beta, k_beta).objective
    }

    /// Remembers this point if none is lower, else goes back to the one that is; returns `Kβ` of the point taken. The steps of a pair
    /// lower the objective by the running gradient: where rounding errors are larger than they are, it may rise.
    pub(super) fn at_lowest(&mut self, k_beta: Vec<f64>) -> Vec<f64> {
        let objective = self.objective(&k_beta);
        let lowest = &mut self.state.lowest;
        if objective > lowest.objective + ROUNDING * lowest.objective.abs() {
            self.state.beta.clone_from(&lowest.beta);
            return self.recompute_k_beta();
        }
        if objective < lowest.objective {
            lowest.beta.clone_from(&self.state.beta);
            lowest.objective = objective;
        }
        k_beta
    }
}
