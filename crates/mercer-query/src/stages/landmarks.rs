//! Gaussians around landmarks in few coordinates, with weights that were fitted to the scores of the machine. An
//! estimate, never a proof; landmarks and weights are fitted in `mercer_compile`.

use mercer_machine::{Output, Section};
use mercer_simd::{DenseQueries32, Isa, Panels32, fold8, gaussian32, weighted_sums32};
use mercer_spec::{Checked, Kind, Parameter, Spec};

use super::coordinates::{Basis, KERNEL_COST, estimate_of, outputs};
use crate::block::Block;
use crate::entry::StageEntry;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::RestsOn;
use crate::{Exact, LoadError};

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "landmarks",
    summary: "Gaussians around landmarks in few coordinates, fitted to the machine's scores, for machines with many supports; calibrated, not proved",
    parameters: &[
        Parameter {
            name: "coordinates",
            kind: Kind::Integer { low: 1, high: 128 },
            default: None,
            help: "coordinates of a query, as in landmarks(32, 1024)",
        },
        Parameter {
            name: "count",
            kind: Kind::Integer { low: 1, high: 2048 },
            default: None,
            help: "landmarks, as in landmarks(32, 1024)",
        },
    ],
    build: load,
    rests_on: RestsOn::Calibration,
};

/// `Σ_j w_j exp(-γ |y - c_j|²) + b·y + c` for each output, `y` being the coordinates of the query: a student
/// whose size does not grow with the supports.
#[derive(Debug)]
struct Landmarks {
    isa: Isa,
    spec: Spec,
    basis: Basis,
    centres: Panels32,
    norms: Vec<f32>,
    gamma: f32,
    /// `centres` for each output.
    weights: Vec<f32>,
    lines: Vec<f32>,
    constants: Vec<f64>,
}

/// Working memory of one thread.
struct LandmarksScratch {
    dense: DenseQueries32,
    coordinates: Vec<f32>,
    products: Vec<f32>,
    values: Vec<f64>,
}

/// Arrays: `basis`, `centres` (coordinates of each landmark), `weights`, `linear`, `constants`, `gamma`.
fn load(
    section: &Section,
    arguments: &Checked<'_>,
    exact: &Exact,
) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("landmarks", reason);
    let spec = arguments.text().clone();
    if matches!(exact.machine().output(), Output::Value) {
        return Err(refuse("values of a regression are not estimated"));
    }
    let basis = Basis::load(section, exact).map_err(refuse)?;
    let (size, outputs) = (basis.rows(), outputs(exact));
    let (Some(centres), Some(weights), Some(lines), Some(constants), Some([gamma])) = (
        section.f32s("centres"),
        section.f32s("weights"),
        section.f32s("linear"),
        section.f64s("constants"),
        section.f32s("gamma"),
    ) else {
        return Err(refuse("its arrays are missing"));
    };
    let count = centres.len() / size;
    let fits = count > 0
        && centres.len() == count * size
        && weights.len() == outputs * count
        && lines.len() == outputs * size
        && constants.len() == outputs;
    if !fits {
        return Err(refuse("its arrays do not fit the machine"));
    }
    let numbers = centres.iter().chain(weights).chain(lines).chain([gamma]);
    let is_finite = numbers.into_iter().all(|x| x.is_finite());
    if !is_finite || constants.iter().any(|x| !x.is_finite()) || *gamma < 0.0 {
        return Err(refuse("its arrays hold values that make no sense"));
    }
    let norms = centres.chunks_exact(size).map(square).collect();
    let panels = Panels32::pack(count, size, |row, out| {
        out.copy_from_slice(&centres[row * size..(row + 1) * size]);
    });
    Ok(Box::new(Landmarks {
        isa: exact.isa(),
        spec,
        basis,
        centres: panels,
        norms,
        gamma: *gamma,
        weights: weights.to_vec(),
        lines: lines.to_vec(),
        constants: constants.to_vec(),
    }))
}

/// The squared length, as one chain.
fn square(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |sum: f32, x| sum + x * x)
}

impl Landmarks {
    /// What all outputs make of one query.
    fn outputs(&self, coordinates: &[f32], gaussians: &[f32], values: &mut Vec<f64>) {
        values.clear();
        values.resize(self.constants.len(), 0.0);
        let count = self.norms.len();
        weighted_sums32(self.isa, &gaussians[..count], &self.weights, count, values);
        let lines = self.lines.chunks_exact(coordinates.len()).zip(&self.constants);
        for (value, (line, constant)) in values.iter_mut().zip(lines) {
            let mut sums = [0.0f64; 8];
            for (at, (y, w)) in coordinates.iter().zip(line).enumerate() {
                sums[at % 8] += f64::from(*y) * f64::from(*w);
            }
            *value += fold8(&sums) + constant;
        }
    }
}

impl Stage for Landmarks {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn levels(&self) -> usize {
        1
    }

    fn needs_rounding_bounds(&self) -> bool {
        false
    }

    fn shares_coordinates(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        self.basis.bytes() + self.centres.bytes() + 4 * self.weights.len()
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for Landmarks {
    type Scratch = LandmarksScratch;

    fn scratch(&self) -> Self::Scratch {
        LandmarksScratch {
            dense: DenseQueries32::new(self.basis.rows()),
            coordinates: Vec::new(),
            products: Vec::new(),
            values: Vec::new(),
        }
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut Self::Scratch,
    ) {
        let LandmarksScratch { dense, coordinates, products, values } = scratch;
        let (size, count) = (self.basis.rows(), self.norms.len());
        let other_cost = count as u64 * (size as u64 + KERNEL_COST)
            + (self.constants.len() * (count + size)) as u64;
        if !self.basis.charge_and_project(self.isa, 0..size, other_cost, block, tracker) {
            return;
        }
        coordinates.clear();
        let (open, computed) = block.open_with_coordinates();
        for query in open {
            self.basis.read(computed, *query, 0..size, coordinates);
        }
        dense.clear();
        dense.push_rows(coordinates, open.len(), size);
        let panels = 0..self.centres.panels();
        let stride = self.centres.lanes(panels.clone()).len();
        products.resize(open.len() * stride, 0.0);
        self.centres.dots_dense(self.isa, dense, panels, products, stride);
        let rows = coordinates.chunks_exact(size).zip(products.chunks_exact_mut(stride));
        for (query, (y, products)) in open.iter().zip(rows) {
            let gaussians = &mut products[..count];
            gaussian32(self.isa, gaussians, square(y), &self.norms, self.gamma);
            self.outputs(y, gaussians, values);
            tracker.estimate(*query, 0, estimate_of(values));
        }
        block.compact(tracker);
    }
}
