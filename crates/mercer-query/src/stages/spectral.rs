//! Degree-2 kernels as a quadratic form, eigenvector by eigenvector. What is proved is in `certify/quadratic.rs`; the
//! eigenvectors are computed in `mercer_compile`.

use mercer_kernel::block::{Packed, Queries};
use mercer_kernel::bound::largest;
use mercer_kernel::{Form, Profile};
use mercer_machine::{Machine, Score, Section};
use mercer_simd::Isa;
use mercer_spec::{Checked, Spec};

use crate::block::Block;
use crate::c::StageInC;
use crate::certify::quadratic::{Checkpoint, Energy, Quadratic};
use crate::entry::StageEntry;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::{RestsOn, spectral};
use crate::{Exact, LoadError};

mod c;
mod f32_rounds;

use f32_rounds::F32Rounds;

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "spectral",
    summary: "degree-2 kernels as a quadratic form, eigenvector after eigenvector, with a proved range",
    parameters: &[],
    build: load,
    rests_on: RestsOn::Constants { work: spectral::work, verify: spectral::verify },
};

/// Eigenvectors taken at once grow from the first number to the second.
const CHUNKS: (usize, usize) = (16, 128);

/// The quadratic form of each score; see [`crate::certify::quadratic`] for what is proved.
#[derive(Debug)]
struct Spectral {
    isa: Isa,
    forms: Vec<QuadraticForm>,
    /// What is tried first.
    f32_rounds: Option<F32Rounds>,
    columns: u64,
}

#[derive(Debug)]
struct QuadraticForm {
    bound: Quadratic,
    values: Vec<f64>,
    /// `e_j,last s`.
    constants: Vec<f64>,
    chunks: Vec<EigenChunk>,
}

#[derive(Debug)]
struct EigenChunk {
    first: usize,
    vectors: Packed,
    checkpoint: Checkpoint,
}

/// Products of a query with the eigenvectors from `first` on.
#[derive(Debug, Clone, Copy)]
struct ChunkProducts<'a> {
    first: usize,
    values: &'a [f64],
}

/// Working memory of one thread.
struct SpectralScratch {
    queries: Queries,
    products: Vec<f64>,
    coordinates: Vec<f32>,
    loaded: Vec<u32>,
    /// Head and spent energy of each query and score.
    sums: Vec<(f64, f64)>,
    energies: Vec<Option<Energy>>,
    undecided: Vec<u32>,
    /// Which scores of each loaded query run in this round.
    runs: Vec<bool>,
}

/// `scale²` or 1, `s²`, and whether the kernel is normalised; `None` if it is not of degree 2, or its scale is such
/// that squares of it may underflow.
fn degree_two(machine: &Machine) -> Option<(f64, f64, bool)> {
    let Form::Dot(finish) = machine.kernel().form() else { return None };
    let (scale, shift, is_normalized) = match finish.profile() {
        Profile::Power { scale, shift, degree: 2 } => (scale, shift, false),
        Profile::NormalizedPower { scale, shift, degree: 2 } => (scale, shift, true),
        _ => return None,
    };
    let factor = if is_normalized { 1.0 } else { scale * scale };
    let is_sane = shift >= 0.0 && (1e-60..=1e60).contains(&scale);
    is_sane.then_some((factor, shift / scale, is_normalized))
}

/// Arrays, all scores one after the other: `counts` eigenvectors of each score, `values` (eigenvalues),
/// `vectors` (live columns, then the constant one), and `errors` (residual and defect of each score).
fn load(section: &Section, _: &Checked<'_>, exact: &Exact) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("spectral", reason);
    let machine = exact.machine();
    let (factor, constant, is_normalized) = degree_two(machine).ok_or_else(|| {
        refuse("the kernel is not of degree 2 with gamma 1e-60 to 1e60 and coef0 of at least 0")
    })?;
    let columns = exact.packed().live_columns();
    let SpectralArrays { counts, values, vectors, errors } =
        SpectralArrays::new(section, machine.scores().len(), columns).map_err(refuse)?;
    let mut forms = Vec::new();
    let mut start = 0;
    for ((score, count), errors) in machine.scores().iter().zip(counts).zip(errors.chunks(2)) {
        let Score::Expansion { offset, .. } = score else {
            return Err(refuse("a linear score is one product already"));
        };
        let range = start..start + *count as usize;
        start = range.end;
        let values = &values[range.clone()];
        let largest = largest(values.iter().map(|value| value.abs()));
        let (residual, defect, offset) = (errors[0], errors[1], *offset);
        let bound = Quadratic {
            factor,
            is_normalized,
            offset,
            constant,
            residual,
            defect,
            largest,
            columns,
        };
        let vectors_of_score = &vectors[range.start * (columns + 1)..range.end * (columns + 1)];
        forms.push(QuadraticForm::new(bound, values, vectors_of_score, exact.packed()));
    }
    let f32_rounds = F32Rounds::new(&forms, vectors, exact);
    let columns = machine.columns() as u64;
    Ok(Box::new(Spectral { isa: exact.isa(), forms, f32_rounds, columns }))
}

