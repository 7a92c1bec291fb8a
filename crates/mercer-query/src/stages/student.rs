use std::any::Any;

use mercer_machine::{Array, Output, Section};
use mercer_simd::{Isa, LANES32, Weight, blend32, fold8};
use mercer_spec::Spec;

use super::projection::{Basis, guess, outputs};
use crate::closer::Closer;
use crate::stage::{Block, Loader, Stage};
use crate::{Exact, LoadError};

pub(crate) static LOADER: Loader = Loader {
    name: "student",
    summary: "a quadratic form in few coordinates, fitted to the machine's own scores; calibrated, not proved",
    load,
};

/// `y'Ay + b·y + c` for each output, `y` being the coordinates of the query in the basis; each level has
/// more coordinates than the one before.
#[derive(Debug)]
struct Student {
    isa: Isa,
    spec: Spec,
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    /// The directions that the level before has not.
    basis: Basis,
    /// Coordinates, those of the levels before first.
    size: usize,
    /// The rows of all matrices A, padded, one output after the other.
    forms: Vec<f32>,
    lines: Vec<f32>,
    constants: Vec<f64>,
}

/// Working memory of one thread.
struct Scratch {
    coordinates: Vec<f32>,
    weights: Vec<Weight>,
    products: Vec<f32>,
    values: Vec<f64>,
}

/// Arrays: `basis` (directions in live columns), and for each level, one after the other: `forms` (square
/// matrices), `lines`, `constants`. `levels` counts the coordinates of each; without it there is one level.
fn load(section: &Section, exact: &Exact) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("student", reason);
    let spec: Spec = section.spec.parse().map_err(|_| refuse("its text cannot be read"))?;
    if matches!(exact.machine().output(), Output::Value) {
        return Err(refuse("values of a regression are not estimated"));
    }
    let live = exact.packed().live_columns();
    let directions = Basis::directions(section, exact).map_err(refuse)?;
    let all = directions.len() / live;
    let sizes = match section.array("levels") {
        None => vec![all],
        Some(Array::U32(sizes)) => sizes.iter().map(|size| *size as usize).collect(),
        Some(_) => return Err(refuse("its levels are no whole numbers")),
    };
    let is_increasing = sizes.windows(2).all(|pair| pair[0] < pair[1]);
    if !is_increasing || sizes.first().is_none_or(|size| *size == 0) || sizes.last() != Some(&all) {
        return Err(refuse("its levels do not fit its basis"));
    }
    let (Some(Array::F32(forms)), Some(Array::F32(lines)), Some(constants)) =
        (section.array("forms"), section.array("lines"), section.reals("constants"))
    else {
        return Err(refuse("its forms, lines or constants are missing"));
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
    let singles = forms.iter().chain(lines);
    if singles.into_iter().any(|x| !x.is_finite()) || constants.iter().any(|x| !x.is_finite()) {
        return Err(refuse("its arrays hold values that are not finite"));
    }
    let (mut forms, mut lines, mut begin) = (forms.as_slice(), lines.as_slice(), 0);
    let mut levels = Vec::new();
    for (size, constants) in sizes.into_iter().zip(constants.chunks_exact(outputs)) {
        let (own, rest) = forms.split_at(outputs * size * size);
        let (line, other) = lines.split_at(outputs * size);
        (forms, lines) = (rest, other);
        let basis = Basis::new(&directions[begin * live..size * live], exact);
        begin = size;
        let width = size.next_multiple_of(LANES32);
        let mut padded = vec![0.0; outputs * size * width];
        for (place, row) in padded.chunks_exact_mut(width).zip(own.chunks_exact(size)) {
            place[..size].copy_from_slice(row);
        }
        let (lines, constants) = (line.to_vec(), constants.to_vec());
        levels.push(Level { basis, size, forms: padded, lines, constants });
    }
    Ok(Box::new(Student { isa: exact.isa(), spec, levels }))
}

impl Level {
    /// What all outputs make of one query.
    fn outputs(&self, isa: Isa, scratch: &mut Scratch) {
        let Scratch { coordinates, weights, products, values } = scratch;
        let size = self.size;
        let width = size.next_multiple_of(LANES32);
        products.resize(width, 0.0);
        weights.clear();
        weights.extend((0u32..).zip(&*coordinates).map(|(row, y)| Weight { row, value: *y }));
        let (first, second) = weights.split_at(size / 2);
        values.clear();
        let forms = self.forms.chunks_exact(size * width);
        let outputs = forms.zip(self.lines.chunks_exact(size)).zip(&self.constants);
        values.extend(outputs.map(|((form, line), constant)| {
            blend32(isa, [first, second], form, products);
            let mut sums = [0.0f64; 8];
            for (at, y) in coordinates.iter().enumerate() {
                let factor = f64::from(line[at]) + f64::from(products[at]);
                sums[at % 8] += f64::from(*y) * factor;
            }
            fold8(&sums) + constant
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

    fn needs_norms(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.basis.bytes() + 4 * level.forms.len()).sum()
    }

    fn scratch(&self) -> Box<dyn Any + Send> {
        Box::new(Scratch {
            coordinates: Vec::new(),
            weights: Vec::new(),
            products: Vec::new(),
            values: Vec::new(),
        })
    }

    fn run(&self, block: &mut Block<'_>, closer: &mut Closer<'_>, scratch: &mut dyn Any) {
        let scratch = scratch.downcast_mut::<Scratch>().expect("made by this stage");
        for (number, level) in self.levels.iter().enumerate() {
            let own = (level.constants.len() * level.size * (level.size + 1)) as u64;
            let chunks = Basis::chunks(0..level.basis.rows());
            let cost = level.basis.cost(block, chunks.clone()) + own;
            let mut has_closed = false;
            for query in block.open() {
                has_closed |= !closer.charge(*query, cost);
            }
            if has_closed {
                block.compact(closer);
            }
            if block.open().is_empty() {
                return;
            }
            level.basis.project(self.isa, block, chunks);
            let (open, known) = block.open_with_coordinates();
            for query in open {
                scratch.coordinates.clear();
                for level in &self.levels[..=number] {
                    let all = 0..level.basis.rows();
                    level.basis.read(known, *query, all, &mut scratch.coordinates);
                }
                level.outputs(self.isa, scratch);
                closer.estimate(*query, number, guess(&scratch.values));
            }
            block.compact(closer);
        }
    }
}
