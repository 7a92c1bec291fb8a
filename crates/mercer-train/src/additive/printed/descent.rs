//! The loop of algorithms 2 and 3 of \[YW12\]: dual coordinate descent on one subproblem, in f32.
//! What is looked up for a non-zero is in `cells`.

use super::cells::{Cells, SparseRows};

/// Passes after which a subproblem is given up, as LIBLINEAR does.
const MOST_PASSES: usize = 1000;
/// Coordinate updates between two tests of the limits.
const TEST_EVERY: u64 = 1 << 14;

/// Rows, signs and penalties of one subproblem.
#[derive(Debug, Default)]
pub(super) struct PrintedPart {
    pub(super) rows: Vec<u32>,
    pub(super) signs: Vec<f32>,
    pub(super) penalties: Vec<f32>,
}

/// How a subproblem is solved.
pub(super) struct PrintedDescent<'d> {
    pub(super) tolerance: f64,
    pub(super) seed: u64,
    /// Called with the updates made; whether to stop.
    pub(super) must_stop: &'d (dyn Fn(u64) -> bool + Sync),
}

/// The curves of one subproblem: `g(x) = Σ_j Σ_k a_jk ln(x_j + 0.05)^k` over the non-zeros of x.
#[derive(Debug)]
pub(super) struct PrintedSolution {
    /// a, column after column.
    pub(super) coefficients: Vec<f32>,
    pub(super) objective: f64,
    pub(super) violation: f64,
    pub(super) supports: usize,
    pub(super) bounded: usize,
    pub(super) updates: u64,
}

/// `g` of a row.
#[inline(always)]
pub(super) fn value<const N: usize, C: Cells<N>>(
    rows: &SparseRows,
    cells: &C,
    row: u32,
    coefficients: &[f32],
) -> f32 {
    let mut sum = 0.0;
    for place in rows.places(row) {
        let tau = cells.log(place, rows.values[place]);
        let start = rows.columns[place] as usize * N;
        let own = &coefficients[start..start + N];
        sum += own.iter().rev().fold(0.0, |sum, a| sum * tau + a);
    }
    sum
}

/// Largest and smallest projected gradient.
#[derive(Clone, Copy)]
struct ProjectedRange {
    high: f32,
    low: f32,
}

impl ProjectedRange {
    const NONE: Self = Self { high: f32::NEG_INFINITY, low: f32::INFINITY };
    const ALL: Self = Self { high: f32::INFINITY, low: f32::NEG_INFINITY };

    /// Beyond which gradients rows are shrunk in the next pass.
    fn limits(self) -> Self {
        Self {
            high: if self.high > 0.0 { self.high } else { f32::INFINITY },
            low: if self.low < 0.0 { self.low } else { f32::NEG_INFINITY },
        }
    }

    fn include(&mut self, gradient: f32) {
        self.high = self.high.max(gradient);
        self.low = self.low.min(gradient);
    }

    fn violation(self) -> f64 {
        f64::from((self.high - self.low).max(0.0))
    }
}

/// The gradient of a coefficient with its bounds taken into account; `None` if the row is to be shrunk.
#[inline(always)]
fn projected(alpha: f32, penalty: f32, gradient: f32, limits: ProjectedRange) -> Option<f32> {
    if alpha == 0.0 {
        return (gradient <= limits.high).then(|| gradient.min(0.0));
    }
    if alpha >= penalty {
        return (gradient >= limits.low).then(|| gradient.max(0.0));
    }
    Some(gradient)
}

/// Lines 3 to 10 of algorithms 2 and 3.
pub(super) fn descend<const N: usize, C: Cells<N>>(
    rows: &SparseRows,
    cells: &C,
    part: &PrintedPart,
    descent: &PrintedDescent<'_>,
) -> PrintedSolution {
    let count = part.rows.len();
    let squares: Vec<f32> = part.rows.iter().map(|row| square(rows, *row)).collect();
    let mut coefficients = vec![0.0f32; rows.width * N];
    let mut alpha = vec![0.0f32; count];
    let mut order: Vec<u32> = (0..count as u32).collect();
    let (mut active, mut limits, mut random) = (count, ProjectedRange::ALL, descent.seed);
    let (mut updates, mut violation) = (0u64, f64::INFINITY);
    'passes: for _ in 0..MOST_PASSES {
        let mut range = ProjectedRange::NONE;
        shuffle(&mut order[..active], &mut random);
        let mut at = 0;
        while at < active {
            let row = order[at] as usize;
            updates += 1;
            if updates.is_multiple_of(TEST_EVERY) && (descent.must_stop)(updates) {
                break 'passes;
            }
            let (sign, penalty) = (part.signs[row], part.penalties[row]);
            let gradient = sign * value(rows, cells, part.rows[row], &coefficients) - 1.0;
            let Some(projected) = projected(alpha[row], penalty, gradient, limits) else {
                active -= 1;
                order.swap(at, active);
                continue;
            };
            range.include(projected);
            if projected.abs() > 1e-12 {
                let old = alpha[row];
                alpha[row] = (old - gradient / squares[row]).max(0.0).min(penalty);
                let change = (alpha[row] - old) * sign;
                add(rows, cells, part.rows[row], change, &mut coefficients);
            }
            at += 1;
        }
        violation = range.violation();
        if violation > descent.tolerance {
            limits = range.limits();
        } else if active == count {
            break;
        } else {
            (active, limits) = (count, ProjectedRange::ALL);
            violation = f64::INFINITY;
        }
        if (descent.must_stop)(updates) {
            break;
        }
    }
    let dual = (0..count).map(|row| {
        let margin = part.signs[row] * value(rows, cells, part.rows[row], &coefficients);
        f64::from(alpha[row]) * (0.5 * f64::from(margin) - 1.0)
    });
    PrintedSolution {
        objective: dual.sum(),
        supports: alpha.iter().filter(|alpha| **alpha != 0.0).count(),
        bounded: alpha.iter().zip(&part.penalties).filter(|(a, c)| **a >= **c).count(),
        coefficients,
        violation,
        updates,
    }
}

/// Line 8: `a_j` moves along `X⁻¹ κ(nodes, x_j)` for each non-zero of a row.
#[inline(always)]
fn add<const N: usize, C: Cells<N>>(
    rows: &SparseRows,
    cells: &C,
    row: u32,
    change: f32,
    coefficients: &mut [f32],
) {
    for place in rows.places(row) {
        let start = rows.columns[place] as usize * N;
        let own = &mut coefficients[start..start + N];
        let update = cells.update(place, rows.values[place]);
        own.iter_mut().zip(update).for_each(|(a, by)| *a += change * by);
    }
}

/// Line 2: `Q_ii = |x_i|`, the sum of the values; 1 for a row without any.
fn square(rows: &SparseRows, row: u32) -> f32 {
    let sum = rows.values[rows.places(row)].iter().sum::<f32>();
    if sum > 0.0 { sum } else { 1.0 }
}

/// A random order.
fn shuffle(order: &mut [u32], state: &mut u64) {
    for at in 0..order.len() {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = at + ((*state >> 33) as usize) % (order.len() - at);
        order.swap(at, other);
    }
}
