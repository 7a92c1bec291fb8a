//! The exact encoding of the intersection kernel: piecewise linear functions of a bin, updated in blocks.

use super::Records;
use super::encoding::{Encoding, Reader, Stored};
use super::packed_row::{PackedRow, RecordTask};
use super::records::Cells;
use crate::aligned::AlignedBuffer;

/// Bins of a block, and number of blocks.
const BLOCK: usize = 16;
const BINS: usize = BLOCK * BLOCK;
/// Where the numbers that a block shares start.
const BASE: usize = BINS;
const SLOPE: usize = BINS + BLOCK;
/// Weights of one column.
const STRIDE: usize = BINS + 2 * BLOCK;

/// The intersection kernel `min(t_a, t_b)` on at most 256 bins with non-decreasing values, without approximation.
///
/// The curve of a column is `g(b) = Σ_c β_c min(t_b, t_c)`. Bins are divided into 16 blocks of 16. For a bin of
/// block h the terms of lower blocks are `base[h] = Σ β_c t_c`, those of higher blocks `t_b slope[h]` with
/// `slope[h] = Σ β_c`, and those of the same block are in `near[b]`: three reads. A change of one
/// coefficient touches the 16 numbers of its block, the bases above and the slopes below.
#[derive(Debug, Clone)]
pub struct StepEncoding {
    values: AlignedBuffer<f32>,
    /// For each bin: what `near`, `base` and `slope` gain, 16 numbers each.
    gains: AlignedBuffer<f32>,
}

/// Numbers of one bin in `gains`.
const GAINS: usize = 3 * BLOCK;

impl StepEncoding {
    /// Bins with these values; the first bin is zero.
    ///
    /// # Panics
    /// If there are more than 256 or none, or they decrease.
    pub fn new(values: &[f32]) -> Self {
        assert!((1..=BINS).contains(&values.len()), "one bin or up to 256");
        assert!(
            values.windows(2).all(|pair| pair[0] <= pair[1]),
            "values of bins must not decrease"
        );
        let mut gains = AlignedBuffer::zeroed(values.len() * GAINS);
        for (bin, value) in values.iter().enumerate() {
            let gain = &mut gains[bin * GAINS..(bin + 1) * GAINS];
            for lane in 0..BLOCK {
                let neighbour = values.get(bin / BLOCK * BLOCK + lane).unwrap_or(value);
                gain[lane] = neighbour.min(*value);
                gain[BLOCK + lane] = if lane > bin / BLOCK { *value } else { 0.0 };
                gain[2 * BLOCK + lane] = if lane < bin / BLOCK { 1.0 } else { 0.0 };
            }
        }
        let mut copy = AlignedBuffer::zeroed(values.len());
        copy.copy_from_slice(values);
        Self { values: copy, gains }
    }

    /// The values of the bins.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    fn bins(&self) -> usize {
        self.values.len()
    }

    /// The curve of each column at bins 1, 2, ..., in f64.
    pub fn curves(&self, weights: &[f64]) -> Vec<f64> {
        let columns = weights.chunks_exact(STRIDE);
        let mut curves = Vec::with_capacity(columns.len() * (self.bins() - 1));
        for column_weights in columns {
            for (bin, value) in self.values.iter().enumerate().skip(1) {
                let block = bin / BLOCK;
                let far = column_weights[SLOPE + block]
                    .mul_add(f64::from(*value), column_weights[BASE + block]);
                curves.push(column_weights[bin] + far);
            }
        }
        curves
    }
}

impl Encoding for StepEncoding {
    type Real = f32;

    fn rank(&self) -> usize {
        STRIDE
    }

    fn fits(&self, records: &Records) -> bool {
        records.cells() == Cells::Bins(self.bins())
    }

    /// `Σ_j Σ_b (g_j(b) - g_j(b - 1))² / (t_b - t_{b-1})`: the norm of the functions whose kernel is `min`.
    fn squared_norm(&self, weights: &[f64]) -> f64 {
        let curves = self.curves(weights);
        let mut sum = 0.0;
        for curve in curves.chunks_exact(self.bins().max(2) - 1) {
            let mut before = 0.0;
            for (step, value) in self.values.windows(2).zip(curve) {
                let (rise, run) = (value - before, f64::from(step[1]) - f64::from(step[0]));
                if run > 0.0 {
                    sum += rise * rise / run;
                }
                before = *value;
            }
        }
        sum
    }

    fn choose<W: RecordTask<f32>>(&self, records: &Records, work: W) -> W::Output {
        let reader = StepReader { values: &self.values, gains: &self.gains };
        // No more than 256 bins, hence bytes.
        if records.is_narrow() {
            work.run::<u16, u8, _>(reader)
        } else {
            work.run::<u32, u8, _>(reader)
        }
    }
}

