//! One choice of dimensions: what is stored, and how far it is from what it means. The names are those of
//! `mercer_query`'s `certify/tail.rs`. Nothing is assumed of the decomposition: every residual is computed,
//! and the rounding of that is bounded as written beside it.

use mercer_kernel::bound::gamma;
use mercer_machine::{Array, Section};
use mercer_simd::gemm_nt;

use super::super::live_rows::transposed;
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
        let rest = ready.values[ahead..].iter().copied().fold(0.0, f64::max);
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

    /// Everything but the corrections; returns `T`, the rests of the supports, and how far it may be off.
    ///
    /// - An entry of `T` passes `head + 2` roundings, so row `i` is off by at most
    ///   `γ_(head+3) (|z_i| + √head 1.02 |a_i|) =: o_i`, and `W T` by `ΔW = (Σ w_i² o_i²)^½`.
    /// - `T'W²T` sums `m` terms: off by `γ_(m+8) ||WT||² + 2 ||WT|| ΔW + ΔW²`. The model sums `n` terms of
    ///   unit vectors: `γ_(n+8) 1.05 Σ μ_j`.
    /// - `Σ v_j v_j' - I`: `γ_(n+4) 1.05 n`. `V t_i`: `1.02 √head (γ_(n+4) |t_i| + o_i)`.
    fn measure(&mut self, ready: &Ready) -> Rests {
        let (m, n, head) = (ready.rows.count, self.columns, self.head);
        let first = &self.vectors[..head * n];
        let mut rests = vec![0.0; m * n];
        gemm_nt(m, n, head, &self.supports, &transposed(first, head, n), &mut rests);
        for (rest, z) in rests.iter_mut().zip(&ready.rows.values) {
            *rest = z - *rest;
        }
        let root = (head as f64).sqrt();
        let (mut off, mut weighted_rows, mut excess) = (0.0f64, 0.0f64, 0.0f64);
        let (mut leak, mut reach) = (0.0f64, 0.0f64);
        let mut leaks = vec![0.0; m * head];
        gemm_nt(m, head, n, &rests, first, &mut leaks);
        for row in 0..m {
            let z = length(&ready.rows.values[row * n..(row + 1) * n]);
            let a = length(&self.supports[row * head..(row + 1) * head]);
            let t = length(&rests[row * n..(row + 1) * n]);
            let o = gamma(head as f64 + 3.0) * (z + 1.02 * root * a) * (1.0 + 1e-9) + 1e-150;
            let w = self.weights[row];
            off += w * w * o * o;
            weighted_rows += w * w * z * z;
            if z > 0.0 {
                excess = excess.max(a / z - 1.0);
            }
            let v = length(&leaks[row * head..(row + 1) * head]);
            leak = leak.max(v + 1.02 * root * (gamma(n as f64 + 4.0) * t + o));
            reach = reach.max(t + o);
        }
        let off = off.sqrt() * (1.0 + 1e-8);
        let mut weighted = rests.clone();
        for (row, weight) in weighted.chunks_exact_mut(n).zip(&self.weights) {
            row.iter_mut().for_each(|x| *x *= weight);
        }
        let size = length(&weighted);
        let across = transposed(&weighted, m, n);
        let mut gram = vec![0.0; n * n];
        gemm_nt(n, n, m, &across, &across, &mut gram);
        let tail = self.against_model(&gram, &ready.values)
            + gamma(m as f64 + 8.0) * size * size
            + 2.0 * size * off
            + off * off;
        let all = transposed(&self.vectors, n, n);
        let mut unit = vec![0.0; n * n];
        gemm_nt(n, n, n, &all, &all, &mut unit);
        (0..n).for_each(|j| unit[j * n + j] -= 1.0);
        let defect = length(&unit) + 1.05 * gamma(n as f64 + 4.0) * n as f64;
        let up = 1.0 + 1e-8;
        self.errors[0] = tail * up + 1e-250;
        self.errors[1] = defect * up;
        self.errors[4] = leak * up;
        self.errors[5] = reach * up;
        self.errors[6] = excess.max(0.0) + 1e-8;
        self.errors[7] = weighted_rows.sqrt() * up;
        Rests { across, size, off }
    }

    /// `||G - Σ_(j>head) μ_j v_j v_j'||_F`, rounded up.
    fn against_model(&self, gram: &[f64], all: &[f64]) -> f64 {
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
        length(&model) + 1.05 * gamma(n as f64 + 8.0) * sum
    }

    /// The main directions of `c/w` over the sample, and what they make of the rests.
    ///
    /// `D = P W T` sums `m` terms: off by `(γ_(m+4) ||WT|| + ΔW) ||P||_F`, and rounded to f32, which is
    /// measured. `P P' - I`: `γ_(m+4) 1.05 h`.
    fn correct(&mut self, ready: &Ready, rests: &Rests, directions: usize) {
        let (m, n) = (ready.rows.count, self.columns);
        self.basis = self.main_directions(ready, directions.min(m));
        let h = self.basis.len() / m.max(1);
        let mut exactly = vec![0.0; h * n];
        gemm_nt(h, n, m, &self.basis, &rests.across, &mut exactly);
        self.corrections = exactly.iter().map(|x| *x as f32).collect();
        for (x, single) in exactly.iter_mut().zip(&self.corrections) {
            *x -= f64::from(*single);
        }
        let size = length(&self.basis);
        let rounding = (gamma(m as f64 + 4.0) * rests.size + rests.off) * size;
        self.errors[2] = (length(&exactly) + rounding) * (1.0 + 1e-8) + 1e-250;
        let mut gram = vec![0.0; h * h];
        gemm_nt(h, h, m, &self.basis, &self.basis, &mut gram);
        (0..h).for_each(|k| gram[k * h + k] -= 1.0);
        let rounding = 1.05 * gamma(m as f64 + 4.0) * h as f64;
        self.errors[3] = (length(&gram) + rounding) * (1.0 + 1e-8);
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

/// The rests with their weights, transposed: `(W T)'`, its norm, and how far it may be off.
struct Rests {
    across: Vec<f64>,
    size: f64,
    off: f64,
}

/// Adds a direction, made orthogonal to the others twice over, unless nothing is left of it.
fn push_orthonormal(basis: &mut Vec<f64>, mut direction: Vec<f64>) {
    let m = direction.len();
    let before = length(&direction);
    for _ in 0..2 {
        for row in basis.chunks_exact(m) {
            let share: f64 = row.iter().zip(&direction).map(|(a, b)| a * b).sum();
            direction.iter_mut().zip(row).for_each(|(x, a)| *x -= share * a);
        }
        let after = length(&direction);
        if after.is_nan() || after <= 1e-6 * before || after == 0.0 {
            return;
        }
        direction.iter_mut().for_each(|x| *x /= after);
    }
    basis.extend(direction);
}

/// `|v|`, rounded up by less than 1e-8: fewer than 1e7 terms, scaled so that small ones do not vanish.
fn length(values: &[f64]) -> f64 {
    let largest = values.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    let sum: f64 = values.iter().map(|x| (x / largest) * (x / largest)).sum();
    sum.sqrt() * largest * (1.0 + 1e-8)
}

fn round(values: &mut [f64]) {
    values.iter_mut().for_each(|x| *x = f64::from(*x as f32));
}
