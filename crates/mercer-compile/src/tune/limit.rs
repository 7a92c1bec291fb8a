//! How long the search may take, and whether the caller has interrupted it. Where times come from is in `clock.rs`.

use std::cell::Cell;
use std::time::Duration;

use super::Clock;
use super::policy::LimitPolicy;
use crate::{CompileError, Progress, Watch};

/// The time limit of a search; all times are those of its clock.
#[derive(Debug)]
pub(super) struct TimeLimit<'a> {
    watch: Watch<'a>,
    clock: &'a dyn Clock,
    /// When the search must end, when plans must be re-timed, and when nothing may be timed any longer than is needed.
    end: Cell<Duration>,
    retimed: Cell<Duration>,
    over: Cell<Duration>,
    limit: Duration,
    /// How long one stage may be fitted.
    pub fit_time: Duration,
    /// When the current fit must end.
    fit_end: Cell<Duration>,
    is_interrupted: Cell<bool>,
}

impl<'a> TimeLimit<'a> {
    pub(super) fn new(
        watch: Watch<'a>,
        clock: &'a dyn Clock,
        limit: Duration,
        policy: &LimitPolicy,
    ) -> Self {
        let after = |share: f64| clock.now().saturating_add(limit.mul_f64(share));
        let end = after(policy.search_share);
        let (retimed, over) = (after(policy.retime_share), after(policy.finish_share));
        let fit_time = limit.mul_f64(policy.fit_share);
        let (fit_end, is_interrupted) = (Cell::new(end), Cell::new(false));
        let [end, retimed, over] = [end, retimed, over].map(Cell::new);
        Self { watch, clock, end, retimed, over, limit, fit_time, fit_end, is_interrupted }
    }

    /// Reports progress.
    pub(super) fn step(
        &self,
        what: &'static str,
        done: usize,
        most: usize,
    ) -> Result<(), CompileError> {
        Ok(self.watch.step(what, done, most)?)
    }

    pub(super) fn is_over(&self) -> bool {
        self.clock.now() >= self.end.get()
    }

    /// Keeps this time, but at most half of all, for the runs that are needed after the search.
    pub(super) fn reserve(&self, seconds: f64) {
        let kept = Duration::try_from_secs_f64(seconds).unwrap_or(self.limit).min(self.limit / 2);
        for end in [&self.end, &self.retimed, &self.over] {
            end.set(end.get().saturating_sub(kept));
        }
    }

    /// When plans that are close must have been re-timed.
    pub(super) fn retimed(&self) -> Duration {
        self.retimed.get()
    }

    /// When nothing may be timed any longer than is needed.
    pub(super) fn over(&self) -> Duration {
        self.over.get()
    }

    /// Whether the time for comparing the fastest plans is over.
    pub(super) fn is_retimed(&self) -> bool {
        self.clock.now() >= self.retimed.get()
    }

    /// Begins the fit of a stage.
    pub(super) fn begin_fit(&self) {
        self.fit_end.set(self.clock.now().saturating_add(self.fit_time).min(self.end.get()));
    }

    /// Whether a fit that reports progress may go on.
    pub(super) fn may_go_on(&self, progress: Progress) -> bool {
        if self.watch.step(progress.what, progress.done, progress.most).is_err() {
            self.is_interrupted.set(true);
        }
        self.clock.fit_progressed();
        !self.is_interrupted.get() && self.clock.now() < self.fit_end.get()
    }

    /// Whether the caller ended a fit, rather than the time limit.
    pub(super) fn is_interrupted(&self) -> bool {
        self.is_interrupted.get()
    }
}
