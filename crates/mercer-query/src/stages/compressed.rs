//! A small machine in place of the whole one, with its distance proved for each query (\[OG98\], and the
//! power function).
//!
//! One set of kernel values serves three bounds, the dearer one only for queries that the cheaper one
//! leaves open: the distance of the query from the nearest vector, from a combination of the 8 nearest,
//! and from the span of all, which is the last step of a sequence of `anytime`.

mod c;
mod load;

use mercer_kernel::KernelRef;
use mercer_kernel::block::Queries;
use mercer_simd::{DenseQueries64, Isa};
use mercer_spec::{Kind, Parameter, Spec};

use super::anytime::{QueryInChunk, Sequence, query_bounds};
use crate::block::Block;
use crate::c::StageInC;
use crate::certify::nearby::{FEW, Nearby, SmallMachine, Vectors};
use crate::certify::projection::{ProjectionQuery, StepResidual};
use crate::entry::StageEntry;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::{RestsOn, stored_sequence};

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "compressed",
    summary: "a machine of k vectors; the distance of a query from them bounds how far its score is off",
    parameters: &[
        Parameter {
            name: "k",
            // As many as a file may hold; fits take no more than 4096.
            kind: Kind::IntegerOr { low: 1, high: 1 << 16, word: "auto" },
            default: Some("auto"),
            help: "vectors; auto takes a tenth of the supports",
        },
        Parameter {
            name: "method",
            kind: Kind::Word(&["auto", "greedy", "moved"]),
            default: Some("auto"),
            help: "how vectors are found; auto moves them unless rows are wide and sparse",
        },
    ],
    build: |section, arguments, exact| Ok(Box::new(load::load(section, arguments, exact)?)),
    rests_on: RestsOn::Constants {
        work: stored_sequence::work,
        verify: stored_sequence::verify_compressed,
    },
};

#[derive(Debug)]
struct Compressed {
    spec: Spec,
    isa: Isa,
    kernel: KernelRef,
    columns: u64,
    /// Vectors in one chunk, and the steps of all.
    sequence: Sequence,
    /// Coefficients of each score, score after score.
    coefficients: Vec<f64>,
    scores: Vec<SmallMachine>,
    vectors: Vectors,
    /// `1 / K_jj`, or 0.
    inverses: Vec<f64>,
    /// `K_ij`, where there are not too many.
    gram: Option<Vec<f64>>,
    /// Whether the bound of all vectors costs less than an exact answer.
    uses_all: bool,
    offsets: Vec<f64>,
}

struct CompressedScratch {
    queries: Queries,
    dense: DenseQueries64,
    tile: Vec<f64>,
    /// Kernel values of each query with the vectors.
    values: Vec<f64>,
    products: Vec<f64>,
    query_bounds: Vec<Option<ProjectionQuery>>,
    /// Sums of each query and score.
    sums: Vec<f64>,
    loaded: Vec<u32>,
    runs: Vec<u32>,
    undecided: Vec<u32>,
    left: Vec<StepResidual>,
}

impl Compressed {
    fn size(&self) -> usize {
        self.inverses.len()
    }

    /// Kernel values and the scores of the small machine.
    fn first_cost(&self) -> u64 {
        self.size() as u64 * (self.columns + self.scores.len() as u64 + 1)
    }

    /// The 8 nearest and their system.
    fn few_cost(&self) -> u64 {
        (self.size() + FEW * FEW * 4) as u64
    }

    /// Coordinates along all, and one sum for each score.
    fn all_cost(&self) -> u64 {
        let size = self.size();
        (size * (size + 1) / 2 + size * self.scores.len()) as u64
    }

    /// Charges a step; keeps the queries that stay open.
    fn charge(runs: &mut Vec<u32>, tracker: &mut DecisionTracker<'_>, cost: u64) {
        runs.retain(|query| tracker.is_open(*query) && tracker.charge(*query, cost));
    }

