//! The stage in C.

use mercer_machine::MachineError;

use super::Table;
use crate::c::{CFile, StageInC, StageSite, number};

impl StageInC for Table {
    fn write(&self, site: StageSite<'_>, file: &mut CFile<'_>) -> Result<(), MachineError> {
        let scores = self.offsets.len();
        file.define(&site.name("PLACES"), self.columns.len())?;
        file.define(&site.name("COST"), 2 * self.columns.len() * scores)?;
        let mut columns: Vec<(u32, usize)> =
            self.places.iter().zip(0..).map(|(place, column)| (*place, column)).collect();
        columns.retain(|(place, _)| *place != super::NONE);
        file.integers(
            "unsigned",
            &site.name("columns"),
            columns.iter().map(|(_, column)| *column),
        )?;
        let mut firsts: Vec<usize> = self.columns.iter().map(|column| column.first).collect();
        firsts.push(self.columns.iter().map(|column| column.nodes.len()).sum());
        file.integers("unsigned", &site.name("firsts"), firsts)?;
        file.f64s(&site.name("scales"), self.columns.iter().map(|column| column.scale))?;
        let nodes = self.columns.iter().flat_map(|column| column.nodes.iter().copied());
        file.f64s(&site.name("nodes"), nodes)?;
        // One more than there are nodes for each column.
        let before = self.columns.iter().flat_map(|column| column.before.iter().copied());
        file.integers("unsigned", &site.name("before"), before)?;
        file.f64s(&site.name("cells"), self.cells.iter().copied())?;
        let gamma = mercer_kernel::bound::gamma(self.columns.len() as f64 + 4.0);
        file.define(&site.name("GAMMA"), number(gamma))?;
        file.stage_text(include_str!("stage.c"), site.number)
    }
}
