//! Fits the stage `taylor`: the second-order expansion of a Gaussian machine, with a bound on its remainder. How it
//! becomes a proved range is in `certify/taylor.rs` of `mercer_query`.

use mercer_kernel::bound::{UNIT, gamma};
use mercer_kernel::{Form, Profile};
use mercer_machine::{Array, Machine, Score, Section};
use mercer_query::entries;
use mercer_spec::{Checked, Spec};

use super::live_rows::{LiveRows, transposed};
use super::spectrum::{Spectrum, symmetric_product};
use super::{Fitter, has_only_expansions};
use crate::{CompileError, Task};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::TAYLOR, estimates: false, stops: false, propose, fit };

/// Wider machines would take minutes.
const MOST_COLUMNS: usize = 3000;
/// Rows of a chunk; in the first one they are the middle, the slope, some of M and some of A.
const CHUNK: usize = 16;
const RESTS: usize = 7;
const CURVES: usize = 7;
/// Largest `|t|` of a machine that `tune` tries it on: beyond, the bound settles next to nothing.
const PROMISING: f64 = 1.5;
/// Largest `|t|` at all.
const MOST_EXPONENT: f64 = 8.0;
/// Each score has chunks of its own.
const MOST_SCORES: usize = 10;

fn unfit(reason: impl Into<String>) -> CompileError {
    CompileError::Unfit { stage: "taylor", reason: reason.into() }
}

fn gaussian(machine: &Machine) -> Option<f64> {
    match machine.kernel().form() {
        Form::Shift(finish) => match finish.profile() {
            Profile::Gaussian { gamma } => Some(gamma),
            _ => None,
        },
        _ => None,
    }
}

fn propose(task: &Task<'_>) -> Vec<Spec> {
    let machine = task.exact.machine();
    let live = task.exact.packed().live_columns();
    let fits = has_only_expansions(task)
        && (1..=MOST_COLUMNS).contains(&live)
        && machine.scores().len() <= MOST_SCORES;
    let Some(width) = gaussian(machine).filter(|_| fits) else { return Vec::new() };
    match Cloud::new(task, width) {
        Ok(cloud) if cloud.exponent() <= PROMISING => vec![Spec::new("taylor")],
        _ => Vec::new(),
    }
}

fn fit(arguments: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let rounds = arguments.integer("rounds") as usize;
    let machine = task.exact.machine();
    let kernel = machine.kernel().spec();
    let width = gaussian(machine).ok_or_else(|| unfit(format!("{kernel} is not a Gaussian")))?;
    let live = task.exact.packed().live_columns();
    if live > MOST_COLUMNS {
        return Err(unfit(format!("{live} columns are more than {MOST_COLUMNS}")));
    }
    let cloud = Cloud::new(task, width)?;
    if cloud.exponent() > MOST_EXPONENT {
        return Err(unfit(format!(
            "gamma {width} is too large for a quadratic form: exponents reach {:.0}",
            cloud.exponent()
        )));
    }
    let scores: Vec<Fitted> =
        machine.scores().iter().map(|score| cloud.fit(score)).collect::<Result<_, _>>()?;
    // No more rounds than the longest list of eigenvectors fills.
    let most = scores.iter().map(|score| score.curve.values.len()).max().unwrap_or(0);
    let rounds = rounds.min(1 + most.saturating_sub(CURVES).div_ceil(CHUNK));
    let mut out = Chunks::default();
    for round in 0..rounds {
        for score in &scores {
            cloud.chunk(score, round, &mut out);
        }
    }
    let bounds = scores.iter().flat_map(|score| score.bounds(cloud.radius));
    Ok(Section::new(arguments.text().to_string())
        .with("basis", Array::F32(out.rows))
        .with("shifts", Array::F64(out.shifts))
        .with("values", Array::F64(out.values))
        .with("tails", Array::F64(out.tails))
        .with("bounds", Array::F64(bounds.collect())))
}

/// The supports around their mean.
#[derive(Debug)]
struct Cloud {
    width: f64,
    columns: usize,
    /// `m`.
    middle: Vec<f64>,
    /// `z~`, row by row, and column by column.
    rows: Vec<f64>,
    by_column: Vec<f64>,
    /// `|z~|`, rounded up.
    lengths: Vec<f64>,
    /// `|z~|²` as computed.
    squares: Vec<f64>,
    /// Bound on the relative error of any `b_i exp(t_i)`; see [`Cloud::new`].
    relative: f64,
    /// R.
    radius: f64,
}

/// What is stored of all scores, chunk after chunk.
#[derive(Debug, Default)]
struct Chunks {
    rows: Vec<f32>,
    shifts: Vec<f64>,
    values: Vec<f64>,
    tails: Vec<f64>,
}

