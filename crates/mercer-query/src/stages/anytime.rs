//! Machine and query projected onto a few basis points, one after the other (\[DeCoste03\]). The basis points are
//! chosen in `mercer_compile`; what is proved, and why, is in `certify/projection.rs`.

pub(super) mod arrays;
pub(super) mod c;
mod routes;

use mercer_kernel::block::{Packed, Queries};
use mercer_kernel::bound::{HIDDEN, gamma};
use mercer_kernel::{Form, Kernel, KernelRef};
use mercer_simd::{DenseQueries64, Isa, Panels64};
use mercer_spec::{Kind, Parameter, Spec};

use crate::block::Block;
use crate::c::StageInC;
use crate::certify::Proved;
use crate::certify::projection::{ProjectionQuery, ProjectionStep, SharedSteps, StepResidual};
use crate::entry::StageEntry;
use crate::rounding::RowSizes;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::{RestsOn, stored_sequence};
use routes::{Router, Split};

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "anytime",
    summary: "projections onto basis points, one by one, with a proved range after each; semidefinite kernels",
    parameters: &[
        Parameter {
            name: "order",
            kind: Kind::Word(&ORDERS),
            default: Some("auto"),
            help: "how basis points are chosen; auto takes log_gap with a sample, else min_wz",
        },
        Parameter {
            name: "steps",
            kind: Kind::Integer { low: 1, high: 1 << 16 },
            default: Some("4096"),
            help: "most basis points of a sequence",
        },
        Parameter {
            name: "stop",
            kind: Kind::Word(&["break_even", "never"]),
            default: Some("break_even"),
            help: "where a sequence ends: where going on costs more than exact, or nowhere",
        },
        Parameter {
            name: "pivot",
            kind: Kind::Number { low: 1e-15, high: 0.1, closed: true },
            default: Some("1e-7"),
            help: "share of its own square that a basis point must add",
        },
        Parameter {
            name: "clusters",
            kind: Kind::Integer { low: 1, high: 64 },
            default: Some("1"),
            help: "parts of query space, each with a sequence of its own",
        },
        Parameter {
            name: "depth",
            kind: Kind::Integer { low: 0, high: 6 },
            default: Some("0"),
            help: "levels of a tree over query space: open queries are split in two by their values with the basis \
                   points so far, and each half goes on with basis points of its own",
        },
        Parameter {
            name: "chunk",
            kind: Kind::Integer { low: 1, high: 1024 },
            default: Some("16"),
            help: "basis points computed at once in the beginning; 1 goes step by step",
        },
        Parameter {
            name: "seed",
            kind: Kind::Integer { low: 0, high: 1 << 53 },
            default: Some("1"),
            help: "seed of all random draws",
        },
    ],
    build: |section, arguments, exact| Ok(Box::new(arrays::load(section, arguments, exact)?)),
    rests_on: RestsOn::Constants { work: stored_sequence::work, verify: stored_sequence::verify },
};

/// Words of `order`; `auto` chooses one.
const ORDERS: [&str; 11] = [
    "auto",
    "given",
    "sgma",
    "min_wz",
    "min_wz_n",
    "mean_lh",
    "hybrid",
    "log_gap",
    "stop_count",
    "moved",
    "moved_mean_lh",
];

/// Basis points computed at once grow with what is known, but no further than this.
const MOST_AT_ONCE: usize = 48;

/// One sequence of basis points for all queries, one for each part of query space, or a tree of them, in which parents
/// come before their children.
#[derive(Debug)]
struct Anytime {
    spec: Spec,
    isa: Isa,
    kernel: KernelRef,
    offsets: Vec<f64>,
    columns: u64,
    sequences: Vec<Sequence>,
    /// Where the open queries of each sequence go on, if it is not a leaf.
    splits: Vec<Option<Split>>,
    /// Centres of the parts of query space, if there are several.
    router: Option<Router>,
    /// Steps of the longest sequence, those of its ancestors included.
    longest: usize,
}

/// Basis points in the order in which they are used, and what is known after each. Below a split the steps of the
/// ancestors come first; the chunks are its own.
#[derive(Debug)]
pub(super) struct Sequence {
    pub chunks: Vec<BasisChunk>,
    pub shared: SharedSteps,
    /// Steps of each score.
    pub scores: Vec<Vec<ProjectionStep>>,
    pub sizes: RowSizes,
    /// Squared norms of all basis points.
    norms: Vec<f64>,
}

