//! Supports in few dimensions as bytes: a quarter of the memory, and products of whole numbers.
//!
//! Each direction has its own scale, which is folded into the query; each query has one scale. The first
//! direction, which carries most of the length of rows that are not centred, stays in f32. Products of
//! bytes are exact, so that every instruction set gives the same.

use std::ops::Range;

use mercer_simd::{BytePanels, ByteQueries, Isa};

/// What zero becomes.
const ZERO: f32 = 128.0;
/// The largest size of a byte.
const MOST: f32 = 127.0;

#[derive(Debug)]
pub(super) struct ByteSupports {
    panels: BytePanels,
    /// The first direction of each support.
    first: Vec<f32>,
    /// Size of one step in each direction.
    steps: Vec<f32>,
    /// Sums of the bytes of each support.
    sums: Vec<i32>,
}

/// Loaded queries.
pub(super) struct ByteScratch {
    queries: ByteQueries,
    /// For each query: its first coordinate, the size of its step, the sum of its bytes.
    scales: Vec<(f32, f32, i32)>,
    row: Vec<f32>,
    bytes: Vec<u8>,
    products: Vec<i32>,
}

/// A number in steps, as a byte.
fn byte(steps: f32) -> u8 {
    (steps.round().clamp(-MOST, MOST) + ZERO) as u8
}

impl ByteSupports {
    /// Packs supports; `fill(row, out)` writes their coordinates.
    pub(super) fn new(
        isa: Isa,
        rows: usize,
        columns: usize,
        fill: impl Fn(usize, &mut [f32]),
    ) -> Self {
        let mut table = vec![0.0; rows * columns];
        table.chunks_exact_mut(columns).enumerate().for_each(|(row, out)| fill(row, out));
        let first = table.iter().step_by(columns).copied().collect();
        table.iter_mut().step_by(columns).for_each(|x| *x = 0.0);
        let mut steps = vec![0.0f32; columns];
        for row in table.chunks_exact(columns) {
            steps.iter_mut().zip(row).for_each(|(step, x)| *step = step.max(x.abs() / MOST));
        }
        let in_steps = |x: f32, step: f32| byte(if step > 0.0 { x / step } else { 0.0 });
        let panels = BytePanels::pack(isa, rows, columns, |row, out| {
            let own = table[row * columns..(row + 1) * columns].iter().zip(&steps);
            out.iter_mut().zip(own).for_each(|(out, (x, step))| *out = in_steps(*x, *step));
        });
        let sum = |row: &[f32]| {
            let bytes = row.iter().zip(&steps).map(|(x, step)| i32::from(in_steps(*x, *step)));
            bytes.sum::<i32>()
        };
        let sums = table.chunks_exact(columns).map(sum).collect();
        Self { panels, first, steps, sums }
    }

    pub(super) fn panels(&self) -> usize {
        self.panels.panels()
    }

    pub(super) fn lanes(&self, panels: Range<usize>) -> Range<usize> {
        self.panels.lanes(panels)
    }

    pub(super) fn bytes(&self) -> usize {
        self.panels.bytes() + 8 * self.first.len()
    }

    pub(super) fn work(&self) -> ByteScratch {
        ByteScratch {
            queries: self.panels.queries(),
            scales: Vec::new(),
            row: Vec::new(),
            bytes: Vec::new(),
            products: Vec::new(),
        }
    }

    /// Takes the coordinates of queries, one after the other.
    pub(super) fn load(&self, work: &mut ByteScratch, coordinates: &[f32]) {
        let ByteScratch { queries, scales, row, bytes, .. } = work;
        queries.clear();
        scales.clear();
        for own in coordinates.chunks_exact(self.steps.len()) {
            row.clear();
            row.extend(own.iter().zip(&self.steps).map(|(y, step)| y * step));
            row[0] = 0.0;
            let step = row.iter().fold(0.0f32, |most, x| most.max(x.abs())) / MOST;
            // Numbers that overflowed must not pass for ordinary ones.
            let is_usual = step > 0.0 && step.is_finite();
            bytes.clear();
            bytes.extend(row.iter().map(|x| byte(if is_usual { x / step } else { 0.0 })));
            queries.push(bytes);
            let sum = bytes.iter().map(|byte| i32::from(*byte)).sum();
            let overflowed = own.iter().any(|y| !y.is_finite()) || !step.is_finite();
            scales.push((own[0], if overflowed { f32::NAN } else { step }, sum));
        }
    }

    /// Products of all queries with the supports of some panels, `width` apart.
    pub(super) fn dots(
        &self,
        work: &mut ByteScratch,
        range: Range<usize>,
        out: &mut [f32],
        width: usize,
    ) {
        let ByteScratch { queries, scales, products, .. } = work;
        let lanes = self.panels.lanes(range.clone());
        products.resize(scales.len() * width, 0);
        self.panels.dots(queries, 0..queries.len(), range, products, width);
        let zero = ZERO as i32;
        let both = zero * zero * self.steps.len() as i32;
        let rows = lanes.start..lanes.end.min(self.first.len());
        let all = products.chunks_exact(width).zip(out.chunks_exact_mut(width));
        for ((products, out), (y, step, sum)) in all.zip(&*scales) {
            let supports = self.first[rows.clone()].iter().zip(&self.sums[rows.clone()]);
            for ((out, product), (first, own)) in out.iter_mut().zip(products).zip(supports) {
                let whole = product - zero * (sum + own) + both;
                *out = whole as f32 * step + y * first;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_near_those_in_f32_for_every_instruction_set() {
        let (rows, columns) = (150, 21);
        let number =
            |n: usize| ((n * 7919 % 10007) as f32 / 10007.0 - 0.5) / (1.0 + (n % 21) as f32);
        let supports: Vec<f32> = (0..rows * columns).map(number).collect();
        let query: Vec<f32> = (0..2 * columns).map(|n| number(n * 31 + 5)).collect();
        for isa in Isa::available() {
            let packed = ByteSupports::new(*isa, rows, columns, |row, out| {
                out.copy_from_slice(&supports[row * columns..(row + 1) * columns]);
            });
            let mut work = packed.work();
            packed.load(&mut work, &query);
            let width = packed.lanes(0..packed.panels()).len();
            let mut out = vec![0.0; 2 * width];
            packed.dots(&mut work, 0..packed.panels(), &mut out, width);
            for (y, out) in query.chunks_exact(columns).zip(out.chunks_exact(width)) {
                for (row, found) in supports.chunks_exact(columns).zip(out) {
                    let dot: f32 = row.iter().zip(y).map(|(a, b)| a * b).sum();
                    assert!((dot - found).abs() < 4e-3, "{}: {dot} against {found}", isa.name());
                }
            }
        }
    }
}
