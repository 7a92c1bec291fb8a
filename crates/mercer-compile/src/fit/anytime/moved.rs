//! Basis points anywhere in input space: each is moved until it explains most of what is left of the machine, or until
//! the bounds of a sample of queries are best (\[DeCoste03\], section 6: reduced set search under the new costs).

mod bounds;

use mercer_data::{Matrix, Row};
use mercer_kernel::Profile;
use mercer_kernel::factor::{Factor, Gain, KernelColumns, Point};
use mercer_machine::{Machine, Score};

use super::pool::Pool;
use super::settings::Order;
use crate::kernel_gradient::{
    KernelGradient, backwards, forwards, kernel_gradient, profile, self_gradient,
};
use crate::minimize::{Objective, minimize};
use crate::{CompileError, Watch};
use bounds::SampleBounds;
use mercer_kernel::eigen::dot;

/// Wider machines would take too long.
const MOST_COLUMNS: usize = 4096;
/// Steps of the descent for one point.
const ITERATIONS: usize = 80;
/// Supports from which a point starts, and among which those are found for bounds.
const STARTS: usize = 2;
const TRIED: usize = 8;

/// Under which cost points are moved, and how many at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct MovedGoal {
    pub order: Order,
    pub limit: usize,
}

/// Moves points one after the other; adds them to the factor and returns them.
pub(super) fn points(
    machine: &Machine,
    pool: &Pool,
    factor: &mut Factor<KernelColumns>,
    goal: MovedGoal,
    watch: &Watch<'_>,
) -> Result<Matrix, CompileError> {
    let MovedGoal { order, limit } = goal;
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
    let mut objective = MovedPoint::new(machine, profile);
    if order == Order::MovedMeanLh {
        objective.sample = Some(SampleBounds::new(machine, pool));
    }
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

/// What one more basis point `z` is worth, as a function of `z`: `-Σ_s c_s(z)² / d(z)`, what the machine's rest loses,
/// negated; or eq. 26, what the bounds of a sample still lack.
struct MovedPoint {
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
    /// The queries whose bounds count, if that is the cost.
    sample: Option<SampleBounds>,
}

impl MovedPoint {
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
        Self {
            profile,
            columns,
            supports,
            rows,
            squares,
            coefficients,
            factor: Vec::new(),
            chosen: Vec::new(),
            sample: None,
        }
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
        if let Some(sample) = &mut self.sample {
            sample.renew(factor, &self.factor);
        }
    }

    /// The best point found. Where no bound of the sample can be improved any more, the machine's rest decides.
    fn best(&mut self, pool: &Pool, factor: &Factor<KernelColumns>) -> Option<Vec<f64>> {
        if let Some(sample) = &self.sample {
            let before = sample.cost();
            let found = (before > 0.0).then(|| self.best_by_cost(pool, factor)).flatten();
            if let Some((_, point)) = found.filter(|(value, _)| *value < before) {
                self.chosen.clone_from(&point);
                return Some(point);
            }
        }
        let sample = self.sample.take();
        let found = self.best_by_cost(pool, factor);
        self.sample = sample;
        let (_, point) = found?;
        self.chosen.clone_from(&point);
        Some(point)
    }

    /// The best point found from the best supports, under the cost in force, and its cost.
    fn best_by_cost(&self, pool: &Pool, factor: &Factor<KernelColumns>) -> Option<(f64, Vec<f64>)> {
        let mut starts: Vec<usize> =
            pool.supports.clone().filter(|row| factor.is_open(*row)).collect();
        let gain = |row: &usize| Gain::of(factor, *row);
        starts.sort_by(|a, b| gain(b).total_cmp(&gain(a)).then(a.cmp(b)));
        let place = |start: usize| self.rows[start * self.columns..][..self.columns].to_vec();
        if self.sample.is_some() {
            starts.truncate(TRIED);
            let mut gradient = vec![0.0; self.columns];
            let mut cost = |row: usize| self.value(&place(row), &mut gradient);
            let mut valued: Vec<(f64, usize)> =
                starts.iter().map(|row| (cost(*row), *row)).collect();
            valued.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            starts = valued.into_iter().map(|(_, row)| row).collect();
        }
        let mut best: Option<(f64, Vec<f64>)> = None;
        for start in starts.into_iter().take(STARTS) {
            let (value, point) = minimize(self, place(start), ITERATIONS);
            if value.is_finite() && best.as_ref().is_none_or(|(least, _)| value < *least) {
                best = Some((value, point));
            }
        }
        best
    }
}

