//! Gaussian kernels with a small gamma as a quadratic form. What is proved, and why, is in `certify/taylor.rs`; the
//! expansion is computed in `mercer_compile`.

use mercer_kernel::{Form, Profile};
use mercer_machine::{Score, Section};
use mercer_simd::Isa;
use mercer_spec::{Checked, Kind, Parameter, Spec};

use super::coordinates::{Basis, CHUNK};
use crate::block::Block;
use crate::certify::taylor::{
    FormBound, FormSums, LinearPart, TailValues, TaylorBound, TaylorQuery,
};
use crate::entry::StageEntry;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::{RestsOn, taylor};
use crate::{Exact, LoadError};

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "taylor",
    summary: "rbf with a small gamma as a quadratic form, with a proved bound on the remainder of the exponential",
    parameters: &[Parameter {
        name: "rounds",
        kind: Kind::Integer { low: 1, high: 64 },
        default: Some("3"),
        help: "chunks of eigenvectors of each score",
    }],
    build: load,
    rests_on: RestsOn::Constants { work: taylor::work, verify: taylor::verify },
};

/// Rows of the first chunk of a score: the middle, the slope, then eigenvectors of M, then of A. All rows of
/// its other chunks are eigenvectors of A.
pub(crate) const MIDDLE: usize = 0;
pub(crate) const SLOPE: usize = 1;
pub(crate) const RESTS: usize = 2;
pub(crate) const CURVES: usize = 9;

/// Numbers kept of each score.
pub(crate) const BOUNDS: usize = 11;

/// See [`crate::certify::taylor`] for what is proved.
#[derive(Debug)]
struct TaylorStage {
    isa: Isa,
    spec: Spec,
    /// Chunk by chunk, the scores one after the other within each round.
    basis: Basis,
    /// `e·m` and the eigenvalue of each row.
    rows: Vec<(f64, f64)>,
    /// Extreme eigenvalues that are left after each chunk.
    tails: Vec<TailValues>,
    bounds: Vec<TaylorBound>,
    rounds: usize,
}

/// Working memory of one thread.
struct TaylorScratch {
    coordinates: Vec<f32>,
    /// One for each query and score.
    states: Vec<Option<TaylorState>>,
}

/// What is known of a query and a score between rounds.
#[derive(Debug, Clone, Copy)]
struct TaylorState {
    query_bounds: TaylorQuery,
    linear: LinearPart,
    sums: FormSums,
}

/// Arrays: `basis` (chunks of 16 rows in live columns, round after round, score after score), `shifts` and
/// `values` (one for each row), `tails` (two for each chunk), `bounds` ([`BOUNDS`] for each score).
fn load(
    section: &Section,
    arguments: &Checked<'_>,
    exact: &Exact,
) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("taylor", reason);
    let spec = arguments.text().clone();
    let machine = exact.machine();
    let gamma = match machine.kernel().form() {
        Form::Shift(finish) => match finish.profile() {
            Profile::Gaussian { gamma } => gamma,
            _ => return Err(refuse("the kernel is not a Gaussian")),
        },
        _ => return Err(refuse("the kernel is not a Gaussian")),
    };
    let (scores, columns) = (machine.scores().len(), exact.packed().live_columns());
    let directions = Basis::directions(section, exact).map_err(refuse)?;
    let (Some(shifts), Some(values), Some(tails), Some(bounds)) = (
        section.f64s("shifts"),
        section.f64s("values"),
        section.f64s("tails"),
        section.f64s("bounds"),
    ) else {
        return Err(refuse("its shifts, values, tails or bounds are missing"));
    };
    let rows = directions.len() / columns;
    let round = CHUNK * scores;
    let fits = scores > 0
        && rows.is_multiple_of(round)
        && shifts.len() == rows
        && values.len() == rows
        && tails.len() == rows / CHUNK * 2
        && bounds.len() == scores * BOUNDS;
    if !fits {
        return Err(refuse("its arrays do not fit the machine"));
    }
    if shifts.iter().chain(values).chain(tails).chain(bounds).any(|value| !value.is_finite()) {
        return Err(refuse("its arrays hold values that are not finite"));
    }
    let is_ordered = tails.chunks_exact(2).all(|pair| pair[0] <= 0.0 && pair[1] >= 0.0);
    if !is_ordered {
        return Err(refuse("its tails do not hold zero"));
    }
    let mut all = Vec::new();
    for (number, (score, bounds)) in
        machine.scores().iter().zip(bounds.chunks_exact(BOUNDS)).enumerate()
    {
        let Score::Expansion { offset, .. } = score else {
            return Err(refuse("a linear score is one product already"));
        };
        let constants = ScoreConstants {
            gamma,
            offset: *offset,
            middle: values[number * CHUNK + MIDDLE],
            slope: values[number * CHUNK + SLOPE],
            columns,
        };
        all.push(bound(bounds, constants).map_err(refuse)?);
    }
    Ok(Box::new(TaylorStage {
        isa: exact.isa(),
        spec,
        basis: Basis::new(directions, exact),
        rows: shifts.iter().copied().zip(values.iter().copied()).collect(),
        tails: tails
            .chunks_exact(2)
            .map(|pair| TailValues { least: pair[0], most: pair[1] })
            .collect(),
        bounds: all,
        rounds: rows / round,
    }))
}

