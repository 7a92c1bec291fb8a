//! The machine of a plan's C file: supports, coefficients, and the constants of exact answers and their rounding bounds.

use mercer_kernel::block::Packed;
use mercer_machine::{MachineError, Model, Score};

use super::file::{CFile, number};
use crate::Exact;
use crate::coefficients::Coefficients;
use crate::rounding::RowSizes;

/// Rows side by side in the file: as many as there are partial sums.
const LANES: usize = 8;

/// What a row needs before the stages see it.
pub(super) fn write_constants(
    model: &Model,
    exact: &Exact,
    file: &mut CFile<'_>,
) -> Result<(), MachineError> {
    let (packed, columns) = (exact.packed(), exact.machine().columns());
    file.define("MERCER_LIVE_COLUMNS", packed.live_columns())?;
    file.define("MERCER_LIVE", packed.live_columns().max(1))?;
    file.integers("unsigned", "live_columns", packed.live())?;
    let (is_scaled, is_shifted) = (model.input.scaling.is_some(), packed.is_shifted());
    // The scaled row, then the centred one.
    let numbers = columns * (usize::from(is_scaled) + usize::from(is_shifted));
    file.define("PREPARED_NUMBERS", numbers.max(1))?;
    let scaled = if is_scaled { "(scale(row, memory), memory)" } else { "row" };
    file.define("PREPARED_ROW", scaled)?;
    if is_shifted {
        let centre = exact.machine().centre().unwrap_or(&[]);
        let shifts = (0..columns).map(|column| centre.get(column).copied().unwrap_or(0.0));
        file.f64s("centre", shifts)?;
        file.text(include_str!("text/centre.c"))?;
        let place = if is_scaled { "memory + MERCER_COLUMNS" } else { "memory" };
        return file.define("PREPARED_CENTRED", format!("centred_row(q->row, {place})"));
    }
    file.define("PREPARED_CENTRED", "q->row")
}

/// Packed rows side by side.
pub(crate) fn write_rows(
    packed: &Packed,
    name: &str,
    file: &mut CFile<'_>,
) -> Result<(), MachineError> {
    let live = packed.live_columns();
    let mut rows = vec![0.0; packed.rows() * live];
    for (number, row) in rows.chunks_exact_mut(live.max(1)).enumerate() {
        packed.copy_row(number, row);
    }
    file.f64s(name, CFile::side_by_side(&rows, live, LANES))
}

/// The squared norms of packed rows.
pub(crate) fn write_norms(
    packed: &Packed,
    name: &str,
    file: &mut CFile<'_>,
) -> Result<(), MachineError> {
    let mut norms = packed.squared_norms().to_vec();
    norms.resize(norms.len().next_multiple_of(LANES), 0.0);
    file.f64s(name, norms)
}

/// Lengths of rows, for bounds of kernel values with them.
pub(crate) fn write_sizes(
    sizes: &RowSizes,
    name: &str,
    file: &mut CFile<'_>,
) -> Result<(), MachineError> {
    file.text(&format!("static const double {name}_by_norm[][3] = {{\n"))?;
    for size in &sizes.by_norm {
        let relative = size.relative_error.unwrap_or(-1.0);
        let [factor, error, relative] = [size.factor, size.kernel_error, relative].map(number);
        file.text(&format!("{{{factor},{error},{relative}}},\n"))?;
    }
    let ordinary = number(sizes.ordinary_error.unwrap_or(0.0));
    file.text(&format!(
        "}};\n\nstatic const struct row_sizes {name} = {{\n    {}, {}, {ordinary}, {}, {}, {name}_by_norm\n}};\n\n",
        number(sizes.longest),
        number(sizes.shortest),
        u8::from(sizes.is_ordinary),
        u8::from(sizes.ordinary_error.is_some()),
    ))
}

/// Where the scores of each chunk begin, which they are, and their coefficients.
pub(crate) fn write_chunks(
    coefficients: &Coefficients,
    names: [&str; 3],
    file: &mut CFile<'_>,
) -> Result<(), MachineError> {
    let mut starts = vec![0usize];
    for chunk in &coefficients.chunks {
        starts.push(starts[starts.len() - 1] + chunk.scores.len());
    }
    file.integers("unsigned", names[0], starts)?;
    file.integers(
        "unsigned",
        names[1],
        coefficients.chunks.iter().flat_map(|chunk| &chunk.scores),
    )?;
    let values = coefficients.chunks.iter().flat_map(|chunk| &chunk.values);
    file.f64s(names[2], values.copied())
}

/// The constants of exact answers.
pub(super) fn write_exact(exact: &Exact, file: &mut CFile<'_>) -> Result<(), MachineError> {
    let (machine, coefficients) = (exact.machine(), exact.coefficients());
    file.text(include_str!("text/exact.c"))?;
    write_rows(exact.packed(), "support_values", file)?;
    write_norms(exact.packed(), "support_norms", file)?;
    file.define("EXACT_CHUNKS", coefficients.chunks.len())?;
    file.define("EXACT_CHUNK_ROWS", coefficients.chunk_rows)?;
    file.define("EXACT_COST", format!("UINT64_C({})", exact.cost().multiply_adds))?;
    write_chunks(coefficients, ["exact_starts", "exact_scores_of", "exact_coefficients"], file)?;
    file.f64s("offsets", machine.scores().iter().map(Score::offset))?;
    file.text("static const struct rounding roundings[] = {\n")?;
    for constants in &exact.rounding().scores {
        let parts = [constants.weight, constants.self_weight, constants.gamma, constants.offset];
        file.text(&format!("    {{{}}},\n", parts.map(number).join(", ")))?;
    }
    file.text("};\n\n")?;
    write_sizes(&exact.rounding().rows, "exact_sizes", file)
}
