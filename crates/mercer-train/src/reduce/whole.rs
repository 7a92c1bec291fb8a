use super::{Binary, Reduction};

/// All examples in one question: regression and novelty.
#[derive(Debug)]
pub(crate) struct Whole<'a> {
    /// One per example of the data; empty for novelty.
    pub(crate) targets: &'a [f64],
    /// Examples of weight above zero.
    pub(crate) examples: Vec<u32>,
    pub(crate) weights: &'a [f64],
}

impl Reduction for Whole<'_> {
    fn blocks(&self) -> Vec<Vec<u32>> {
        vec![self.examples.clone()]
    }

    fn questions(&self) -> usize {
        1
    }

    fn question(&self, _: usize) -> Binary {
        let pick = |values: &[f64]| -> Vec<f64> {
            self.examples.iter().map(|e| values.get(*e as usize).copied().unwrap_or(1.0)).collect()
        };
        Binary {
            name: "all examples".to_owned(),
            blocks: vec![0],
            targets: pick(self.targets),
            weights: pick(self.weights),
        }
    }
}
