//! The stage from its arrays, which are not trusted: those of one sequence of `anytime`, and score after
//! score `coefficients` (one for each vector), `difference_norms` (one) and `difference_products` (one for each vector).

use mercer_data::{Matrix, Row};
use mercer_kernel::Domain;
use mercer_kernel::block::{BLOCK, Packed};
use mercer_kernel::bound::{LEAST, larger, largest, smaller};
use mercer_machine::{Score, Section};
use mercer_simd::Isa;
use mercer_spec::Checked;

use super::super::anytime::Sequence;
use super::super::anytime::arrays::SequenceArrays;
use super::Compressed;
use crate::certify::nearby::{SmallMachine, Vectors};
use crate::rounding::roots;
use crate::{Exact, LoadError};

/// With more vectors no kernel values between them are kept.
const MOST_GRAM: usize = 2048;
/// The function and the sum of one kernel value of an exact answer, in multiply-adds.
const VALUE: usize = 40;

pub(super) fn load(
    section: &Section,
    arguments: &Checked<'_>,
    exact: &Exact,
) -> Result<Compressed, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("compressed", reason);
    let machine = exact.machine();
    let spec = arguments.text().clone();
    let kernel = machine.kernel().clone();
    if !kernel.is_positive_semidefinite() || kernel.form().finish().is_none() {
        let reason = format!("{} is not known to be positive semidefinite", kernel.spec());
        return Err(refuse(&reason));
    }
    if !machine.scores().iter().all(|score| matches!(score, Score::Expansion { .. })) {
        return Err(refuse("a linear score is one product already"));
    }
    let count = machine.scores().len();
    let mut arrays = SequenceArrays::new(section, count).map_err(refuse)?;
    if arrays.counts.len() != 1 {
        return Err(refuse("it has several sequences"));
    }
    let basis = arrays.basis(machine.columns()).map_err(refuse)?;
    let is_negative = |row: Row<'_>| row.nonzeros().any(|(_, value)| value < 0.0);
    if kernel.domain() == Domain::NonNegative && basis.iter().any(is_negative) {
        return Err(refuse("its vectors lie outside the kernel's domain"));
    }
    let size = basis.rows();
    let sequence = arrays.sequence(&basis, exact, &[size], None).map_err(refuse)?;
    let sums = sequence.chunks[0].basis.squared_norms().to_vec();
    let mut self_values = sums.clone();
    if let Some(finish) = kernel.form().finish() {
        finish.self_values(exact.isa(), &mut self_values);
    }
    let inverse = |value: &f64| if *value > 1e-100 && *value < 1e100 { 1.0 / value } else { 0.0 };
    let inverses: Vec<f64> = self_values.iter().map(inverse).collect();
    let vectors = vectors(&sequence, exact, &sums);
    let scores = scores(section, exact, &vectors.sizes).map_err(refuse)?;
    let gram = (size <= MOST_GRAM).then(|| gram(&sequence.chunks[0].basis, &basis, exact.isa()));
    let live = exact.packed().live_columns();
    Ok(Compressed {
        spec,
        isa: exact.isa(),
        kernel,
        columns: machine.columns() as u64,
        sequence,
        coefficients: section.f64s("coefficients").unwrap_or_default().to_vec(),
        scores,
        vectors,
        inverses,
        gram,
        uses_all: size * (size + 1) / 2 < machine.supports().rows() * (live + VALUE),
        offsets: machine.scores().iter().map(Score::offset).collect(),
    })
}

/// Sizes of the vectors, and how wrong kernel values between them may be.
fn vectors(sequence: &Sequence, exact: &Exact, sums: &[f64]) -> Vectors {
    let machine = exact.machine();
    let kernel = machine.kernel().as_ref();
    let longest = largest(sums.iter().copied());
    let shortest = sums.iter().copied().fold(longest, smaller);
    let of = |squared_norm: f64| sequence.sizes.of_query(kernel, squared_norm, machine.columns());
    let (long, short) = (of(longest), of(shortest));
    let sizes = roots(kernel, sums);
    match (long.relative_error, short.relative_error) {
        (Some(a), Some(b)) => {
            Vectors { sizes, error: Some(1.01 * larger(a, b)), is_relative: true }
        }
        _ => {
            let error = 1.01 * larger(long.kernel_error, short.kernel_error);
            let error = error.is_finite().then_some(error);
            Vectors { sizes, error, is_relative: false }
        }
    }
}

fn scores(
    section: &Section,
    exact: &Exact,
    sizes: &[f64],
) -> Result<Vec<SmallMachine>, &'static str> {
    let array = |name: &str, length: usize| {
        let values = section.f64s(name).ok_or("an array is missing")?;
        let is_sane = |x: &f64| x.is_finite() && x.abs() < 1e150;
        if values.len() != length || !values.iter().all(is_sane) {
            return Err("its arrays do not fit the machine");
        }
        Ok(values)
    };
    let (count, size) = (exact.machine().scores().len(), sizes.len());
    let coefficients = array("coefficients", count * size)?;
    let (strays, slants) =
        (array("difference_norms", count)?, array("difference_products", count * size)?);
    if strays.iter().chain(slants).any(|x| *x < 0.0) {
        return Err("its bounds are negative");
    }
    let up = 1.0 + (size as f64 + 8.0) * f64::EPSILON;
    let lists = coefficients.chunks_exact(size).zip(slants.chunks_exact(size)).zip(strays);
    let offsets = exact.machine().scores().iter().map(Score::offset);
    let small = |(((list, slants), stray), offset): (((&[f64], &[f64]), &f64), f64)| SmallMachine {
        stray: *stray,
        // Products of small numbers may underflow.
        sized: list.iter().zip(sizes).map(|(g, s)| g.abs() * s).sum::<f64>() * up
            + size as f64 * LEAST,
        plain: list.iter().map(|g| g.abs()).sum::<f64>() * up,
        slants: slants.to_vec(),
        offset,
    };
    Ok(lists.zip(offsets).map(small).collect())
}

/// Kernel values of all pairs of vectors.
fn gram(packed: &Packed, basis: &Matrix, isa: Isa) -> Vec<f64> {
    let size = basis.rows();
    let (mut values, mut tile, mut queries) =
        (vec![0.0; size * size], Vec::new(), packed.queries());
    for first in (0..size).step_by(BLOCK) {
        let rows = (first..(first + BLOCK).min(size)).map(|row| basis.row(row));
        packed.load(isa, rows.clone(), &mut queries);
        packed.visit(isa, &queries, rows, &mut tile, |tile| {
            for query in tile.queries.clone() {
                let start = (first + query) * size + tile.rows.start;
                values[start..start + tile.rows.len()].copy_from_slice(tile.of(query));
            }
        });
    }
    values
}
