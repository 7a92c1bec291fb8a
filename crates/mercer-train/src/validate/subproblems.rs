//! Binary subproblems over the folds that are not held out; all folds share the rows of one Gram matrix.

use mercer_machine::{Output, Scheme, pairs};

use super::Folds;
use crate::conclude::one_sided_score;
use crate::problem::Problem;
use crate::reduce::BinarySubproblem;

/// Blocks are the examples of weight above zero of one fold, and of one class in one-vs-one.
pub(crate) struct FoldSubproblems<'a> {
    problem: &'a Problem<'a>,
    folds: &'a Folds,
    /// Classes that have blocks of their own; 1 where every subproblem reads all examples.
    classes: usize,
    blocks: Vec<Vec<u32>>,
    count: usize,
}

impl<'a> FoldSubproblems<'a> {
    pub(crate) fn new(problem: &'a Problem<'a>, folds: &'a Folds) -> Self {
        let classes = match &problem.output {
            Output::Classes { names, scheme: Scheme::OneVsOne } => names.len(),
            _ => 1,
        };
        let mut blocks = vec![Vec::new(); classes * folds.count()];
        let weighted = (0u32..).zip(folds.of()).zip(&problem.weights);
        for ((example, fold), _) in weighted.filter(|(_, weight)| **weight > 0.0) {
            let class = match classes {
                1 => 0,
                _ => problem.labels.class_of[example as usize] as usize,
            };
            blocks[class * folds.count() + *fold as usize].push(example);
        }
        Self { problem, folds, classes, blocks, count: problem.subproblem_count() }
    }

    pub(crate) fn blocks(&self) -> &[Vec<u32>] {
        &self.blocks
    }

    /// Number of subproblems of one fold.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The blocks of a fold, in the order of their examples in [`Self::held_out`].
    pub(crate) fn held_out_blocks(&self, fold: usize) -> Vec<usize> {
        (0..self.classes).map(|class| class * self.folds.count() + fold).collect()
    }

    /// The examples of a fold.
    pub(crate) fn held_out(&self, fold: usize) -> Vec<u32> {
        let blocks = self.held_out_blocks(fold);
        blocks.iter().flat_map(|block| self.blocks[*block].iter().copied()).collect()
    }

    /// The score where the other folds have one class of a subproblem only, or none.
    pub(crate) fn one_sided(&self, binary: &BinarySubproblem) -> Option<f64> {
        if !matches!(self.problem.output, Output::Classes { .. }) {
            return None;
        }
        let has = |sign: f64| binary.targets.contains(&sign);
        one_sided_score(has(1.0), has(-1.0))
    }

    /// A subproblem over the examples of the other folds.
    pub(crate) fn subproblem(&self, number: usize, fold: usize) -> BinarySubproblem {
        let count = self.folds.count();
        let of_class = |class: usize| {
            (0..count).filter(move |other| *other != fold).map(move |other| class * count + other)
        };
        let pair = (self.classes > 1)
            .then(|| pairs(self.classes).nth(number).expect("there is a pair for each subproblem"));
        let blocks: Vec<usize> = match pair {
            Some((first, second)) => of_class(first).chain(of_class(second)).collect(),
            None => of_class(0).collect(),
        };
        let examples = blocks.iter().flat_map(|block| &self.blocks[*block]);
        let problem = self.problem;
        let target = |example: &u32| {
            let class = problem.labels.class_of.get(*example as usize).map(|class| *class as usize);
            let side = |first: usize| if class == Some(first) { 1.0 } else { -1.0 };
            match (&problem.output, pair) {
                (Output::Classes { .. }, Some((first, _))) => side(first),
                (Output::Classes { .. }, None) => side(number),
                _ => problem.values.get(*example as usize).copied().unwrap_or(1.0),
            }
        };
        BinarySubproblem {
            name: format!("subproblem {} without fold {}", number + 1, fold + 1),
            targets: examples.clone().map(target).collect(),
            weights: examples.map(|example| problem.weights[*example as usize]).collect(),
            blocks,
        }
    }
}
