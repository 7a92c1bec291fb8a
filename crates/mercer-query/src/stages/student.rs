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

/// `y'Ay + b·y + c` for each output, `y` being the coordinates of the query in the basis.
#[derive(Debug)]
struct Student {
    isa: Isa,
    spec: Spec,
    basis: Basis,
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

/// Arrays: `basis` (directions in live columns), `forms` (square matrices), `lines`, `constants`.
fn load(section: &Section, exact: &Exact) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("student", reason);
    let spec: Spec = section.spec.parse().map_err(|_| refuse("its text cannot be read"))?;
    if matches!(exact.machine().output(), Output::Value) {
        return Err(refuse("values of a regression are not estimated"));
    }
    let basis = Basis::load(section, exact).map_err(refuse)?;
    let size = basis.rows();
    let (Some(Array::F32(forms)), Some(Array::F32(lines)), Some(constants)) =
        (section.array("forms"), section.array("lines"), section.reals("constants"))
    else {
        return Err(refuse("its forms, lines or constants are missing"));
    };
    let outputs = outputs(exact);
    let fits = constants.len() == outputs
        && lines.len() == outputs * size
        && forms.len() == outputs * size * size;
    if !fits {
        return Err(refuse("its arrays do not fit the machine"));
    }
    let singles = forms.iter().chain(lines);
    if singles.into_iter().any(|x| !x.is_finite()) || constants.iter().any(|x| !x.is_finite()) {
        return Err(refuse("its arrays hold values that are not finite"));
    }
    let width = size.next_multiple_of(LANES32);
    let mut padded = vec![0.0; outputs * size * width];
    for (place, row) in padded.chunks_exact_mut(width).zip(forms.chunks_exact(size)) {
        place[..size].copy_from_slice(row);
    }
    let forms = padded;
    let (lines, constants, isa) = (lines.clone(), constants.to_vec(), exact.isa());
    Ok(Box::new(Student { isa, spec, basis, forms, lines, constants }))
}

impl Stage for Student {
    fn spec(&self) -> Spec {
        self.spec.clone()
    }

    fn levels(&self) -> usize {
        1
    }

    fn needs_norms(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        self.basis.bytes() + 4 * self.forms.len()
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
        let Scratch { coordinates, weights, products, values } = scratch;
        let size = self.basis.rows();
        let chunks = Basis::chunks(0..size);
        let own = (self.constants.len() * size * (size + 1)) as u64;
        let cost = self.basis.cost(block, chunks.clone()) + own;
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
        self.basis.project(self.isa, block, chunks);
        let width = size.next_multiple_of(LANES32);
        products.resize(width, 0.0);
        let (open, known) = block.open_with_coordinates();
        for query in open {
            coordinates.clear();
            self.basis.read(known, *query, 0..size, coordinates);
            weights.clear();
            weights.extend((0u32..).zip(&*coordinates).map(|(row, y)| Weight { row, value: *y }));
            let (first, second) = weights.split_at(size / 2);
            values.clear();
            let forms = self.forms.chunks_exact(size * width);
            let outputs = forms.zip(self.lines.chunks_exact(size)).zip(&self.constants);
            values.extend(outputs.map(|((form, line), constant)| {
                blend32(self.isa, [first, second], form, products);
                let mut sums = [0.0f64; 8];
                for (at, y) in coordinates.iter().enumerate() {
                    let factor = f64::from(line[at]) + f64::from(products[at]);
                    sums[at % 8] += f64::from(*y) * factor;
                }
                fold8(&sums) + constant
            }));
            closer.estimate(*query, 0, guess(values));
        }
        block.compact(closer);
    }
}