/// The values of bins and what they add to the weights.
#[derive(Clone, Copy)]
struct StepReader<'a> {
    values: &'a [f32],
    gains: &'a [f32],
}

impl StepReader<'_> {
    /// # Safety
    /// The bin must exist.
    #[inline(always)]
    unsafe fn gains_of(&self, bin: usize) -> &[f32; GAINS] {
        // SAFETY: every bin has `GAINS` numbers.
        unsafe { &*self.gains.as_ptr().add(bin * GAINS).cast() }
    }
}

impl<C, L> Reader<C, L> for StepReader<'_>
where
    C: Stored<Read = usize>,
    L: Stored<Read = usize>,
{
    type Real = f32;

    /// Four chains over entries `i mod 4`, joined as those of factors are.
    #[inline(always)]
    unsafe fn value(self, row: &PackedRow<C, L>, weights: &[f32]) -> f32 {
        let mut sums = [0.0f32; 4];
        for i in 0..row.length {
            // SAFETY: column and bin exist, so both slices hold their numbers.
            let (column_weights, bin, value) = unsafe {
                let (column, bin) = (row.column(i), row.cell(i));
                let column_weights = weights.as_ptr().add(column * STRIDE);
                (&*column_weights.cast::<[f32; STRIDE]>(), bin, *self.values.as_ptr().add(bin))
            };
            let (near, base, slope) = weight_indices(bin);
            sums[i % 4] +=
                column_weights[slope].mul_add(value, column_weights[base]) + column_weights[near];
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    }

    #[inline(always)]
    unsafe fn add(self, row: &PackedRow<C, L>, change: f32, weights: &mut [f32]) {
        for i in 0..row.length {
            // SAFETY: as above.
            unsafe {
                let (column, bin) = (row.column(i), row.cell(i));
                let column_weights = weights.as_mut_ptr().add(column * STRIDE);
                add(&mut *column_weights.cast(), bin, self.gains_of(bin), change);
            }
        }
    }

    #[inline(always)]
    unsafe fn sum(self, row: &PackedRow<C, L>, beta: f64, sums: &mut [f64]) {
        for i in 0..row.length {
            // SAFETY: as above.
            unsafe {
                let (column, bin) = (row.column(i), row.cell(i));
                let column_weights = sums.as_mut_ptr().add(column * STRIDE);
                add_f64(&mut *column_weights.cast(), bin, self.gains_of(bin), |sum, gain| {
                    beta.mul_add(gain, sum)
                });
            }
        }
    }

    #[inline(always)]
    unsafe fn squares(self, row: &PackedRow<C, L>, factor: f64, sums: &mut [f64]) {
        for i in 0..row.length {
            // SAFETY: as above.
            unsafe {
                let (column, bin) = (row.column(i), row.cell(i));
                let column_weights = sums.as_mut_ptr().add(column * STRIDE);
                add_f64(&mut *column_weights.cast(), bin, self.gains_of(bin), |sum, gain| {
                    (factor * gain).mul_add(gain, sum)
                });
            }
        }
    }
}

/// Where the three numbers of a bin lie in the weights of its column.
#[inline(always)]
fn weight_indices(bin: usize) -> (usize, usize, usize) {
    let bin = bin % BINS;
    (bin, BASE + bin / BLOCK, SLOPE + bin / BLOCK)
}

/// Adds `change` times the gains of a bin to the weights of a column.
#[inline(always)]
fn add(column_weights: &mut [f32; STRIDE], bin: usize, gains: &[f32; GAINS], change: f32) {
    let first = bin % BINS / BLOCK * BLOCK;
    for lane in 0..BLOCK {
        column_weights[first + lane] = change.mul_add(gains[lane], column_weights[first + lane]);
    }
    for lane in 0..2 * BLOCK {
        column_weights[BASE + lane] =
            change.mul_add(gains[BLOCK + lane], column_weights[BASE + lane]);
    }
}

/// The same in f64, by any rule.
#[inline(always)]
fn add_f64(
    column_weights: &mut [f64; STRIDE],
    bin: usize,
    gains: &[f32; GAINS],
    rule: impl Fn(f64, f64) -> f64,
) {
    let first = bin % BINS / BLOCK * BLOCK;
    for lane in 0..BLOCK {
        column_weights[first + lane] = rule(column_weights[first + lane], f64::from(gains[lane]));
    }
    for lane in 0..2 * BLOCK {
        column_weights[BASE + lane] =
            rule(column_weights[BASE + lane], f64::from(gains[BLOCK + lane]));
    }
}