/// Basis points computed at once.
#[derive(Debug)]
pub(super) struct BasisChunk {
    first: usize,
    pub basis: Packed,
    /// Rows of T, as long as the last of them.
    pub triangle: Panels64,
}

/// Working memory of one thread.
struct AnytimeScratch {
    sequences: Vec<(Queries, Vec<DenseQueries64>)>,
    router: Option<Queries>,
    routes: Vec<u32>,
    tile: Vec<f64>,
    products: Vec<f64>,
    /// Kernel values of each query of the block with the basis.
    values: Vec<f64>,
    query_bounds: Vec<Option<ProjectionQuery>>,
    /// `Σ ŷ²` of each query, then `Σ w ŷ` of each query and score.
    spent: Vec<f64>,
    sums: Vec<f64>,
    loaded: Vec<u32>,
    runs: Vec<u32>,
    undecided: Vec<u32>,
    left: Vec<StepResidual>,
}

/// One query in one chunk.
pub(super) struct QueryInChunk<'a> {
    pub first: usize,
    pub query_bounds: &'a ProjectionQuery,
    pub undecided: &'a [u32],
    pub spent: &'a mut f64,
    pub sums: &'a mut [f64],
    pub left: &'a mut Vec<StepResidual>,
}

/// Sizes of the chunks of a sequence: `first` at the beginning, a quarter of what is known later.
fn chunk_sizes(steps: usize, first: usize) -> Vec<usize> {
    let (mut sizes, mut done) = (Vec::new(), 0);
    while done < steps {
        let larger = first.max((done / 4).next_multiple_of(8).min(MOST_AT_ONCE));
        // A small first chunk asks for small chunks throughout.
        let size = if first < 8 { first } else { larger }.min(steps - done);
        sizes.push(size);
        done += size;
    }
    sizes
}

impl Sequence {
    /// Multiply-adds of a chunk: kernel values, coordinates, and one sum for each score.
    fn cost(&self, chunk: &BasisChunk, columns: u64) -> u64 {
        let (rows, end) = (chunk.basis.rows(), chunk.first + chunk.basis.rows());
        let triangle = (end * (end + 1) - chunk.first * (chunk.first + 1)) / 2;
        rows as u64 * columns + (triangle + rows * self.scores.len()) as u64
    }

    /// Runs the steps of one chunk for one query, given its coordinates. Each undecided score is reported at
    /// the first step that may settle it, or else at the last.
    pub(super) fn steps(
        &self,
        query: QueryInChunk<'_>,
        coordinates: &[f64],
        offsets: &[f64],
        mut report: impl FnMut(u32, usize, Proved),
    ) {
        let QueryInChunk { first, query_bounds, undecided, spent, sums, left } = query;
        // What each step leaves of the query, as far as a score needs it.
        left.clear();
        let mut next_undecided = undecided.iter().peekable();
        for (score, (sum, steps)) in (0u32..).zip(sums.iter_mut().zip(&self.scores)) {
            let steps = &steps[first..first + coordinates.len()];
            if next_undecided.next_if_eq(&&score).is_none() {
                *sum = steps.iter().zip(coordinates).fold(*sum, |sum, (s, y)| sum + s.weight * y);
                continue;
            }
            let offset = offsets[score as usize];
            let mut stop: Option<(usize, f64)> = None;
            for (k, (step, y)) in steps.iter().zip(coordinates).enumerate() {
                *sum += step.weight * y;
                if stop.is_some() {
                    continue;
                }
                if left.len() == k {
                    *spent += y * y;
                    left.push(self.shared.left(first + k, query_bounds, *spent));
                }
                if step.may_settle(query_bounds, left[k], *sum, offset) {
                    stop = Some((k, *sum));
                }
            }
            let (k, sum) = stop.unwrap_or((steps.len() - 1, *sum));
            if let Some(range) = steps[k].range(query_bounds, left[k], sum, offset) {
                report(score, first + k + 1, range);
            }
        }
        for y in &coordinates[left.len()..] {
            *spent += y * y;
        }
    }

