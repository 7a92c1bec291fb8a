use std::sync::Arc;

use mercer_data::Row;
use mercer_machine::{Grid, Machine, Score};

/// Tables larger than this are not unfolded: what does not fit any cache is better computed.
const MOST_BYTES: usize = 64 << 20;

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
    /// Weights of each score.
    Folded(Vec<Vec<f32>>),
}

impl Tables {
    /// `None` for machines without a grid.
    pub(crate) fn new(machine: &Machine) -> Option<Self> {
        let grid = machine.grid()?.clone();
        let weights: Vec<Vec<f32>> = machine.scores().iter().filter_map(weights).collect();
        let (columns, scores, levels) = (machine.columns(), weights.len(), grid.levels());
        let numbers = columns.saturating_mul(levels).saturating_mul(scores);
        let entries = if numbers <= MOST_BYTES / 8 {
            let mut values = Vec::with_capacity(numbers);
            for column in 0..columns {
                let at = column * grid.rank()..(column + 1) * grid.rank();
                for level in 0..levels {
                    values.extend(weights.iter().map(|own| grid.read(&own[at.clone()], level)));
                }
            }
            Entries::Unfolded(values)
        } else {
            Entries::Folded(weights)
        };
        let offsets = machine.scores().iter().map(Score::offset).collect();
        Some(Self { grid, columns, scores, offsets, entries })
    }

    /// All scores of one row.
    pub(crate) fn scores(&self, row: Row<'_>, sums: &mut Vec<f64>, out: &mut [f64]) {
        if let (Entries::Unfolded(values), [score]) = (&self.entries, &mut *out) {
            *score = self.single(row, values) - self.offsets[0];
            return;
        }
        sums.clear();
        sums.resize(4 * self.scores, 0.0);
        let (levels, rank) = (self.grid.levels(), self.grid.rank());
        let inside = row.nonzeros().take_while(|(column, _)| (*column as usize) < self.columns);
        for (at, (column, value)) in inside.enumerate() {
            let column = column as usize;
            let level = self.grid.level(column, value);
            let sums = &mut sums[at % 4 * self.scores..][..self.scores];
            match &self.entries {
                Entries::Unfolded(values) => {
                    let entries = &values[(column * levels + level) * self.scores..][..self.scores];
                    sums.iter_mut().zip(entries).for_each(|(sum, entry)| *sum += entry);
                }
                Entries::Folded(weights) => {
                    for (sum, own) in sums.iter_mut().zip(weights) {
                        *sum += self.grid.read(&own[column * rank..(column + 1) * rank], level);
                    }
                }
            }
        }
        for (score, place) in out.iter_mut().enumerate() {
            let sum = |part: usize| sums[part * self.scores + score];
            *place = ((sum(0) + sum(1)) + (sum(2) + sum(3))) - self.offsets[score];
        }
    }

    /// The four sums of a machine of one score, joined: each entry goes to the first, and they step round.
    fn single(&self, row: Row<'_>, values: &[f64]) -> f64 {
        let levels = self.grid.levels();
        let inside = row.nonzeros().take_while(|(column, _)| (*column as usize) < self.columns);
        let (mut sums, mut count) = ([0.0; 4], 0);
        for (column, value) in inside {
            let entry = values[column as usize * levels + self.grid.level(column as usize, value)];
            sums = [sums[1], sums[2], sums[3], sums[0] + entry];
            count += 1;
        }
        sums.rotate_right(count % 4);
        (sums[0] + sums[1]) + (sums[2] + sums[3])
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
