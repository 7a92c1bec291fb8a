//! Directions in which a quadratic form says most of a machine, found by going down.
//!
//! Principal directions carry the rows, not the score: most of a query's length has nothing to do with its
//! label. Here the directions themselves are fitted. `U` (few directions, each a mixture of the leading
//! principal ones) and one form for each level and output minimise the sum over levels of the mean squared
//! error of `y'Ay + b·y + c`, `y` being the first coordinates of `Ux`. They start where a form in principal
//! coordinates changes most: at the leading eigenvectors of the mean outer product of its gradients. Since
//! a projection is nearly all that a student costs, four such directions do the work of sixteen.

use mercer_kernel::eigen::symmetric;
use mercer_simd::gemm_nt;
use rayon::prelude::*;

use super::forms;
use crate::distillation_set::DistillationSet;
use crate::minimize::{Objective, minimize};
use crate::{CompileError, Watch};

/// Leading principal directions that are mixed.
const MIXED: usize = 64;
/// Coordinates of the form whose gradients say where to start.
const FIRST_GUESS: usize = 32;
/// Rows that are used; the forms themselves are fitted to all.
const MOST_ROWS: usize = 8192;
/// Steps down: more change little.
const ROUNDS: usize = 4;
const STEPS: usize = 25;
/// Rows at a time: a fixed number, so that sums do not depend on threads.
const BLOCK: usize = 256;

/// `sizes.last()` directions as mixtures of principal ones, row after row, and how many are mixed.
pub(super) fn fitted(
    set: &DistillationSet,
    sizes: &[usize],
    watch: Watch<'_>,
) -> Result<Option<(Vec<f64>, usize)>, CompileError> {
    let mixed = MIXED.min(set.size);
    let count = sizes.last().map_or(0, |size| *size);
    let Some(start) = start(set, mixed, count) else { return Ok(None) };
    let rows = set.rows.min(MOST_ROWS);
    let task = DirectionObjective {
        mixed,
        sizes,
        outputs: set.outputs,
        rows,
        blocks: (0..rows)
            .step_by(BLOCK)
            .map(|first| CoordinateRows::new(set, mixed, first, rows))
            .collect(),
    };
    let mut point = task.begin(start);
    for round in 0..ROUNDS {
        watch.step("student: directions", round, ROUNDS)?;
        let (value, next) = minimize(&task, point, STEPS);
        if !value.is_finite() {
            return Ok(None);
        }
        point = next;
    }
    point.truncate(count * mixed);
    Ok(Some((point, mixed)))
}

/// Eigenvectors of the mean outer product of the gradients of a form in principal coordinates, scaled so
/// that coordinates are about 1.
fn start(set: &DistillationSet, mixed: usize, count: usize) -> Option<Vec<f64>> {
    let size = FIRST_GUESS.min(mixed);
    let first = forms(set, size, |row, out| out.copy_from_slice(&set.row(row)[..size]))?;
    let mut outer = vec![0.0; size * size];
    let mut gradient = vec![0.0; size];
    for row in 0..set.rows {
        let coordinates = &set.row(row)[..size];
        for form in &first {
            for (at, place) in gradient.iter_mut().enumerate() {
                *place = form.line[at]
                    + 2.0 * dot(&form.square[at * size..(at + 1) * size], coordinates);
            }
            for (at, place) in outer.chunks_exact_mut(size).enumerate() {
                place.iter_mut().zip(&gradient).for_each(|(sum, g)| *sum += gradient[at] * g);
            }
        }
    }
    let (values, vectors) = symmetric(outer, size)?;
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let mut out = vec![0.0; count * mixed];
    for (number, place) in out.chunks_exact_mut(mixed).enumerate() {
        // Beyond the first guess: principal directions that it has not seen.
        match order.get(number) {
            Some(at) => place[..size].copy_from_slice(&vectors[at * size..(at + 1) * size]),
            None => *place.get_mut(number)? = 1.0,
        }
        let square = |row: usize| dot(place, &set.row(row)[..mixed]).powi(2);
        let mean = (0..set.rows).map(square).sum::<f64>() / set.rows.max(1) as f64;
        let factor = if mean > 0.0 { mean.sqrt().recip() } else { 1.0 };
        place.iter_mut().for_each(|x| *x *= factor);
    }
    Some(out)
}

