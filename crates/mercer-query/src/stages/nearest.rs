//! Adds supports from the nearest on, until a sample says that the sign no longer changes (\[DM03\]). An estimate,
//! never a proof; the thresholds come from `mercer_compile`.

mod load;
mod nearness;
mod order;
mod supports;
mod vote;

use mercer_data::Row;
use mercer_simd::Isa;
use mercer_spec::{Kind, Parameter, Spec};

pub use order::NearestOrder;

use super::coordinates::{KERNEL_COST, LiveColumns};
use super::linear;

use crate::block::Block;
use crate::entry::StageEntry;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::RestsOn;
use nearness::{KernelSource, Nearness, NearnessScratch};
use supports::{DenseQuery, FEW, SupportRows};
use vote::KnownScores;

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "nearest",
    summary: "supports from the nearest on until thresholds of a sample are passed; tested on a sample, not proved",
    parameters: &[
        Parameter {
            name: "rule",
            kind: Kind::Word(&["paper"]),
            default: None,
            help: "how thresholds are set; paper: as [DM03] does, so write nearest(paper)",
        },
        Parameter {
            name: "dimensions",
            kind: Kind::IntegerOr { low: 1, high: 256, word: "auto" },
            default: Some("auto"),
            help: "dimensions of the ordering; auto cross-validates",
        },
        Parameter {
            name: "ordering",
            kind: Kind::Word(&["pca", "kernel_pca", "fastmap"]),
            default: Some("pca"),
            help: "which approximation orders the supports: cut dot products, or coordinates in feature space",
        },
        Parameter {
            name: "smoothing",
            kind: Kind::IntegerOr { low: 0, high: 1000, word: "auto" },
            default: Some("auto"),
            help: "half-width of the smoothing of thresholds; auto cross-validates",
        },
        Parameter {
            name: "tug_of_war",
            kind: Kind::Word(&["auto", "yes", "no"]),
            default: Some("auto"),
            help: "whether supports of both signs are taken in turn; auto cross-validates",
        },
        Parameter {
            name: "filter",
            kind: Kind::Word(&["yes", "no"]),
            default: Some("yes"),
            help: "whether a linear filter comes first, one for each pair of classes",
        },
        Parameter {
            name: "rows",
            kind: Kind::Word(&["auto", "training", "sample", "both"]),
            default: Some("auto"),
            help: "which rows give the thresholds; auto takes training rows if there are some, as the paper does",
        },
        Parameter {
            name: "reduced",
            kind: Kind::Integer { low: 0, high: 1 << 16 },
            default: Some("0"),
            help: "walk over a reduced set of this many vectors instead of the supports; 0 keeps the supports",
        },
        Parameter {
            name: "reduction",
            kind: Kind::Word(&["greedy", "moved"]),
            default: Some("greedy"),
            help: "how a reduced set is found: among the supports, or moved in input space",
        },
    ],
    build: |section, arguments, exact| Ok(Box::new(load::load(section, arguments, exact)?)),
    rests_on: RestsOn::Calibration,
};

/// \[DM03\]: a linear filter, then `g = -b; g += β_(k) K(X_(k), x)` over the supports in the order of their
/// approximate kernel values, until `g < L_k` or `g > H_k`. With several classes pairwise scores are found so, one by
/// one, until the vote is decided; they share kernel values. Its thresholds are fixed, so its plan has no
/// acceptance threshold to choose: it is tested as a whole, or its answers stay unsettled.
#[derive(Debug)]
struct Nearest {
    isa: Isa,
    spec: Spec,
    /// One for each score, or none.
    filters: Vec<LinearFilter>,
    nearness: Nearness,
    has_tug_of_war: bool,
    /// Whether the vectors are a reduced set, so that all of them together are not the machine.
    is_reduced: bool,
    scores: Vec<ScoreWalk>,
    rows: SupportRows,
    live: LiveColumns,
    columns: u64,
}

