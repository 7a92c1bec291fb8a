//! Fits the stage `spectral`: the eigenvectors of a degree-2 kernel machine, with bounds on their errors. How they
//! become proved ranges is in `certify/quadratic.rs` of `mercer_query`.

use mercer_kernel::bound::gamma;
use mercer_kernel::{Form, Profile};
use mercer_machine::{Array, Machine, Score, Section};
use mercer_query::entries;
use mercer_spec::{Checked, Spec};

use super::spectrum::{Spectrum, symmetric_product};
use super::{Fitter, has_only_expansions};
use crate::{CompileError, Task};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::SPECTRAL, estimates: false, stops: false, propose, fit };

/// Wider machines would take minutes, and gigabytes for many scores.
const MOST_COLUMNS: usize = 3000;

fn propose(task: &Task<'_>) -> Vec<Spec> {
    let fits = has_only_expansions(task)
        && degree_two(task.exact.machine()).is_ok()
        && task.exact.packed().live_columns() <= MOST_COLUMNS;
    if fits { vec![Spec::new("spectral")] } else { Vec::new() }
}

fn fit(_: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let (machine, live) = (task.exact.machine(), task.exact.packed().live());
    let (constant, is_normalized) = degree_two(machine)?;
    if live.len() > MOST_COLUMNS {
        let reason = format!("{} columns are more than {MOST_COLUMNS}", live.len());
        return Err(unfit(reason));
    }
    let (mut counts, mut values, mut vectors) = (Vec::new(), Vec::new(), Vec::new());
    let mut errors = Vec::new();
    for score in machine.scores() {
        let matrix = Form2::of(machine, score, live, constant, is_normalized)?;
        let spectrum = Spectrum::of(&matrix.entries, matrix.size, matrix.error).map_err(unfit)?;
        counts.push(spectrum.values.len() as u32);
        errors.extend([spectrum.residual, spectrum.defect]);
        values.extend(spectrum.values);
        vectors.extend(spectrum.vectors);
    }
    Ok(Section::new("spectral")
        .with("counts", Array::U32(counts))
        .with("values", Array::F64(values))
        .with("vectors", Array::F64(vectors))
        .with("errors", Array::F64(errors)))
}

fn unfit(reason: impl Into<String>) -> CompileError {
    CompileError::Unfit { stage: "spectral", reason: reason.into() }
}

/// `s²` and whether the kernel is normalised.
fn degree_two(machine: &Machine) -> Result<(f64, bool), CompileError> {
    let profile = match machine.kernel().form() {
        Form::Dot(finish) => finish.profile(),
        _ => Profile::Other,
    };
    let (scale, shift, is_normalized) = match profile {
        Profile::Power { scale, shift, degree: 2 } => (scale, shift, false),
        Profile::NormalizedPower { scale, shift, degree: 2 } => (scale, shift, true),
        _ => {
            let kernel = machine.kernel().spec();
            return Err(unfit(format!("{kernel} is not a polynomial of degree 2")));
        }
    };
    if shift < 0.0 {
        return Err(unfit("its constant coef0 is negative"));
    }
    if !(1e-60..=1e60).contains(&scale) {
        return Err(unfit(format!("gamma {scale:e} lies outside 1e-60 to 1e60")));
    }
    Ok((shift / scale, is_normalized))
}

/// The matrix A of one score as computed, and how far it may be from the exact one.
///
/// An entry is a sum of `m` products `β z_a z_b`, one of each `z` possibly `s`, which carries two
/// roundings: at most `m + 8` roundings in all, the mean of the two triangles included. So
/// `||ΔA||_F <= γ_(m+8) Σ|β_i| g_i`. Normalised kernels divide by a `g_i` of `columns` terms, which adds
/// `columns + 4` roundings, and `Σ|β_i|` remains. What underflows is at most `2^-1074 (1 + |z_b|)` a term.
struct Form2 {
    size: usize,
    entries: Vec<f64>,
    error: f64,
}

impl Form2 {
    fn of(
        machine: &Machine,
        score: &Score,
        live: &[u32],
        constant: f64,
        is_normalized: bool,
    ) -> Result<Self, CompileError> {
        let Score::Expansion { supports, coefficients, .. } = score else {
            return Err(unfit("a linear score is one product already"));
        };
        let (rows, size) = (supports.len(), live.len() + 1);
        let root = constant.sqrt();
        // Both factors column by column: the product runs over supports.
        let (mut left, mut right) = (vec![0.0; rows * size], vec![0.0; rows * size]);
        let mut buffer = vec![0.0; machine.columns()];
        let (mut weight, mut longest) = (0.0, 0.0f64);
        for (row, (support, beta)) in supports.iter().zip(coefficients).enumerate() {
            machine.supports().row(*support as usize).write_dense(&mut buffer);
            let values = live.iter().map(|column| buffer[*column as usize]).chain([root]);
            let g = buffer.iter().map(|z| z * z).sum::<f64>() + constant;
            longest = longest.max(g);
            if g < 1e-200 && buffer.iter().any(|z| *z != 0.0) {
                return Err(unfit("a support is so short that its square underflows"));
            }
            let factor = match is_normalized {
                true if g > 0.0 => beta / g,
                true => 0.0,
                false => *beta,
            };
            weight += if is_normalized { beta.abs() } else { beta.abs() * g };
            for (column, value) in values.enumerate() {
                left[column * rows + row] = value;
                right[column * rows + row] = factor * value;
            }
        }
        let is_sane = |value: f64| value == 0.0 || (1e-100..=1e100).contains(&value);
        if !is_sane(longest) || !is_sane(weight) {
            return Err(unfit("its supports or coefficients lie outside the scales 1e-50 to 1e50"));
        }
        let entries = symmetric_product(size, rows, &left, &right);
        let terms = rows as f64 + 8.0 + if is_normalized { size as f64 + 8.0 } else { 0.0 };
        let underflow = (rows * size) as f64 * f64::MIN_POSITIVE * (1.0 + longest.sqrt());
        let error = gamma(terms) * weight * (1.0 + 1e-9) + underflow;
        Ok(Self { size, entries, error })
    }
}
