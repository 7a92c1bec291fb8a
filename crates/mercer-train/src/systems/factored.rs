//! Linear systems over a low-rank factor: the best machine in the span of some examples, `K ≈ G Gᵀ`, by least squares
//! in the numbers of `G`. For few examples all kernel values are used: see `dense`.

use mercer_kernel::cholesky::Cholesky;
use mercer_kernel::factor::{Factor, Greedy, KernelColumns};
use mercer_simd::gemm_nt;
use rayon::prelude::*;

use super::{GroupSolution, System, SystemGroup, SystemReport, SystemSolution, go_on, scale_of};
use crate::control::Control;
use crate::gram::{Source, kernel_sums};
use crate::{Expansion, TrainError};

/// Rows whose residual is below this share of their own square are no pivots.
const FLOOR: f64 = 1e-10;
/// Share of the trace at which more pivots say nothing new.
const ENOUGH: f64 = 1e-10;
/// Rows of the normal equations per piece of work.
const PIECE: usize = 64;

pub(super) fn solve(
    source: &Source<'_>,
    group: &SystemGroup<'_>,
    rank: usize,
    control: &mut Control<'_>,
) -> Result<GroupSolution, TrainError> {
    if !source.kernel.is_positive_semidefinite() {
        let reason = format!(
            "{} is not semidefinite and has no low-rank factor; take fewer examples",
            source.kernel.spec()
        );
        return Err(TrainError::Unsuited { solver: "direct".to_owned(), reason });
    }
    let size = group.examples.len();
    let rows = source.examples.select(group.examples.iter().map(|row| *row as usize));
    let columns = KernelColumns::new(source.kernel.clone(), rows, source.centre.as_deref(), 0);
    let mut factor = Factor::new(columns, FLOOR);
    let whole = factor.trace();
    let _ = factor.grow(&mut Greedy, rank, &mut |factor| {
        go_on(control, factor.rank()) && factor.trace() > ENOUGH * whole
    });
    let stop = control.stop();
    if let (0, Some(stop)) = (factor.rank(), stop) {
        return Err(TrainError::Stopped(stop));
    }
    let squares = Squares::new(&factor, &group.systems[0])
        .ok_or_else(|| TrainError::NotPositiveDefinite { subproblem: group.name.to_owned() })?;
    let leverages = group.wants_leave_one_out.then(|| squares.leverages());
    let solutions = group
        .systems
        .iter()
        .map(|system| squares.solution(source, group, &factor, system, leverages.as_deref()))
        .collect();
    let trace_left = if whole > 0.0 { factor.trace() / whole } else { 0.0 };
    Ok(GroupSolution {
        solutions,
        report: SystemReport { rank: Some(factor.rank()), trace_left },
        kernel_values: (size * factor.rank()) as u64,
        bytes: 16 * size * factor.rank(),
        stop,
    })
}

/// Normal equations of `½|w|² + ½ Σ (t_i - g_i·w - c)² / r_i`.
struct Squares {
    /// Feature after feature, `g_j / √r` of every row, then `1 / √r` where there is a bias.
    features: Vec<f64>,
    roots: Vec<f64>,
    rows: usize,
    factor: Cholesky,
}

impl Squares {
    fn new(pivots: &Factor<KernelColumns>, system: &System) -> Option<Self> {
        let (rows, rank) = (system.targets.len(), pivots.rank());
        let roots: Vec<f64> = system.ridge.iter().map(|ridge| ridge.sqrt().recip()).collect();
        let mut features = Vec::with_capacity((rank + 1) * rows);
        for number in 0..rank {
            features.extend(pivots.coordinate(number).iter().zip(&roots).map(|(g, root)| g * root));
        }
        if system.has_bias {
            features.extend_from_slice(&roots);
        }
        let size = rank + usize::from(system.has_bias);
        let mut normal = vec![0.0; size * size];
        let pieces = normal.par_chunks_mut(PIECE * size.max(1));
        pieces.zip(features.par_chunks(PIECE * rows)).for_each(|(out, piece)| {
            gemm_nt(piece.len() / rows, size, rows, piece, &features, out);
        });
        (0..rank).for_each(|at| normal[at * size + at] += 1.0);
        let factor = Cholesky::new(normal, size, &mut |_| true).ok()?;
        Some(Self { features, roots, rows, factor })
    }