impl Objective for MovedPoint {
    fn value(&self, z: &[f64], gradient: &mut [f64]) -> f64 {
        let squared_norm = dot(z, z);
        let rows = || self.rows.chunks_exact(self.columns.max(1));
        let kernels: Vec<KernelGradient> = rows()
            .zip(&self.squares)
            .map(|(row, square)| kernel_gradient(self.profile, dot(row, z), *square, squared_norm))
            .collect();
        let of_basis = || kernels[self.supports..].iter().map(|kernel| kernel.value);
        let y = forwards(&self.factor, of_basis());
        let itself = self_gradient(self.profile, squared_norm);
        let distance = itself.value - dot(&y, &y);
        // Too near to the span of the others: a pivot there would be noise.
        if distance.is_nan() || distance <= 1e-6 * itself.value {
            return f64::INFINITY;
        }
        let products: Vec<f64> = self
            .coefficients
            .iter()
            .map(|list| list.iter().zip(&kernels).map(|(v, at)| v * at.value).sum())
            .collect();
        gradient.fill(0.0);
        let slopes = match &self.sample {
            None => rest_slopes(&products, distance),
            Some(sample) => {
                let basis: Vec<f64> = of_basis().collect();
                sample.slopes(self.profile, z, &basis, &products, distance)
            }
        };
        let turned = backwards(&self.factor, &y);
        let mut along = slopes.distance * itself.along;
        for (at, (row, kernel)) in rows().zip(&kernels).enumerate() {
            let pairs = self.coefficients.iter().zip(&slopes.products);
            let mut v: f64 = pairs.map(|(list, slope)| slope * list[at]).sum();
            if at >= self.supports {
                v -= 2.0 * slopes.distance * turned[at - self.supports];
                v += slopes.basis.get(at - self.supports).copied().unwrap_or(0.0);
            }
            add(gradient, v * kernel.across, row);
            along += v * kernel.along;
        }
        if let Some(sample) = &self.sample {
            for (place, (v, kernel)) in slopes.queries.iter().enumerate() {
                add(gradient, v * kernel.across, sample.row(place));
                along += v * kernel.along;
            }
        }
        add(gradient, along, z);
        slopes.value
    }
}

fn add(gradient: &mut [f64], factor: f64, row: &[f64]) {
    if factor != 0.0 {
        gradient.iter_mut().zip(row).for_each(|(place, x)| *place += factor * x);
    }
}

/// A cost, and its slopes in `c_s`, in `d`, and in the kernel values with basis points and queries.
struct CostSlopes {
    value: f64,
    products: Vec<f64>,
    distance: f64,
    basis: Vec<f64>,
    queries: Vec<(f64, KernelGradient)>,
}

/// `-Σ c² / d`.
fn rest_slopes(products: &[f64], distance: f64) -> CostSlopes {
    let gain = dot(products, products) / distance;
    CostSlopes {
        value: -gain,
        products: products.iter().map(|c| -2.0 * c / distance).collect(),
        distance: gain / distance,
        basis: Vec::new(),
        queries: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::AnytimeSettings;
    use super::*;
    use mercer_machine::Output;
    use mercer_query::Exact;

    /// Slopes of both costs against differences, before and after some basis points.
    #[test]
    fn gradients_are_those_of_the_costs() {
        let values: Vec<f64> = (0..60).map(|n| f64::from((n * 37 + 11) % 97) / 40.0).collect();
        let rows = Matrix::dense(3, values).unwrap();
        let betas: Vec<f64> = (0..12).map(|n| if n % 2 == 0 { 1.0 } else { -0.8 }).collect();
        for text in ["rbf(gamma=0.4)", "polynomial(degree=2, gamma=0.3, coef0=1)"] {
            let kernel = mercer_kernel::parse(text).unwrap();
            let scores = vec![Score::expansion(&betas, 0.1)];
            let machine =
                Machine::new(kernel, rows.select(0..12), scores, Output::Novelty).unwrap();
            let exact = Exact::new(&machine);
            let spec = "anytime(order=moved_mean_lh)".parse().unwrap();
            let arguments = mercer_query::entries::ANYTIME.check(&spec).unwrap();
            let settings = AnytimeSettings::new(&arguments, true);
            let pool = Pool::new(&exact, None, Some(&rows), &settings);
            let mut factor = pool.factor(&exact, settings.floor);
            let mut objective = MovedPoint::new(&machine, profile(&machine));
            objective.sample = Some(SampleBounds::new(&machine, &pool));
            for round in 0..3 {
                objective.renew(&factor);
                let z = vec![0.31 + 0.2 * f64::from(round), 1.7, 0.9];
                let sample = objective.sample.take();
                slopes_agree(&objective, &z);
                objective.sample = sample;
                slopes_agree(&objective, &z);
                assert!(factor.push(pool.supports.start + 3 * round as usize + 1));
                objective.chosen = objective.rows[(3 * round as usize + 1) * 3..][..3].to_vec();
            }
        }
    }

    fn slopes_agree(objective: &MovedPoint, z: &[f64]) {
        let (mut gradient, mut unused) = (vec![0.0; 3], vec![0.0; 3]);
        let value = objective.value(z, &mut gradient);
        assert!(value.is_finite());
        for column in 0..3 {
            let step = 1e-6;
            let mut at = |sign: f64| {
                let mut moved = z.to_vec();
                moved[column] += sign * step;
                objective.value(&moved, &mut unused)
            };
            let slope = (at(1.0) - at(-1.0)) / (2.0 * step);
            let allowed = 1e-4 * (1.0 + slope.abs());
            assert!((slope - gradient[column]).abs() < allowed, "{slope} {}", gradient[column]);
        }
    }
}
