//! One subproblem for each pair of classes.

use mercer_machine::{Scheme, pairs};

use super::{BinarySubproblem, ClassPair, Reduction, subproblem_count};

/// A pairwise classifier for each pair of classes in LIBSVM's order; the first class is +1. Kernel rows of a
/// class serve all pairs of that class.
#[derive(Debug)]
pub(crate) struct OneVsOne<'a> {
    pub(crate) names: Vec<String>,
    /// Examples of each class, of weight above zero.
    pub(crate) members: Vec<Vec<u32>>,
    pub(crate) weights: &'a [f64],
}

impl OneVsOne<'_> {
    fn pair(&self, number: usize) -> (usize, usize) {
        pairs(self.members.len()).nth(number).expect("there is a pair for each subproblem")
    }
}

impl Reduction for OneVsOne<'_> {
    fn blocks(&self) -> Vec<Vec<u32>> {
        if self.members.len() == 2 { vec![self.members.concat()] } else { self.members.clone() }
    }

    fn count(&self) -> usize {
        subproblem_count(self.members.len(), Scheme::OneVsOne)
    }

    fn name(&self, number: usize) -> String {
        let (first, second) = self.pair(number);
        format!("{} against {}", self.names[first], self.names[second])
    }

    fn classes(&self, number: usize) -> ClassPair {
        let (first, second) = self.pair(number);
        ClassPair { plus: first as u32, minus: Some(second as u32) }
    }

    fn subproblem(&self, number: usize) -> BinarySubproblem {
        let (first, second) = self.pair(number);
        let (plus, minus) = (&self.members[first], &self.members[second]);
        let blocks = if self.members.len() == 2 { vec![0] } else { vec![first, second] };
        let targets = plus.iter().map(|_| 1.0).chain(minus.iter().map(|_| -1.0));
        let weights = plus.iter().chain(minus).map(|example| self.weights[*example as usize]);
        BinarySubproblem {
            name: self.name(number),
            blocks,
            targets: targets.collect(),
            weights: weights.collect(),
        }
    }
}
