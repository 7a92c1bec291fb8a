//! Rows made up across the boundary (\[DM03\], section 5.2): inside the convex hull of the supports, close to a cluster of
//! supports of one side, and yet on the other side. A sample has few such queries, and thresholds and the scales of
//! estimates are about them. Nothing is ever tested on them.

use mercer_data::{Matrix, MatrixBuilder, Row};
use mercer_kernel::factor::{GramColumns, KernelColumns};
use mercer_machine::{Machine, Score};
use mercer_query::{Plan, QueryError};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How often the way to the other side is halved.
const HALVINGS: usize = 5;
/// Supports of a cluster: one drawn at random and the nearest of its side, by kernel values.
const CLUSTER: usize = 4;
/// Lengths that differ by less than this share are equal.
const EQUAL: f64 = 1e-9;

/// One row to be made: `(1 - share)` of the mean of the cluster and `share` of the support on the other side.
struct Way {
    score: usize,
    cluster: Vec<usize>,
    other: usize,
    /// Whether the cluster pulls the score up.
    is_up: bool,
    near: f64,
    far: f64,
}

/// Up to `count` rows just across the boundary of a score, as seen from a cluster of supports; fewer where a way
/// does not cross it, none for machines with supports of one side only.
///
/// They are convex combinations of supports. Where all supports have the same length, queries have it too, and the
/// rows are given that length: only then do they leave the hull, along a ray.
pub(crate) fn rows(
    machine: &Machine,
    exact: &Plan,
    count: usize,
    seed: u64,
) -> Result<Matrix, QueryError> {
    let mut ways = ways(machine, count, seed);
    let length = common_length(machine.supports());
    let scores = machine.scores().len().max(1);
    let at = |ways: &[Way], share: &dyn Fn(&Way) -> f64| {
        let mut out = MatrixBuilder::new();
        ways.iter().for_each(|way| mix(machine.supports(), way, share(way), length, &mut out));
        out.finish(machine.columns())
    };
    for _ in 0..HALVINGS {
        let middles = exact.scores(&at(&ways, &|way| f64::midpoint(way.near, way.far)))?;
        for (way, scores) in ways.iter_mut().zip(middles.chunks_exact(scores)) {
            let middle = f64::midpoint(way.near, way.far);
            let is_across = (scores[way.score] > 0.0) != way.is_up;
            if is_across { way.far = middle } else { way.near = middle }
        }
    }
    let made = at(&ways, &|way| way.far);
    let found = exact.scores(&made)?;
    let is_across = |row: &usize| {
        let way = &ways[*row];
        (found[row * scores + way.score] > 0.0) != way.is_up
    };
    Ok(made.select((0..ways.len()).filter(is_across)))
}

/// Clusters of one side with a support of the other, scores and sides by turns.
fn ways(machine: &Machine, count: usize, seed: u64) -> Vec<Way> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (kernel, supports) = (machine.kernel().clone(), machine.supports().as_ref().clone());
    let mut columns = KernelColumns::new(kernel, supports, machine.centre(), 64 << 20);
    let mut nearness = vec![0.0; machine.supports().rows()];
    let sides: Vec<[Vec<usize>; 2]> = machine.scores().iter().map(sides).collect();
    let mut ways = Vec::new();
    for number in 0..count {
        let score = (number / 2) % sides.len().max(1);
        let Some([up, down]) = sides.get(score) else { break };
        if up.is_empty() || down.is_empty() {
            continue;
        }
        let is_up = number % 2 == 0;
        let (own, others) = if is_up { (up, down) } else { (down, up) };
        let first = own[rng.random_range(0..own.len())];
        let other = others[rng.random_range(0..others.len())];
        columns.column(first, &mut nearness);
        let mut cluster = own.clone();
        let nearest = |a: &usize, b: &usize| nearness[*b].total_cmp(&nearness[*a]).then(a.cmp(b));
        if cluster.len() > CLUSTER {
            cluster.select_nth_unstable_by(CLUSTER - 1, nearest);
            cluster.truncate(CLUSTER);
            cluster.sort_unstable();
        }
        ways.push(Way { score, cluster, other, is_up, near: 0.0, far: 1.0 });
    }
    ways
}

/// Supports that pull a score up, and those that pull it down.
fn sides(score: &Score) -> [Vec<usize>; 2] {
    let Score::Expansion { supports, coefficients, .. } = score else { return [vec![], vec![]] };
    let side = |is_up: bool| {
        let pairs = supports.iter().zip(coefficients);
        let own = pairs.filter(|(_, beta)| if is_up { **beta > 0.0 } else { **beta < 0.0 });
        own.map(|(support, _)| *support as usize).collect()
    };
    [side(true), side(false)]
}

fn length(row: Row<'_>) -> f64 {
    row.nonzeros().map(|(_, x)| x * x).sum::<f64>().sqrt()
}

