//! Newton's method on the primal, for smooth losses.
//! For `space=primal`; the default is dual coordinate descent (`dual`), the L1 penalty has `lasso`.

use mercer_simd::factors::{
    BiasColumn, EncodedRows, Encoding, Float, LinearFunction, RowHead, Weights, accumulate,
    curvature, squares, values,
};

use super::subproblem::{LinearProblem, SubproblemState, Termination};

/// The state of Newton's method.
#[derive(Debug)]
pub(super) struct Newton {
    /// The score of every row.
    pub(super) scores: Vec<f64>,
    /// Norm of the first gradient.
    pub(super) first: f64,
    /// The gradient in the weights, the constant's last.
    pub(super) gradient: Vec<f64>,
}

/// Steps of conjugate gradients in one of Newton's.
const MOST_INNER: usize = 200;
/// Halvings and steps of one line search.
const MOST_LINE: usize = 40;

impl<T: Float> SubproblemState<T> {
    /// One step of Newton's method on `½|w|² + Σ c ℓ(f, y)` (\[KD05\] for the squared hinge; the equations by
    /// conjugate gradients, scaled by the diagonal, as in \[LWK08\]) and an exact search along it.
    ///
    /// Ends at LIBLINEAR's rule: the norm of the gradient, relative to the first and to the smaller class, is
    /// within the tolerance.
    pub(super) fn newton_step<M: Encoding<Real = T>>(&mut self, problem: &LinearProblem<M>) {
        let mut newton = match self.newton.take() {
            Some(newton) => newton,
            None => self.newton_start(problem),
        };
        let (terms, balance) = self.terms(problem, &newton.scores);
        self.gradient(problem, &terms, &mut newton.gradient);
        let length = norm(&newton.gradient);
        if self.passes == 0 {
            newton.first = length.max(f64::MIN_POSITIVE);
        }
        self.violation = length / newton.first / balance;
        if self.violation <= problem.tolerance || length == 0.0 {
            self.take_coefficients(problem, &newton.scores);
            self.termination = Some(Termination::Optimal);
            self.newton = Some(newton);
            return;
        }
        let wanted = length * (length / newton.first).sqrt().min(0.1);
        let direction = self.direction(problem, &terms, &newton.gradient, wanted);
        let along = Self::scores_of(problem, &direction);
        let step = self.search(problem, &newton.scores, &along, &direction);
        let columns = direction.len() - 1;
        for (weight, by) in self.weights.values_mut().iter_mut().zip(&direction) {
            *weight = T::from_f64(weight.to_f64() + step * by);
        }
        self.bias.weight = T::from_f64(self.bias.weight.to_f64() + step * direction[columns]);
        newton.scores.iter_mut().zip(&along).for_each(|(score, by)| *score += step * by);
        self.passes += 1;
        self.updates += 1;
        if self.passes >= problem.passes || step == 0.0 {
            self.take_coefficients(problem, &newton.scores);
            self.termination = Some(Termination::Stopped(crate::Stop::Stalled));
        }
        self.newton = Some(newton);
    }

    fn newton_start<M: Encoding<Real = T>>(&self, problem: &LinearProblem<M>) -> Newton {
        let scores = vec![0.0; problem.store.rows()];
        let gradient = vec![0.0; self.weights.values().len() + 1];
        Newton { scores, first: 1.0, gradient }
    }

    /// First and second derivative of every row's cost in its score, and how balanced the sides are.
    fn terms<M: Encoding<Real = T>>(
        &self,
        problem: &LinearProblem<M>,
        scores: &[f64],
    ) -> (Vec<(f64, f64)>, f64) {
        let mut terms = vec![(0.0, 0.0); scores.len()];
        let (mut plus, mut all) = (0.0, 0.0);
        problem.store.heads(|row| {
            if self.selection.trains_on(&problem.folds, row) {
                let (y, c) = (self.target(problem, row), Self::row_c(problem, row));
                let at = row.row as usize;
                terms[at] = problem.loss.derivatives(y, c, scores[at]);
                // Weights count as copies.
                plus += if y > 0.0 { c } else { 0.0 };
                all += c;
            }
        });
        (terms, balance(plus, all, scores.len()))
    }

