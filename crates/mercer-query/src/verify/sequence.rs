//! The constants of the projection certificate (`certify/projection.rs`, whose notation this is), each an upper bound of
//! what exact arithmetic would give: for a fit of `anytime` or `compressed`, and for their verification. How basis
//! points are chosen is in `mercer_compile`.
//!
//! Kernel values are computed in f64 and off by at most `ε σ_i σ_j`, where either `σ = s` (the bound on
//! the root of a point's own value) and ε a relative error, or `σ = 1` and ε the largest absolute one. Sums
//! over supports are compensated: off by a few `u` of their size. With `S = Σ|β_i| s_i`, `S' = Σ|β_i| σ_i`,
//! `t_i = Σ_j |T_ij| s_j`, `τ_i = Σ_j |T_ij| σ_j`:
//!
//! - `<Z_i, W>` is off by at most `ε σ_i S' + 8u s_i S`, so `c_i = Σ T_ij <Z_j, W>` by
//!   `η_i = ε τ_i S' + (γ_(k+2) + 8u) t_i S`. A fit stores what is computed for `c` as `w`; for any other `w` the
//!   difference is added to `η`, which then bounds `|c - w|`.
//! - `D = T K T' - I` is off by at most `ε τ_i τ_j + γ_(2k+4) t_i t_j` in each entry.
//! - `|W|²` by `ε S'² + 8u S²`.
//!
//! Hence, sums over the first `k` and `X = Σ|w_j| τ_j`, `Y = Σ|w_j| t_j`,
//!
//! - `delta_k = ||D̂||_F + ε Σ τ² + γ Σ t²`,
//! - `Ω_k² = |W|² - Σ w² + w'D̂w + 2 Σ|w_j| η_j + ε X² + γ Y² + ` the error of `|W|²`,
//! - `hidden_k² = Σ_j (|(D̂w)_j| + η_j + ε τ_j X + γ t_j Y)²`.
//!
//! **Underflow and overflow.** Roots of self-values, S and `Σ|β_i|` lie within 1e-100 to 1e100, or the stage is refused;
//! rows of zeros alone may have smaller ones. A product below the normal range then loses `2^-1074`, far below the
//! `8u s_i S >= 1e-216` and `γ t_i t_j >= 1e-17` (as `t_i` is at least about 1) that stand beside it. What overflows is
//! not finite, and the stage is refused.

use mercer_data::{Matrix, Row};
use mercer_kernel::bound::{self, UNIT, at_least_zero, gamma, largest, smaller};
use mercer_kernel::factor::{Compensated, GramColumns, KernelColumns};
use mercer_machine::{Machine, Score};

use super::{MeasureError, Watch};

/// What is known after each step of a sequence.
#[derive(Debug, Default)]
pub struct SequenceConstants {
    /// Rows of T, one after the other.
    pub triangle: Vec<f64>,
    /// `delta` of each step.
    pub defects: Vec<f64>,
    /// `w`, score after score.
    pub weights: Vec<Vec<f64>>,
    /// `Ω`, score after score.
    pub rests: Vec<Vec<f64>>,
    /// Score after score.
    pub hidden: Vec<Vec<f64>>,
    pub(super) raw: Raw,
}

/// What the constants were made of.
#[derive(Debug, Default)]
pub(super) struct Raw {
    /// Kernel values of the basis.
    pub gram: Vec<Vec<f64>>,
    /// `<Z_i, W>` of each basis point and score.
    pub products: Vec<Vec<f64>>,
    /// `s` of each basis point.
    pub sizes: Vec<f64>,
    pub errors: Errors,
}

