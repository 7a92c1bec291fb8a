use std::sync::Arc;

use mercer_data::Row;
use mercer_machine::{Grid, Machine, Score};

/// Tables larger than this are not unfolded: what does not fit any cache is better computed.
const MOST_BYTES: usize = 64 << 20;

/// Non-zero values of a row that are looked up together: their levels are found side by side, and no read waits for
/// the level of another. A multiple of four.
const AT_ONCE: usize = 64;

/// The tables of a machine, all scores of a column and level side by side.
///
/// A score is four sums, entry `i` of the row's non-zero ones going to sum `i mod 4`, joined as
/// `(0 + 1) + (2 + 3)`, less b. An entry is a chain over the rank, stored or computed: the same bits.
#[derive(Debug)]
pub(crate) struct Tables {
    grid: Arc<Grid>,
    columns: usize,
    scores: usize,
    offsets: Vec<f64>,
    entries: Entries,
}

#[derive(Debug)]
enum Entries {
    /// `scores` numbers for each level of each column.
    Unfolded(Vec<f64>),
    /// The same where singles hold them all.
    Narrow(Vec<f32>),
    /// Weights of each score.
    Folded(Vec<Vec<f32>>),
}

/// Non-zero values of a row, and where they are read.
struct Some64 {
    count: usize,
    columns: [u32; AT_ONCE],
    values: [f64; AT_ONCE],
    levels: [u32; AT_ONCE],
}

impl Tables {
    /// `None` for machines without a grid.
    pub(crate) fn new(machine: &Machine) -> Option<Self> {
        let grid = machine.grid()?.clone();
        let weights: Vec<Vec<f32>> = machine.scores().iter().filter_map(weights).collect();
        let (columns, scores, levels) = (machine.columns(), weights.len(), grid.levels());
        let numbers = columns.saturating_mul(levels).saturating_mul(scores);
        let entries = if numbers > MOST_BYTES / 8 {
            Entries::Folded(weights)
        } else if grid.is_direct() {
            let narrow = |value: f64| value as f32;
            Entries::Narrow(unfold(&grid, columns, &weights).map(narrow).collect())
        } else {
            Entries::Unfolded(unfold(&grid, columns, &weights).collect())
        };
        let offsets = machine.scores().iter().map(Score::offset).collect();
        Some(Self { grid, columns, scores, offsets, entries })
    }

    /// All scores of one row.
    pub(crate) fn scores(&self, row: Row<'_>, sums: &mut Vec<f64>, out: &mut [f64]) {
        sums.clear();
        sums.resize(4 * self.scores, 0.0);
        let mut some = Some64 {
            count: 0,
            columns: [0; AT_ONCE],
            values: [0.0; AT_ONCE],
            levels: [0; AT_ONCE],
        };
        match row {
            Row::Dense(values) => {
                let inside = &values[..values.len().min(self.columns)];
                for (column, value) in (0u32..).zip(inside) {
                    self.take(&mut some, (column, *value), sums);
                }
            }
            Row::Sparse { columns, values } => {
                let inside = columns.partition_point(|column| (*column as usize) < self.columns);
                for (column, value) in columns[..inside].iter().zip(values) {
                    self.take(&mut some, (*column, *value), sums);
                }
            }
        }
        self.add(&mut some, sums);
        for (score, place) in out.iter_mut().enumerate() {
            let sum = |part: usize| sums[part * self.scores + score];
            *place = ((sum(0) + sum(1)) + (sum(2) + sum(3))) - self.offsets[score];
        }
    }

    /// One more value, zeros left out.
    #[inline]
    fn take(&self, some: &mut Some64, (column, value): (u32, f64), sums: &mut [f64]) {
        (some.columns[some.count], some.values[some.count]) = (column, value);
        some.count += usize::from(value != 0.0);
        if some.count == AT_ONCE {
            self.add(some, sums);
        }
    }

