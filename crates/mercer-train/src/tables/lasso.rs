//! Descent over the weights for penalties on the sum of their sizes.

use std::mem::{swap, take};

use mercer_simd::Isa;
use mercer_simd::factors::{Encoding, Float};

use super::Loss;
use super::model::{Model, Terms};
use super::newton::balance;
use super::part::{End, Part, Shared};
use super::transposed::Transposed;

/// Where the descent stands.
#[derive(Debug)]
pub(super) struct Lasso {
    /// The score of every row.
    pub(super) scores: Vec<f64>,
    at: Costs,
    /// Violations of the first step, summed.
    pub(super) first: f64,
    sides: Sides,
    room: Room,
}

/// What does not change: target and C of every row, 0 for those not asked about, and how balanced they are.
#[derive(Debug)]
struct Sides {
    targets: Vec<f64>,
    penalties: Vec<f64>,
    balance: f64,
}

/// What every row costs at its score, and the size of the slope at C = 1.
#[derive(Debug, Default)]
struct Costs {
    costs: Vec<f64>,
    slopes: Vec<f64>,
}

/// Memory that every step uses again.
#[derive(Debug, Default)]
struct Room {
    scores: Vec<f64>,
    margins: Vec<f64>,
    at: Costs,
    terms: Terms,
    moves: Vec<[f64; 2]>,
    active: Vec<u32>,
}

/// The share of a step's violations that are left in its model.
const LEFT: f64 = 0.5;
/// The share of the violations that end the descent which is left in a model at least.
const LEFT_AT_END: f64 = 0.7;
/// Halvings of one step.
const MOST_LINE: usize = 40;
/// The share of the promised decrease that a step must bring.
const SUFFICIENT: f64 = 0.01;
/// What a model's curvature has of the largest possible at least.
const LEAST_CURVE: f64 = 1e-12;

impl Lasso {
    /// At these scores; a descent that has not begun has no `first`.
    pub(super) fn new<M: Encoding>(
        shared: &Shared<M>,
        part: &Part<M::Real>,
        scores: Vec<f64>,
        first: f64,
    ) -> Self {
        let (mut targets, mut penalties) = (vec![1.0; scores.len()], vec![0.0; scores.len()]);
        let (mut plus, mut all) = (0.0, 0.0);
        shared.store.heads(|row| {
            if part.ask.takes(&shared.folds, row) {
                let (y, c) = (part.target(shared, row), Part::row_c(shared, row));
                (targets[row.row as usize], penalties[row.row as usize]) = (y, c);
                plus += if y > 0.0 { c } else { 0.0 };
                all += c;
            }
        });
        let balance = balance(plus, all, scores.len());
        let (sides, mut room) = (Sides { targets, penalties, balance }, Room::default());
        let mut at = Costs::default();
        at.find(shared.isa, shared.loss, &sides, (&scores, &mut room.margins));
        Self { scores, at, first, sides, room }
    }

    /// First and second derivative of every row's cost in its score.
    fn terms(&self, loss: Loss) -> impl ExactSizeIterator<Item = [f64; 2]> + '_ {
        let sides = self.sides.targets.iter().zip(&self.sides.penalties);
        sides
            .zip(&self.at.slopes)
            .map(move |((y, c), slope)| [-y * (c * slope), c * loss.curve(*slope)])
    }
}

impl Costs {
    fn find(
        &mut self,
        isa: Isa,
        loss: Loss,
        sides: &Sides,
        (scores, margins): (&[f64], &mut Vec<f64>),
    ) {
        margins.clear();
        margins.extend(scores.iter().zip(&sides.targets).map(|(score, y)| y * score));
        self.costs.resize(scores.len(), 0.0);
        self.slopes.resize(scores.len(), 0.0);
        loss.at(isa, margins, &mut self.costs, &mut self.slopes);
        self.costs.iter_mut().zip(&sides.penalties).for_each(|(cost, c)| *cost *= c);
    }
}

