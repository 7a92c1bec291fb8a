use mercer_machine::{Array, Section};
use mercer_spec::{Spec, Value};

use super::{Fitter, can_estimate};
use crate::{CompileError, Task, ridge};

pub(super) static FITTER: Fitter = Fitter {
    name: "student",
    summary: "student(r): a quadratic form in r coordinates, fitted to the machine's own scores; calibrated on --sample",
    estimates: true,
    stops: false,
    propose,
    fit,
};

/// More coordinates have more features than any sample can teach.
const MOST: usize = 64;

/// Numbers of coordinates that are tried.
const PROPOSED: [usize; 5] = [8, 16, 24, 32, 48];

/// Those that the machine has, and that the rows can teach.
fn propose(task: &Task<'_>) -> Vec<Spec> {
    if !can_estimate(task) {
        return Vec::new();
    }
    let live = task.exact.packed().live_columns();
    let rows: usize = [task.sample, task.training].iter().flatten().map(|rows| rows.rows()).sum();
    let fits = |size: &usize| *size <= live && (size + 1) * (size + 2) / 2 <= 2 * rows;
    let sizes = PROPOSED.into_iter().filter(fits);
    sizes.map(|size| Spec::new("student").with(size as f64)).collect()
}

fn fit(spec: &Spec, task: &Task<'_>) -> Result<Section, CompileError> {
    let unfit = |reason: &str| CompileError::Unfit { stage: "student", reason: reason.to_owned() };
    let wanted = match (spec.positional(), spec.named()) {
        ([Value::Number(number)], []) if number.fract() == 0.0 => *number,
        _ => return Err(unfit("write student(r) with the number of coordinates, as student(16)")),
    };
    if !(1.0..=MOST as f64).contains(&wanted) {
        return Err(unfit("it takes 1 to 64 coordinates"));
    }
    let basis = task.basis("student")?;
    let lesson = task.lesson("student")?;
    let size = (wanted as usize).min(basis.rows);
    let lengths = lengths(lesson, size);
    let features = 1 + size + size * (size + 1) / 2;
    let mut scaled = vec![0.0; size];
    let found = ridge::fit(lesson.rows, features, &lesson.targets, |row, out| {
        let coordinates = lesson.row(row).iter().zip(&lengths);
        scaled.iter_mut().zip(coordinates).for_each(|(out, (y, length))| *out = y / length);
        out[0] = 1.0;
        out[1..=size].copy_from_slice(&scaled);
        let mut at = size + 1;
        for i in 0..size {
            for j in 0..=i {
                out[at] = scaled[i] * scaled[j];
                at += 1;
            }
        }
    });
    let found = found.ok_or_else(|| unfit("its scores could not be fitted"))?;
    let (mut forms, mut lines, mut constants) = (Vec::new(), Vec::new(), Vec::new());
    for found in found.chunks_exact(features) {
        constants.push(found[0]);
        lines.extend(found[1..=size].iter().zip(&lengths).map(|(w, length)| (w / length) as f32));
        let mut form = vec![0.0f32; size * size];
        let mut at = size + 1;
        for i in 0..size {
            for j in 0..=i {
                let weight = found[at] / (lengths[i] * lengths[j]);
                let share = if i == j { weight } else { weight / 2.0 };
                form[i * size + j] = share as f32;
                form[j * size + i] = share as f32;
                at += 1;
            }
        }
        forms.extend(form);
    }
    Ok(Section::new(spec.to_string())
        .with("basis", Array::F32(basis.singles(size)))
        .with("forms", Array::F32(forms))
        .with("lines", Array::F32(lines))
        .with("constants", Array::F64(constants)))
}

/// Root mean squares of the coordinates.
fn lengths(lesson: &crate::lesson::Lesson, size: usize) -> Vec<f64> {
    let mut squares = vec![0.0; size];
    for row in 0..lesson.rows {
        let own = lesson.row(row);
        squares.iter_mut().zip(own).for_each(|(sum, y)| *sum += y * y);
    }
    let mean = |sum: f64| (sum / lesson.rows.max(1) as f64).sqrt();
    squares.into_iter().map(|sum| if sum > 0.0 { mean(sum) } else { 1.0 }).collect()
}
