//! The solution of one subproblem: weights summed again from the coefficients, and objective and gap computed from them.
//! How the coefficients are found is in [`super::subproblem`]; how weights become scores in [`super::scores`].

use mercer_simd::factors::{
    EncodedRows, Encoding, Float, LinearFunction, RowHead, Weights, accumulate, values,
};

use super::subproblem::{LinearProblem, SubproblemState, Termination};
use crate::Stop;

/// The solution of one subproblem.
#[derive(Debug, Clone)]
pub(crate) struct SubproblemSolution<T> {
    pub(crate) weights: Vec<T>,
    pub(crate) offset: f64,
    pub(super) objective: f64,
    pub(super) gap: f64,
    pub(super) violation: f64,
    pub(super) supports: usize,
    pub(super) bounded: usize,
    pub(super) updates: u64,
    pub(super) termination: Termination,
    /// Coefficients as they are stored, of all rows, for a warm start.
    pub(super) coefficients: Vec<T>,
    /// Scores of the rows of the fold that is held out.
    pub(super) held_out: Vec<(u32, f64)>,
}

impl<T> SubproblemSolution<T> {
    /// Why it ended early, if it did.
    pub(super) fn stop(&self) -> Option<Stop> {
        match self.termination {
            Termination::Stopped(stop) => Some(stop),
            Termination::Optimal => None,
        }
    }
}

impl<T: Float> SubproblemState<T> {
    /// Recomputes the weights from the coefficients, summed in f64; returns `|w|²`.
    pub(super) fn recompute<M: Encoding<Real = T>>(&mut self, problem: &LinearProblem<M>) -> f64 {
        let rank = problem.encoding.rank();
        let mut sums = Weights::<f64>::zeroed(problem.store.columns(), rank);
        let sums = sums.values_mut();
        let beta = |row: RowHead| {
            let stored = self.coefficients[row.row as usize].to_f64();
            if stored == 0.0 {
                return 0.0;
            }
            let (y, c) = (self.target(problem, row), Self::row_c(problem, row));
            problem.loss.beta(y, c, stored)
        };
        let total = std::cell::Cell::new(0.0);
        let counted = |row: RowHead| {
            let beta = beta(row);
            total.set(total.get() + beta);
            beta
        };
        problem.store.each(|_, records| {
            let rows = EncodedRows { records, encoding: &problem.encoding };
            accumulate(problem.isa, rows, &counted, sums);
        });
        let constant = total.get() * problem.bias.to_f64();
        self.bias.weight = T::from_f64(constant);
        for (place, sum) in self.weights.values_mut().iter_mut().zip(&*sums) {
            *place = T::from_f64(*sum);
        }
        problem.encoding.squared_norm(sums) + constant * constant
    }

    /// `|w - gradient|²`: of the weights that the coefficients make.
    fn dual_norm(&self, gradient: &[f64]) -> f64 {
        let constant = self.bias.weight.to_f64() - gradient[gradient.len() - 1];
        let weights = self.weights.values().iter().zip(gradient).map(|(w, g)| w.to_f64() - g);
        weights.map(|w| w * w).sum::<f64>() + constant * constant
    }

    /// The penalty of the weights, and the term of the dual that corresponds to it; `recomputed` is `|w|²` of the
    /// coefficients.
    fn penalty<M: Encoding<Real = T>>(
        &self,
        problem: &LinearProblem<M>,
        recomputed: Option<f64>,
    ) -> (f64, f64) {
        let weights: Vec<f64> = self.weights.values().iter().map(|w| w.to_f64()).collect();
        let constant = self.bias.weight.to_f64();
        if problem.transposed.is_some() {
            return (weights.iter().map(|w| w.abs()).sum::<f64>() + constant.abs(), 0.0);
        }
        let stored = problem.encoding.squared_norm(&weights) + constant.powi(2);
        // Newton's gradient is the difference of the weights and those that the coefficients make.
        let summed = match &self.newton {
            Some(newton) => self.dual_norm(&newton.gradient),
            None => recomputed.unwrap_or(stored),
        };
        (0.5 * stored, 0.5 * summed)
    }

    /// Recomputes the weights, and the gap between the cost of the weights as they will be stored and the dual of
    /// the coefficients.
    pub(super) fn into_solution<M: Encoding<Real = T>>(
        mut self,
        problem: &LinearProblem<M>,
        stop: Option<Stop>,
    ) -> SubproblemSolution<T> {
        // Running sums drift in f32; in f64 they are as good as recomputed ones.
        let recomputed = (T::BYTES < size_of::<f64>()).then(|| self.recompute(problem));
        let columns = problem.transposed.as_ref();
        let share = columns.map_or(1.0, |columns| self.feasible(problem, columns));
        let (mut cost, mut gain, mut supports, mut bounded) = (0.0, 0.0, 0, 0);
        let mut held_out = Vec::new();
        let state = &self;
        let mut see = |row: RowHead, value: T| {
            if state.selection.holds_out(&problem.folds, row) {
                held_out.push((row.row, value.to_f64()));
            }
            if !state.selection.trains_on(&problem.folds, row) {
                return;
            }
            let stored = state.coefficients[row.row as usize].to_f64();
            let (y, c) = (state.target(problem, row), Self::row_c(problem, row));
            cost += problem.loss.cost(y, c, value.to_f64());
            gain += problem.loss.gain(y, c, problem.loss.shrunk(y, c, stored, share));
            supports += usize::from(stored != 0.0);
            bounded += usize::from(stored.abs() >= c);
        };
        if let Some(columns) = columns {
            let scores = self.scores_by(columns, problem.store.rows());
            problem.store.heads(|row| see(row, T::from_f64(scores[row.row as usize])));
        } else {
            problem.store.each(|_, records| {
                let rows = EncodedRows { records, encoding: &problem.encoding };
                let function = LinearFunction { weights: &self.weights, bias: &self.bias };
                values(problem.isa, rows, function, &mut see);
            });
        }
        let (penalty, summed) = self.penalty(problem, recomputed);
        let dual = gain - summed;
        let gap = if problem.has_dual_objective { penalty + cost - dual } else { f64::NAN };
        SubproblemSolution {
            weights: self.weights.values().to_vec(),
            offset: -self.bias.weight.to_f64() * problem.bias.to_f64(),
            objective: -dual,
            gap,
            violation: self.violation,
            supports,
            bounded,
            updates: self.updates,
            termination: self
                .termination
                .or(stop.map(Termination::Stopped))
                .unwrap_or(Termination::Optimal),
            coefficients: self.coefficients,
            held_out,
        }
    }
}
