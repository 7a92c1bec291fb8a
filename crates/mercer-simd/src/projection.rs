//! Weighted sums of a few f32 rows: projections of sparse rows, and small quadratic forms.
//!
//! The stage that uses them is `projected` in `mercer-query`.

#![expect(unsafe_code, reason = "vector loads inside slices of checked lengths")]
#![expect(clippy::needless_range_loop, reason = "plain indices into register arrays unroll fully")]

use crate::aligned::AlignedBuffer;
use crate::fold8;
use crate::isa::Isa;
use crate::vector::{SimdBackend, Task, Vector};

/// Lanes of a [`Strip`], and what the width of a [`quadratic32`] form is a multiple of: a cache line.
const LANES: usize = 16;

/// Independent partial sums, to hide the latency of additions.
const CHAINS: usize = 4;

/// A row and its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Weight {
    /// Which row.
    pub row: u32,
    /// Its weight.
    pub value: f32,
}

/// Which row of a [`Strip`] belongs to each column; columns without a row share a last row of zeros.
#[derive(Debug, Clone)]
pub struct ColumnIndex {
    /// None exceeds `rows`.
    of_column: Vec<u32>,
    rows: u32,
}

impl ColumnIndex {
    /// Rows 0, 1, ... for these columns, of `columns` in all.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn new(columns: usize, used: &[u32]) -> Self {
        let rows = u32::try_from(used.len()).expect("columns are counted in 32 bits");
        let mut of_column = vec![rows; columns];
        for (row, column) in (0..rows).zip(used) {
            of_column[*column as usize] = row;
        }
        Self { of_column, rows }
    }

    /// The row of each column.
    pub fn of_columns(&self) -> &[u32] {
        &self.of_column
    }
}

/// Sixteen f32 for each row, one cache line per row.
#[derive(Debug, Clone)]
pub struct Strip {
    /// The last row is zero.
    values: AlignedBuffer<f32>,
    rows: u32,
}

impl Strip {
    /// One row for each row of `index`; `fill(row, lanes)` writes one into zeros.
    pub fn new(index: &ColumnIndex, mut fill: impl FnMut(usize, &mut [f32])) -> Self {
        let count = index.rows as usize;
        let mut values = AlignedBuffer::zeroed((count + 1) * LANES);
        for (row, lanes) in values.chunks_exact_mut(LANES).take(count).enumerate() {
            fill(row, lanes);
        }
        Self { values, rows: index.rows }
    }

    /// The rows one after the other, without the last one of zeros.
    pub fn rows(&self) -> &[f32] {
        &self.values[..self.rows as usize * LANES]
    }

    /// Memory held.
    pub fn bytes(&self) -> usize {
        4 * self.values.len()
    }

    /// `Σ x_c row(c)` over the entries of a sparse row, each rounded to f32: four chains of fused
    /// multiply-adds, entry `n` in chain `n` modulo 4, then their sum by pairs. Columns without a row add
    /// nothing.
    ///
    /// # Panics
    /// If the lengths differ or the index is that of another strip.
    pub fn sum_sparse(
        &self,
        isa: Isa,
        index: &ColumnIndex,
        columns: &[u32],
        values: &[f64],
        out: &mut [f32; LANES],
    ) {
        assert_eq!(columns.len(), values.len(), "one value per column");
        assert_eq!(index.rows, self.rows, "the index of this strip");
        let (of_column, rows) = (index.of_column.as_slice(), self.rows);
        isa.run(StripSum {
            strip: self,
            count: columns.len(),
            entry: |at: usize| {
                // SAFETY: `StripSum` reads entries below `count`, which both lists have.
                let (column, value) =
                    unsafe { (*columns.get_unchecked(at), *values.get_unchecked(at)) };
                (of_column.get(column as usize).copied().unwrap_or(rows), value as f32)
            },
            out,
        });
    }

    /// The same for entries whose rows are known: `Σ value row`.
    ///
    /// # Panics
    /// If a row does not exist.
    pub fn sum(&self, isa: Isa, weights: &[Weight], out: &mut [f32; LANES]) {
        let rows = self.rows;
        let entry = |at: usize| {
            let Weight { row, value } = weights[at];
            assert!(row <= rows, "no such row");
            (row, value)
        };
        isa.run(StripSum { strip: self, count: weights.len(), entry, out });
    }
}

/// `entry` is called with numbers below `count` and never returns a row beyond the last one, of zeros.
struct StripSum<'a, F> {
    strip: &'a Strip,
    count: usize,
    entry: F,
    out: &'a mut [f32; LANES],
}

