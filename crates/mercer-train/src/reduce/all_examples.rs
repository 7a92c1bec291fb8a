//! One subproblem over all examples: regression and novelty detection.

use super::{BinarySubproblem, ClassPair, Reduction};

/// All examples in one subproblem.
#[derive(Debug)]
pub(crate) struct AllExamples<'a> {
    /// One per example of the data; empty for novelty.
    pub(crate) targets: &'a [f64],
    /// Examples of weight above zero.
    pub(crate) examples: Vec<u32>,
    pub(crate) weights: &'a [f64],
}

impl Reduction for AllExamples<'_> {
    fn blocks(&self) -> Vec<Vec<u32>> {
        vec![self.examples.clone()]
    }

    fn count(&self) -> usize {
        1
    }

    fn name(&self, _: usize) -> String {
        "all examples".to_owned()
    }

    fn classes(&self, _: usize) -> ClassPair {
        ClassPair { plus: 0, minus: None }
    }

    fn subproblem(&self, number: usize) -> BinarySubproblem {
        let pick = |values: &[f64]| -> Vec<f64> {
            self.examples.iter().map(|e| values.get(*e as usize).copied().unwrap_or(1.0)).collect()
        };
        BinarySubproblem {
            name: self.name(number),
            blocks: vec![0],
            targets: pick(self.targets),
            weights: pick(self.weights),
        }
    }
}
