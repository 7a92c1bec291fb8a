//! Scores of binned rows: sums of table entries.
//!
//! Entry `i` of a row is added to sum `i mod 4`, and the sums are joined as `(0 + 1) + (2 + 3)`: the same bits on every
//! instruction set, for every form of the table and any number of scores side by side. `bin_mapper.rs` finds the bins.

use crate::aligned::AlignedBuffer;
use crate::isa::Isa;
use crate::vector::{SimdBackend, Task};

/// Rows in CSR form: the columns and bins of their non-zero values.
#[derive(Debug, Clone, Copy)]
pub struct BinnedRows<'a> {
    /// Where each row starts, and where the last one ends.
    pub starts: &'a [usize],
    /// The column of each entry.
    pub columns: &'a [u32],
    /// The bin of each entry.
    pub bins: &'a [u16],
}

/// Sizes of a [`ScoreTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableShape {
    /// Scores side by side, at most [`ScoreTable::MAX_SCORES`].
    pub scores: usize,
    /// Columns of the rows.
    pub columns: usize,
    /// Bins of each column.
    pub bins: usize,
}

/// Entries of up to [`ScoreTable::MAX_SCORES`] scores for each bin of each column.
#[derive(Debug)]
pub struct ScoreTable {
    width: usize,
    bins: usize,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// All entries; those of one bin lie side by side.
    F64(AlignedBuffer<f64>),
    /// The same, where f32 represents all entries exactly.
    F32(AlignedBuffer<f32>),
    /// `Σ_r W_r Φ_r`, summed in order: of each column the weights of all scores for every `r`, and Φ of each bin.
    Products { rank: usize, weights: AlignedBuffer<f32>, factors: Vec<f64> },
}

impl ScoreTable {
    /// The most scores side by side.
    pub const MAX_SCORES: usize = 12;

    /// The padded number of scores: whole registers.
    fn width_of(scores: usize) -> usize {
        assert!((1..=Self::MAX_SCORES).contains(&scores), "between 1 and 12 scores");
        if scores == 1 { 1 } else { scores.next_multiple_of(4) }
    }

    /// Entries in a table: `entry(score, column, bin)`.
    ///
    /// # Panics
    /// If there are no scores or too many.
    pub fn table(shape: TableShape, entry: impl Fn(usize, usize, usize) -> f64) -> Self {
        let TableShape { scores, columns, bins } = shape;
        let width = Self::width_of(scores);
        let places =
            || (0..columns * bins).flat_map(|at| (0..scores).map(move |score| (at, score)));
        let entry = |(at, score): (usize, usize)| entry(score, at / bins, at % bins);
        // Half the memory traffic where f32 is exact.
        let fits_f32 = |value: f64| f64::from(value as f32).to_bits() == value.to_bits();
        let form = if places().all(|place| fits_f32(entry(place))) {
            let mut all = AlignedBuffer::zeroed(columns * bins * width);
            for place in places() {
                all[place.0 * width + place.1] = entry(place) as f32;
            }
            Form::F32(all)
        } else {
            let mut all = AlignedBuffer::zeroed(columns * bins * width);
            for place in places() {
                all[place.0 * width + place.1] = entry(place);
            }
            Form::F64(all)
        };
        Self { width, bins, form }
    }

    /// Entries as products of `factors`, `rank` for each bin, with the weights of each score, `rank` for each column.
    ///
    /// # Panics
    /// If there are no scores or too many, or numbers are missing.
    pub fn products(weights: &[&[f32]], factors: &[f32], rank: usize) -> Self {
        let width = Self::width_of(weights.len());
        let numbers = weights[0].len();
        assert!(weights.iter().all(|score| score.len() == numbers), "scores of one size");
        assert!(factors.len().is_multiple_of(rank) && numbers.is_multiple_of(rank), "whole ranks");
        let mut all = AlignedBuffer::zeroed(numbers * width);
        for (at, place) in all.chunks_exact_mut(width).enumerate() {
            place.iter_mut().zip(weights).for_each(|(place, score)| *place = score[at]);
        }
        let bins = factors.len() / rank;
        let factors = factors.iter().map(|factor| f64::from(*factor)).collect();
        Self { width, bins, form: Form::Products { rank, weights: all, factors } }
    }