impl<F: Fn(usize) -> (u32, f32)> Task for StripSum<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        if B::V32::LANES == LANES {
            self.registers::<B::V32, 1>();
        } else {
            self.registers::<B::V32, 2>();
        }
    }
}

impl<F: Fn(usize) -> (u32, f32)> StripSum<'_, F> {
    #[inline(always)]
    fn registers<V: Vector<Element = f32>, const N: usize>(self) {
        let Self { strip, count, entry, out } = self;
        let rows = strip.values.as_ptr();
        // SAFETY: `N * LANES` of the register is 16 wherever this is run; every row that `entry` names exists,
        // and `V` belongs to the backend this body is compiled for.
        unsafe {
            let mut sums = [[V::splat(0.0); N]; CHAINS];
            let whole = count - count % CHAINS;
            let mut at = 0;
            while at < whole {
                for chain in 0..CHAINS {
                    let (row, value) = entry(at + chain);
                    add::<V, N>(&mut sums[chain], rows.add(row as usize * LANES), value);
                }
                at += CHAINS;
            }
            // A constant number of rounds: chains with constant indices stay in registers.
            for chain in 0..CHAINS - 1 {
                if whole + chain < count {
                    let (row, value) = entry(whole + chain);
                    add::<V, N>(&mut sums[chain], rows.add(row as usize * LANES), value);
                }
            }
            store(sums, out);
        }
    }
}

#[inline(always)]
unsafe fn add<V: Vector<Element = f32>, const N: usize>(
    sums: &mut [V; N],
    row: *const f32,
    value: f32,
) {
    // SAFETY: the caller has `N` registers of f32 at `row`.
    unsafe {
        let value = V::splat(value);
        for n in 0..N {
            sums[n] = value.fma(V::load(row.add(n * V::LANES)), sums[n]);
        }
    }
}

/// Writes the sum of the four chains, by pairs.
///
/// # Safety
/// `N` registers of `V` hold 16 f32.
#[inline(always)]
unsafe fn store<V: Vector<Element = f32>, const N: usize>(
    chains: [[V; N]; CHAINS],
    out: &mut [f32; LANES],
) {
    for n in 0..N {
        let sum = chains[0][n].add(chains[1][n]).add(chains[2][n].add(chains[3][n]));
        // SAFETY: the caller ensures that `out` is long enough.
        unsafe { sum.store(out.as_mut_ptr().add(n * V::LANES)) };
    }
}

/// `y'Ay + b·y` in `size` coordinates; rows of A, `b` and `y` are padded with zeros to the width.
struct Quadratic<'a> {
    size: usize,
    form: &'a [f32],
    line: &'a [f32],
    y: &'a [f32],
}

impl Task for Quadratic<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<B: SimdBackend>(self) -> f64 {
        if B::V32::LANES == LANES {
            self.registers::<B::V32, 1>()
        } else {
            self.registers::<B::V32, 2>()
        }
    }
}

impl Quadratic<'_> {
    #[inline(always)]
    fn registers<V: Vector<Element = f32>, const N: usize>(self) -> f64 {
        let Self { size, form, line, y } = self;
        let width = y.len();
        let mut sums = [0.0f64; 8];
        for lane in (0..width).step_by(LANES) {
            let mut products = [0.0f32; LANES];
            // SAFETY: `size` rows of `width` f32 values were checked, and `LANES` of each lie within it; `N` times
            // the lanes of `V` are `LANES` wherever this is run, and `V` belongs to the backend at work.
            unsafe {
                let mut chains = [[V::splat(0.0); N]; CHAINS];
                let rows = form.as_ptr().add(lane);
                let mut first = 0;
                while first < size {
                    for chain in 0..CHAINS {
                        let row = first + chain;
                        if row < size {
                            let start = rows.add(row * width);
                            add::<V, N>(&mut chains[chain], start, *y.get_unchecked(row));
                        }
                    }
                    first += CHAINS;
                }
                store(chains, &mut products);
            }
            let (line, y) = (&line[lane..lane + LANES], &y[lane..lane + LANES]);
            for half in [0, LANES / 2] {
                for at in 0..LANES / 2 {
                    let factor = f64::from(line[half + at]) + f64::from(products[half + at]);
                    sums[at] += f64::from(y[half + at]) * factor;
                }
            }
        }
        fold8(&sums)
    }
}

