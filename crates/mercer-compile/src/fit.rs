//! How each stage is fitted to a machine. How it answers queries is in the module of the same name of `mercer_query`,
//! where its name, summary and parameters are defined too.

mod anytime;
pub(crate) mod compressed;
mod landmarks;
mod linear;
mod low_precision;
mod monomials;
mod nearest;
mod pca;
mod projected;
mod spectral;
mod spectrum;
mod student;
mod table;
mod taylor;

use mercer_machine::{Output, Score, Section};
use mercer_query::StageEntry;
use mercer_spec::{Checked, Spec};

use crate::{CompileError, Task};

/// One stage of the registry: what it is, how it is fitted, and what `tune` may propose.
#[derive(Debug)]
pub struct Fitter {
    /// Name, summary, parameters and loader.
    pub stage: &'static StageEntry,
    /// Whether it estimates: a plan with such a stage is calibrated on a sample.
    pub estimates: bool,
    /// Whether it stops queries by a rule of its own: a plan with such a stage and none that estimates is
    /// tested as a whole.
    pub stops: bool,
    /// What `tune` may try on this machine, cheapest first: nothing where it cannot fit or cannot pay.
    pub propose: fn(&Task<'_>) -> Vec<Spec>,
    /// Fits it, given its checked arguments.
    pub fit: fn(&Checked<'_>, &Task<'_>) -> Result<Section, CompileError>,
}

impl Fitter {
    /// The stage of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FITTERS.iter().copied().find(|fitter| fitter.stage.name == name)
    }

    /// Checks the text of the stage and fits it.
    ///
    /// # Errors
    /// If an argument is wrong, or the stage does not fit the machine.
    pub fn run(&self, spec: &Spec, task: &Task<'_>) -> Result<Section, CompileError> {
        let refuse = |error: mercer_spec::SpecError| CompileError::Unfit {
            stage: self.stage.name,
            reason: error.to_string(),
        };
        (self.fit)(&self.stage.check(spec).map_err(refuse)?, task)
    }
}

/// All stages before the exact one, in the order of [`mercer_query::STAGES`].
pub static FITTERS: &[&Fitter] = &[
    &low_precision::FITTER,
    &projected::FITTER,
    &spectral::FITTER,
    &taylor::FITTER,
    &monomials::FITTER,
    &anytime::FITTER,
    &compressed::FITTER,
    &table::FITTER,
    &linear::FITTER,
    &student::FITTER,
    &pca::FITTER,
    &nearest::FITTER,
    &landmarks::FITTER,
];

/// Whether a stage that stops by rules takes them from the sample even if there are training rows.
pub(crate) fn takes_sample(spec: &Spec) -> bool {
    spec.name() == nearest::FITTER.stage.name && nearest::takes_sample(spec)
}

/// Whether all scores are sums over supports: linear scores and tables are one product already.
fn has_only_expansions(task: &Task<'_>) -> bool {
    let machine = task.exact.machine();
    let is_expansion = |score: &Score| matches!(score, Score::Expansion { .. });
    machine.supports().rows() > 0 && machine.scores().iter().all(is_expansion)
}

/// Whether estimates can be fitted: to a sample, and for answers that are labels.
fn can_estimate(task: &Task<'_>) -> bool {
    let is_value = matches!(task.exact.machine().output(), Output::Value);
    has_only_expansions(task) && !is_value && task.sample.is_some_and(|rows| rows.rows() > 0)
}

#[cfg(test)]
mod tests {
    use super::FITTERS;

    #[test]
    fn every_stage_that_can_be_loaded_can_be_fitted() {
        let fitted: Vec<&str> = FITTERS.iter().map(|fitter| fitter.stage.name).collect();
        let loaded: Vec<&str> = mercer_query::STAGES.iter().map(|stage| stage.name).collect();
        assert_eq!(fitted, loaded);
    }
}
