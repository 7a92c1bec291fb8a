//! The lines that LIBSVM's `svm-train` prints of a training. The command and LIBSVM's C interface print them; this makes the
//! text alone.

use std::fmt::Write as _;

use mercer_data::Matrix;
use mercer_query::{Plan, QueryError};
use mercer_train::{Expansion, Trained};

/// A training that was asked for in LIBSVM's terms.
#[derive(Debug, Clone, Copy)]
pub struct TrainingLines<'a> {
    /// What was trained.
    pub trained: &'a Trained,
    /// LIBSVM's number of `svm_type`, 0 to 4.
    pub svm_type: i64,
    /// LIBSVM's `-n`.
    pub nu: f64,
    /// LIBSVM's `-c`.
    pub cost: f64,
    /// The examples, as they were trained on.
    pub examples: &'a Matrix,
    /// Their targets; read for nu-SVR alone.
    pub targets: &'a [f64],
}

impl TrainingLines<'_> {
    /// The lines of one binary subproblem. `rho` has the sign of LIBSVM's order of the two classes, `rows` is how many
    /// examples it has, `cost` is its C where both classes have the same.
    ///
    /// # Errors
    /// If a score of nu-SVR overflows.
    pub fn subproblem(
        &self,
        number: usize,
        rho: f64,
        rows: usize,
        cost: Option<f64>,
    ) -> Result<String, QueryError> {
        let report = &self.trained.report.subproblems[number];
        let expansion = &self.trained.expansions[number];
        let mut text = format!("*\noptimization finished, #iter = {}\n", report.iterations);
        let sum: f64 = expansion.coefficients.iter().map(|beta| beta.abs()).sum();
        let per_row = sum / rows as f64;
        let named = match (self.svm_type, cost) {
            (0 | 3, Some(cost)) => Some(("nu", per_row / cost)),
            (1, _) => Some(("C", per_row / self.nu)),
            (4, _) => Some(("epsilon", self.tube(expansion)?)),
            _ => None,
        };
        if let Some((name, value)) = named {
            let _ = writeln!(text, "{name} = {value:.6}");
        }
        let _ = writeln!(text, "obj = {:.6}, rho = {rho:.6}", report.objective);
        let _ = writeln!(text, "nSV = {}, nBSV = {}", report.supports, report.bounded);
        Ok(text)
    }

    /// The epsilon that nu-SVR found: the mean distance of free support vectors from their targets.
    fn tube(&self, expansion: &Expansion) -> Result<f64, QueryError> {
        let limit = self.cost * (1.0 - 1e-9);
        let terms = expansion.examples.iter().zip(&expansion.coefficients);
        let free = terms.filter(|(_, beta)| **beta != 0.0 && beta.abs() < limit);
        let free: Vec<usize> = free.map(|(example, _)| *example as usize).collect();
        let rows = self.examples.select(free.iter().copied());
        let scores = Plan::exact(&self.trained.machine).scores(&rows)?;
        let far = free.iter().zip(scores).map(|(row, score)| (self.targets[*row] - score).abs());
        Ok(far.sum::<f64>() / free.len().max(1) as f64)
    }
}

/// The last line of a classification.
pub fn total(vectors: usize) -> String {
    format!("Total nSV = {vectors}\n")
}