    /// Reports the ranges of all undecided scores, given how near the query is.
    fn prove(
        &self,
        query: u32,
        query_bounds: &ProjectionQuery,
        sums: &[f64],
        near: Nearby<'_>,
        tracker: &mut DecisionTracker<'_>,
        undecided: &mut Vec<u32>,
    ) {
        tracker.undecided_scores(query, undecided);
        for score in undecided.iter().map(|score| *score as usize) {
            if let Some(range) =
                self.scores[score].range(query_bounds, self.size(), sums[score], near)
            {
                tracker.prove(query, score, range, near.vectors.len());
            }
        }
        tracker.settle_if_proved(query);
    }

    /// The nearest vector and its bound.
    fn by_one(&self, values: &[f64], query_bounds: &ProjectionQuery) -> Option<(u32, f64, f64)> {
        let nearest = nearest(values, &self.inverses)?;
        let value = values[nearest as usize];
        let weight = value * self.inverses[nearest as usize];
        // a² K_jj, with the K_jj that the inverse was taken of.
        let (along, square) = (weight * value, weight * value);
        let distance = self.vectors.distance(query_bounds, &[nearest], &[weight], along, square)?;
        Some((nearest, weight, distance))
    }

    /// The few nearest vectors, their best combination and its bound.
    fn by_few(&self, values: &[f64], query_bounds: &ProjectionQuery) -> Option<Few> {
        let gram = self.gram.as_ref()?;
        let (mut few, size) = (Few::nearest(values, &self.inverses), self.size());
        let value =
            |a: usize, b: usize| gram[few.vectors[a] as usize * size + few.vectors[b] as usize];
        let mut table = [[0.0; FEW]; FEW];
        for (a, row) in table.iter_mut().enumerate().take(few.count) {
            for (b, place) in row.iter_mut().enumerate().take(few.count) {
                *place = value(a, b);
            }
        }
        let mut right = [0.0; FEW];
        for (place, vector) in right.iter_mut().zip(&few.vectors[..few.count]) {
            *place = values[*vector as usize];
        }
        let weights = solve(&table, &right, few.count)?;
        let (mut along, mut square) = (0.0, 0.0);
        for a in 0..few.count {
            along += weights[a] * right[a];
            let inner: f64 = (0..few.count).map(|b| weights[b] * table[a][b]).sum();
            square += weights[a] * inner;
        }
        few.weights = weights;
        let (vectors, weights) = (&few.vectors[..few.count], &few.weights[..few.count]);
        few.distance = self.vectors.distance(query_bounds, vectors, weights, along, square)?;
        Some(few)
    }

    /// The bound of all vectors.
    fn by_all(&self, tracker: &mut DecisionTracker<'_>, scratch: &mut CompressedScratch) {
        let (chunk, size) = (&self.sequence.chunks[0], self.size());
        let CompressedScratch {
            dense,
            values,
            products,
            query_bounds,
            sums,
            runs,
            undecided,
            left,
            ..
        } = scratch;
        dense.clear();
        for query in &*runs {
            dense.push(&values[*query as usize * size..][..size]);
        }
        let panels = 0..chunk.triangle.panels();
        let lanes = chunk.triangle.lanes(panels.clone()).len();
        products.clear();
        products.resize(runs.len() * lanes, 0.0);
        chunk.triangle.dots_dense(self.isa, dense, panels, products, lanes);
        let count = self.scores.len();
        for (query, coordinates) in runs.iter().zip(products.chunks_exact(lanes)) {
            let place = *query as usize;
            let Some(query_bounds) = &query_bounds[place] else { continue };
            tracker.undecided_scores(*query, undecided);
            let sums = &mut sums[place * count..(place + 1) * count];
            sums.fill(0.0);
            let running =
                QueryInChunk { first: 0, query_bounds, undecided, spent: &mut 0.0, sums, left };
            self.sequence.steps(running, &coordinates[..size], &self.offsets, |score, _, range| {
                tracker.prove(*query, score as usize, range, size);
            });
            tracker.settle_if_proved(*query);
        }
    }

