//! The stage in C: integers where rows lie on a grid, float elsewhere.

use mercer_kernel::Profile;
use mercer_kernel::bound::{UNIT, gamma};
use mercer_machine::MachineError;

use super::{LowPrecision, OnGrid};
use crate::c::{CFile, StageInC, StageSite, number};

/// Rows side by side: as many as there are partial sums in float.
const LANES: usize = 16;

impl StageInC for LowPrecision {
    fn write(&self, site: StageSite<'_>, file: &mut CFile<'_>) -> Result<(), MachineError> {
        let (exact, name) = (site.plan.exact_stage(), |name: &str| site.name(name));
        let (packed, live) = (exact.packed(), exact.packed().live_columns());
        for piece in [SINGLE, BOUNDS] {
            file.piece(piece)?;
        }
        file.define(&name("COST"), format!("UINT64_C({})", self.cost))?;
        // Columns of one chain of a product.
        let chunk = live.div_ceil(16).clamp(32, 128);
        file.define(&name("CHAIN"), chunk)?;
        let mut rows = vec![0.0; live];
        let mut narrow = Vec::with_capacity(packed.rows() * live);
        for row in 0..packed.rows() {
            packed.copy_row(row, &mut rows);
            narrow.extend(rows.iter().map(|value| *value as f32));
        }
        file.f32s(&name("rows"), CFile::side_by_side(&narrow, live, LANES))?;
        let mut squares = self.squares.clone();
        squares.resize(squares.len().next_multiple_of(LANES), 0.0);
        let is_gaussian = matches!(self.expansion.bound.profile, Profile::Gaussian { .. });
        if is_gaussian {
            file.f32s(&name("squares"), squares)?;
        }
        self.expansion.write(&site, file)?;
        if let Some(grid) = &self.grid {
            grid.write(self.is_rounded, is_gaussian, &site, file)?;
        } else {
            file.stage_text(include_str!("no_integers.c"), site.number)?;
        }
        file.stage_text(include_str!("stage.c"), site.number)
    }
}

const SINGLE: &str = include_str!("../../c/text/single.c");
const BOUNDS: &str = include_str!("bounds.c");

impl OnGrid {
    /// Codes of the supports, and what is known of them.
    fn write(
        &self,
        is_rounded: bool,
        is_gaussian: bool,
        site: &StageSite<'_>,
        file: &mut CFile<'_>,
    ) -> Result<(), MachineError> {
        let (exact, name) = (site.plan.exact_stage(), |name: &str| site.name(name));
        let columns = exact.machine().columns();
        let (step, base) = (self.coded.grid().step(), self.coded.grid().base());
        let (live, dead, kept) = self.codes(site);
        file.integers(
            "unsigned char",
            &name("codes"),
            CFile::side_by_side(&kept, live.len(), LANES),
        )?;
        file.define(&name("CODED"), live.len())?;
        file.integers("unsigned", &name("coded_columns"), &live)?;
        file.define(&name("DEAD"), dead.len())?;
        let dead_column = if dead.is_empty() { "(n)" } else { "dead_columns_@[n]" };
        if !dead.is_empty() {
            file.integers("unsigned", &name("dead_columns"), &dead)?;
        }
        file.stage_text(&format!("#define DEAD_COLUMN_@(n) {dead_column}\n"), site.number)?;
        self.write_norms(is_gaussian, site, file)?;
        // Norms of residuals, as `Grid` bounds them.
        let most = base.abs() + 255.0 * step;
        let spare = 3.1 * UNIT * most;
        let numbers = [
            ("STEP", step),
            ("INVERSE_STEP", 1.0 / step),
            ("BASE", base),
            ("SPARE", spare),
            ("LIVE_ROOT", (live.len() as f64).sqrt()),
            ("ALL_ROOT", (columns as f64).sqrt()),
            ("OFF_GRID", mercer_kernel::block::off_grid(is_rounded) * step),
            ("CODED_LIVE", self.bound.live),
            ("LEFTOVER", self.bound.leftover),
            ("LONGEST_CODE", self.bound.longest_code),
        ];
        for (constant, value) in numbers {
            file.define(&name(constant), format!("({})", number(value)))?;
        }
        file.define(&name("IS_ROUNDED"), u8::from(is_rounded))?;
        file.stage_text(include_str!("coded.c"), site.number)?;
        let text = if is_gaussian {
            include_str!("coded_gaussian.c")
        } else {
            include_str!("coded_products.c")
        };
        file.stage_text(text, site.number)?;
        file.stage_text(include_str!("integers.c"), site.number)
    }

