//! Descent over the weights for penalties on the sum of their sizes.

use mercer_simd::factors::{Meaning, Scalar};

use super::newton::balance;
use super::part::{End, Part, Shared, next_below};
use super::transposed::Transposed;

/// Where the descent stands.
#[derive(Debug)]
pub(super) struct Lasso {
    /// The score of every row.
    pub(super) scores: Vec<f64>,
    /// What every row costs at its score.
    costs: Vec<f64>,
    /// Violations of the first step, summed.
    pub(super) first: f64,
    /// The share of `first` that is left of the violations of a step's model.
    pub(super) near: f64,
    sides: Sides,
}

/// What does not change: target and price of every row, 0 for those not asked about, and how balanced they are.
#[derive(Debug)]
struct Sides {
    rows: Vec<(f64, f64)>,
    balance: f64,
}

/// Passes over the columns in one step.
const MOST_INNER: u64 = 1000;
/// Halvings of one step.
const MOST_LINE: usize = 40;
/// The share of the promised decrease that a step must bring.
const SUFFICIENT: f64 = 0.01;
/// What a model's curvature has of the largest possible at least.
const LEAST_CURVE: f64 = 1e-12;

impl Lasso {
    /// At these scores; a descent that has not begun has neither `first` nor `near`.
    pub(super) fn new<M: Meaning>(
        shared: &Shared<M>,
        part: &Part<M::Real>,
        scores: Vec<f64>,
        [first, near]: [f64; 2],
    ) -> Self {
        let mut rows = vec![(1.0, 0.0); scores.len()];
        let (mut plus, mut all) = (0.0, 0.0);
        shared.store.heads(|row| {
            if part.ask.takes(&shared.folds, row) {
                let (y, c) = (part.target(shared, row), Part::price(shared, row));
                rows[row.row as usize] = (y, c);
                plus += if y > 0.0 { c } else { 0.0 };
                all += c;
            }
        });
        let balance = balance(plus, all, rows.len());
        let cost = |((y, c), score): (&(f64, f64), &f64)| shared.loss.cost(*y, *c, *score);
        let costs = rows.iter().zip(&scores).map(cost).collect();
        Self { scores, costs, first, near, sides: Sides { rows, balance } }
    }
}

impl<T: Scalar> Part<T> {
    /// One step of newGLMNET (\[YHL12\]) on `Σ |w| + Σ c ℓ(f, y)`: coordinate descent over the columns of the
    /// second-order model, columns at rest left out, and a search along what it finds.
    ///
    /// Ends at LIBLINEAR's rule: the sum of the violations, relative to the first and to the smaller class, is
    /// within the tolerance.
    pub(super) fn lasso_step<M: Meaning<Real = T>>(
        &mut self,
        shared: &Shared<M>,
        columns: &Transposed,
        stop: &dyn Fn(u64) -> bool,
    ) {
        self.is_torn = false;
        let mut lasso = self.lasso.take().unwrap_or_else(|| {
            Lasso::new(shared, self, vec![0.0; shared.store.rows()], [0.0, 1.0])
        });
        let rest = self.before.high.wide() / shared.store.rows() as f64;
        let derive = |((y, c), score): (&(f64, f64), &f64)| shared.loss.derivatives(*y, *c, *score);
        let terms: Vec<_> = lasso.sides.rows.iter().zip(&lasso.scores).map(derive).collect();
        let least = LEAST_CURVE * shared.loss.price();
        let (mut model, met) = Model::new(columns, &terms, (self.all_weights(), least, rest));
        if self.passes == 0 {
            lasso.first = met.sum.max(f64::MIN_POSITIVE);
        }
        self.before.high = T::of(met.most);
        self.violation = met.sum / lasso.first / lasso.sides.balance;
        if self.violation <= shared.tolerance {
            self.end = Some(End::Optimal);
            self.lasso = Some(lasso);
            return;
        }
        let inner = self.solve(&mut model, lasso.near * lasso.first, stop);
        if inner == 1 {
            lasso.near *= 0.25;
        }
        let along = model.along();
        let step = search(shared, &mut lasso, &along, &model);
        // A whole step ends at zero where the model does.
        let reach =
            |(from, to): (&f64, &f64)| if step == 1.0 { *to } else { from + step * (to - from) };
        let weights: Vec<f64> = model.from.iter().zip(&model.to).map(reach).collect();
        self.take_weights(&weights);
        lasso.scores.iter_mut().zip(&along).for_each(|(score, by)| *score += step * by);
        self.passes += 1;
        if self.passes >= shared.passes || step == 0.0 {
            self.end = Some(End::Stopped(crate::Stop::Stalled));
        }
        self.lasso = Some(lasso);
    }

