//! One self-contained C99 file: constants, a kernel, the vote, test vectors; no allocation. The plan of a model is written
//! in `mercer_query`, with the names and the scaling of this file.

mod kernel;
mod scaling;
mod tables;
mod vectors;

use std::io::Write;

use mercer_data::Scaling;

use super::Format;
use crate::{Machine, MachineError, Model, Output, Scheme, Score};
use kernel::Kernel;

/// What arithmetic that is specified to the bit needs of the compiler: the head of every file with tables or a plan.
pub const GUARDS: &str = include_str!("c/guards.c");

pub(super) static DOUBLE: Format = Format {
    name: "c",
    summary: "one self-contained C99 file that computes in double (written only)",
    recognise: |_| false,
    read: |_| Err(MachineError::Unrecognised { reason: "C files are written only" }),
    write: |model, out| write(model, Real::Double, out),
};

pub(super) static FLOAT: Format = Format {
    name: "c-float",
    summary: "one self-contained C99 file that computes in float (written only)",
    recognise: |_| false,
    read: |_| Err(MachineError::Unrecognised { reason: "C files are written only" }),
    write: |model, out| write(model, Real::Float, out),
};

/// What the file computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Real {
    Double,
    Float,
}

impl Real {
    fn name(self) -> &'static str {
        match self {
            Self::Double => "double",
            Self::Float => "float",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Double => 8,
            Self::Float => 4,
        }
    }

    /// The letter that math functions end in.
    fn suffix(self) -> &'static str {
        match self {
            Self::Double => "",
            Self::Float => "f",
        }
    }

    /// A parameter of a kernel: not zero unless it is.
    fn parameter(self, value: f64) -> Result<String, MachineError> {
        if self == Self::Float && value != 0.0 && value as f32 == 0.0 {
            return Err(inexpressible(format!("the kernel parameter {value:e} as a float")));
        }
        self.literal(value)
    }

    /// A constant that reads back as the same number.
    fn literal(self, value: f64) -> Result<String, MachineError> {
        match self {
            Self::Double => Ok(format!("{value:?}")),
            Self::Float if (value as f32).is_finite() => Ok(format!("{:?}f", value as f32)),
            Self::Float => Err(inexpressible(format!("{value} as a float"))),
        }
    }
}

fn inexpressible(what: impl Into<String>) -> MachineError {
    MachineError::Inexpressible { format: "C", what: what.into() }
}

fn write(model: &Model, real: Real, out: &mut dyn Write) -> Result<(), MachineError> {
    let machine = &model.machine;
    let kernel = match machine.bins() {
        Some(_) => None,
        None => Some(Kernel::of(machine, real)?),
    };
    if machine.check_dense(machine.columns().saturating_mul(vectors::COUNT)).is_err() {
        let columns = machine.columns();
        return Err(inexpressible(format!("rows of {columns} columns, most of them without use")));
    }
    write_comment(model, real, out)?;
    if machine.bins().is_some() {
        write!(out, "{GUARDS}")?;
    }
    writeln!(out, "#include <math.h>\n\ntypedef {} mercer_real;\n", real.name())?;
    writeln!(out, "#define MERCER_COLUMNS {}", machine.columns())?;
    writeln!(out, "#define MERCER_SUPPORTS {}", machine.supports().rows())?;
    writeln!(out, "#define MERCER_SCORES {}", machine.scores().len())?;
    writeln!(out, "#define MERCER_CLASSES {}\n", machine.classes().len())?;
    write_names(machine, out)?;
    if let Some(grid) = machine.bins() {
        tables::write(machine, grid, real, out)?;
    }
    if let Some(kernel) = kernel.filter(|_| machine.supports().rows() > 0) {
        write_supports(machine, real, out)?;
        write_coefficients(machine, real, out)?;
        kernel.write(machine.supports().is_sparse(), out)?;
    }
    write_linear(machine, real, out)?;
    let scaling = model.input.scaling.as_ref();
    if let Some(scaling) = scaling {
        scaling::write(scaling, machine.columns(), real, out)?;
    }
    write_scores(machine, scaling.is_some(), real, out)?;
    write_decide(machine, out)?;
    vectors::write(machine, scaling, real, out)
}

