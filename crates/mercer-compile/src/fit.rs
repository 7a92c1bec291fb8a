//! The fitting half of each stage; the asking half has the same name in the query room.

mod anytime;
mod linear;
mod low_precision;
mod pca;
mod projected;
mod spectral;
mod student;

use mercer_machine::Section;
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
    /// Fits it.
    pub fit: fn(&Spec, &Task<'_>) -> Result<Section, CompileError>,
}

/// All stages that can be fitted; one line each.
pub static FITTERS: &[&Fitter] = &[
    &low_precision::FITTER,
    &projected::FITTER,
    &spectral::FITTER,
    &anytime::FITTER,
    &linear::FITTER,
    &student::FITTER,
    &pca::FITTER,
];

/// Refuses arguments of a stage that takes none.
fn no_arguments(stage: &'static str, spec: &Spec) -> Result<(), CompileError> {
    if spec.positional().is_empty() && spec.named().is_empty() {
        return Ok(());
    }
    Err(CompileError::Unfit { stage, reason: "it takes no parameters".to_owned() })
}
