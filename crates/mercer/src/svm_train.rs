//! The lines that LIBSVM's `svm-train` prints of a training. The command and LIBSVM's C interface print them; this makes the
//! text alone.

use std::fmt::Write as _;

use mercer_data::Matrix;
use mercer_machine::Machine;
use mercer_query::{Plan, QueryError};
use mercer_train::{Expansion, SubproblemReport};

/// A training that was asked for in LIBSVM's terms.
#[derive(Debug, Clone, Copy)]
pub struct TrainingLines<'a> {
    /// What was trained.
    pub machine: &'a Machine,
    /// How each binary subproblem was solved.
    pub subproblems: &'a [SubproblemReport],
    /// The score of each.
    pub expansions: &'a [Expansion],
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
        let report = &self.subproblems[number];
        let expansion = &self.expansions[number];
        let mut text = format!("*\noptimization finished, #iter = {}\n", report.iterations);
        // The sum of nothing is -0.
        let sum = expansion.coefficients.iter().map(|beta| beta.abs()).sum::<f64>() + 0.0;
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

    /// The epsilon that nu-SVR found: the mean distance of free support vectors from their targets, or the least distance of
    /// those at their bound.
    fn tube(&self, expansion: &Expansion) -> Result<f64, QueryError> {
        let limit = self.cost * (1.0 - 1e-9);
        let examples: Vec<usize> = expansion.examples.iter().map(|row| *row as usize).collect();
        let rows = self.examples.select(examples.iter().copied());
        let scores = Plan::exact(self.machine).scores(&rows)?;
        let far = examples.iter().zip(scores);
        let far = far.map(|(row, score)| (self.targets[*row] - score).abs());
        let (free, bounded): (Vec<_>, Vec<_>) =
            far.zip(&expansion.coefficients).partition(|(_, beta)| beta.abs() < limit);
        if free.is_empty() {
            return Ok(bounded.iter().map(|(far, _)| *far).fold(f64::INFINITY, f64::min));
        }
        Ok(free.iter().map(|(far, _)| far).sum::<f64>() / free.len() as f64)
    }
}

/// The last line of a classification.
pub fn total(vectors: usize) -> String {
    format!("Total nSV = {vectors}\n")
}
