use std::any::Any;

use mercer_kernel::Profile;
use mercer_kernel::block::{SingleQueries, Singles};
use mercer_machine::{Score, Section};
use mercer_simd::{Isa, fold8};
use mercer_spec::Spec;

use crate::certify::singles::{Known, Singles as Bound, Weights, power_norm};
use crate::closer::Closer;
use crate::coefficients::{Coefficients, Sizes};
use crate::stage::{Block, Loader, Stage};
use crate::{Exact, LoadError};

pub(crate) static LOADER: Loader = Loader {
    name: "low_precision",
    summary: "all supports in single precision, with the error that this makes at most",
    load,
};

/// The whole expansion with products in single precision; sums, and all but the Gaussian, in double.
#[derive(Debug)]
struct LowPrecision {
    isa: Isa,
    singles: Singles,
    bound: Bound,
    weights: Vec<Weights>,
    coefficients: Coefficients,
    sizes: Sizes,
    squares: Vec<f32>,
    cost: u64,
}

/// Working memory of one thread.
struct Scratch {
    queries: SingleQueries,
    products: Vec<f32>,
    values: Vec<f64>,
    powers: Vec<f64>,
    sums: Vec<[f64; 8]>,
    sizes: Vec<f64>,
    asked: Vec<(u32, Known)>,
}

fn load(section: &Section, exact: &Exact) -> Result<Box<dyn Stage>, LoadError> {
    let refuse = |reason: &str| LoadError::unfit("low_precision", reason);
    if section.spec.trim() != "low_precision" || !section.arrays.is_empty() {
        return Err(refuse("it takes neither parameters nor arrays"));
    }
    let (machine, packed) = (exact.machine(), exact.packed());
    if machine.scores().iter().any(|score| matches!(score, Score::Linear { .. })) {
        return Err(refuse("a linear score is one product already"));
    }
    let form = machine.kernel().form();
    let profile = match form {
        mercer_kernel::Form::Dot(finish) | mercer_kernel::Form::Shift(finish) => finish.profile(),
        _ => Profile::Other,
    };
    if profile == Profile::Other {
        let kernel = machine.kernel().spec();
        return Err(refuse(&format!("no error bound in single precision is known for {kernel}")));
    }
    let singles = Singles::aligned(packed, machine.supports())
        .ok_or_else(|| refuse("the supports need more than 4 GiB"))?;
    let own = packed.self_sums();
    let up = |square: f64| square.sqrt() * (1.0 + 1e-9);
    let bound = Bound {
        profile,
        terms: singles.error_terms() as f64,
        longest: up(own.iter().copied().fold(0.0, f64::max)),
        rows: packed.rows(),
        columns: machine.columns(),
    };
    let norms = support_norms(profile, exact)
        .ok_or_else(|| refuse("a support is too short or too long to be normalised"))?;
    let used = |support: usize, beta: f64| beta * norms[support];
    let coefficients = Coefficients::with(machine, used);
    let sizes = Coefficients::sizes(machine, used);
    let weights = machine.scores().iter().map(|score| weights(score, &used)).collect();
    let squares = own.iter().map(|square| *square as f32).collect();
    let cost = packed.rows() as u64 * machine.columns() as u64;
    let isa = exact.isa();
    let stage = LowPrecision { isa, singles, bound, weights, coefficients, sizes, squares, cost };
    Ok(Box::new(stage))
}

/// What the coefficient of each support is multiplied by: the inverse norm for normalised kernels, 1 for
/// others. A support of zeros without a constant has the kernel value 0.
fn support_norms(profile: Profile, exact: &Exact) -> Option<Vec<f64>> {
    let supports = exact.machine().supports();
    let Profile::NormalizedPower { scale, shift, degree } = profile else {
        return Some(vec![1.0; supports.rows()]);
    };
    let inverse = |(row, own): (usize, &f64)| {
        if shift == 0.0 && supports.row(row).nonzeros().next().is_none() {
            return Some(0.0);
        }
        power_norm([scale, shift], degree, *own).map(|norm| 1.0 / norm)
    };
    exact.packed().self_sums().iter().enumerate().map(inverse).collect()
}