    /// Numbers for each row: one for each score, then zeros as padding.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        match &self.form {
            Form::F64(all) => 8 * all.len(),
            Form::F32(all) => 4 * all.len(),
            Form::Products { weights, factors, .. } => 4 * weights.len() + 8 * factors.len(),
        }
    }
}

/// The sums of all rows, [`ScoreTable::width`] numbers each.
///
/// # Panics
/// If a column or bin does not exist, or `out` has another length.
pub fn sum_entries(isa: Isa, table: &ScoreTable, entries: BinnedRows<'_>, out: &mut [f64]) {
    match table.width {
        1 => sum_width::<1>(isa, table, entries, out),
        4 => sum_width::<4>(isa, table, entries, out),
        8 => sum_width::<8>(isa, table, entries, out),
        _ => sum_width::<12>(isa, table, entries, out),
    }
}

fn sum_width<const W: usize>(
    isa: Isa,
    table: &ScoreTable,
    entries: BinnedRows<'_>,
    out: &mut [f64],
) {
    assert_eq!(entries.columns.len(), entries.bins.len(), "a bin for every column");
    assert_eq!(out.len(), W * entries.starts.len().saturating_sub(1), "one element per number");
    let (rows, bins) = (out.as_chunks_mut::<W>().0, table.bins);
    match &table.form {
        Form::F64(all) => {
            let from = StoredEntries { all: all.as_chunks::<W>().0, bins };
            isa.run(SumEntries { from, entries, rows });
        }
        Form::F32(all) => {
            let from = StoredEntries { all: all.as_chunks::<W>().0, bins };
            isa.run(SumEntries { from, entries, rows });
        }
        Form::Products { rank, weights, factors } => {
            let (weights, rank) = (weights.as_chunks::<W>().0, *rank);
            isa.run(SumEntries { from: FactoredEntries { weights, factors, rank }, entries, rows });
        }
    }
}

/// Where entries come from.
trait EntrySource<const W: usize> {
    fn add(&self, column: u32, bin: u16, sums: &mut [f64; W]);
}

struct StoredEntries<'a, T, const W: usize> {
    all: &'a [[T; W]],
    bins: usize,
}

impl<T: Copy + Into<f64>, const W: usize> EntrySource<W> for StoredEntries<'_, T, W> {
    #[inline(always)]
    fn add(&self, column: u32, bin: u16, sums: &mut [f64; W]) {
        let entry = &self.all[column as usize * self.bins + usize::from(bin)];
        for score in 0..W {
            sums[score] += entry[score].into();
        }
    }
}

struct FactoredEntries<'a, const W: usize> {
    weights: &'a [[f32; W]],
    factors: &'a [f64],
    rank: usize,
}

impl<const W: usize> EntrySource<W> for FactoredEntries<'_, W> {
    #[inline(always)]
    fn add(&self, column: u32, bin: u16, sums: &mut [f64; W]) {
        let weights = &self.weights[column as usize * self.rank..][..self.rank];
        let factors = &self.factors[usize::from(bin) * self.rank..][..self.rank];
        let mut entry = [0.0; W];
        for r in 0..self.rank {
            for score in 0..W {
                // The product of two f32 is exact in f64: only the sum is rounded.
                entry[score] = f64::from(weights[r][score]).mul_add(factors[r], entry[score]);
            }
        }
        for score in 0..W {
            sums[score] += entry[score];
        }
    }
}

struct SumEntries<'a, F, const W: usize> {
    from: F,
    entries: BinnedRows<'a>,
    rows: &'a mut [[f64; W]],
}

