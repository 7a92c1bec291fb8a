//! Stages fitted once, from which plans are put together.

use std::cell::Cell;
use std::time::{Duration, Instant};

use mercer_machine::{Refusal, Section};
use mercer_spec::Spec;

use crate::{CompileError, FITTERS, Fitter, Progress, Task, Watch};

/// A share of the whole time that one stage may be fitted for.
const FIT_SHARE: f64 = 0.15;
/// And what the search may take of it; the rest is for the last looks and the test.
const SEARCH_SHARE: f64 = 0.85;

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
        let end = now
            .checked_add(limit.mul_f64(SEARCH_SHARE))
            .unwrap_or(now + Duration::from_secs(1 << 30));
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
    /// What the registry proposes for the machine, of one kind.
    pub(super) fn proposals(
        task: &Task<'_>,
        estimates: bool,
    ) -> Vec<(&'static &'static Fitter, Spec)> {
        let fitters = FITTERS.iter().filter(|fitter| fitter.estimates == estimates);
        fitters
            .flat_map(|fitter| (fitter.propose)(task).into_iter().map(move |spec| (fitter, spec)))
            .collect()
    }

    /// Fits a stage and tells its place; nothing, if it does not fit or time ran out.
    pub(super) fn fit(
        &mut self,
        fitter: &Fitter,
        spec: Spec,
        task: &Task<'_>,
        patience: &Patience<'_>,
    ) -> Result<Option<usize>, CompileError> {
        if patience.is_over() {
            self.is_cut_short = true;
            self.refuse(&spec, "the time limit came first");
            return Ok(None);
        }
        let share = patience.limit.mul_f64(FIT_SHARE);
        let end = Instant::now().checked_add(share).unwrap_or(patience.end);
        patience.fit_end.set(end.min(patience.end));
        match fitter.run(&spec, task) {
            Ok(section) => {
                let (cost, alone) = (f64::INFINITY, f64::INFINITY);
                let estimates = fitter.estimates;
                self.stages.push(Shelved { spec, estimates, section, cost, alone });
                return Ok(Some(self.stages.len() - 1));
            }
            Err(CompileError::Ended) if patience.is_ended.get() => return Err(CompileError::Ended),
            Err(CompileError::Ended) => {
                self.is_cut_short = true;
                let seconds = share.as_secs_f64();
                self.refuse(&spec, &format!("its fitting took longer than {seconds:.0} s"));
            }
            Err(CompileError::Unfit { reason, .. }) => self.refuse(&spec, &reason),
            Err(error) => self.refuse(&spec, &error.to_string()),
        }
        Ok(None)
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
