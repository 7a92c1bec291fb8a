//! Datasets: examples, targets and names of columns; random subsets of rows.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Matrix;

/// Examples with their targets and the names of their columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// One row per example.
    pub examples: Matrix,
    /// One target per example, or none at all.
    pub targets: Targets,
    /// Names of the columns, where the file has them.
    pub names: Option<Vec<String>>,
}

impl Dataset {
    /// Some of the rows, in the order given.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn select(&self, rows: &[usize]) -> Self {
        Self {
            examples: self.examples.select(rows.iter().copied()),
            targets: self.targets.select(rows),
            names: self.names.clone(),
        }
    }
}

/// `count` of `rows` positions, in increasing order; the same seed gives the same ones, and all of them if
/// there are no more.
pub fn draw(rows: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut positions = first_shuffled(rows, count, seed);
    positions.sort_unstable();
    positions
}

/// All positions in random order; the same seed gives the same order.
pub fn shuffled(rows: usize, seed: u64) -> Vec<usize> {
    first_shuffled(rows, rows, seed)
}

fn first_shuffled(rows: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut positions: Vec<usize> = (0..rows).collect();
    let count = count.min(rows);
    for place in 0..count {
        positions.swap(place, rng.random_range(place..rows));
    }
    positions.truncate(count);
    positions
}

/// The targets of training or evaluation.
#[derive(Debug, Clone, PartialEq)]
pub enum Targets {
    /// There are no targets.
    Absent,
    /// Numbers: values of a regression, or classes named by numbers.
    Numbers(Vec<f64>),
    /// Classes named by texts.
    Names(Vec<String>),
}

impl Targets {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Numbers(numbers) => numbers.len(),
            Self::Names(names) => names.len(),
        }
    }

    /// Some of them, in the order given.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn select(&self, rows: &[usize]) -> Self {
        match self {
            Self::Absent => Self::Absent,
            Self::Numbers(all) => Self::Numbers(rows.iter().map(|row| all[*row]).collect()),
            Self::Names(all) => Self::Names(rows.iter().map(|row| all[*row].clone()).collect()),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