impl<T: Float> Part<T> {
    /// One step of newGLMNET (\[YHL12\]) on `Σ |w| + Σ c ℓ(f, y)`: coordinate descent over the columns of the
    /// second-order model, columns at rest left out, and a search along what it finds.
    ///
    /// Ends at LIBLINEAR's rule: the sum of the violations, relative to the first and to the smaller class, is
    /// within the tolerance.
    pub(super) fn lasso_step<M: Encoding<Real = T>>(
        &mut self,
        shared: &Shared<M>,
        columns: &Transposed,
        stop: &dyn Fn(u64) -> bool,
    ) {
        self.is_torn = false;
        let mut lasso = self
            .lasso
            .take()
            .unwrap_or_else(|| Lasso::new(shared, self, vec![0.0; shared.store.rows()], 0.0));
        let (mut terms, moves) = (take(&mut lasso.room.terms), take(&mut lasso.room.moves));
        let mut active = take(&mut lasso.room.active);
        terms.renew(lasso.terms(shared.loss));
        let (from, least) = (self.all_weights(), LEAST_CURVE * shared.loss.c());
        let rest = self.before.high.to_f64() / shared.store.rows() as f64;
        let met = terms.look(columns, &from, (least, rest), &mut active);
        if self.passes == 0 {
            lasso.first = met.sum.max(f64::MIN_POSITIVE);
        }
        self.before.high = T::from_f64(met.most);
        let whole = lasso.first * lasso.sides.balance;
        self.violation = met.sum / lasso.first / lasso.sides.balance;
        if self.violation <= shared.tolerance {
            self.end = Some(End::Optimal);
            self.lasso = Some(lasso);
            return;
        }
        let mut model = Model::new(columns, &terms, (from, least), (active, moves));
        let wanted = (LEFT * met.sum).max(LEFT_AT_END * shared.tolerance * whole);
        let (mut made, is_torn) = (0, &mut self.is_torn);
        model.descend(wanted, &mut self.random, |visits| {
            made += visits;
            *is_torn = stop(made);
            !*is_torn
        });
        self.visits += made;
        let step = search(shared, &mut lasso, &model);
        // A whole step ends at zero where the model does.
        let reach =
            |(from, to): (&f64, &f64)| if step == 1.0 { *to } else { from + step * (to - from) };
        let weights: Vec<f64> = model.from.iter().zip(&model.to).map(reach).collect();
        self.take_weights(&weights);
        self.passes += 1;
        if self.passes >= shared.passes || step == 0.0 {
            self.end = Some(End::Stopped(crate::Stop::Stalled));
        }
        (lasso.room.moves, lasso.room.active) = (model.moves, model.active);
        lasso.room.terms = terms;
        self.lasso = Some(lasso);
    }

    /// The constant's last.
    fn all_weights(&self) -> Vec<f64> {
        let weights = self.weights.values().iter().map(|weight| weight.to_f64());
        weights.chain([self.constant.weight.to_f64()]).collect()
    }

    fn take_weights(&mut self, weights: &[f64]) {
        let (constant, rest) = weights.split_last().expect("the constant has a weight");
        self.constant.weight = T::from_f64(*constant);
        for (place, weight) in self.weights.values_mut().iter_mut().zip(rest) {
            *place = T::from_f64(*weight);
        }
    }

    /// The score of every row by the weights as they are.
    pub(super) fn scores_by(&self, columns: &Transposed, rows: usize) -> Vec<f64> {
        let mut scores = vec![0.0; rows];
        for (column, weight) in self.all_weights().into_iter().enumerate() {
            if weight != 0.0 {
                columns.each(column, |row, x| scores[row] += weight * x);
            }
        }
        scores
    }

    /// Coefficients that belong to the scores, and the share of them that meets all conditions of the dual:
    /// no column's sum is beyond 1.
    pub(super) fn feasible<M: Encoding<Real = T>>(
        &mut self,
        shared: &Shared<M>,
        columns: &Transposed,
    ) -> f64 {
        let Some(lasso) = &self.lasso else { return 1.0 };
        let mut betas = vec![0.0; lasso.scores.len()];
        let sides = lasso.sides.targets.iter().zip(&lasso.sides.penalties);
        for (row, ((y, c), score)) in sides.zip(&lasso.scores).enumerate() {
            if *c > 0.0 {
                let stored = T::from_f64(shared.loss.stored(*y, *c, *score));
                self.coefficients[row] = stored;
                betas[row] = shared.loss.beta(*y, *c, stored.to_f64());
            }
        }
        let sum = |column| columns.sum(column, |row, x| [betas[row] * x])[0];
        let most = (0..columns.columns()).map(|column| sum(column).abs()).fold(0.0, f64::max);
        1.0 / most.max(1.0)
    }
}

/// Goes to the first of 1, 1/2, 1/4, ... that brings enough and returns it; 0 where none does.
fn search<M: Encoding>(shared: &Shared<M>, lasso: &mut Lasso, model: &Model<'_>) -> f64 {
    let changes = || model.from.iter().zip(&model.to);
    let sizes: f64 = changes().map(|(from, _)| from.abs()).sum();
    let promised = |column: &u32| {
        let column = *column as usize;
        let (from, to) = (model.from[column], model.to[column]);
        model.terms.slope(column) * (to - from) + to.abs() - from.abs()
    };
    let promised: f64 = model.active.iter().map(promised).sum();
    // Decreases below what rounding leaves of the sum cannot be told from none.
    let noise = 8.0 * f64::EPSILON * (lasso.at.costs.iter().sum::<f64>() + sizes);
    let (mut step, room) = (1.0, &mut lasso.room);
    for _ in 0..MOST_LINE {
        let moved = lasso.scores.iter().zip(&model.moves);
        room.scores.clear();
        room.scores.extend(moved.map(|(score, [_, by])| score + step * by));
        room.at.find(shared.isa, shared.loss, &lasso.sides, (&room.scores, &mut room.margins));
        let sized = |(from, to): (&f64, &f64)| (from + step * (to - from)).abs() - from.abs();
        let costs = room.at.costs.iter().zip(&lasso.at.costs);
        let gained =
            changes().map(sized).sum::<f64>() + costs.map(|(new, old)| new - old).sum::<f64>();
        if gained <= SUFFICIENT * step * promised + noise {
            swap(&mut lasso.scores, &mut room.scores);
            swap(&mut lasso.at, &mut room.at);
            return step;
        }
        step *= 0.5;
    }
    0.0
}