/// The length of all rows, if it is the same.
fn common_length(rows: &Matrix) -> Option<f64> {
    let first = rows.iter().next().map(length).filter(|first| *first > 0.0)?;
    let is_equal = |row: Row<'_>| (length(row) - first).abs() <= EQUAL * first;
    rows.iter().all(is_equal).then_some(first)
}

/// The row of a way at a share, with the given length if there is one.
fn mix(supports: &Matrix, way: &Way, share: f64, wanted: Option<f64>, out: &mut MatrixBuilder) {
    let mut mixed = std::collections::BTreeMap::new();
    let mut add = |row: Row<'_>, weight: f64| {
        for (column, x) in row.nonzeros() {
            *mixed.entry(column).or_insert(0.0) += weight * x;
        }
    };
    let each = (1.0 - share) / way.cluster.len() as f64;
    way.cluster.iter().for_each(|support| add(supports.row(*support), each));
    add(supports.row(way.other), share);
    let found = mixed.values().map(|x: &f64| x * x).sum::<f64>().sqrt();
    let factor = wanted.map_or(1.0, |wanted| wanted / found);
    let factor = if factor.is_finite() { factor } else { 1.0 };
    for (column, x) in mixed {
        out.push(column, factor * x);
    }
    out.end_row();
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_machine::{ClassName, Output, Scheme};

    fn machine(values: Vec<f64>, betas: &[Vec<f64>], output: Output) -> Machine {
        let supports = Matrix::dense(2, values).unwrap();
        let kernel = mercer_kernel::parse("rbf(gamma=4)").unwrap();
        let scores = betas.iter().map(|betas| Score::expansion(betas, 0.0)).collect();
        Machine::new(kernel, supports, scores, output).unwrap()
    }

    #[test]
    fn rows_lie_across_the_boundary_and_keep_a_common_length() {
        let unit = |angle: f64| [angle.cos(), angle.sin()];
        let values: Vec<f64> = (0..20).flat_map(|n| unit(0.1 * f64::from(n))).collect();
        let betas: Vec<f64> = (0..20).map(|n| if n < 10 { 1.0 } else { -1.0 }).collect();
        let machine = machine(values, &[betas], Output::Novelty);
        let exact = Plan::exact(&machine);
        let made = rows(&machine, &exact, 200, 3).unwrap();
        assert!(made.rows() > 150, "{}", made.rows());
        let most = exact.scores(machine.supports()).unwrap().into_iter().fold(0.0, f64::max);
        let scores = exact.scores(&made).unwrap();
        assert!(scores.iter().all(|score| score.abs() < 0.5 * most), "{scores:?}");
        assert!(scores.iter().any(|score| *score > 0.0) && scores.iter().any(|score| *score < 0.0));
        for row in made.iter() {
            assert!((length(row) - 1.0).abs() < 1e-9);
        }
    }

    /// Supports on a line of different lengths: what is made up stays between its ends.
    #[test]
    fn rows_lie_inside_the_convex_hull() {
        let values: Vec<f64> = (0..12).flat_map(|n| [1.0 + f64::from(n), 2.0]).collect();
        let betas: Vec<f64> = (0..12).map(|n| if n % 4 < 2 { 1.0 } else { -1.0 }).collect();
        let machine = machine(values, &[betas], Output::Novelty);
        let made = rows(&machine, &Plan::exact(&machine), 50, 1).unwrap();
        assert!(made.rows() > 0);
        for row in made.iter() {
            let found: Vec<f64> = row.nonzeros().map(|(_, x)| x).collect();
            assert!(
                (1.0..=12.0).contains(&found[0]) && (found[1] - 2.0).abs() < 1e-12,
                "{found:?}"
            );
        }
    }

    #[test]
    fn every_pair_of_classes_gets_rows_and_one_side_alone_gets_none() {
        let names = (0..3).map(|class| ClassName::Number(f64::from(class))).collect();
        let output = Output::Classes { names, scheme: Scheme::OneVsOne };
        let values: Vec<f64> = (0..6).flat_map(|n| [f64::from(n), f64::from(n % 2)]).collect();
        let betas = [
            vec![1.0, 1.0, -1.0, -1.0, 0.0, 0.0],
            vec![1.0, 1.0, 0.0, 0.0, -1.0, -1.0],
            vec![0.0, 0.0, 1.0, 1.0, -1.0, -1.0],
        ];
        let three = machine(values.clone(), &betas, output);
        let made = rows(&three, &Plan::exact(&three), 60, 2).unwrap();
        assert!(made.rows() > 30, "{}", made.rows());
        let flat = machine(values, &[vec![1.0; 6]], Output::Novelty);
        assert_eq!(rows(&flat, &Plan::exact(&flat), 10, 2).unwrap().rows(), 0);
    }
}
