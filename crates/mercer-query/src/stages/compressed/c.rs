//! The stage in C.

use mercer_kernel::bound::gamma;
use mercer_machine::MachineError;

use super::super::anytime::c::STEPS;
use super::Compressed;
use crate::c::{CFile, StageInC, StageSite, number, write_norms, write_rows};

impl StageInC for Compressed {
    fn write(&self, site: StageSite<'_>, file: &mut CFile<'_>) -> Result<(), MachineError> {
        let (size, name) = (self.size(), |name: &str| site.name(name));
        self.sequence.check_for_c(&self.spec.to_string(), &site)?;
        file.piece(STEPS)?;
        self.sequence.write(self.kernel.as_ref(), self.columns, &site, file)?;
        let numbers = [
            ("CHAIN_GAMMA", gamma(size as f64 + 4.0)),
            ("AMONG", self.vectors.error.unwrap_or(0.0)),
        ];
        for (constant, value) in numbers {
            file.define(&name(constant), number(value))?;
        }
        let flags = [
            ("HAS_AMONG", self.vectors.error.is_some()),
            ("IS_RELATIVE", self.vectors.is_relative),
            ("USES_FEW", self.gram.is_some()),
        ];
        for (flag, is_set) in flags {
            file.define(&name(flag), u8::from(is_set))?;
        }
        file.define(&name("SIZE"), size)?;
        for (cost, value) in [
            ("FIRST_COST", self.first_cost()),
            ("FEW_COST", self.few_cost()),
            ("ALL_COST", self.all_cost()),
        ] {
            file.define(&name(cost), format!("UINT64_C({value})"))?;
        }
        let basis = &self.sequence.chunks[0].basis;
        write_rows(basis, &name("vectors"), file)?;
        write_norms(basis, &name("norms"), file)?;
        file.f64s(&name("coefficients"), self.coefficients.iter().copied())?;
        file.f64s(&name("inverses"), self.inverses.iter().copied())?;
        file.f64s(&name("lengths"), self.vectors.sizes.iter().copied())?;
        self.write_scores(&site, file)?;
        file.stage_text(include_str!("near.c"), site.number)?;
        if self.uses_all {
            self.sequence.write_steps(&site, file)?;
            file.stage_text(include_str!("all.c"), site.number)?;
        } else {
            file.stage_text("#define BY_ALL_@(q, known, values) ((void)0)\n\n", site.number)?;
        }
        file.stage_text(include_str!("stage.c"), site.number)
    }
}

impl Compressed {
    fn write_scores(&self, site: &StageSite<'_>, file: &mut CFile<'_>) -> Result<(), MachineError> {
        let all = |part: fn(&super::SmallMachine) -> f64| self.scores.iter().map(part);
        file.f64s(&site.name("strays"), all(|score| score.stray))?;
        file.f64s(&site.name("sized"), all(|score| score.sized))?;
        file.f64s(&site.name("plain"), all(|score| score.plain))?;
        let slants = self.scores.iter().flat_map(|score| score.slants.iter().copied());
        file.f64s(&site.name("slants"), slants)
    }
}