/// The arrays of a section, checked: lengths fit each other and the machine, numbers are finite.
struct SpectralArrays<'a> {
    counts: &'a [u32],
    values: &'a [f64],
    vectors: &'a [f64],
    errors: &'a [f64],
}

impl<'a> SpectralArrays<'a> {
    fn new(section: &'a Section, scores: usize, columns: usize) -> Result<Self, &'static str> {
        let arrays = Self {
            counts: section.u32s("counts").ok_or("its counts are missing")?,
            values: section.f64s("values").ok_or("its values are missing")?,
            vectors: section.f64s("vectors").ok_or("its vectors are missing")?,
            errors: section.f64s("errors").ok_or("its errors are missing")?,
        };
        let Self { counts, values, vectors, errors } = arrays;
        let total: usize = counts.iter().map(|count| *count as usize).sum();
        let fits = counts.len() == scores
            && errors.len() == 2 * scores
            && values.len() == total
            && total.checked_mul(columns + 1) == Some(vectors.len())
            && counts.iter().all(|count| *count as usize <= columns + 1);
        if !fits {
            return Err("its arrays do not fit the machine");
        }
        let all = values.iter().chain(vectors).chain(errors);
        if all.into_iter().any(|value| !value.is_finite()) {
            return Err("its arrays hold values that are not finite");
        }
        if errors.chunks(2).any(|pair| pair[0] < 0.0 || !(0.0..=0.01).contains(&pair[1])) {
            return Err("its errors are too large or negative");
        }
        Ok(arrays)
    }
}

impl QuadraticForm {
    fn new(bound: Quadratic, values: &[f64], vectors: &[f64], like: &Packed) -> Self {
        let columns = bound.columns;
        let root = bound.constant.sqrt();
        let row = |j: usize| &vectors[j * (columns + 1)..(j + 1) * (columns + 1)];
        let constants = (0..values.len()).map(|j| row(j)[columns] * root).collect();
        let mut chunks = Vec::new();
        let (mut first, mut size) = (0, CHUNKS.0);
        while first < values.len() {
            let end = (first + size).min(values.len());
            let vectors = Packed::aligned(like, end - first, |j, out| {
                out.copy_from_slice(&row(first + j)[..columns]);
            });
            let checkpoint = bound.checkpoint(end, &values[end..]);
            chunks.push(EigenChunk { first, vectors, checkpoint });
            // 16, 16, 32, 64, ...: each round takes twice what is known.
            size = end.min(CHUNKS.1);
            first = end;
        }
        Self { bound, values: values.to_vec(), constants, chunks }
    }

    /// Adds the products of a chunk to the sums of one query, one eigenvector after the other.
    fn add(&self, first: usize, products: &[f64], sums: &mut (f64, f64)) {
        let (mut head, mut spent) = *sums;
        let known = self.values[first..].iter().zip(&self.constants[first..]);
        for (product, (value, constant)) in products.iter().zip(known) {
            let y = product + constant;
            let square = y * y;
            head += value * square;
            spent += square;
        }
        *sums = (head, spent);
    }
}

impl Spectral {
    /// Decides which scores of which loaded queries run in this round, and charges them.
    fn plan_round(
        &self,
        round: usize,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut SpectralScratch,
    ) -> bool {
        let scores = self.forms.len();
        let SpectralScratch { loaded, energies, undecided, runs, .. } = scratch;
        runs.clear();
        runs.resize(loaded.len() * scores, false);
        let mut any = false;
        for (position, query) in loaded.iter().enumerate() {
            if !tracker.is_open(*query) {
                continue;
            }
            tracker.undecided_scores(*query, undecided);
            for score in undecided.iter().map(|score| *score as usize) {
                let Some(chunk) = self.forms[score].chunks.get(round) else { continue };
                if energies[*query as usize * scores + score].is_none() {
                    continue;
                }
                if !tracker.charge(*query, chunk.vectors.rows() as u64 * self.columns) {
                    break;
                }
                runs[position * scores + score] = true;
                any = true;
            }
        }
        any
    }

