//! The reduction of a training problem to binary subproblems.
//! One file for each reduction; what a subproblem minimises is in [`crate::formulations`].

mod all_examples;
mod one_vs_one;
mod one_vs_rest;

use std::fmt::Debug;

use mercer_machine::Scheme;

pub(crate) use all_examples::AllExamples;
pub(crate) use one_vs_one::OneVsOne;
pub(crate) use one_vs_rest::OneVsRest;

use crate::Subproblem;

/// How a problem is reduced to subproblems over shared blocks of examples.
pub(crate) trait Reduction: Debug + Sync {
    /// Disjoint groups of examples.
    fn blocks(&self) -> Vec<Vec<u32>>;

    /// Number of subproblems.
    fn count(&self) -> usize;

    /// The name of one subproblem: `3 against 8`, `8 against the rest`, `all examples`.
    fn name(&self, number: usize) -> String;

    /// Which classes one subproblem separates.
    fn classes(&self, number: usize) -> ClassPair;

    /// One subproblem with the targets and weights of its examples.
    fn subproblem(&self, number: usize) -> BinarySubproblem;

    /// Whether several subproblems read the same block.
    fn shares_blocks(&self) -> bool {
        self.count() > 1
    }
}

/// The classes that a subproblem separates, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClassPair {
    /// The class whose target is +1.
    pub(crate) plus: u32,
    /// The class whose target is -1; `None` for all others.
    pub(crate) minus: Option<u32>,
}

/// One subproblem: which blocks it reads, and targets and weights of their examples in the same order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BinarySubproblem {
    pub(crate) name: String,
    pub(crate) blocks: Vec<usize>,
    pub(crate) targets: Vec<f64>,
    pub(crate) weights: Vec<f64>,
}

impl BinarySubproblem {
    /// As formulations see it.
    pub(crate) fn view(&self) -> Subproblem<'_> {
        Subproblem { name: &self.name, targets: &self.targets, weights: &self.weights }
    }

    /// Its examples, given those of all blocks.
    pub(crate) fn examples(&self, blocks: &[Vec<u32>]) -> Vec<u32> {
        self.blocks.iter().flat_map(|block| blocks[*block].iter().copied()).collect()
    }

    /// Whether a kernel matrix over both is the same, weights included.
    pub(crate) fn shares_examples(&self, other: &Self) -> bool {
        self.blocks == other.blocks && self.weights == other.weights
    }
}

/// Number of subproblems of so many classes; two classes are one subproblem in either scheme.
pub(crate) fn subproblem_count(classes: usize, scheme: Scheme) -> usize {
    match scheme {
        Scheme::OneVsOne => classes * (classes - 1) / 2,
        Scheme::OneVsRest if classes == 2 => 1,
        Scheme::OneVsRest => classes,
    }
}
