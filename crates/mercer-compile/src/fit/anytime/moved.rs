//! Basis points anywhere in input space: each is moved until it explains most of what is left of the machine.

use mercer_data::{Matrix, Row};
use mercer_kernel::Profile;
use mercer_kernel::factor::{Factor, Gain, KernelColumns, Point};
use mercer_machine::{Machine, Score};

use super::pool::Pool;
use crate::kernel_gradient::{
    KernelGradient, backwards, forwards, kernel_gradient, profile, self_gradient,
};
use crate::minimize::{Objective, minimize};
use crate::{CompileError, Watch};
use mercer_kernel::eigen::dot;

/// Wider machines would take too long.
const MOST_COLUMNS: usize = 4096;
/// Steps of the descent for one point.
const ITERATIONS: usize = 80;
/// Supports from which a point starts.
const STARTS: usize = 2;

/// Moves points one after the other; adds them to the factor and returns them.
pub(super) fn points(
    machine: &Machine,
    pool: &Pool,
    factor: &mut Factor<KernelColumns>,
    limit: usize,
    watch: &Watch<'_>,
) -> Result<Matrix, CompileError> {
    let profile = profile(machine);
    let unfit = |reason: String| CompileError::Unfit { stage: "anytime", reason };
    if profile == Profile::Other {
        let kernel = machine.kernel().spec();
        return Err(unfit(format!("points cannot be moved under {kernel}: order=min_wz can")));
    }
    if machine.columns() > MOST_COLUMNS {
        let columns = machine.columns();
        return Err(unfit(format!("{columns} columns are more than {MOST_COLUMNS} to move in")));
    }
    let mut objective = RemainingNorm::new(machine, profile);
    let squares = |factor: &Factor<KernelColumns>| {
        factor.targets().iter().map(|target| target.square().max(0.0)).sum::<f64>()
    };
    let whole = squares(factor);
    let mut points: Vec<f64> = Vec::new();
    while factor.rank() < limit && squares(factor) > 1e-13 * whole {
        watch.step("moving basis points", factor.rank(), limit)?;
        objective.renew(factor);
        let Some(point) = objective.best(pool, factor) else { break };
        let row = Row::Dense(&point);
        let mut rows = vec![0.0; factor.rows()];
        factor.columns().against(row, &mut rows);
        let squared_norm = machine.kernel().value(row, row);
        let width = machine.columns();
        let chosen: Vec<f64> = points
            .chunks_exact(width)
            .map(|other| machine.kernel().value(Row::Dense(other), row))
            .collect();
        let targets = objective.products(&rows[pool.supports.clone()]);
        let point_values = Point { rows: &rows, pivots: &chosen, squared_norm, targets: &targets };
        if !factor.push_point(&point_values) {
            break;
        }
        points.extend_from_slice(&point);
    }
    Matrix::dense(machine.columns(), points)
        .map_err(|error| unfit(format!("a moved point is not finite: {error}")))
}

/// `-Σ_s c_s(z)² / d(z)` as a function of `z`: what the machine's rest loses, negated.
struct RemainingNorm {
    profile: Profile,
    columns: usize,
    supports: usize,
    /// Supports, then basis points: rows, squared norms.
    rows: Vec<f64>,
    squares: Vec<f64>,
    /// Coefficients of each score over those rows: β, then -a.
    coefficients: Vec<Vec<f64>>,
    /// Rows of the Cholesky factor of the basis.
    factor: Vec<Vec<f64>>,
    /// The last point chosen.
    chosen: Vec<f64>,
}

impl RemainingNorm {
    fn new(machine: &Machine, profile: Profile) -> Self {
        let (supports, columns) = (machine.supports().rows(), machine.columns());
        let mut rows = vec![0.0; supports * columns];
        for (row, place) in machine.supports().iter().zip(rows.chunks_exact_mut(columns.max(1))) {
            row.write_dense(place);
        }
        let dense = |score: &Score| {
            let mut out = vec![0.0; supports];
            if let Score::Expansion { supports, coefficients, .. } = score {
                for (support, beta) in supports.iter().zip(coefficients) {
                    out[*support as usize] = *beta;
                }
            }
            out
        };
        let squares = rows.chunks_exact(columns.max(1)).map(|row| dot(row, row)).collect();
        let coefficients = machine.scores().iter().map(dense).collect();
        let (factor, chosen) = (Vec::new(), Vec::new());
        Self { profile, columns, supports, rows, squares, coefficients, factor, chosen }
    }

