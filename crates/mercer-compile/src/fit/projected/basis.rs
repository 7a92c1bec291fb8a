//! One choice of dimensions: what is stored, and how far it is from what it means. The names are those of
//! `mercer_query`'s `certify/tail.rs`; what is left of the supports is measured by its `verify/projected.rs`, the
//! tail here, where all directions are known.

use mercer_kernel::bound::{gamma, largest};
use mercer_machine::{Array, Section};
use mercer_query::verify::forms::{self, Measured, frobenius};
use mercer_query::verify::projected::{ProjectedRows, Rests, Spare, tail_margin};
use mercer_simd::gemm_nt;

use super::{DIRECTIONS, FixedSizes, MOST_ROWS, Ready, unfit};
use crate::CompileError;

pub(super) struct ProjectedFit {
    head: usize,
    ahead: usize,
    columns: usize,
    /// `n x n`, the first `ahead` rows rounded to f32.
    vectors: Vec<f64>,
    /// `m x head`, rounded to f32.
    supports: Vec<f64>,
    /// `h x m`.
    basis: Vec<f64>,
    /// `h x n`, in f32.
    corrections: Vec<f32>,
    values: Vec<f64>,
    weights: Vec<f64>,
    errors: [f64; 8],
}

impl ProjectedFit {
    pub(super) fn new(ready: &Ready, sizes: FixedSizes, head: usize) -> Result<Self, CompileError> {
        let n = ready.rows.columns;
        let ahead = sizes.look_ahead.unwrap_or(2 * head).clamp(head, n);
        let directions = sizes.directions.unwrap_or(DIRECTIONS);
        let mut vectors = ready.vectors.clone();
        round(&mut vectors[..ahead * n]);
        let mut supports = vec![0.0; ready.rows.count * head];
        gemm_nt(ready.rows.count, head, n, &ready.rows.values, &vectors[..head * n], &mut supports);
        round(&mut supports);
        let rest = largest(ready.values[ahead..].iter().copied());
        let mut values = ready.values[head..ahead].to_vec();
        values.push(rest);
        let mut basis = Self {
            head,
            ahead,
            columns: n,
            vectors,
            supports,
            basis: Vec::new(),
            corrections: Vec::new(),
            values,
            weights: ready.weights.clone(),
            errors: [0.0; 8],
        };
        let rests = basis.measure(ready);
        basis.correct(ready, &rests, directions);
        if basis.errors.iter().any(|error| !error.is_finite())
            || basis.errors[1] > 0.01
            || basis.errors[3] > 0.01
        {
            return Err(unfit("its main directions are not accurate enough"));
        }
        Ok(basis)
    }

    pub(super) fn section(&self) -> Section {
        let in_f32 = |values: &[f64]| Array::F32(values.iter().map(|x| *x as f32).collect());
        let directions = self.basis.len() / self.weights.len().max(1);
        let text = format!(
            "projected(dimensions={}, look_ahead={}, directions={directions})",
            self.head, self.ahead
        );
        Section::new(text)
            .with("vectors", in_f32(&self.vectors[..self.ahead * self.columns]))
            .with("supports", in_f32(&self.supports))
            .with("corrections", Array::F32(self.corrections.clone()))
            .with("values", Array::F64(self.values.clone()))
            .with("weights", Array::F64(self.weights.clone()))
            .with("basis", Array::F64(self.basis.clone()))
            .with("errors", Array::F64(self.errors.to_vec()))
    }

    /// Everything but the corrections; returns what the head leaves of the supports.
    fn measure(&mut self, ready: &Ready) -> Rests {
        let n = self.columns;
        let stored = ProjectedRows {
            head: &self.vectors[..self.head * n],
            supports: &self.supports,
            weights: &self.weights,
        };
        let rests = Rests::new(&ready.rows, &stored, Spare::Fit);
        let (gram, error) = rests.gram(n);
        let against = self.against_model(&gram, &ready.values);
        let tail = Measured { value: against.value, error: against.error + error }.stored();
        let rest = self.values[self.values.len() - 1];
        let ahead = &self.values[..self.values.len() - 1];
        self.errors[0] = tail + tail_margin(n, ahead, rest, tail) + 1e-250;
        self.errors[1] = forms::defect(&self.vectors, n).stored();
        self.errors[4] = rests.leak;
        self.errors[5] = rests.reach;
        self.errors[6] = rests.excess;
        self.errors[7] = rests.weighted_rows;
        rests
    }

