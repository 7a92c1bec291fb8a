//! How much may be taken on. What requests are expected to take is a mean; so that nearly all of them are done within the bound, less is
//! taken on for a while after one was not.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is left of the share of the bound that is used, after a request took longer than the bound.
const KEPT: f64 = 0.8;
/// How much the share grows in a second: after a cut it is as before within about ten.
const GROWTH: f64 = 0.02;
/// The share is never less.
const LEAST: f64 = 0.25;

/// The bound, and the share of it that is used.
#[derive(Debug)]
pub struct Bound {
    limit: Duration,
    /// Expected nanoseconds of all threads within the limit.
    nanoseconds: u64,
    cut: Mutex<Cut>,
}

/// When the share was last cut, and to what.
#[derive(Debug)]
struct Cut {
    moment: Option<Instant>,
    share: f64,
}

impl Cut {
    fn share(&self, now: Instant) -> f64 {
        let Some(moment) = self.moment else { return 1.0 };
        let seconds = now.saturating_duration_since(moment).as_secs_f64();
        (self.share + GROWTH * seconds).min(1.0)
    }
}

impl Bound {
    /// So many threads that are to be done within the limit.
    pub fn new(limit: Duration, threads: u64) -> Self {
        let nanoseconds = limit.as_nanos().min(u128::from(u64::MAX / 4)) as u64;
        let nanoseconds = nanoseconds.saturating_mul(threads).min(u64::MAX / 4);
        Self { limit, nanoseconds, cut: Mutex::new(Cut { moment: None, share: 1.0 }) }
    }

    fn cut(&self) -> MutexGuard<'_, Cut> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expected nanoseconds of all threads that may be taken on.
    pub fn nanoseconds(&self) -> u64 {
        let share = self.cut().share(Instant::now());
        // All of it where the product would round.
        if share < 1.0 { (self.nanoseconds as f64 * share) as u64 } else { self.nanoseconds }
    }

    /// A request that was done so long after it was taken on, and was expected to need so many nanoseconds of a thread itself. Long ones say
    /// nothing of the others, and all that were taken on before a cut say the same once more.
    pub fn note(&self, time: Duration, own: u64) {
        if time > self.limit && own <= self.nanoseconds / 8 {
            self.cut_at(Instant::now());
        }
    }

    fn cut_at(&self, now: Instant) {
        let mut cut = self.cut();
        if cut.moment.is_some_and(|moment| now.saturating_duration_since(moment) < 2 * self.limit) {
            return;
        }
        cut.share = (KEPT * cut.share(now)).max(LEAST);
        cut.moment = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_taken_on_after_a_request_was_late_and_more_again_later() {
        let bound = Bound::new(Duration::from_millis(100), 2);
        assert_eq!(bound.nanoseconds(), 200_000_000);
        bound.note(Duration::from_millis(99), 1);
        bound.note(Duration::from_secs(9), 100_000_000);
        assert_eq!(bound.nanoseconds(), 200_000_000, "in time, or long by itself");
        bound.note(Duration::from_millis(101), 1_000_000);
        assert!((160_000_000..199_000_000).contains(&bound.nanoseconds()));
        let share = |seconds: f64| {
            let cut = bound.cut();
            cut.share(cut.moment.unwrap() + Duration::from_secs_f64(seconds))
        };
        assert!((share(0.0) - 0.8).abs() < 1e-9 && (share(5.0) - 0.9).abs() < 1e-9);
        assert!((share(60.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_late_time_is_one_cut_and_there_is_a_least_share() {
        let bound = Bound::new(Duration::from_millis(100), 1);
        let start = Instant::now();
        let mut shares = Vec::new();
        for milliseconds in [0, 50, 199, 200, 400, 600, 800, 1000, 1200, 1400, 1600] {
            let now = start + Duration::from_millis(milliseconds);
            bound.cut_at(now);
            shares.push(bound.cut().share(now));
        }
        assert!((shares[2] - 0.8).abs() < 0.01, "{shares:?}");
        assert!((shares[3] - 0.64).abs() < 0.01, "{shares:?}");
        assert!((shares[10] - LEAST).abs() < 0.01, "{shares:?}");
    }
}