    /// One chunk of one score for all loaded queries that want it.
    fn run_chunk(
        &self,
        score: usize,
        round: usize,
        block: &Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut SpectralScratch,
    ) {
        let scores = self.forms.len();
        let form = &self.forms[score];
        let Some(chunk) = form.chunks.get(round) else { return };
        let SpectralScratch { queries, products, loaded, sums, energies, runs, .. } = scratch;
        if !runs.iter().skip(score).step_by(scores).any(|runs| *runs) {
            return;
        }
        let rows = loaded.iter().map(|query| block.row(*query));
        chunk.vectors.visit(self.isa, queries, rows, products, |tile| {
            for position in tile.queries.clone() {
                if !runs[position * scores + score] {
                    continue;
                }
                let query = loaded[position];
                let at = query as usize * scores + score;
                let Some(energy) = energies[at] else { continue };
                if tracker.is_observed() {
                    let checkpoint =
                        |used: usize| form.bound.checkpoint(used, &form.values[used..]);
                    let observe = |range, used| tracker.observe(query, score, range, used);
                    let products = ChunkProducts { first: chunk.first, values: tile.of(position) };
                    form.observe(products, sums[at], energy, checkpoint, observe);
                }
                form.add(chunk.first, tile.of(position), &mut sums[at]);
                let (head, spent) = sums[at];
                let range = form.bound.range(&chunk.checkpoint, energy, head, spent);
                if let Some(range) = range {
                    tracker.prove(query, score, range, chunk.first + chunk.vectors.rows());
                }
            }
        });
    }
}

impl QuadraticForm {
    /// Ranges after each eigenvector but the last of a chunk, for the observer.
    fn observe(
        &self,
        chunk: ChunkProducts<'_>,
        mut sums: (f64, f64),
        energy: Energy,
        checkpoint: impl Fn(usize) -> Checkpoint,
        mut observe: impl FnMut(crate::Proved, usize),
    ) {
        let ChunkProducts { first, values } = chunk;
        for j in 0..values.len().saturating_sub(1) {
            self.add(first + j, &values[j..=j], &mut sums);
            let used = first + j + 1;
            if let Some(range) = self.bound.range(&checkpoint(used), energy, sums.0, sums.1) {
                observe(range, used);
            }
        }
    }
}

impl Stage for Spectral {
    fn spec(&self) -> Spec {
        Spec::new("spectral")
    }

    fn shares_coordinates(&self) -> bool {
        self.f32_rounds.is_some()
    }

    fn c_code(&self) -> Option<&dyn StageInC> {
        Some(self)
    }

    fn bytes(&self) -> usize {
        let chunks = self.forms.iter().flat_map(|form| &form.chunks);
        let f32_rounds = self.f32_rounds.as_ref().map_or(0, F32Rounds::bytes);
        f32_rounds + chunks.map(|chunk| chunk.vectors.bytes()).sum::<usize>()
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for Spectral {
    type Scratch = Option<SpectralScratch>;

    fn scratch(&self) -> Self::Scratch {
        let mut chunks = self.forms.iter().flat_map(|form| &form.chunks);
        let queries = chunks.next().map(|chunk| chunk.vectors.queries());
        queries.map(|queries| SpectralScratch {
            queries,
            products: Vec::new(),
            coordinates: Vec::new(),
            loaded: Vec::new(),
            sums: Vec::new(),
            energies: Vec::new(),
            undecided: Vec::new(),
            runs: Vec::new(),
        })
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut Self::Scratch,
    ) {
        // No eigenvector at all: nothing to do.
        let Some(scratch) = scratch else { return };
        let mut chunks = self.forms.iter().flat_map(|form| &form.chunks);
        let Some(any) = chunks.next() else { return };
        let scores = self.forms.len();
        scratch.sums.clear();
        scratch.sums.resize(block.len() * scores, (0.0, 0.0));
        scratch.energies.clear();
        scratch.energies.resize(block.len() * scores, None);
        for query in block.open() {
            let (squared_norm, width) = (block.squared_norm(*query), block.width(*query));
            for (score, form) in self.forms.iter().enumerate() {
                scratch.energies[*query as usize * scores + score] =
                    form.bound.energy(squared_norm, width);
            }
        }
        if let Some(f32_rounds) = &self.f32_rounds {
            f32_rounds.run(self.isa, &self.forms, block, tracker, scratch);
            if block.open().is_empty() {
                return;
            }
            scratch.sums.fill((0.0, 0.0));
        }
        scratch.loaded.clear();
        let rounds = self.forms.iter().map(|form| form.chunks.len()).max().unwrap_or(0);
        for round in 0..rounds {
            // Survivors move together as soon as half of the block is answered.
            if round == 0 || 2 * block.open().len() <= scratch.loaded.len() {
                scratch.loaded.clear();
                scratch.loaded.extend_from_slice(block.open());
                let rows = scratch.loaded.iter().map(|query| block.row(*query));
                any.vectors.load_without_norms(self.isa, rows, &mut scratch.queries);
            }
            if !self.plan_round(round, tracker, scratch) {
                break;
            }
            for score in 0..scores {
                self.run_chunk(score, round, block, tracker, scratch);
            }
            for query in block.open() {
                tracker.settle_if_proved(*query);
            }
            block.compact(tracker);
            if block.open().is_empty() {
                break;
            }
        }
        block.compact(tracker);
    }
}
