//! The stage in C.

use mercer_machine::MachineError;
use mercer_simd::LANES32;

use super::Student;
use crate::c::{CFile, StageInC, StageSite};

impl StageInC for Student {
    fn write(&self, site: StageSite<'_>, file: &mut CFile<'_>) -> Result<(), MachineError> {
        let name = |name: &str| site.name(name);
        let outputs = self.levels.first().map_or(1, |level| level.constants.len());
        let widest = self.levels.last().map_or(1, |level| level.size).next_multiple_of(LANES32);
        file.piece(include_str!("quadratic.c"))?;
        file.define(&name("OUTPUTS"), outputs)?;
        file.define(&name("LEVELS"), self.levels.len())?;
        file.define(&name("WIDEST"), widest)?;
        file.integers(
            "unsigned",
            &name("level_sizes"),
            self.levels.iter().map(|level| level.size),
        )?;
        let mut costs = Vec::new();
        for level in &self.levels {
            let forms = (level.constants.len() * level.size * (level.size + 1)) as u64;
            costs.push(self.basis.charge_once(0..level.size, &mut file.charged) + forms);
        }
        file.integers("uint64_t", &name("costs"), costs)?;
        self.basis.write(&site, file)?;
        file.f32s(
            &name("forms"),
            self.levels.iter().flat_map(|level| level.forms.iter().copied()),
        )?;
        file.f32s(
            &name("lines"),
            self.levels.iter().flat_map(|level| level.lines.iter().copied()),
        )?;
        let constants = self.levels.iter().flat_map(|level| level.constants.iter().copied());
        file.f64s(&name("constants"), constants)?;
        site.write_scales(self.levels.len(), file)?;
        file.stage_text(include_str!("stage.c"), site.number)
    }
}
