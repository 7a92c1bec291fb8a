//! The stage from its arrays, which are not trusted.
//!
//! All sequences one after the other: `counts` (steps of each), `basis_starts`, `basis_columns` and
//! `basis_values` (basis points, sparse), `triangle` (rows of T, the first of length 1), `defects` (delta of
//! each step), and, score after score within a sequence, `weights`, `residual_norms` and `residuals_in_span` of each step.
//! `chunk` is the number of steps taken at once in the beginning. `centres` (dense) come with several
//! sequences. A tree of sequences has `parents` instead (the position of each one's parent, `u32::MAX` for the root, which
//! comes first): rows of T below the root go back to the first basis point of the root, and for each sequence with children, in
//! their order, `split_weights` holds one weight for each basis point so far and `split_thresholds` one number.

use mercer_data::{Matrix, Row};
use mercer_kernel::Domain;
use mercer_kernel::block::Packed;
use mercer_machine::{Score, Section};
use mercer_simd::Panels64;
use mercer_spec::Checked;

use super::{Anytime, BasisChunk, Router, Sequence, Split, chunk_sizes};
use crate::certify::projection::{MOST_DEFECT, ProjectionStep, SharedSteps};
use crate::rounding::{RowSizes, roots};
use crate::verify::sequence_tree::SequenceTree;
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
    let mut sequences: Vec<Sequence> = Vec::new();
    let mut first = 0;
    for (number, count) in arrays.counts.iter().enumerate() {
        let rows = basis.select(first..first + *count as usize);
        first += *count as usize;
        let sizes = chunk_sizes(rows.rows(), arrays.chunk);
        let parent = arrays.tree.parent(number).map(|parent| &sequences[parent]);
        sequences.push(arrays.sequence(&rows, exact, &sizes, parent).map_err(refuse)?);
    }
    let splits = arrays.splits().map_err(refuse)?;
    let router = arrays.router(machine.columns()).map_err(refuse)?;
    let offsets = machine.scores().iter().map(Score::offset).collect();
    let (isa, columns) = (exact.isa(), machine.columns() as u64);
    let longest = sequences.iter().map(|sequence| sequence.norms.len()).max().unwrap_or(0);
    Ok(Anytime { spec, isa, kernel, offsets, columns, sequences, splits, router, longest })
}

/// The arrays of a section; lengths fit each other, numbers are finite.
pub(in crate::stages) struct SequenceArrays<'a> {
    section: &'a Section,
    scores: usize,
    chunk: usize,
    pub(in crate::stages) counts: &'a [u32],
    tree: SequenceTree,
    /// What of each array is left, in the order of [`NAMES`].
    left: [&'a [f64]; 5],
    /// What each sequence took of them: its own steps.
    taken: Vec<OwnSteps<'a>>,
}