/// Entries of expansions, and multiply-adds and bytes of constants of the whole machine.
fn sizes(machine: &Machine, real: Real) -> (usize, usize) {
    let supports = machine.supports();
    let entries: usize = machine.scores().iter().map(entries_of).sum();
    let linear = machine.scores().iter().filter(|s| matches!(s, Score::Linear { .. })).count();
    let stored = match supports.as_sparse() {
        Some((starts, _, values)) => 4 * starts.len() + (4 + real.bytes()) * values.len(),
        None => real.bytes() * supports.rows() * supports.columns(),
    };
    let weights = linear * machine.columns();
    let coefficients = 4 * (supports.rows() + 1) + (4 + real.bytes()) * entries;
    let tables: usize = machine.scores().iter().map(table_of).sum();
    let encoding = machine.bins().map_or(0, |grid| grid.encoding().len());
    let (rank, one_by_one) = machine.bins().map_or((0, 0), |grid| {
        (if grid.is_one_hot() { 1 } else { grid.rank() }, machine.scores().len())
    });
    let bytes = stored + coefficients + real.bytes() * (weights + machine.scores().len());
    let multiplies = supports.rows() * machine.columns() + entries + weights;
    let of_tables = rank * one_by_one * machine.columns();
    (multiplies + of_tables, bytes + 4 * (tables + encoding))
}

fn entries_of(score: &Score) -> usize {
    match score {
        Score::Expansion { supports, .. } => supports.len(),
        Score::Linear { .. } | Score::Additive { .. } => 0,
    }
}

fn table_of(score: &Score) -> usize {
    match score {
        Score::Additive { weights, .. } => weights.len(),
        Score::Linear { .. } | Score::Expansion { .. } => 0,
    }
}

fn write_comment(model: &Model, real: Real, out: &mut dyn Write) -> Result<(), MachineError> {
    let machine = &model.machine;
    let (multiplies, bytes) = sizes(machine, real);
    let answers = match machine.output() {
        Output::Value => "regression: scores[0] is the value, mercer_decide returns 0",
        Output::Novelty => "novelty: mercer_decide returns 1 for inliers, -1 for outliers",
        Output::Classes { .. } => "classes: mercer_decide returns a position in mercer_names",
    };
    let (rows, columns) = (machine.supports().rows(), machine.columns());
    writeln!(out, "/* A kernel machine written by mercer {}.", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, " *\n * kernel       {}", machine.kernel().spec())?;
    if let Some(scaling) = &model.input.scaling {
        writeln!(out, " * scaling      {}; rows are given as they are before it", scaling.spec())?;
    }
    writeln!(out, " * answers      {answers}")?;
    writeln!(out, " * supports     {rows} of {columns} columns")?;
    writeln!(out, " * constants    {bytes} bytes; no memory is allocated")?;
    writeln!(out, " * a query      {multiplies} multiply-adds, {rows} kernel values")?;
    if machine.bins().is_some() {
        writeln!(
            out,
            " * arithmetic   double, in mercer's own order: scaled rows get the same bits"
        )?;
    } else {
        writeln!(
            out,
            " * arithmetic   {}; rows near the boundary may get another label than in mercer,",
            real.name()
        )?;
        writeln!(out, " *              whose sums are rounded in another order")?;
    }
    writeln!(out, " *\n * int mercer_decide(const mercer_real *row);")?;
    writeln!(out, " * void mercer_scores(const mercer_real *row, mercer_real *scores);")?;
    writeln!(
        out,
        " *\n * cc -std=c99 -DMERCER_TEST this.c -lm  makes a program that checks itself."
    )?;
    let supports = "The supports are rows of the training data.";
    writeln!(out, " * {}*/\n", if rows > 0 { format!("{supports} ") } else { String::new() })?;
    Ok(())
}

