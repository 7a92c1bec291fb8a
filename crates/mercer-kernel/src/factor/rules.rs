//! Rules that choose the pivots of a factor.
//! Blocks of random pivots are drawn in `blocked`.

use super::{Factor, GramColumns};

/// How pivots are chosen.
pub trait Pivots<C> {
    /// Names the next pivots, in the order in which they are to be taken; naming none ends it. The
    /// factor takes those that pass its test, so a rule may propose a whole block at once.
    fn propose(&mut self, factor: &mut Factor<C>, out: &mut Vec<usize>);

    /// Names up to `most` rows that will be proposed after those just proposed, for rules that know.
    fn upcoming(&self, _factor: &Factor<C>, _most: usize, _out: &mut Vec<usize>) {}

    /// Called after every accepted pivot.
    fn chosen(&mut self, _factor: &Factor<C>) {}
}

/// Rows in a given order.
#[derive(Debug, Clone)]
pub struct Given {
    /// Rows not proposed yet, last first.
    left: Vec<usize>,
}

impl Given {
    /// These rows, in this order.
    pub fn new(rows: impl IntoIterator<Item = usize>) -> Self {
        let mut left: Vec<usize> = rows.into_iter().collect();
        left.reverse();
        Self { left }
    }
}

impl<C: GramColumns> Pivots<C> for Given {
    fn propose(&mut self, factor: &mut Factor<C>, out: &mut Vec<usize>) {
        while let Some(row) = self.left.pop() {
            if factor.is_open(row) {
                out.push(row);
                return;
            }
        }
    }

    fn upcoming(&self, factor: &Factor<C>, most: usize, out: &mut Vec<usize>) {
        let open = self.left.iter().rev().copied().filter(|row| factor.is_open(*row));
        out.extend(open.take(most));
    }
}

/// The row farthest from the span of the pivots: the largest residual of the trace.
#[derive(Debug, Clone, Copy, Default)]
pub struct Greedy;

impl<C: GramColumns> Pivots<C> for Greedy {
    fn propose(&mut self, factor: &mut Factor<C>, out: &mut Vec<usize>) {
        let open = (0..factor.rows()).filter(|row| factor.is_open(*row));
        out.extend(best(open, |row| factor.distances()[row]));
    }
}

/// The row that explains most of the targets: the largest `Σ c_i² / d_i`, which is what `|W_res|²` loses.
/// Reduced sets call it orthogonal least squares, \[DeCoste03\] `minWz`.
#[derive(Debug, Clone)]
pub struct Gain {
    candidates: Vec<usize>,
}

impl Gain {
    /// Chooses among these rows.
    pub fn new(candidates: Vec<usize>) -> Self {
        Self { candidates }
    }

    /// What the targets lose, all together, if a row is chosen.
    pub fn of<C: GramColumns>(factor: &Factor<C>, row: usize) -> f64 {
        let squares = factor.targets().iter().map(|target| target.values()[row].powi(2));
        squares.sum::<f64>() / factor.distances()[row]
    }
}

impl<C: GramColumns> Pivots<C> for Gain {
    fn propose(&mut self, factor: &mut Factor<C>, out: &mut Vec<usize>) {
        let open = self.candidates.iter().copied().filter(|row| factor.is_open(*row));
        out.extend(best(open, |row| Self::of(factor, row)));
    }
}

/// The row of the largest value; the first of equals.
fn best(rows: impl Iterator<Item = usize>, value: impl Fn(usize) -> f64) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for row in rows {
        let new = value(row);
        if best.is_none_or(|(_, largest)| new > largest) {
            best = Some((row, new));
        }
    }
    best.map(|(row, _)| row)
}
