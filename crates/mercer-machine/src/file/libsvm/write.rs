//! Writes LIBSVM model text; also the order of the vectors, which ONNX shares.

use std::io::Write;

use mercer_data::{Row, limits};
use mercer_kernel::{Form, Profile};

use super::super::fold::without_scaling;
use super::super::text::{digits, is_label};
use super::{LibsvmTask, TYPES, column_of};
use crate::{ClassName, Machine, MachineError, Model, Output, Probabilities, Scheme, Score, pairs};

const NAME: &str = "LIBSVM model text";

/// Writes model text with 17 digits.
pub(super) fn write(model: &Model, out: &mut dyn Write) -> Result<(), MachineError> {
    let model = &*without_scaling(model, NAME)?;
    let machine = &model.machine;
    let lines = vector_lines(machine)?;
    write_header(model, &lines, out)?;
    let is_precomputed = machine.kernel().spec().name() == "precomputed";
    for line in &lines {
        for coefficient in &line.coefficients {
            write!(out, "{} ", digits(*coefficient))?;
        }
        let row = machine.supports().row(line.support);
        if is_precomputed {
            if row.nonzeros().map(|(_, value)| value).ne([1.0]) {
                return Err(inexpressible("precomputed supports that are not unit vectors"));
            }
            write!(out, "0:{} ", row.width())?;
        } else {
            write_row(row, u32::from(!model.input.zero_based), out)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The first column has the index `first`.
fn write_row(row: Row<'_>, first: u32, out: &mut dyn Write) -> Result<(), MachineError> {
    for (column, value) in row.nonzeros() {
        write!(out, "{}:{} ", column + first, digits(value))?;
    }
    Ok(())
}

/// One line of the file: a support and its coefficients as a vector of one class.
pub(in crate::file) struct VectorLine {
    pub(in crate::file) class: usize,
    pub(in crate::file) support: usize,
    pub(in crate::file) coefficients: Vec<f64>,
}

/// Supports grouped by class. A support whose pairwise classifiers share no class is written once for each
/// class needed to cover them: the coefficient of a pair may be written with either of its two classes.
pub(in crate::file) fn vector_lines(machine: &Machine) -> Result<Vec<VectorLine>, MachineError> {
    let classes = match machine.output() {
        Output::Classes { names, scheme: Scheme::OneVsOne } => names.len(),
        Output::Classes { names, .. } if names.len() == 2 => 2,
        Output::Classes { .. } => {
            return Err(inexpressible("one-vs-rest machines of more than two classes"));
        }
        Output::Value | Output::Novelty => 1,
    };
    let mut by_support: Vec<Vec<(usize, f64)>> = vec![Vec::new(); machine.supports().rows()];
    for (number, score) in machine.scores().iter().enumerate() {
        let Score::Expansion { supports, coefficients, .. } = score else {
            return Err(inexpressible("scores without vectors (linear ones, tables)"));
        };
        for (support, beta) in supports.iter().zip(coefficients) {
            by_support[*support as usize].push((number, *beta));
        }
    }
    let all_pairs: Vec<(usize, usize)> = pairs(classes).collect();
    let stored: usize = by_support.iter().map(Vec::len).sum();
    let mut lines = Vec::new();
    for (support, mut open) in by_support.into_iter().enumerate() {
        if classes == 1 {
            let coefficients = open.iter().map(|(_, beta)| *beta).collect::<Vec<_>>();
            if !coefficients.is_empty() {
                lines.push(VectorLine { class: 0, support, coefficients });
            }
            continue;
        }
        while !open.is_empty() {
            let class = covering_class(&open, &all_pairs, classes);
            let mut coefficients = vec![0.0; classes - 1];
            open.retain(|(score, beta)| {
                let (first, second) = all_pairs[*score];
                let takes = class == first || class == second;
                if takes {
                    coefficients[column_of(first, second, class)] = *beta;
                }
                !takes
            });
            lines.push(VectorLine { class, support, coefficients });
            let numbers = lines.len() * (classes - 1);
            if limits::check_table("", numbers, stored).is_err() {
                return Err(inexpressible("so many zero coefficients of pairs of classes"));
            }
        }
    }
    lines.sort_by_key(|line| (line.class, line.support));
    Ok(lines)
}

/// The class with most of the open pairs; for one pair, the class of the sign of the coefficient.
fn covering_class(open: &[(usize, f64)], all_pairs: &[(usize, usize)], classes: usize) -> usize {
    if let [(score, beta)] = open {
        let (first, second) = all_pairs[*score];
        return if *beta > 0.0 { first } else { second };
    }
    let mut counts = vec![0usize; classes];
    for (score, _) in open {
        let (first, second) = all_pairs[*score];
        counts[first] += 1;
        counts[second] += 1;
    }
    let most = counts.iter().max().copied().unwrap_or(0);
    counts.iter().position(|count| *count == most).unwrap_or(0)
}

fn write_header(
    model: &Model,
    lines: &[VectorLine],
    out: &mut dyn Write,
) -> Result<(), MachineError> {
    let machine = &model.machine;
    let (task, classes) = match machine.output() {
        Output::Classes { names, .. } => (LibsvmTask::Classes, names.len()),
        Output::Novelty => (LibsvmTask::Novelty, 2),
        Output::Value => (LibsvmTask::Value, 2),
    };
    let known = model.provenance.formulation.as_deref();
    let fits = TYPES.iter().find(|(name, kind)| Some(*name) == known && *kind == task);
    let named = fits.or_else(|| TYPES.iter().find(|(_, kind)| *kind == task));
    writeln!(out, "svm_type {}", named.expect("each task has a type").0)?;
    write_kernel(machine, out)?;
    writeln!(out, "nr_class {classes}\ntotal_sv {}", lines.len())?;
    let offsets: Vec<f64> = machine.scores().iter().map(Score::offset).collect();
    write_numbers(out, "rho", &offsets)?;
    if let Output::Classes { names, .. } = machine.output() {
        let labels = names.iter().map(|name| match name {
            ClassName::Number(number) if is_label(*number) => Ok(format!(" {number}")),
            other => Err(inexpressible(&format!("the class name '{other}' (only whole numbers)"))),
        });
        writeln!(out, "label{}", labels.collect::<Result<String, _>>()?)?;
    }
    match &model.probabilities {
        Some(known @ (Probabilities::Sigmoid { .. } | Probabilities::Curves(_))) => {
            let (a, b) = known
                .sigmoids()
                .ok_or_else(|| inexpressible("probabilities that are not sigmoids"))?;
            write_numbers(out, "probA", &a)?;
            write_numbers(out, "probB", &b)?;
        }
        Some(Probabilities::Laplace { sigma }) => write_numbers(out, "probA", &[*sigma])?,
        Some(Probabilities::Marks(marks)) => write_numbers(out, "prob_density_marks", marks)?,
        None => {}
    }
    if task == LibsvmTask::Classes {
        let mut counts = vec![0usize; classes];
        lines.iter().for_each(|line| counts[line.class] += 1);
        let counts: String = counts.iter().map(|count| format!(" {count}")).collect();
        writeln!(out, "nr_sv{counts}")?;
    }
    writeln!(out, "SV")?;
    Ok(())
}

fn write_kernel(machine: &Machine, out: &mut dyn Write) -> Result<(), MachineError> {
    let spec = machine.kernel().spec();
    let form = machine.kernel().form();
    let profile = form.finish().map_or(Profile::Other, mercer_kernel::Finish::profile);
    match (spec.name(), form, profile) {
        ("linear" | "precomputed", _, _) => writeln!(out, "kernel_type {}", spec.name())?,
        (_, Form::Shift(_), Profile::Gaussian { gamma }) => {
            writeln!(out, "kernel_type rbf\ngamma {}", digits(gamma))?;
        }
        (_, Form::Dot(_), Profile::Power { scale, shift, degree }) => {
            writeln!(out, "kernel_type polynomial\ndegree {degree}")?;
            writeln!(out, "gamma {}\ncoef0 {}", digits(scale), digits(shift))?;
        }
        // Degree 0 has no profile.
        ("polynomial" | "sigmoid", _, _) => {
            writeln!(out, "kernel_type {}", spec.name())?;
            for name in ["degree", "gamma", "coef0"] {
                if let Some(value) = spec.get(name) {
                    writeln!(out, "{name} {value}")?;
                }
            }
        }
        _ => return Err(inexpressible(&format!("the kernel {spec}"))),
    }
    Ok(())
}

fn write_numbers(out: &mut dyn Write, key: &str, numbers: &[f64]) -> Result<(), MachineError> {
    write!(out, "{key}")?;
    for number in numbers {
        write!(out, " {}", digits(*number))?;
    }
    writeln!(out)?;
    Ok(())
}

fn inexpressible(what: &str) -> MachineError {
    MachineError::Inexpressible { format: NAME, what: what.to_owned() }
}