    /// Adds the entries of all values to the four sums.
    fn add(&self, some: &mut Some64, sums: &mut [f64]) {
        let (count, levels) = (std::mem::take(&mut some.count), self.grid.levels());
        let (columns, found) = (&some.columns[..count], &mut some.levels[..count]);
        self.grid.levels_of(columns, &some.values[..count], found);
        match &self.entries {
            Entries::Unfolded(values) => {
                read(columns, found, (values, levels), sums, |value| value);
            }
            Entries::Narrow(values) => read(columns, found, (values, levels), sums, f64::from),
            Entries::Folded(weights) => {
                let rank = self.grid.rank();
                for (at, (column, level)) in columns.iter().zip(found).enumerate() {
                    let own = *column as usize * rank..(*column as usize + 1) * rank;
                    let sums = &mut sums[at % 4 * self.scores..][..self.scores];
                    for (sum, weights) in sums.iter_mut().zip(weights) {
                        *sum += self.grid.read(&weights[own.clone()], *level as usize);
                    }
                }
            }
        }
    }
}

/// All numbers of all levels of all columns.
fn unfold<'a>(
    grid: &'a Grid,
    columns: usize,
    weights: &'a [Vec<f32>],
) -> impl Iterator<Item = f64> + 'a {
    let rank = grid.rank();
    let of = move |column: usize, level: usize| {
        let own = column * rank..(column + 1) * rank;
        weights.iter().map(move |weights| grid.read(&weights[own.clone()], level))
    };
    let column = move |column| (0..grid.levels()).flat_map(move |level| of(column, level));
    (0..columns).flat_map(column)
}

/// Adds entries to four sums of as many scores each.
#[inline]
fn read<T: Copy>(
    columns: &[u32],
    found: &[u32],
    (values, levels): (&[T], usize),
    sums: &mut [f64],
    wide: impl Fn(T) -> f64,
) {
    let place = |column: u32, level: u32| column as usize * levels + level as usize;
    if let [first, second, third, fourth] = sums {
        let (columns, last_columns) = columns.as_chunks::<4>();
        let (found, last_found) = found.as_chunks::<4>();
        let at = |column, level| wide(values[place(column, level)]);
        for ([c, d, e, f], [l, m, n, o]) in columns.iter().zip(found) {
            *first += at(*c, *l);
            *second += at(*d, *m);
            *third += at(*e, *n);
            *fourth += at(*f, *o);
        }
        let sums = [first, second, third].into_iter();
        for (sum, (column, level)) in sums.zip(last_columns.iter().zip(last_found)) {
            *sum += at(*column, *level);
        }
        return;
    }
    let scores = sums.len() / 4;
    for (at, (column, level)) in columns.iter().zip(found).enumerate() {
        let entries = &values[place(*column, *level) * scores..][..scores];
        let sums = &mut sums[at % 4 * scores..][..scores];
        sums.iter_mut().zip(entries).for_each(|(sum, entry)| *sum += wide(*entry));
    }
}

fn weights(score: &Score) -> Option<Vec<f32>> {
    match score {
        Score::Table { weights, .. } => Some(weights.clone()),
        _ => None,
    }
}

/// The largest size of a sum over columns: `Σ_j max_level Σ_r |W_jr||Φ_r|`, rounded up.
pub(crate) fn largest_sum(grid: &Grid, weights: &[f32]) -> f64 {
    let rank = grid.rank();
    let size = |own: &[f32], factors: &[f32]| -> f64 {
        own.iter().zip(factors).map(|(w, phi)| (f64::from(*w) * f64::from(*phi)).abs()).sum()
    };
    let most = |own: &[f32]| {
        if grid.is_direct() {
            return own.iter().map(|w| f64::from(w.abs())).fold(0.0, f64::max);
        }
        let sizes = grid.factors().chunks_exact(rank).map(|factors| size(own, factors));
        sizes.fold(0.0, f64::max)
    };
    weights.chunks_exact(rank).map(most).sum::<f64>() * (1.0 + 1e-9)
}
