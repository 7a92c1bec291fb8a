//! How much work the server has taken on, in expected time: what is being read, what waits and what runs. Requests are taken
//! on within a bound, each with a share of it that it holds until its work is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Expected time and cost of all requests that the server has taken on.
#[derive(Debug, Default)]
pub struct Load {
    nanoseconds: AtomicU64,
    multiply_adds: AtomicU64,
}

/// Expected work: time of one thread, and cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expected {
    /// Nanoseconds of one thread.
    pub nanoseconds: u64,
    /// Multiply-adds.
    pub multiply_adds: u64,
}

impl Load {
    /// Expected nanoseconds of one thread for all that was taken on.
    pub fn nanoseconds(&self) -> u64 {
        self.nanoseconds.load(Ordering::Relaxed)
    }

    /// Expected multiply-adds of all that was taken on.
    pub fn multiply_adds(&self) -> u64 {
        self.multiply_adds.load(Ordering::Relaxed)
    }

    /// Whether so much more may be taken on beside `others`. The work itself counts up to half the bound: a long request is
    /// taken on when little else is there, and when nothing else is, any request is.
    pub fn has_room(others: u64, own: u64, bound: u64) -> bool {
        others == 0 || others.saturating_add(own.min(bound / 2)) <= bound
    }

    /// Takes work on if it `fits` beside the expected time of what is there.
    ///
    /// # Errors
    /// That time, if it does not fit.
    pub fn try_reserve(
        self: &Arc<Self>,
        work: Expected,
        fits: impl Fn(u64) -> bool,
    ) -> Result<Reservation, u64> {
        let mut reservation = self.nothing();
        reservation.try_change(work, fits)?;
        Ok(reservation)
    }

    /// A share that is nothing yet.
    pub fn nothing(self: &Arc<Self>) -> Reservation {
        let (own, since) = (Expected::default(), Instant::now());
        Reservation { load: Arc::clone(self), own, others: 0, since }
    }
}

/// Work that was taken on, until it is dropped.
#[derive(Debug)]
pub struct Reservation {
    load: Arc<Load>,
    own: Expected,
    /// The expected time of all others when it became as large as it is.
    others: u64,
    since: Instant,
}

impl Reservation {
    /// The expected time of all others when it was taken on.
    pub fn others(&self) -> u64 {
        self.others
    }

    /// When it was taken on.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Makes it larger, if it then `fits` beside the expected time of the others, or smaller.
    ///
    /// # Errors
    /// The expected time of the others, if it does not fit; it is then as before.
    pub fn try_change(&mut self, work: Expected, fits: impl Fn(u64) -> bool) -> Result<(), u64> {
        let (before, after) = (self.own.nanoseconds, work.nanoseconds);
        if after > before {
            let change = |all: u64| {
                let others = all - before;
                fits(others).then(|| others.saturating_add(after))
            };
            let order = Ordering::Relaxed;
            let changed = self.load.nanoseconds.fetch_update(order, order, change);
            self.others = changed.map_err(|all| all - before)? - before;
            self.own.nanoseconds = after;
        }
        self.change(work);
        Ok(())
    }

    /// Makes it larger or smaller.
    pub fn change(&mut self, work: Expected) {
        let add = |sum: &AtomicU64, before: u64, after: u64| {
            // Differences wrap around and end at the right sum.
            sum.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        };
        add(&self.load.nanoseconds, self.own.nanoseconds, work.nanoseconds);
        add(&self.load.multiply_adds, self.own.multiply_adds, work.multiply_adds);
        self.own = work;
    }

    /// Gives a part of it away: the parts of a request end one after the other.
    pub fn split(&mut self, work: Expected) -> Self {
        let own = Expected {
            nanoseconds: work.nanoseconds.min(self.own.nanoseconds),
            multiply_adds: work.multiply_adds.min(self.own.multiply_adds),
        };
        self.own.nanoseconds -= own.nanoseconds;
        self.own.multiply_adds -= own.multiply_adds;
        Self { load: Arc::clone(&self.load), own, others: self.others, since: self.since }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.change(Expected::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(nanoseconds: u64) -> Expected {
        Expected { nanoseconds, multiply_adds: 2 * nanoseconds }
    }

    fn reserve(load: &Arc<Load>, nanoseconds: u64) -> Result<Reservation, u64> {
        load.try_reserve(work(nanoseconds), |others| Load::has_room(others, nanoseconds, 100))
    }

    #[test]
    fn work_is_taken_on_within_the_bound_and_given_back() {
        let load = Arc::new(Load::default());
        let first = reserve(&load, 1000).unwrap();
        assert_eq!(reserve(&load, 1).unwrap_err(), 1000);
        assert_eq!((load.nanoseconds(), load.multiply_adds()), (1000, 2000));
        drop(first);
        assert_eq!((load.nanoseconds(), load.multiply_adds()), (0, 0));
        let small = reserve(&load, 50).unwrap();
        let long = reserve(&load, 1000).unwrap();
        assert_eq!((small.others(), long.others()), (0, 50));
        drop((small, long));
        let _most = reserve(&load, 51).unwrap();
        assert_eq!(reserve(&load, 1000).unwrap_err(), 51, "more than half is there");
        assert!(reserve(&load, 49).is_ok());
    }

    #[test]
    fn reservations_change_and_are_split() {
        let load = Arc::new(Load::default());
        let mut other = load.nothing();
        other.change(work(40));
        let mut own = reserve(&load, 10).unwrap();
        own.try_change(work(60), |others| others == 40).unwrap();
        assert_eq!(load.nanoseconds(), 100);
        other.change(work(60));
        assert_eq!(own.try_change(work(61), |_| false).unwrap_err(), 60);
        own.try_change(work(50), |_| false).unwrap();
        assert_eq!((load.nanoseconds(), load.multiply_adds()), (110, 220), "less always fits");
        let part = own.split(work(30));
        drop(own);
        assert_eq!((load.nanoseconds(), load.multiply_adds()), (90, 180));
        drop(part);
        assert_eq!((load.nanoseconds(), load.multiply_adds()), (60, 120));
    }
}
