//! The stage in C.

use mercer_machine::MachineError;

use super::Linear;
use crate::c::{CFile, StageInC, StageSite};

impl StageInC for Linear {
    fn write(&self, site: StageSite<'_>, file: &mut CFile<'_>) -> Result<(), MachineError> {
        file.define(&site.name("OUTPUTS"), self.constants.len())?;
        file.define(&site.name("COST"), self.weights.len())?;
        file.f64s(&site.name("weights"), self.weights.iter().copied())?;
        file.f64s(&site.name("constants"), self.constants.iter().copied())?;
        site.write_scales(1, file)?;
        file.stage_text(include_str!("stage.c"), site.number)
    }
}
