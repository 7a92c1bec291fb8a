//! Traces: the partial scores of rows as supports are added from the nearest on.

use mercer_data::Matrix;
use mercer_kernel::factor::KernelColumns;
use mercer_machine::{Answer, Array, Score, Section, pairs_with};
use mercer_query::{Exact, NearestOrder, Plan};
use mercer_simd::gemm_nt;

use super::embedding::FittedEmbedding;
use super::settings::NearnessOrder;
use super::thresholds::Thresholds;
use super::unfit;
use super::walked::WalkedVectors;
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
pub(super) struct Traces<'a> {
    exact: &'a Exact,
    walked: &'a WalkedVectors<'a>,
    ordering: NearnessOrder,
    basis: &'a PrincipalBasis,
    rows: &'a Matrix,
    /// Exact scores, row after row.
    truths: Vec<f64>,
    /// Class that the machine gives each row, where there are several.
    winners: Vec<usize>,
    /// Coordinates of the vectors, `basis.rows` for each; none for other orderings.
    turned: Vec<f64>,
}

impl<'a> Traces<'a> {
    pub(super) fn new(
        task: &'a Task<'_>,
        walked: &'a WalkedVectors<'a>,
        rows: &'a Matrix,
        ordering: NearnessOrder,
    ) -> Result<Self, CompileError> {
        let exact = task.exact;
        let machine = exact.machine();
        if machine.kernel().form().finish().is_none() {
            return Err(unfit(format!(
                "{} is not a function of a dot product",
                machine.kernel().spec()
            )));
        }
        if !machine.scores().iter().all(|score| matches!(score, Score::Expansion { .. })) {
            return Err(unfit("a score that is no sum over supports has no nearest ones"));
        }
        let basis = task.basis("nearest")?;
        let truths = Plan::exact(machine).scores(rows)?;
        let winner = |scores: &[f64]| match machine.verdict(scores).answer {
            Answer::Class(class) => class,
            _ => 0,
        };
        let winners = truths.chunks_exact(machine.scores().len()).map(winner).collect();
        let vectors = walked.exact().machine().supports();
        let turned =
            if ordering.is_principal() { coordinates(exact, basis, vectors) } else { Vec::new() };
        Ok(Self { exact, walked, ordering, basis, rows, truths, winners, turned })
    }

    /// The rows.
    pub(super) fn rows(&self) -> &Matrix {
        self.rows
    }

    fn score_count(&self) -> usize {
        self.exact.machine().scores().len()
    }

    /// The exact value of one score of a row.
    pub(super) fn truth(&self, row: usize, score: usize) -> f64 {
        self.truths[row * self.score_count() + score]
    }

    /// The scores that thresholds learn of from a row: all that its class takes part in. Scores between other classes do
    /// not decide its label.
    pub(super) fn scores_of(&self, row: usize) -> Vec<usize> {
        if self.score_count() == 1 {
            return vec![0];
        }
        let classes = self.exact.machine().classes().len();
        pairs_with(classes, self.winners[row]).map(|(pair, _)| pair).collect()
    }

    /// Thresholds that have seen nothing, one list for each score.
    pub(super) fn thresholds(&self) -> Vec<Thresholds> {
        let vectors = self.walked.exact().machine();
        vectors.scores().iter().map(|score| Thresholds::new(members(score).len())).collect()
    }

    /// Directions there are.
    pub(super) fn directions(&self) -> usize {
        if self.ordering.is_principal() { self.basis.rows } else { self.vectors() }
    }

    /// Vectors that are visited.
    pub(super) fn vectors(&self) -> usize {
        self.walked.exact().machine().supports().rows()
    }

    /// What a walk without an end costs in addition, in supports.
    pub(super) fn cost_of_rest(&self) -> usize {
        if self.walked.is_reduced() { self.exact.machine().supports().rows() } else { 0 }
    }