    /// `w + Σ ℓ' x`.
    fn gradient<M: Encoding<Real = T>>(
        &self,
        problem: &LinearProblem<M>,
        terms: &[(f64, f64)],
        gradient: &mut [f64],
    ) {
        let columns = gradient.len() - 1;
        for (place, weight) in gradient.iter_mut().zip(self.weights.values()) {
            *place = weight.to_f64();
        }
        problem.store.each(|_, records| {
            let first = |row: RowHead| terms[row.row as usize].0;
            let rows = EncodedRows { records, encoding: &problem.encoding };
            accumulate(problem.isa, rows, &first, &mut gradient[..columns]);
        });
        let total: f64 = terms.iter().map(|(first, _)| first).sum();
        gradient[columns] = self.bias.weight.to_f64() + problem.bias.to_f64() * total;
    }

    /// `H d = -gradient` until the rest is `wanted`, `H = I + X' diag(ℓ'') X`.
    fn direction<M: Encoding<Real = T>>(
        &self,
        problem: &LinearProblem<M>,
        terms: &[(f64, f64)],
        gradient: &[f64],
        wanted: f64,
    ) -> Vec<f64> {
        let scale = self.diagonal(problem, terms);
        let mut solution = vec![0.0; gradient.len()];
        let mut rest: Vec<f64> = gradient.iter().map(|x| -x).collect();
        let mut scaled: Vec<f64> = rest.iter().zip(&scale).map(|(r, s)| r / s).collect();
        let mut direction = scaled.clone();
        let mut product = dot(&rest, &scaled);
        for _ in 0..MOST_INNER {
            let image = Self::hessian(problem, terms, &direction);
            let step = product / dot(&direction, &image);
            if !step.is_finite() {
                break;
            }
            solution.iter_mut().zip(&direction).for_each(|(x, d)| *x += step * d);
            rest.iter_mut().zip(&image).for_each(|(r, h)| *r -= step * h);
            if norm(&rest) <= wanted {
                break;
            }
            scaled.iter_mut().zip(rest.iter().zip(&scale)).for_each(|(z, (r, s))| *z = r / s);
            let next = dot(&rest, &scaled);
            let keep = next / product;
            product = next;
            direction.iter_mut().zip(&scaled).for_each(|(d, z)| *d = z + keep * *d);
        }
        solution
    }

    /// `H` times a direction.
    fn hessian<M: Encoding<Real = T>>(
        problem: &LinearProblem<M>,
        terms: &[(f64, f64)],
        direction: &[f64],
    ) -> Vec<f64> {
        let columns = direction.len() - 1;
        let mut image = direction.to_vec();
        let (weights, constant) = Self::as_weights(problem, direction);
        let factor = |row: RowHead| terms[row.row as usize].1;
        let (function, mut total) = (LinearFunction { weights: &weights, bias: &constant }, 0.0);
        problem.store.each(|_, records| {
            let rows = EncodedRows { records, encoding: &problem.encoding };
            total += curvature(problem.isa, rows, function, &factor, &mut image[..columns]);
        });
        image[columns] += problem.bias.to_f64() * total;
        image
    }

    /// The diagonal of H, from the squares of the values.
    fn diagonal<M: Encoding<Real = T>>(
        &self,
        problem: &LinearProblem<M>,
        terms: &[(f64, f64)],
    ) -> Vec<f64> {
        let columns = self.weights.values().len();
        let mut sums = vec![1.0; columns + 1];
        let factor = |row: RowHead| terms[row.row as usize].1;
        problem.store.each(|_, records| {
            let rows = EncodedRows { records, encoding: &problem.encoding };
            squares(problem.isa, rows, &factor, &mut sums[..columns]);
        });
        let total: f64 = terms.iter().map(|(_, second)| second).sum();
        sums[columns] += problem.bias.to_f64().powi(2) * total;
        sums
    }

