//! Traces: the partial scores of rows as supports are added from the nearest on.

use mercer_data::Matrix;
use mercer_machine::Score;
use mercer_query::{Exact, NearestOrder, Plan};
use mercer_simd::gemm_nt;

use crate::basis::{PrincipalBasis, live_row};
use crate::{CompileError, Task};

/// One way to walk and to set thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NearestCandidate {
    pub dimensions: usize,
    pub has_tug_of_war: bool,
    pub smoothing: usize,
}

impl NearestCandidate {
    /// Whether the supports are visited in the same order.
    pub(super) fn walks_like(&self, other: &Self) -> bool {
        (self.dimensions, self.has_tug_of_war) == (other.dimensions, other.has_tug_of_war)
    }
}

/// Rows whose kernel values are held at a time.
const CHUNK: usize = 128;
/// Most rows of the cross-validation, and most numbers it may hold.
const MOST_FOLDED: usize = 2000;
const MOST_NUMBERS: usize = 1 << 24;

/// What the walks over the supports need: the scores of all rows, and the supports turned into the
/// coordinates of the ordering.
#[derive(Debug)]
pub(super) struct Traces<'a> {
    exact: &'a Exact,
    basis: &'a PrincipalBasis,
    rows: &'a Matrix,
    truths: Vec<f64>,
    coefficients: Vec<f64>,
    /// Coordinates of the supports, `basis.rows` for each.
    turned: Vec<f64>,
}

impl<'a> Traces<'a> {
    pub(super) fn new(
        task: &Task<'a>,
        basis: &'a PrincipalBasis,
        rows: &'a Matrix,
    ) -> Result<Self, CompileError> {
        let exact = task.exact;
        let machine = exact.machine();
        if machine.kernel().form().finish().is_none() {
            let reason = format!("{} is not a function of a dot product", machine.kernel().spec());
            return Err(CompileError::Unfit { stage: "nearest", reason });
        }
        let truths = Plan::exact(machine).scores(rows)?;
        let supports = machine.supports();
        let coefficients = machine.scores()[0].dense(supports.rows());
        let turned = coordinates(exact, basis, supports, 0..supports.rows());
        Ok(Self { exact, basis, rows, truths, coefficients, turned })
    }

    /// Exact scores of all rows.
    pub(super) fn truths(&self) -> &[f64] {
        &self.truths
    }

    /// Directions there are.
    pub(super) fn directions(&self) -> usize {
        self.basis.rows
    }

    /// How many rows a cross-validation takes, so that it stays quick and fits the memory.
    pub(super) fn few(&self) -> usize {
        (MOST_NUMBERS / self.coefficients.len().max(1)).clamp(200, MOST_FOLDED)
    }

    /// Walks over all supports for each row, or for `most` rows spread over all: the number of the row among
    /// those visited, its exact score, and its score after each support.
    pub(super) fn visit(
        &self,
        candidate: &NearestCandidate,
        most: Option<usize>,
        task: &Task<'_>,
        mut visit: impl FnMut(usize, f64, &[f64]),
    ) -> Result<(), CompileError> {
        let step = most.map_or(1, |most| self.rows.rows().div_ceil(most.max(1)));
        let chosen: Vec<usize> = (0..self.rows.rows()).step_by(step).collect();
        let mut walk = Walk::new(self, candidate);
        for (number, chunk) in chosen.chunks(CHUNK).enumerate() {
            task.watch.step("nearest: thresholds", number * CHUNK, chosen.len())?;
            walk.load(chunk);
            for (at, row) in chunk.iter().enumerate() {
                visit(number * CHUNK + at, self.truths[*row], walk.trace(at));
            }
        }
        Ok(())
    }
}

/// Working memory of the walks.
struct Walk<'a> {
    traces: &'a Traces<'a>,
    candidate: NearestCandidate,
    /// Coordinates of the supports in the dimensions of the candidate.
    turned: Vec<f64>,
    /// Kernel values of the rows of a chunk with all supports: exact, and cut.
    exact: Vec<f64>,
    cut: Vec<f64>,
    order: NearestOrder,
    trace: Vec<f64>,
}

impl<'a> Walk<'a> {
    fn new(traces: &'a Traces<'a>, candidate: &NearestCandidate) -> Self {
        let size = candidate.dimensions;
        let rows = traces.turned.chunks_exact(traces.basis.rows);
        let turned = rows.flat_map(|row| row[..size].iter().copied()).collect();
        let (exact, cut, trace) = (Vec::new(), Vec::new(), Vec::new());
        let order = NearestOrder::default();
        Self { traces, candidate: *candidate, turned, exact, cut, order, trace }
    }

    fn load(&mut self, chosen: &[usize]) {
        let Traces { exact, basis, rows, .. } = self.traces;
        let (supports, size) = (exact.machine().supports().rows(), self.candidate.dimensions);
        let packed = exact.packed();
        let chunk = rows.select(chosen.iter().copied());
        let mut queries = packed.queries();
        let all = || (0..chunk.rows()).map(|row| chunk.row(row));
        packed.load(exact.isa(), all(), &mut queries);
        self.exact.resize(chosen.len() * supports, 0.0);
        let (out, mut tile) = (&mut self.exact, Vec::new());
        packed.visit(exact.isa(), &queries, all(), &mut tile, |tile| {
            for query in tile.queries.clone() {
                let start = query * supports + tile.rows.start;
                out[start..start + tile.rows.len()].copy_from_slice(tile.of(query));
            }
        });
        let all_coordinates = coordinates(exact, basis, &chunk, 0..chunk.rows());
        let first_coordinates: Vec<f64> = all_coordinates
            .chunks_exact(basis.rows)
            .flat_map(|row| row[..size].iter().copied())
            .collect();
        self.cut.resize(chosen.len() * supports, 0.0);
        gemm_nt(chosen.len(), supports, size, &first_coordinates, &self.turned, &mut self.cut);
        let form = exact.machine().kernel().form();
        let finish = form.finish().expect("checked before");
        let norms = queries.squared_norms();
        for (values, squared_norm) in self.cut.chunks_exact_mut(supports).zip(norms) {
            finish.finish(exact.isa(), values, *squared_norm, packed.squared_norms());
        }
    }

    fn trace(&mut self, at: usize) -> &[f64] {
        let Traces { coefficients, exact, .. } = self.traces;
        let supports = coefficients.len();
        let (values, cut) = (&self.exact[at * supports..], &self.cut[at * supports..]);
        self.order.start(&cut[..supports], coefficients, self.candidate.has_tug_of_war);
        self.trace.clear();
        let mut score = -exact.machine().scores().first().map_or(0.0, Score::offset);
        while let Some(support) = self.order.next(coefficients) {
            score += coefficients[support as usize] * values[support as usize];
            self.trace.push(score);
        }
        &self.trace
    }
}

/// Coordinates of rows in the basis, `basis.rows` for each.
fn coordinates(
    exact: &Exact,
    basis: &PrincipalBasis,
    rows: &Matrix,
    range: std::ops::Range<usize>,
) -> Vec<f64> {
    let live = exact.packed().live();
    let mut table = vec![0.0; range.len() * live.len()];
    for (place, row) in table.chunks_exact_mut(live.len()).zip(range.clone()) {
        live_row(exact.machine(), live, rows.row(row), place);
    }
    let mut out = vec![0.0; range.len() * basis.rows];
    gemm_nt(range.len(), basis.rows, live.len(), &table, &basis.values, &mut out);
    out
}