    /// Columns with codes, columns without, and the codes of all supports in the former.
    fn codes(&self, site: &StageSite<'_>) -> (Vec<usize>, Vec<usize>, Vec<u8>) {
        let exact = site.plan.exact_stage();
        let (supports, columns) = (exact.machine().supports(), exact.machine().columns());
        let (step, base) = (self.coded.grid().step(), self.coded.grid().base());
        let mut codes = vec![0u8; supports.rows() * columns];
        let mut dense = vec![0.0; columns];
        for (row, codes) in supports.iter().zip(codes.chunks_exact_mut(columns)) {
            dense.fill(0.0);
            row.nonzeros().for_each(|(column, x)| dense[column as usize] = x);
            mercer_simd::codes(exact.isa(), &dense, step, base, codes);
        }
        let is_live = |column: &usize| codes.iter().skip(*column).step_by(columns).any(|c| *c != 0);
        let (live, dead): (Vec<usize>, Vec<usize>) = (0..columns).partition(is_live);
        let rows = codes.chunks_exact(columns);
        let kept = rows.flat_map(|row| live.iter().map(|column| row[*column])).collect();
        (live, dead, kept)
    }

    /// Sums of squares of codes for Gaussians, sums of codes for others.
    fn write_norms(
        &self,
        is_gaussian: bool,
        site: &StageSite<'_>,
        file: &mut CFile<'_>,
    ) -> Result<(), MachineError> {
        if is_gaussian {
            let mut squares = self.coded.squares().to_vec();
            squares.resize(squares.len().next_multiple_of(LANES), 0);
            return file.integers("int32_t", &site.name("code_squares"), squares);
        }
        let mut sums = self.coded.sums().to_vec();
        sums.resize(sums.len().next_multiple_of(LANES), 0.0);
        file.f64s(&site.name("code_sums"), sums)
    }
}

impl super::Expansion {
    /// Constants of the bounds, coefficients, and the functions that sum with them.
    pub(super) fn write(
        &self,
        site: &StageSite<'_>,
        file: &mut CFile<'_>,
    ) -> Result<(), MachineError> {
        let (bound, name) = (&self.bound, |name: &str| site.name(name));
        let (kind, scale, shift, degree) = match bound.profile {
            Profile::Gaussian { gamma } => ("GAUSSIAN", gamma, 0.0, 1),
            // Others have no such stage.
            Profile::Identity | Profile::Other => ("POWER", 1.0, 0.0, 1),
            Profile::Power { scale, shift, degree } => ("POWER", scale, shift, degree),
            Profile::NormalizedPower { scale, shift, degree } => {
                ("NORMALIZED", scale, shift, degree)
            }
            Profile::Sigmoid { scale, shift } => ("SIGMOID", scale, shift, 1),
        };
        let steps = (bound.rows / 8) as f64 + 8.0;
        let p = f64::from(degree);
        let numbers = [
            ("LONGEST", bound.longest),
            ("SCALE", scale),
            ("SHIFT", shift),
            ("NORMS", 1.01 * p * gamma(bound.columns as f64 + 20.0)),
            ("STEPS_GAMMA", gamma(steps)),
            ("SUMS_GAMMA", gamma(steps + 2.0 * p + 8.0)),
            ("TERMS", bound.terms),
        ];
        for (constant, value) in numbers {
            file.define(&name(constant), format!("({})", number(value)))?;
        }
        file.define(&name("DEGREE"), degree)?;
        file.define(&name("KIND"), format!("SINGLE_{kind}"))?;
        file.text(&format!("static const struct single_weights {}[] = {{\n", name("weights")))?;
        for weights in &self.weights {
            let parts = [weights.used, weights.original, weights.offset, weights.lost];
            file.text(&format!("    {{{}}},\n", parts.map(number).join(", ")))?;
        }
        file.text("};\n\n")?;
        file.stage_text(include_str!("known.c"), site.number)?;
        self.write_coefficients(site, file)
    }
}
