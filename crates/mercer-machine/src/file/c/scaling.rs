//! The function that scales a row before the machine sees it.

use std::io::Write;

use mercer_data::Scaling;
use mercer_data::scale::{Map, Norm};

use super::{Real, inexpressible, write_list};
use crate::MachineError;

/// The scaled row lives on the stack: wider ones are refused.
const MAX_COLUMNS: usize = 1 << 16;

pub(super) fn write(
    scaling: &Scaling,
    columns: usize,
    real: Real,
    out: &mut dyn Write,
) -> Result<(), MachineError> {
    if columns > MAX_COLUMNS {
        return Err(inexpressible(format!("the scaling of {columns} columns on the stack")));
    }
    let number = |value: f64| real.literal(value);
    // Columns of the machine that the scaling does not know are zero; those it knows in vain are left out.
    let wide = |values: &[f64], each: usize| {
        let mut values = values.to_vec();
        values.resize(each * columns, 0.0);
        values
    };
    match scaling.map() {
        Map::Affine { centres, factors } => {
            write_list(out, "mercer_real scale_centres[]", wide(centres, 1), number)?;
            write_list(out, "mercer_real scale_factors[]", wide(factors, 1), number)?;
            writeln!(out, "static void scale(const mercer_real *row, mercer_real *out) {{")?;
            writeln!(out, "    unsigned i;\n    for (i = 0; i < MERCER_COLUMNS; i++)")?;
            writeln!(
                out,
                "        out[i] = (row[i] - scale_centres[i]) * scale_factors[i];\n}}\n"
            )?;
        }
        Map::UnitNorm(norm) => unit_norm(*norm, real, out)?,
        Map::Quantiles { knots, count } => {
            write_list(out, "mercer_real scale_knots[]", wide(knots, *count), number)?;
            writeln!(out, "#define SCALE_KNOTS {count}\n")?;
            writeln!(out, "{QUANTILES}")?;
        }
    }
    Ok(())
}

/// As in mercer: in units of the largest value, so that squares do not overflow.
fn unit_norm(norm: Norm, real: Real, out: &mut dyn Write) -> Result<(), MachineError> {
    let f = real.suffix();
    let (add, finish) = match norm {
        Norm::L1 => (format!("fabs{f}(share)"), "norm".to_owned()),
        Norm::L2 => ("share * share".to_owned(), format!("sqrt{f}(norm)")),
        Norm::Max => ("0".to_owned(), "1".to_owned()),
    };
    writeln!(out, "static void scale(const mercer_real *row, mercer_real *out) {{")?;
    writeln!(out, "    mercer_real unit = 0, norm = 0;\n    unsigned i;")?;
    writeln!(out, "    for (i = 0; i < MERCER_COLUMNS; i++)")?;
    writeln!(out, "        if (fabs{f}(row[i]) > unit) unit = fabs{f}(row[i]);")?;
    writeln!(out, "    for (i = 0; i < MERCER_COLUMNS; i++) {{")?;
    writeln!(out, "        const mercer_real share = unit > 0 ? row[i] / unit : 0;")?;
    writeln!(out, "        norm += {add};\n        out[i] = share;\n    }}")?;
    writeln!(out, "    norm = {finish};")?;
    writeln!(out, "    for (i = 0; i < MERCER_COLUMNS; i++) if (unit > 0) out[i] /= norm;\n}}\n")?;
    Ok(())
}

const QUANTILES: &str = "\
static mercer_real place(const mercer_real *knots, mercer_real value) {
    unsigned below = 0, up_to = 0;
    mercer_real at;
    while (below < SCALE_KNOTS && knots[below] < value) below++;
    up_to = below;
    while (up_to < SCALE_KNOTS && knots[up_to] <= value) up_to++;
    if (below == 0) return 0;
    if (up_to == SCALE_KNOTS) return 1;
    if (up_to > below) at = (mercer_real)(below + up_to - 1) / 2;
    else at = (mercer_real)(below - 1)
        + (value / 2 - knots[below - 1] / 2) / (knots[below] / 2 - knots[below - 1] / 2);
    return at / (SCALE_KNOTS - 1);
}

static void scale(const mercer_real *row, mercer_real *out) {
    unsigned i;
    for (i = 0; i < MERCER_COLUMNS; i++) out[i] = place(scale_knots + (unsigned long)i * SCALE_KNOTS, row[i]);
}
";
