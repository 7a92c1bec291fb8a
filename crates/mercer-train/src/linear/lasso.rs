//! Coordinate descent over the weights for the L1 penalty (newGLMNET).
//! The second-order model of each step is in `quadratic_model`; without the penalty see `newton` and `dual`.

use std::mem::{swap, take};

use mercer_simd::Isa;
use mercer_simd::factors::{Encoding, Float};

use super::Loss;
use super::newton::balance;
use super::quadratic_model::{Buffers, LossDerivatives, QuadraticModel, Shrinking};
use super::subproblem::{LinearProblem, SubproblemState, Termination};
use super::transposed::Transposed;

/// The state of the descent.
#[derive(Debug)]
pub(super) struct Lasso {
    /// The score of every row.
    pub(super) scores: Vec<f64>,
    at: Costs,
    /// Violations of the first step, summed.
    pub(super) first: f64,
    sides: RowTargets,
    workspace: Workspace,
}

/// What does not change: target and C of every row, 0 for rows that are not trained on, and the class balance.
#[derive(Debug)]
struct RowTargets {
    targets: Vec<f64>,
    penalties: Vec<f64>,
    balance: f64,
}

/// The cost of every row at its score, and the absolute derivative at C = 1.
#[derive(Debug, Default)]
struct Costs {
    costs: Vec<f64>,
    slopes: Vec<f64>,
}

/// Buffers that every step uses again.
#[derive(Debug, Default)]
struct Workspace {
    scores: Vec<f64>,
    margins: Vec<f64>,
    at: Costs,
    terms: LossDerivatives,
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
        problem: &LinearProblem<M>,
        state: &SubproblemState<M::Real>,
        scores: Vec<f64>,
        first: f64,
    ) -> Self {
        let (mut targets, mut penalties) = (vec![1.0; scores.len()], vec![0.0; scores.len()]);
        let (mut plus, mut all) = (0.0, 0.0);
        problem.store.heads(|row| {
            if state.selection.trains_on(&problem.folds, row) {
                let (y, c) = (state.target(problem, row), SubproblemState::row_c(problem, row));
                (targets[row.row as usize], penalties[row.row as usize]) = (y, c);
                plus += if y > 0.0 { c } else { 0.0 };
                all += c;
            }
        });
        let balance = balance(plus, all, scores.len());
        let (sides, mut workspace) =
            (RowTargets { targets, penalties, balance }, Workspace::default());
        let mut at = Costs::default();
        at.find(problem.isa, problem.loss, &sides, &scores, &mut workspace.margins);
        Self { scores, at, first, sides, workspace }
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
        sides: &RowTargets,
        scores: &[f64],
        margins: &mut Vec<f64>,
    ) {
        margins.clear();
        margins.extend(scores.iter().zip(&sides.targets).map(|(score, y)| y * score));
        self.costs.resize(scores.len(), 0.0);
        self.slopes.resize(scores.len(), 0.0);
        loss.at(isa, margins, &mut self.costs, &mut self.slopes);
        self.costs.iter_mut().zip(&sides.penalties).for_each(|(cost, c)| *cost *= c);
    }
}

impl<T: Float> SubproblemState<T> {
    /// One step of newGLMNET (\[YHL12\]) on `Σ |w| + Σ c ℓ(f, y)`: coordinate descent over the columns of the
    /// second-order model, shrunk columns left out, and a search along what it finds.
    ///
    /// Ends at LIBLINEAR's rule: the sum of the violations, relative to the first and to the smaller class, is
    /// within the tolerance.
    pub(super) fn lasso_step<M: Encoding<Real = T>>(
        &mut self,
        problem: &LinearProblem<M>,
        columns: &Transposed,
        stop: &dyn Fn(u64) -> bool,
    ) {
        self.is_interrupted = false;
        let mut lasso = self
            .lasso
            .take()
            .unwrap_or_else(|| Lasso::new(problem, self, vec![0.0; problem.store.rows()], 0.0));
        let (mut terms, moves) =
            (take(&mut lasso.workspace.terms), take(&mut lasso.workspace.moves));
        let mut active = take(&mut lasso.workspace.active);
        terms.renew(lasso.terms(problem.loss));
        let (from, least) = (self.all_weights(), LEAST_CURVE * problem.loss.c());
        let rest = self.last_range.high.to_f64() / problem.store.rows() as f64;
        let violations = terms.scan(columns, &from, Shrinking { least, rest }, &mut active);
        if self.passes == 0 {
            lasso.first = violations.sum.max(f64::MIN_POSITIVE);
        }
        self.last_range.high = T::from_f64(violations.most);
        let whole = lasso.first * lasso.sides.balance;
        self.violation = violations.sum / lasso.first / lasso.sides.balance;
        if self.violation <= problem.tolerance {
            self.termination = Some(Termination::Optimal);
            self.lasso = Some(lasso);
            return;
        }
        let mut model =
            QuadraticModel::new(columns, &terms, from, least, Buffers { active, moves });
        let wanted = (LEFT * violations.sum).max(LEFT_AT_END * problem.tolerance * whole);
        let (mut made, is_interrupted) = (0, &mut self.is_interrupted);
        model.descend(wanted, &mut self.random, |updates| {
            made += updates;
            *is_interrupted = stop(made);
            !*is_interrupted
        });
        self.updates += made;
        let step = search(problem, &mut lasso, &model);
        // A whole step ends at zero where the model does.
        let reach =
            |(from, to): (&f64, &f64)| if step == 1.0 { *to } else { from + step * (to - from) };
        let weights: Vec<f64> = model.from.iter().zip(&model.to).map(reach).collect();
        self.take_weights(&weights);
        self.passes += 1;
        if self.passes >= problem.passes || step == 0.0 {
            self.termination = Some(Termination::Stopped(crate::Stop::Stalled));
        }
        (lasso.workspace.moves, lasso.workspace.active) = (model.moves, model.active);
        lasso.workspace.terms = terms;
        self.lasso = Some(lasso);
    }

