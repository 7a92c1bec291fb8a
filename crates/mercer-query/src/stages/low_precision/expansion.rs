//! From products or kernel values of all supports, in f32 or integers, to proved ranges of all scores. The error
//! bounds are in `certify/`; the products come from `low_precision.rs`.

use mercer_kernel::bound::{LEAST, largest};
use mercer_kernel::{Form, Profile};
use mercer_machine::{MachineError, Score};
use mercer_simd::{Isa, fold8};

use crate::Exact;
use crate::c::{CFile, StageSite, number, write_chunks};
use crate::certify::single_precision::{F32Bound, F32Query, F32Weights, power_norm};
use crate::coefficients::{CoefficientSizes, Coefficients, CoefficientsF32, SumsAndSizes};
use crate::tracker::DecisionTracker;

/// From products or kernel values of all supports to ranges of all scores.
#[derive(Debug)]
pub(super) struct Expansion {
    pub(super) isa: Isa,
    pub(super) bound: F32Bound,
    pub(super) weights: Vec<F32Weights>,
    coefficients: SumPrecision,
}

/// Gaussians are at most 1 and are summed in f32, everything else in f64.
#[derive(Debug)]
enum SumPrecision {
    F32(CoefficientsF32),
    F64(Coefficients, CoefficientSizes),
}

/// Sums of the loaded queries, one row of scores after the other.
#[derive(Debug, Default)]
pub(super) struct ExpansionSums {
    /// Products of one query and some supports.
    pub(super) values: Vec<f64>,
    powers: Vec<f64>,
    eights: Vec<[f64; 8]>,
    sums: Vec<f64>,
    sizes: Vec<f64>,
    memory: Vec<f64>,
}

impl Expansion {
    /// `terms` is how often a product is rounded. Refuses with a reason.
    pub(super) fn new(exact: &Exact, terms: usize) -> Result<Self, String> {
        let (machine, packed) = (exact.machine(), exact.packed());
        let profile = match machine.kernel().form() {
            Form::Dot(finish) | Form::Shift(finish) => finish.profile(),
            _ => Profile::Other,
        };
        if profile == Profile::Other {
            let kernel = machine.kernel().spec();
            return Err(format!("no error bound in low precision is known for {kernel}"));
        }
        let longest = largest(packed.squared_norms().iter().copied());
        let bound = F32Bound {
            profile,
            terms: terms as f64,
            longest: longest.sqrt() * (1.0 + 1e-9),
            rows: packed.rows(),
            columns: machine.columns(),
        };
        let norms = support_norms(profile, exact)
            .ok_or("a support is too short or too long to be normalised")?;
        let used = |support: usize, beta: f64| beta * norms[support];
        let (coefficients, unit) = if let Profile::Gaussian { .. } = profile {
            let narrow = CoefficientsF32::new(machine)
                .ok_or("the coefficients are too large or too small for single precision")?;
            let unit = narrow.unit();
            (SumPrecision::F32(narrow), unit)
        } else {
            let sizes = Coefficients::sizes(machine, used);
            (SumPrecision::F64(Coefficients::with(machine, used), sizes), 0.0)
        };
        // 2^-149 for the product, the coefficient and the size of each term, generously.
        let lost = unit * packed.rows() as f64 * 1e-44;
        let weights = machine.scores().iter().map(|score| weights(score, &used, lost)).collect();
        Ok(Self { isa: exact.isa(), bound, weights, coefficients })
    }

    /// Writes the coefficients in C, and the functions that sum with them.
    pub(super) fn write_coefficients(
        &self,
        site: &StageSite<'_>,
        file: &mut CFile<'_>,
    ) -> Result<(), MachineError> {
        let name = |name: &str| site.name(name);
        let (starts, scores, values) =
            (name("coefficient_starts"), name("coefficient_scores"), name("coefficients"));
        let set_error = name("SET_ERROR");
        let (rows, chunks) = match &self.coefficients {
            SumPrecision::F32(narrow) => {
                let ends = narrow.chunks.iter().scan(0, |end, chunk| {
                    *end += chunk.scores.len();
                    Some(*end)
                });
                file.integers("unsigned", &starts, std::iter::once(0).chain(ends))?;
                file.integers("unsigned", &scores, narrow.chunks.iter().flat_map(|c| &c.scores))?;
                let all = narrow.chunks.iter().flat_map(|chunk| chunk.values.iter().copied());
                file.f32s(&values, all)?;
                file.define(&name("COEFFICIENT_UNIT"), format!("({})", number(narrow.unit())))?;
                file.text(&format!("#define {set_error}(sums, known) ((void)0)\n"))?;
                (narrow.chunk_rows, narrow.chunks.len())
            }
            SumPrecision::F64(wide, sizes) => {
                write_chunks(wide, [&starts, &scores, &values], file)?;
                // A chunk without scores has no sizes; C wants one row for each.
                let rows = wide.chunk_rows;
                let sizes = sizes.0.chunks.iter().flat_map(|chunk| {
                    (0..rows).map(|row| chunk.values.get(row).copied().unwrap_or(0.0))
                });
                file.f64s(&name("sizes"), sizes)?;
                file.text(&format!(
                    "#define {set_error}(sums, known) ((sums).error = (known).error)\n"
                ))?;
                let is_sigmoid = matches!(self.bound.profile, Profile::Sigmoid { .. });
                file.define(&name("TANH"), if is_sigmoid { "tanh_of" } else { "fabs" })?;
                (rows, wide.chunks.len())
            }
        };
        file.define(&name("CHUNK_ROWS"), rows)?;
        file.define(&name("COEFFICIENT_CHUNKS"), chunks)?;
        let texts = match self.coefficients {
            SumPrecision::F32(_) => {
                [include_str!("sums_single.c"), include_str!("values_single.c")]
            }
            SumPrecision::F64(..) => {
                [include_str!("sums_double.c"), include_str!("values_double.c")]
            }
        };
        texts.iter().try_for_each(|text| file.stage_text(text, site.number))
    }

