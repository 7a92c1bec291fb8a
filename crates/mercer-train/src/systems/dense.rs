//! Linear systems over all kernel values at once: Cholesky, and refinement of the solution.
//! For more examples than memory holds pairs of, see `factored`.

use mercer_kernel::block::{BLOCK, Packed};
use mercer_kernel::cholesky::{Cholesky, CholeskyError, dot};
use mercer_simd::Isa;
use rayon::prelude::*;

use super::{GroupSolution, System, SystemGroup, SystemReport, SystemSolution, go_on, scale_of};
use crate::control::Control;
use crate::gram::Source;
use crate::{Expansion, TrainError};

/// Rounds of refinement; each reduces the error as far as the condition number allows in f64.
const ROUNDS: usize = 4;
/// Errors of the equations beyond this, relative to the largest target, are refined.
const ENOUGH: f64 = 1e-12;

pub(super) fn solve(
    source: &Source<'_>,
    group: &SystemGroup<'_>,
    control: &mut Control<'_>,
) -> Result<GroupSolution, TrainError> {
    let size = group.examples.len();
    let ridge = &group.systems[0].ridge;
    let mut values = square(source, group.examples);
    let diagonal: Vec<f64> = (0..size).map(|at| values[at * size + at]).collect();
    ridge.iter().enumerate().for_each(|(at, ridge)| values[at * size + at] += ridge);
    let refused = |refusal: CholeskyError, control: &Control<'_>| match (refusal, control.stop()) {
        (CholeskyError::Cancelled, Some(stop)) => TrainError::Stopped(stop),
        _ => TrainError::NotPositiveDefinite { subproblem: group.name.to_owned() },
    };
    let factor = Cholesky::new(values, size, &mut |done| go_on(control, done))
        .map_err(|refusal| refused(refusal, control))?;
    let mut ones = vec![1.0; size];
    factor.solve(&mut ones);
    let gram = FactoredGram { factor: &factor, diagonal: &diagonal, ones: &ones };
    let points: Vec<SystemPoint> = group.systems.iter().map(|system| gram.point(system)).collect();
    let inverse = if group.wants_leave_one_out {
        let inverse = factor.inverse_diagonal(&mut |done| go_on(control, done));
        Some(inverse.ok_or_else(|| refused(CholeskyError::Cancelled, control))?)
    } else {
        None
    };
    let total: f64 = ones.iter().sum();
    let solution = |(system, point): (&System, SystemPoint)| {
        let leave_one_out = inverse.as_ref().and_then(|inverse| {
            let share = |at: usize| {
                let border = if system.has_bias { ones[at] * ones[at] / total } else { 0.0 };
                inverse[at] - border
            };
            // t_i - f^(-i)(x_i) = β_i / (M⁻¹)_ii, M the system with its border ([CT04] section 3).
            let score = |at: usize| system.targets[at] - point.beta[at] / share(at);
            let scores: Vec<f64> = (0..size).map(score).collect();
            scores.iter().all(|score| score.is_finite()).then_some(scores)
        });
        solution(group, system, point, leave_one_out)
    };
    Ok(GroupSolution {
        solutions: group.systems.iter().zip(points).map(solution).collect(),
        report: SystemReport { rank: None, trace_left: 0.0 },
        kernel_values: (size * size) as u64,
        bytes: 8 * size * size,
        stop: None,
    })
}

/// Kernel values of all pairs, in f64.
fn square(source: &Source<'_>, examples: &[u32]) -> Vec<f64> {
    let (isa, size) = (Isa::current(), examples.len());
    let rows = source.examples.select(examples.iter().map(|row| *row as usize));
    let packed = Packed::new(source.kernel.clone(), &rows, source.centre.as_deref());
    let mut values = vec![0.0; size * size];
    let blocks = values.par_chunks_mut(BLOCK * size).enumerate();
    blocks.for_each_init(
        || (packed.queries(), Vec::new()),
        |(queries, scratch), (block, values)| {
            let count = values.len() / size;
            let queried = (0..count).map(|at| rows.row(block * BLOCK + at));
            packed.load(isa, queried.clone(), queries);
            packed.visit(isa, queries, queried, scratch, |tile| {
                for query in tile.queries.clone() {
                    let row = &mut values[query * size..(query + 1) * size];
                    row[tile.rows.clone()].copy_from_slice(tile.of(query));
                }
            });
        },
    );
    values
}

