use mercer_machine::pairs;

use super::{Binary, Reduction};

/// A duel for each pair of classes in LIBSVM's order; the first class is +1. Rows within a class serve all
/// duels of that class.
#[derive(Debug)]
pub(crate) struct OneVsOne<'a> {
    pub(crate) names: Vec<String>,
    pub(crate) members: Vec<Vec<u32>>,
    pub(crate) weights: &'a [f64],
}

impl Reduction for OneVsOne<'_> {
    fn blocks(&self) -> Vec<Vec<u32>> {
        if self.members.len() == 2 { vec![self.members.concat()] } else { self.members.clone() }
    }

    fn questions(&self) -> usize {
        self.members.len() * (self.members.len() - 1) / 2
    }

    fn question(&self, number: usize) -> Binary {
        let (first, second) = pairs(self.members.len()).nth(number).expect("a pair for each duel");
        let (plus, minus) = (&self.members[first], &self.members[second]);
        let blocks = if self.members.len() == 2 { vec![0] } else { vec![first, second] };
        let sides = plus.iter().map(|_| 1.0).chain(minus.iter().map(|_| -1.0));
        let weights = plus.iter().chain(minus).map(|example| self.weights[*example as usize]);
        Binary {
            name: format!("{} against {}", self.names[first], self.names[second]),
            blocks,
            targets: sides.collect(),
            weights: weights.collect(),
        }
    }
}