    fn as_weights<M: Encoding<Real = T>>(
        problem: &LinearProblem<M>,
        numbers: &[f64],
    ) -> (Weights<T>, BiasColumn<T>) {
        let columns = numbers.len() - 1;
        let mut weights = Weights::zeroed(columns, 1);
        weights.values_mut().iter_mut().zip(numbers).for_each(|(w, x)| *w = T::from_f64(*x));
        (weights, BiasColumn { value: problem.bias, weight: T::from_f64(numbers[columns]) })
    }

    fn scores_of<M: Encoding<Real = T>>(problem: &LinearProblem<M>, numbers: &[f64]) -> Vec<f64> {
        let (weights, constant) = Self::as_weights(problem, numbers);
        let mut scores = vec![0.0; problem.store.rows()];
        let mut see = |row: RowHead, value: T| scores[row.row as usize] = value.to_f64();
        problem.store.each(|_, records| {
            let rows = EncodedRows { records, encoding: &problem.encoding };
            let function = LinearFunction { weights: &weights, bias: &constant };
            values(problem.isa, rows, function, &mut see);
        });
        scores
    }

    /// The best length of a step: the derivative of a convex function along a line is zero there.
    fn search<M: Encoding<Real = T>>(
        &self,
        problem: &LinearProblem<M>,
        scores: &[f64],
        along: &[f64],
        direction: &[f64],
    ) -> f64 {
        let columns = direction.len() - 1;
        let weights = self.weights.values().iter().map(|w| w.to_f64());
        let cross = weights.zip(direction).map(|(w, d)| w * d).sum::<f64>()
            + self.bias.weight.to_f64() * direction[columns];
        let square = dot(direction, direction);
        let at = |step: f64| {
            let (mut first, mut second) = (cross + step * square, square);
            problem.store.heads(|row| {
                let place = row.row as usize;
                if along[place] != 0.0 && self.selection.trains_on(&problem.folds, row) {
                    let (y, c) = (self.target(problem, row), Self::row_c(problem, row));
                    let score = step.mul_add(along[place], scores[place]);
                    let (slope, curve) = problem.loss.derivatives(y, c, score);
                    first += slope * along[place];
                    second += curve * along[place] * along[place];
                }
            });
            (first, second)
        };
        let begin = at(0.0).0;
        if begin >= 0.0 {
            return 0.0;
        }
        let (mut low, mut high, mut step) = (0.0f64, f64::INFINITY, 1.0f64);
        for _ in 0..MOST_LINE {
            let (first, second) = at(step);
            if first.abs() <= 0.01 * begin.abs() {
                break;
            }
            if first < 0.0 {
                low = step;
            } else {
                high = step;
            }
            let guess = step - first / second;
            step = if guess > low && guess < high {
                guess
            } else if high.is_finite() {
                f64::midpoint(low, high)
            } else {
                2.0 * step
            };
        }
        step
    }

    /// The dual point that belongs to the scores.
    fn take_coefficients<M: Encoding<Real = T>>(
        &mut self,
        problem: &LinearProblem<M>,
        scores: &[f64],
    ) {
        let mut coefficients = std::mem::take(&mut self.coefficients);
        problem.store.heads(|row| {
            if self.selection.trains_on(&problem.folds, row) {
                let (y, c) = (self.target(problem, row), Self::row_c(problem, row));
                let at = row.row as usize;
                coefficients[at] = T::from_f64(problem.loss.stored(y, c, scores[at]));
            }
        });
        self.coefficients = coefficients;
    }
}

/// The share of the smaller side, that of one row at least.
pub(super) fn balance(plus: f64, all: f64, rows: usize) -> f64 {
    (plus.min(all - plus).max(all / rows as f64) / all).min(1.0)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}