/// A factor, with the kernel values above its diagonal.
struct FactoredGram<'g> {
    factor: &'g Cholesky,
    /// Kernel values on the diagonal.
    diagonal: &'g [f64],
    /// `A⁻¹ 1`.
    ones: &'g [f64],
}

/// A solution and what it is worth.
struct SystemPoint {
    beta: Vec<f64>,
    bias: f64,
    /// `Kβ`.
    k_beta: Vec<f64>,
    /// `t - Kβ - c - rβ`.
    errors: Vec<f64>,
    worst: f64,
}

impl FactoredGram<'_> {
    /// Solves one system and refines it as long as that helps.
    fn point(&self, system: &System) -> SystemPoint {
        let size = system.targets.len();
        let mut best = self.evaluate(system, vec![0.0; size], 0.0);
        let enough = ENOUGH * scale_of(&system.targets);
        for _ in 0..ROUNDS {
            let mut step = best.errors.clone();
            self.factor.solve(&mut step);
            let mut beta: Vec<f64> = best.beta.iter().zip(&step).map(|(b, s)| b + s).collect();
            let mut bias = best.bias;
            if system.has_bias {
                let shift = beta.iter().sum::<f64>() / self.ones.iter().sum::<f64>();
                beta.iter_mut().zip(self.ones).for_each(|(beta, one)| *beta -= shift * one);
                bias += shift;
            }
            let next = self.evaluate(system, beta, bias);
            if next.worst.is_nan() || next.worst >= best.worst {
                break;
            }
            best = next;
            if best.worst <= enough {
                break;
            }
        }
        best
    }

    fn evaluate(&self, system: &System, beta: Vec<f64>, bias: f64) -> SystemPoint {
        let k_beta = self.multiply(&beta);
        let error =
            |at: usize| system.targets[at] - k_beta[at] - bias - system.ridge[at] * beta[at];
        let errors: Vec<f64> = (0..beta.len()).map(error).collect();
        let worst = errors.iter().fold(0.0, |worst: f64, error| worst.max(error.abs()));
        SystemPoint { beta, bias, k_beta, errors, worst }
    }

    /// `Kx`, from the values above the diagonal.
    fn multiply(&self, x: &[f64]) -> Vec<f64> {
        let size = x.len();
        let mut sums: Vec<f64> = self.diagonal.iter().zip(x).map(|(k, x)| k * x).collect();
        for (at, row) in self.factor.values().chunks_exact(size).enumerate() {
            let right = &row[at + 1..];
            sums[at] += dot(right, &x[at + 1..]);
            let value = x[at];
            sums[at + 1..].iter_mut().zip(right).for_each(|(sum, k)| *sum += k * value);
        }
        sums
    }
}

/// The gap is `½ Σ (t - f - rβ)² / r`: what the cost of `f` exceeds the dual of β by.
fn solution(
    group: &SystemGroup<'_>,
    system: &System,
    point: SystemPoint,
    leave_one_out: Option<Vec<f64>>,
) -> SystemSolution {
    let SystemPoint { beta, bias, k_beta, errors, worst } = point;
    let gap =
        errors.iter().zip(&system.ridge).map(|(error, r)| error * error / r).sum::<f64>() / 2.0;
    let each = |at: usize| {
        let (beta, ridge) = (beta[at], system.ridge[at]);
        beta * (0.5 * (k_beta[at] + ridge * beta) - system.targets[at])
    };
    let objective = (0..beta.len()).map(each).sum();
    let kept: Vec<usize> = (0..beta.len()).filter(|at| beta[*at] != 0.0).collect();
    SystemSolution {
        expansion: Expansion {
            examples: kept.iter().map(|at| group.examples[*at]).collect(),
            coefficients: kept.iter().map(|at| beta[*at]).collect(),
            offset: -bias,
        },
        objective,
        gap,
        violation: worst / scale_of(&system.targets),
        leave_one_out,
    }
}
