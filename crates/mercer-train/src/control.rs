//! Progress, limits and the cancel token of a training.
//! Checkpoints are written in [`crate::checkpoint`]; search has a progress of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::TrainError;
use crate::checkpoint::Checkpointer;
use crate::optimality::Optimality;
use crate::solvers::State;

/// The tolerance is not lowered further for a relative gap: rounding errors are larger.
const LEAST_TOLERANCE: f64 = 1e-14;

/// Stops a training from another thread; clones share one flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses a flag that someone else sets, such as a signal handler.
    pub fn from_flag(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// Asks the training to end; it returns the best machine so far.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether the flag is set.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Why a training ended before it converged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The cancel token was used.
    Cancelled,
    /// The time limit was reached.
    TimeLimit,
    /// The limit of iterations was reached.
    IterationLimit,
    /// Stalled at f64 precision: rounding errors are larger than the progress of a step.
    Stalled,
    /// Stalled at f32 precision: rounding errors are larger than the progress of a step.
    F32Stalled,
    /// The solver's limit of steps was reached: the problem is too badly scaled to converge.
    GivenUp,
}

impl Stop {
    /// The same as a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Cancelled => "it was interrupted",
            Self::TimeLimit => "the time limit was reached",
            Self::IterationLimit => "the limit of iterations was reached",
            Self::Stalled => "stalled at f64 precision: rounding errors hide further progress",
            Self::F32Stalled => "stalled at f32 precision: rounding errors hide further progress",
            Self::GivenUp => "steps gain too little; scale the columns or lower C",
        }
    }

    /// An error where the cancel token or the time limit ended a training: cross-validation ends with it. After any
    /// other stop it goes on with the best point so far.
    pub(crate) fn check_limits(stop: Option<Self>) -> Result<(), TrainError> {
        match stop {
            Some(stop @ (Self::Cancelled | Self::TimeLimit)) => Err(TrainError::Stopped(stop)),
            _ => Ok(()),
        }
    }
}

/// The progress of a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Pair steps or coordinate updates so far, all subproblems together.
    pub iterations: u64,
    /// The binary subproblem being solved, from 0.
    pub subproblem: usize,
    /// How many there are.
    pub subproblems: usize,
    /// Maximal violation of the subproblem being solved, by the running gradient.
    pub violation: f64,
    /// Duality gap of the subproblem being solved, by the running gradient.
    pub gap: f64,
    /// Examples with a non-zero coefficient in the subproblem being solved.
    pub supports: usize,
    /// The rounds so far, for solvers that work in rounds over working sets (`decomposition`).
    pub round: Option<RoundProgress>,
    /// Time since the start; time before a resumed checkpoint included.
    pub elapsed: Duration,
    /// Estimate of the time left, from how fast the violation falls.
    pub time_left: Option<Duration>,
}

/// A round of a solver that works on one working set after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundProgress {
    /// Rounds so far.
    pub number: u64,
    /// Examples whose coefficients the last round changed.
    pub moved: usize,
}

/// What the running gradient says of the subproblem being solved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status {
    pub(crate) violation: f64,
    pub(crate) gap: f64,
    pub(crate) supports: usize,
}

/// Limits, progress and checkpoints of one training, as solvers use them while they run.
pub struct Control<'a> {
    pub(crate) observer: &'a mut dyn FnMut(&Progress),
    pub(crate) cancel: Cancel,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) max_iterations: Option<u64>,
    pub(crate) tolerance: f64,
    /// Share of the objective that the duality gap of a subproblem may have at its end.
    pub(crate) relative_gap: Option<f64>,
    pub(crate) started: Instant,
    /// Time spent before the checkpoint that was resumed.
    pub(crate) earlier: Duration,
    pub(crate) iterations: u64,
    pub(crate) subproblem: usize,
    pub(crate) subproblems: usize,
    pub(crate) checkpointer: Option<Checkpointer>,
    /// The round of the subproblem being solved, for solvers that have some.
    pub(crate) round: Option<RoundProgress>,
    pace: Option<Pace>,
}

/// How fast the violation of the present subproblem falls.
#[derive(Debug, Clone, Copy)]
struct Pace {
    started: Instant,
    violation: f64,
}