fn weights(score: &Score, used: &impl Fn(usize, f64) -> f64) -> Weights {
    let Score::Expansion { supports, coefficients, offset } = score else {
        unreachable!("linear scores were refused")
    };
    let up = |sum: f64| sum * (1.0 + (supports.len() as f64 + 8.0) * f64::EPSILON);
    let named = supports.iter().zip(coefficients);
    let sum: f64 = named.map(|(support, beta)| used(*support as usize, *beta).abs()).sum();
    let own: f64 = coefficients.iter().map(|beta| beta.abs()).sum();
    Weights { used: up(sum), own: up(own), offset: *offset }
}

impl LowPrecision {
    /// Adds the products of one query with some supports to its sums.
    fn add(
        &self,
        products: &mut [f32],
        first: usize,
        own: f64,
        known: &Known,
        scratch: (&mut Vec<f64>, &mut Vec<f64>, &mut [[f64; 8]], &mut [f64]),
    ) {
        let (values, powers, sums, sizes) = scratch;
        values.resize(products.len(), 0.0);
        let isa = self.isa;
        let (scale, shift, degree) = match self.bound.profile {
            Profile::Gaussian { gamma } => {
                let squares = &self.squares[first..first + products.len()];
                mercer_simd::gaussian32(isa, products, own as f32, squares, gamma as f32);
                mercer_simd::widen(isa, products, values);
                self.coefficients.add(isa, first, values, sums);
                self.sizes.add(isa, first, values, sizes);
                return;
            }
            Profile::Power { scale, shift, degree }
            | Profile::NormalizedPower { scale, shift, degree } => (scale, shift, degree),
            _ => (1.0, 0.0, 1),
        };
        mercer_simd::widen(isa, products, values);
        powers.clear();
        powers.extend(values.iter().map(|s| (scale * s + shift).abs() + known.error));
        mercer_simd::polynomial(isa, powers, 1.0, 0.0, degree - 1);
        mercer_simd::polynomial(isa, values, scale, shift, degree);
        self.coefficients.add(isa, first, values, sums);
        self.sizes.add(isa, first, powers, sizes);
    }
}

impl Stage for LowPrecision {
    fn spec(&self) -> Spec {
        Spec::new("low_precision")
    }

    fn scratch(&self) -> Box<dyn Any + Send> {
        Box::new(Scratch {
            queries: self.singles.queries(),
            products: Vec::new(),
            values: Vec::new(),
            powers: Vec::new(),
            sums: Vec::new(),
            sizes: Vec::new(),
            asked: Vec::new(),
        })
    }

    fn run(&self, block: &mut Block<'_>, closer: &mut Closer<'_>, scratch: &mut dyn Any) {
        let scratch = scratch.downcast_mut::<Scratch>().expect("made by this stage");
        let Scratch { queries, products, values, powers, sums, sizes, asked } = scratch;
        asked.clear();
        for query in block.open() {
            // A query of a scale that singles cannot hold is left to the next stage.
            let Some(known) = self.bound.query(block.own(*query)) else { continue };
            if closer.charge(*query, self.cost) {
                asked.push((*query, known));
            }
        }
        if asked.is_empty() {
            block.compact(closer);
            return;
        }
        let scores = self.weights.len();
        sums.clear();
        sums.resize(asked.len() * scores, [0.0; 8]);
        sizes.clear();
        sizes.resize(asked.len() * scores, 0.0);
        self.singles.load(asked.iter().map(|(query, _)| block.row(*query)), queries);
        self.singles.visit(self.isa, queries, products, |mut tile| {
            for position in tile.queries.clone() {
                let (query, known) = &asked[position];
                let first = tile.rows.start;
                let place = position * scores..(position + 1) * scores;
                let sums =
                    (&mut *values, &mut *powers, &mut sums[place.clone()], &mut sizes[place]);
                self.add(tile.of(position), first, block.own(*query), known, sums);
            }
        });
        for (position, (query, known)) in asked.iter().enumerate() {
            for (score, weights) in self.weights.iter().enumerate() {
                let at = position * scores + score;
                let (sum, size) = (fold8(&sums[at]), sizes[at]);
                if let Some(range) = self.bound.range(known, weights, sum, size) {
                    closer.prove(*query, score, range, 0);
                }
            }
            closer.judge(*query);
        }
        block.compact(closer);
    }
}