/// What is added up for one score, and where the sum may stop.
#[derive(Debug)]
struct ScoreWalk {
    members: Vec<u32>,
    coefficients: Vec<f64>,
    offset: f64,
    low: Vec<f64>,
    high: Vec<f64>,
}

#[derive(Debug)]
struct LinearFilter {
    weights: Vec<f64>,
    constant: f64,
    low: f64,
    high: f64,
}

/// Working memory of one thread.
struct NearestScratch {
    nearness: NearnessScratch,
    /// Scores of all queries of the block that are known.
    known: Vec<Option<f64>>,
    is_filtered: Vec<bool>,
    /// Approximate kernel values of one query with all vectors, and with those of one score.
    values: Vec<f64>,
    of_members: Vec<f64>,
    /// Exact ones, as far as they are computed; the others are no number.
    kernels: Vec<f64>,
    row: Vec<f64>,
    order: NearestOrder,
}

/// How a walk ended.
struct Walk {
    score: f64,
    visited: usize,
    /// Whether a threshold was passed.
    is_beyond: bool,
}

/// One query on its walks.
struct WalkingQuery<'a> {
    source: KernelSource<'a>,
    dense: DenseQuery<'a>,
    kernels: &'a mut [f64],
    order: &'a mut NearestOrder,
}

impl LinearFilter {
    /// What the filter makes of a query, if that is beyond its thresholds.
    fn beyond_thresholds(&self, row: Row<'_>) -> Option<f64> {
        let value = linear::dot(&self.weights, row) + self.constant;
        (value < self.low || value > self.high).then_some(value)
    }
}

impl ScoreWalk {
    /// Walks from the nearest vector on until the thresholds are passed or none is left; `charge` is called before
    /// each chunk. None if the budget is spent.
    fn walk(
        &self,
        query: &mut WalkingQuery<'_>,
        mut charge: impl FnMut(u64) -> bool,
    ) -> Option<Walk> {
        let KernelSource { finish, rows, columns, .. } = query.source;
        let (mut score, mut visited) = (-self.offset, 0);
        let mut chunk = [0u32; FEW];
        while visited < self.members.len() {
            let mut count = 0;
            let (mut missing, mut left) = ([0u32; FEW], 0);
            while count < FEW {
                let Some(member) = query.order.next(&self.coefficients) else { break };
                chunk[count] = member;
                count += 1;
                let vector = self.members[member as usize];
                if query.kernels[vector as usize].is_nan() {
                    missing[left] = vector;
                    left += 1;
                }
            }
            if !charge(left as u64 * (columns + KERNEL_COST)) {
                return None;
            }
            if left > 0 {
                let values = rows.kernels(finish, query.dense, &missing[..left]);
                for (vector, value) in missing[..left].iter().zip(&values) {
                    query.kernels[*vector as usize] = *value;
                }
            }
            for member in chunk[..count].iter().map(|member| *member as usize) {
                score += self.coefficients[member] * query.kernels[self.members[member] as usize];
                let is_beyond = score < self.low[visited] || score > self.high[visited];
                visited += 1;
                if is_beyond {
                    return Some(Walk { score, visited, is_beyond });
                }
            }
        }
        Some(Walk { score, visited, is_beyond: false })
    }
}

impl Nearest {
    /// Asks the linear filters, pair by pair; answers queries whose vote they decide.
    fn run_filters(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut NearestScratch,
    ) {
        let (exact, count) = (block.exact(), self.scores.len());
        for query in block.open() {
            let scores = &mut scratch.known[*query as usize * count..][..count];
            let known = KnownScores { machine: exact.machine(), scores };
            scratch.is_filtered.clear();
            scratch.is_filtered.resize(count, false);
            while known.decided().is_none() {
                let Some(score) = known.next(|score| scratch.is_filtered[score]) else { break };
                scratch.is_filtered[score] = true;
                if !tracker.charge(*query, self.columns) {
                    break;
                }
                known.scores[score] = self.filters[score].beyond_thresholds(block.row(*query));
            }
            if let Some(estimate) = known.decided() {
                tracker.stop_by_rule(*query, estimate, 0);
            }
        }
        block.compact(tracker);
    }