    /// Clears the sums of some queries.
    pub(super) fn clear(&self, sums: &mut ExpansionSums, queries: usize) {
        let places = queries * self.weights.len();
        sums.sums.clear();
        sums.sums.resize(places, 0.0);
        sums.sizes.clear();
        sums.sizes.resize(places, 0.0);
        sums.eights.clear();
        if let SumPrecision::F64(..) = self.coefficients {
            sums.eights.resize(places, [0.0; 8]);
        }
    }

    /// Adds the Gaussians of the query at `position` and the supports from `first` on.
    pub(super) fn add_gaussians(
        &self,
        position: usize,
        first: usize,
        gaussians: &[f32],
        sums: &mut ExpansionSums,
    ) {
        let SumPrecision::F32(narrow) = &self.coefficients else { return };
        let place = position * self.weights.len()..(position + 1) * self.weights.len();
        let out =
            SumsAndSizes { sums: &mut sums.sums[place.clone()], sizes: &mut sums.sizes[place] };
        narrow.add(self.isa, first, gaussians, out, &mut sums.memory);
    }

    /// Adds the kernel values made of `sums.values`, the products of the query at `position` and the
    /// supports from `first` on.
    pub(super) fn add_products(
        &self,
        position: usize,
        first: usize,
        query_bounds: &F32Query,
        sums: &mut ExpansionSums,
    ) {
        let SumPrecision::F64(coefficients, sizes) = &self.coefficients else { return };
        let ExpansionSums { values, powers, .. } = sums;
        let isa = self.isa;
        let place = position * self.weights.len()..(position + 1) * self.weights.len();
        let (scale, shift, degree) = match self.bound.profile {
            Profile::Power { scale, shift, degree }
            | Profile::NormalizedPower { scale, shift, degree } => (scale, shift, degree),
            Profile::Sigmoid { scale, shift } => (scale, shift, 1),
            _ => (1.0, 0.0, 1),
        };
        if degree > 1 {
            powers.clear();
            powers.extend(values.iter().map(|s| (scale * s + shift).abs() + query_bounds.error));
            mercer_simd::polynomial(isa, powers, 1.0, 0.0, degree - 1);
            sizes.add(isa, first, powers, &mut sums.sizes[place.clone()]);
        }
        mercer_simd::polynomial(isa, values, scale, shift, degree);
        if let Profile::Sigmoid { .. } = self.bound.profile {
            mercer_simd::tanh(isa, values);
        }
        coefficients.add(isa, first, values, &mut sums.eights[place]);
    }

    /// Proves the ranges of all scores of the queries that ran.
    pub(super) fn report(
        &self,
        runs: &[(u32, F32Query)],
        sums: &ExpansionSums,
        tracker: &mut DecisionTracker<'_>,
    ) {
        let scores = self.weights.len();
        for (position, (query, query_bounds)) in runs.iter().enumerate() {
            for (score, weights) in self.weights.iter().enumerate() {
                let at = position * scores + score;
                let (sum, size) = match &self.coefficients {
                    SumPrecision::F32(narrow) => {
                        (sums.sums[at] * narrow.unit(), sums.sizes[at] * narrow.unit())
                    }
                    SumPrecision::F64(..) => (fold8(&sums.eights[at]), sums.sizes[at]),
                };
                if let Some(range) = self.bound.range(query_bounds, weights, sum, size) {
                    tracker.prove(*query, score, range, 0);
                }
            }
            tracker.settle_if_proved(*query);
        }
    }
}

/// What the coefficient of each support is multiplied by: the inverse norm for normalised kernels, 1 for
/// others. A support of zeros without a constant has the kernel value 0.
fn support_norms(profile: Profile, exact: &Exact) -> Option<Vec<f64>> {
    let supports = exact.machine().supports();
    let Profile::NormalizedPower { scale, shift, degree } = profile else {
        return Some(vec![1.0; supports.rows()]);
    };
    let inverse = |(row, squared_norm): (usize, &f64)| {
        if shift == 0.0 && supports.row(row).nonzeros().next().is_none() {
            return Some(0.0);
        }
        power_norm(scale, shift, degree, *squared_norm).map(|norm| 1.0 / norm)
    };
    exact.packed().squared_norms().iter().enumerate().map(inverse).collect()
}

fn weights(score: &Score, used: &impl Fn(usize, f64) -> f64, lost: f64) -> F32Weights {
    let Score::Expansion { supports, coefficients, offset } = score else {
        unreachable!("linear scores were refused")
    };
    let up = |sum: f64| sum * (1.0 + (supports.len() as f64 + 8.0) * f64::EPSILON);
    let named = supports.iter().zip(coefficients);
    let sum: f64 = named.map(|(support, beta)| used(*support as usize, *beta).abs()).sum();
    let original: f64 = coefficients.iter().map(|beta| beta.abs()).sum();
    // Quotients of small coefficients may underflow.
    let used = up(sum) + supports.len() as f64 * LEAST;
    F32Weights { used, original: up(original), offset: *offset, lost }
}