    /// How many rows a cross-validation takes, so that it stays quick and fits the memory.
    pub(super) fn few(&self) -> usize {
        let all: usize = self.thresholds().iter().map(|ends| ends.low.len()).sum();
        let per_row = all * self.scores_of(0).len() / self.score_count().max(1);
        (MOST_NUMBERS / per_row.max(1)).clamp(200, MOST_FOLDED)
    }

    /// Walks over all supports for each row, or for `most` rows spread over all: the score, the number of the row among
    /// those visited, its exact value, and its value after each support.
    pub(super) fn visit(
        &self,
        candidate: &NearestCandidate,
        most: Option<usize>,
        task: &Task<'_>,
        mut visit: impl FnMut(usize, usize, f64, &[f64]),
    ) -> Result<(), CompileError> {
        let step = most.map_or(1, |most| self.rows.rows().div_ceil(most.max(1)));
        let chosen: Vec<usize> = (0..self.rows.rows()).step_by(step).collect();
        let mut walk = Walk::new(self, candidate)?;
        for (number, chunk) in chosen.chunks(CHUNK).enumerate() {
            task.watch.step("nearest: thresholds", number * CHUNK, chosen.len())?;
            walk.load(chunk);
            for (at, row) in chunk.iter().enumerate() {
                walk.order_row(at);
                for score in self.scores_of(*row) {
                    let truth = self.truth(*row, score);
                    visit(score, number * CHUNK + at, truth, walk.trace(at, score));
                }
            }
        }
        Ok(())
    }

    /// Adds what the order of a candidate needs to the section.
    pub(super) fn ordering_arrays(&self, chosen: &NearestCandidate, section: Section) -> Section {
        let Some(embedding) = self.embedding(chosen) else {
            let count = chosen.dimensions.min(self.basis.rows);
            return section.with("basis", Array::F32(self.basis.to_f32(count)));
        };
        let coordinates = embedding.coordinates.iter().map(|x| *x as f32).collect();
        section
            .with("landmarks", Array::U32(embedding.landmarks))
            .with("map", Array::F64(embedding.map))
            .with("shift", Array::F64(embedding.shift))
            .with("coordinates", Array::F32(coordinates))
            .with("constants", Array::F64(embedding.constants))
    }

    /// The embedding of a candidate, for orderings in feature space.
    fn embedding(&self, candidate: &NearestCandidate) -> Option<FittedEmbedding> {
        if self.ordering.is_principal() {
            return None;
        }
        let machine = self.walked.exact().machine();
        let (kernel, vectors) = (machine.kernel().clone(), machine.supports().as_ref().clone());
        let mut columns = KernelColumns::new(kernel, vectors, machine.centre(), 0);
        FittedEmbedding::new(self.ordering, &mut columns, candidate.dimensions)
    }
}

/// Vectors of a score.
fn members(score: &Score) -> &[u32] {
    match score {
        Score::Expansion { supports, .. } => supports,
        _ => &[],
    }
}

/// Working memory of the walks.
struct Walk<'a> {
    traces: &'a Traces<'a>,
    candidate: NearestCandidate,
    embedding: Option<FittedEmbedding>,
    /// Coordinates of the vectors in the dimensions of the candidate.
    turned: Vec<f64>,
    /// Kernel values of the rows of a chunk with all vectors: exact, and cut.
    exact: Vec<f64>,
    cut: Vec<f64>,
    order: NearestOrder,
    nearness: Vec<f64>,
    trace: Vec<f64>,
}

impl<'a> Walk<'a> {
    fn new(traces: &'a Traces<'a>, candidate: &NearestCandidate) -> Result<Self, CompileError> {
        let size = candidate.dimensions;
        let embedding = traces.embedding(candidate);
        if embedding.is_none() && !traces.ordering.is_principal() {
            return Err(unfit("its supports do not differ in feature space"));
        }
        let rows = traces.turned.chunks_exact(traces.basis.rows);
        let turned = rows.flat_map(|row| row[..size].iter().copied()).collect();
        Ok(Self {
            traces,
            candidate: *candidate,
            embedding,
            turned,
            exact: Vec::new(),
            cut: Vec::new(),
            order: NearestOrder::default(),
            nearness: Vec::new(),
            trace: Vec::new(),
        })
    }

