//! The live columns of a matrix: those that are not zero (or not constant) in all rows, and their positions
//! among each other. Everything that packs rows without the other columns uses this type. Its memory depends on the
//! number of live columns; a matrix may claim any number of others.

use crate::{Matrix, Row};

/// Some columns of a matrix, numbered in increasing order: column 17 may have slot 3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveColumns {
    /// Live columns in increasing order.
    columns: Vec<u32>,
    /// Number of all columns.
    all: usize,
    /// Slot of each column up to the last live one, or [`LiveColumns::DEAD`]; empty where that table would be large
    /// compared with the live columns, which are searched then.
    slots: Vec<u32>,
}

/// A table of slots has at most this many entries, and [`SLOTS_PER_COLUMN`] for each live column.
const SMALL_SLOTS: usize = 1 << 18;
const SLOTS_PER_COLUMN: usize = 32;

impl LiveColumns {
    /// The slot of a column that is not live.
    pub const DEAD: u32 = u32::MAX;

    /// These of `all` columns; they increase.
    pub fn new(all: usize, columns: Vec<u32>) -> Self {
        debug_assert!(columns.windows(2).all(|pair| pair[0] < pair[1]), "columns increase");
        let reach = columns.last().map_or(0, |last| *last as usize + 1);
        let is_small = reach <= SMALL_SLOTS.max(columns.len().saturating_mul(SLOTS_PER_COLUMN));
        let mut slots = Vec::new();
        if is_small {
            slots.resize(reach, Self::DEAD);
            for (slot, column) in (0u32..).zip(&columns) {
                slots[*column as usize] = slot;
            }
        }
        Self { columns, all, slots }
    }

    /// All of `count` columns.
    pub fn every(count: usize) -> Self {
        Self::new(count, (0..count).map(|column| column as u32).collect())
    }

    /// Those named at least once; the names come in any order.
    pub fn named(all: usize, names: impl Iterator<Item = u32>) -> Self {
        if all <= SMALL_SLOTS {
            let mut is_live = vec![false; all];
            names.for_each(|column| is_live[column as usize] = true);
            let live = (0u32..).zip(&is_live).filter(|(_, live)| **live);
            return Self::new(all, live.map(|(column, _)| column).collect());
        }
        let mut columns: Vec<u32> = Vec::new();
        let mut sorted_at = SMALL_SLOTS;
        for column in names {
            columns.push(column);
            // Repeated names are dropped from time to time: memory follows the number of live columns.
            if columns.len() >= sorted_at {
                columns.sort_unstable();
                columns.dedup();
                sorted_at = SMALL_SLOTS.max(2 * columns.len());
            }
        }
        columns.sort_unstable();
        columns.dedup();
        Self::new(all, columns)
    }

    /// Columns that are not zero in at least one row.
    pub fn of(rows: &Matrix) -> Self {
        Self::named(rows.columns(), rows.iter().flat_map(Row::nonzeros).map(|(column, _)| column))
    }

    /// Those of the live columns for which `is_kept(slot)` is true.
    #[must_use]
    pub fn retain(self, mut is_kept: impl FnMut(usize) -> bool) -> Self {
        let kept = self.columns.iter().enumerate().filter(|(slot, _)| is_kept(*slot));
        let columns = kept.map(|(_, column)| *column).collect();
        Self::new(self.all, columns)
    }

    /// Number of live columns.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether no column is live.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Number of all columns, live or not.
    pub fn all(&self) -> usize {
        self.all
    }

    /// The live columns, in increasing order.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// Position of a column among the live ones.
    #[inline]
    pub fn slot(&self, column: u32) -> Option<u32> {
        Some(self.slot_or_dead(column)).filter(|slot| *slot != Self::DEAD)
    }

    /// As [`LiveColumns::slot`], with [`LiveColumns::DEAD`] for all other columns.
    #[inline]
    pub fn slot_or_dead(&self, column: u32) -> u32 {
        match self.slots.get(column as usize) {
            Some(slot) => *slot,
            None if self.slots.is_empty() => self.search(column),
            None => Self::DEAD,
        }
    }

    #[cold]
    fn search(&self, column: u32) -> u32 {
        self.columns.binary_search(&column).map_or(Self::DEAD, |slot| slot as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_zeros_are_not_live() {
        let rows = Matrix::dense(4, vec![1.0, 0.0, 7.0, 0.0, 2.0, 0.0, 0.0, -0.0]).unwrap();
        for rows in [rows.to_sparse(), rows] {
            let live = LiveColumns::of(&rows);
            assert_eq!((live.columns(), live.len(), live.all()), (&[0, 2][..], 2, 4));
            assert_eq!(
                [0, 1, 2, 3, 9].map(|column| live.slot(column)),
                [Some(0), None, Some(1), None, None]
            );
            assert_eq!(live.slot_or_dead(9), LiveColumns::DEAD);
        }
    }

    #[test]
    fn memory_follows_the_live_columns_and_not_the_number_of_columns() {
        let last = u32::MAX - 1;
        let rows = Matrix::sparse(1 << 32, &[0, 2, 3], &[7, last, 7], &[1.0, 2.0, 3.0]).unwrap();
        let live = LiveColumns::of(&rows);
        assert_eq!((live.columns(), live.all(), live.slots.len()), (&[7, last][..], 1 << 32, 0));
        assert_eq!(
            [0, 7, 8, last, u32::MAX].map(|column| live.slot(column)),
            [None, Some(0), None, Some(1), None]
        );
        assert_eq!(live.retain(|slot| slot == 1).columns(), [last]);
    }

    #[test]
    fn names_in_any_order_and_number_are_counted_once() {
        let names = (0..3 * SMALL_SLOTS as u32).map(|at| (at * 7) % 1000 * 5000);
        let live = LiveColumns::named(1 << 30, names);
        assert_eq!(live.len(), 1000);
        assert_eq!(live.slot(999 * 5000), Some(999));
    }
}