    /// w, and c at its end where there is a bias.
    fn weights(&self, targets: &[f64]) -> Vec<f64> {
        let scaled: Vec<f64> = targets.iter().zip(&self.roots).map(|(t, root)| t * root).collect();
        let product = |feature: &[f64]| mercer_kernel::cholesky::dot(feature, &scaled);
        let mut weights: Vec<f64> = self.features.par_chunks(self.rows).map(product).collect();
        self.factor.solve(&mut weights);
        weights
    }

    /// How much each row's score follows its own target.
    fn leverages(&self) -> Vec<f64> {
        let leverage = |row: usize| {
            let mut features: Vec<f64> =
                self.features.chunks_exact(self.rows).map(|feature| feature[row]).collect();
            self.factor.forward(&mut features);
            features.iter().map(|x| x * x).sum::<f64>()
        };
        (0..self.rows).into_par_iter().map(leverage).collect()
    }
}

impl Squares {
    /// The gap is a bound: with `β = (t - f) / r` it is `½ βᵀ(K - GGᵀ)β <= ½ (Σ |β_i| √d_i)²`, `d_i` the squared
    /// distance of row `i` from the span of the pivots.
    fn solution(
        &self,
        source: &Source<'_>,
        group: &SystemGroup<'_>,
        factor: &Factor<KernelColumns>,
        system: &System,
        leverages: Option<&[f64]>,
    ) -> SystemSolution {
        let rank = factor.rank();
        let weights = self.weights(&system.targets);
        let (weights, bias) = (&weights[..rank], weights.get(rank).copied().unwrap_or(0.0));
        let coefficients = back(factor, weights);
        let row = |at: &mercer_kernel::factor::Pivot| at.row.map(|row| group.examples[row]);
        let examples: Vec<u32> = factor.pivots().iter().filter_map(row).collect();
        let sums = kernel_sums(source, group.examples, &examples, &coefficients);
        let (scale, mut worst, mut spread, mut cost) =
            (scale_of(&system.targets), 0.0f64, 0.0, 0.0);
        let mut leave_one_out = Vec::with_capacity(sums.len());
        for (at, sum) in sums.iter().enumerate() {
            let factor_score: f64 = (0..rank).map(|j| weights[j] * factor.coordinate(j)[at]).sum();
            worst = worst.max((sum - factor_score).abs());
            let (score, ridge) = (sum + bias, system.ridge[at]);
            let error = system.targets[at] - score;
            cost += error * error / ridge;
            spread += (error / ridge).abs() * factor.distances()[at].max(0.0).sqrt();
            if let Some(leverages) = leverages {
                leave_one_out.push(system.targets[at] - error / (1.0 - leverages[at]));
            }
        }
        let has_leave_one_out =
            leverages.is_some() && leave_one_out.iter().all(|score| score.is_finite());
        let length: f64 = weights.iter().map(|w| w * w).sum();
        SystemSolution {
            expansion: Expansion { examples, coefficients, offset: -bias },
            objective: -0.5 * (length + cost),
            gap: 0.5 * spread * spread,
            violation: worst / scale,
            leave_one_out: has_leave_one_out.then_some(leave_one_out),
        }
    }
}

/// Coefficients of the pivots: `V⁻ᵀ w`, V their coordinates.
fn back(factor: &Factor<KernelColumns>, weights: &[f64]) -> Vec<f64> {
    let mut left = weights.to_vec();
    for (at, pivot) in factor.pivots().iter().enumerate().rev() {
        let (diagonal, before) = pivot.coordinates.split_last().expect("a pivot has its own axis");
        left[at] /= diagonal;
        let value = left[at];
        left[..at].iter_mut().zip(before).for_each(|(x, v)| *x -= v * value);
    }
    left
}
