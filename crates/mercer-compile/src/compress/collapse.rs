//! Linear machines are their weights: no vector is needed at all.

use mercer_data::Matrix;
use mercer_kernel::factor::Compensated;
use mercer_machine::{Machine, Score};

use super::measure::is_linear;
use super::{FeatureDistance, unfit};
use crate::CompileError;

/// The weights of a linear machine; nothing for other machines.
pub(super) fn linear(machine: &Machine) -> Result<Option<Machine>, CompileError> {
    let is_expansion = |score: &Score| matches!(score, Score::Expansion { .. });
    if !is_linear(machine) || !machine.scores().iter().all(is_expansion) {
        return Ok(None);
    }
    let scores = machine.scores().iter().map(|score| {
        let weights = sums(machine, score).iter().map(Compensated::value).collect();
        Score::Linear { weights, offset: score.offset() }
    });
    let refuse = |error: String| unfit("weights", error);
    let supports = Matrix::sparse(machine.columns(), &[0], &[], &[]);
    let supports = supports.map_err(|error| refuse(error.to_string()))?;
    let (kernel, output) = (machine.kernel().clone(), machine.output().clone());
    let made = Machine::new(kernel, supports, scores.collect(), output);
    made.map(Some).map_err(|error| refuse(error.to_string()))
}

/// `Σ β_i x_i`.
fn sums(machine: &Machine, score: &Score) -> Vec<Compensated> {
    let mut weights = vec![Compensated::default(); machine.columns()];
    if let Score::Expansion { supports, coefficients, .. } = score {
        for (support, beta) in supports.iter().zip(coefficients) {
            let row = machine.supports().row(*support as usize);
            row.nonzeros().for_each(|(column, x)| weights[column as usize].add_product(*beta, x));
        }
    }
    weights
}

/// How far rounded weights are from the machine.
pub(super) fn error(machine: &Machine, small: &Machine) -> FeatureDistance {
    let (mut square, mut whole) = (0.0, 0.0);
    for (score, other) in machine.scores().iter().zip(small.scores()) {
        let Score::Linear { weights, .. } = other else { continue };
        for (sum, weight) in sums(machine, score).iter_mut().zip(weights) {
            whole += weight * weight;
            sum.add(-weight);
            square += sum.value() * sum.value();
        }
    }
    let absolute = f64::sqrt(square);
    let relative = if whole > 0.0 { absolute / whole.sqrt() } else { 0.0 };
    FeatureDistance { absolute, relative, rounding: 0.0, offset: 0.0 }
}
