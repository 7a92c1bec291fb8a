//! Sets of examples by fold, and the binary subproblems over the folds that are not held out; all folds share the
//! rows of one Gram matrix. Targets and weights come from [`crate::reduce`]; how folds are dealt is in `folds`.

use mercer_machine::Output;

use super::Folds;
use crate::problem::Problem;
use crate::reduce::{BinarySubproblem, ClassPair, has_sets_by_class};
use crate::scale_and_offset::one_sided_score;

/// Sets are the examples of weight above zero of one fold, and of one class in one-vs-one.
pub(crate) struct FoldSubproblems<'a> {
    problem: &'a Problem<'a>,
    folds: &'a Folds,
    /// Classes that have sets of their own; 1 where every subproblem reads all examples.
    classes: usize,
    example_sets: Vec<Vec<u32>>,
    count: usize,
}

impl<'a> FoldSubproblems<'a> {
    pub(crate) fn new(problem: &'a Problem<'a>, folds: &'a Folds) -> Self {
        let by_class = has_sets_by_class(&problem.output);
        let classes = if by_class { problem.labels.names.len() } else { 1 };
        let mut example_sets = vec![Vec::new(); classes * folds.count()];
        let weighted = (0u32..).zip(folds.of()).zip(&problem.weights);
        for ((example, fold), _) in weighted.filter(|(_, weight)| **weight > 0.0) {
            let class = if by_class { problem.labels.class_of[example as usize] } else { 0 };
            example_sets[class as usize * folds.count() + *fold as usize].push(example);
        }
        Self { problem, folds, classes, example_sets, count: problem.subproblem_count() }
    }

    pub(crate) fn example_sets(&self) -> &[Vec<u32>] {
        &self.example_sets
    }

    /// Number of subproblems of one fold.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The sets of a fold, in the order of their examples in [`Self::held_out`].
    pub(crate) fn held_out_sets(&self, fold: usize) -> Vec<usize> {
        (0..self.classes).map(|class| class * self.folds.count() + fold).collect()
    }

    /// The examples of a fold.
    pub(crate) fn held_out(&self, fold: usize) -> Vec<u32> {
        let sets = self.held_out_sets(fold);
        sets.iter().flat_map(|set| self.example_sets[*set].iter().copied()).collect()
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
        let sets_of = |class: u32| {
            let first = class as usize * count;
            (0..count).filter(move |other| *other != fold).map(move |other| first + other)
        };
        let classes = ClassPair::of(&self.problem.output, number);
        let sets = match classes.minus {
            Some(minus) => sets_of(classes.plus).chain(sets_of(minus)).collect(),
            None => sets_of(0).collect(),
        };
        let name = format!("subproblem {} without fold {}", number + 1, fold + 1);
        BinarySubproblem::new(self.problem, name, classes, sets, &self.example_sets)
    }
}