    /// The range of each undecided score after each step of a chunk, for the observer.
    fn observe(
        &self,
        query: &QueryInChunk<'_>,
        coordinates: &[f64],
        offsets: &[f64],
        mut observe: impl FnMut(u32, usize, Proved),
    ) {
        let (mut spent, mut sums) = (*query.spent, query.sums.to_vec());
        for (k, y) in (query.first..).zip(coordinates) {
            spent += y * y;
            let left = self.shared.left(k, query.query_bounds, spent);
            for (sum, steps) in sums.iter_mut().zip(&self.scores) {
                *sum += steps[k].weight * y;
            }
            for score in query.undecided {
                let at = *score as usize;
                let range =
                    self.scores[at][k].range(query.query_bounds, left, sums[at], offsets[at]);
                if let Some(range) = range {
                    observe(*score, k + 1, range);
                }
            }
        }
    }
}

/// What is known of a query before the first step: a bound on `K(x, x)` and on kernel errors.
pub(super) fn query_bounds(
    kernel: &dyn Kernel,
    sizes: &RowSizes,
    squared_norm: f64,
    width: usize,
) -> Option<ProjectionQuery> {
    let form = kernel.form();
    let per_term = if let Form::Additive(term, _) = form { term.rounding() } else { 0.0 };
    let relative = 2.0 * gamma(width as f64 + 16.0 + per_term);
    // A squared norm of zero may hide squares that underflow.
    let squared_norm = squared_norm * (1.0 + relative) + HIDDEN;
    if !sizes.is_ordinary(kernel, squared_norm) {
        return None;
    }
    let size = sizes.of_query(kernel, squared_norm, width);
    ProjectionQuery::new(form.finish()?.self_bound(squared_norm) * (1.0 + 1e-15), &size)
}

impl Anytime {
    /// Runs one sequence over its open queries.
    fn run_sequence(
        &self,
        number: usize,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut AnytimeScratch,
    ) {
        let sequence = &self.sequences[number];
        let mine = |query: &u32| scratch.routes[*query as usize] == number as u32;
        scratch.loaded.clear();
        scratch.loaded.extend(block.open().iter().filter(|query| mine(query)));
        for query in &scratch.loaded {
            let (squared_norm, width) = (block.squared_norm(*query), block.width(*query));
            scratch.query_bounds[*query as usize] =
                query_bounds(self.kernel.as_ref(), &sequence.sizes, squared_norm, width);
        }
        let query_bounds = &scratch.query_bounds;
        scratch.loaded.retain(|query| query_bounds[*query as usize].is_some());
        let mut is_stale = true;
        for (at, chunk) in sequence.chunks.iter().enumerate() {
            let open = scratch.loaded.iter().filter(|query| tracker.is_open(**query)).count();
            if open == 0 {
                break;
            }
            // Survivors move together as soon as half of them are answered.
            if is_stale || 2 * open <= scratch.loaded.len() {
                scratch.loaded.retain(|query| tracker.is_open(*query));
                let rows = scratch.loaded.iter().map(|query| block.row(*query));
                chunk.basis.load(self.isa, rows, &mut scratch.sequences[number].0);
                is_stale = false;
            }
            let cost = sequence.cost(chunk, self.columns);
            scratch.runs.clear();
            for query in &scratch.loaded {
                if tracker.is_open(*query) && tracker.charge(*query, cost) {
                    scratch.runs.push(*query);
                }
            }
            if !scratch.runs.is_empty() {
                self.run_chunk(number, at, block, tracker, scratch);
            }
        }
        if let Some(split) = &self.splits[number] {
            self.send_to_children(split, tracker, scratch);
        }
    }

