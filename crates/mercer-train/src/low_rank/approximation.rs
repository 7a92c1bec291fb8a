//! The approximation error of a low-rank solution on the original problem: bounded, computed, or estimated from a
//! sample. The gap on the low-rank problem itself is in `duality_gap`.

use mercer_kernel::factor::Blocked;
use mercer_simd::Real;

use super::duality_gap::{evaluate_gap, wanted};
use super::problem::{FactorQp, LowRankProblem, SolvedProgram};
use crate::gram::kernel_sums;

/// Rows sampled where all would cost more than the training.
const SAMPLE: usize = 512;
/// Up to so many pairs of rows and supports everything is computed.
const PAIRS: usize = 1 << 24;

/// The approximation error of one subproblem. With `f*` the best objective of the original quadratic program and `f` the one found,
/// `0 <= f* - f <= quadratic <= bound` (objectives as LIBSVM prints them).
#[derive(Debug, Clone, PartialEq)]
pub struct ApproximationReport {
    /// The subproblem.
    pub name: String,
    /// Objective on the low-rank problem.
    pub objective: f64,
    /// `|w|²` of the low-rank problem.
    pub square: f64,
    /// Duality gap on the low-rank problem, computed anew after the solution.
    pub gap: f64,
    /// Support vectors of the low-rank problem: `l` of Theorem 1.
    pub supports: usize,
    /// Theorem 1 of \[FS01\], `c² l ε / 2`: half the trace left out times the squared limits of the support vectors.
    pub bound: f64,
    /// `½ β'(K - GG')β`.
    pub quadratic: f64,
    /// Duality gap on the original problem: between the coefficients and themselves, or the machine, whichever
    /// is smaller. Scores and norm of the machine are the same on both problems, so that its gap is the one above
    /// plus `quadratic`.
    pub original_gap: f64,
    /// Whether the last two are exact or estimated from a sample of rows.
    pub is_exact: bool,
    /// Standard error of `quadratic`, where it is estimated.
    pub error: f64,
}

/// Everything, or a sample where that would cost more than the training did.
pub(super) fn measure<T: Real>(
    problem: &LowRankProblem<'_>,
    factor: &Blocked<T>,
    program: &FactorQp,
    solved: &SolvedProgram,
) -> ApproximationReport {
    let supports = problem.supports(program, solved);
    let rank = factor.rank();
    let width = problem.numbers_per_value();
    // Kernel values of all pairs against those of the factor and its products.
    let training_cost = rank * (width + rank);
    let is_cheap = supports.0.len() * program.qp.rows <= PAIRS
        || supports.0.len() * width <= training_cost / 2;
    if !is_cheap {
        return sampled(problem, factor, program, solved, problem.solver.seed);
    }
    let examples = problem.examples_of(program);
    let k_beta = kernel_sums(problem.source, &examples, &supports.0, &supports.1);
    let beta = program.qp.fold(&solved.solution.point.beta(&program.qp));
    let square: f64 = beta.iter().zip(&k_beta).map(|(b, f)| b * f).sum();
    let evaluation = &solved.solution.evaluation;
    let quadratic = 0.5 * (square - evaluation.square).max(0.0);
    ApproximationReport {
        quadratic,
        original_gap: evaluate_gap(&program.qp, &solved.solution.point, &k_beta)
            .gap
            .min(evaluation.gap + quadratic),
        is_exact: true,
        error: 0.0,
        ..bound_report(factor, program, solved)
    }
}

/// What is known without kernel values beyond the factor: the bound, and the solution itself.
fn bound_report<T: Real>(
    factor: &Blocked<T>,
    program: &FactorQp,
    solved: &SolvedProgram,
) -> ApproximationReport {
    let qp = &program.qp;
    let limit = |v: usize| qp.upper[v].max(-qp.lower[v]);
    let active = qp.fold(&solved.solution.identified);
    let active: Vec<usize> = (0..qp.rows).filter(|row| active[*row] != 0.0).collect();
    // The two variables of a row are never both away from zero.
    let squares: f64 = active
        .iter()
        .map(|row| (*row..qp.len()).step_by(qp.rows).map(limit).fold(0.0, f64::max).powi(2))
        .sum();
    // Where interior points have not set all others to zero yet, theirs count as well.
    let found = qp.fold(&solved.solution.point.beta(qp));
    let found: f64 = found.iter().map(|beta| beta * beta).sum();
    let trace: f64 = match &program.rows {
        Some(rows) => rows.iter().map(|row| factor.distances()[*row as usize]).sum(),
        None => factor.trace(),
    };
    ApproximationReport {
        name: program.name.clone(),
        objective: solved.solution.evaluation.objective,
        square: solved.solution.evaluation.square,
        gap: solved.solution.evaluation.gap,
        supports: active.len(),
        bound: 0.5 * trace * squares.max(found),
        quadratic: 0.0,
        original_gap: 0.0,
        is_exact: false,
        error: 0.0,
    }
}

