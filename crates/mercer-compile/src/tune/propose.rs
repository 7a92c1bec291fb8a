//! Phase 1, propose: the stages that are worth fitting to this machine, by the registry of stages. Nothing is fitted or
//! timed here, except exact answers.

use mercer_spec::Spec;

use super::search::{Context, Search};
use crate::{CompileError, FITTERS, Fitter, Task};

/// A stage to fit.
#[derive(Debug)]
pub(super) struct Proposal {
    pub fitter: &'static Fitter,
    pub spec: Spec,
}

/// What the labels of a stage rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StageKind {
    /// It proves ranges of scores; labels rest on these.
    Certifying,
    /// It estimates scores; labels rest on the calibration of the plan.
    Estimating,
}

/// The stages to fit, by kind.
#[derive(Debug, Default)]
pub(super) struct Proposals {
    certifying: Vec<Proposal>,
    estimating: Vec<Proposal>,
}

impl Proposals {
    /// Takes those of one kind.
    pub(super) fn take(&mut self, kind: StageKind) -> Vec<Proposal> {
        match kind {
            StageKind::Certifying => std::mem::take(&mut self.certifying),
            StageKind::Estimating => std::mem::take(&mut self.estimating),
        }
    }
}

/// Begins a search: times exact answers, and lists the stages to fit.
pub(super) fn propose<'a>(
    context: Context<'a>,
    task: &Task<'_>,
) -> Result<Search<'a>, CompileError> {
    let mut search = Search::new(context)?;
    for kind in search.kinds() {
        let estimates = kind == StageKind::Estimating;
        let fitters = FITTERS.iter().filter(|fitter| fitter.estimates == estimates);
        let proposals = fitters.flat_map(|fitter| {
            (fitter.propose)(task).into_iter().map(move |spec| Proposal { fitter, spec })
        });
        match kind {
            StageKind::Certifying => search.proposals.certifying = proposals.collect(),
            StageKind::Estimating => search.proposals.estimating = proposals.collect(),
        }
    }
    Ok(search)
}
