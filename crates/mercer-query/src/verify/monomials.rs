//! The weights of all products of columns, for a fit of `monomials` and for its verification. The certificate is
//! `certify/powers.rs`.
//!
//! `c_α = p! / (α! (p - j)!) scale^j shift^(p-j) Σ β_i z_i^α` for products `α` of `j` columns.
//!
//! The product of a support meets at most `p` roundings, its term and the sum over `m` supports `m + 1` more,
//! the factor before the sum `p + 2` and its product with the sum one: `|ĉ - c| <= γ_(m+2p+6)` times the same
//! sum of absolute values, since `check_scales` refuses machines whose numbers could underflow or overflow
//! on the way.

use mercer_kernel::bound::gamma;
use mercer_kernel::monomials::{Monomials, Power};
use mercer_machine::{Machine, Score, Section};
use mercer_simd::monomials;

use super::live_rows::write_live;
use super::{MeasureError, Watch, all_at_least};
use crate::Exact;

/// Supports computed at once.
const LANES: usize = 8;

fn unfit(reason: &str) -> MeasureError {
    MeasureError::Unfit(reason.to_owned())
}

/// Weights of a machine of powers, and bounds on their errors.
#[derive(Debug)]
pub struct MonomialWeights {
    /// One for each product and score, product after product.
    pub weights: Vec<f64>,
    /// For each score one for each degree from 0: bounds on the sum of the errors.
    pub errors: Vec<f64>,
}

impl MonomialWeights {
    /// The weights of a machine whose kernel is this power.
    ///
    /// # Errors
    /// If its numbers are too large or too small, or the callback ends the work.
    pub fn of(exact: &Exact, power: Power, watch: &Watch<'_>) -> Result<Self, MeasureError> {
        let machine = exact.machine();
        check_scales(machine, power)?;
        let list = Monomials::new(exact.packed().live_columns(), power.degree);
        let (count, scores) = (list.degrees.len(), machine.scores().len());
        let ProductSums { sums, sizes } = if power.degree == 1 {
            ProductSums::of_columns(exact)
        } else {
            ProductSums::of_products(exact, &list, watch)?
        };
        let rounding =
            gamma(machine.supports().rows() as f64 + 2.0 * f64::from(power.degree) + 6.0);
        let mut weights = vec![0.0; count * scores];
        let mut errors = vec![0.0; scores * (power.degree as usize + 1)];
        for product in 0..count {
            let degree = list.degrees[product];
            let taken =
                repeated(power.scale, degree) * repeated(power.shift, power.degree - degree);
            let factor = list.multiplicities[product] * taken;
            for score in 0..scores {
                let place = product * scores + score;
                weights[place] = factor * sums[place];
                let error = rounding * factor.abs() * sizes[place] * (1.0 + 1e-9);
                errors[score * (power.degree as usize + 1) + degree as usize] += error;
            }
        }
        errors.iter_mut().for_each(|error| *error *= 1.0 + 1e-9);
        if weights.iter().chain(&errors).all(|value| value.is_finite()) {
            Ok(Self { weights, errors })
        } else {
            Err(unfit("its weights overflow"))
        }
    }
}

/// By multiplication alone: the library's power may round otherwise.
fn repeated(base: f64, times: u32) -> f64 {
    (0..times).fold(1.0, |product, _| product * base)
}

/// No product of what meets here may underflow: values to the power of the degree, `gamma` and `coef0`
/// likewise, and coefficients are zero or of an ordinary size.
fn check_scales(machine: &Machine, power: Power) -> Result<(), MeasureError> {
    let Power { scale, shift, degree } = power;
    let is_calm = |value: f64, widest: f64| {
        let size = value.abs().powi(degree as i32);
        value == 0.0 || (widest.recip()..=widest).contains(&size)
    };
    let is_small = |value: &f64| *value == 0.0 || (1e-60..=1e60).contains(&value.abs());
    let mut values = machine.supports().iter().flat_map(mercer_data::Row::nonzeros);
    let coefficients = |score: &Score| match score {
        Score::Expansion { coefficients, .. } => coefficients.iter().all(is_small),
        _ => true,
    };
    let fits = is_calm(scale, 1e50)
        && is_calm(shift, 1e50)
        && values.all(|(_, value)| is_calm(value, 1e100))
        && machine.scores().iter().all(coefficients);
    if fits {
        Ok(())
    } else {
        Err(unfit("its numbers are so large or small that products overflow"))
    }
}

/// `Σ β_i z_i^α` and `Σ |β_i| |z_i^α|` of all products and scores, product after product.
struct ProductSums {
    sums: Vec<f64>,
    sizes: Vec<f64>,
}