/// Some rows of the set.
struct CoordinateRows {
    count: usize,
    /// Principal coordinates, row after row, and column after column.
    table: Vec<f64>,
    turned: Vec<f64>,
    targets: Vec<f64>,
}

impl CoordinateRows {
    fn new(set: &DistillationSet, mixed: usize, first: usize, end: usize) -> Self {
        // Rows are taken in even steps, so that all kinds are among them.
        let step = |row: usize| row * set.rows / end;
        let rows: Vec<usize> = (first..(first + BLOCK).min(end)).map(step).collect();
        let count = rows.len();
        let (mut table, mut turned) = (Vec::new(), vec![0.0; count * mixed]);
        let mut targets = Vec::new();
        for (at, row) in rows.into_iter().enumerate() {
            let coordinates = &set.row(row)[..mixed];
            coordinates.iter().enumerate().for_each(|(column, x)| turned[column * count + at] = *x);
            table.extend_from_slice(coordinates);
            targets.extend_from_slice(&set.targets[row * set.outputs..][..set.outputs]);
        }
        Self { count, table, turned, targets }
    }
}

/// A point is the directions, then for each level and output: the square matrix, the line, the constant.
struct DirectionObjective<'a> {
    mixed: usize,
    sizes: &'a [usize],
    outputs: usize,
    rows: usize,
    blocks: Vec<CoordinateRows>,
}

impl DirectionObjective<'_> {
    fn directions(&self) -> usize {
        self.sizes.last().map_or(0, |size| *size)
    }

    /// The directions with forms that say nothing yet: their best values are found on the way down.
    fn begin(&self, directions: Vec<f64>) -> Vec<f64> {
        let mut point = directions;
        for size in self.sizes {
            for _ in 0..self.outputs {
                // Not all zero: the directions would have no slope.
                point.extend(
                    (0..size * size)
                        .map(|at| f64::from(u8::from(at.is_multiple_of(size + 1))) * 0.01),
                );
                point.extend(std::iter::repeat_n(0.1, *size));
                point.push(0.0);
            }
        }
        point
    }

    /// The share of one block in the value and the gradient.
    fn block(&self, rows: &CoordinateRows, point: &[f64]) -> (f64, Vec<f64>) {
        let (count, all) = (rows.count, self.directions());
        let (directions, mut forms) = point.split_at(all * self.mixed);
        let mut gradient = vec![0.0; point.len()];
        let (for_directions, mut for_forms) = gradient.split_at_mut(all * self.mixed);
        // Coordinates, one direction after the other.
        let mut y = vec![0.0; all * count];
        gemm_nt(all, count, self.mixed, directions, &rows.table, &mut y);
        let mut slopes = vec![0.0; all * count];
        let (mut value, scale) = (0.0, 1.0 / self.rows as f64);
        let (mut pushed, mut error) = (vec![0.0; all * count], vec![0.0; count]);
        for size in self.sizes {
            for output in 0..self.outputs {
                let (form, rest) = forms.split_at(size * size + size + 1);
                let (own, other) = for_forms.split_at_mut(size * size + size + 1);
                (forms, for_forms) = (rest, other);
                let (square, line) = form.split_at(size * size);
                for (at, e) in error.iter_mut().enumerate() {
                    *e = line[*size] - rows.targets[at * self.outputs + output];
                }
                for i in 0..*size {
                    let push = &mut pushed[i * count..(i + 1) * count];
                    push.fill(0.0);
                    for j in 0..*size {
                        let weight = f64::midpoint(square[i * size + j], square[j * size + i]);
                        add(push, weight, &y[j * count..(j + 1) * count]);
                    }
                    let own = &y[i * count..(i + 1) * count];
                    for ((e, push), y) in error.iter_mut().zip(push).zip(own) {
                        *e += (*push + line[i]) * y;
                    }
                }
                value += 0.5 * scale * dot(&error, &error);
                error.iter_mut().for_each(|e| *e *= scale);
                own[size * size + size] = error.iter().sum();
                for i in 0..*size {
                    let range = i * count..(i + 1) * count;
                    let slope = slopes[range.clone()].iter_mut().zip(&pushed[range.clone()]);
                    slope.zip(&error).for_each(|((s, push), e)| *s += (2.0 * push + line[i]) * e);
                    // What was pushed is not needed any more.
                    let weighted = &mut pushed[range.clone()];
                    weighted
                        .iter_mut()
                        .zip(&y[range])
                        .zip(&error)
                        .for_each(|((w, y), e)| *w = y * e);
                    own[size * size + i] = weighted.iter().sum();
                    for j in 0..=i {
                        let share = dot(weighted, &y[j * count..(j + 1) * count]);
                        own[i * size + j] = share;
                        own[j * size + i] = share;
                    }
                }
            }
        }
        gemm_nt(all, self.mixed, count, &slopes, &rows.turned, for_directions);
        (value, gradient)
    }
}