    /// The constant's last.
    fn all_weights(&self) -> Vec<f64> {
        let weights = self.weights.values().iter().map(|weight| weight.to_f64());
        weights.chain([self.bias.weight.to_f64()]).collect()
    }

    fn take_weights(&mut self, weights: &[f64]) {
        let (constant, rest) = weights.split_last().expect("the constant has a weight");
        self.bias.weight = T::from_f64(*constant);
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
        problem: &LinearProblem<M>,
        columns: &Transposed,
    ) -> f64 {
        let Some(lasso) = &self.lasso else { return 1.0 };
        let mut betas = vec![0.0; lasso.scores.len()];
        let sides = lasso.sides.targets.iter().zip(&lasso.sides.penalties);
        for (row, ((y, c), score)) in sides.zip(&lasso.scores).enumerate() {
            if *c > 0.0 {
                let stored = T::from_f64(problem.loss.stored(*y, *c, *score));
                self.coefficients[row] = stored;
                betas[row] = problem.loss.beta(*y, *c, stored.to_f64());
            }
        }
        let sum = |column| columns.sum(column, |row, x| [betas[row] * x])[0];
        let most = (0..columns.columns()).map(|column| sum(column).abs()).fold(0.0, f64::max);
        1.0 / most.max(1.0)
    }
}

/// Goes to the first of 1, 1/2, 1/4, ... that brings enough and returns it; 0 where none does.
fn search<M: Encoding>(
    problem: &LinearProblem<M>,
    lasso: &mut Lasso,
    model: &QuadraticModel<'_>,
) -> f64 {
    let changes = || model.from.iter().zip(&model.to);
    let sizes: f64 = changes().map(|(from, _)| from.abs()).sum();
    let promised = |column: &u32| {
        let column = *column as usize;
        let (from, to) = (model.from[column], model.to[column]);
        model.terms.slope(column) * (to - from) + to.abs() - from.abs()
    };
    let promised: f64 = model.active.iter().map(promised).sum();
    // Decreases below the rounding of the sum are not significant.
    let noise = 8.0 * f64::EPSILON * (lasso.at.costs.iter().sum::<f64>() + sizes);
    let (mut step, workspace) = (1.0, &mut lasso.workspace);
    for _ in 0..MOST_LINE {
        let moved = lasso.scores.iter().zip(&model.moves);
        workspace.scores.clear();
        workspace.scores.extend(moved.map(|(score, [_, by])| score + step * by));
        workspace.at.find(
            problem.isa,
            problem.loss,
            &lasso.sides,
            &workspace.scores,
            &mut workspace.margins,
        );
        let sized = |(from, to): (&f64, &f64)| (from + step * (to - from)).abs() - from.abs();
        let costs = workspace.at.costs.iter().zip(&lasso.at.costs);
        let gained =
            changes().map(sized).sum::<f64>() + costs.map(|(new, old)| new - old).sum::<f64>();
        if gained <= SUFFICIENT * step * promised + noise {
            swap(&mut lasso.scores, &mut workspace.scores);
            swap(&mut lasso.at, &mut workspace.at);
            return step;
        }
        step *= 0.5;
    }
    0.0
}