impl ProductSums {
    fn of_products(
        exact: &Exact,
        list: &Monomials,
        watch: &Watch<'_>,
    ) -> Result<Self, MeasureError> {
        let (machine, live) = (exact.machine(), exact.packed().live());
        let (scores, supports) = (machine.scores().len(), machine.supports());
        let betas = coefficients(machine);
        let products = list.degrees.len();
        let (mut sums, mut sizes) = (vec![0.0; products * scores], vec![0.0; products * scores]);
        let mut columns = vec![[0.0; LANES]; live.len()];
        let mut terms = vec![[0.0; LANES]; products];
        let mut buffer = vec![0.0; live.len()];
        for first in (0..supports.rows()).step_by(LANES) {
            watch.step("sums of products", first, supports.rows())?;
            let count = usize::min(LANES, supports.rows() - first);
            for lane in 0..count {
                write_live(supports.row(first + lane), live, &mut buffer);
                for (value, place) in buffer.iter().zip(&mut columns) {
                    place[lane] = *value;
                }
            }
            monomials(exact.isa(), &columns, &list.factors, &[], &mut terms, &mut []);
            for (product, term) in terms.iter().enumerate() {
                for lane in 0..count {
                    let betas = &betas[(first + lane) * scores..(first + lane + 1) * scores];
                    for (score, beta) in betas.iter().enumerate() {
                        let part = beta * term[lane];
                        sums[product * scores + score] += part;
                        sizes[product * scores + score] += part.abs();
                    }
                }
            }
        }
        Ok(Self { sums, sizes })
    }

    /// For degree 1: the products are 1 and the columns, most of them zero in most supports.
    fn of_columns(exact: &Exact) -> Self {
        let (machine, live) = (exact.machine(), exact.packed().live());
        let scores = machine.scores().len();
        let betas = coefficients(machine);
        let size = (live.len() + 1) * scores;
        let (mut sums, mut sizes) = (vec![0.0; size], vec![0.0; size]);
        let mut add = |place: usize, part: f64| {
            sums[place] += part;
            sizes[place] += part.abs();
        };
        for (row, betas) in machine.supports().iter().zip(betas.chunks_exact(scores)) {
            betas.iter().enumerate().for_each(|(score, beta)| add(score, *beta));
            for (column, value) in row.nonzeros() {
                // Every column of a support is live.
                let Ok(slot) = live.binary_search(&column) else { continue };
                for (score, beta) in betas.iter().enumerate() {
                    add((slot + 1) * scores + score, beta * value);
                }
            }
        }
        Self { sums, sizes }
    }
}

/// Coefficients of all supports, one for each score, support after support.
fn coefficients(machine: &Machine) -> Vec<f64> {
    let scores = machine.scores().len();
    let mut betas = vec![0.0; machine.supports().rows() * scores];
    for (number, score) in machine.scores().iter().enumerate() {
        if let Score::Expansion { supports, coefficients, .. } = score {
            for (support, beta) in supports.iter().zip(coefficients) {
                betas[*support as usize * scores + number] = *beta;
            }
        }
    }
    betas
}

/// Verifies that the stored errors cover the measured ones and the differences of the weights.
pub(crate) fn verify(
    section: &Section,
    exact: &Exact,
    watch: &Watch<'_>,
) -> Result<(), MeasureError> {
    let damaged = || unfit("its arrays do not fit the machine");
    let power = Power::of(exact.machine().kernel().as_ref()).ok_or_else(damaged)?;
    let found = MonomialWeights::of(exact, power, watch)?;
    let (stored, errors) = (section.f64s("weights"), section.f64s("errors"));
    let (stored, errors) = (stored.ok_or_else(damaged)?, errors.ok_or_else(damaged)?);
    if stored.len() != found.weights.len() || errors.len() != found.errors.len() {
        return Err(damaged());
    }
    let list = Monomials::new(exact.packed().live_columns(), power.degree);
    let (scores, degrees) = (exact.machine().scores().len(), power.degree as usize + 1);
    let mut proved = found.errors;
    let pairs = stored.iter().zip(&found.weights).enumerate();
    for (place, (stored, found)) in pairs.filter(|(_, (stored, found))| stored != found) {
        let degree = list.degrees[place / scores] as usize;
        proved[place % scores * degrees + degree] += (stored - found).abs() * (1.0 + 1e-9);
    }
    all_at_least("errors", errors, &proved)
}

/// Multiply-adds of a verification.
pub(crate) fn work(section: &Section, exact: &Exact) -> f64 {
    let weights = section.f64s("weights").map_or(0, <[f64]>::len) as f64;
    let supports = exact.machine().supports();
    match Power::of(exact.machine().kernel().as_ref()) {
        Some(Power { degree: 1, .. }) => {
            weights + (supports.nonzeros() * exact.machine().scores().len()) as f64
        }
        _ => 3.0 * weights * supports.rows() as f64,
    }
}