/// What is known of one score beside its stored bounds.
#[derive(Debug, Clone, Copy)]
struct ScoreConstants {
    gamma: f64,
    offset: f64,
    middle: f64,
    slope: f64,
    columns: usize,
}

/// The bounds of one score, checked.
fn bound(bounds: &[f64], score: ScoreConstants) -> Result<TaylorBound, &'static str> {
    let ScoreConstants { gamma, offset, middle, slope, columns } = score;
    let &[constant, drift, bend, radius, rest_tail, ref forms @ ..] = bounds else {
        return Err("its bounds do not fit the machine");
    };
    let form = |at: usize| FormBound {
        residual: forms[at],
        defect: forms[at + 1],
        largest: forms[at + 2],
    };
    let (curve, rest) = (form(0), form(3));
    let sizes = [drift, bend, rest_tail, middle, slope];
    let is_sane = sizes.iter().chain(forms).all(|size| *size >= 0.0)
        && radius > 0.0
        && [curve, rest].iter().all(|form| form.defect <= 0.01);
    if !is_sane {
        return Err("its bounds are too large or negative");
    }
    Ok(TaylorBound {
        gamma,
        offset,
        constant,
        drift,
        bend,
        slope,
        middle,
        radius,
        curve,
        rest,
        rest_tail,
        columns,
    })
}

impl TaylorStage {
    /// One chunk of one score: what is known of the query afterwards.
    fn chunk(&self, at: usize, state: &mut TaylorState, y: &[f32], first: usize) {
        let rows = &self.rows[at * CHUNK + first..(at + 1) * CHUNK];
        let terms = rows.iter().zip(&y[first..]);
        state.sums.add(terms.map(|((shift, value), y)| (*value, f64::from(*y) - shift)));
    }

    /// The first chunk of a score for a query of `width` columns.
    fn first_chunk(
        &self,
        score: usize,
        squared_norm: f64,
        width: usize,
        y: &[f32],
    ) -> Option<TaylorState> {
        let (bound, rows) = (&self.bounds[score], &self.rows[score * CHUNK..]);
        let query_bounds = bound.query(squared_norm, width, f64::from(y[MIDDLE]))?;
        let mut rests = FormSums::default();
        let terms = rows[RESTS..CURVES].iter().zip(&y[RESTS..CURVES]);
        rests.add(terms.map(|((shift, value), y)| (*value, f64::from(*y) - shift)));
        let along = f64::from(y[SLOPE]) - rows[SLOPE].0;
        let linear = LinearPart { along, remainder: bound.remainder(&query_bounds, &rests) };
        let mut state = TaylorState { query_bounds, linear, sums: FormSums::default() };
        self.chunk(score, &mut state, y, CURVES);
        Some(state)
    }
}

impl Stage for TaylorStage {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn shares_coordinates(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        self.basis.bytes() + size_of_val(self.rows.as_slice())
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for TaylorStage {
    type Scratch = TaylorScratch;

    fn scratch(&self) -> Self::Scratch {
        TaylorScratch { coordinates: Vec::new(), states: Vec::new() }
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut Self::Scratch,
    ) {
        let TaylorScratch { coordinates, states } = scratch;
        let scores = self.bounds.len();
        states.clear();
        states.resize(block.len() * scores, None);
        for round in 0..self.rounds {
            let rows = round * scores * CHUNK..(round + 1) * scores * CHUNK;
            let other_cost = 2 * rows.len() as u64;
            if !self.basis.charge_and_project(self.isa, rows, other_cost, block, tracker) {
                return;
            }
            for at in 0..block.open().len() {
                let query = block.open()[at];
                let (squared_norm, width) = (block.squared_norm(query), block.width(query));
                for score in 0..scores {
                    let chunk = round * scores + score;
                    coordinates.clear();
                    let computed = block.coordinates();
                    self.basis.read(
                        computed,
                        query,
                        chunk * CHUNK..(chunk + 1) * CHUNK,
                        coordinates,
                    );
                    let place = &mut states[query as usize * scores + score];
                    match place {
                        Some(state) => self.chunk(chunk, state, coordinates, 0),
                        None if round == 0 => {
                            *place = self.first_chunk(score, squared_norm, width, coordinates);
                        }
                        None => {}
                    }
                    let Some(TaylorState { query_bounds, linear, sums }) = place else { continue };
                    let range =
                        self.bounds[score].range(query_bounds, *linear, sums, self.tails[chunk]);
                    if let Some(range) = range {
                        tracker.prove(query, score, range, sums.count);
                    }
                }
                tracker.settle_if_proved(query);
            }
            block.compact(tracker);
        }
    }
}
