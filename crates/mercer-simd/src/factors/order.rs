//! The order in which a pass of coordinate descent updates rows: active rows first, shuffled.
//! How rows are stored is in `records.rs`; the pass itself in `sweep.rs`.

use super::{Records, RowHead};
use crate::pages::{large_pages, prefetch};

/// Rows that are shuffled as one batch.
const BATCH: usize = 32;

/// Some rows of one set of records in some order; the first `len` of them are active, the others shrunk.
#[derive(Debug, Clone)]
pub struct Order {
    /// Where the records of the rows start, in words.
    pub(super) offsets: Vec<u32>,
    pub(super) active: usize,
    pub(super) generation: u64,
}

impl Order {
    /// Number of active rows.
    pub fn len(&self) -> usize {
        self.active
    }

    /// Whether no row is active.
    pub fn is_empty(&self) -> bool {
        self.active == 0
    }

    /// Number of all rows, shrunk ones included.
    pub fn all(&self) -> usize {
        self.offsets.len()
    }

    /// Makes all rows active again.
    pub fn restore(&mut self) {
        self.active = self.offsets.len();
    }

    /// A random permutation of the active rows; `below(n)` gives a number below `n`.
    ///
    /// All of them: with permutations inside windows that fit a cache, an update takes a third less time where there
    /// are millions of rows, but half as many updates more are needed.
    pub fn shuffle(&mut self, mut below: impl FnMut(u32) -> u32) {
        let rows = &mut self.offsets[..self.active];
        let mut others = [0; BATCH];
        for first in (0..rows.len()).step_by(BATCH) {
            let batch = first..rows.len().min(first + BATCH);
            // The targets of a batch are drawn before its swaps, so that those far away can be prefetched.
            for (at, other) in batch.clone().zip(&mut others) {
                *other = (at + below((rows.len() - at) as u32) as usize).min(rows.len() - 1);
                prefetch(&raw const rows[*other]);
            }
            batch.zip(&others).for_each(|(at, other)| rows.swap(at, *other));
        }
    }
}

impl Records {
    /// These rows, by their numbers, in this order, the first `active` of them active; none if a row does not
    /// exist or is named twice.
    pub fn order_of(&self, numbers: &[u32], active: usize) -> Option<Order> {
        let mut offset_of = vec![u32::MAX; self.limit()];
        let mut offset = 0;
        while offset < self.words().len() {
            let (row, length) = self.head(offset);
            offset_of[row.row as usize] = offset as u32;
            offset += self.size(length);
        }
        let mut take = |number: &u32| {
            let offset = std::mem::replace(offset_of.get_mut(*number as usize)?, u32::MAX);
            (offset != u32::MAX).then_some(offset)
        };
        let offsets = numbers.iter().map(&mut take).collect::<Option<Vec<u32>>>()?;
        (active <= offsets.len()).then_some(Order {
            offsets,
            active,
            generation: self.generation(),
        })
    }

    /// The numbers of the rows of an order, shrunk ones last.
    ///
    /// # Panics
    /// If the order is one of other records.
    pub fn numbers(&self, order: &Order) -> Vec<u32> {
        assert_eq!(order.generation, self.generation(), "an order of other records");
        order.offsets.iter().map(|offset| self.words()[*offset as usize]).collect()
    }

    /// The rows for which `keep` is true, in the order of the records, all active.
    pub fn order(&self, keep: impl FnMut(RowHead) -> bool) -> Order {
        let mut offsets = Vec::with_capacity(self.rows());
        large_pages(offsets.as_ptr(), offsets.capacity());
        self.gather(keep, &mut offsets);
        offsets.shrink_to_fit();
        Order { active: offsets.len(), offsets, generation: self.generation() }
    }

    /// [`Records::order`] in the memory of an earlier order.
    ///
    /// # Panics
    /// If the order is one of other records.
    pub fn reset_order(&self, order: &mut Order, keep: impl FnMut(RowHead) -> bool) {
        assert_eq!(order.generation, self.generation(), "an order of other records");
        order.offsets.clear();
        self.gather(keep, &mut order.offsets);
        order.active = order.offsets.len();
    }

    fn gather(&self, mut keep: impl FnMut(RowHead) -> bool, offsets: &mut Vec<u32>) {
        let mut offset = 0;
        while offset < self.words().len() {
            let (row, length) = self.head(offset);
            if keep(row) {
                offsets.push(offset as u32);
            }
            offset += self.size(length);
        }
    }
}
