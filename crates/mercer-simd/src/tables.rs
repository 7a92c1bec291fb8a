//! Sums of table entries: the scores of rows whose values have become levels.
//!
//! Entry `i` of a row goes to sum `i mod 4`, and the sums are joined as `(0 + 1) + (2 + 3)`: the same bits on every
//! instruction set, for every form of the table and however scores are laid side by side.

use crate::isa::Isa;
use crate::lines::Lines;
use crate::vector::{Machine, Task};

/// Rows one after the other: the columns and levels of their non-zero values.
#[derive(Debug, Clone, Copy)]
pub struct Entries<'a> {
    /// Where each row starts, and where the last one ends.
    pub starts: &'a [usize],
    /// The column of each entry.
    pub columns: &'a [u32],
    /// The level of each entry.
    pub levels: &'a [u16],
}

/// Entries of up to [`Sheet::WIDEST`] scores for each level of each column.
#[derive(Debug)]
pub struct Sheet {
    width: usize,
    levels: usize,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// All entries, those of a level side by side.
    Doubles(Lines<f64>),
    /// The same where singles hold them all.
    Singles(Lines<f32>),
    /// `Σ_r W_r Φ_r`, summed in order: of each column the weights of all scores for every `r`, and Φ of each level.
    Products { rank: usize, weights: Lines<f32>, factors: Vec<f64> },
}

impl Sheet {
    /// The most scores side by side.
    pub const WIDEST: usize = 12;

    /// The width of a sheet of so many scores: as many as a few registers hold.
    fn width_of(scores: usize) -> usize {
        assert!((1..=Self::WIDEST).contains(&scores), "some scores, not too many");
        if scores == 1 { 1 } else { scores.next_multiple_of(4) }
    }

    /// Entries in a table: `entry(score, column, level)`.
    ///
    /// # Panics
    /// If there are no scores or too many.
    pub fn table(
        (scores, columns, levels): (usize, usize, usize),
        entry: impl Fn(usize, usize, usize) -> f64,
    ) -> Self {
        let width = Self::width_of(scores);
        let places =
            || (0..columns * levels).flat_map(|at| (0..scores).map(move |score| (at, score)));
        let entry = |(at, score): (usize, usize)| entry(score, at / levels, at % levels);
        // Halves what is read where nothing is lost.
        let is_single = |value: f64| f64::from(value as f32).to_bits() == value.to_bits();
        let form = if places().all(|place| is_single(entry(place))) {
            let mut all = Lines::zeroed(columns * levels * width);
            for place in places() {
                all[place.0 * width + place.1] = entry(place) as f32;
            }
            Form::Singles(all)
        } else {
            let mut all = Lines::zeroed(columns * levels * width);
            for place in places() {
                all[place.0 * width + place.1] = entry(place);
            }
            Form::Doubles(all)
        };
        Self { width, levels, form }
    }

    /// Entries as products of `factors`, `rank` for each level, with the weights of each score, `rank` for each column.
    ///
    /// # Panics
    /// If there are no scores or too many, or numbers are missing.
    pub fn products(weights: &[&[f32]], factors: &[f32], rank: usize) -> Self {
        let width = Self::width_of(weights.len());
        let numbers = weights[0].len();
        assert!(weights.iter().all(|own| own.len() == numbers), "scores of one size");
        assert!(factors.len().is_multiple_of(rank) && numbers.is_multiple_of(rank), "whole ranks");
        let mut all = Lines::zeroed(numbers * width);
        for (at, place) in all.chunks_exact_mut(width).enumerate() {
            place.iter_mut().zip(weights).for_each(|(place, own)| *place = own[at]);
        }
        let levels = factors.len() / rank;
        let factors = factors.iter().map(|factor| f64::from(*factor)).collect();
        Self { width, levels, form: Form::Products { rank, weights: all, factors } }
    }

    /// Numbers for each row: one for each score, and some more that are zero.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        match &self.form {
            Form::Doubles(all) => 8 * all.len(),
            Form::Singles(all) => 4 * all.len(),
            Form::Products { weights, factors, .. } => 4 * weights.len() + 8 * factors.len(),
        }
    }
}

/// The sums of all rows, [`Sheet::width`] numbers each.
///
/// # Panics
/// If a column or level does not exist, or there is not one place for each number.
pub fn sum_entries(isa: Isa, sheet: &Sheet, entries: Entries<'_>, out: &mut [f64]) {
    match sheet.width {
        1 => shaped::<1>(isa, sheet, entries, out),
        4 => shaped::<4>(isa, sheet, entries, out),
        8 => shaped::<8>(isa, sheet, entries, out),
        _ => shaped::<12>(isa, sheet, entries, out),
    }
}

fn shaped<const W: usize>(isa: Isa, sheet: &Sheet, entries: Entries<'_>, out: &mut [f64]) {
    assert_eq!(entries.columns.len(), entries.levels.len(), "a level for every column");
    assert_eq!(out.len(), W * entries.starts.len().saturating_sub(1), "a place for every number");
    let (rows, levels) = (out.as_chunks_mut::<W>().0, sheet.levels);
    match &sheet.form {
        Form::Doubles(all) => {
            let from = Table { all: all.as_chunks::<W>().0, levels };
            isa.run(Sum { from, entries, rows });
        }
        Form::Singles(all) => {
            let from = Table { all: all.as_chunks::<W>().0, levels };
            isa.run(Sum { from, entries, rows });
        }
        Form::Products { rank, weights, factors } => {
            let (weights, rank) = (weights.as_chunks::<W>().0, *rank);
            isa.run(Sum { from: Products { weights, factors, rank }, entries, rows });
        }
    }
}

/// Where entries come from.
trait Source<const W: usize> {
    fn add(&self, column: u32, level: u16, sums: &mut [f64; W]);
}

