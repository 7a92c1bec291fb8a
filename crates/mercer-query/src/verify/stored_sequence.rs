//! Verifies the sequences that a file holds for `anytime` and `compressed`, with the constants of `sequence.rs` and `near.rs`.

use mercer_data::Matrix;
use mercer_kernel::factor::KernelColumns;
use mercer_machine::{Machine, Section};

use super::near::Near;
use super::sequence::{ScoreNorms, SequenceConstants};
use super::sequence_tree::SequenceTree;
use super::{MeasureError, Watch, all_at_least, at_least, kernel_value_cost};
use crate::Exact;

/// A sequence as a file holds it: its own steps, without those of its ancestors in a tree.
struct StoredSequence<'a> {
    /// Rows of the basis, and of T from the first step of the root on.
    rows: std::ops::Range<usize>,
    triangle: Vec<Vec<f64>>,
    defects: &'a [f64],
    /// Score after score, steps of each.
    weights: Vec<&'a [f64]>,
    rests: &'a [f64],
    hidden: &'a [f64],
}

/// All sequences of a file.
struct StoredSequences<'a> {
    basis: Matrix,
    tree: SequenceTree,
    sequences: Vec<StoredSequence<'a>>,
}

/// Cuts the arrays of a section into sequences; the stage was loaded before, so that all lengths fit.
fn stored<'a>(section: &'a Section, machine: &Machine) -> Option<StoredSequences<'a>> {
    let scores = machine.scores().len();
    let counts = section.u32s("counts")?;
    let tree = SequenceTree::new(section, counts)?;
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
    for (number, steps) in counts.iter().map(|count| *count as usize).enumerate() {
        let mut rows = Vec::with_capacity(steps);
        for step in 1..=steps {
            rows.push(triangle.split_off(..tree.before(number) + step)?.to_vec());
        }
        let own = weights.split_off(..steps * scores)?;
        sequences.push(StoredSequence {
            rows: first..first + steps,
            triangle: rows,
            defects: defects.split_off(..steps)?,
            weights: own.chunks_exact(steps).collect(),
            rests: rests.split_off(..steps * scores)?,
            hidden: hidden.split_off(..steps * scores)?,
        });
        first += steps;
    }
    Some(StoredSequences { basis, tree, sequences })
}

impl StoredSequences<'_> {
    /// Measures one sequence, from the first step of its root on, with the weights of the file.
    fn measure(
        &self,
        number: usize,
        machine: &Machine,
        columns: &mut KernelColumns,
        norms: &ScoreNorms,
    ) -> Result<SequenceConstants, MeasureError> {
        let path = self.tree.path(number);
        let nodes = || path.iter().map(|node| &self.sequences[*node]);
        let basis = self.basis.select(nodes().flat_map(|node| node.rows.clone()));
        let triangle: Vec<Vec<f64>> = nodes().flat_map(|node| node.triangle.clone()).collect();
        let of_score = |score: usize| {
            nodes().flat_map(|node| node.weights[score].iter().copied()).collect::<Vec<f64>>()
        };
        let weights: Vec<Vec<f64>> = (0..machine.scores().len()).map(of_score).collect();
        SequenceConstants::new(machine, &basis, &triangle, Some(&weights), columns, norms)
    }

    /// Whether every bound of a sequence in the file is at least the measured one.
    fn check(&self, number: usize, found: &SequenceConstants) -> Result<(), MeasureError> {
        let (stored, before) = (&self.sequences[number], self.tree.before(number));
        let steps = stored.defects.len();
        if found.steps() < before + steps {
            let at = found.steps().saturating_sub(before);
            return Err(at_least("defects", at, stored.defects[at], f64::INFINITY));
        }
        let own = |lists: &[Vec<f64>]| -> Vec<f64> {
            lists.iter().flat_map(|list| list[before..].iter().copied()).collect()
        };
        all_at_least("defects", stored.defects, &found.defects[before..])?;
        all_at_least("residual_norms", stored.rests, &own(&found.rests))?;
        all_at_least("residuals_in_span", stored.hidden, &own(&found.hidden))
    }
}

fn damaged() -> MeasureError {
    MeasureError::Unfit("its arrays do not fit each other".to_owned())
}

fn supports(machine: &Machine) -> KernelColumns {
    let supports = machine.supports().as_ref().clone();
    KernelColumns::new(machine.kernel().clone(), supports, machine.centre(), 0)
}

/// Verifies all sequences of a section; with what was measured, and the norms of the scores.
fn sequences(
    section: &Section,
    machine: &Machine,
    watch: &Watch<'_>,
) -> Result<(Vec<SequenceConstants>, ScoreNorms), MeasureError> {
    let mut columns = supports(machine);
    let norms = ScoreNorms::new(machine, &mut columns, watch)?;
    let stored = stored(section, machine).ok_or_else(damaged)?;
    let mut measured = Vec::new();
    for number in 0..stored.sequences.len() {
        let found = stored.measure(number, machine, &mut columns, &norms)?;
        stored.check(number, &found)?;
        measured.push(found);
    }
    Ok((measured, norms))
}

/// Verifies all sequences of `anytime`.
pub(crate) fn verify(
    section: &Section,
    exact: &Exact,
    watch: &Watch<'_>,
) -> Result<(), MeasureError> {
    sequences(section, exact.machine(), watch).map(drop)
}

/// Verifies the sequence of `compressed` and what single vectors say.
pub(crate) fn verify_compressed(
    section: &Section,
    exact: &Exact,
    watch: &Watch<'_>,
) -> Result<(), MeasureError> {
    let (found, norms) = sequences(section, exact.machine(), watch)?;
    let [found] = found.as_slice() else { return Err(damaged()) };
    let array = |name: &str| section.f64s(name).ok_or_else(damaged);
    let near = Near::new(found, &norms, Some(array("coefficients")?));
    all_at_least("difference_norms", array("difference_norms")?, &near.strays)?;
    all_at_least("difference_products", array("difference_products")?, &near.slants)
}

/// Multiply-adds of a verification: all pairs of supports, all basis points with the supports and with each other.
pub(crate) fn work(section: &Section, exact: &Exact) -> f64 {
    let value = kernel_value_cost(exact);
    let supports = exact.machine().supports().rows() as f64;
    let counts = section.u32s("counts").unwrap_or_default();
    let tree = SequenceTree::new(section, counts);
    let length = |(number, count): (usize, &u32)| {
        let before = tree.as_ref().map_or(0, |tree| tree.before(number));
        before as f64 + f64::from(*count)
    };
    let lengths = counts.iter().enumerate().map(length);
    let sequences = lengths.map(|k| k * (supports + k) * value + k * k * k);
    supports * supports * value + sequences.sum::<f64>()
}
