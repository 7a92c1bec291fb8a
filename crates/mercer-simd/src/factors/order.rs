//! The order in which a pass of coordinate descent updates rows: active rows first, shuffled.

use super::sweep::prefetch;

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