    /// Walks for the scores of a query that the vote needs.
    fn run_walks(
        &self,
        query: u32,
        known: &mut KnownScores<'_>,
        walking: &mut WalkingQuery<'_>,
        nearness: (&[f64], &mut Vec<f64>),
        tracker: &mut DecisionTracker<'_>,
    ) {
        let (values, of_members) = nearness;
        let mut visited = 0;
        while known.decided().is_none() {
            let Some(number) = known.next(|_| false) else { return };
            let score = &self.scores[number];
            // The lines in which the vectors wait.
            if !tracker.charge(query, score.members.len() as u64) {
                return;
            }
            of_members.clear();
            of_members.extend(score.members.iter().map(|vector| values[*vector as usize]));
            walking.order.start(of_members, &score.coefficients, self.has_tug_of_war);
            let Some(walk) = score.walk(walking, |cost| tracker.charge(query, cost)) else {
                return;
            };
            // A reduced set is not the machine: what it leaves open is for the next stage.
            if !walk.score.is_finite() || (self.is_reduced && !walk.is_beyond) {
                return;
            }
            known.scores[number] = Some(walk.score);
            visited += walk.visited;
        }
        let Some(estimate) = known.decided() else { return };
        if self.scores.len() > 1 {
            visited = walking.kernels.iter().filter(|value| !value.is_nan()).count();
        }
        tracker.stop_by_rule(query, estimate, visited);
    }
}

impl Stage for Nearest {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn shares_coordinates(&self) -> bool {
        matches!(self.nearness, Nearness::Projected { .. })
    }

    fn bytes(&self) -> usize {
        let walks = self.scores.iter().map(|score| 28 * score.members.len());
        self.nearness.bytes() + self.rows.bytes() + walks.sum::<usize>()
    }

    fn stops(&self) -> bool {
        true
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for Nearest {
    type Scratch = NearestScratch;

    fn scratch(&self) -> Self::Scratch {
        NearestScratch {
            nearness: self.nearness.scratch(),
            known: Vec::new(),
            is_filtered: Vec::new(),
            values: Vec::new(),
            of_members: Vec::new(),
            kernels: Vec::new(),
            row: vec![0.0; self.live.len()],
            order: NearestOrder::default(),
        }
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut Self::Scratch,
    ) {
        scratch.known.clear();
        scratch.known.resize(block.len() * self.scores.len(), None);
        if !self.filters.is_empty() {
            self.run_filters(block, tracker, scratch);
        }
        let exact = block.exact();
        let form = exact.machine().kernel().form();
        let finish = form.finish().expect("checked when the stage was loaded");
        let source = KernelSource {
            isa: self.isa,
            finish,
            rows: &self.rows,
            live: &self.live,
            columns: self.columns,
        };
        let NearestScratch { nearness, known, values, of_members, kernels, row, order, .. } =
            scratch;
        let Some(stride) = self.nearness.fill(source, nearness, block, tracker) else { return };
        let landmarks = self.nearness.landmarks();
        for (position, query) in block.open().iter().enumerate() {
            let squared_norm = block.squared_norm(*query);
            self.nearness.values(source, nearness, [position, stride], squared_norm, values);
            self.live.write(block.row(*query), row);
            kernels.clear();
            kernels.resize(self.rows.count(), f64::NAN);
            let of_landmarks = nearness.landmarks.iter().skip(position * landmarks.len());
            for (landmark, value) in landmarks.iter().zip(of_landmarks) {
                kernels[*landmark as usize] = *value;
            }
            let scores = &mut known[*query as usize * self.scores.len()..][..self.scores.len()];
            let mut known = KnownScores { machine: exact.machine(), scores };
            let dense = DenseQuery { row, squared_norm };
            let mut walking = WalkingQuery { source, dense, kernels, order };
            self.run_walks(*query, &mut known, &mut walking, (values, of_members), tracker);
        }
        block.compact(tracker);
    }
}
