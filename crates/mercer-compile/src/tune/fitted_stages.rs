//! The cache of fitted stages: each is fitted once, and plans are put together from them.
//!
//! What is tried is decided in `propose.rs`, `screen.rs` and `refine.rs`.

use mercer_machine::{Refusal, Section};
use mercer_spec::Spec;

use super::limit::TimeLimit;
use super::propose::Proposal;
use crate::{CompileError, Task};

/// A fitted stage.
#[derive(Debug)]
pub(super) struct FittedStage {
    pub spec: Spec,
    pub estimates: bool,
    pub section: Section,
    /// Its own multiply-adds for a query: cheap stages come first in a plan.
    pub cost: f64,
    /// Time of the plan of this stage alone, relative to exact; infinite until it is measured.
    pub relative_time: f64,
}

/// Fitted stages, and proposals that were refused. Plans name stages by their position here.
#[derive(Debug, Default)]
pub(super) struct FittedStageCache {
    pub stages: Vec<FittedStage>,
    pub refused: Vec<Refusal>,
    /// Whether the time limit came before all were fitted.
    pub is_cut_short: bool,
}

impl FittedStageCache {
    /// Fits a stage and returns its position; nothing, if it does not fit or time ran out.
    pub(super) fn fit(
        &mut self,
        proposal: Proposal,
        task: &Task<'_>,
        limit: &TimeLimit<'_>,
    ) -> Result<Option<usize>, CompileError> {
        let Proposal { fitter, spec } = proposal;
        if limit.is_over() {
            self.is_cut_short = true;
            self.refuse(&spec, "the time limit came first");
            return Ok(None);
        }
        limit.begin_fit();
        match fitter.run(&spec, task) {
            Ok(section) => {
                let (cost, relative_time) = (f64::INFINITY, f64::INFINITY);
                let estimates = fitter.estimates;
                self.stages.push(FittedStage { spec, estimates, section, cost, relative_time });
                return Ok(Some(self.stages.len() - 1));
            }
            Err(CompileError::Interrupted) if limit.is_interrupted() => {
                return Err(CompileError::Interrupted);
            }
            Err(CompileError::Interrupted) => {
                self.is_cut_short = true;
                let seconds = limit.fit_time.as_secs_f64();
                self.refuse(&spec, &format!("its fitting took longer than {seconds:.2} s"));
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

    /// Whether one of these stages estimates, so that the plan must be calibrated.
    pub(super) fn estimates(&self, stages: &[usize]) -> bool {
        stages.iter().any(|stage| self.stages[*stage].estimates)
    }

    /// Cheap stages first.
    pub(super) fn ordered(&self, mut stages: Vec<usize>) -> Vec<usize> {
        stages.sort_by(|a, b| self.stages[*a].cost.total_cmp(&self.stages[*b].cost));
        stages
    }

    /// The name of a stage, the same for all its parameters.
    pub(super) fn name(&self, stage: usize) -> &str {
        self.stages[stage].spec.name()
    }
}
