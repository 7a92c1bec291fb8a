//! Datasets: examples, targets and names of columns; random subsets of rows.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Matrix;

/// A number as tables write it.
pub(crate) fn number(text: &str) -> Option<f64> {
    fast_float2::parse::<f64, _>(text.strip_prefix('+').unwrap_or(text)).ok()
}

/// The number that is the same label as a text: none for texts, for infinities, and for whole numbers that would
/// come back as others, as `007` and those that f64 rounds.
pub fn label_number(text: &str) -> Option<f64> {
    let value = number(text).filter(|value| value.is_finite())?;
    is_held(text, value).then_some(value)
}

/// Whether a label that is written as this number is still the same whole number, digit for digit.
pub(crate) fn is_held(text: &str, value: f64) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    !is_whole || digits == value.abs().to_string()
}

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

    /// The same targets for a regression: texts that are all finite numbers become numbers.
    #[must_use]
    pub fn into_values(self) -> Self {
        let Self::Names(names) = &self else { return self };
        let value = |name: &String| number(name).filter(|value| value.is_finite());
        match names.iter().map(value).collect() {
            Some(numbers) => Self::Numbers(numbers),
            None => self,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_number_only_if_it_comes_back_from_it() {
        for text in [
            "1",
            "-1",
            "0",
            "2.5",
            "1e3",
            "9007199254740992",
            "1.50",
            "-0",
            "100000000000000000000",
        ] {
            assert!(label_number(text).is_some(), "{text}");
        }
        assert_eq!(label_number("+1"), Some(1.0));
        let others = [
            "007",
            "-007",
            "00",
            "9007199254740993",
            "-9223372036854775807",
            "18446744073709551615",
        ];
        for text in others.into_iter().chain(["", "x", "NaN", "inf", "1e999"]) {
            assert_eq!(label_number(text), None, "{text}");
        }
    }

    #[test]
    fn texts_that_are_all_numbers_are_values_of_a_regression() {
        let names =
            |texts: &[&str]| Targets::Names(texts.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(names(&["007", "1.5"]).into_values(), Targets::Numbers(vec![7.0, 1.5]));
        assert_eq!(names(&["007", "x"]).into_values(), names(&["007", "x"]));
    }
}