/// Squared length of each score's point with its error, and the sums S and S'.
#[derive(Debug, Clone)]
pub struct ScoreNorms {
    pub(super) scores: Vec<ScoreNorm>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ScoreNorm {
    square: f64,
    /// S.
    pub(super) size: f64,
    /// Σ|β_i|.
    pub(super) plain: f64,
}

/// A sum of a few thousand positive terms, rounded up.
pub(super) const UP: f64 = 1.0 + 1e-10;

fn unfit(reason: &str) -> MeasureError {
    MeasureError::Unfit(reason.to_owned())
}

/// Bounds on `sqrt(K(z, z))` of rows.
fn roots(machine: &Machine, columns: &KernelColumns) -> Result<Vec<f64>, MeasureError> {
    let kernel = machine.kernel().as_ref();
    let root = |norm: &f64| bound::value(kernel, *norm, *norm).sqrt();
    let roots: Vec<f64> = columns.squared_norms().iter().map(root).collect();
    let form = kernel.form();
    let is_ordinary = |norm: f64| form.finish().is_some_and(|finish| finish.is_ordinary(norm));
    // The values of a row of zeros are right, whatever the scale; other norms of zero hide squares that underflow.
    let is_zero = |row: Row<'_>| row.nonzeros().next().is_none();
    let mut rows = columns.rows().iter().zip(columns.squared_norms()).zip(&roots);
    let is_sane = |((row, norm), root): ((Row<'_>, &f64), &f64)| {
        is_zero(row) || ((1e-100..=1e100).contains(root) && is_ordinary(*norm))
    };
    if rows.all(is_sane) && largest(roots.iter().copied()) <= 1e100 {
        Ok(roots)
    } else {
        Err(unfit("kernel values lie outside the scales 1e-200 to 1e200"))
    }
}

impl ScoreNorms {
    /// Sums over all pairs of supports.
    ///
    /// # Errors
    /// If the numbers are too large or too small, or the callback ends the work.
    pub fn new(
        machine: &Machine,
        columns: &mut KernelColumns,
        watch: &Watch<'_>,
    ) -> Result<Self, MeasureError> {
        let roots = roots(machine, columns)?;
        let count = machine.scores().len();
        let mut sums = vec![Compensated::default(); count];
        let mut column = vec![0.0; roots.len()];
        let betas: Vec<Vec<f64>> = machine.scores().iter().map(|s| dense(s, roots.len())).collect();
        for support in 0..roots.len() {
            if support % 64 == 0 {
                watch.step("measuring the machine", support, roots.len())?;
            }
            columns.column(support, &mut column);
            for (sum, beta) in sums.iter_mut().zip(&betas) {
                if beta[support] != 0.0 {
                    sum.add_product(beta[support], product(beta, &column));
                }
            }
        }
        let mut scores = Vec::new();
        for (sum, beta) in sums.iter().zip(&betas) {
            let plain = beta.iter().map(|beta| beta.abs()).sum::<f64>() * UP;
            let pairs = beta.iter().zip(&roots);
            let size = pairs.map(|(beta, root)| beta.abs() * root).sum::<f64>() * UP;
            let is_sane = |x: f64| x == 0.0 || (1e-100..=1e100).contains(&x);
            if !is_sane(size) || !is_sane(plain) || !sum.value().is_finite() {
                let reason = "its coefficients lie outside the scales 1e-100 to 1e100";
                return Err(unfit(reason));
            }
            scores.push(ScoreNorm { square: sum.value(), size, plain });
        }
        Ok(Self { scores })
    }
}

/// One coefficient for each support.
fn dense(score: &Score, supports: usize) -> Vec<f64> {
    let mut out = vec![0.0; supports];
    if let Score::Expansion { supports, coefficients, .. } = score {
        for (support, beta) in supports.iter().zip(coefficients) {
            out[*support as usize] = *beta;
        }
    }
    out
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    let mut sum = Compensated::default();
    a.iter().zip(b).filter(|(a, _)| **a != 0.0).for_each(|(a, b)| sum.add_product(*a, *b));
    sum.value()
}

/// How wrong kernel values may be.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Errors {
    /// ε.
    pub factor: f64,
    pub is_relative: bool,
}

impl Errors {
    fn new(machine: &Machine, sums: &[f64], is_shifted: bool) -> Self {
        let kernel = machine.kernel().as_ref();
        let longest = largest(sums.iter().copied());
        let shortest = sums.iter().copied().fold(longest, smaller);
        let error = |u, v| bound::error(kernel, machine.columns(), u, v, is_shifted);
        let absolute =
            largest([error(longest, longest), error(longest, shortest), error(shortest, shortest)]);
        let ends = [shortest, longest];
        let relative = bound::relative_error(kernel, machine.columns(), ends, is_shifted);
        match relative {
            Some(factor) if absolute.is_finite() => Self { factor, is_relative: true },
            _ => Self { factor: absolute, is_relative: false },
        }
    }
}

impl SequenceConstants {
    /// `triangle` are the rows of T, of which nothing is believed; `given` are weights, score after score, where they are
    /// not to be those of the projection.
    ///
    /// # Errors
    /// If the numbers are too large or too small, or no step has a small enough defect.
    pub fn new(
        machine: &Machine,
        basis: &Matrix,
        triangle: &[Vec<f64>],
        given: Option<&[Vec<f64>]>,
        supports: &mut KernelColumns,
        lengths: &ScoreNorms,
    ) -> Result<Self, MeasureError> {
        let kernel = machine.kernel().clone();
        let mut columns = KernelColumns::new(kernel, basis.clone(), machine.centre(), 0);
        let sizes = roots(machine, &columns)?;
        let sums = [columns.squared_norms(), supports.squared_norms()].concat();
        let errors = Errors::new(machine, &sums, columns.is_shifted());
        if !errors.factor.is_finite() {
            return Err(unfit("the error of its kernel values cannot be bounded"));
        }
        let (steps, count) = (triangle.len(), machine.scores().len());
        let sigma = |j: usize| if errors.is_relative { sizes[j] } else { 1.0 };
        let sum = |row: &[f64], size: &dyn Fn(usize) -> f64| {
            row.iter().enumerate().map(|(j, t)| t.abs() * size(j)).sum::<f64>() * UP
        };
        let long: Vec<f64> = triangle.iter().map(|row| sum(row, &|j| sizes[j])).collect();
        let scaled: Vec<f64> = triangle.iter().map(|row| sum(row, &sigma)).collect();
        let gram = gram(&mut columns, steps);
        let defect = defects(triangle, &gram);
        let products = products(machine, basis, supports);
        let mut constants = Self::default();
        let rounding = gamma(2.0 * steps as f64 + 6.0) * 1.02;
        let noise = Noise { epsilon: errors.factor * 1.001, rounding, long, scaled };
        let steps = constants.measure_defects(&defect, &noise);
        if steps == 0 {
            return Err(unfit("its basis cannot be made orthonormal"));
        }
        for score in 0..count {
            let length = lengths.scores[score];
            let other = if errors.is_relative { length.size } else { length.plain };
            let projected: Vec<f64> = triangle[..steps]
                .iter()
                .map(|row| row.iter().zip(&products).map(|(t, p)| t * p[score]).sum())
                .collect();
            let weights = given.map_or(projected.clone(), |given| given[score][..steps].to_vec());
            let moved = projected.iter().zip(&weights).map(|(c, w)| (c - w).abs() * UP).collect();
            let sizes = ScoreSizes { length, other, moved };
            constants.measure_score(&defect, &noise, weights, &sizes);
        }
        constants.triangle = triangle[..steps].concat();
        let finite = |list: &[Vec<f64>]| list.iter().flatten().all(|x| x.is_finite());
        constants.raw = Raw { gram, products, sizes, errors };
        let all = [&constants.weights, &constants.rests, &constants.hidden];
        if all.into_iter().all(|list| finite(list)) {
            Ok(constants)
        } else {
            Err(unfit("its numbers overflow"))
        }
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.defects.len()
    }