impl Objective for DirectionObjective<'_> {
    fn value(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let parts: Vec<(f64, Vec<f64>)> =
            self.blocks.par_iter().map(|rows| self.block(rows, point)).collect();
        gradient.fill(0.0);
        let mut value = 0.0;
        for (part, slopes) in parts {
            value += part;
            add(gradient, 1.0, &slopes);
        }
        if value.is_finite() { value } else { f64::INFINITY }
    }
}

fn add(out: &mut [f64], factor: f64, values: &[f64]) {
    out.iter_mut().zip(values).for_each(|(out, x)| *out += factor * x);
}

/// Eight sums, so that the compiler may take several at once.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a_eights, b_eights) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a_eights.remainder().iter().zip(b_eights.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_eights.zip(b_eights) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    mercer_simd::fold8(&sums) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A score that lives in two directions of twelve, neither of them principal.
    fn distillation_set() -> DistillationSet {
        let (rows, size) = (1500, 12);
        let value = |n: usize| ((n * 7919 % 10007) as f64 / 10007.0 - 0.5) * 2.0;
        let coordinates: Vec<f64> = (0..rows * size).map(value).collect();
        let target = |row: &[f64]| {
            let a: f64 = row.iter().sum::<f64>() / 4.0;
            let b = 0.5 * (row[3] - row[5] + row[7]);
            a * b + 0.3 * a
        };
        let targets = coordinates.chunks_exact(size).map(target).collect();
        DistillationSet { rows, size, coordinates, outputs: 1, targets }
    }

    #[test]
    fn gradients_are_those_of_the_value() {
        let set = distillation_set();
        let task = DirectionObjective {
            mixed: 12,
            sizes: &[1, 3],
            outputs: 1,
            rows: 500,
            blocks: (0..500)
                .step_by(BLOCK)
                .map(|first| CoordinateRows::new(&set, 12, first, 500))
                .collect(),
        };
        let start = start(&set, 12, 3).unwrap();
        let point = task.begin(start);
        let mut gradient = vec![0.0; point.len()];
        task.value(&point, &mut gradient);
        let mut ignored = gradient.clone();
        for at in (0..point.len()).step_by(3) {
            let mut moved = |by: f64| {
                let mut point = point.clone();
                point[at] += by;
                task.value(&point, &mut ignored)
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((slope - gradient[at]).abs() < 1e-7, "{at}: {slope} against {}", gradient[at]);
        }
    }

    #[test]
    fn a_score_in_two_hidden_directions_is_found() {
        let set = distillation_set();
        let (directions, mixed) = fitted(&set, &[2], Watch::NOBODY).unwrap().unwrap();
        let fitted = forms(&set, 2, |row, out| {
            let coordinates = &set.row(row)[..mixed];
            out.iter_mut()
                .zip(directions.chunks_exact(mixed))
                .for_each(|(y, u)| *y = dot(u, coordinates));
        });
        let form = &fitted.unwrap()[0];
        let error = |row: usize| {
            let y: Vec<f64> =
                directions.chunks_exact(mixed).map(|u| dot(u, set.row(row))).collect();
            let square = form.square[0] * y[0] * y[0]
                + (form.square[1] + form.square[2]) * y[0] * y[1]
                + form.square[3] * y[1] * y[1];
            square + dot(&form.line, &y) + form.constant - set.targets[row]
        };
        let mean = (0..set.rows).map(|row| error(row).powi(2)).sum::<f64>() / set.rows as f64;
        let usual = dot(&set.targets, &set.targets) / set.rows as f64;
        assert!(mean < 1e-3 * usual, "{mean} of {usual}");
    }
}
