//! Machines of tables: values become levels, then entries are read and summed. The exact evaluation of additive
//! machines; the stage `table` approximates other machines.

use mercer_data::Row;
use mercer_kernel::bound::largest;
use mercer_machine::{Bins, Machine, Score};
use mercer_simd::{BinMapper, BinnedRows, Isa, ScoreTable, TableShape, sum_entries};

/// Tables larger than this are not made: what fits no cache is computed sooner than it is read.
const MOST_BYTES: usize = 64 << 20;

/// Non-zero values whose levels are found before any of their entries is read.
const AT_ONCE: usize = 4096;

/// A machine of tables: its levels, and all entries of a column and level side by side, a few scores at a time.
///
/// A score is four sums, entry `i` of the row's non-zero ones going to sum `i mod 4`, joined as
/// `(0 + 1) + (2 + 3)`, less b. An entry is a chain over the rank, stored or computed: the same bits.
#[derive(Debug)]
pub struct Tables {
    mapper: BinMapper,
    columns: usize,
    offsets: Vec<f64>,
    sheets: Vec<ScoreTable>,
    isa: Isa,
}

/// Rows whose values have become levels.
#[derive(Debug, Default)]
pub struct Binned {
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
    levels: Vec<u16>,
    sums: Vec<f64>,
}

impl Binned {
    /// Rows that it holds.
    pub fn rows(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Non-zero values of them.
    pub fn entries(&self) -> usize {
        self.levels.len()
    }

    fn clear(&mut self) {
        self.starts.clear();
        self.starts.push(0);
        self.columns.clear();
        self.values.clear();
    }

    /// One more row, zeros and columns that the machine does not have left out.
    fn push(&mut self, row: Row<'_>, columns: usize) {
        match row {
            Row::Dense(values) => {
                let inside = &values[..values.len().min(columns)];
                self.keep(inside, |at| at as u32);
            }
            Row::Sparse { columns: own, values } => {
                let count = own.len();
                let is_inside = count == 0 || (own[count - 1] as usize) < columns;
                let inside = if is_inside {
                    count
                } else {
                    own.partition_point(|column| (*column as usize) < columns)
                };
                let (own, values) = (&own[..inside], &values[..inside]);
                // Counted without a branch, so that many are compared at once.
                let zeros: usize = values.iter().map(|value| usize::from(*value == 0.0)).sum();
                if zeros > 0 {
                    self.keep(values, |at| own[at]);
                } else {
                    self.columns.extend_from_slice(own);
                    self.values.extend_from_slice(values);
                }
            }
        }
        self.starts.push(self.columns.len());
    }

    /// Those that are not zero.
    fn keep(&mut self, values: &[f64], column: impl Fn(usize) -> u32) {
        let mut kept = self.columns.len();
        self.columns.resize(kept + values.len(), 0);
        self.values.resize(kept + values.len(), 0.0);
        for (at, value) in values.iter().enumerate() {
            (self.columns[kept], self.values[kept]) = (column(at), *value);
            kept += usize::from(*value != 0.0);
        }
        self.columns.truncate(kept);
        self.values.truncate(kept);
    }
}

impl Tables {
    /// `None` for machines without a grid.
    pub fn new(machine: &Machine, isa: Isa) -> Option<Self> {
        let grid = machine.bins()?;
        let weights: Vec<&[f32]> = machine.scores().iter().filter_map(weights).collect();
        let columns = machine.columns();
        let numbers = columns.saturating_mul(grid.count()).saturating_mul(weights.len());
        // Where a level has one number of its own, the table is no larger than the weights.
        let as_table = grid.is_one_hot() || numbers <= MOST_BYTES / 8;
        let sheet = |some: &[&[f32]]| sheet(grid, columns, some, as_table);
        let sheets = weights.chunks(ScoreTable::MAX_SCORES).map(sheet).collect();
        let offsets = machine.scores().iter().map(Score::offset).collect();
        let mapper = grid.spacing().bin_mapper(grid.count());
        Some(Self { mapper, columns, offsets, sheets, isa })
    }

    /// Finds the levels of some rows, in place of what `binned` held.
    pub fn bin<'r>(&self, rows: impl Iterator<Item = Row<'r>>, binned: &mut Binned) {
        binned.clear();
        rows.for_each(|row| binned.push(row, self.columns));
        self.find(binned);
    }

    fn find(&self, binned: &mut Binned) {
        binned.levels.resize(binned.values.len(), 0);
        self.mapper.bins(self.isa, &binned.columns, &binned.values, &mut binned.levels);
    }