    /// Forgets all steps but the first `steps`.
    pub fn truncate(&mut self, steps: usize) {
        self.triangle.truncate(steps * (steps + 1) / 2);
        self.defects.truncate(steps);
        for list in [&mut self.weights, &mut self.rests, &mut self.hidden] {
            list.iter_mut().for_each(|values| values.truncate(steps));
        }
    }

    /// delta of each step, as far as it is small enough; returns how many.
    fn measure_defects(&mut self, defect: &[Vec<f64>], noise: &Noise) -> usize {
        let (mut square, mut long, mut scaled) = (0.0, 0.0, 0.0);
        for (k, row) in defect.iter().enumerate() {
            let (diagonal, before) = row.split_last().expect("row k has k + 1 entries");
            square += diagonal * diagonal + 2.0 * before.iter().map(|x| x * x).sum::<f64>();
            long += noise.long[k] * noise.long[k];
            scaled += noise.scaled[k] * noise.scaled[k];
            let errors = noise.epsilon * scaled + noise.rounding * long;
            let delta = (f64::sqrt(square) + errors) * UP;
            if delta.is_nan() || delta > 0.01 {
                break;
            }
            self.defects.push(delta);
        }
        self.defects.len()
    }

    /// Ω and hidden of each step of one score.
    fn measure_score(
        &mut self,
        defect: &[Vec<f64>],
        noise: &Noise,
        weights: Vec<f64>,
        sizes: &ScoreSizes,
    ) {
        let ScoreSizes { length, other, moved } = sizes;
        let eta = |j: usize| {
            noise.epsilon * noise.scaled[j] * other
                + (noise.rounding + 8.0 * UNIT) * noise.long[j] * length.size
                + moved[j]
        };
        let own_error = noise.epsilon * other * other + 8.0 * UNIT * length.size * length.size;
        let mut left = Compensated::from(length.square);
        let (mut form, mut sizes, mut cross, mut x, mut y) = (0.0, 0.0, 0.0, 0.0, 0.0);
        // (D̂w)_j so far, for each j.
        let mut turned: Vec<f64> = Vec::new();
        let (mut rests, mut hidden) = (Vec::new(), Vec::new());
        for (k, w) in weights.iter().enumerate() {
            left.subtract_product(*w, *w);
            let (diagonal, before) = defect[k].split_last().expect("row k has k + 1 entries");
            let mut mine = diagonal * w;
            for ((place, d), other) in turned.iter_mut().zip(before).zip(&weights) {
                *place += d * w;
                mine += d * other;
            }
            let without = mine - diagonal * w;
            turned.push(mine);
            form += w * (2.0 * without + diagonal * w);
            sizes += (w * (2.0 * without.abs() + diagonal.abs() * w.abs())).abs();
            cross += w.abs() * eta(k);
            x += w.abs() * noise.scaled[k];
            y += w.abs() * noise.long[k];
            let spread = noise.epsilon * x * x + noise.rounding * y * y;
            let sum = left.value().abs() * 4.0 * UNIT
                + form
                + 1e-10 * sizes
                + (2.0 * cross + spread + own_error) * UP;
            let square = left.value() + sum + 8.0 * UNIT * length.square.abs();
            rests.push(at_least_zero(square).sqrt() * UP);
            let part = |(j, turned): (usize, &f64)| {
                let errors = eta(j)
                    + noise.epsilon * noise.scaled[j] * x
                    + noise.rounding * noise.long[j] * y;
                (turned.abs() * (1.0 + 1e-10) + errors).powi(2)
            };
            hidden.push(turned.iter().enumerate().map(part).sum::<f64>().sqrt() * UP);
        }
        self.weights.push(weights);
        self.rests.push(rests);
        self.hidden.push(hidden);
    }
}

/// What is known of one score: its length, S', and how far each weight is from that of the projection.
struct ScoreSizes {
    length: ScoreNorm,
    other: f64,
    moved: Vec<f64>,
}

/// ε, γ, `t` and `τ`.
struct Noise {
    epsilon: f64,
    rounding: f64,
    long: Vec<f64>,
    scaled: Vec<f64>,
}

fn gram(columns: &mut KernelColumns, steps: usize) -> Vec<Vec<f64>> {
    (0..steps)
        .map(|row| {
            let mut out = vec![0.0; steps];
            columns.column(row, &mut out);
            out
        })
        .collect()
}

/// Lower triangle of `T K T' - I`.
fn defects(triangle: &[Vec<f64>], gram: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let steps = triangle.len();
    let mut out = Vec::with_capacity(steps);
    for (i, row) in triangle.iter().enumerate() {
        let mut half = vec![0.0; steps];
        for (t, values) in row.iter().zip(gram) {
            half.iter_mut().zip(values).for_each(|(place, k)| *place += t * k);
        }
        let entry = |(j, other): (usize, &Vec<f64>)| {
            let sum: f64 = half.iter().zip(other).map(|(h, t)| h * t).sum();
            if i == j { sum - 1.0 } else { sum }
        };
        out.push(triangle[..=i].iter().enumerate().map(entry).collect());
    }
    out
}

/// `<Z_i, W>` of each basis point and score, compensated.
fn products(machine: &Machine, basis: &Matrix, supports: &mut KernelColumns) -> Vec<Vec<f64>> {
    let count = machine.supports().rows();
    let betas: Vec<Vec<f64>> = machine.scores().iter().map(|s| dense(s, count)).collect();
    let mut values = vec![0.0; count];
    basis
        .iter()
        .map(|row| {
            supports.against(row, &mut values);
            betas.iter().map(|beta| product(beta, &values)).collect()
        })
        .collect()
}