    /// `||G - Σ_(j>head) μ_j v_j v_j'||_F`. The model sums `n` terms of unit vectors: `γ_(n+8) 1.05 Σ μ_j`.
    fn against_model(&self, gram: &[f64], all: &[f64]) -> Measured {
        let (n, head) = (self.columns, self.head);
        let left_over = n - head;
        let (mut left, mut right) = (vec![0.0; n * left_over], vec![0.0; n * left_over]);
        // The rest counts with its own values here: the bound raises them to the largest afterwards.
        let values = &all[head..];
        for (j, value) in values.iter().enumerate() {
            let row = &self.vectors[(head + j) * n..(head + j + 1) * n];
            for (a, x) in row.iter().enumerate() {
                left[a * left_over + j] = *x;
                right[a * left_over + j] = value * x;
            }
        }
        let mut model = vec![0.0; n * n];
        if left_over > 0 {
            gemm_nt(n, n, left_over, &left, &right, &mut model);
        }
        for (model, entry) in model.iter_mut().zip(gram) {
            *model = entry - *model;
        }
        let sum: f64 = values.iter().sum();
        Measured { value: frobenius(&model), error: 1.05 * gamma(n as f64 + 8.0) * sum }
    }

    /// The main directions of `c/w` over the sample, and what they make of the rests.
    fn correct(&mut self, ready: &Ready, rests: &Rests, directions: usize) {
        let (m, n) = (ready.rows.count, self.columns);
        self.basis = self.main_directions(ready, directions.min(m));
        let h = self.basis.len() / m.max(1);
        let mut exactly = vec![0.0; h * n];
        gemm_nt(h, n, m, &self.basis, &rests.across, &mut exactly);
        self.corrections = exactly.iter().map(|x| *x as f32).collect();
        let [drift, skew] = rests.drift_and_skew(&self.basis, &self.corrections, Spare::Fit);
        (self.errors[2], self.errors[3]) = (drift, skew);
    }

    /// Orthonormal rows over the supports that explain most of `c/w` at the sample.
    fn main_directions(&self, ready: &Ready, directions: usize) -> Vec<f64> {
        let (m, n, head) = (ready.rows.count, self.columns, self.head);
        let queries = ready.sample.count;
        if directions == 0 || queries == 0 {
            return Vec::new();
        }
        let mut along = vec![0.0; queries * head];
        let first = &self.vectors[..head * n];
        gemm_nt(queries, head, n, &ready.sample.values, first, &mut along);
        let mut slopes = vec![0.0; queries * m];
        gemm_nt(queries, m, head, &along, &self.supports, &mut slopes);
        ready.slopes(&mut slopes);
        // One row for each query and score, evenly chosen if those are too many.
        let scores = ready.scores.len();
        let step = (queries * scores).div_ceil(MOST_ROWS).max(1);
        let mut table = Vec::new();
        for at in (0..queries * scores).step_by(step) {
            let (query, betas) = (at % queries, &ready.scores[at / queries]);
            let row = slopes[query * m..(query + 1) * m].iter().zip(betas).zip(&self.weights);
            table.extend(row.map(|((slope, beta), weight)| slope * beta / weight));
        }
        let rows = table.len() / m;
        let most = table.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        if most == 0.0 || !most.is_finite() {
            return Vec::new();
        }
        table.iter_mut().for_each(|x| *x /= most);
        let mut gram = vec![0.0; rows * rows];
        gemm_nt(rows, rows, m, &table, &table, &mut gram);
        let Some((values, vectors)) = mercer_kernel::eigen::symmetric(gram, rows) else {
            return Vec::new();
        };
        let mut order: Vec<usize> = (0..rows).collect();
        order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
        let largest = values[order[0]];
        let mut basis: Vec<f64> = Vec::new();
        for j in order.into_iter().take(directions) {
            if values[j].is_nan() || values[j] <= 1e-10 * largest {
                break;
            }
            let mut direction = vec![0.0; m];
            for (share, row) in vectors[j * rows..(j + 1) * rows].iter().zip(table.chunks(m)) {
                direction.iter_mut().zip(row).for_each(|(sum, x)| *sum += share * x);
            }
            push_orthonormal(&mut basis, direction);
        }
        basis
    }
}

/// Adds a direction, made orthogonal to the others twice over, unless nothing is left of it.
fn push_orthonormal(basis: &mut Vec<f64>, mut direction: Vec<f64>) {
    let m = direction.len();
    let before = frobenius(&direction);
    for _ in 0..2 {
        for row in basis.chunks_exact(m) {
            let share: f64 = row.iter().zip(&direction).map(|(a, b)| a * b).sum();
            direction.iter_mut().zip(row).for_each(|(x, a)| *x -= share * a);
        }
        let after = frobenius(&direction);
        if after.is_nan() || after <= 1e-6 * before || after == 0.0 {
            return;
        }
        direction.iter_mut().for_each(|x| *x /= after);
    }
    basis.extend(direction);
}

fn round(values: &mut [f64]) {
    values.iter_mut().for_each(|x| *x = f64::from(*x as f32));
}
