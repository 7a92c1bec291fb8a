//! How many batches of which size a model has answered, and how long they took.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Batches by their number of rows; the scheduler makes none that are longer than its own limit.
#[derive(Debug, Default)]
pub struct BatchCounts(Mutex<BTreeMap<usize, BatchCount>>);

/// Batches of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchCount {
    /// How many there were.
    pub count: u64,
    /// Nanoseconds of all of them.
    pub nanoseconds: u64,
}

impl BatchCounts {
    fn sizes(&self) -> MutexGuard<'_, BTreeMap<usize, BatchCount>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch that was answered.
    pub fn note(&self, rows: usize, time: Duration) {
        let mut sizes = self.sizes();
        let size = sizes.entry(rows).or_default();
        size.count += 1;
        size.nanoseconds += time.as_nanos() as u64;
    }

    /// The batches of each size, in its order.
    pub fn by_size(&self) -> Vec<(usize, BatchCount)> {
        self.sizes().iter().map(|(rows, size)| (*rows, *size)).collect()
    }

    /// All batches.
    pub fn count(&self) -> u64 {
        self.sizes().values().map(|size| size.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_counted_by_size() {
        let batches = BatchCounts::default();
        for (rows, nanoseconds) in [(64, 10), (1, 3), (64, 20)] {
            batches.note(rows, Duration::from_nanos(nanoseconds));
        }
        let size = |count, nanoseconds| BatchCount { count, nanoseconds };
        assert_eq!(batches.by_size(), [(1, size(1, 3)), (64, size(2, 30))]);
        assert_eq!(batches.count(), 3);
    }
}