/// One score; the notation is that of `mercer_query`'s `certify/taylor.rs`.
#[derive(Debug)]
struct Fitted {
    constant: f64,
    drift: f64,
    bend: f64,
    slope: Vec<f64>,
    curve: Spectrum,
    rest: Spectrum,
}

impl Cloud {
    /// A coordinate of `z~` is off by the rounding of centring and its own, so `|Δz| <= 1.01u (|z| + |z~|)`.
    /// That moves `t` by at most `2γ R |Δz|` and `γ|z~|²` by `γ (2|z~||Δz| + |Δz|²)`; the sum of squares and
    /// the argument of `exp` add `γ γ_(n+4) |z~|²`, and `exp`, taken to be right within 16 units, and the
    /// product 20 u.
    fn new(task: &Task<'_>, width: f64) -> Result<Self, CompileError> {
        let LiveRows { count, columns, values: mut rows, .. } = LiveRows::of_supports(task.exact);
        let is_sane = |x: &f64| *x == 0.0 || (1e-8..=1e8).contains(&x.abs());
        if count == 0 || columns == 0 {
            return Err(unfit("the machine has no supports"));
        }
        if !rows.iter().all(is_sane) || !(1e-20..=1e20).contains(&width) {
            return Err(unfit("its supports or gamma lie outside the scales 1e-8 to 1e8"));
        }
        let mut middle = vec![0.0; columns];
        let mut longest = 0.0f64;
        for row in rows.chunks_exact(columns) {
            longest = longest.max(row.iter().map(|z| z * z).sum());
            middle.iter_mut().zip(row).for_each(|(m, z)| *m += z / count as f64);
        }
        for row in rows.chunks_exact_mut(columns) {
            row.iter_mut().zip(&middle).for_each(|(z, m)| *z -= m);
        }
        let squares: Vec<f64> =
            rows.chunks_exact(columns).map(|row| row.iter().map(|z| z * z).sum()).collect();
        let up = 1.0 + 2.0 * gamma(columns as f64 + 4.0);
        let lengths: Vec<f64> = squares.iter().map(|square: &f64| square.sqrt() * up).collect();
        let far = lengths.iter().copied().fold(0.0, f64::max);
        let radius = (1.25 * far).max(0.25 / width.sqrt());
        let moved = 1.01 * UNIT * (longest.sqrt() * up + far);
        let relative = width * (2.0 * (radius + far) * moved + moved * moved)
            + width * gamma(columns as f64 + 4.0) * far * far
            + 20.0 * UNIT;
        let by_column = transposed(&rows, count, columns);
        Ok(Self {
            width,
            columns,
            middle,
            rows,
            by_column,
            lengths,
            squares,
            relative: 1.01 * relative,
            radius,
        })
    }

    /// Bound on `|t|` of any query within the radius.
    fn exponent(&self) -> f64 {
        2.0 * self.width * self.radius * self.lengths.iter().copied().fold(0.0, f64::max)
    }

    fn fit(&self, score: &Score) -> Result<Fitted, CompileError> {
        let Score::Expansion { supports, coefficients, .. } = score else {
            return Err(unfit("a linear score is one product already"));
        };
        let (width, count) = (self.width, self.lengths.len());
        // A support that the score does not name weighs nothing; one named twice may weigh less than its parts.
        let (mut weights, mut sizes) = (vec![0.0; count], vec![0.0; count]);
        for (support, beta) in supports.iter().zip(coefficients) {
            let at = *support as usize;
            let weight = beta * (-width * self.squares[at]).exp();
            weights[at] += weight;
            sizes[at] += weight.abs();
        }
        let total: f64 = sizes.iter().sum();
        if !(total == 0.0 || (1e-100..=1e100).contains(&total)) {
            return Err(unfit("its coefficients lie outside the scales 1e-100 to 1e100"));
        }
        let sums = gamma(count as f64 + 8.0);
        let long = sizes.iter().zip(&self.lengths).map(|(b, z)| b * z).sum::<f64>();
        let grown = sizes.iter().zip(&self.lengths);
        let grown = grown.map(|(b, z)| b * (2.0 * width * self.radius * z).exp());
        let drift = 1.01 * (self.relative * grown.sum::<f64>() + sums * total) + f64::MIN_POSITIVE;
        let mut slope = vec![0.0; self.columns];
        for (row, b) in self.rows.chunks_exact(self.columns).zip(&weights) {
            slope.iter_mut().zip(row).for_each(|(l, z)| *l += 2.0 * width * b * z);
        }
        // Also the rounding of l / |l| and of |l|.
        let bend = 1.01 * (sums + 16.0 * UNIT) * 2.0 * width * long
            + gamma(self.columns as f64 + 8.0) * norm(&slope)
            + f64::MIN_POSITIVE;
        let curve: Vec<f64> = weights.iter().map(|b| 2.0 * width * width * b).collect();
        // What is rounded in it and in the lengths is less than the millionth added.
        let rest = sizes.iter().zip(&self.lengths).map(|(b, z)| {
            4.0 * width * width * b * beyond(2.0 * width * self.radius * z) * (1.0 + 1e-6)
        });
        let (curve, rest) = (self.form(&curve)?, self.form(&rest.collect::<Vec<_>>())?);
        Ok(Fitted { constant: weights.iter().sum(), drift, bend, slope, curve, rest })
    }

