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
    end: Duration,
    pub retimed: Duration,
    pub over: Duration,
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
        Self { watch, clock, end, retimed, over, fit_time, fit_end, is_interrupted }
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
        self.clock.now() >= self.end
    }

    /// Whether the time for comparing the fastest plans is over.
    pub(super) fn is_retimed(&self) -> bool {
        self.clock.now() >= self.retimed
    }

    /// Begins the fit of a stage.
    pub(super) fn begin_fit(&self) {
        self.fit_end.set(self.clock.now().saturating_add(self.fit_time).min(self.end));
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