    /// One chunk for all queries that run.
    fn run_chunk(
        &self,
        number: usize,
        at: usize,
        block: &Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut AnytimeScratch,
    ) {
        let (sequence, scores) = (&self.sequences[number], self.offsets.len());
        let chunk = &sequence.chunks[at];
        let stride = self.longest;
        let AnytimeScratch {
            sequences,
            tile,
            products,
            values,
            query_bounds,
            spent,
            sums,
            left,
            ..
        } = scratch;
        let (loaded, runs, undecided) = (&scratch.loaded, &scratch.runs, &mut scratch.undecided);
        let (queries, dense) = &mut sequences[number];
        let rows = loaded.iter().map(|query| block.row(*query));
        chunk.basis.visit(self.isa, queries, rows, tile, |tile| {
            for position in tile.queries.clone() {
                let start = loaded[position] as usize * stride + chunk.first + tile.rows.start;
                values[start..start + tile.rows.len()].copy_from_slice(tile.of(position));
            }
        });
        let (dense, end) = (&mut dense[at], chunk.first + chunk.basis.rows());
        dense.clear();
        for query in runs {
            dense.push(&values[*query as usize * stride..][..end]);
        }
        let panels = 0..chunk.triangle.panels();
        let lanes = chunk.triangle.lanes(panels.clone()).len();
        products.clear();
        products.resize(runs.len() * lanes, 0.0);
        chunk.triangle.dots_dense(self.isa, dense, panels, products, lanes);
        for (query, coordinates) in runs.iter().zip(products.chunks_exact(lanes)) {
            let place = *query as usize;
            let Some(query_bounds) = &query_bounds[place] else { continue };
            tracker.undecided_scores(*query, undecided);
            let sums = &mut sums[place * scores..(place + 1) * scores];
            let (first, spent) = (chunk.first, &mut spent[place]);
            let running = QueryInChunk { first, query_bounds, undecided, spent, sums, left };
            let coordinates = &coordinates[..chunk.basis.rows()];
            if tracker.is_observed() {
                sequence.observe(&running, coordinates, &self.offsets, |score, step, range| {
                    tracker.observe(*query, score as usize, range, step);
                });
            }
            sequence.steps(running, coordinates, &self.offsets, |score, step, range| {
                tracker.prove(*query, score as usize, range, step);
            });
            tracker.settle_if_proved(*query);
        }
    }
}

impl Stage for Anytime {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn c_code(&self) -> Option<&dyn StageInC> {
        (self.sequences.len() == 1).then_some(self)
    }

    fn bytes(&self) -> usize {
        let chunk = |chunk: &BasisChunk| chunk.basis.bytes() + chunk.triangle.bytes();
        let steps = |scores: &[Vec<ProjectionStep>]| -> usize {
            scores.iter().map(|steps| size_of_val(steps.as_slice())).sum()
        };
        let sequences = self.sequences.iter().map(|sequence| {
            sequence.chunks.iter().map(chunk).sum::<usize>() + steps(&sequence.scores)
        });
        sequences.sum::<usize>() + self.router.as_ref().map_or(0, |router| router.centres.bytes())
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for Anytime {
    type Scratch = AnytimeScratch;

    fn scratch(&self) -> Self::Scratch {
        let of = |sequence: &Sequence| {
            let columns = |chunk: &BasisChunk| DenseQueries64::new(chunk.triangle.columns());
            let queries = sequence.chunks[0].basis.queries();
            (queries, sequence.chunks.iter().map(columns).collect())
        };
        AnytimeScratch {
            sequences: self.sequences.iter().map(of).collect(),
            router: self.router.as_ref().map(|router| router.centres.queries()),
            routes: Vec::new(),
            tile: Vec::new(),
            products: Vec::new(),
            values: Vec::new(),
            query_bounds: Vec::new(),
            spent: Vec::new(),
            sums: Vec::new(),
            loaded: Vec::new(),
            runs: Vec::new(),
            undecided: Vec::new(),
            left: Vec::new(),
        }
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut Self::Scratch,
    ) {
        if self.router.is_some() {
            for query in block.open() {
                // Finding its part of query space costs a query one product with each centre.
                tracker.charge(*query, self.sequences.len() as u64 * self.columns);
            }
            block.compact(tracker);
        }
        self.route(block, scratch);
        let needed = block.len() * self.longest;
        if scratch.values.len() < needed {
            scratch.values.resize(needed, 0.0);
        }
        scratch.query_bounds.clear();
        scratch.query_bounds.resize(block.len(), None);
        scratch.spent.clear();
        scratch.spent.resize(block.len(), 0.0);
        scratch.sums.clear();
        scratch.sums.resize(block.len() * self.offsets.len(), 0.0);
        for number in 0..self.sequences.len() {
            self.run_sequence(number, block, tracker, scratch);
        }
        block.compact(tracker);
    }
}
