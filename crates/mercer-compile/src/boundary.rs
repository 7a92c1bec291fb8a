//! Rows made up near the boundary, between supports of either side (\[DM03\], section 5.2): a sample has few
//! queries there, and the scales of estimates are about them. Nothing is ever tested on them.

use mercer_data::{Matrix, MatrixBuilder, Row};
use mercer_machine::Machine;
use mercer_query::{Plan, QueryError};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How often the way between two supports is halved.
const HALVINGS: usize = 4;

/// `count` rows on the ways from supports that pull up to supports that pull down, near where the score
/// changes its sign; none for machines with several scores or with supports of one side only.
pub(crate) fn rows(
    machine: &Machine,
    exact: &Plan,
    count: usize,
    seed: u64,
) -> Result<Matrix, QueryError> {
    let supports = machine.supports();
    let none = || MatrixBuilder::new().finish(machine.columns());
    let [score] = machine.scores() else { return Ok(none()) };
    let coefficients = score.dense(supports.rows());
    let side = |is_up: bool| -> Vec<usize> {
        let is_there =
            |at: &usize| if is_up { coefficients[*at] > 0.0 } else { coefficients[*at] < 0.0 };
        (0..supports.rows()).filter(is_there).collect()
    };
    let (up, down) = (side(true), side(false));
    if up.is_empty() || down.is_empty() {
        return Ok(none());
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut pick = |from: &[usize]| from[rng.random_range(0..from.len())];
    let pairs: Vec<(usize, usize)> = (0..count).map(|_| (pick(&up), pick(&down))).collect();
    let between = |shares: &[f64]| {
        let mut out = MatrixBuilder::new();
        for ((a, b), share) in pairs.iter().zip(shares) {
            mix(supports.row(*a), supports.row(*b), *share, &mut out);
        }
        out.finish(machine.columns())
    };
    // The score is taken to be positive at the first end and negative at the other.
    let (mut low, mut high) = (vec![0.0; count], vec![1.0; count]);
    for _ in 0..HALVINGS {
        let middle: Vec<f64> =
            low.iter().zip(&high).map(|(low, high)| (low + high) / 2.0).collect();
        let scores = exact.scores(&between(&middle))?;
        for (at, score) in scores.iter().enumerate() {
            if *score > 0.0 { low[at] = middle[at] } else { high[at] = middle[at] }
        }
    }
    let shares: Vec<f64> =
        low.iter().zip(&high).map(|(low, high)| low + (high - low) * rng.random::<f64>()).collect();
    Ok(between(&shares))
}

/// `(1 - share) a + share b`, as long as the lengths of both say: mixtures of unit rows stay unit rows.
fn mix(a: Row<'_>, b: Row<'_>, share: f64, out: &mut MatrixBuilder) {
    let (mut first, mut second) = (a.nonzeros().peekable(), b.nonzeros().peekable());
    let mut mixed: Vec<(u32, f64)> = Vec::new();
    loop {
        let column = match (first.peek(), second.peek()) {
            (Some((a, _)), Some((b, _))) => *a.min(b),
            (Some((a, _)), None) => *a,
            (None, Some((b, _))) => *b,
            (None, None) => break,
        };
        let x = first.next_if(|(at, _)| *at == column).map_or(0.0, |(_, x)| x);
        let y = second.next_if(|(at, _)| *at == column).map_or(0.0, |(_, y)| y);
        mixed.push((column, (1.0 - share) * x + share * y));
    }
    let length = |row: Row<'_>| row.nonzeros().map(|(_, x)| x * x).sum::<f64>().sqrt();
    let mixed_length = mixed.iter().map(|(_, x)| x * x).sum::<f64>().sqrt();
    let wanted = (1.0 - share) * length(a) + share * length(b);
    let factor = wanted / mixed_length;
    let factor = if mixed_length > 0.0 && factor.is_finite() { factor } else { 1.0 };
    for (column, x) in mixed {
        out.push(column, factor * x);
    }
    out.end_row();
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_machine::{Output, Score};

    #[test]
    fn rows_lie_near_the_boundary_and_keep_their_length() {
        let unit = |angle: f64| [angle.cos(), angle.sin()];
        let values: Vec<f64> = (0..20).flat_map(|n| unit(0.1 * f64::from(n))).collect();
        let supports = Matrix::dense(2, values).unwrap();
        let betas: Vec<f64> = (0..20).map(|n| if n < 10 { 1.0 } else { -1.0 }).collect();
        let kernel = mercer_kernel::parse("rbf(gamma=4)").unwrap();
        let scores = vec![Score::expansion(&betas, 0.0)];
        let machine = Machine::new(kernel, supports, scores, Output::Novelty).unwrap();
        let exact = Plan::exact(&machine);
        let near_boundary = rows(&machine, &exact, 200, 3).unwrap();
        assert_eq!(near_boundary.rows(), 200);
        let most = exact.scores(machine.supports()).unwrap().into_iter().fold(0.0, f64::max);
        let scores = exact.scores(&near_boundary).unwrap();
        assert!(scores.iter().all(|score| score.abs() < 0.5 * most), "{scores:?}");
        assert!(scores.iter().any(|score| *score > 0.0) && scores.iter().any(|score| *score < 0.0));
        for row in near_boundary.iter() {
            let square: f64 = row.nonzeros().map(|(_, x)| x * x).sum();
            assert!((square - 1.0).abs() < 1e-9);
        }
    }
}
