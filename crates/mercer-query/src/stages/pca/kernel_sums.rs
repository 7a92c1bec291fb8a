//! From products in few dimensions to sums of kernel values. Not exact: the part of a support outside these dimensions
//! is left out.

use std::ops::Range;

use mercer_kernel::{Form, Profile};
use mercer_machine::Score;
use mercer_simd::Isa;

use crate::Exact;
use crate::coefficients::{Coefficients, CoefficientsF32, SumsAndSizes};

/// Exponents of Gaussians up to this size lose little in f32.
const MOST_EXPONENT: f64 = 1024.0;

/// What rounding to f32 may cost a score that is a sum of powers at the very most, where margins are about 1.
const MOST_LOSS: f64 = 1e-2;

/// How kernel values are made and summed. Nothing is proved here, so f32 is taken where it costs no
/// more than some 1e-4 of a Gaussian, or [`MOST_LOSS`] of a score.
#[derive(Debug)]
pub(super) enum KernelSums {
    Gaussians { narrow: CoefficientsF32, norms: Vec<f32>, gamma: f32 },
    Powers { narrow: CoefficientsF32, scale: f32, shift: f32, degree: u32 },
    InF64(Coefficients),
}

/// Products of one query with the supports `rows`.
pub(super) struct QueryProducts<'a> {
    pub rows: Range<usize>,
    pub products: &'a [f32],
    /// Of the query.
    pub squared_norm: f64,
}

/// Working memory of one thread.
#[derive(Debug, Default)]
pub(super) struct KernelScratch {
    narrow: Vec<f32>,
    values: Vec<f64>,
    sums: Vec<f64>,
    sizes: Vec<f64>,
    memory: Vec<f64>,
}

impl KernelScratch {
    /// Adds the kernel values of the supports from `first` on, weighted, to the first partial sum of each score.
    fn sum(&mut self, isa: Isa, narrow: &CoefficientsF32, first: usize, partials: &mut [[f64; 8]]) {
        let Self { narrow: values, sums, sizes, memory, .. } = self;
        for list in [&mut *sums, &mut *sizes] {
            list.clear();
            list.resize(partials.len(), 0.0);
        }
        narrow.add(isa, first, values, SumsAndSizes { sums, sizes }, memory);
        for (partial, sum) in partials.iter_mut().zip(sums) {
            partial[0] += *sum * narrow.unit();
        }
    }
}

/// `Σ|β|` of a score.
fn size(score: &Score) -> f64 {
    match score {
        Score::Expansion { coefficients, .. } => coefficients.iter().map(|beta| beta.abs()).sum(),
        _ => f64::INFINITY,
    }
}

impl KernelSums {
    pub(super) fn new(exact: &Exact) -> Self {
        Self::in_f32(exact).unwrap_or_else(|| Self::InF64(Coefficients::new(exact.machine())))
    }

    fn in_f32(exact: &Exact) -> Option<Self> {
        let (Form::Dot(finish) | Form::Shift(finish)) = exact.machine().kernel().form() else {
            return None;
        };
        let norms = exact.packed().squared_norms();
        let most = norms.iter().copied().fold(0.0, f64::max);
        match finish.profile() {
            Profile::Gaussian { gamma } => {
                if gamma * most > MOST_EXPONENT || most > f64::from(f32::MAX) / 8.0 {
                    return None;
                }
                let narrow = CoefficientsF32::new(exact.machine())?;
                let norms = norms.iter().map(|norm| *norm as f32).collect();
                Some(Self::Gaussians { narrow, norms, gamma: gamma as f32 })
            }
            Profile::Power { scale, shift, degree } => {
                let base = scale.abs() * most + shift.abs();
                let value = base.powi(degree.try_into().ok()?);
                let sizes = exact.machine().scores().iter().map(size).fold(0.0, f64::max);
                // Every factor of a power is rounded, and every term of a sum.
                let loss = (f64::from(degree) + 8.0) * f64::from(f32::EPSILON) * value * sizes;
                // Queries may be longer than supports; those that overflow are left open.
                let fits = loss <= MOST_LOSS && value < 1e20 && base < 1e20 && scale.abs() > 1e-20;
                let narrow =
                    if fits { CoefficientsF32::new(exact.machine())? } else { return None };
                Some(Self::Powers { narrow, scale: scale as f32, shift: shift as f32, degree })
            }
            _ => None,
        }
    }

    /// Adds what some supports give to the scores of a query.
    pub(super) fn add(
        &self,
        exact: &Exact,
        query: QueryProducts<'_>,
        work: &mut KernelScratch,
        partials: &mut [[f64; 8]],
    ) {
        let QueryProducts { rows, products, squared_norm } = query;
        let isa = exact.isa();
        match self {
            Self::Gaussians { narrow, norms, gamma } => {
                work.narrow.clear();
                work.narrow.extend_from_slice(products);
                let norms = &norms[rows.clone()];
                mercer_simd::gaussian32(isa, &mut work.narrow, squared_norm as f32, norms, *gamma);
                work.sum(isa, narrow, rows.start, partials);
            }
            Self::Powers { narrow, scale, shift, degree } => {
                work.narrow.clear();
                work.narrow.extend_from_slice(products);
                mercer_simd::polynomial(isa, &mut work.narrow, *scale, *shift, *degree);
                work.sum(isa, narrow, rows.start, partials);
            }
            Self::InF64(coefficients) => {
                let form = exact.machine().kernel().form();
                let finish = form.finish().expect("checked when the stage was loaded");
                let values = &mut work.values;
                values.resize(rows.len(), 0.0);
                mercer_simd::widen(isa, products, values);
                finish.finish(
                    isa,
                    values,
                    squared_norm,
                    &exact.packed().squared_norms()[rows.clone()],
                );
                coefficients.add(isa, rows.start, values, partials);
            }
        }
    }
}
