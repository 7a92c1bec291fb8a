//! One subproblem for each class against all others.

use mercer_machine::Scheme;

use super::{BinarySubproblem, ClassPair, Reduction, subproblem_count};

/// Each class against all others; all subproblems read the same examples. Two classes need one subproblem.
#[derive(Debug)]
pub(crate) struct OneVsRest<'a> {
    pub(crate) names: Vec<String>,
    pub(crate) class_of: &'a [u32],
    /// Examples of weight above zero.
    pub(crate) examples: Vec<u32>,
    pub(crate) weights: &'a [f64],
}

impl Reduction for OneVsRest<'_> {
    fn blocks(&self) -> Vec<Vec<u32>> {
        vec![self.examples.clone()]
    }

    fn count(&self) -> usize {
        subproblem_count(self.names.len(), Scheme::OneVsRest)
    }

    fn name(&self, number: usize) -> String {
        format!("{} against the rest", self.names[number])
    }

    fn classes(&self, number: usize) -> ClassPair {
        ClassPair { plus: number as u32, minus: None }
    }

    fn subproblem(&self, number: usize) -> BinarySubproblem {
        let target = |example: &u32| {
            if self.class_of[*example as usize] as usize == number { 1.0 } else { -1.0 }
        };
        BinarySubproblem {
            name: self.name(number),
            blocks: vec![0],
            targets: self.examples.iter().map(target).collect(),
            weights: self.examples.iter().map(|e| self.weights[*e as usize]).collect(),
        }
    }
}
