//! A query plan as a model file keeps it: its text, the arrays of its stages and its risk calibration.
//! `mercer-query` loads it into stages that run; `mercer-compile` makes it.

use crate::Tuning;

/// A query plan as a model file keeps it: the text of the plan and what its stages need beside the machine.
/// `mercer-query` makes stages of it and checks every number.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanSections {
    /// The plan: `cascade(low_precision, spectral, exact)`.
    pub spec: String,
    /// Digest of the machine it was made for, see [`crate::file::digest`].
    pub machine: String,
    /// One for each certifying or calibrated stage, in the order in which they run.
    pub sections: Vec<Section>,
    /// The tested error rate of answers without proof, where the plan gives such answers.
    pub calibration: Option<Calibration>,
    /// How the plan was found, unless it is a hand-written plan.
    pub tuning: Option<Box<Tuning>>,
}

/// The error rate of the answers of a plan that are not proved, tested on queries that nothing was fitted
/// to. The statement is about the plan as a whole: with confidence `1 - delta`, at most a share `risk` of
/// queries from the distribution of the sample disagrees with the exact label (or is an error that exact
/// answers do not make, see [`Counts`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Acceptance threshold: a level settles a query when its estimate is further than this many residual RMS
    /// from a change of label. Infinite where stages have their own stopping rules.
    pub threshold: f64,
    /// The share of queries (eps) that may disagree with exact.
    pub risk: f64,
    /// The probability (delta) that the statement is wrong because of an unlucky sample.
    pub delta: f64,
    /// Queries in the test.
    pub queries: u64,
    /// How many of them disagreed with the exact label.
    pub disagreements: u64,
    /// What the bound counts.
    pub counts: Counts,
    /// Clopper-Pearson upper bound on the counted share, at confidence `1 - delta`; at a part of `delta` where
    /// several plans shared the test.
    pub bound: f64,
    /// One for each level at which a stage makes estimates, in the order in which they run.
    pub scales: Vec<Scale>,
}

/// What a bound counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counts {
    /// Labels that disagree with the exact one.
    #[default]
    Disagreements,
    /// Errors beyond those of exact answers, on labelled queries.
    ExcessErrors {
        /// Disagreements where the exact label was right.
        worse: u64,
        /// Disagreements where the exact label was wrong and this one right.
        better: u64,
    },
}

/// The linear fit that makes an estimate of the score or margin of what a level computes: `slope g + shift`,
/// with a root mean square error of `residual_rms`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Factor.
    pub slope: f64,
    /// Added constant.
    pub shift: f64,
    /// Root mean square of the error near a change of label; positive.
    pub residual_rms: f64,
}

impl Calibration {
    /// As numbers: threshold, risk, delta, queries, disagreements, bound, then slope, shift and residual RMS of
    /// each level; then worse and better labels, if excess errors are counted.
    pub fn to_numbers(&self) -> Vec<f64> {
        let Self { threshold, risk, delta, queries, disagreements, counts, bound, scales } = self;
        let mut numbers =
            vec![*threshold, *risk, *delta, *queries as f64, *disagreements as f64, *bound];
        numbers
            .extend(scales.iter().flat_map(|scale| [scale.slope, scale.shift, scale.residual_rms]));
        if let Counts::ExcessErrors { worse, better } = counts {
            numbers.extend([*worse as f64, *better as f64]);
        }
        numbers
    }

    /// From [`Calibration::to_numbers`]; `None` if the numbers are not valid.
    pub fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let [threshold, risk, delta, queries, disagreements, bound, rest @ ..] = numbers else {
            return None;
        };
        let is_share = |value: &f64| (0.0..=1.0).contains(value);
        let is_count = |value: &f64| (0.0..1e15).contains(value) && value.fract() == 0.0;
        let (rest, counted) = match rest.len() % 3 {
            0 => (rest, None),
            2 => rest.split_last_chunk::<2>().map(|(rest, counted)| (rest, Some(counted)))?,
            _ => return None,
        };
        let counts = match counted {
            None => Counts::Disagreements,
            Some([worse, better]) if is_count(worse) && is_count(better) => {
                Counts::ExcessErrors { worse: *worse as u64, better: *better as u64 }
            }
            Some(_) => return None,
        };
        let is_sane = *threshold > 0.0
            && [risk, delta, bound].into_iter().all(is_share)
            && [queries, disagreements].into_iter().all(is_count)
            && bound <= risk
            && rest.iter().all(|value| value.is_finite())
            && rest.chunks(3).all(|scale| scale[2] > 0.0);
        let scale =
            |chunk: &[f64]| Scale { slope: chunk[0], shift: chunk[1], residual_rms: chunk[2] };
        is_sane.then(|| Self {
            threshold: *threshold,
            risk: *risk,
            delta: *delta,
            queries: *queries as u64,
            disagreements: *disagreements as u64,
            counts,
            bound: *bound,
            scales: rest.chunks(3).map(scale).collect(),
        })
    }
}

/// What a model file keeps of one stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// The stage's text.
    pub spec: String,
    /// Its arrays, in the order of their names.
    pub arrays: Vec<(String, Array)>,
}

/// Numbers of one type; scalars are arrays of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// Numbers in f64.
    F64(Vec<f64>),
    /// Numbers in f32.
    F32(Vec<f32>),
    /// Indices.
    U32(Vec<u32>),
    /// Bytes.
    U8(Vec<u8>),
}

impl Section {
    /// A section without arrays.
    pub fn new(spec: impl Into<String>) -> Self {
        Self { spec: spec.into(), arrays: Vec::new() }
    }

    /// Adds an array.
    pub fn with(mut self, name: &str, array: Array) -> Self {
        let place = self.arrays.partition_point(|(other, _)| other.as_str() < name);
        self.arrays.insert(place, (name.to_owned(), array));
        self
    }

    /// The array of that name, if it is an array of f64.
    pub fn f64s(&self, name: &str) -> Option<&[f64]> {
        match self.array(name)? {
            Array::F64(values) => Some(values),
            _ => None,
        }
    }

    /// The array of that name, if it is an array of f32.
    pub fn f32s(&self, name: &str) -> Option<&[f32]> {
        match self.array(name)? {
            Array::F32(values) => Some(values),
            _ => None,
        }
    }

    /// The array of that name, if it is an array of u32.
    pub fn u32s(&self, name: &str) -> Option<&[u32]> {
        match self.array(name)? {
            Array::U32(values) => Some(values),
            _ => None,
        }
    }

    /// The array of that name.
    pub fn array(&self, name: &str) -> Option<&Array> {
        self.arrays.iter().find(|(other, _)| other == name).map(|(_, array)| array)
    }

    /// The stage's name: its text up to the first bracket.
    pub fn stage(&self) -> &str {
        self.spec.split('(').next().unwrap_or_default().trim()
    }
}