    /// The constant's last.
    fn all_weights(&self) -> Vec<f64> {
        let weights = self.weights.values().iter().map(|weight| weight.wide());
        weights.chain([self.constant.weight.wide()]).collect()
    }

    fn take_weights(&mut self, weights: &[f64]) {
        let (constant, rest) = weights.split_last().expect("the constant has a weight");
        self.constant.weight = T::of(*constant);
        for (place, weight) in self.weights.values_mut().iter_mut().zip(rest) {
            *place = T::of(*weight);
        }
    }

    /// Coordinate descent on the model until its violations sum to `wanted`; returns its passes.
    fn solve(&mut self, model: &mut Model<'_>, wanted: f64, stop: &dyn Fn(u64) -> bool) -> u64 {
        let (mut at_work, mut rest, mut passes) = (model.active.len(), f64::INFINITY, 0);
        let begun = self.visits;
        while passes < MOST_INNER {
            for at in (1..at_work).rev() {
                let other = next_below(&mut self.random, at as u32 + 1) as usize;
                model.active.swap(at, other);
            }
            let (mut met, mut at) = (Met::default(), 0);
            self.visits += at_work as u64;
            while at < at_work {
                if model.visit(model.active[at] as usize, rest, &mut met) {
                    at += 1;
                } else {
                    at_work -= 1;
                    model.active.swap(at, at_work);
                }
            }
            passes += 1;
            if stop(self.visits - begun) {
                self.is_torn = true;
                break;
            }
            rest = met.most / model.terms.len() as f64;
            if met.sum <= wanted {
                if at_work == model.active.len() {
                    break;
                }
                (at_work, rest) = (model.active.len(), f64::INFINITY);
            }
        }
        passes
    }

    /// Coefficients that belong to the scores, and the share of them that meets all conditions of the dual:
    /// no column's sum is beyond 1.
    pub(super) fn feasible<M: Meaning<Real = T>>(
        &mut self,
        shared: &Shared<M>,
        columns: &Transposed,
    ) -> f64 {
        let Some(lasso) = &self.lasso else { return 1.0 };
        let mut betas = vec![0.0; lasso.scores.len()];
        for (row, ((y, c), score)) in lasso.sides.rows.iter().zip(&lasso.scores).enumerate() {
            if *c > 0.0 {
                let stored = T::of(shared.loss.stored(*y, *c, *score));
                self.coefficients[row] = stored;
                betas[row] = shared.loss.beta(*y, *c, stored.wide());
            }
        }
        let sum = |column| columns.column(column).map(|(row, x)| betas[row] * x).sum::<f64>();
        let most = (0..columns.columns()).map(|column| sum(column).abs()).fold(0.0, f64::max);
        1.0 / most.max(1.0)
    }
}

/// Violations that a pass met.
#[derive(Debug, Default)]
struct Met {
    sum: f64,
    most: f64,
}

impl Met {
    /// Takes note of a weight and its slope; whether it is at zero and further than `rest` from leaving.
    #[inline]
    fn note(&mut self, weight: f64, slope: f64, rest: f64) -> bool {
        let violation = if weight > 0.0 {
            (slope + 1.0).abs()
        } else if weight < 0.0 {
            (slope - 1.0).abs()
        } else {
            (slope.abs() - 1.0).max(0.0)
        };
        self.sum += violation;
        self.most = self.most.max(violation);
        weight == 0.0 && slope.abs() + rest < 1.0
    }
}