    /// Kernel values of the loaded queries, and the scores of the small machine.
    fn values(&self, block: &Block<'_>, scratch: &mut CompressedScratch) {
        let (basis, size) = (&self.sequence.chunks[0].basis, self.size());
        let CompressedScratch { queries, tile, values, loaded, sums, .. } = scratch;
        let rows = loaded.iter().map(|query| block.row(*query));
        basis.load(self.isa, rows.clone(), queries);
        basis.visit(self.isa, queries, rows, tile, |tile| {
            for position in tile.queries.clone() {
                let start = loaded[position] as usize * size + tile.rows.start;
                values[start..start + tile.rows.len()].copy_from_slice(tile.of(position));
            }
        });
        let count = self.scores.len();
        for query in loaded.iter().map(|query| *query as usize) {
            let values_of_query = &values[query * size..][..size];
            let lists = self.coefficients.chunks_exact(size);
            for (sum, list) in sums[query * count..].iter_mut().zip(lists) {
                let mut eights = [[0.0; 8]];
                mercer_simd::weighted_sums(self.isa, values_of_query, 0, &[list], &mut eights);
                *sum = mercer_simd::fold8(&eights[0]);
            }
        }
    }
}

/// The vector of the largest `K_j² / K_jj`; the first of equals.
fn nearest(values: &[f64], inverses: &[f64]) -> Option<u32> {
    let mut best = [0.0f64; 8];
    for (values, inverses) in values.chunks(8).zip(inverses.chunks(8)) {
        for ((best, value), inverse) in best.iter_mut().zip(values).zip(inverses) {
            let near = value * value * inverse;
            *best = if near > *best { near } else { *best };
        }
    }
    let most = best.iter().copied().fold(0.0, f64::max);
    let is_best = |(value, inverse): (&f64, &f64)| value * value * inverse == most;
    if !(most > 0.0 && most.is_finite()) {
        return None;
    }
    values.iter().zip(inverses).position(is_best).map(|at| at as u32)
}

/// A few vectors, the nearest first.
#[derive(Debug, Clone, Copy)]
struct Few {
    vectors: [u32; FEW],
    weights: [f64; FEW],
    count: usize,
    distance: f64,
}

impl Few {
    fn nearest(values: &[f64], inverses: &[f64]) -> Self {
        let (mut vectors, mut nears, mut count) = ([0; FEW], [0.0; FEW], 0);
        for (at, (value, inverse)) in values.iter().zip(inverses).enumerate() {
            let near = value * value * inverse;
            if near.is_nan() || near <= 0.0 || (count == FEW && near <= nears[FEW - 1]) {
                continue;
            }
            count = (count + 1).min(FEW);
            let mut place = count - 1;
            while place > 0 && nears[place - 1] < near {
                (nears[place], vectors[place]) = (nears[place - 1], vectors[place - 1]);
                place -= 1;
            }
            (nears[place], vectors[place]) = (near, at as u32);
        }
        Self { vectors, weights: [0.0; FEW], count, distance: f64::INFINITY }
    }
}

/// Solves a small semidefinite system by Cholesky; whatever it finds is as good as it is.
fn solve(table: &[[f64; FEW]; FEW], right: &[f64; FEW], count: usize) -> Option<[f64; FEW]> {
    let (mut factor, mut x) = ([[0.0; FEW]; FEW], [0.0; FEW]);
    for i in 0..count {
        for j in 0..=i {
            let ridge = if i == j { 1e-10 * table[i][i] } else { 0.0 };
            let sum = (0..j).fold(table[i][j] + ridge, |sum, l| sum - factor[i][l] * factor[j][l]);
            if i == j {
                if sum.is_nan() || sum <= 0.0 {
                    return None;
                }
                factor[i][i] = sum.sqrt();
            } else {
                factor[i][j] = sum / factor[j][j];
            }
        }
        x[i] = (0..i).fold(right[i], |sum, l| sum - factor[i][l] * x[l]) / factor[i][i];
    }
    for i in (0..count).rev() {
        x[i] = (i + 1..count).fold(x[i], |sum, l| sum - factor[l][i] * x[l]) / factor[i][i];
    }
    x[..count].iter().all(|x| x.is_finite()).then_some(x)
}

