//! How long the rows of a model take in batches, by the clock. The queue is bounded in time, and a row in a batch takes less time than one
//! alone, but more on a machine that others use too: what was measured before the model was served does not tell.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What is left of the weight of a batch after the next one.
const KEPT: f64 = 0.8;

/// Time and rows of batches, the recent ones with more weight.
#[derive(Debug, Default)]
pub struct Pace(Mutex<Sums>);

#[derive(Debug, Default)]
struct Sums {
    nanoseconds: f64,
    rows: f64,
}

impl Pace {
    /// A batch that one worker has answered.
    pub fn note(&self, rows: usize, time: Duration) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sums.nanoseconds = KEPT * sums.nanoseconds + 1e9 * time.as_secs_f64();
        sums.rows = KEPT * sums.rows + rows as f64;
    }

    /// Nanoseconds of a worker for a row; none before the first batch.
    pub fn mean_ns(&self) -> Option<f64> {
        let sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (sums.rows > 0.0).then(|| sums.nanoseconds / sums.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_recent_batches() {
        let pace = Pace::default();
        assert_eq!(pace.mean_ns(), None);
        pace.note(10, Duration::from_micros(100));
        assert!((pace.mean_ns().unwrap() - 10_000.0).abs() < 1e-6);
        // The machine became three times as slow: after 20 batches this is known to a hundredth.
        (0..20).for_each(|_| pace.note(10, Duration::from_micros(300)));
        assert!((pace.mean_ns().unwrap() - 30_000.0).abs() < 300.0);
        // A single row weighs less than a batch of many.
        pace.note(1, Duration::from_micros(300));
        assert!(pace.mean_ns().unwrap() < 40_000.0);
    }
}