/// The names of the classes, `mercer_names`.
///
/// # Errors
/// If a name holds a NUL character, or writing fails.
pub fn write_names(machine: &Machine, out: &mut dyn Write) -> Result<(), MachineError> {
    if machine.classes().is_empty() {
        return Ok(());
    }
    write!(out, "const char *const mercer_names[MERCER_CLASSES] = {{")?;
    for name in machine.classes() {
        let text = name.to_string();
        if text.contains('\0') {
            return Err(inexpressible("a class name with a NUL character, which ends strings"));
        }
        write!(out, "{},", quoted(&text))?;
    }
    writeln!(out, "}};\n")?;
    Ok(())
}

/// The function `scale` of a file whose `mercer_real` is `double`, with its constants.
///
/// # Errors
/// If rows are too wide for the stack, or writing fails.
pub fn write_scaling(
    scaling: &Scaling,
    columns: usize,
    out: &mut dyn Write,
) -> Result<(), MachineError> {
    scaling::write(scaling, columns, Real::Double, out)
}

/// A C string: everything but plain ASCII as three octal digits, so that nothing is read as an escape.
fn quoted(text: &str) -> String {
    let inside: String = text
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'?' | 0..=31 | 127.. => format!("\\{byte:03o}"),
            plain => char::from(plain).to_string(),
        })
        .collect();
    format!("\"{inside}\"")
}

fn write_list<T>(
    out: &mut dyn Write,
    declaration: &str,
    values: impl IntoIterator<Item = T>,
    text: impl Fn(T) -> Result<String, MachineError>,
) -> Result<(), MachineError> {
    write!(out, "static const {declaration} = {{")?;
    let mut count = 0usize;
    for value in values {
        write!(out, "{}{},", if count.is_multiple_of(8) { "\n" } else { "" }, text(value)?)?;
        count += 1;
    }
    // C99 has no empty lists.
    writeln!(out, "{}\n}};\n", if count == 0 { "0" } else { "" })?;
    Ok(())
}

fn write_supports(machine: &Machine, real: Real, out: &mut dyn Write) -> Result<(), MachineError> {
    let number = |value: &f64| real.literal(*value);
    if let Some(values) = machine.supports().as_dense() {
        return write_list(out, "mercer_real support_values[]", values, number);
    }
    let (starts, columns, values) = machine.supports().as_sparse().expect("dense or sparse");
    if u32::try_from(values.len()).is_err() {
        return Err(inexpressible("supports of more than 2^32 values"));
    }
    write_list(out, "unsigned support_starts[]", starts, |start| Ok(start.to_string()))?;
    write_list(out, "unsigned support_columns[]", columns, |column| Ok(column.to_string()))?;
    write_list(out, "mercer_real support_values[]", values, number)
}

/// Coefficients by support, so that each kernel value is computed once.
fn write_coefficients(
    machine: &Machine,
    real: Real,
    out: &mut dyn Write,
) -> Result<(), MachineError> {
    let mut by_support: Vec<Vec<(usize, f64)>> = vec![Vec::new(); machine.supports().rows()];
    for (number, score) in machine.scores().iter().enumerate() {
        if let Score::Expansion { supports, coefficients, .. } = score {
            for (support, beta) in supports.iter().zip(coefficients) {
                by_support[*support as usize].push((number, *beta));
            }
        }
    }
    let mut starts = vec![0usize];
    for own in &by_support {
        starts.push(starts[starts.len() - 1] + own.len());
    }
    let all = || by_support.iter().flatten();
    write_list(out, "unsigned entry_starts[]", &starts, |start| Ok(start.to_string()))?;
    write_list(out, "unsigned entry_scores[]", all(), |(score, _)| Ok(score.to_string()))?;
    write_list(out, "mercer_real entry_values[]", all(), |(_, beta)| real.literal(*beta))
}

