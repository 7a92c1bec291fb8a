//! Questions over the folds that are not held out; all folds share the rows of one Gram matrix.

use mercer_machine::{Output, Scheme, pairs};

use super::Folds;
use crate::reduce::Binary;
use crate::training::prepare::Inputs;

/// Blocks are the examples of weight above zero of one fold, and of one class where classes meet in duels.
#[derive(Debug)]
pub(super) struct Folded<'a> {
    inputs: &'a Inputs<'a>,
    folds: &'a Folds,
    /// Classes that meet in duels; 1 where all examples answer every question.
    classes: usize,
    blocks: Vec<Vec<u32>>,
    questions: usize,
}

impl<'a> Folded<'a> {
    pub(super) fn new(inputs: &'a Inputs<'a>, scheme: Scheme, folds: &'a Folds) -> Self {
        let names = inputs.labels.names.len();
        let (classes, questions) = match (&inputs.output, scheme) {
            (Output::Classes { .. }, Scheme::OneVsOne) => (names, names * (names - 1) / 2),
            (Output::Classes { .. }, Scheme::OneVsRest) if names > 2 => (1, names),
            _ => (1, 1),
        };
        let mut blocks = vec![Vec::new(); classes * folds.count()];
        let counted = (0u32..).zip(folds.of()).zip(&inputs.weights);
        for ((example, fold), _) in counted.filter(|(_, weight)| **weight > 0.0) {
            let class = match classes {
                1 => 0,
                _ => inputs.labels.class_of[example as usize] as usize,
            };
            blocks[class * folds.count() + *fold as usize].push(example);
        }
        Self { inputs, folds, classes, blocks, questions }
    }

    pub(super) fn blocks(&self) -> &[Vec<u32>] {
        &self.blocks
    }

    pub(super) fn questions(&self) -> usize {
        self.questions
    }

    /// The blocks of a fold, in the order of their examples in [`Self::held_out`].
    pub(super) fn own_blocks(&self, fold: usize) -> Vec<usize> {
        (0..self.classes).map(|class| class * self.folds.count() + fold).collect()
    }

    /// The examples of a fold.
    pub(super) fn held_out(&self, fold: usize) -> Vec<u32> {
        self.own_blocks(fold).iter().flat_map(|block| self.blocks[*block].iter().copied()).collect()
    }

    fn is_classes(&self) -> bool {
        matches!(self.inputs.output, Output::Classes { .. })
    }

    /// The score where the other folds have one class of a duel only, or none of them.
    pub(super) fn one_sided(&self, binary: &Binary) -> Option<f64> {
        if !self.is_classes() {
            return None;
        }
        let side = |sign: f64| binary.targets.contains(&sign);
        match (side(1.0), side(-1.0)) {
            (true, true) => None,
            (true, false) => Some(1.0),
            (false, true) => Some(-1.0),
            (false, false) => Some(0.0),
        }
    }

    /// A question as the other folds answer it.
    pub(super) fn question(&self, number: usize, fold: usize) -> Binary {
        let count = self.folds.count();
        let of_class = |class: usize| {
            (0..count).filter(move |other| *other != fold).map(move |other| class * count + other)
        };
        let duel = (self.classes > 1)
            .then(|| pairs(self.classes).nth(number).expect("a pair for each duel"));
        let blocks: Vec<usize> = match duel {
            Some((first, second)) => of_class(first).chain(of_class(second)).collect(),
            None => of_class(0).collect(),
        };
        let examples = blocks.iter().flat_map(|block| &self.blocks[*block]);
        let inputs = self.inputs;
        let target = |example: &u32| {
            let class = inputs.labels.class_of.get(*example as usize).map(|class| *class as usize);
            let side = |first: usize| if class == Some(first) { 1.0 } else { -1.0 };
            match (&inputs.output, duel) {
                (Output::Classes { .. }, Some((first, _))) => side(first),
                (Output::Classes { .. }, None) => side(number),
                _ => inputs.values.get(*example as usize).copied().unwrap_or(1.0),
            }
        };
        Binary {
            name: format!("question {} without fold {}", number + 1, fold + 1),
            targets: examples.clone().map(target).collect(),
            weights: examples.map(|example| inputs.weights[*example as usize]).collect(),
            blocks,
        }
    }
}