    /// `Σ w z~z~'`; an entry is a sum of `count` products of three numbers, and a mean of two of those.
    fn form(&self, weights: &[f64]) -> Result<Spectrum, CompileError> {
        let (count, columns) = (weights.len(), self.columns);
        let mut right = self.by_column.clone();
        for column in right.chunks_exact_mut(count) {
            column.iter_mut().zip(weights).for_each(|(z, w)| *z *= w);
        }
        let entries = symmetric_product(columns, count, &self.by_column, &right);
        let sizes = weights.iter().zip(&self.lengths).map(|(w, z)| w.abs() * z * z).sum::<f64>();
        let error = 1.01 * gamma(count as f64 + 8.0) * sizes
            + (count * columns) as f64 * f64::MIN_POSITIVE * 1e8;
        Spectrum::of(&entries, columns, error).map_err(unfit)
    }

    /// One chunk of one score.
    fn chunk(&self, score: &Fitted, round: usize, out: &mut Chunks) {
        let (mut curves, mut first) = (CURVES, 0);
        if round == 0 {
            for line in [&self.middle, &score.slope] {
                let length = norm(line);
                let unit = |x: &f64| if length > 0.0 { x / length } else { 0.0 };
                self.row(&line.iter().map(unit).collect::<Vec<_>>(), length, out);
            }
            (0..RESTS).for_each(|at| self.eigenvector(&score.rest, at, out));
        } else {
            first = CURVES + (round - 1) * CHUNK;
            curves = CHUNK;
        }
        (first..first + curves).for_each(|at| self.eigenvector(&score.curve, at, out));
        let left = score.curve.values.iter().skip(first + curves).copied();
        out.tails.extend([left.clone().fold(0.0, f64::min), left.fold(0.0, f64::max)]);
    }

    /// An eigenvector; one that does not exist is a row of zeros.
    fn eigenvector(&self, spectrum: &Spectrum, at: usize, out: &mut Chunks) {
        match spectrum.vectors.chunks_exact(self.columns).nth(at) {
            Some(vector) => self.row(vector, spectrum.values[at], out),
            None => self.row(&vec![0.0; self.columns], 0.0, out),
        }
    }

    fn row(&self, row: &[f64], value: f64, out: &mut Chunks) {
        out.rows.extend(row.iter().map(|x| *x as f32));
        out.shifts.push(row.iter().zip(&self.middle).map(|(x, m)| x * m).sum());
        out.values.push(value);
    }
}

impl Fitted {
    fn bounds(&self, radius: f64) -> [f64; 11] {
        let largest = |form: &Spectrum| form.values.first().map_or(0.0, |value| value.abs());
        let tail = self.rest.values.iter().skip(RESTS).copied().fold(0.0, f64::max);
        let (curve, rest) = (&self.curve, &self.rest);
        [
            self.constant,
            self.drift,
            self.bend,
            radius,
            tail,
            curve.residual,
            curve.defect,
            largest(curve),
            rest.residual,
            rest.defect,
            largest(rest),
        ]
    }
}

/// `φ(T) = Σ_(k>=3) T^(k-2) / k!` for T up to [`MOST_EXPONENT`].
fn beyond(exponent: f64) -> f64 {
    let mut term = exponent / 6.0;
    let mut sum = 0.0;
    for k in 4..80 {
        sum += term;
        term *= exponent / f64::from(k);
    }
    sum
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beyond_the_second_order_is_bounded() {
        for n in 1..=160 {
            let t = f64::from(n) / 20.0;
            let wanted = (t.exp() - 1.0 - t - 0.5 * t * t) / (t * t);
            assert!((beyond(t) - wanted).abs() <= 1e-11 * wanted + 1e-12 / (t * t), "{t}");
            // A smaller argument by a factor gives less than that factor.
            assert!(beyond(0.5 * t) <= 0.5 * beyond(t));
        }
    }
}