/// Estimates from rows drawn at random.
pub(super) fn sampled<T: Real>(
    problem: &LowRankProblem<'_>,
    factor: &Blocked<T>,
    program: &FactorQp,
    solved: &SolvedProgram,
    seed: u64,
) -> ApproximationReport {
    let qp = &program.qp;
    let (supports, weights) = problem.supports(program, solved);
    let beta = qp.fold(&solved.solution.point.beta(qp));
    let used: Vec<usize> = (0..beta.len()).filter(|row| beta[*row] != 0.0).collect();
    let examples = problem.examples_of(program);
    let chosen = spread(used.len(), seed);
    let rows: Vec<usize> = chosen.iter().map(|at| used[*at]).collect();
    let others: Vec<usize> = spread(qp.rows, seed.wrapping_add(1));
    let asked_rows: Vec<u32> = rows.iter().chain(&others).map(|row| examples[*row]).collect();
    let k_beta = kernel_sums(problem.source, &asked_rows, &supports, &weights);
    let factor_scores = factor_scores(factor, program, solved, rows.iter().chain(&others));
    let terms: Vec<f64> = rows
        .iter()
        .zip(k_beta.iter().zip(&factor_scores))
        .map(|(row, (exact, low))| 0.5 * beta[*row] * (exact - low))
        .collect();
    let share = used.len() as f64 / terms.len().max(1) as f64;
    let mean = terms.iter().sum::<f64>() / terms.len().max(1) as f64;
    let variance =
        terms.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (terms.len().max(2) - 1) as f64;
    let left = 1.0 - (terms.len() as f64 / used.len().max(1) as f64);
    let error = used.len() as f64 * (variance * left / terms.len().max(1) as f64).sqrt();
    let multipliers = &solved.solution.evaluation.multipliers;
    let mut gap = 0.0;
    for (row, exact) in others.iter().zip(&k_beta[rows.len()..]) {
        for v in (*row..qp.len()).step_by(qp.rows) {
            let slope = exact + qp.linear[v] - multipliers[usize::from(qp.groups[v])];
            let point = &solved.solution.point;
            gap += if slope > 0.0 { slope * point.below[v] } else { -slope * point.above[v] };
        }
    }
    debug_assert!(wanted(qp).len() == multipliers.len());
    let quadratic = (share * terms.iter().sum::<f64>()).max(0.0);
    let original_gap = gap * qp.rows as f64 / others.len().max(1) as f64;
    ApproximationReport {
        quadratic,
        original_gap: original_gap.min(solved.solution.evaluation.gap + quadratic),
        is_exact: false,
        error,
        ..bound_report(factor, program, solved)
    }
}

/// Scores of some rows along the factor.
fn factor_scores<'r, T: Real>(
    factor: &Blocked<T>,
    program: &FactorQp,
    solved: &SolvedProgram,
    rows: impl Iterator<Item = &'r usize>,
) -> Vec<f64> {
    let named: Vec<u32> =
        rows.map(|row| program.rows.as_ref().map_or(*row as u32, |rows| rows[*row])).collect();
    let values = factor.store().gather(&named);
    let rank = factor.rank();
    let isa = mercer_simd::Isa::current();
    values
        .chunks_exact(rank.max(1))
        .map(|row| mercer_simd::row_dot(isa, row, &solved.solution.w))
        .collect()
}

/// At most [`SAMPLE`] of `count` places, without repetition, increasing.
fn spread(count: usize, seed: u64) -> Vec<usize> {
    if count <= SAMPLE {
        return (0..count).collect();
    }
    let mut state = seed;
    let mut places: Vec<usize> = (0..SAMPLE)
        .map(|part| {
            let (low, high) = (part * count / SAMPLE, (part + 1) * count / SAMPLE);
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            low + (state >> 33) as usize % (high - low)
        })
        .collect();
    places.dedup();
    places
}
