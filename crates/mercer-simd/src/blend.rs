//! Sums of a few rows of singles, each with its weight: projections of sparse rows, products with small
//! matrices.

#![expect(unsafe_code, reason = "vector loads inside slices of checked lengths")]
#![expect(clippy::needless_range_loop, reason = "plain indices into register arrays unroll fully")]

use crate::isa::Isa;
use crate::vector::{Machine, Task, Vector};

/// A row and its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Weight {
    /// Which row.
    pub row: u32,
    /// Its weight.
    pub value: f32,
}

/// Lanes of a row are a multiple of this.
const PAD: usize = 16;

struct Blend<'a> {
    parts: [&'a [Weight]; 2],
    rows: &'a [f32],
    out: &'a mut [f32],
}

impl Task for Blend<'_> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        let width = self.out.len();
        let mut lane = 0;
        // SAFETY: every row holds `width` lanes from its start on and was checked to lie within `rows`;
        // strips end within the width, and `M` is the machine this body is compiled for.
        unsafe {
            let (rows, out) = (self.rows.as_ptr(), self.out.as_mut_ptr());
            while lane + 4 * M::V32::LANES <= width {
                strip::<M::V32, 4>(self.parts, rows.add(lane), width, out.add(lane));
                lane += 4 * M::V32::LANES;
            }
            while lane + 2 * M::V32::LANES <= width {
                strip::<M::V32, 2>(self.parts, rows.add(lane), width, out.add(lane));
                lane += 2 * M::V32::LANES;
            }
            while lane < width {
                strip::<M::V32, 1>(self.parts, rows.add(lane), width, out.add(lane));
                lane += M::V32::LANES;
            }
        }
    }
}

/// `N` registers of all rows. Both parts run side by side, so that neither waits for itself.
#[inline(always)]
unsafe fn strip<V: Vector<Element = f32>, const N: usize>(
    [first, second]: [&[Weight]; 2],
    rows: *const f32,
    width: usize,
    out: *mut f32,
) {
    // SAFETY: the caller checked all rows, and `N * LANES` lanes from `rows` and `out` on exist.
    unsafe {
        let mut sums = [[V::splat(0.0); N]; 2];
        let both = first.len().min(second.len());
        for at in 0..both {
            for (sums, weight) in sums.iter_mut().zip([first[at], second[at]]) {
                add::<V, N>(sums, weight, rows, width);
            }
        }
        for weight in &first[both..] {
            add::<V, N>(&mut sums[0], *weight, rows, width);
        }
        for weight in &second[both..] {
            add::<V, N>(&mut sums[1], *weight, rows, width);
        }
        for n in 0..N {
            sums[0][n].add(sums[1][n]).store(out.add(n * V::LANES));
        }
    }
}

#[inline(always)]
unsafe fn add<V: Vector<Element = f32>, const N: usize>(
    sums: &mut [V; N],
    weight: Weight,
    rows: *const f32,
    width: usize,
) {
    // SAFETY: as for `strip`.
    unsafe {
        let value = V::splat(weight.value);
        let row = rows.add(weight.row as usize * width);
        for n in 0..N {
            sums[n] = value.fma(V::load(row.add(n * V::LANES)), sums[n]);
        }
    }
}

/// `out[lane] = Σ value · rows[row][lane]` over the weights of both parts: each part one chain of fused
/// multiply-adds in its order, then their sum. Rows lie one after the other, as wide as `out`.
///
/// # Panics
/// If the width is not a multiple of 16 or a row does not exist.
pub fn blend32(isa: Isa, parts: [&[Weight]; 2], rows: &[f32], out: &mut [f32]) {
    let width = out.len();
    assert!(width.is_multiple_of(PAD), "rows are padded");
    let last =
        parts.iter().flat_map(|part| part.iter()).fold(0, |last, weight| last.max(weight.row));
    let is_empty = parts.iter().all(|part| part.is_empty());
    assert!(is_empty || (last as usize + 1) * width <= rows.len(), "no such row");
    isa.run(Blend { parts, rows, out });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_gives_the_two_chains() {
        let number = |n: usize| ((n * 37 % 101) as f32 - 50.0) / 7.0;
        for width in [16, 32, 48, 64, 112] {
            let rows: Vec<f32> = (0..20 * width).map(number).collect();
            let weight = |n: usize| Weight { row: (n * 7 % 20) as u32, value: number(n * n + 3) };
            for (first, second) in [(0, 0), (5, 0), (0, 4), (9, 9), (12, 3), (2, 17)] {
                let all: Vec<Weight> = (0..first + second).map(weight).collect();
                let (one, two) = all.split_at(first);
                let chain = |part: &[Weight], lane: usize| {
                    part.iter().fold(0.0f32, |sum, weight| {
                        weight.value.mul_add(rows[weight.row as usize * width + lane], sum)
                    })
                };
                let wanted: Vec<u32> = (0..width)
                    .map(|lane| (chain(one, lane) + chain(two, lane)).to_bits())
                    .collect();
                for isa in Isa::available() {
                    let mut out = vec![9.0; width];
                    blend32(*isa, [one, two], &rows, &mut out);
                    let found: Vec<u32> = out.iter().map(|x| x.to_bits()).collect();
                    assert_eq!(found, wanted, "{} {width} {first} {second}", isa.name());
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "no such row")]
    fn rows_that_do_not_exist_are_refused() {
        let weights = [Weight { row: 2, value: 1.0 }];
        blend32(Isa::current(), [&weights, &[]], &[0.0; 32], &mut [0.0; 16]);
    }
}