impl<F: EntrySource<W>, const W: usize> Task for SumEntries<'_, F, W> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let BinnedRows { starts, columns, bins } = self.entries;
        // Counted loops: iterator adapters are not always inlined into a task.
        for row in 0..self.rows.len() {
            let (columns, last_columns) = columns[starts[row]..starts[row + 1]].as_chunks::<4>();
            let (bins, last_bins) = bins[starts[row]..starts[row + 1]].as_chunks::<4>();
            let mut sums = [[0.0f64; W]; 4];
            for at in 0..columns.len() {
                let (columns, bins) = (&columns[at], &bins[at]);
                self.from.add(columns[0], bins[0], &mut sums[0]);
                self.from.add(columns[1], bins[1], &mut sums[1]);
                self.from.add(columns[2], bins[2], &mut sums[2]);
                self.from.add(columns[3], bins[3], &mut sums[3]);
            }
            // One by one: sums with constant indices stay in registers.
            if let ([column, ..], [bin, ..]) = (last_columns, last_bins) {
                self.from.add(*column, *bin, &mut sums[0]);
            }
            if let ([_, column, ..], [_, bin, ..]) = (last_columns, last_bins) {
                self.from.add(*column, *bin, &mut sums[1]);
            }
            if let ([_, _, column], [_, _, bin]) = (last_columns, last_bins) {
                self.from.add(*column, *bin, &mut sums[2]);
            }
            let out = &mut self.rows[row];
            for score in 0..W {
                out[score] = (sums[0][score] + sums[1][score]) + (sums[2][score] + sums[3][score]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of a score, a column and a bin.
    type EntryFn<'e> = &'e dyn Fn(usize, usize, usize) -> f64;

    /// The property, entry by entry.
    #[test]
    fn every_form_gives_the_bits_of_four_plain_sums() {
        let (columns, bins, rank) = (9, 5, 4);
        let number = |at: usize| ((at * 7919 % 1013) as f32 - 500.0) / 77.0;
        let factors: Vec<f32> = (0..bins * rank).map(|at| number(at + 3)).collect();
        let starts = [0, 0, 1, 6, 19, 40];
        let entry_columns: Vec<u32> = (0..40).map(|at| at * 5 % columns as u32).collect();
        let entry_bins: Vec<u16> = (0..40).map(|at| at * 3 % bins as u16).collect();
        let entries = BinnedRows { starts: &starts, columns: &entry_columns, bins: &entry_bins };
        for scores in 1..=ScoreTable::MAX_SCORES {
            let weights: Vec<Vec<f32>> = (0..scores)
                .map(|score| (0..columns * rank).map(|at| number(at * scores + score)).collect())
                .collect();
            let weights: Vec<&[f32]> = weights.iter().map(Vec::as_slice).collect();
            let entry = |score: usize, column: usize, bin: usize| {
                (0..rank).fold(0.0, |sum, r| {
                    let (w, phi) = (weights[score][column * rank + r], factors[bin * rank + r]);
                    sum + f64::from(w) * f64::from(phi)
                })
            };
            let expected = |entry: EntryFn<'_>, row: usize, score: usize| {
                let mut sums = [0.0; 4];
                for (at, i) in (starts[row]..starts[row + 1]).enumerate() {
                    let (column, bin) = (entry_columns[i] as usize, entry_bins[i] as usize);
                    sums[at % 4] += entry(score, column, bin);
                }
                (sums[0] + sums[1]) + (sums[2] + sums[3])
            };
            let rounded = |score, column, bin| f64::from(entry(score, column, bin) as f32);
            let shape = TableShape { scores, columns, bins };
            let tables: [(ScoreTable, EntryFn<'_>); 3] = [
                (ScoreTable::table(shape, entry), &entry),
                (ScoreTable::products(&weights, &factors, rank), &entry),
                (ScoreTable::table(shape, rounded), &rounded),
            ];
            assert!(matches!(tables[2].0.form, Form::F32(_)));
            for ((table, entry), isa) in
                tables.iter().flat_map(|table| Isa::available().iter().map(move |isa| (table, isa)))
            {
                let mut out = vec![1.0; 5 * table.width()];
                sum_entries(*isa, table, entries, &mut out);
                for (row, found) in out.chunks_exact(table.width()).enumerate() {
                    for (score, value) in found.iter().enumerate() {
                        let expected =
                            if score < scores { expected(entry, row, score) } else { 0.0 };
                        assert_eq!(value.to_bits(), expected.to_bits(), "{isa} {row} {score}");
                    }
                }
            }
        }
    }
}