impl std::fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl<'a> Control<'a> {
    pub(crate) fn new(observer: &'a mut dyn FnMut(&Progress), cancel: Cancel) -> Self {
        Self {
            observer,
            cancel,
            time_limit: None,
            max_iterations: None,
            tolerance: 1e-3,
            relative_gap: None,
            started: Instant::now(),
            earlier: Duration::ZERO,
            iterations: 0,
            subproblem: 0,
            subproblems: 1,
            checkpointer: None,
            round: None,
            pace: None,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.earlier + self.started.elapsed()
    }

    pub(crate) fn start_subproblem(&mut self, number: usize) {
        self.subproblem = number;
        self.round = None;
        self.pace = None;
    }

    /// Reports to the observer.
    pub(crate) fn report(&mut self, status: Status) {
        let time_left = self.time_left(status.violation);
        let progress = Progress {
            iterations: self.iterations,
            subproblem: self.subproblem,
            subproblems: self.subproblems,
            violation: status.violation,
            gap: status.gap,
            supports: status.supports,
            round: self.round,
            elapsed: self.elapsed(),
            time_left,
        };
        (self.observer)(&progress);
    }

    /// Reports to the observer; whether to go on.
    pub(crate) fn report_and_go_on(&mut self, status: Status) -> bool {
        self.report(status);
        self.stop().is_none()
    }

    /// Writes a checkpoint if one is due, unless the limit of steps cut the last round short: what follows
    /// such a round is not what follows a whole one.
    pub(crate) fn save(&mut self, state: &State) -> Result<(), TrainError> {
        if self.steps_left() == 0 {
            return Ok(());
        }
        match &self.checkpointer {
            Some(checkpointer) if checkpointer.is_due() => self.write_checkpoint(state),
            _ => Ok(()),
        }
    }

    /// Writes a checkpoint before a limit ends the training, unless the limit cut the last round short.
    pub(crate) fn save_before_end(&mut self, state: &State) -> Result<(), TrainError> {
        if self.steps_left() == 0 {
            return Ok(());
        }
        self.write_checkpoint(state)
    }

    fn write_checkpoint(&mut self, state: &State) -> Result<(), TrainError> {
        let (elapsed, iterations) = (self.elapsed(), self.iterations);
        match &mut self.checkpointer {
            Some(checkpointer) => checkpointer.save(elapsed, iterations, self.subproblem, state),
            None => Ok(()),
        }
    }

    /// Whether a point within the tolerance is good enough. If its duality gap is too large, the tolerance is lowered, so that
    /// the solver goes on; [`crate::gram_backend`] restores it for the next subproblem.
    pub(crate) fn accepts(&mut self, optimality: &Optimality) -> bool {
        self.accepts_gap(optimality.gap, optimality.objective)
    }

    /// The same by a duality gap and an objective.
    pub(crate) fn accepts_gap(&mut self, gap: f64, objective: f64) -> bool {
        let Some(share) = self.relative_gap else { return true };
        let allowed = share * objective.abs();
        if gap <= allowed || self.tolerance < LEAST_TOLERANCE {
            return true;
        }
        // The gap falls about as the violation does; half is aimed at, so that one more stage is enough.
        self.tolerance *= (0.5 * allowed / gap).clamp(0.02, 0.5);
        false
    }

    /// Whether to end now.
    pub(crate) fn stop(&self) -> Option<Stop> {
        if self.cancel.is_cancelled() {
            Some(Stop::Cancelled)
        } else if self.time_limit.is_some_and(|limit| self.elapsed() >= limit) {
            Some(Stop::TimeLimit)
        } else if self.max_iterations.is_some_and(|limit| self.iterations >= limit) {
            Some(Stop::IterationLimit)
        } else {
            None
        }
    }

    /// A test for worker threads: whether one that made so many steps since its last test should stop, with
    /// `threads` of them sharing the steps that are left.
    pub(crate) fn stop_check(&self, threads: usize) -> impl Fn(u64) -> bool + Sync + use<> {
        let cancel = self.cancel.clone();
        let left = self.time_limit.map(|limit| limit.saturating_sub(self.elapsed()));
        let now = Instant::now();
        let steps = self.steps_left() / threads.max(1) as u64;
        move |made| {
            cancel.is_cancelled() || left.is_some_and(|left| now.elapsed() >= left) || made >= steps
        }
    }

    /// Pair steps that may still be made.
    pub(crate) fn steps_left(&self) -> u64 {
        self.max_iterations.map_or(u64::MAX, |limit| limit.saturating_sub(self.iterations))
    }

    /// An estimate: the violation falls by a constant factor per second, and subproblems take equally long.
    fn time_left(&mut self, violation: f64) -> Option<Duration> {
        let now = Instant::now();
        let pace = *self.pace.get_or_insert(Pace { started: now, violation });
        let spent = now.duration_since(pace.started).as_secs_f64();
        let fallen = (pace.violation / violation).ln();
        let left = (violation / self.tolerance).ln().max(0.0);
        let this_one = (fallen > 0.0 && left.is_finite()).then(|| spent * left / fallen)?;
        let done = self.subproblem as f64 + fallen / (fallen + left);
        let all_spent = self.elapsed().as_secs_f64();
        let count = self.subproblems as f64;
        let seconds = if self.subproblems == 1 {
            this_one
        } else {
            all_spent * (count - done) / done.max(1e-3)
        };
        Duration::try_from_secs_f64(seconds).ok()
    }
}
