//! Rows with known answers, by which the file checks itself.

use std::io::Write;

use mercer_data::scale::Map;
use mercer_data::{Matrix, Row, Scaling};

use super::{Real, write_list};
use crate::bins::Spacing;
use crate::{Answer, Machine, MachineError, Output, Score};

/// Test vectors at most.
pub(super) const COUNT: usize = 16;

pub(super) fn write(
    machine: &Machine,
    scaling: Option<&Scaling>,
    real: Real,
    out: &mut dyn Write,
) -> Result<(), MachineError> {
    let scaling = scaling.map(|scaling| as_written(scaling, real)).transpose()?;
    // Roundings of the file's sums, relative to the sum of all sizes: far above what they can be.
    let slack = match real {
        Real::Double => 1e-9,
        Real::Float => 1e-3,
    };
    let mut rows = Vec::new();
    let (mut answers, mut values, mut slacks) = (Vec::new(), Vec::new(), Vec::new());
    for row in candidates(machine, scaling.as_ref()) {
        let seen = match &scaling {
            Some(scaling) => {
                let scaled = scaling.apply(&Matrix::dense(row.len(), row.clone())?)?;
                let mut seen = vec![0.0; row.len()];
                scaled.iter().for_each(|scaled| scaled.write_dense(&mut seen));
                seen
            }
            None => row.clone(),
        };
        let (scores, sizes) = scores(machine, &seen);
        let is_clear = scores.iter().zip(&sizes).all(|(f, size)| f.abs() > slack * size);
        let is_value = *machine.output() == Output::Value;
        if !scores.iter().all(|score| score.is_finite()) || !(is_clear || is_value) {
            continue;
        }
        answers.push(match machine.verdict(&scores).answer {
            Answer::Class(class) => class as i64,
            Answer::Inlier(inlier) => {
                if inlier {
                    1
                } else {
                    -1
                }
            }
            Answer::Value(_) => 0,
        });
        values.push(scores[0]);
        slacks.push(slack * sizes[0] + f64::MIN_POSITIVE);
        rows.extend(row);
    }
    let number = |value: &f64| real.literal(*value);
    writeln!(out, "#ifdef MERCER_TEST\n#include <stdio.h>\n")?;
    writeln!(out, "#define TESTS {}\n", answers.len())?;
    write_list(out, "mercer_real test_rows[]", &rows, number)?;
    write_list(out, "int test_answers[]", &answers, |answer| Ok(answer.to_string()))?;
    write_list(out, "double test_scores[]", &values, |value| Real::Double.literal(*value))?;
    write_list(out, "double test_slacks[]", &slacks, |value| Real::Double.literal(*value))?;
    writeln!(out, "int main(void) {{\n    int t, wrong = 0;")?;
    writeln!(out, "    mercer_real scores[MERCER_SCORES];")?;
    writeln!(out, "    for (t = 0; t < TESTS; t++) {{")?;
    writeln!(out, "        const mercer_real *row = test_rows + (long)t * MERCER_COLUMNS;")?;
    writeln!(out, "        mercer_scores(row, scores);")?;
    writeln!(
        out,
        "        if (fabs((double)scores[0] - test_scores[t]) > test_slacks[t]) wrong++;"
    )?;
    writeln!(out, "        else if (mercer_decide(row) != test_answers[t]) wrong++;\n    }}")?;
    writeln!(out, "    printf(\"%d of %d wrong\\n\", wrong, TESTS);")?;
    writeln!(out, "    return wrong != 0;\n}}\n#endif")?;
    Ok(())
}

/// The scaling with its numbers as the file holds them.
fn as_written(scaling: &Scaling, real: Real) -> Result<Scaling, MachineError> {
    let narrow = |values: &[f64]| -> Vec<f64> {
        match real {
            Real::Double => values.to_vec(),
            Real::Float => values.iter().map(|value| f64::from(*value as f32)).collect(),
        }
    };
    let map = match scaling.map() {
        Map::Affine { centres, factors } => {
            Map::Affine { centres: narrow(centres), factors: narrow(factors) }
        }
        Map::UnitNorm(norm) => Map::UnitNorm(*norm),
        Map::Quantiles { knots, count } => Map::Quantiles { knots: narrow(knots), count: *count },
    };
    Ok(Scaling::from_parts(&scaling.spec().to_string(), map)?)
}