    /// All scores of rows that are binned, row after row.
    ///
    /// # Panics
    /// If there is not one place for each score of each row.
    pub fn read(&self, binned: &mut Binned, out: &mut [f64]) {
        let (rows, scores) = (binned.rows(), self.offsets.len());
        assert_eq!(out.len(), rows * scores, "one place per row and score");
        let Binned { starts, columns, levels, sums, .. } = binned;
        let entries = BinnedRows { starts, columns, bins: levels };
        if let ([sheet], [offset]) = (self.sheets.as_slice(), self.offsets.as_slice()) {
            sum_entries(self.isa, sheet, entries, out);
            return out.iter_mut().for_each(|place| *place -= offset);
        }
        for (number, sheet) in self.sheets.iter().enumerate() {
            let (first, width) = (number * ScoreTable::MAX_SCORES, sheet.width());
            let offsets = &self.offsets[first..scores.min(first + width)];
            sums.resize(rows * width, 0.0);
            sum_entries(self.isa, sheet, entries, &mut sums[..rows * width]);
            for (out, sums) in out.chunks_exact_mut(scores).zip(sums.chunks_exact(width)) {
                let places = out[first..].iter_mut().zip(sums).zip(offsets);
                places.for_each(|((place, sum), offset)| *place = sum - offset);
            }
        }
    }

    /// All scores of some rows, row after row.
    pub(crate) fn scores<'r>(
        &self,
        rows: impl Iterator<Item = Row<'r>>,
        binned: &mut Binned,
        mut out: &mut [f64],
    ) {
        let mut rows = rows.peekable();
        while rows.peek().is_some() {
            binned.clear();
            while binned.columns.len() < AT_ONCE
                && let Some(row) = rows.next()
            {
                binned.push(row, self.columns);
            }
            self.find(binned);
            let (now, later) = out.split_at_mut(binned.rows() * self.offsets.len());
            self.read(binned, now);
            out = later;
        }
    }
}

/// Entries of some scores.
fn sheet(grid: &Bins, columns: usize, weights: &[&[f32]], as_table: bool) -> ScoreTable {
    let (levels, rank) = (grid.count(), grid.rank());
    if !as_table {
        return ScoreTable::products(weights, grid.encoding(), rank);
    }
    let shape = TableShape { scores: weights.len(), columns, bins: levels };
    ScoreTable::table(shape, |score, column, level| {
        grid.dot(&weights[score][column * rank..][..rank], level)
    })
}

fn weights(score: &Score) -> Option<&[f32]> {
    match score {
        Score::Additive { weights, .. } => Some(weights),
        _ => None,
    }
}

/// Levels side by side are bounded together: there may be millions of columns.
const CORNERS: usize = 8;

/// At least the largest size of a sum over columns, `Σ_j max_level Σ_r |W_jr||Φ_r|`, rounded up.
pub(crate) fn largest_sum(grid: &Bins, weights: &[f32]) -> f64 {
    let rank = grid.rank();
    if grid.is_one_hot() {
        let most = |own: &[f32]| largest(own.iter().map(|w| f64::from(w.abs())));
        return weights.chunks_exact(rank).map(most).sum::<f64>() * (1.0 + 1e-9);
    }
    let together = (grid.encoding().len() / rank).div_ceil(CORNERS).max(1);
    let corner = |levels: &[f32]| -> Vec<f64> {
        let most =
            |at: usize| levels.iter().skip(at).step_by(rank).fold(0.0f32, |m, f| m.max(f.abs()));
        (0..rank).map(|at| f64::from(most(at))).collect()
    };
    let corners: Vec<Vec<f64>> = grid.encoding().chunks(together * rank).map(corner).collect();
    let most = |own: &[f32]| {
        let size = |corner: &Vec<f64>| -> f64 {
            own.iter().zip(corner).map(|(w, most)| f64::from(w.abs()) * most).sum()
        };
        largest(corners.iter().map(size))
    };
    weights.chunks_exact(rank).map(most).sum::<f64>() * (1.0 + 1e-9)
}

#[cfg(test)]
mod tests {
    use mercer_machine::{Bins, Spacing};

    use super::largest_sum;

    #[test]
    fn no_row_has_a_larger_sum_than_the_largest_and_some_come_near() {
        let (rank, levels) = (3, 41);
        let factors: Vec<f32> = (0..levels * rank)
            .map(|at| {
                let (level, lane) = ((at / rank) as f32, (at % rank) as f32);
                if level == 0.0 { 0.0 } else { level.sqrt() * (0.1 * level * lane).cos() }
            })
            .collect();
        let grid =
            Bins::new(Spacing::Power { top: 1.0, exponent: 1 }, rank, factors.clone()).unwrap();
        let weights: Vec<f32> = (0..5 * rank).map(|at| ((7 * at) as f32).sin()).collect();
        let size = |own: &[f32], factors: &[f32]| -> f64 {
            own.iter().zip(factors).map(|(w, phi)| f64::from((w * phi).abs())).sum()
        };
        let most = |own: &[f32]| {
            factors.chunks_exact(rank).map(|factors| size(own, factors)).fold(0.0, f64::max)
        };
        let sum: f64 = weights.chunks_exact(rank).map(most).sum();
        let bound = largest_sum(&grid, &weights);
        assert!((sum..1.3 * sum).contains(&bound), "{bound} for {sum}");
    }
}
