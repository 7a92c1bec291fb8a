//! Verifies the sequences that a file holds for `anytime` and `compressed`, with the constants of `sequence.rs` and `near.rs`.

use mercer_data::Matrix;
use mercer_kernel::factor::KernelColumns;
use mercer_machine::{Machine, Section};

use super::near::Near;
use super::sequence::{ScoreNorms, SequenceConstants};
use super::{MeasureError, Watch, all_at_least, at_least, kernel_value_cost};
use crate::Exact;

/// A sequence as a file holds it.
struct StoredSequence<'a> {
    basis: Matrix,
    triangle: Vec<Vec<f64>>,
    defects: &'a [f64],
    /// Score after score, steps of each.
    weights: Vec<Vec<f64>>,
    rests: &'a [f64],
    hidden: &'a [f64],
}

/// Cuts the arrays of a section into sequences; the stage was loaded before, so that all lengths fit.
fn stored<'a>(section: &'a Section, machine: &Machine) -> Option<Vec<StoredSequence<'a>>> {
    let scores = machine.scores().len();
    let counts = section.u32s("counts")?;
    let starts = section.u32s("basis_starts")?.iter().map(|start| *start as usize);
    let (columns, values) = (section.u32s("basis_columns")?, section.f64s("basis_values")?);
    let starts: Vec<usize> = starts.collect();
    let basis = Matrix::sparse(machine.columns(), &starts, columns, values).ok()?.compact();
    let mut triangle = section.f64s("triangle")?;
    let [mut defects, mut weights, mut rests, mut hidden] = [
        section.f64s("defects")?,
        section.f64s("weights")?,
        section.f64s("residual_norms")?,
        section.f64s("residuals_in_span")?,
    ];
    let mut first = 0;
    let mut sequences = Vec::new();
    for steps in counts.iter().map(|count| *count as usize) {
        let mut rows = Vec::with_capacity(steps);
        for length in 1..=steps {
            rows.push(triangle.split_off(..length)?.to_vec());
        }
        let own = weights.split_off(..steps * scores)?;
        sequences.push(StoredSequence {
            basis: basis.select(first..first + steps),
            triangle: rows,
            defects: defects.split_off(..steps)?,
            weights: own.chunks_exact(steps).map(<[f64]>::to_vec).collect(),
            rests: rests.split_off(..steps * scores)?,
            hidden: hidden.split_off(..steps * scores)?,
        });
        first += steps;
    }
    Some(sequences)
}

impl StoredSequence<'_> {
    /// Whether every bound of the file is at least the measured one.
    fn check(&self, found: &SequenceConstants) -> Result<(), MeasureError> {
        let steps = self.defects.len();
        if found.steps() < steps {
            let at = found.steps();
            return Err(at_least("defects", at, self.defects[at], f64::INFINITY));
        }
        all_at_least("defects", self.defects, &found.defects)?;
        all_at_least("residual_norms", self.rests, &found.rests.concat())?;
        all_at_least("residuals_in_span", self.hidden, &found.hidden.concat())
    }
}

fn damaged() -> MeasureError {
    MeasureError::Unfit("its arrays do not fit each other".to_owned())
}

fn supports(machine: &Machine) -> KernelColumns {
    let supports = machine.supports().as_ref().clone();
    KernelColumns::new(machine.kernel().clone(), supports, machine.centre(), 0)
}

/// Verifies all sequences of `anytime`.
pub(crate) fn verify(
    section: &Section,
    exact: &Exact,
    watch: &Watch<'_>,
) -> Result<(), MeasureError> {
    let machine = exact.machine();
    let mut columns = supports(machine);
    let lengths = ScoreNorms::new(machine, &mut columns, watch)?;
    for sequence in stored(section, machine).ok_or_else(damaged)? {
        let StoredSequence { basis, triangle, weights, .. } = &sequence;
        let found = SequenceConstants::new(
            machine,
            basis,
            triangle,
            Some(weights),
            &mut columns,
            &lengths,
        )?;
        sequence.check(&found)?;
    }
    Ok(())
}

/// Verifies the sequence of `compressed` and what single vectors say.
pub(crate) fn verify_compressed(
    section: &Section,
    exact: &Exact,
    watch: &Watch<'_>,
) -> Result<(), MeasureError> {
    let machine = exact.machine();
    let mut columns = supports(machine);
    let lengths = ScoreNorms::new(machine, &mut columns, watch)?;
    let sequences = stored(section, machine).ok_or_else(damaged)?;
    let [sequence] = sequences.as_slice() else { return Err(damaged()) };
    let StoredSequence { basis, triangle, weights, .. } = sequence;
    let found =
        SequenceConstants::new(machine, basis, triangle, Some(weights), &mut columns, &lengths)?;
    sequence.check(&found)?;
    let array = |name: &str| section.f64s(name).ok_or_else(damaged);
    let near = Near::new(&found, &lengths, Some(array("coefficients")?));
    all_at_least("difference_norms", array("difference_norms")?, &near.strays)?;
    all_at_least("difference_products", array("difference_products")?, &near.slants)
}

/// Multiply-adds of a verification: all pairs of supports, all basis points with the supports and with each other.
pub(crate) fn work(section: &Section, exact: &Exact) -> f64 {
    let value = kernel_value_cost(exact);
    let supports = exact.machine().supports().rows() as f64;
    let counts = section.u32s("counts").unwrap_or_default().iter().map(|count| f64::from(*count));
    let sequences = counts.map(|k| k * (supports + k) * value + k * k * k);
    supports * supports * value + sequences.sum::<f64>()
}
