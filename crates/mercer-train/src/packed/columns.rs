//! The order of columns in packed rows, by how often they occur: weights that are read often are neighbours, and
//! columns that never occur have no weight.

use mercer_data::Row;

use crate::TrainError;
use crate::row_source::{RowSource, pieces};

/// More columns than this are renumbered: their weights leave the fast caches.
const MOST_AS_THEY_ARE: usize = 1 << 16;

/// More occurrences than this count as equal.
const COUNTED: u32 = 1 << 16;

/// Which column is at which place.
#[derive(Debug)]
pub(crate) struct ColumnOrder {
    all: usize,
    kept: Option<Vec<u32>>,
}

/// The place of every column; the column itself where none is given.
#[derive(Debug)]
pub(crate) struct ColumnPlaces(Option<Vec<u32>>);

impl ColumnPlaces {
    #[inline]
    pub(crate) fn of(&self, column: u32) -> u32 {
        self.0.as_ref().map_or(column, |places| places[column as usize])
    }

    /// Replaces columns by their places.
    pub(crate) fn renumber(&self, columns: &mut [u32]) {
        if let Some(places) = &self.0 {
            columns.iter_mut().for_each(|column| *column = places[*column as usize]);
        }
    }
}

impl ColumnOrder {
    /// The columns of these rows, the most frequent first where there are very many.
    pub(crate) fn new(
        examples: &dyn RowSource,
        rows: &[u32],
    ) -> Result<(Self, ColumnPlaces), TrainError> {
        let all = examples.columns();
        if all <= MOST_AS_THEY_ARE {
            return Ok((Self { all, kept: None }, ColumnPlaces(None)));
        }
        let mut counts = vec![0u32; all];
        pieces(examples, rows, |piece| {
            for row in piece.rows {
                match piece.row(*row) {
                    Row::Sparse { columns, values } => {
                        for (column, value) in columns.iter().zip(values) {
                            counts[*column as usize] += u32::from(*value != 0.0);
                        }
                    }
                    Row::Dense(values) => {
                        for (count, value) in counts.iter_mut().zip(values) {
                            *count += u32::from(*value != 0.0);
                        }
                    }
                }
            }
            Ok(())
        })?;
        // Sorted by counting: the first place of every count, the largest first.
        let bucket = |count: u32| (COUNTED - count.min(COUNTED)) as usize;
        let mut firsts = vec![0u32; COUNTED as usize + 1];
        counts.iter().for_each(|count| firsts[bucket(*count)] += 1);
        let mut used = 0;
        for first in &mut firsts[..COUNTED as usize] {
            used += std::mem::replace(first, used);
        }
        let (mut kept, mut places) = (vec![0; used as usize], counts);
        for (column, place) in (0u32..).zip(&mut places).filter(|(_, count)| **count > 0) {
            let next = &mut firsts[bucket(*place)];
            *place = *next;
            kept[*next as usize] = column;
            *next += 1;
        }
        Ok((Self { all, kept: Some(kept) }, ColumnPlaces(Some(places))))
    }

    /// Columns of the machine.
    pub(crate) fn all(&self) -> usize {
        self.all
    }

    /// Columns with a place.
    pub(crate) fn kept(&self) -> usize {
        self.kept.as_ref().map_or(self.all, Vec::len)
    }

    /// Weights, `rank` of each column, where the machine has them.
    pub(crate) fn scatter<T: Copy + Default>(&self, weights: &[T], rank: usize) -> Vec<T> {
        let Some(kept) = &self.kept else { return weights.to_vec() };
        let mut scattered = vec![T::default(); self.all * rank];
        for (column_weights, column) in weights.chunks_exact(rank).zip(kept) {
            let at = *column as usize * rank;
            scattered[at..at + rank].copy_from_slice(column_weights);
        }
        scattered
    }
}
