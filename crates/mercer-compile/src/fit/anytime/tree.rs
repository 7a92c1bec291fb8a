//! A tree over query space (\[DeCoste03\], section 6): a sequence that settles the easy half of its queries, then a split of
//! the open ones in two, and for each half basis points of its own that go on from those of the parent. What a query
//! has computed stays useful, and the split costs one product with kernel values that it has already.

use mercer_data::{Matrix, draw};
use mercer_kernel::factor::{Factor, Given, KernelColumns};

use super::limit::{self, Costs};
use super::pool::Pool;
use super::settings::AnytimeSettings;
use super::{Measured, Sequence, SequenceArrays, SequenceConstants, choose, most_steps, pool};
use crate::{CompileError, Task};

/// No parent.
const ROOT: u32 = u32::MAX;
/// Queries of the sample that a part must have to be worth an order of its own.
const LEAST_QUERIES: usize = 12;
/// Queries of the sample at most; residuals of all of them are kept.
const MOST_QUERIES: usize = 2000;
/// Rounds of 2-means.
const ROUNDS: usize = 25;

/// A part of query space that is to get its sequence.
struct Part {
    parent: u32,
    /// Rows of the pool that are its ancestors' basis points.
    path: Vec<usize>,
    /// Rows of the sample that are still open there.
    queries: Vec<usize>,
    /// Splits that may follow below it.
    depth: usize,
}

/// Where a part ends and how its open queries are split.
struct PlannedSplit {
    steps: usize,
    weights: Vec<f64>,
    threshold: f64,
    sides: [Vec<usize>; 2],
}

/// Adds the sequences of a tree to the arrays, parents before children.
pub(super) fn grow(
    task: &Task<'_>,
    settings: &AnytimeSettings,
    sample: &Matrix,
    measured: &mut Measured<'_>,
    arrays: &mut SequenceArrays,
) -> Result<(), CompileError> {
    let supports = task.exact.machine().supports().rows();
    let most = (20_000_000 / supports.max(1)).clamp(50, MOST_QUERIES);
    let queries = draw(sample.rows(), most, settings.seed + 1);
    let root = Part { parent: ROOT, path: Vec::new(), queries, depth: settings.depth };
    let mut parts = std::collections::VecDeque::from([root]);
    while let Some(part) = parts.pop_front() {
        let number = arrays.counts.len() as u32;
        let mine = sample.select(part.queries.iter().copied());
        let pool = pool(task, settings, Some(&mine));
        let mut factor = pool.factor(task.exact, settings.floor);
        let first = part.path.len();
        factor.grow(&mut Given::new(part.path.clone()), first, &mut |_| true);
        let costs = Costs::new(task.exact);
        let basis = choose(&pool, &mut factor, settings, most_steps(costs, settings), task)?;
        let mut constants = measured.constants(task.exact.machine(), &basis, &factor)?;
        let split = plan_split(&part, &pool, &factor, &constants);
        match &split {
            Some(split) => constants.truncate(split.steps),
            None if settings.stops_at_break_even => {
                let cheapest = limit::cheapest(costs, &pool, &factor, &constants);
                constants.truncate(cheapest.max(first + 1));
            }
            None => {}
        }
        if constants.steps() <= first {
            return Err(super::unfit("a branch of its tree finds no basis point of its own"));
        }
        arrays.parents.push(part.parent);
        arrays.add_from(&Sequence { basis: basis.select(0..constants.steps()), constants }, first);
        let Some(PlannedSplit { steps, weights, threshold, sides }) = split else { continue };
        arrays.split_weights.extend(weights);
        arrays.split_thresholds.push(threshold);
        let path: Vec<usize> =
            factor.pivots()[..steps].iter().filter_map(|pivot| pivot.row).collect();
        for queries in sides {
            let depth = part.depth - 1;
            parts.push_back(Part { parent: number, path: path.clone(), queries, depth });
        }
    }
    Ok(())
}

