//! Models with a linear kernel as one sum over the columns for each score. Other models become plans (`pack.rs`).

use mercer::machine::Answer;

use crate::direct;
use crate::layout::{Fields, svm_node, svm_type};
use crate::memory::Content;
use crate::pack::{coefficients, is_regular};
/// The scores of a linear kernel: `w · x - rho`.
#[derive(Debug)]
pub(crate) struct Linear {
    /// One number for each index, score after score.
    weights: Vec<Vec<f64>>,
    /// The same sums of absolute values.
    sizes: Vec<Vec<f64>>,
    rho: Vec<f64>,
    output: LinearOutput,
}

#[derive(Debug, Clone, Copy)]
enum LinearOutput {
    Classes(usize),
    Novelty,
    Value,
}

/// Scores within this share of their terms are left to LIBSVM's own sums, whose rounding decides: 1e6 roundings.
const TIE: f64 = 1e6 * f64::EPSILON;
/// Indices of a linear model at most: beyond them a table of weights is not worth its memory.
const MOST_WEIGHTS: usize = 1 << 24;

impl Linear {
    /// `None` if a row is not regular, or indices are very large.
    pub(crate) fn new(fields: &Fields, content: &Content<'_>) -> Option<Self> {
        if !content.supports.iter().all(|row| is_regular(row)) {
            return None;
        }
        let last = content.supports.iter().filter_map(|row| row.last()).map(|node| node.index);
        let width = usize::try_from(last.max().unwrap_or(0)).ok()? + 1;
        let betas = coefficients(fields, content);
        if width.checked_mul(betas.len())? > MOST_WEIGHTS {
            return None;
        }
        let zeros = vec![vec![0.0; width]; betas.len()];
        let (mut weights, mut sizes) = (zeros.clone(), zeros);
        for (score, betas) in betas.iter().enumerate() {
            for (row, beta) in content.supports.iter().zip(betas).filter(|(_, beta)| **beta != 0.0)
            {
                for node in *row {
                    let term = beta * node.value;
                    weights[score][node.index as usize] += term;
                    sizes[score][node.index as usize] += term.abs();
                }
            }
        }
        let output = match fields.param.svm_type {
            svm_type::ONE_CLASS => LinearOutput::Novelty,
            _ if fields.param.is_classification() => LinearOutput::Classes(fields.class_count()),
            _ => LinearOutput::Value,
        };
        let finite = weights.iter().flatten().chain(content.rho).all(|value| value.is_finite());
        finite.then(|| Self { weights, sizes, rho: content.rho.to_vec(), output })
    }

    /// The scores of a regular row; `None` if one may have the other sign.
    pub(crate) fn values(&self, query: &[svm_node]) -> Option<Vec<f64>> {
        if !is_regular(query) {
            return None;
        }
        let score = |at: usize| {
            let (weights, sizes) = (&self.weights[at], &self.sizes[at]);
            let (mut sum, mut size) = (0.0, 0.0);
            for node in query.iter().take_while(|node| (node.index as usize) < weights.len()) {
                let index = node.index as usize;
                sum += weights[index] * node.value;
                size += sizes[index] * node.value.abs();
            }
            let (score, size) = (sum - self.rho[at], size + self.rho[at].abs());
            (score.is_finite() && score.abs() > TIE * size).then_some(score)
        };
        (0..self.rho.len()).map(score).collect()
    }

    pub(crate) fn answer(&self, query: &[svm_node]) -> Option<Answer> {
        let values = self.values(query)?;
        Some(match self.output {
            LinearOutput::Classes(classes) => Answer::Class(direct::vote(classes, &values)),
            LinearOutput::Novelty => Answer::Inlier(values[0] > 0.0),
            LinearOutput::Value => Answer::Value(values[0]),
        })
    }
}
