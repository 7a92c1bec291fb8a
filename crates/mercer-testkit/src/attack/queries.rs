//! Queries for a machine: like its supports, close to them, of other sizes, and bisected to the border between labels.

use mercer_data::{Matrix, Row};
use mercer_kernel::Domain;
use mercer_machine::Machine;
use mercer_query::{Exact, ExactScratch};
use rand::RngExt;

use super::{Draw, Scale, matrix};
use crate::generate;

/// Rows drawn as the supports are.
const ALIKE: usize = 12;
/// Pairs of rows between which the border is looked for.
const BISECTED: usize = 6;
/// Most halvings: those of an exponent, then those of a mantissa.
const HALVINGS: usize = 90;

/// Rounds of queries of all kinds, dense or sparse, at times wider than the machine; and how many the first round has.
pub(super) fn draw(draw: &mut Draw, machine: &Machine, rounds: usize) -> (Matrix, usize) {
    let supports: Vec<Vec<f64>> =
        (0..machine.supports().rows()).map(|at| generate::row(machine.supports(), at)).collect();
    let (is_wider, is_sparse) = (draw.chance(0.1), draw.chance(0.5));
    let (mut rows, mut first) = (Vec::new(), 0);
    for number in 0..rounds {
        let mut round = round(draw, machine, &supports);
        if is_wider {
            // A column that no support has.
            for row in &mut round {
                row.push(if draw.chance(0.5) { 0.0 } else { draw.value().abs() });
            }
        }
        rows.append(&mut round);
        first = if number == 0 { rows.len() } else { first };
    }
    let queries = matrix(draw.columns + usize::from(is_wider), &rows);
    (if is_sparse { queries.to_sparse() } else { queries }, first)
}

/// Queries of every kind.
fn round(draw: &mut Draw, machine: &Machine, supports: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let is_positive = machine.domain() == Domain::NonNegative;
    let fit = |mut row: Vec<f64>| {
        if is_positive {
            row.iter_mut().for_each(|x| *x = x.abs());
        }
        row
    };
    let count = if draw.scale == Scale::Trained { 4 * ALIKE } else { ALIKE };
    let mut rows: Vec<Vec<f64>> = (0..count).map(|_| fit(draw.row())).collect();
    for _ in 0..4.min(supports.len()) {
        let support = supports[draw.rng.random_range(0..supports.len())].clone();
        rows.push(fit(nearly(draw, &support)));
        if !draw.scale.is_ordinary() {
            let factor = Draw::power(draw.within(-20.0, 20.0));
            let scaled = support.iter().map(|x| (x * factor).clamp(-f64::MAX, f64::MAX));
            rows.push(scaled.collect());
        }
    }
    if let Some(bins) = machine.bins() {
        // Values at the cuts between bins, and an ulp or two beside them.
        for _ in 0..ALIKE {
            let cut = |draw: &mut Draw| {
                let bin = draw.rng.random_range(1..bins.count());
                let (low, high) = (centre(machine, bin - 1), centre(machine, bin));
                low + (high - low) / 2.0
            };
            let cuts: Vec<f64> = (0..draw.columns).map(|_| cut(draw)).collect();
            rows.push(fit(nearly(draw, &cuts)));
        }
    }
    if !draw.scale.is_ordinary() {
        rows.push(vec![0.0; draw.columns]);
        let scale = std::mem::replace(&mut draw.scale, Scale::MixedRows);
        rows.extend((0..2).map(|_| fit(draw.row())));
        draw.scale = scale;
    }
    border(draw, machine, &mut rows);
    rows
}

fn centre(machine: &Machine, bin: usize) -> f64 {
    machine.bins().map_or(0.0, |bins| bins.spacing().value(bins.count(), bin))
}

/// The same row, each value up to three ulps away.
pub(super) fn nearly(draw: &mut Draw, row: &[f64]) -> Vec<f64> {
    let mut near = |x: f64| {
        let moved = match draw.rng.random_range(-3i32..=3) {
            steps @ 1.. => (0..steps).fold(x, |x, _| x.next_up()),
            steps => (steps..0).fold(x, |x, _| x.next_down()),
        };
        // A zero stays one, so that sparse rows stay sparse.
        if x == 0.0 || !moved.is_finite() { x } else { moved }
    };
    row.iter().map(|x| near(*x)).collect()
}

/// Adds rows at the border between two labels: the two last ones of a bisection, and some near them.
fn border(draw: &mut Draw, machine: &Machine, rows: &mut Vec<Vec<f64>>) {
    let exact = Exact::new(machine);
    let mut scratch = exact.scratch();
    let known: Vec<Option<bool>> = rows.iter().map(|row| sign(&exact, &mut scratch, row)).collect();
    let with = |wanted: bool| -> Vec<usize> {
        (0..known.len()).filter(|at| known[*at] == Some(wanted)).collect()
    };
    let (above, below) = (with(true), with(false));
    if above.is_empty() || below.is_empty() {
        return;
    }
    for _ in 0..BISECTED {
        let mut high = rows[above[draw.rng.random_range(0..above.len())]].clone();
        let mut low = rows[below[draw.rng.random_range(0..below.len())]].clone();
        let keep_from = draw.rng.random_range(0..HALVINGS);
        for step in 0..HALVINGS {
            let middle: Vec<f64> = high.iter().zip(&low).map(|(a, b)| between(*a, *b)).collect();
            if middle == high || middle == low {
                break;
            }
            match sign(&exact, &mut scratch, &middle) {
                Some(true) => high = middle,
                Some(false) => low = middle,
                None => break,
            }
            if step == keep_from {
                rows.extend([high.clone(), low.clone()]);
            }
        }
        rows.extend([nearly(draw, &high), high, low]);
    }
    if machine.domain() == Domain::NonNegative {
        rows.iter_mut().flatten().for_each(|x| *x = x.abs());
    }
}

/// A number between two: the geometric mean where they are of one sign and far apart.
fn between(a: f64, b: f64) -> f64 {
    let is_far = a * b.signum() > 0.0 && (a.abs() > 4.0 * b.abs() || b.abs() > 4.0 * a.abs());
    if is_far { a.signum() * a.abs().sqrt() * b.abs().sqrt() } else { a / 2.0 + b / 2.0 }
}

/// Whether the first score is positive; nothing if it is not finite.
fn sign(exact: &Exact, scratch: &mut ExactScratch, row: &[f64]) -> Option<bool> {
    let mut scores = vec![0.0; exact.machine().scores().len()];
    exact.scores(std::iter::once(Row::Dense(row)), scratch, &mut scores);
    scores[0].is_finite().then_some(scores[0] > 0.0)
}