/// A value that the scaling maps near to `value`.
fn unscaled(scaling: Option<&Scaling>, column: usize, value: f64) -> f64 {
    match scaling.map(Scaling::map) {
        Some(Map::Affine { centres, factors }) => {
            match (centres.get(column), factors.get(column)) {
                (Some(centre), Some(factor)) if *factor != 0.0 => value / factor + centre,
                _ => 0.0,
            }
        }
        Some(Map::Quantiles { knots, count }) => {
            let place = (value.clamp(0.0, 1.0) * (count - 1) as f64).round() as usize;
            knots.get(column * count + place).copied().unwrap_or(0.0)
        }
        Some(Map::UnitNorm(_)) | None => value,
    }
}

/// A value of a column in one of the bins of a machine of tables.
fn binned(spacing: &Spacing, column: usize, number: usize) -> f64 {
    match spacing {
        Spacing::Power { top, .. } => top * ((column * 7 + number * 3) % 12) as f64 / 11.0,
        Spacing::Quantile { starts, cuts } => {
            let own = &cuts[starts[column]..starts[column + 1]];
            own.get((column * 7 + number * 3) % own.len().max(1)).copied().unwrap_or(0.0)
        }
    }
}

/// The origin, some supports or values of bins, and what lies halfway between neighbours.
fn candidates(machine: &Machine, scaling: Option<&Scaling>) -> Vec<Vec<f64>> {
    let columns = machine.columns();
    let dense = |support: usize| {
        let mut row = vec![0.0; columns];
        machine.supports().row(support).write_dense(&mut row);
        for (column, value) in row.iter_mut().enumerate() {
            *value = unscaled(scaling, column, *value);
        }
        // Values as the file holds them in either arithmetic.
        row.iter_mut().for_each(|value| *value = f64::from(*value as f32));
        row
    };
    let supports = machine.supports().rows();
    let step = supports.div_ceil(COUNT / 2).max(1);
    let chosen: Vec<Vec<f64>> = (0..supports).step_by(step).map(dense).collect();
    let mut rows = vec![vec![0.0; columns], vec![1.0; columns]];
    for pair in chosen.windows(2) {
        let halfway = pair[0].iter().zip(&pair[1]);
        rows.push(halfway.map(|(a, b)| f64::from((0.5 * (a + b)) as f32)).collect());
    }
    rows.extend(chosen);
    if let Some(grid) = machine.bins() {
        let value = |column: usize, number: usize| {
            unscaled(scaling, column, binned(grid.spacing(), column, number))
        };
        rows.extend((0..COUNT).map(|number| {
            (0..columns).map(|column| f64::from(value(column, number) as f32)).collect()
        }));
    }
    rows.truncate(COUNT);
    rows
}

/// Scores by their definition, and the sums of the sizes of their terms.
fn scores(machine: &Machine, row: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let row = Row::Dense(row);
    let of = |score: &Score| {
        let (mut sum, mut size) = (-score.offset(), score.offset().abs());
        let mut add = |term: f64| {
            sum += term;
            size += term.abs();
        };
        match score {
            Score::Expansion { supports, coefficients, .. } => {
                for (support, beta) in supports.iter().zip(coefficients) {
                    let support = machine.supports().row(*support as usize);
                    add(beta * machine.kernel().value(support, row));
                }
            }
            Score::Linear { weights, .. } => {
                row.nonzeros().for_each(|(column, x)| add(x * weights[column as usize]));
            }
            Score::Additive { weights, .. } => {
                let grid = machine.bins().expect("tables come with a grid");
                for (column, x) in row.nonzeros() {
                    let own = &weights[column as usize * grid.rank()..][..grid.rank()];
                    add(grid.dot(own, grid.bin(column as usize, x)));
                }
            }
        }
        (sum, size)
    };
    machine.scores().iter().map(of).unzip()
}
