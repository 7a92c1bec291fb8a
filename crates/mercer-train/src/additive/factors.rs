//! The scalar kernel on the bins as a product of small factors.
//! How a term is mapped to numbers is in `maps`; the descent over them in [`crate::linear`].

use mercer_kernel::eigen::{dot, symmetric};

/// How well factors approximate the scalar kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FactorReport {
    /// `‖κ - ΦΦ'‖ / ‖κ‖`, both weighted by how often bins occur (a tenth by no weight at all).
    pub relative_error: f64,
    /// `max |κ(s, t) - Φ(s)·Φ(t)|` over the largest value of κ.
    pub worst_error: f64,
}

/// The weight of a bin: nine tenths by how often it occurs, one tenth evenly, so that rare bins are not
/// ignored.
fn weights(counts: &[u64]) -> Vec<f64> {
    let all: u64 = counts[1..].iter().sum();
    let even = 0.1 / (counts.len() - 1) as f64;
    let share = |count: &u64| if all == 0 { 0.0 } else { 0.9 * *count as f64 / all as f64 };
    counts[1..].iter().map(|count| share(count) + even).collect()
}

/// Weighted kernel principal components of `kernel` (a square matrix over the bins from 1 on): factors
/// of `rank` numbers for each bin, bin 0 first, with the components in order.
///
/// With `M = diag(√w) κ diag(√w) = U S U'`, `Φ(b) = U[b, ..rank] √S / √w_b` is the best symmetric factor
/// in the weighted norm. The space of the largest eigenvectors is found by subspace iteration.
pub(super) fn components(kernel: &[f64], counts: &[u64], rank: usize) -> Vec<f64> {
    let n = counts.len() - 1;
    let roots: Vec<f64> = weights(counts).iter().map(|w| w.sqrt()).collect();
    let entry = |a: usize, b: usize| roots[a] * kernel[a * n + b] * roots[b];
    let matrix: Vec<f64> = (0..n * n).map(|at| entry(at / n, at % n)).collect();
    let block = (rank + 8).min(n);
    let mut basis = start(block, n);
    for _ in 0..6 {
        basis = multiply(&matrix, &basis, n);
        orthonormalise(&mut basis, n);
    }
    let image = multiply(&matrix, &basis, n);
    let mut small = vec![0.0; block * block];
    for a in 0..block {
        for b in 0..block {
            small[a * block + b] = dot(&basis[a * n..(a + 1) * n], &image[b * n..(b + 1) * n]);
        }
    }
    for a in 0..block {
        for b in 0..a {
            let mean = f64::midpoint(small[a * block + b], small[b * block + a]);
            (small[a * block + b], small[b * block + a]) = (mean, mean);
        }
    }
    let mut factors = vec![0.0; (n + 1) * rank];
    let Some((values, vectors)) = symmetric(small, block) else { return factors };
    let mut order: Vec<usize> = (0..block).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    for (component, which) in order.into_iter().take(rank).enumerate() {
        let size = values[which].max(0.0).sqrt();
        let turn = &vectors[which * block..(which + 1) * block];
        for bin in 0..n {
            let part = (0..block).map(|k| turn[k] * basis[k * n + bin]).sum::<f64>();
            factors[(bin + 1) * rank + component] = part * size / roots[bin];
        }
    }
    factors
}

/// Smooth and rough vectors, always the same.
fn start(block: usize, n: usize) -> Vec<f64> {
    let entry = |k: usize, b: usize| {
        (std::f64::consts::PI * (k as f64 + 0.5) * (b as f64 + 0.5) / n as f64).cos()
            + 1e-3 * ((k * 7919 + b * 104_729) as f64).sin()
    };
    let mut basis: Vec<f64> = (0..block * n).map(|at| entry(at / n, at % n)).collect();
    orthonormalise(&mut basis, n);
    basis
}

/// Each row of `basis` times the symmetric matrix.
fn multiply(matrix: &[f64], basis: &[f64], n: usize) -> Vec<f64> {
    let mut out = vec![0.0; basis.len()];
    for (row, out) in basis.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        for (x, line) in row.iter().zip(matrix.chunks_exact(n)) {
            out.iter_mut().zip(line).for_each(|(place, m)| *place += x * m);
        }
    }
    out
}

/// Gram and Schmidt, twice; rows that vanish become zero.
fn orthonormalise(basis: &mut [f64], n: usize) {
    for k in 0..basis.len() / n {
        let (done, rest) = basis.split_at_mut(k * n);
        let row = &mut rest[..n];
        let before = dot(row, row).sqrt();
        for _ in 0..2 {
            for other in done.chunks_exact(n) {
                let share = dot(row, other);
                row.iter_mut().zip(other).for_each(|(x, y)| *x -= share * y);
            }
        }
        let length = dot(row, row).sqrt();
        let factor = if length > 1e-12 * before && length > 0.0 { 1.0 / length } else { 0.0 };
        row.iter_mut().for_each(|x| *x *= factor);
    }
}

/// Factors Φ (`read`) and Ψ (`write`): `stored` numbers for each bin, of which `rank` are used.
#[derive(Debug, Clone, Copy)]
pub(super) struct FactorTables<'f> {
    pub(super) read: &'f [f32],
    pub(super) write: &'f [f32],
    pub(super) rank: usize,
    pub(super) stored: usize,
}

/// How well factors approximate the scalar kernel.
pub(super) fn evaluate(
    kernel: &dyn Fn(usize, usize) -> f64,
    counts: &[u64],
    tables: FactorTables<'_>,
) -> FactorReport {
    let FactorTables { read, write, rank, stored } = tables;
    let n = counts.len() - 1;
    let weights = weights(counts);
    let to_f64 = |values: &[f32]| -> Vec<f64> {
        let rows = values.chunks_exact(stored).skip(1);
        rows.flat_map(|row| row[..rank].iter().map(|x| f64::from(*x))).collect()
    };
    let (read, write) = (to_f64(read), to_f64(write));
    let (mut error, mut size, mut worst, mut largest) = (0.0, 0.0, 0.0f64, 0.0f64);
    // Of thousands of bins some are enough.
    let stride = n.div_ceil(512);
    for a in (0..n).step_by(stride) {
        for b in (0..n).step_by(stride) {
            let value = kernel(a, b);
            let off =
                value - dot(&read[a * rank..(a + 1) * rank], &write[b * rank..(b + 1) * rank]);
            let weight = weights[a] * weights[b];
            error += weight * off * off;
            size += weight * value * value;
            worst = worst.max(off.abs());
            largest = largest.max(value.abs());
        }
    }
    let over = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    FactorReport { relative_error: over(error, size).sqrt(), worst_error: over(worst, largest) }
}
