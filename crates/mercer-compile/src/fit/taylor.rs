//! Fits the stage `taylor`: the second-order expansion of a Gaussian machine, with a bound on its remainder. How it
//! becomes a proved range is in `certify/taylor.rs` of `mercer_query`.

use mercer_machine::{Array, Section};
use mercer_query::entries;
use mercer_query::verify::MOST_COLUMNS;
use mercer_query::verify::taylor::{
    Cloud, FormMatrix, MOST_EXPONENT, TaylorExpansion, gaussian, norm,
};
use mercer_spec::{Checked, Spec};

use super::spectrum::Spectrum;
use super::{Fitter, has_only_expansions};
use crate::{CompileError, Task};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::TAYLOR, estimates: false, stops: false, propose, fit };

/// Rows of a chunk; in the first one they are the middle, the slope, some of M and some of A.
const CHUNK: usize = 16;
const RESTS: usize = 7;
const CURVES: usize = 7;
/// Largest `|t|` of a machine that `tune` tries it on: beyond, the bound settles next to nothing.
const PROMISING: f64 = 1.5;
/// Each score has chunks of its own.
const MOST_SCORES: usize = 10;

fn unfit(reason: impl Into<String>) -> CompileError {
    CompileError::Unfit { stage: "taylor", reason: reason.into() }
}

fn propose(task: &Task<'_>) -> Vec<Spec> {
    let machine = task.exact.machine();
    let live = task.exact.packed().live_columns();
    let fits = has_only_expansions(task)
        && (1..=MOST_COLUMNS).contains(&live)
        && machine.scores().len() <= MOST_SCORES;
    let Some(width) = gaussian(machine).filter(|_| fits) else { return Vec::new() };
    match Cloud::new(task.exact, width) {
        Ok(cloud) if cloud.exponent(cloud.radius()) <= PROMISING => vec![Spec::new("taylor")],
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
    let refuse = CompileError::measuring("taylor");
    let cloud = Cloud::new(task.exact, width).map_err(&refuse)?;
    let radius = cloud.radius();
    let exponent = cloud.exponent(radius);
    if exponent > MOST_EXPONENT {
        return Err(unfit(format!(
            "gamma {width} is too large for a quadratic form: exponents reach {exponent:.0}"
        )));
    }
    let mut scores = Vec::new();
    for score in machine.scores() {
        scores.push(Fitted::new(cloud.expand(score, radius).map_err(&refuse)?)?);
    }
    // No more rounds than the longest list of eigenvectors fills.
    let most = scores.iter().map(|score| score.curve.values.len()).max().unwrap_or(0);
    let rounds = rounds.min(1 + most.saturating_sub(CURVES).div_ceil(CHUNK));
    let mut out = Chunks { middle: cloud.middle().to_vec(), ..Chunks::default() };
    for round in 0..rounds {
        scores.iter().for_each(|score| out.chunk(score, round));
    }
    let bounds = scores.iter().flat_map(|score| score.bounds(radius));
    Ok(Section::new(arguments.text().to_string())
        .with("basis", Array::F32(out.rows))
        .with("shifts", Array::F64(out.shifts))
        .with("values", Array::F64(out.values))
        .with("tails", Array::F64(out.tails))
        .with("bounds", Array::F64(bounds.collect())))
}

/// What is stored of all scores, chunk after chunk.
#[derive(Debug, Default)]
struct Chunks {
    /// `m`.
    middle: Vec<f64>,
    rows: Vec<f32>,
    shifts: Vec<f64>,
    values: Vec<f64>,
    tails: Vec<f64>,
}

/// One score; the notation is that of `mercer_query`'s `certify/taylor.rs`.
#[derive(Debug)]
struct Fitted {
    expansion: TaylorExpansion,
    curve: Spectrum,
    rest: Spectrum,
}

impl Chunks {
    /// One chunk of one score.
    fn chunk(&mut self, score: &Fitted, round: usize) {
        let (mut curves, mut first) = (CURVES, 0);
        if round == 0 {
            for line in [&self.middle.clone(), &score.expansion.slope] {
                let length = norm(line);
                let unit = |x: &f64| if length > 0.0 { x / length } else { 0.0 };
                self.row(&line.iter().map(unit).collect::<Vec<_>>(), length);
            }
            (0..RESTS).for_each(|at| self.eigenvector(&score.rest, at));
        } else {
            first = CURVES + (round - 1) * CHUNK;
            curves = CHUNK;
        }
        (first..first + curves).for_each(|at| self.eigenvector(&score.curve, at));
        let left = score.curve.values.iter().skip(first + curves).copied();
        self.tails.extend([left.clone().fold(0.0, f64::min), left.fold(0.0, f64::max)]);
    }

    /// An eigenvector; one that does not exist is a row of zeros.
    fn eigenvector(&mut self, spectrum: &Spectrum, at: usize) {
        let columns = self.middle.len();
        match spectrum.vectors.chunks_exact(columns).nth(at) {
            Some(vector) => self.row(vector, spectrum.values[at]),
            None => self.row(&vec![0.0; columns], 0.0),
        }
    }

    fn row(&mut self, row: &[f64], value: f64) {
        self.rows.extend(row.iter().map(|x| *x as f32));
        self.shifts.push(row.iter().zip(&self.middle).map(|(x, m)| x * m).sum());
        self.values.push(value);
    }
}

impl Fitted {
    fn new(expansion: TaylorExpansion) -> Result<Self, CompileError> {
        let spectrum = |form: &FormMatrix| {
            let size = form.entries.len().isqrt();
            Spectrum::of(&form.entries, size, form.error).map_err(unfit)
        };
        let (curve, rest) = (spectrum(&expansion.curve)?, spectrum(&expansion.rest)?);
        Ok(Self { expansion, curve, rest })
    }

    fn bounds(&self, radius: f64) -> [f64; 11] {
        let largest = |form: &Spectrum| form.values.first().map_or(0.0, |value| value.abs());
        let tail = self.rest.values.iter().skip(RESTS).copied().fold(0.0, f64::max);
        let (curve, rest) = (&self.curve, &self.rest);
        [
            self.expansion.constant,
            self.expansion.drift,
            self.expansion.bend,
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
