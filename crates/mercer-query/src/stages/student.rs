//! Quadratic forms in few coordinates that were fitted to the scores of the machine. An estimate, never a proof; the
//! forms are fitted in `mercer_compile`.

mod c;

use mercer_machine::{Array, Output, Section};
use mercer_simd::{Isa, LANES32, quadratic32};
use mercer_spec::{Checked, Kind, Parameter, Spec};

use super::coordinates::{Basis, estimate_of, outputs};
use crate::block::Block;
use crate::c::StageInC;
use crate::entry::StageEntry;
use crate::stage::{Session, Stage, StageSession, StageWithScratch};
use crate::tracker::DecisionTracker;
use crate::verify::RestsOn;
use crate::{Exact, LoadError};

/// The entry of the registry.
pub static ENTRY: StageEntry = StageEntry {
    name: "student",
    summary: "quadratic forms in few coordinates, more from level to level, fitted to the machine's scores; calibrated, not proved",
    parameters: &[
        Parameter {
            name: "coordinates",
            kind: Kind::Increasing { low: 1, high: 64 },
            default: None,
            help: "coordinates of each level, as in student(16)",
        },
        Parameter {
            name: "directions",
            kind: Kind::Word(&["principal", "fitted"]),
            default: Some("principal"),
            help: "directions of the coordinates: those of the supports, or fitted to the scores",
        },
    ],
    build: load,
    rests_on: RestsOn::Calibration,
};

/// `y'Ay + b·y + c` for each output, `y` being the coordinates of the query in the basis; each level has
/// more coordinates than the one before.
#[derive(Debug)]
struct Student {
    isa: Isa,
    spec: Spec,
    /// The directions of all levels.
    basis: Basis,
    levels: Vec<StudentLevel>,
}

#[derive(Debug)]
struct StudentLevel {
    /// Coordinates, those of the levels before first.
    size: usize,
    /// The rows of all matrices A, padded, one output after the other.
    forms: Vec<f32>,
    /// Padded, too.
    lines: Vec<f32>,
    constants: Vec<f64>,
}

/// Working memory of one thread.
struct StudentScratch {
    coordinates: Vec<f32>,
    values: Vec<f64>,
}

/// Arrays: `basis` (directions in live columns), and for each level, one after the other: `quadratic` (square
/// matrices), `linear`, `constants`. `levels` counts the coordinates of each.
fn load(
    section: &Section,
    arguments: &Checked<'_>,
    exact: &Exact,
) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("student", reason);
    let spec = arguments.text().clone();
    if matches!(exact.machine().output(), Output::Value) {
        return Err(refuse("values of a regression are not estimated"));
    }
    let live = exact.packed().live_columns();
    let directions = Basis::directions(section, exact).map_err(refuse)?;
    let all = directions.len() / live;
    let levels = section.u32s("levels").ok_or_else(|| refuse("its levels are missing"))?;
    let sizes: Vec<usize> = levels.iter().map(|size| *size as usize).collect();
    let is_increasing = sizes.windows(2).all(|pair| pair[0] < pair[1]);
    if !is_increasing || sizes.first().is_none_or(|size| *size == 0) || sizes.last() != Some(&all) {
        return Err(refuse("its levels do not fit its basis"));
    }
    let (Some(Array::F32(forms)), Some(Array::F32(lines)), Some(constants)) =
        (section.array("quadratic"), section.array("linear"), section.f64s("constants"))
    else {
        return Err(refuse("its quadratic, linear or constant parts are missing"));
    };
    let outputs = outputs(exact);
    let total =
        |of: fn(usize) -> usize| outputs * sizes.iter().map(|size| of(*size)).sum::<usize>();
    let fits = constants.len() == total(|_| 1)
        && lines.len() == total(|size| size)
        && forms.len() == total(|size| size * size);
    if !fits {
        return Err(refuse("its arrays do not fit the machine"));
    }
    let numbers = forms.iter().chain(lines);
    if numbers.into_iter().any(|x| !x.is_finite()) || constants.iter().any(|x| !x.is_finite()) {
        return Err(refuse("its arrays hold values that are not finite"));
    }
    let (mut forms, mut lines) = (forms.as_slice(), lines.as_slice());
    let mut levels = Vec::new();
    for (size, constants) in sizes.into_iter().zip(constants.chunks_exact(outputs)) {
        let (own, rest) = forms.split_at(outputs * size * size);
        let (line, other) = lines.split_at(outputs * size);
        (forms, lines) = (rest, other);
        let (forms, lines) = (padded(own, size), padded(line, size));
        levels.push(StudentLevel { size, forms, lines, constants: constants.to_vec() });
    }
    let basis = Basis::new(directions, exact);
    Ok(Box::new(Student { isa: exact.isa(), spec, basis, levels }))
}

/// Rows of `size` numbers, each followed by zeros up to a whole number of lanes.
fn padded(rows: &[f32], size: usize) -> Vec<f32> {
    let width = size.next_multiple_of(LANES32);
    let mut padded = vec![0.0; rows.len() / size * width];
    for (place, row) in padded.chunks_exact_mut(width).zip(rows.chunks_exact(size)) {
        place[..size].copy_from_slice(row);
    }
    padded
}

impl StudentLevel {
    /// What all outputs make of one query.
    fn outputs(&self, isa: Isa, scratch: &mut StudentScratch) {
        let StudentScratch { coordinates, values } = scratch;
        let size = self.size;
        let width = size.next_multiple_of(LANES32);
        coordinates.resize(width, 0.0);
        values.clear();
        let forms = self.forms.chunks_exact(size * width);
        let outputs = forms.zip(self.lines.chunks_exact(width)).zip(&self.constants);
        values.extend(outputs.map(|((form, line), constant)| {
            quadratic32(isa, size, form, line, coordinates) + constant
        }));
    }
}

impl Stage for Student {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn levels(&self) -> usize {
        self.levels.len()
    }

    fn needs_rounding_bounds(&self) -> bool {
        false
    }

    fn shares_coordinates(&self) -> bool {
        true
    }

    fn c_code(&self) -> Option<&dyn StageInC> {
        Some(self)
    }

    fn bytes(&self) -> usize {
        let levels = self.levels.iter().map(|level| 4 * (level.forms.len() + level.lines.len()));
        self.basis.bytes() + levels.sum::<usize>()
    }

    fn session(&self) -> Box<dyn StageSession + '_> {
        Session::start(self)
    }
}

impl StageWithScratch for Student {
    type Scratch = StudentScratch;

    fn scratch(&self) -> Self::Scratch {
        StudentScratch { coordinates: Vec::new(), values: Vec::new() }
    }

    fn run(
        &self,
        block: &mut Block<'_>,
        tracker: &mut DecisionTracker<'_>,
        scratch: &mut Self::Scratch,
    ) {
        for (number, level) in self.levels.iter().enumerate() {
            let other_cost = (level.constants.len() * level.size * (level.size + 1)) as u64;
            if !self.basis.charge_and_project(self.isa, 0..level.size, other_cost, block, tracker) {
                return;
            }
            let (open, computed) = block.open_with_coordinates();
            for query in open {
                scratch.coordinates.clear();
                self.basis.read(computed, *query, 0..level.size, &mut scratch.coordinates);
                level.outputs(self.isa, scratch);
                tracker.estimate(*query, number, estimate_of(&scratch.values));
            }
            block.compact(tracker);
        }
    }
}