    fn load(&mut self, chosen: &[usize]) {
        let Traces { exact, walked, basis, rows, .. } = self.traces;
        let (vectors, size) = (self.traces.vectors(), self.candidate.dimensions);
        let packed = walked.exact().packed();
        let isa = exact.isa();
        let chunk = rows.select(chosen.iter().copied());
        let mut queries = packed.queries();
        let all = || (0..chunk.rows()).map(|row| chunk.row(row));
        packed.load(isa, all(), &mut queries);
        self.exact.resize(chosen.len() * vectors, 0.0);
        let (out, mut tile) = (&mut self.exact, Vec::new());
        packed.visit(isa, &queries, all(), &mut tile, |tile| {
            for query in tile.queries.clone() {
                let start = query * vectors + tile.rows.start;
                out[start..start + tile.rows.len()].copy_from_slice(tile.of(query));
            }
        });
        if self.embedding.is_some() {
            return;
        }
        let all_coordinates = coordinates(exact, basis, &chunk);
        let first_coordinates: Vec<f64> = all_coordinates
            .chunks_exact(basis.rows)
            .flat_map(|row| row[..size].iter().copied())
            .collect();
        self.cut.resize(chosen.len() * vectors, 0.0);
        gemm_nt(chosen.len(), vectors, size, &first_coordinates, &self.turned, &mut self.cut);
        let form = exact.machine().kernel().form();
        let finish = form.finish().expect("checked before");
        let norms = queries.squared_norms();
        for (values, squared_norm) in self.cut.chunks_exact_mut(vectors).zip(norms) {
            finish.finish(isa, values, *squared_norm, packed.squared_norms());
        }
    }

    /// How near all vectors are to one row of the chunk.
    fn order_row(&mut self, at: usize) {
        let vectors = self.traces.vectors();
        match &self.embedding {
            Some(embedding) => {
                self.nearness.resize(vectors, 0.0);
                let kernels = &self.exact[at * vectors..(at + 1) * vectors];
                embedding.values(kernels, &mut self.nearness);
            }
            None => {
                self.nearness.clear();
                self.nearness.extend_from_slice(&self.cut[at * vectors..(at + 1) * vectors]);
            }
        }
    }

    /// Partial sums of one score of the row that was ordered last.
    fn trace(&mut self, at: usize, score: usize) -> &[f64] {
        self.trace.clear();
        let machine = self.traces.walked.exact().machine();
        let Score::Expansion { supports, coefficients, offset } = &machine.scores()[score] else {
            return &self.trace;
        };
        let values = &self.exact[at * self.traces.vectors()..];
        let nearness: Vec<f64> = supports.iter().map(|at| self.nearness[*at as usize]).collect();
        self.order.start(&nearness, coefficients, self.candidate.has_tug_of_war);
        let mut score = -offset;
        while let Some(member) = self.order.next(coefficients) {
            let member = member as usize;
            score += coefficients[member] * values[supports[member] as usize];
            self.trace.push(score);
        }
        &self.trace
    }
}

/// Coordinates of rows in the basis, `basis.rows` for each.
fn coordinates(exact: &Exact, basis: &PrincipalBasis, rows: &Matrix) -> Vec<f64> {
    let live = exact.packed().live();
    let mut table = vec![0.0; rows.rows() * live.len()];
    for (place, row) in table.chunks_exact_mut(live.len()).zip(rows.iter()) {
        live_row(exact.machine(), live, row, place);
    }
    let mut out = vec![0.0; rows.rows() * basis.rows];
    gemm_nt(rows.rows(), basis.rows, live.len(), &table, &basis.values, &mut out);
    out
}
