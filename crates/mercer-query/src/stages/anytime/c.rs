//! The stage in C, and what `compressed` shares with it. Only one sequence of basis points: parts of query space and trees
//! are not written.

use mercer_kernel::bound::gamma;
use mercer_kernel::{Form, Kernel};
use mercer_machine::MachineError;

use super::{Anytime, Sequence};
use crate::c::{
    CFile, StageInC, StageSite, inexpressible, number, write_norms, write_rows, write_sizes,
};

/// What a projection needs: `struct projection`, `project_query` and `run_steps`.
pub(in crate::stages) const STEPS: &str = include_str!("steps.c");

/// With more steps their triangle would fill a file.
pub(in crate::stages) const MOST_STEPS: usize = 2048;

const CHUNK: &str = "struct basis_chunk {\n    const double *vectors, *norms;\n    unsigned first, rows;\n    \
    uint64_t cost;\n};\n\n";

impl StageInC for Anytime {
    fn write(&self, site: StageSite<'_>, file: &mut CFile<'_>) -> Result<(), MachineError> {
        let (sequence, name) = (&self.sequences[0], |name: &str| site.name(name));
        sequence.check_for_c(&self.spec.to_string(), &site)?;
        file.piece(STEPS)?;
        file.piece(CHUNK)?;
        sequence.write(self.kernel.as_ref(), self.columns, &site, file)?;
        for (at, chunk) in sequence.chunks.iter().enumerate() {
            write_rows(&chunk.basis, &name(&format!("vectors_{at}")), file)?;
            write_norms(&chunk.basis, &name(&format!("norms_{at}")), file)?;
        }
        file.text(&format!("static const struct basis_chunk {}[] = {{\n", name("chunks")))?;
        for (at, chunk) in sequence.chunks.iter().enumerate() {
            let (vectors, norms) = (name(&format!("vectors_{at}")), name(&format!("norms_{at}")));
            let (first, rows) = (chunk.first, chunk.basis.rows());
            let cost = sequence.cost(chunk, self.columns);
            file.text(&format!(
                "    {{{vectors}, {norms}, {first}, {rows}, UINT64_C({cost})}},\n"
            ))?;
        }
        file.text("};\n\n")?;
        let widest = sequence.chunks.iter().map(|chunk| chunk.basis.rows()).max().unwrap_or(1);
        file.define(&name("CHUNKS"), sequence.chunks.len())?;
        file.define(&name("WIDEST"), widest)?;
        file.define(&name("STEPS"), sequence.norms.len())?;
        sequence.write_steps(&site, file)?;
        file.stage_text(include_str!("stage.c"), site.number)
    }
}

impl Sequence {
    /// Refuses what no C file can hold.
    pub(in crate::stages) fn check_for_c(
        &self,
        stage: &str,
        site: &StageSite<'_>,
    ) -> Result<(), MachineError> {
        let steps = self.norms.len();
        if steps > MOST_STEPS {
            return Err(inexpressible(format!("the stage {stage} of {steps} vectors")));
        }
        if self.chunks[0].basis.live_columns() == 0 {
            return Err(inexpressible(format!("the stage {stage} over vectors of zeros")));
        }
        if self.sizes.is_shifted != site.plan.exact_stage().rounding().rows.is_shifted {
            return Err(inexpressible("vectors that are centred otherwise than the supports"));
        }
        Ok(())
    }

    /// Live columns and lengths of the basis points.
    pub(in crate::stages) fn write(
        &self,
        kernel: &dyn Kernel,
        columns: u64,
        site: &StageSite<'_>,
        file: &mut CFile<'_>,
    ) -> Result<(), MachineError> {
        let per_term = match kernel.form() {
            Form::Additive(term, _) => term.rounding(),
            _ => 0.0,
        };
        let relative = 2.0 * gamma(columns as f64 + 16.0 + per_term);
        file.define(&site.name("RELATIVE"), number(relative))?;
        let basis = &self.chunks[0].basis;
        file.define(&site.name("LIVE"), basis.live_columns())?;
        file.integers("unsigned", &site.name("live"), basis.live())?;
        write_sizes(&self.sizes, &site.name("sizes"), file)
    }

    /// The rows of T, and the steps of all scores.
    pub(in crate::stages) fn write_steps(
        &self,
        site: &StageSite<'_>,
        file: &mut CFile<'_>,
    ) -> Result<(), MachineError> {
        let mut rows = Vec::new();
        for chunk in &self.chunks {
            let mut row = vec![0.0; chunk.triangle.columns()];
            for lane in 0..chunk.basis.rows() {
                chunk.triangle.copy_row(lane, &mut row);
                rows.extend_from_slice(&row[..=chunk.first + lane]);
            }
        }
        file.f64s(&site.name("triangle"), rows)?;
        let shared = self.shared.0.iter();
        let shared = shared.flat_map(|s| [s.absolute, s.relative, s.chain, s.noise]);
        file.f64s(&site.name("shared_steps"), shared)?;
        let steps = self.scores.iter().flatten();
        let steps = steps.flat_map(|s| [s.weight, s.rest, s.norm, s.constant]);
        file.f64s(&site.name("steps"), steps)
    }
}
