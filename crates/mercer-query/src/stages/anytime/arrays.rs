//! The stage from its arrays, which are not trusted.
//!
//! All sequences one after the other: `counts` (steps of each), `basis_starts`, `basis_columns` and
//! `basis_values` (basis points, sparse), `triangle` (rows of T, the first of length 1), `defects` (delta of
//! each step), and, score after score within a sequence, `weights`, `residual_norms` and `residuals_in_span` of each step.
//! `chunk` is the number of steps taken at once in the beginning. `centres` (dense) come with several
//! sequences.

use mercer_data::{Matrix, Row};
use mercer_kernel::Domain;
use mercer_kernel::block::Packed;
use mercer_machine::{Score, Section};
use mercer_simd::Panels64;
use mercer_spec::Checked;

use super::{Anytime, BasisChunk, Router, Sequence, chunk_sizes};
use crate::certify::projection::{MOST_DEFECT, ProjectionStep, SharedSteps};
use crate::rounding::{RowSizes, roots};
use crate::{Exact, LoadError};

pub(super) fn load(
    section: &Section,
    arguments: &Checked<'_>,
    exact: &Exact,
) -> Result<Anytime, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("anytime", reason);
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
    let mut arrays = SequenceArrays::new(section, machine.scores().len()).map_err(refuse)?;
    let basis = arrays.basis(machine.columns()).map_err(refuse)?;
    let is_negative = |row: Row<'_>| row.nonzeros().any(|(_, value)| value < 0.0);
    if kernel.domain() == Domain::NonNegative && basis.iter().any(is_negative) {
        return Err(refuse("its basis lies outside the kernel's domain"));
    }
    let mut sequences = Vec::new();
    let mut first = 0;
    for count in arrays.counts {
        let rows = basis.select(first..first + *count as usize);
        first += *count as usize;
        let sizes = chunk_sizes(rows.rows(), arrays.chunk);
        sequences.push(arrays.sequence(&rows, exact, &sizes).map_err(refuse)?);
    }
    let router = arrays.router(machine.columns()).map_err(refuse)?;
    let offsets = machine.scores().iter().map(Score::offset).collect();
    let (isa, columns) = (exact.isa(), machine.columns() as u64);
    Ok(Anytime { spec, isa, kernel, offsets, columns, sequences, router })
}

/// The arrays of a section; lengths fit each other, numbers are finite.
pub(in crate::stages) struct SequenceArrays<'a> {
    section: &'a Section,
    scores: usize,
    chunk: usize,
    pub(in crate::stages) counts: &'a [u32],
    /// What of each array is left, in the order of [`NAMES`].
    left: [&'a [f64]; 5],
}

const NAMES: [&str; 5] = ["triangle", "defects", "weights", "residual_norms", "residuals_in_span"];

