use std::any::Any;

use mercer_machine::{Array, Output, Section};
use mercer_simd::{DenseQueries32, Isa, Panels32, fold8};
use mercer_spec::Spec;

use super::projection::{Basis, Projection, guess, outputs};
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
    /// The rows of all matrices A, one output after the other.
    forms: Panels32,
    lines: Vec<f32>,
    constants: Vec<f64>,
}

/// Working memory of one thread.
struct Scratch {
    projection: Projection,
    dense: DenseQueries32,
    coordinates: Vec<f32>,
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
    let forms = Panels32::pack(outputs * size, size, |row, out| {
        out.copy_from_slice(&forms[row * size..(row + 1) * size]);
    });
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
        self.basis.bytes() + self.forms.bytes()
    }

    fn scratch(&self) -> Box<dyn Any + Send> {
        Box::new(Scratch {
            projection: self.basis.scratch(),
            dense: DenseQueries32::new(self.basis.rows()),
            coordinates: Vec::new(),
            products: Vec::new(),
            values: Vec::new(),
        })
    }

    fn run(&self, block: &mut Block<'_>, closer: &mut Closer<'_>, scratch: &mut dyn Any) {
        let scratch = scratch.downcast_mut::<Scratch>().expect("made by this stage");
        let Scratch { projection, dense, coordinates, products, values } = scratch;
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
        self.basis.project(self.isa, block, chunks, projection);
        coordinates.clear();
        let (open, known) = block.open_with_coordinates();
        for query in open {
            self.basis.read(known, *query, 0..size, coordinates);
        }
        dense.clear();
        dense.push_rows(coordinates, open.len(), size);
        let panels = 0..self.forms.panels();
        let stride = self.forms.lanes(panels.clone()).len();
        products.resize(open.len() * stride, 0.0);
        self.forms.dots_dense(self.isa, dense, panels, products, stride);
        let rows = coordinates.chunks_exact(size).zip(products.chunks_exact(stride));
        for (query, (y, products)) in open.iter().zip(rows) {
            values.clear();
            let outputs = self.lines.chunks_exact(size).zip(products.chunks_exact(size));
            values.extend(outputs.zip(&self.constants).map(|((line, product), constant)| {
                let mut sums = [0.0f64; 8];
                for (at, y) in y.iter().enumerate() {
                    let factor = f64::from(line[at]) + f64::from(product[at]);
                    sums[at % 8] += f64::from(*y) * factor;
                }
                fold8(&sums) + constant
            }));
            closer.estimate(*query, 0, guess(values));
        }
        block.compact(closer);
    }
}
