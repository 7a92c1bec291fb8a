use crate::Tuning;

/// How a machine is asked, as a model file keeps it: the plan's text and what its stages need beside the
/// machine. The query room turns it into stages and checks every number.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanSections {
    /// The plan: `cascade(low_precision, spectral, exact)`.
    pub spec: String,
    /// Digest of the machine it was made for, see [`crate::file::digest`].
    pub machine: String,
    /// One for each certifying or calibrated stage, in the order in which they run.
    pub sections: Vec<Section>,
    /// What answers without proof are held to, where the plan gives such answers.
    pub calibration: Option<Calibration>,
    /// How the plan was found, where it was not written by hand.
    pub tuning: Option<Box<Tuning>>,
}

/// How far the answers of a plan that are not proved may be trusted: tested on queries to which nothing
/// was fitted. The statement is about the plan as a whole: with confidence `1 - delta`, at most the share
/// `risk` of queries like the sample's get another label than the exact one, or as many more errors than
/// exact answers make.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// A level stops a query when its estimate lies further than this many residual RMS from a change of label;
    /// infinite where stages stop by rules of their own and there is nothing to choose.
    pub threshold: f64,
    /// The share of queries (eps) that may get another label.
    pub risk: f64,
    /// How probably the sample misled us (delta).
    pub delta: f64,
    /// Queries in the test.
    pub queries: u64,
    /// How many of them got another label than the exact one.
    pub disagreements: u64,
    /// What the promise counts.
    pub counts: Counts,
    /// Upper bound on the share that is promised to be small, at confidence `1 - delta`: Clopper-Pearson, at a part of
    /// `delta` where several plans shared the test.
    pub bound: f64,
    /// One for each level at which a stage estimates, in the order in which they run.
    pub scales: Vec<Scale>,
}

/// What a promise counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counts {
    /// Labels other than the exact one.
    #[default]
    Disagreements,
    /// Errors beyond those of exact answers, on labelled queries.
    ExcessErrors {
        /// Other labels that were wrong where the exact one was right.
        worse: u64,
        /// Other labels that were right where the exact one was wrong.
        better: u64,
    },
}

/// How what a level computes becomes an estimate of the score or margin: `slope g + shift`, wrong by
/// about `residual_rms` (root mean square).
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

    /// From [`Calibration::to_numbers`]; `None` if the numbers make no sense.
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

/// What one stage keeps.
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
    /// Doubles.
    F64(Vec<f64>),
    /// Singles.
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

    /// The array of that name, if it holds doubles.
    pub fn reals(&self, name: &str) -> Option<&[f64]> {
        match self.array(name)? {
            Array::F64(values) => Some(values),
            _ => None,
        }
    }

    /// The array of that name, if it holds singles.
    pub fn singles(&self, name: &str) -> Option<&[f32]> {
        match self.array(name)? {
            Array::F32(values) => Some(values),
            _ => None,
        }
    }

    /// The array of that name, if it holds indices.
    pub fn indices(&self, name: &str) -> Option<&[u32]> {
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
