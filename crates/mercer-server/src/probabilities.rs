//! Probabilities of classes, or of being normal, from exact scores. `mercer predict` computes them here too.

use mercer_data::Matrix;
use mercer_machine::{Model, Output, Probabilities};
use mercer_query::{Plan, QueryError};

/// Classes of a model and their probabilities.
#[derive(Debug)]
pub struct ClassProbabilities<'m> {
    model: &'m Model,
    /// Names of the classes; `normal` and `outlier` of a one-class machine.
    pub classes: Vec<String>,
}

impl<'m> ClassProbabilities<'m> {
    /// Those of a model; none if it was trained without.
    pub fn of_model(model: &'m Model) -> Option<Self> {
        let classes = match (&model.probabilities, model.machine.output()) {
            (Some(Probabilities::Marks(_)), Output::Novelty) => {
                vec!["normal".to_owned(), "outlier".to_owned()]
            }
            (
                Some(Probabilities::Sigmoid { .. } | Probabilities::Curves(_)),
                Output::Classes { names, .. },
            ) => names.iter().map(ToString::to_string).collect(),
            _ => return None,
        };
        Some(Self { model, classes })
    }

    /// Probabilities of the classes, row after row; none if they do not match the scores.
    ///
    /// # Errors
    /// If a score overflows, or a row is outside the domain of the kernel.
    pub fn of_rows(&self, plan: &Plan, rows: &Matrix) -> Result<Option<Vec<f64>>, QueryError> {
        let machine = &self.model.machine;
        let scores = plan.scores(rows)?;
        let Some(known) = &self.model.probabilities else { return Ok(None) };
        let mut shares = Vec::with_capacity(rows.rows() * self.classes.len());
        for scores in scores.chunks_exact(machine.scores().len()) {
            if let Some(of_classes) = known.of_classes(machine, scores) {
                shares.extend(of_classes);
            } else if let Some(normal) = known.of_novelty(scores[0]) {
                shares.extend([normal, 1.0 - normal]);
            } else {
                return Ok(None);
            }
        }
        Ok(Some(shares))
    }
}
