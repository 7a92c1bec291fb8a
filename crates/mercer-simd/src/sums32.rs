//! Weighted sums in f32, in short chains that keep the rounding error small; `sums.rs` has the f64 ones.

#![expect(unsafe_code, reason = "vector loads inside slices of checked lengths")]
#![expect(clippy::needless_range_loop, reason = "plain indices into register arrays unroll fully")]

use crate::isa::Isa;
use crate::vector::{SimdBackend, Task, Vector};

/// Partial sums, by index: two AVX2 registers or one of AVX-512.
const LANES: usize = 16;

/// Aligned, so that halves of a register that was just stored are loaded without a wait.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Partials([f32; LANES]);

struct WeightedSums32<'a> {
    values: &'a [f32],
    rows: &'a [f32],
    stride: usize,
    sums: &'a mut [f64],
}

impl WeightedSums32<'_> {
    /// `S` rows from `first` on share the loads of the values; returns how many they are.
    #[inline(always)]
    fn rows<B: SimdBackend, const S: usize>(&mut self, first: usize) -> usize {
        let mut rows = [self.values; S];
        for s in 0..S {
            rows[s] = &self.rows[(first + s) * self.stride..][..self.values.len()];
        }
        let mut partials = [Partials([0.0; LANES]); S];
        // SAFETY: each row is as long as the values, and `B` is the backend of the target features
        // this body was inlined into.
        unsafe {
            if B::V32::LANES == LANES {
                add_blocks::<B::V32, 1, S>(self.values, rows, &mut partials);
            } else {
                add_blocks::<B::V32, 2, S>(self.values, rows, &mut partials);
            }
        }
        let done = self.values.len() / LANES * LANES;
        for s in 0..S {
            let pairs = self.values[done..].iter().zip(&rows[s][done..]);
            for (sum, (value, weight)) in partials[s].0.iter_mut().zip(pairs) {
                *sum = value.mul_add(*weight, *sum);
            }
            // SAFETY: `B` is the backend of the target features this body was inlined into.
            self.sums[first + s] += unsafe { B::fold16(&partials[s].0) };
        }
        S
    }
}

/// The whole blocks of sixteen, as `N` registers each.
#[inline(always)]
unsafe fn add_blocks<V: Vector<Element = f32>, const N: usize, const S: usize>(
    values: &[f32],
    rows: [&[f32]; S],
    partials: &mut [Partials; S],
) {
    // SAFETY: the caller gives rows as long as the values, `N * LANES = 16` and the backend of `V`.
    unsafe {
        let mut sums = [[V::splat(0.0); N]; S];
        for block in 0..values.len() / LANES {
            for n in 0..N {
                let at = LANES * block + n * V::LANES;
                let value = V::load(values.as_ptr().add(at));
                for s in 0..S {
                    let row = V::load(rows[s].as_ptr().add(at));
                    sums[s][n] = value.fma(row, sums[s][n]);
                }
            }
        }
        for s in 0..S {
            for n in 0..N {
                sums[s][n].store(partials[s].0.as_mut_ptr().add(n * V::LANES));
            }
        }
    }
}

impl Task for WeightedSums32<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(mut self) {
        let (mut first, count) = (0, self.sums.len());
        while first < count {
            // Each row is a chain of additions that wait for each other; many side by side hide that. Registers of half the length
            // have room for five. Five are the sizes and the four scores of a class of five, eight those of two such classes.
            let has_room = B::V32::LANES == LANES;
            first += match count - first {
                1 => self.rows::<B, 1>(first),
                2 => self.rows::<B, 2>(first),
                3 => self.rows::<B, 3>(first),
                5 => self.rows::<B, 5>(first),
                6 if has_room => self.rows::<B, 6>(first),
                7 if has_room => self.rows::<B, 7>(first),
                8 if has_room => self.rows::<B, 8>(first),
                10 if has_room => self.rows::<B, 10>(first),
                _ => self.rows::<B, 4>(first),
            };
        }
    }
}

/// Adds `Σ_i values[i] * rows[s * stride + i]` to `sums[s]`: sixteen partial sums by index, each a chain of
/// fused multiply-adds in f32, folded by a fixed tree in f64.
///
/// With `n = ceil(values / 16)` a product passes `n` roundings of f32 and 4 of f64, and the
/// total one more of f64.
///
/// # Panics
/// If there is not one row for each sum, the last one as long as the values.
pub fn weighted_sums32(isa: Isa, values: &[f32], rows: &[f32], stride: usize, sums: &mut [f64]) {
    let last = sums.len().saturating_sub(1).saturating_mul(stride);
    let fits = stride >= values.len() && rows.len() >= last.saturating_add(values.len());
    assert!(sums.is_empty() || fits, "one row for each sum");
    isa.run(WeightedSums32 { values, rows, stride, sums });
}
