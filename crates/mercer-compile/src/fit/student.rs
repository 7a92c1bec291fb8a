//! Fits the stage `student`: quadratic forms of few coordinates by ridge regression on the scores of the machine. The
//! directions of the coordinates are chosen in `student/directions.rs`.

mod directions;

use mercer_machine::{Array, Section};
use mercer_query::entries;
use mercer_spec::{Checked, Spec};

use super::{Fitter, can_estimate};
use crate::distillation_set::DistillationSet;
use crate::{CompileError, Task, ridge};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::STUDENT, estimates: true, stops: false, propose, fit };

/// Numbers of coordinates that are tried.
const PROPOSED: [usize; 5] = [8, 16, 24, 32, 48];

/// Students with directions of their own, which take seconds to fit: the coordinates of the largest, and multiply-adds
/// of an exact answer above which they are proposed.
const FITTED: [(usize, u64, &str); 3] = [
    (16, 200_000, "student(1, 4, 8, 16, directions=fitted)"),
    (32, 200_000, "student(16, 32, directions=fitted)"),
    (56, 2_000_000, "student(8, 16, 32, 56, directions=fitted)"),
];

/// Those that the machine has columns for, and that the rows can teach.
fn propose(task: &Task<'_>) -> Vec<Spec> {
    if !can_estimate(task) {
        return Vec::new();
    }
    let live = task.exact.packed().live_columns();
    let rows: usize = [task.sample, task.training].iter().flatten().map(|rows| rows.rows()).sum();
    let fits = |size: &usize| *size <= live && (size + 1) * (size + 2) / 2 <= 2 * rows;
    let sizes = PROPOSED.into_iter().filter(fits);
    let mut specs: Vec<Spec> = sizes.map(|size| Spec::new("student").with(size as f64)).collect();
    let cost = task.exact.cost().multiply_adds;
    let fitted = FITTED.iter().filter(|(largest, worth, _)| fits(largest) && cost >= *worth);
    specs.extend(fitted.filter_map(|(.., text)| text.parse::<Spec>().ok()));
    specs
}

fn fit(arguments: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let unfit = |reason: &str| CompileError::Unfit { stage: "student", reason: reason.to_owned() };
    let mut sizes = arguments.integers();
    let is_fitted = arguments.word("directions") == "fitted";
    let basis = task.basis("student")?;
    let set = task.distillation_set("student")?;
    sizes.iter_mut().for_each(|size| *size = (*size).min(basis.rows));
    sizes.dedup();
    let all = sizes.last().map_or(0, |size| *size);
    let failed = || unfit("its scores could not be fitted");
    // Directions as mixtures of principal ones, and the coordinates of all rows in them.
    let (mixtures, mixed) = if is_fitted {
        directions::fitted(set, &sizes, task.watch)?.ok_or_else(failed)?
    } else {
        let identity = |at: usize| f64::from(u8::from(at.is_multiple_of(all + 1)));
        ((0..all * all).map(identity).collect(), all)
    };
    let mut table = vec![0.0; set.rows * all];
    for (row, out) in table.chunks_exact_mut(all).enumerate() {
        let coordinates = &set.row(row)[..mixed];
        for (y, mixture) in out.iter_mut().zip(mixtures.chunks_exact(mixed)) {
            *y = mixture.iter().zip(coordinates).map(|(a, b)| a * b).sum();
        }
    }
    let (mut squares, mut lines, mut constants) = (Vec::new(), Vec::new(), Vec::new());
    for size in &sizes {
        let fitted =
            forms(set, *size, |row, out| out.copy_from_slice(&table[row * all..][..*size]));
        for form in fitted.ok_or_else(failed)? {
            squares.extend(form.square.iter().map(|x| *x as f32));
            lines.extend(form.line.iter().map(|x| *x as f32));
            constants.push(form.constant);
        }
    }
    let mut rows = vec![0.0f32; all * basis.columns];
    for (out, mixture) in rows.chunks_exact_mut(basis.columns).zip(mixtures.chunks_exact(mixed)) {
        for (column, place) in out.iter_mut().enumerate() {
            let values = basis.values[column..].iter().step_by(basis.columns);
            *place = mixture.iter().zip(values).map(|(share, x)| share * x).sum::<f64>() as f32;
        }
    }
    Ok(Section::new(arguments.text().to_string())
        .with("basis", Array::F32(rows))
        .with("levels", Array::U32(sizes.iter().map(|size| *size as u32).collect()))
        .with("quadratic", Array::F32(squares))
        .with("linear", Array::F32(lines))
        .with("constants", Array::F64(constants)))
}

/// `y'Ay + b·y + c`.
struct QuadraticForm {
    /// Symmetric, row after row.
    square: Vec<f64>,
    line: Vec<f64>,
    constant: f64,
}

/// The form of each output that fits the set best; `read(row, out)` writes the coordinates of a row.
fn forms(
    set: &DistillationSet,
    size: usize,
    read: impl Fn(usize, &mut [f64]),
) -> Option<Vec<QuadraticForm>> {
    let mut scaled = vec![0.0; size];
    let lengths = lengths(set.rows, size, &read);
    let features = 1 + size + size * (size + 1) / 2;
    let fitted = ridge::fit(set.rows, features, &set.targets, |row, out| {
        read(row, &mut scaled);
        scaled.iter_mut().zip(&lengths).for_each(|(y, length)| *y /= length);
        out[0] = 1.0;
        out[1..=size].copy_from_slice(&scaled);
        let mut at = size + 1;
        for i in 0..size {
            for j in 0..=i {
                out[at] = scaled[i] * scaled[j];
                at += 1;
            }
        }
    })?;
    let form = |fitted: &[f64]| {
        let line = fitted[1..=size].iter().zip(&lengths).map(|(w, length)| w / length).collect();
        let mut square = vec![0.0; size * size];
        let mut at = size + 1;
        for i in 0..size {
            for j in 0..=i {
                let weight = fitted[at] / (lengths[i] * lengths[j]);
                let share = if i == j { weight } else { weight / 2.0 };
                square[i * size + j] = share;
                square[j * size + i] = share;
                at += 1;
            }
        }
        QuadraticForm { square, line, constant: fitted[0] }
    };
    Some(fitted.chunks_exact(features).map(form).collect())
}

/// Root mean squares of the coordinates.
fn lengths(rows: usize, size: usize, read: impl Fn(usize, &mut [f64])) -> Vec<f64> {
    let (mut squares, mut coordinates) = (vec![0.0; size], vec![0.0; size]);
    for row in 0..rows {
        read(row, &mut coordinates);
        squares.iter_mut().zip(&coordinates).for_each(|(sum, y)| *sum += y * y);
    }
    let mean = |sum: f64| (sum / rows.max(1) as f64).sqrt();
    squares.into_iter().map(|sum| if sum > 0.0 { mean(sum) } else { 1.0 }).collect()
}
