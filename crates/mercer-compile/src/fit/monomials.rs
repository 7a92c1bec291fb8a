//! Fits the stage `monomials`: the weights of all products of columns, with bounds on their errors. How they become
//! proved ranges is in `certify/powers.rs` of `mercer_query`.

use mercer_kernel::bound::gamma;
use mercer_kernel::monomials::{Monomials, Power, count};
use mercer_machine::{Array, Machine, Score, Section};
use mercer_query::entries;
use mercer_simd::{Isa, monomials};
use mercer_spec::{Checked, Spec};

use super::{Fitter, has_only_expansions};
use crate::{CompileError, Task};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::MONOMIALS, estimates: false, stops: false, propose, fit };

/// More products than this are never faster than the supports they replace; columns themselves always are.
const MOST: usize = 20_000;
/// Weights of all scores that are kept at most.
const MOST_WEIGHTS: usize = 1 << 26;
/// Supports computed at once.
const LANES: usize = 8;

/// What `tune` tries: wherever there are fewer products than an answer costs multiply-adds.
fn propose(task: &Task<'_>) -> Vec<Spec> {
    let products = has_only_expansions(task).then(|| products(task).ok()).flatten();
    let pays = products.is_some_and(|(_, count)| {
        count.saturating_mul(1 + task.exact.machine().scores().len())
            <= task.exact.cost().multiply_adds as usize
    });
    if pays { vec![Spec::new("monomials")] } else { Vec::new() }
}

/// The kernel, and how many products it has in the live columns.
fn products(task: &Task<'_>) -> Result<(Power, usize), CompileError> {
    let kernel = task.exact.machine().kernel();
    let power = Power::of(kernel.as_ref());
    let power = power.ok_or_else(|| unfit(format!("{} is not a power", kernel.spec())))?;
    let columns = task.exact.packed().live_columns();
    let scores = task.exact.machine().scores().len();
    let most = if power.degree == 1 { MOST_WEIGHTS / scores.max(1) } else { MOST };
    let count = count(columns, power.degree).filter(|count| *count <= most).ok_or_else(|| {
        let degree = power.degree;
        unfit(format!("{columns} columns have over {most} products of degree {degree} or less"))
    })?;
    Ok((power, count))
}

fn unfit(reason: impl Into<String>) -> CompileError {
    CompileError::Unfit { stage: "monomials", reason: reason.into() }
}

/// `c_α = p! / (α! (p - j)!) scale^j shift^(p-j) Σ β_i z_i^α` for products `α` of `j` columns.
///
/// The product of a support meets at most `p` roundings, its term and the sum over `m` supports `m + 1` more,
/// the factor before the sum `p + 2` and its product with the sum one: `|ĉ - c| <= γ_(m+2p+6)` times the same
/// sum of absolute values, since [`check_scales`] refuses machines whose numbers could underflow or overflow
/// on the way.
fn fit(_: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let (machine, live) = (task.exact.machine(), task.exact.packed().live());
    let (power, count) = products(task)?;
    if !has_only_expansions(task) {
        return Err(unfit("a linear score is one product already"));
    }
    check_scales(machine, power)?;
    let list = Monomials::new(live.len(), power.degree);
    let scores = machine.scores().len();
    let (sums, sizes) =
        if power.degree == 1 { column_sums(task) } else { product_sums(task, &list)? };
    let rounding = gamma(machine.supports().rows() as f64 + 2.0 * f64::from(power.degree) + 6.0);
    let mut weights = vec![0.0; count * scores];
    let mut errors = vec![0.0; scores * (power.degree as usize + 1)];
    for product in 0..count {
        let degree = list.degrees[product];
        let taken = repeated(power.scale, degree) * repeated(power.shift, power.degree - degree);
        let factor = list.multiplicities[product] * taken;
        for score in 0..scores {
            let place = product * scores + score;
            weights[place] = factor * sums[place];
            let error = rounding * factor.abs() * sizes[place] * (1.0 + 1e-9);
            errors[score * (power.degree as usize + 1) + degree as usize] += error;
        }
    }
    errors.iter_mut().for_each(|error| *error *= 1.0 + 1e-9);
    if weights.iter().chain(&errors).any(|value| !value.is_finite()) {
        return Err(unfit("its weights overflow"));
    }
    Ok(Section::new("monomials")
        .with("weights", Array::F64(weights))
        .with("errors", Array::F64(errors)))
}

/// By multiplication alone: the library's power may round otherwise.
fn repeated(base: f64, times: u32) -> f64 {
    (0..times).fold(1.0, |product, _| product * base)
}

/// No product of what meets here may underflow: values to the power of the degree, `gamma` and `coef0`
/// likewise, and coefficients are zero or of an ordinary size.
fn check_scales(machine: &Machine, power: Power) -> Result<(), CompileError> {
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
fn product_sums(task: &Task<'_>, list: &Monomials) -> Result<(Vec<f64>, Vec<f64>), CompileError> {
    let (machine, live) = (task.exact.machine(), task.exact.packed().live());
    let (scores, supports) = (machine.scores().len(), machine.supports());
    let betas = coefficients(machine);
    let products = list.degrees.len();
    let (mut sums, mut sizes) = (vec![0.0; products * scores], vec![0.0; products * scores]);
    let mut columns = vec![[0.0; LANES]; live.len()];
    let mut terms = vec![[0.0; LANES]; products];
    let mut buffer = vec![0.0; machine.columns()];
    for first in (0..supports.rows()).step_by(LANES) {
        task.watch.step("sums of products", first, supports.rows())?;
        let count = LANES.min(supports.rows() - first);
        for lane in 0..count {
            supports.row(first + lane).write_dense(&mut buffer);
            for (column, place) in live.iter().zip(&mut columns) {
                place[lane] = buffer[*column as usize];
            }
        }
        monomials(Isa::current(), &columns, &list.factors, &[], &mut terms, &mut []);
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
    Ok((sums, sizes))
}

/// As [`product_sums`] for degree 1: the products are 1 and the columns, most of them zero in most supports.
fn column_sums(task: &Task<'_>) -> (Vec<f64>, Vec<f64>) {
    let (machine, live) = (task.exact.machine(), task.exact.packed().live());
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
    (sums, sizes)
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