/// `y'Ay + b·y` for `size` coordinates: `form` holds the rows of A one after the other, each as wide as `line`
/// (which is `b`) and `y`, all padded with zeros to a multiple of 16. `Ay` is summed in f32, in four chains,
/// the rest in f64.
///
/// # Panics
/// If lengths do not fit.
pub fn quadratic32(isa: Isa, size: usize, form: &[f32], line: &[f32], y: &[f32]) -> f64 {
    let width = y.len();
    assert!(width.is_multiple_of(LANES) && size <= width, "rows are padded");
    assert!(line.len() == width && form.len() == size * width, "a row for each coordinate");
    isa.run(Quadratic { size, form, line, y })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(n: usize) -> f32 {
        ((n * 37 % 101) as f32 - 50.0) / 7.0
    }

    /// The specification: sixteen sums, in the documented order.
    fn chains(terms: &[(f32, Vec<f32>)]) -> [u32; LANES] {
        std::array::from_fn(|lane| {
            let mut sums = [0.0f32; CHAINS];
            for (at, (value, row)) in terms.iter().enumerate() {
                sums[at % CHAINS] = value.mul_add(row[lane], sums[at % CHAINS]);
            }
            ((sums[0] + sums[1]) + (sums[2] + sums[3])).to_bits()
        })
    }

    #[test]
    fn every_instruction_set_gives_the_four_chains_of_sparse_rows_and_of_weights() {
        // Columns 3 and 7 of 20 have no row, and a row may be longer than that.
        let used: Vec<u32> = (0..20).filter(|column| ![3, 7].contains(column)).collect();
        let index = ColumnIndex::new(20, &used);
        let lane = |row: usize, lane: usize| number(16 * row + lane);
        let strip = Strip::new(&index, |row, lanes| {
            lanes.iter_mut().enumerate().for_each(|(at, place)| *place = lane(row, at));
        });
        for count in 0..23usize {
            let columns: Vec<u32> = (0..23).filter(|c| (c * 7 + 3) % 23 < count as u32).collect();
            let values: Vec<f64> =
                columns.iter().map(|c| f64::from(number(*c as usize + 5))).collect();
            let row_of =
                |column: u32| index.of_columns().get(column as usize).copied().unwrap_or(18);
            let row = |column: &u32| match row_of(*column) as usize {
                18 => vec![0.0; LANES],
                row => (0..LANES).map(|at| lane(row, at)).collect(),
            };
            let terms: Vec<(f32, Vec<f32>)> =
                values.iter().map(|x| *x as f32).zip(columns.iter().map(row)).collect();
            let expected = chains(&terms);
            let weights: Vec<Weight> = columns
                .iter()
                .zip(&values)
                .map(|(column, x)| Weight { row: row_of(*column), value: *x as f32 })
                .collect();
            for isa in Isa::available() {
                let mut out = [9.0; LANES];
                strip.sum_sparse(*isa, &index, &columns, &values, &mut out);
                assert_eq!(out.map(f32::to_bits), expected, "{isa} {count}");
                let mut out = [9.0; LANES];
                strip.sum(*isa, &weights, &mut out);
                assert_eq!(out.map(f32::to_bits), expected, "{isa} {count}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "no such row")]
    fn rows_that_do_not_exist_are_refused() {
        let strip = Strip::new(&ColumnIndex::new(2, &[0, 1]), |_, _| {});
        strip.sum(Isa::current(), &[Weight { row: 3, value: 1.0 }], &mut [0.0; LANES]);
    }

    #[test]
    fn a_quadratic_form_is_its_sum_on_every_instruction_set() {
        for size in [1usize, 4, 8, 15, 16, 17, 40] {
            let width = size.next_multiple_of(LANES);
            let small = |n: usize| (n * 37 % 17) as f32 - 8.0;
            let padded = |from: usize| -> Vec<f32> {
                (0..width).map(|at| if at < size { small(from + at) } else { 0.0 }).collect()
            };
            let (y, line) = (padded(3), padded(50));
            let form: Vec<f32> = (0..size).flat_map(|row| padded(70 + 11 * row)).collect();
            // Whole numbers: nothing is rounded, in whatever order.
            let mut expected = 0.0f64;
            for i in 0..size {
                let product: f32 = (0..size).map(|j| y[j] * form[j * width + i]).sum();
                expected += f64::from(y[i]) * f64::from(line[i] + product);
            }
            for isa in Isa::available() {
                let found = quadratic32(*isa, size, &form, &line, &y);
                assert_eq!(found.to_bits(), expected.to_bits(), "{isa} {size}");
            }
        }
    }
}
