//! From products in few dimensions to sums of kernel values.

use std::ops::Range;

use mercer_kernel::{Form, Profile};
use mercer_simd::Isa;

use crate::Exact;
use crate::coefficients::{Coefficients, Narrow};

/// Exponents of Gaussians up to this size lose little in singles.
const MOST_EXPONENT: f64 = 1024.0;

/// How kernel values are made and summed. Nothing is proved here, so Gaussians take singles where that costs
/// no more than some 1e-4 of a value.
#[derive(Debug)]
pub(super) enum Finish {
    Singles { narrow: Narrow, norms: Vec<f32>, gamma: f32 },
    Doubles(Coefficients),
}

/// Working memory of one thread.
#[derive(Debug, Default)]
pub(super) struct Work {
    narrow: Vec<f32>,
    values: Vec<f64>,
    sums: Vec<f64>,
    sizes: Vec<f64>,
    memory: Vec<f64>,
}

impl Finish {
    pub(super) fn new(exact: &Exact) -> Self {
        Self::singles(exact).unwrap_or_else(|| Self::Doubles(Coefficients::new(exact.machine())))
    }

    fn singles(exact: &Exact) -> Option<Self> {
        let (Form::Dot(finish) | Form::Shift(finish)) = exact.machine().kernel().form() else {
            return None;
        };
        let Profile::Gaussian { gamma } = finish.profile() else { return None };
        let norms = exact.packed().self_sums();
        let most = norms.iter().copied().fold(0.0, f64::max);
        if gamma * most > MOST_EXPONENT || most > f64::from(f32::MAX) / 8.0 {
            return None;
        }
        let norms = norms.iter().map(|norm| *norm as f32).collect();
        Some(Self::Singles { narrow: Narrow::new(exact.machine())?, norms, gamma: gamma as f32 })
    }

    /// Adds what some supports give to the scores of a query whose self-sum is `own`: `products` are those of
    /// the supports `rows`.
    pub(super) fn add(
        &self,
        (isa, exact): (Isa, &Exact),
        rows: Range<usize>,
        (products, own): (&[f32], f64),
        work: &mut Work,
        partials: &mut [[f64; 8]],
    ) {
        match self {
            Self::Singles { narrow, norms, gamma } => {
                let Work { narrow: values, sums, sizes, memory, .. } = work;
                values.clear();
                values.extend_from_slice(products);
                mercer_simd::gaussian32(isa, values, own as f32, &norms[rows.clone()], *gamma);
                for room in [&mut *sums, &mut *sizes] {
                    room.clear();
                    room.resize(partials.len(), 0.0);
                }
                narrow.add(isa, rows.start, values, (sums, sizes), memory);
                for (partial, sum) in partials.iter_mut().zip(sums) {
                    partial[0] += *sum * narrow.unit();
                }
            }
            Self::Doubles(coefficients) => {
                let form = exact.machine().kernel().form();
                let finish = form.finish().expect("checked when the stage was loaded");
                let values = &mut work.values;
                values.resize(rows.len(), 0.0);
                mercer_simd::widen(isa, products, values);
                finish.finish(isa, values, own, &exact.packed().self_sums()[rows.clone()]);
                coefficients.add(isa, rows.start, values, partials);
            }
        }
    }
}
