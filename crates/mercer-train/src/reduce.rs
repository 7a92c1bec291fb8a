//! Many classes become binary questions.

mod one_vs_one;
mod one_vs_rest;
mod whole;

use std::fmt::Debug;

pub(crate) use one_vs_one::OneVsOne;
pub(crate) use one_vs_rest::OneVsRest;
pub(crate) use whole::Whole;

/// How a task is cut into questions over shared blocks of columns.
pub(crate) trait Reduction: Debug + Sync {
    /// Disjoint groups of examples.
    fn blocks(&self) -> Vec<Vec<u32>>;

    /// Number of questions.
    fn questions(&self) -> usize;

    /// One question.
    fn question(&self, number: usize) -> Binary;

    /// Whether several questions read the same block.
    fn shares_blocks(&self) -> bool {
        self.questions() > 1
    }
}

/// One question: which blocks it reads, and targets and weights of their examples, side by side.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Binary {
    pub(crate) name: String,
    pub(crate) blocks: Vec<usize>,
    pub(crate) targets: Vec<f64>,
    pub(crate) weights: Vec<f64>,
}