impl Stage for Compressed {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn c_code(&self) -> Option<&dyn StageInC> {
        Some(self)
    }

    fn bytes(&self) -> usize {
        let chunk = &self.sequence.chunks[0];
        let among = self.gram.as_ref().map_or(0, Vec::len);
        let numbers = among + self.coefficients.len() * 6 + self.size() * 8;
        chunk.basis.bytes() + chunk.triangle.bytes() + 8 * numbers
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for Compressed {
    type Scratch = CompressedScratch;

    fn scratch(&self) -> Self::Scratch {
        let chunk = &self.sequence.chunks[0];
        CompressedScratch {
            queries: chunk.basis.queries(),
            dense: DenseQueries64::new(chunk.triangle.columns()),
            tile: Vec::new(),
            values: Vec::new(),
            products: Vec::new(),
            query_bounds: Vec::new(),
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
        let (size, count) = (self.size(), self.scores.len());
        scratch.query_bounds.clear();
        scratch.query_bounds.resize(block.len(), None);
        if scratch.values.len() < block.len() * size {
            scratch.values.resize(block.len() * size, 0.0);
        }
        scratch.sums.clear();
        scratch.sums.resize(block.len() * count, 0.0);
        scratch.loaded.clear();
        for query in block.open() {
            let (squared_norm, width) = (block.squared_norm(*query), block.width(*query));
            let bounds =
                query_bounds(self.kernel.as_ref(), &self.sequence.sizes, squared_norm, width);
            scratch.query_bounds[*query as usize] = bounds;
            if bounds.is_some() {
                scratch.loaded.push(*query);
            }
        }
        Self::charge(&mut scratch.loaded, tracker, self.first_cost());
        if scratch.loaded.is_empty() {
            block.compact(tracker);
            return;
        }
        self.values(block, scratch);
        scratch.runs.clone_from(&scratch.loaded);
        for step in [Self::try_one, Self::try_few] {
            step(self, tracker, scratch);
        }
        if self.uses_all {
            Self::charge(&mut scratch.runs, tracker, self.all_cost());
            if !scratch.runs.is_empty() {
                self.by_all(tracker, scratch);
            }
        }
        block.compact(tracker);
    }
}

impl Compressed {
    fn try_one(&self, tracker: &mut DecisionTracker<'_>, scratch: &mut CompressedScratch) {
        let (size, count) = (self.size(), self.scores.len());
        let CompressedScratch { values, query_bounds, sums, runs, undecided, .. } = scratch;
        for query in &*runs {
            let place = *query as usize;
            let Some(query_bounds) = &query_bounds[place] else { continue };
            let Some((vector, weight, distance)) =
                self.by_one(&values[place * size..][..size], query_bounds)
            else {
                continue;
            };
            let near = Nearby { vectors: &[vector], weights: &[weight], distance };
            self.prove(*query, query_bounds, &sums[place * count..], near, tracker, undecided);
        }
    }

    fn try_few(&self, tracker: &mut DecisionTracker<'_>, scratch: &mut CompressedScratch) {
        if self.gram.is_none() {
            return;
        }
        let (size, count) = (self.size(), self.scores.len());
        Self::charge(&mut scratch.runs, tracker, self.few_cost());
        let CompressedScratch { values, query_bounds, sums, runs, undecided, .. } = scratch;
        for query in &*runs {
            let place = *query as usize;
            let Some(query_bounds) = &query_bounds[place] else { continue };
            let Some(few) = self.by_few(&values[place * size..][..size], query_bounds) else {
                continue;
            };
            let (vectors, weights) = (&few.vectors[..few.count], &few.weights[..few.count]);
            let near = Nearby { vectors, weights, distance: few.distance };
            self.prove(*query, query_bounds, &sums[place * count..], near, tracker, undecided);
        }
    }
}
