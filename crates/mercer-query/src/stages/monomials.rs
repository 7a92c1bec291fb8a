//! Polynomial kernels in few columns as one weighted sum of products of columns. What is proved is in
//! `certify/powers.rs`; the weights are computed in `mercer_compile`.

use mercer_data::Row;
use mercer_kernel::monomials::{Monomials, Power, count};
use mercer_machine::{Score, Section};
use mercer_simd::{Factor, Isa};
use mercer_spec::{Checked, Spec};

use super::coordinates::LiveColumns;
use crate::block::Block;
use crate::certify::powers::Powers;
use crate::entry::StageEntry;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::{RestsOn, monomials};
use crate::{Exact, LoadError};

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "monomials",
    summary: "polynomial kernels in few columns as one weighted sum of products of columns, with a proved range",
    parameters: &[],
    build: load,
    rests_on: RestsOn::Constants { work: monomials::work, verify: monomials::verify },
};

/// Queries computed at once.
const LANES: usize = 8;

/// The weights of all scores; see [`crate::certify::powers`] for what is proved.
#[derive(Debug)]
struct MonomialStage {
    isa: Isa,
    live: LiveColumns,
    /// Empty for degree 1, where the products are the columns themselves.
    factors: Vec<Factor>,
    /// One for each score, product after product.
    weights: Vec<f64>,
    bounds: Vec<Powers>,
}

/// Working memory of one thread; of the lists before `runs` only `sums` is used for degree 1.
struct MonomialsScratch {
    row: Vec<f64>,
    columns: Vec<[f64; LANES]>,
    largest: [f64; LANES],
    terms: Vec<[f64; LANES]>,
    sums: Vec<[f64; LANES]>,
    runs: Vec<u32>,
    undecided: Vec<u32>,
}

/// Arrays: `weights`, one for each product and score, product after product; `errors`, for each score one for
/// each degree from 0.
fn load(section: &Section, _: &Checked<'_>, exact: &Exact) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("monomials", reason);
    let machine = exact.machine();
    let is_linear = |score: &Score| matches!(score, Score::Linear { .. });
    let power = Power::of(machine.kernel().as_ref()).filter(|_| machine.bins().is_none());
    let power = power.filter(|_| !machine.scores().iter().any(is_linear));
    let power = power.ok_or_else(|| refuse("the machine is not an expansion in powers"))?;
    let weights = section.f64s("weights").ok_or_else(|| refuse("its weights are missing"))?;
    let errors = section.f64s("errors").ok_or_else(|| refuse("its errors are missing"))?;
    let (scores, degrees) = (machine.scores().len(), power.degree as usize + 1);
    let live = LiveColumns::new(exact);
    // Compared before the list is made: the file's own size limits it.
    let products = count(live.len(), power.degree);
    let expected = products.and_then(|count| count.checked_mul(scores));
    if expected != Some(weights.len()) || errors.len() != scores * degrees {
        return Err(refuse("its arrays do not fit the machine"));
    }
    if weights.iter().any(|weight| !weight.is_finite()) {
        return Err(refuse("its weights are not finite"));
    }
    if errors.iter().any(|error| !(0.0..f64::MAX).contains(error)) {
        return Err(refuse("its errors make no sense"));
    }
    let (factors, own_degrees) = if power.degree == 1 {
        (Vec::new(), (0..=live.len()).map(|product| u32::from(product > 0)).collect())
    } else {
        let list = Monomials::new(live.len(), power.degree);
        (list.factors, list.degrees)
    };
    let bound = |(number, (score, errors)): (usize, (&Score, &[f64]))| {
        let weights_of_score = weights.iter().skip(number).step_by(scores).copied();
        Powers::new(weights_of_score.zip(own_degrees.iter().copied()), errors, score.offset())
    };
    let pairs = machine.scores().iter().zip(errors.chunks_exact(degrees));
    let bounds = pairs.enumerate().map(bound).collect();
    let (isa, weights) = (exact.isa(), weights.to_vec());
    Ok(Box::new(MonomialStage { isa, live, factors, weights, bounds }))
}

impl MonomialStage {
    /// Up to eight queries.
    fn run_few(
        &self,
        queries: &[u32],
        block: &Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut MonomialsScratch,
    ) {
        if self.factors.is_empty() {
            for query in queries {
                let largest = self.sum_columns(block.row(*query), &mut scratch.sums);
                self.report(*query, 0, largest, tracker, scratch);
            }
            return;
        }
        let MonomialsScratch { row, columns, largest, terms, sums, .. } = scratch;
        columns.fill([0.0; LANES]);
        for (lane, query) in queries.iter().enumerate() {
            self.live.write(block.row(*query), row);
            for (column, value) in columns.iter_mut().zip(&*row) {
                column[lane] = *value;
            }
            largest[lane] = row.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        }
        mercer_simd::monomials(self.isa, columns, &self.factors, &self.weights, terms, sums);
        for (lane, query) in queries.iter().enumerate() {
            self.report(*query, lane, scratch.largest[lane], tracker, scratch);
        }
    }

    /// The sums of one row in the first lane, one chain in column order each; returns its largest value.
    fn sum_columns(&self, row: Row<'_>, sums: &mut [[f64; LANES]]) -> f64 {
        let scores = sums.len();
        for (sum, weight) in sums.iter_mut().zip(&self.weights) {
            sum[0] = *weight;
        }
        let mut largest: f64 = 0.0;
        for (slot, value) in self.live.nonzeros(row) {
            largest = largest.max(value.abs());
            let weights = &self.weights[(slot + 1) * scores..(slot + 2) * scores];
            for (sum, weight) in sums.iter_mut().zip(weights) {
                sum[0] = weight.mul_add(value, sum[0]);
            }
        }
        largest
    }

    /// Reports what the sums of one query, in one lane, prove.
    fn report(
        &self,
        query: u32,
        lane: usize,
        largest: f64,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut MonomialsScratch,
    ) {
        let MonomialsScratch { sums, undecided, .. } = scratch;
        tracker.undecided_scores(query, undecided);
        for score in undecided.iter().map(|score| *score as usize) {
            if let Some(range) = self.bounds[score].range(sums[score][lane], largest) {
                tracker.prove(query, score, range, 1);
            }
        }
        tracker.settle_if_proved(query);
    }
}

impl Stage for MonomialStage {
    fn spec(&self) -> Spec {
        Spec::new("monomials")
    }

    fn bytes(&self) -> usize {
        8 * self.weights.len() + size_of_val(self.factors.as_slice())
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for MonomialStage {
    type Scratch = MonomialsScratch;

    fn scratch(&self) -> Self::Scratch {
        let zeros = [0.0; LANES];
        let columns = if self.factors.is_empty() { 0 } else { self.live.len() };
        MonomialsScratch {
            row: vec![0.0; columns],
            columns: vec![zeros; columns],
            largest: zeros,
            terms: vec![zeros; self.factors.len() + 1],
            sums: vec![zeros; self.bounds.len()],
            runs: Vec::new(),
            undecided: Vec::new(),
        }
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut Self::Scratch,
    ) {
        // The products themselves, and a sum for each score.
        let cost = (self.factors.len() + self.weights.len()) as u64;
        let mut runs = std::mem::take(&mut scratch.runs);
        runs.clear();
        runs.extend(block.open().iter().filter(|query| tracker.charge(**query, cost)));
        for few in runs.chunks(LANES) {
            self.run_few(few, block, tracker, scratch);
        }
        scratch.runs = runs;
        block.compact(tracker);
    }
}