struct Table<'a, T, const W: usize> {
    all: &'a [[T; W]],
    levels: usize,
}

impl<T: Copy + Into<f64>, const W: usize> Source<W> for Table<'_, T, W> {
    #[inline(always)]
    fn add(&self, column: u32, level: u16, sums: &mut [f64; W]) {
        let entry = &self.all[column as usize * self.levels + usize::from(level)];
        for score in 0..W {
            sums[score] += entry[score].into();
        }
    }
}

struct Products<'a, const W: usize> {
    weights: &'a [[f32; W]],
    factors: &'a [f64],
    rank: usize,
}

impl<const W: usize> Source<W> for Products<'_, W> {
    #[inline(always)]
    fn add(&self, column: u32, level: u16, sums: &mut [f64; W]) {
        let own = &self.weights[column as usize * self.rank..][..self.rank];
        let factors = &self.factors[usize::from(level) * self.rank..][..self.rank];
        let mut entry = [0.0; W];
        for r in 0..self.rank {
            for score in 0..W {
                // The product of two singles is a double: nothing is rounded but the sum.
                entry[score] = f64::from(own[r][score]).mul_add(factors[r], entry[score]);
            }
        }
        for score in 0..W {
            sums[score] += entry[score];
        }
    }
}

struct Sum<'a, F, const W: usize> {
    from: F,
    entries: Entries<'a>,
    rows: &'a mut [[f64; W]],
}

impl<F: Source<W>, const W: usize> Task for Sum<'_, F, W> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self) {
        let Entries { starts, columns, levels } = self.entries;
        // Counted loops: what iterators are made of is not always compiled into a task.
        for row in 0..self.rows.len() {
            let (columns, last_columns) = columns[starts[row]..starts[row + 1]].as_chunks::<4>();
            let (levels, last_levels) = levels[starts[row]..starts[row + 1]].as_chunks::<4>();
            let mut sums = [[0.0f64; W]; 4];
            for at in 0..columns.len() {
                let (columns, levels) = (&columns[at], &levels[at]);
                self.from.add(columns[0], levels[0], &mut sums[0]);
                self.from.add(columns[1], levels[1], &mut sums[1]);
                self.from.add(columns[2], levels[2], &mut sums[2]);
                self.from.add(columns[3], levels[3], &mut sums[3]);
            }
            // One by one: sums that are not counted through stay in registers.
            if let ([column, ..], [level, ..]) = (last_columns, last_levels) {
                self.from.add(*column, *level, &mut sums[0]);
            }
            if let ([_, column, ..], [_, level, ..]) = (last_columns, last_levels) {
                self.from.add(*column, *level, &mut sums[1]);
            }
            if let ([_, _, column], [_, _, level]) = (last_columns, last_levels) {
                self.from.add(*column, *level, &mut sums[2]);
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

    /// An entry of a score, a column and a level.
    type Entry<'e> = &'e dyn Fn(usize, usize, usize) -> f64;

    /// The law, entry by entry.
    #[test]
    fn every_form_gives_the_bits_of_four_plain_sums() {
        let (columns, levels, rank) = (9, 5, 4);
        let number = |at: usize| ((at * 7919 % 1013) as f32 - 500.0) / 77.0;
        let factors: Vec<f32> = (0..levels * rank).map(|at| number(at + 3)).collect();
        let starts = [0, 0, 1, 6, 19, 40];
        let entry_columns: Vec<u32> = (0..40).map(|at| at * 5 % columns as u32).collect();
        let entry_levels: Vec<u16> = (0..40).map(|at| at * 3 % levels as u16).collect();
        let entries = Entries { starts: &starts, columns: &entry_columns, levels: &entry_levels };
        for scores in 1..=Sheet::WIDEST {
            let weights: Vec<Vec<f32>> = (0..scores)
                .map(|score| (0..columns * rank).map(|at| number(at * scores + score)).collect())
                .collect();
            let weights: Vec<&[f32]> = weights.iter().map(Vec::as_slice).collect();
            let entry = |score: usize, column: usize, level: usize| {
                (0..rank).fold(0.0, |sum, r| {
                    let (w, phi) = (weights[score][column * rank + r], factors[level * rank + r]);
                    sum + f64::from(w) * f64::from(phi)
                })
            };
            let wanted = |entry: Entry<'_>, row: usize, score: usize| {
                let mut sums = [0.0; 4];
                for (at, i) in (starts[row]..starts[row + 1]).enumerate() {
                    let (column, level) = (entry_columns[i] as usize, entry_levels[i] as usize);
                    sums[at % 4] += entry(score, column, level);
                }
                (sums[0] + sums[1]) + (sums[2] + sums[3])
            };
            let single = |score, column, level| f64::from(entry(score, column, level) as f32);
            let shape = (scores, columns, levels);
            let sheets: [(Sheet, Entry<'_>); 3] = [
                (Sheet::table(shape, entry), &entry),
                (Sheet::products(&weights, &factors, rank), &entry),
                (Sheet::table(shape, single), &single),
            ];
            assert!(matches!(sheets[2].0.form, Form::Singles(_)));
            for ((sheet, entry), isa) in
                sheets.iter().flat_map(|sheet| Isa::available().iter().map(move |isa| (sheet, isa)))
            {
                let mut out = vec![1.0; 5 * sheet.width()];
                sum_entries(*isa, sheet, entries, &mut out);
                for (row, found) in out.chunks_exact(sheet.width()).enumerate() {
                    for (score, value) in found.iter().enumerate() {
                        let wanted = if score < scores { wanted(entry, row, score) } else { 0.0 };
                        assert_eq!(value.to_bits(), wanted.to_bits(), "{isa} {row} {score}");
                    }
                }
            }
        }
    }
}
