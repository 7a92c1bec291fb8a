use super::{Binary, Reduction};

/// Each class against all others; all questions read the same rows. Two classes need one question only.
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

    fn questions(&self) -> usize {
        if self.names.len() == 2 { 1 } else { self.names.len() }
    }

    fn question(&self, number: usize) -> Binary {
        let side = |example: &u32| {
            if self.class_of[*example as usize] as usize == number { 1.0 } else { -1.0 }
        };
        Binary {
            name: format!("{} against the rest", self.names[number]),
            blocks: vec![0],
            targets: self.examples.iter().map(side).collect(),
            weights: self.examples.iter().map(|e| self.weights[*e as usize]).collect(),
        }
    }
}
