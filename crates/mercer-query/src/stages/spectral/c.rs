//! The stage in C: rounds in float, then rounds in double.

use mercer_machine::MachineError;

use super::{QuadraticForm, Spectral};
use crate::c::{CFile, StageInC, StageSite, number, write_rows};
use crate::certify::quadratic::Checkpoint;
use mercer_kernel::bound::gamma;

impl StageInC for Spectral {
    fn write(&self, site: StageSite<'_>, file: &mut CFile<'_>) -> Result<(), MachineError> {
        let columns = site.plan.exact_stage().machine().columns();
        file.piece(include_str!("bounds.c"))?;
        let relative = 2.0 * gamma(columns as f64 + 16.0);
        file.define(&site.name("RELATIVE"), number(relative))?;
        write_forms(&self.forms, &site, file)?;
        let mut rounds = 0;
        if let Some(f32_rounds) = &self.f32_rounds {
            rounds = f32_rounds.write(&site, file)?;
        }
        file.define(&site.name("SINGLE_ROUNDS"), rounds)?;
        let single =
            if rounds > 0 { include_str!("single.c") } else { include_str!("no_single.c") };
        file.stage_text(single, site.number)?;
        file.stage_text(include_str!("stage.c"), site.number)
    }
}

/// The constants of a checkpoint, as C takes them.
pub(super) fn checkpoint(checkpoint: &Checkpoint) -> String {
    format!("{{{}}}", [checkpoint.least, checkpoint.most, checkpoint.noise].map(number).join(", "))
}

/// Forms, eigenvalues, and the chunks of each score with their eigenvectors.
fn write_forms(
    forms: &[QuadraticForm],
    site: &StageSite<'_>,
    file: &mut CFile<'_>,
) -> Result<(), MachineError> {
    file.text(&format!("static const struct quadratic {}[] = {{\n", site.name("forms")))?;
    let (mut first, mut first_chunk) = (0, 0);
    for form in forms {
        let bound = &form.bound;
        let parts = [
            bound.factor,
            bound.offset,
            bound.constant,
            bound.residual,
            bound.defect,
            bound.largest,
        ];
        let (count, chunks) = (form.values.len(), form.chunks.len());
        file.text(&format!(
            "    {{{}, {}, {first}, {count}, {first_chunk}, {chunks}}},\n",
            parts.map(number).join(", "),
            u8::from(bound.is_normalized)
        ))?;
        first += count;
        first_chunk += chunks;
    }
    file.text("};\n\n")?;
    let values = forms.iter().flat_map(|form| form.values.iter().copied());
    file.f64s(&site.name("eigenvalues"), values)?;
    let constants = forms.iter().flat_map(|form| form.constants.iter().copied());
    file.f64s(&site.name("shifts"), constants)?;
    let chunks = || forms.iter().flat_map(|form| &form.chunks);
    for (number, chunk) in chunks().enumerate() {
        write_rows(&chunk.vectors, &site.name(&format!("vectors_{number}")), file)?;
    }
    let widest = chunks().map(|chunk| chunk.vectors.rows()).max().unwrap_or(0);
    file.define(&site.name("WIDEST"), widest.next_multiple_of(8).max(8))?;
    let most = forms.iter().map(|form| form.chunks.len()).max().unwrap_or(0);
    file.define(&site.name("ROUNDS"), most)?;
    file.text(&format!("static const struct eigen_chunk {}[] = {{\n", site.name("chunks")))?;
    for (number, chunk) in chunks().enumerate() {
        let vectors = site.name(&format!("vectors_{number}"));
        let (first, rows) = (chunk.first, chunk.vectors.rows());
        let constants = checkpoint(&chunk.checkpoint);
        file.text(&format!("    {{{vectors}, {first}, {rows}, {constants}}},\n"))?;
    }
    file.text(if first_chunk == 0 { "    {0, 0, 0, {0, 0, 0}},\n};\n\n" } else { "};\n\n" })
}