/// The arrays of one sequence without its ancestors.
struct OwnSteps<'a> {
    rows: Vec<&'a [f64]>,
    defects: &'a [f64],
    /// Of each score: weights, residual norms, residuals in the span.
    scores: Vec<[&'a [f64]; 3]>,
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
        let tree = SequenceTree::new(section, counts).ok_or("its tree does not fit")?;
        let (total, triangle) = (tree.steps(), tree.triangle());
        let lengths = [triangle, total, total * scores, total * scores, total * scores];
        if left.iter().zip(lengths).any(|(array, length)| array.len() != length) {
            return Err("its arrays do not fit the machine");
        }
        let (chunk, taken) = (chunk[0] as usize, Vec::new());
        Ok(Self { section, scores, chunk, counts, tree, left, taken })
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

    /// Takes the arrays of the next sequence.
    fn take_own_steps(&mut self) -> Result<(), &'static str> {
        let number = self.taken.len();
        let (steps, before) = (self.counts[number] as usize, self.tree.before(number));
        let rows = (0..steps).map(|step| self.take(0, before + step + 1)).collect();
        let defects = self.take(1, steps);
        if defects.iter().any(|delta| !(0.0..=MOST_DEFECT).contains(delta)) {
            return Err("its basis is too far from orthonormal");
        }
        let mut scores = Vec::new();
        for _ in 0..self.scores {
            let own = [self.take(2, steps), self.take(3, steps), self.take(4, steps)];
            if own[1].iter().chain(own[2]).any(|x| *x < 0.0) {
                return Err("its bounds are negative");
            }
            scores.push(own);
        }
        self.taken.push(OwnSteps { rows, defects, scores });
        Ok(())
    }

    /// The next sequence, its own basis points computed in pieces of these sizes.
    pub(in crate::stages) fn sequence(
        &mut self,
        basis: &Matrix,
        exact: &Exact,
        sizes: &[usize],
        parent: Option<&Sequence>,
    ) -> Result<Sequence, &'static str> {
        self.take_own_steps()?;
        let path = self.tree.path(self.taken.len() - 1);
        let own = &self.taken[path[path.len() - 1]];
        let machine = exact.machine();
        let kernel = machine.kernel();
        let pieces = Packed::pieces(kernel, basis, machine.centre(), sizes);
        let mut chunks = Vec::new();
        let before = parent.map_or(0, |parent| parent.norms.len());
        let mut first = 0;
        for basis in pieces {
            let end = first + basis.rows();
            let triangle = Panels64::pack(basis.rows(), before + end, |lane, out| {
                let row = own.rows[first + lane];
                out[..row.len()].copy_from_slice(row);
            });
            chunks.push(BasisChunk { first: before + first, basis, triangle });
            first = end;
        }
        let mut norms = parent.map_or(Vec::new(), |parent| parent.norms.clone());
        norms.extend(chunks.iter().flat_map(|chunk| chunk.basis.squared_norms()));
        let is_shifted = chunks[0].basis.is_shifted();
        let nodes = || path.iter().map(|node| &self.taken[*node]);
        let rows = nodes().flat_map(|node| node.rows.iter().copied());
        let defects: Vec<f64> = nodes().flat_map(|node| node.defects.iter().copied()).collect();
        let shared = SharedSteps::new(rows, &roots(kernel.as_ref(), &norms), &defects);
        let sums = norms.iter().copied();
        let sizes = RowSizes::new(kernel.as_ref(), sums, machine.columns(), is_shifted);
        let scores = (0..self.scores).map(|score| {
            let join = |at: usize| -> Vec<f64> {
                nodes().flat_map(|node| node.scores[score][at].iter().copied()).collect()
            };
            projection_steps(&join(0), &join(1), &join(2))
        });
        let scores = scores.collect();
        Ok(Sequence { chunks, shared, scores, sizes, norms })
    }

    /// Where the open queries of each sequence go on.
    fn splits(&self) -> Result<Vec<Option<Split>>, &'static str> {
        let unfit = "its splits do not fit its tree";
        let mut weights = self.section.f64s("split_weights").unwrap_or_default();
        let mut thresholds = self.section.f64s("split_thresholds").unwrap_or_default();
        if weights.iter().chain(thresholds).any(|x| !x.is_finite()) {
            return Err(unfit);
        }
        let mut splits = Vec::new();
        for (number, count) in self.counts.iter().enumerate() {
            let Some(children) = self.tree.children(number) else {
                splits.push(None);
                continue;
            };
            let so_far = self.tree.before(number) + *count as usize;
            let own = weights.split_off(..so_far).ok_or(unfit)?.to_vec();
            let threshold = *thresholds.split_off_first().ok_or(unfit)?;
            let children = children.map(|child| child as u32);
            splits.push(Some(Split { weights: own, threshold, children }));
        }
        if weights.is_empty() && thresholds.is_empty() { Ok(splits) } else { Err(unfit) }
    }

    fn router(&self, columns: usize) -> Result<Option<Router>, &'static str> {
        if self.counts.len() == 1 || self.tree.has_splits() {
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

/// The steps of one score from weights, residual norms and residuals in the span.
fn projection_steps(weights: &[f64], rests: &[f64], hidden: &[f64]) -> Vec<ProjectionStep> {
    let mut square = 0.0;
    let step = |k: usize| {
        square += weights[k] * weights[k];
        let norm = square.sqrt() * (1.0 + (k as f64 + 8.0) * f64::EPSILON);
        ProjectionStep::new(k + 1, weights[k], rests[k], norm + 1e-150, hidden[k])
    };
    (0..weights.len()).map(step).collect()
}