/// Ends a part where half of its queries are settled, and splits the others by 2-means in the coordinates so far; none
/// if it is to be a leaf.
fn plan_split(
    part: &Part,
    pool: &Pool,
    factor: &Factor<KernelColumns>,
    constants: &SequenceConstants,
) -> Option<PlannedSplit> {
    if part.depth == 0 || part.queries.len() < 4 * LEAST_QUERIES {
        return None;
    }
    let never = constants.steps() + 1;
    let settled: Vec<usize> = pool
        .witnesses
        .clone()
        .map(|row| limit::settling_step(pool, factor, constants, row).unwrap_or(never))
        .collect();
    let mut sorted = settled.clone();
    sorted.sort_unstable();
    let steps = sorted[sorted.len() / 2].max(part.path.len() + 1);
    // Children need basis points that are left.
    if steps >= constants.steps() {
        return None;
    }
    let open: Vec<usize> = (0..settled.len()).filter(|at| settled[*at] > steps).collect();
    let points: Vec<Vec<f64>> = open
        .iter()
        .map(|at| {
            let row = pool.witnesses.start + at;
            (0..steps).map(|k| factor.coordinate(k)[row]).collect()
        })
        .collect();
    let (direction, threshold) = two_means(&points)?;
    let mut sides = [Vec::new(), Vec::new()];
    for (at, point) in open.iter().zip(&points) {
        let is_above = dot(&direction, point) > threshold;
        sides[usize::from(is_above)].push(part.queries[*at]);
    }
    if sides.iter().any(|side| side.len() < LEAST_QUERIES) {
        return None;
    }
    // Coordinates are `T k`: the direction becomes `T' u` over kernel values.
    let mut weights = vec![0.0; steps];
    for (k, u) in direction.iter().enumerate() {
        let row = &constants.triangle[k * (k + 1) / 2..(k + 1) * (k + 2) / 2];
        weights.iter_mut().zip(row).for_each(|(place, t)| *place += u * t);
    }
    Some(PlannedSplit { steps, weights, threshold, sides })
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The hyperplane between two means: its direction and threshold. They start on either side of the mean along the
/// coordinate that varies most.
fn two_means(points: &[Vec<f64>]) -> Option<(Vec<f64>, f64)> {
    let mean = |members: &[&Vec<f64>]| -> Vec<f64> {
        let mut out = vec![0.0; points[0].len()];
        for member in members {
            out.iter_mut().zip(*member).for_each(|(place, x)| *place += x / members.len() as f64);
        }
        out
    };
    if points.is_empty() {
        return None;
    }
    let centre = mean(&points.iter().collect::<Vec<_>>());
    let spread = |k: usize| points.iter().map(|p| (p[k] - centre[k]).powi(2)).sum::<f64>();
    let widest = (0..centre.len()).max_by(|a, b| spread(*a).total_cmp(&spread(*b)))?;
    let mut direction = vec![0.0; centre.len()];
    direction[widest] = 1.0;
    let mut threshold = centre[widest];
    for _ in 0..ROUNDS {
        let (above, below): (Vec<&Vec<f64>>, Vec<&Vec<f64>>) =
            points.iter().partition(|point| dot(&direction, point) > threshold);
        if above.is_empty() || below.is_empty() {
            return None;
        }
        let (high, low) = (mean(&above), mean(&below));
        let next: Vec<f64> = high.iter().zip(&low).map(|(a, b)| a - b).collect();
        let next_threshold = (dot(&high, &high) - dot(&low, &low)) / 2.0;
        if next == direction && next_threshold == threshold {
            break;
        }
        (direction, threshold) = (next, next_threshold);
    }
    Some((direction, threshold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clouds_are_told_apart() {
        let points: Vec<Vec<f64>> = (0..40)
            .map(|n| {
                let side = if n % 2 == 0 { 3.0 } else { -3.0 };
                vec![f64::from(n % 5) * 0.1, side + f64::from(n % 7) * 0.1]
            })
            .collect();
        let (direction, threshold) = two_means(&points).unwrap();
        for (n, point) in points.iter().enumerate() {
            assert_eq!(dot(&direction, point) > threshold, n % 2 == 0, "{n}");
        }
        assert!(two_means(&vec![vec![1.0, 2.0]; 5]).is_none());
        assert!(two_means(&[]).is_none());
    }
}