fn write_linear(machine: &Machine, real: Real, out: &mut dyn Write) -> Result<(), MachineError> {
    for (number, score) in machine.scores().iter().enumerate() {
        if let Score::Linear { weights, .. } = score {
            let name = format!("mercer_real weights_{number}[]");
            write_list(out, &name, weights, |weight| real.literal(*weight))?;
        }
    }
    Ok(())
}

fn write_scores(
    machine: &Machine,
    is_scaled: bool,
    real: Real,
    out: &mut dyn Write,
) -> Result<(), MachineError> {
    let offsets = machine.scores().iter().map(Score::offset);
    write_list(out, "mercer_real offsets[MERCER_SCORES]", offsets, |b| real.literal(b))?;
    writeln!(out, "void mercer_scores(const mercer_real *row, mercer_real *scores) {{")?;
    writeln!(out, "    unsigned i, p;")?;
    if is_scaled {
        writeln!(out, "    mercer_real scaled[MERCER_COLUMNS];")?;
        writeln!(out, "    scale(row, scaled);\n    row = scaled;")?;
    }
    writeln!(out, "    (void)row; (void)p;")?;
    writeln!(out, "    for (i = 0; i < MERCER_SCORES; i++) scores[i] = 0;")?;
    if machine.bins().is_some() {
        writeln!(out, "    table_scores(row, scores);")?;
    } else if machine.supports().rows() > 0 {
        writeln!(out, "    for (i = 0; i < MERCER_SUPPORTS; i++) {{")?;
        writeln!(out, "        const mercer_real value = kernel(row, i);")?;
        writeln!(out, "        for (p = entry_starts[i]; p < entry_starts[i + 1]; p++)")?;
        writeln!(out, "            scores[entry_scores[p]] += entry_values[p] * value;\n    }}")?;
    }
    for (number, score) in machine.scores().iter().enumerate() {
        if let Score::Linear { .. } = score {
            let sum = format!("scores[{number}] += weights_{number}[i] * row[i];");
            writeln!(out, "    for (i = 0; i < MERCER_COLUMNS; i++) {sum}")?;
        }
    }
    writeln!(out, "    for (i = 0; i < MERCER_SCORES; i++) scores[i] -= offsets[i];\n}}\n")?;
    Ok(())
}

fn write_decide(machine: &Machine, out: &mut dyn Write) -> Result<(), MachineError> {
    writeln!(out, "int mercer_decide(const mercer_real *row) {{")?;
    writeln!(out, "    mercer_real scores[MERCER_SCORES];")?;
    let body = match machine.output() {
        Output::Value => "    mercer_scores(row, scores);\n    return 0;\n",
        Output::Novelty => "    mercer_scores(row, scores);\n    return scores[0] > 0 ? 1 : -1;\n",
        Output::Classes { .. } if machine.scores().len() == 1 => {
            "    mercer_scores(row, scores);\n    return scores[0] > 0 ? 0 : 1;\n"
        }
        Output::Classes { scheme: Scheme::OneVsOne, .. } => {
            "    unsigned votes[MERCER_CLASSES] = {0};\n    int i, j, best = 0, at = 0;\n    \
             mercer_scores(row, scores);\n    for (i = 0; i < MERCER_CLASSES; i++)\n        \
             for (j = i + 1; j < MERCER_CLASSES; j++)\n            \
             votes[scores[at++] > 0 ? i : j]++;\n    for (i = 1; i < MERCER_CLASSES; i++)\n        \
             if (votes[i] > votes[best]) best = i;\n    return best;\n"
        }
        Output::Classes { scheme: Scheme::OneVsRest, .. } => {
            "    int i, best = 0;\n    mercer_scores(row, scores);\n    \
             for (i = 1; i < MERCER_CLASSES; i++)\n        \
             if (scores[i] > scores[best]) best = i;\n    return best;\n"
        }
    };
    writeln!(out, "{body}}}\n")?;
    Ok(())
}

#[cfg(test)]
mod tests;