impl<'a> SequenceArrays<'a> {
    pub(in crate::stages) fn new(
        section: &'a Section,
        scores: usize,
    ) -> Result<Self, &'static str> {
        let counts = section.u32s("counts").ok_or("its counts are missing")?;
        let chunk = section.u32s("chunk").ok_or("its chunk is missing")?;
        let mut left: [&[f64]; 5] = [&[]; 5];
        for (place, name) in left.iter_mut().zip(NAMES) {
            *place = section.f64s(name).ok_or("an array is missing")?;
        }
        let is_sane = |array: &&[f64]| array.iter().all(|x| x.is_finite() && x.abs() < 1e150);
        if !left.iter().all(is_sane) {
            return Err("its arrays hold values that are not finite or too large");
        }
        let limit = 1 << 16;
        let fits = !counts.is_empty()
            && counts.iter().all(|count| (1..=limit).contains(count))
            && chunk.len() == 1
            && (1..=1024).contains(&chunk[0]);
        if !fits {
            return Err("its counts do not fit");
        }
        let steps = counts.iter().map(|count| *count as usize);
        let (total, triangle) =
            steps.fold((0, 0), |(total, area), n| (total + n, area + n * (n + 1) / 2));
        let lengths = [triangle, total, total * scores, total * scores, total * scores];
        if left.iter().zip(lengths).any(|(array, length)| array.len() != length) {
            return Err("its arrays do not fit the machine");
        }
        Ok(Self { section, scores, chunk: chunk[0] as usize, counts, left })
    }

    pub(in crate::stages) fn basis(&self, columns: usize) -> Result<Matrix, &'static str> {
        let starts = self.section.u32s("basis_starts").ok_or("its basis is missing")?;
        let places = self.section.u32s("basis_columns").ok_or("its basis is missing")?;
        let values = self.section.f64s("basis_values").ok_or("its basis is missing")?;
        let starts: Vec<usize> = starts.iter().map(|start| *start as usize).collect();
        let total: usize = self.counts.iter().map(|count| *count as usize).sum();
        let increasing = starts.windows(2).all(|pair| pair[0] <= pair[1]);
        let fits = starts.len() == total + 1 && starts[0] == 0 && increasing;
        if !fits || places.len() != values.len() || starts.last() != Some(&values.len()) {
            return Err("its basis does not fit");
        }
        let basis = Matrix::sparse(columns, &starts, places, values);
        Ok(basis.map_err(|_| "its basis is not a matrix of the machine's columns")?.compact())
    }

    fn take(&mut self, array: usize, count: usize) -> &'a [f64] {
        let (taken, left) = self.left[array].split_at(count);
        self.left[array] = left;
        taken
    }

    /// The next sequence, computed in pieces of these sizes.
    pub(in crate::stages) fn sequence(
        &mut self,
        basis: &Matrix,
        exact: &Exact,
        sizes: &[usize],
    ) -> Result<Sequence, &'static str> {
        let (steps, machine) = (basis.rows(), exact.machine());
        let kernel = machine.kernel();
        let triangle = self.take(0, steps * (steps + 1) / 2);
        let row = |i: usize| &triangle[i * (i + 1) / 2..(i + 1) * (i + 2) / 2];
        let defects = self.take(1, steps);
        if defects.iter().any(|delta| !(0.0..=MOST_DEFECT).contains(delta)) {
            return Err("its basis is too far from orthonormal");
        }
        let pieces = Packed::pieces(kernel, basis, machine.centre(), sizes);
        let mut chunks = Vec::new();
        let mut first = 0;
        for basis in pieces {
            let end = first + basis.rows();
            let triangle = Panels64::pack(basis.rows(), end, |lane, out| {
                out[..=first + lane].copy_from_slice(row(first + lane));
            });
            chunks.push(BasisChunk { first, basis, triangle });
            first = end;
        }
        let sums: Vec<f64> =
            chunks.iter().flat_map(|chunk| chunk.basis.squared_norms().iter().copied()).collect();
        let is_shifted = chunks[0].basis.is_shifted();
        let shared = SharedSteps::new((0..steps).map(row), &roots(kernel.as_ref(), &sums), defects);
        let sums = sums.into_iter();
        let sizes = RowSizes::new(kernel.as_ref(), sums, machine.columns(), is_shifted);
        let mut scores = Vec::new();
        for _ in 0..self.scores {
            let weights = self.take(2, steps);
            let (rests, hidden) = (self.take(3, steps), self.take(4, steps));
            if rests.iter().chain(hidden).any(|x| *x < 0.0) {
                return Err("its bounds are negative");
            }
            let mut square = 0.0;
            let step = |k: usize| {
                square += weights[k] * weights[k];
                let norm = square.sqrt() * (1.0 + (k as f64 + 8.0) * f64::EPSILON);
                ProjectionStep::new(k + 1, weights[k], rests[k], norm + 1e-150, hidden[k])
            };
            scores.push((0..steps).map(step).collect());
        }
        Ok(Sequence { chunks, shared, scores, sizes })
    }

    fn router(&self, columns: usize) -> Result<Option<Router>, &'static str> {
        if self.counts.len() == 1 {
            return Ok(None);
        }
        let values = self.section.f64s("centres").ok_or("its centres are missing")?;
        if values.len() != self.counts.len() * columns {
            return Err("there is not one centre for each sequence");
        }
        let centres = Matrix::dense(columns, values.to_vec())
            .map_err(|_| "its centres are not a matrix of the machine's columns")?;
        let half = |row: usize| {
            0.5 * values[row * columns..][..columns].iter().map(|x| x * x).sum::<f64>()
        };
        let halves = (0..centres.rows()).map(half).collect();
        let linear = mercer_kernel::parse("linear").expect("the linear kernel takes no parameters");
        Ok(Some(Router { centres: Packed::new(linear, &centres, None), halves }))
    }
}
