//! Stages fitted once, from which plans are put together.

use std::cell::Cell;
use std::time::{Duration, Instant};

use mercer_machine::{Refusal, Section};
use mercer_spec::Spec;

use crate::{CompileError, FITTERS, Progress, Task, Watch};

/// A share of the whole time that one stage may be fitted for.
const FIT_SHARE: f64 = 0.15;

/// How long it may take, and who may end it.
#[derive(Debug)]
pub(super) struct Patience<'a> {
    watch: Watch<'a>,
    limit: Duration,
    end: Instant,
    /// Where the fit at work must end.
    fit_end: Cell<Instant>,
    is_ended: Cell<bool>,
}

impl<'a> Patience<'a> {
    pub(super) fn new(watch: Watch<'a>, limit: Duration) -> Self {
        let now = Instant::now();
        // A limit beyond all calendars is none.
        let end = now.checked_add(limit).unwrap_or(now + Duration::from_secs(1 << 30));
        Self { watch, limit, end, fit_end: Cell::new(end), is_ended: Cell::new(false) }
    }

    /// Tells whoever watches how far it is.
    pub(super) fn step(
        &self,
        what: &'static str,
        done: usize,
        most: usize,
    ) -> Result<(), CompileError> {
        self.watch.step(what, done, most)
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Asked by fits: whether to go on.
    pub(super) fn ask(&self, progress: Progress) -> bool {
        if self.watch.step(progress.what, progress.done, progress.most).is_err() {
            self.is_ended.set(true);
        }
        !self.is_ended.get() && Instant::now() < self.fit_end.get()
    }
}

/// A fitted stage.
#[derive(Debug)]
pub(super) struct Shelved {
    pub spec: Spec,
    pub estimates: bool,
    pub section: Section,
    /// What it costs a query by itself, in multiply-adds: cheap stages come first in a plan.
    pub cost: f64,
    /// Time of the plan of this stage alone, in times of exact.
    pub alone: f64,
}

/// Fitted stages, and those that do not fit.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    pub stages: Vec<Shelved>,
    pub refused: Vec<Refusal>,
    /// Whether the time ended before all were fitted.
    pub is_cut_short: bool,
}

impl Shelf {
    /// Fits all that the registry proposes for the machine.
    pub(super) fn fill(
        task: &Task<'_>,
        patience: &Patience<'_>,
        may_estimate: bool,
    ) -> Result<Self, CompileError> {
        let mut shelf = Self::default();
        let fitters = FITTERS.iter().filter(|fitter| may_estimate || !fitter.estimates);
        let proposed: Vec<_> = fitters
            .flat_map(|fitter| (fitter.propose)(task).into_iter().map(move |spec| (fitter, spec)))
            .collect();
        let count = proposed.len();
        for (number, (fitter, spec)) in proposed.into_iter().enumerate() {
            patience.step("fitting stages", number, count)?;
            if patience.is_over() {
                shelf.is_cut_short = true;
                shelf.refuse(&spec, "the time limit came first");
                continue;
            }
            let share = patience.limit.mul_f64(FIT_SHARE);
            let end = Instant::now().checked_add(share).unwrap_or(patience.end);
            patience.fit_end.set(end.min(patience.end));
            match (fitter.fit)(&spec, task) {
                Ok(section) => shelf.stages.push(Shelved {
                    spec,
                    estimates: fitter.estimates,
                    section,
                    cost: f64::INFINITY,
                    alone: f64::INFINITY,
                }),
                Err(CompileError::Ended) if patience.is_ended.get() => {
                    return Err(CompileError::Ended);
                }
                Err(CompileError::Ended) => {
                    shelf.is_cut_short = true;
                    let seconds = share.as_secs_f64();
                    shelf.refuse(&spec, &format!("its fitting took longer than {seconds:.0} s"));
                }
                Err(CompileError::Unfit { reason, .. }) => shelf.refuse(&spec, &reason),
                Err(error) => shelf.refuse(&spec, &error.to_string()),
            }
        }
        Ok(shelf)
    }

    pub(super) fn refuse(&mut self, stage: &Spec, reason: &str) {
        self.refused.push(Refusal { stage: stage.to_string(), reason: reason.to_owned() });
    }

    /// The plan of these stages.
    pub(super) fn spec(&self, stages: &[usize]) -> Spec {
        if stages.is_empty() {
            return Spec::new("exact");
        }
        let cascade = stages
            .iter()
            .fold(Spec::new("cascade"), |plan, stage| plan.with(self.stages[*stage].spec.clone()));
        cascade.with("exact")
    }

    pub(super) fn estimates(&self, stages: &[usize]) -> bool {
        stages.iter().any(|stage| self.stages[*stage].estimates)
    }
}
