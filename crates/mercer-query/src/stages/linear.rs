//! One dot product per output, fitted to the scores of the machine. An estimate, never a proof; machines with linear
//! scores need no such stage.

mod c;

use mercer_data::Row;
use mercer_machine::{Output, Section};
use mercer_simd::fold8;
use mercer_spec::{Checked, Spec};

use super::coordinates::{estimate_of, outputs};
use crate::block::Block;
use crate::c::StageInC;
use crate::entry::StageEntry;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::RestsOn;
use crate::{Exact, LoadError};

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "linear",
    summary: "one dot product, fitted to the machine's scores; calibrated, not proved",
    parameters: &[],
    build: load,
    rests_on: RestsOn::Calibration,
};

/// `w·x + c` for each output, in f64: eight partial sums by column, so that dense and sparse rows give
/// the same bits.
#[derive(Debug)]
struct Linear {
    columns: usize,
    weights: Vec<f64>,
    constants: Vec<f64>,
}

/// Arrays: `weights` (all columns of the machine for each output) and `constants`.
fn load(section: &Section, _: &Checked<'_>, exact: &Exact) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("linear", reason);
    if matches!(exact.machine().output(), Output::Value) {
        return Err(refuse("values of a regression are not estimated"));
    }
    let columns = exact.machine().columns();
    let weights = section.f64s("weights").ok_or_else(|| refuse("its weights are missing"))?;
    let constants = section.f64s("constants").ok_or_else(|| refuse("its constants are missing"))?;
    let fits = constants.len() == outputs(exact) && weights.len() == columns * constants.len();
    if !fits || columns == 0 {
        return Err(refuse("its arrays do not fit the machine"));
    }
    if weights.iter().chain(constants).any(|value| !value.is_finite()) {
        return Err(refuse("its arrays hold values that are not finite"));
    }
    let (weights, constants) = (weights.to_vec(), constants.to_vec());
    Ok(Box::new(Linear { columns, weights, constants }))
}

impl Stage for Linear {
    fn spec(&self) -> Spec {
        Spec::new("linear")
    }

    fn levels(&self) -> usize {
        1
    }

    fn needs_rounding_bounds(&self) -> bool {
        false
    }

    fn c_code(&self) -> Option<&dyn StageInC> {
        Some(self)
    }

    fn bytes(&self) -> usize {
        size_of_val(self.weights.as_slice())
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for Linear {
    type Scratch = Vec<f64>;

    fn scratch(&self) -> Self::Scratch {
        Vec::<f64>::new()
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        values: &mut Self::Scratch,
    ) {
        let cost = self.weights.len() as u64;
        for query in block.open() {
            if !tracker.charge(*query, cost) {
                continue;
            }
            let row = block.row(*query);
            values.clear();
            let outputs = self.weights.chunks_exact(self.columns).zip(&self.constants);
            values.extend(outputs.map(|(weights, constant)| dot(weights, row) + constant));
            tracker.estimate(*query, 0, estimate_of(values));
        }
        block.compact(tracker);
    }
}

/// Eight partial sums by column modulo eight, then the usual tree.
pub(super) fn dot(weights: &[f64], row: Row<'_>) -> f64 {
    let mut sums = [0.0; 8];
    match row {
        Row::Dense(values) => {
            let shared = values.len().min(weights.len());
            let (values, weights) = (&values[..shared], &weights[..shared]);
            for (eight, weights) in values.chunks(8).zip(weights.chunks(8)) {
                for ((sum, x), w) in sums.iter_mut().zip(eight).zip(weights) {
                    *sum += w * x;
                }
            }
        }
        Row::Sparse { columns, values } => {
            for (column, x) in columns.iter().zip(values) {
                let Some(weight) = weights.get(*column as usize) else { break };
                sums[*column as usize % 8] += weight * x;
            }
        }
    }
    fold8(&sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_and_sparse_rows_give_the_same_bits() {
        let weights: Vec<f64> = (0..21).map(|n| 0.1 + f64::from(n) / 7.0).collect();
        let mut dense = vec![0.0; 23];
        for column in [0usize, 3, 8, 11, 16, 19, 20, 22] {
            dense[column] = 1.0 / (3.0 + column as f64);
        }
        let columns: Vec<u32> = (0..23u32).filter(|c| dense[*c as usize] != 0.0).collect();
        let values: Vec<f64> = columns.iter().map(|c| dense[*c as usize]).collect();
        let sparse = dot(&weights, Row::Sparse { columns: &columns, values: &values });
        assert_eq!(dot(&weights, Row::Dense(&dense)).to_bits(), sparse.to_bits());
    }
}
