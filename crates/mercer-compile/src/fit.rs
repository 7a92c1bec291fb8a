//! The fitting half of each stage; the options half has the same name in the query room.

mod anytime;
pub(crate) mod compressed;
mod constants;
mod landmarks;
mod linear;
mod low_precision;
mod monomials;
mod nearest;
mod pca;
mod projected;
mod residual;
mod rows;
mod spectral;
mod spectrum;
mod student;
mod table;
mod taylor;

use mercer_machine::{Output, Score, Section};
use mercer_spec::Spec;

use crate::{CompileError, Task};

/// How a stage is fitted to a machine.
#[derive(Debug)]
pub struct Fitter {
    /// Name of the stage.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Whether it estimates: a plan with such a stage is calibrated on a sample.
    pub estimates: bool,
    /// Whether it stops queries by a rule of its own: a plan with such a stage and none that estimates is
    /// tested as it stands.
    pub stops: bool,
    /// What `tune` may try on this machine, cheapest first: nothing where it cannot fit or cannot pay.
    pub propose: fn(&Task<'_>) -> Vec<Spec>,
    /// Fits it.
    pub fit: fn(&Spec, &Task<'_>) -> Result<Section, CompileError>,
}

/// All stages that can be fitted; one line each.
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
    &residual::FITTER,
];

/// Refuses arguments of a stage that takes none.
fn no_arguments(stage: &'static str, spec: &Spec) -> Result<(), CompileError> {
    if spec.positional().is_empty() && spec.named().is_empty() {
        return Ok(());
    }
    Err(CompileError::Unfit { stage, reason: "it takes no parameters".to_owned() })
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