/// The second-order model of the cost around some weights, with their penalty.
#[derive(Debug)]
struct Model<'m> {
    columns: &'m Transposed,
    /// First and second derivative of every row's cost in its score.
    terms: &'m [(f64, f64)],
    /// Slope and curvature of every column.
    slopes: Vec<(f64, f64)>,
    from: Vec<f64>,
    to: Vec<f64>,
    /// Least curvature, as a share of the squares of a column.
    least: f64,
    /// Change of every row's score times its second derivative.
    pull: Vec<f64>,
    /// Columns that are not at rest.
    active: Vec<u32>,
}

impl<'m> Model<'m> {
    fn new(
        columns: &'m Transposed,
        terms: &'m [(f64, f64)],
        (from, least, rest): (Vec<f64>, f64, f64),
    ) -> (Self, Met) {
        let (mut met, mut active) = (Met::default(), Vec::new());
        let mut slopes = Vec::with_capacity(from.len());
        for (column, weight) in from.iter().enumerate() {
            let ridge = (least * columns.square(column)).max(f64::MIN_POSITIVE);
            let (mut slope, mut curve) = (0.0, ridge);
            for (row, x) in columns.column(column) {
                let (first, second) = terms[row];
                slope += first * x;
                curve += second * x * x;
            }
            slopes.push((slope, curve));
            if !met.note(*weight, slope, rest) {
                active.push(column as u32);
            }
        }
        let (to, pull) = (from.clone(), vec![0.0; terms.len()]);
        (Self { columns, terms, slopes, from, to, least, pull, active }, met)
    }

    /// Brings a weight to the best point of the model in it; says no where it was at rest.
    #[inline]
    fn visit(&mut self, column: usize, rest: f64, met: &mut Met) -> bool {
        let ((first, curve), weight) = (self.slopes[column], self.to[column]);
        let pulled: f64 = self.columns.column(column).map(|(row, x)| self.pull[row] * x).sum();
        let ridge = self.least * self.columns.square(column);
        let slope = first + pulled + ridge * (weight - self.from[column]);
        if met.note(weight, slope, rest) {
            return false;
        }
        let at = curve * weight;
        let new = if slope + 1.0 < at {
            weight - (slope + 1.0) / curve
        } else if slope - 1.0 > at {
            weight - (slope - 1.0) / curve
        } else {
            0.0
        };
        let change = new - weight;
        if change != 0.0 && change.is_finite() {
            self.to[column] = new;
            for (row, x) in self.columns.column(column) {
                self.pull[row] += self.terms[row].1 * change * x;
            }
        }
        true
    }

    /// The change of every row's score by the whole step.
    fn along(&self) -> Vec<f64> {
        let mut along = vec![0.0; self.terms.len()];
        for (column, (from, to)) in self.from.iter().zip(&self.to).enumerate() {
            if from != to {
                self.columns.column(column).for_each(|(row, x)| along[row] += (to - from) * x);
            }
        }
        along
    }
}

/// The first of 1, 1/2, 1/4, ... that brings enough, and the costs there; 0 where none does.
fn search<M: Meaning>(
    shared: &Shared<M>,
    lasso: &mut Lasso,
    along: &[f64],
    model: &Model<'_>,
) -> f64 {
    let changes = || model.from.iter().zip(&model.to);
    let sizes: f64 = changes().map(|(from, _)| from.abs()).sum();
    let promised = |(column, (from, to)): (usize, (&f64, &f64))| {
        model.slopes[column].0 * (to - from) + to.abs() - from.abs()
    };
    let promised: f64 = changes().enumerate().map(promised).sum();
    // Decreases below what rounding leaves of the sum cannot be told from none.
    let noise = 8.0 * f64::EPSILON * (lasso.costs.iter().sum::<f64>() + sizes);
    let (mut step, mut costs) = (1.0, lasso.costs.clone());
    for _ in 0..MOST_LINE {
        let mut gained: f64 =
            changes().map(|(from, to)| (from + step * (to - from)).abs() - from.abs()).sum();
        for (row, by) in along.iter().enumerate().filter(|(_, by)| **by != 0.0) {
            let (y, c) = lasso.sides.rows[row];
            costs[row] = shared.loss.cost(y, c, lasso.scores[row] + step * by);
            gained += costs[row] - lasso.costs[row];
        }
        if gained <= SUFFICIENT * step * promised + noise {
            lasso.costs = costs;
            return step;
        }
        step *= 0.5;
    }
    0.0
}
