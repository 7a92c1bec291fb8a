//! The live columns of a matrix: those that are not zero (or not constant) in all rows, and their positions
//! among each other. Everything that packs rows without the other columns uses this type.

use crate::{Matrix, Row};

/// Some columns of a matrix, numbered in increasing order: column 17 may have slot 3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveColumns {
    /// Live columns in increasing order.
    columns: Vec<u32>,
    /// Slot of each column, or [`LiveColumns::DEAD`].
    slots: Vec<u32>,
}

impl LiveColumns {
    /// The slot of a column that is not live.
    pub const DEAD: u32 = u32::MAX;

    /// Those of `count` columns for which `is_live` is true.
    pub fn select(count: usize, mut is_live: impl FnMut(usize) -> bool) -> Self {
        let live = (0u32..).zip(0..count).filter(|(_, column)| is_live(*column));
        let columns: Vec<u32> = live.map(|(column, _)| column).collect();
        let mut slots = vec![Self::DEAD; count];
        for (slot, column) in (0u32..).zip(&columns) {
            slots[*column as usize] = slot;
        }
        Self { columns, slots }
    }

    /// Columns that are not zero in at least one row.
    pub fn of(rows: &Matrix) -> Self {
        let mut is_live = vec![false; rows.columns()];
        let entries = rows.iter().flat_map(Row::nonzeros);
        entries.for_each(|(column, _)| is_live[column as usize] = true);
        Self::select(rows.columns(), |column| is_live[column])
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
        self.slots.len()
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

    /// As [`LiveColumns::slot`] without a branch: [`LiveColumns::DEAD`] for all other columns.
    #[inline]
    pub fn slot_or_dead(&self, column: u32) -> u32 {
        self.slots.get(column as usize).copied().unwrap_or(Self::DEAD)
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
}