    /// `<W_s, z>` from kernel values with the supports.
    fn products(&self, values: &[f64]) -> Vec<f64> {
        self.coefficients.iter().map(|beta| dot(&beta[..self.supports], values)).collect()
    }

    /// Takes the last point chosen into account.
    fn renew(&mut self, factor: &Factor<KernelColumns>) {
        if let Some(pivot) = factor.pivots().get(self.factor.len()) {
            self.factor.push(pivot.coordinates.clone());
            self.rows.extend_from_slice(&self.chosen);
            self.squares.push(dot(&self.chosen, &self.chosen));
        }
        for (coefficients, target) in self.coefficients.iter_mut().zip(factor.targets()) {
            coefficients.truncate(self.supports);
            let a = backwards(&self.factor, target.coordinates());
            coefficients.extend(a.iter().map(|a| -a));
        }
    }

    /// The best point found from the best supports.
    fn best(&mut self, pool: &Pool, factor: &Factor<KernelColumns>) -> Option<Vec<f64>> {
        let mut starts: Vec<usize> =
            pool.supports.clone().filter(|row| factor.is_open(*row)).collect();
        let gain = |row: &usize| Gain::of(factor, *row);
        starts.sort_by(|a, b| gain(b).total_cmp(&gain(a)).then(a.cmp(b)));
        let mut best: Option<(f64, Vec<f64>)> = None;
        for start in starts.into_iter().take(STARTS) {
            let from = self.rows[start * self.columns..][..self.columns].to_vec();
            let (value, point) = minimize(self, from, ITERATIONS);
            if value.is_finite() && best.as_ref().is_none_or(|(least, _)| value < *least) {
                best = Some((value, point));
            }
        }
        let (_, point) = best?;
        self.chosen.clone_from(&point);
        Some(point)
    }
}

impl Objective for RemainingNorm {
    fn value(&self, z: &[f64], gradient: &mut [f64]) -> f64 {
        let squared_norm = dot(z, z);
        let rows = || self.rows.chunks_exact(self.columns.max(1));
        let gradients: Vec<KernelGradient> = rows()
            .zip(&self.squares)
            .map(|(row, square)| kernel_gradient(self.profile, dot(row, z), *square, squared_norm))
            .collect();
        let y = forwards(
            &self.factor,
            gradients[self.supports..].iter().map(|gradient| gradient.value),
        );
        let itself = self_gradient(self.profile, squared_norm);
        let distance = itself.value - dot(&y, &y);
        // Too near to the span of the others: a pivot there would be noise.
        if distance.is_nan() || distance <= 1e-6 * itself.value {
            return f64::INFINITY;
        }
        let products: Vec<f64> = self
            .coefficients
            .iter()
            .map(|list| list.iter().zip(&gradients).map(|(v, at)| v * at.value).sum())
            .collect();
        let gain = dot(&products, &products) / distance;
        let turned = backwards(&self.factor, &y);
        gradient.fill(0.0);
        let mut along = gain / distance * itself.along;
        for (at, (row, kernel)) in rows().zip(&gradients).enumerate() {
            let pairs = self.coefficients.iter().zip(&products);
            let mut v: f64 = pairs.map(|(list, c)| -2.0 * c * list[at] / distance).sum();
            if at >= self.supports {
                v -= 2.0 * gain / distance * turned[at - self.supports];
            }
            let across = v * kernel.across;
            gradient.iter_mut().zip(row).for_each(|(place, x)| *place += across * x);
            along += v * kernel.along;
        }
        gradient.iter_mut().zip(z).for_each(|(place, x)| *place += along * x);
        -gain
    }
}
