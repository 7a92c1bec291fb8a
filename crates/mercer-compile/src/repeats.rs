//! Whether a sample of queries holds rows of the training data: rows that equal supports, beyond those that equal rows of
//! the data explain. It sees supports only, not training rows that did not become supports.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use mercer_data::{Matrix, Row};
use mercer_machine::Machine;

/// With more rows than this share equal to supports beyond what is natural, a sample is taken for training data.
const SHARE: f64 = 0.01;

/// With more rows than this share equal to supports it is taken for training data, however common equal rows are.
const MOST: f64 = 0.5;

/// Supports are no random rows: up to so many times the expected number is natural. A plain choice, between what unseen
/// queries and rows of the training data give on one-hot data.
const NATURAL: f64 = 2.0;

/// Rows of a sample that equal supports.
///
/// In data of few distinct rows (one-hot columns) queries equal supports by nature. Such rows are common, and most of
/// them occur more than once in the sample itself; training rows occur in it as often as any other row. So rows that equal a
/// support and occur once in the sample are counted, and compared with what the sample says about itself: of two random
/// halves, the rows that occur once in their own half and at all in the other, times supports per row of a half.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repeats {
    /// Rows of the sample.
    pub rows: usize,
    /// Rows that equal a support.
    pub found: usize,
    /// Those of them that occur once in the sample.
    pub alone: usize,
    /// How many of those the repeats within the sample explain.
    pub expected: f64,
}

impl Repeats {
    /// Counts the rows of a sample that equal supports of a machine.
    pub fn count(machine: &Machine, sample: &Matrix) -> Self {
        let supports: HashSet<u64> = machine.supports().iter().map(fingerprint).collect();
        let prints: Vec<u64> = sample.iter().map(fingerprint).collect();
        // How often each row occurs in either half.
        let mut halves: HashMap<u64, [u32; 2]> = HashMap::new();
        for (number, print) in prints.iter().enumerate() {
            halves.entry(*print).or_default()[half(number)] += 1;
        }
        let found = prints.iter().filter(|print| supports.contains(print)).count();
        let is_alone = |(print, counts): &(&u64, &[u32; 2])| {
            counts[0] + counts[1] == 1 && supports.contains(print)
        };
        let alone = halves.iter().filter(is_alone).count();
        let once_and_elsewhere = |[first, second]: &[u32; 2]| match (first, second) {
            (1, 1) => 2,
            (1, 2..) | (2.., 1) => 1,
            _ => 0,
        };
        let met: u32 = halves.values().map(once_and_elsewhere).sum();
        let half_rows = (prints.len() as f64 / 2.0).max(1.0);
        let expected = f64::from(met) * supports.len() as f64 / half_rows;
        Self { rows: prints.len(), found, alone, expected }
    }

    /// Whether the sample is taken for training data.
    pub fn are_training_rows(&self) -> bool {
        let rows = self.rows as f64;
        let natural = NATURAL * self.expected;
        self.alone as f64 > SHARE * rows + natural || self.found as f64 > MOST * rows
    }
}

/// The half of a row: random, and the same in every run.
fn half(number: usize) -> usize {
    let mixed = (number as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 63) as usize
}

/// Equal rows have equal fingerprints, dense or sparse.
pub(crate) fn fingerprint(row: Row<'_>) -> u64 {
    let mut hash = DefaultHasher::new();
    for (column, value) in row.nonzeros() {
        (column, value.to_bits()).hash(&mut hash);
    }
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_machine::{Output, Score};

    /// Rows of 40 columns that are 0 or 1, each 1 with the given probability: with a small one, many are equal.
    fn bits(rows: usize, share: f64, seed: u64) -> Matrix {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11
        };
        let one = (share * (1u64 << 53) as f64) as u64;
        let values = (0..rows * 40).map(|_| if next() < one { 1.0 } else { 0.0 }).collect();
        Matrix::dense(40, values).unwrap()
    }

    /// A machine over every third row.
    fn machine(training: &Matrix) -> Machine {
        let supports = training.select((0..training.rows()).step_by(3));
        let coefficients: Vec<f64> = (0..supports.rows()).map(|row| 1.0 + row as f64).collect();
        let kernel = mercer_kernel::parse("rbf(gamma=0.5)").unwrap();
        Machine::new(kernel, supports, vec![Score::expansion(&coefficients, 0.0)], Output::Novelty)
            .unwrap()
    }

    #[test]
    fn natural_repeats_are_told_from_training_rows() {
        for share in [0.05, 0.08, 0.1, 0.15, 0.5] {
            let (training, other) = (bits(3000, share, 1), bits(2000, share, 2));
            let machine = machine(&training);
            let natural = Repeats::count(&machine, &other);
            assert!(!natural.are_training_rows(), "{share}: {natural:?}");
            let seen = Repeats::count(&machine, &training.select(0..2000));
            assert!(seen.are_training_rows(), "{share}: {seen:?}");
        }
        // The first shares are of data in which the old rule, one row in a hundred, refused every sample.
        let machine = machine(&bits(3000, 0.05, 1));
        let natural = Repeats::count(&machine, &bits(2000, 0.05, 2));
        assert!(natural.found > 200, "{natural:?}");
    }

    #[test]
    fn a_sample_of_supports_alone_is_refused_however_often_each_occurs() {
        let machine = machine(&bits(300, 0.5, 3));
        let sample = machine.supports().select((0..600).map(|row| row % 60));
        let found = Repeats::count(&machine, &sample);
        assert_eq!((found.found, found.alone), (600, 0));
        assert!(found.are_training_rows());
    }
}
