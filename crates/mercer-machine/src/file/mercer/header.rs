//! The JSON header of a model file: the texts and counts beside the arrays. Every key is described in
//! `docs/format.md`; `read.rs` and `write.rs` convert it from and to a model.

use serde::{Deserialize, Serialize};

use crate::{
    Bins, ClassName, Conformal, MachineError, Output, Parent, Probabilities, Provenance, Scheme,
    Spacing, Tuning,
};

/// The JSON text beside the arrays.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileHeader {
    pub(super) version: u64,
    /// SHA-256 of all arrays, names and bytes, in the order of their names.
    pub(super) digest: String,
    pub(super) kernel: String,
    pub(super) output: OutputText,
    /// One letter per score: `e` for expansions, `l` for linear and `a` for additive ones.
    pub(super) scores: String,
    pub(super) rows: usize,
    pub(super) columns: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) features: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) names: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) zero_based: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scaling: Option<ScalingText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) probabilities: Option<ProbabilitiesText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) conformal: Option<ConformalText>,
    pub(super) provenance: ProvenanceText,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) training: Option<TrainingText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bins: Option<BinsText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plan: Option<PlanText>,
}

/// The rows of the training, where they are kept; their arrays are called `training/<name>`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrainingText {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Names of the classes, where targets are texts; the array `training/classes` has their positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) names: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) solver: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) class_weights: Vec<(NameText, f64)>,
}

/// How values are binned; the numbers are in the arrays `machine/bins/...`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BinsText {
    pub(super) rank: usize,
    pub(super) spacing: SpacingText,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SpacingText {
    Power,
    Quantile,
}

/// The plan; its arrays are called `plan/<number>-<stage>/<name>`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanText {
    pub(super) spec: String,
    /// Digest of the machine it was made for.
    pub(super) machine: String,
    /// Texts of the stages that keep a section.
    pub(super) stages: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tuning: Option<Box<Tuning>>,
}

/// The scaling; its arrays are called `input/scaling/<name>`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScalingText {
    pub(super) spec: String,
    /// Quantiles in each column, where there are quantiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quantiles: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputText {
    Value,
    Novelty,
    OneVsOne(Vec<NameText>),
    OneVsRest(Vec<NameText>),
}

/// Numbers are written as numbers, words as words.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum NameText {
    Number(f64),
    Text(String),
}

/// Which arrays hold the parameters.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProbabilitiesText {
    Sigmoid,
    Laplace,
    Marks,
    Curves,
}

/// The calibration of prediction sets.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConformalText {
    coverage: f64,
    rows: u64,
    quantile: f64,
}

impl From<&Conformal> for ConformalText {
    fn from(conformal: &Conformal) -> Self {
        let (coverage, rows) = (conformal.coverage(), conformal.rows());
        Self { coverage, rows, quantile: conformal.quantile() }
    }
}

impl TryFrom<ConformalText> for Conformal {
    type Error = MachineError;

    fn try_from(text: ConformalText) -> Result<Self, MachineError> {
        Self::from_parts(text.coverage, text.rows, text.quantile)
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProvenanceText {
    pub(super) origin: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) formulation: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source_supports: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<ParentText>,
}

/// The machine that a compressed one approximates.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ParentText {
    machine: String,
    supports: usize,
    method: String,
    error: f64,
}

impl From<&ClassName> for NameText {
    fn from(name: &ClassName) -> Self {
        match name {
            ClassName::Number(number) => Self::Number(*number),
            ClassName::Text(text) => Self::Text(text.clone()),
        }
    }
}

impl From<NameText> for ClassName {
    fn from(text: NameText) -> Self {
        match text {
            NameText::Number(number) => Self::Number(number),
            NameText::Text(text) => Self::Text(text),
        }
    }
}

impl From<&Output> for OutputText {
    fn from(output: &Output) -> Self {
        let texts = |names: &[ClassName]| names.iter().map(Into::into).collect();
        match output {
            Output::Value => Self::Value,
            Output::Novelty => Self::Novelty,
            Output::Classes { names, scheme: Scheme::OneVsOne } => Self::OneVsOne(texts(names)),
            Output::Classes { names, scheme: Scheme::OneVsRest } => Self::OneVsRest(texts(names)),
        }
    }
}

impl From<OutputText> for Output {
    fn from(text: OutputText) -> Self {
        let names = |texts: Vec<NameText>| texts.into_iter().map(Into::into).collect();
        match text {
            OutputText::Value => Self::Value,
            OutputText::Novelty => Self::Novelty,
            OutputText::OneVsOne(texts) => {
                Self::Classes { names: names(texts), scheme: Scheme::OneVsOne }
            }
            OutputText::OneVsRest(texts) => {
                Self::Classes { names: names(texts), scheme: Scheme::OneVsRest }
            }
        }
    }
}

impl From<&Bins> for BinsText {
    fn from(bins: &Bins) -> Self {
        let spacing = match bins.spacing() {
            Spacing::Power { .. } => SpacingText::Power,
            Spacing::Quantile { .. } => SpacingText::Quantile,
        };
        Self { rank: bins.rank(), spacing }
    }
}

impl From<&Probabilities> for ProbabilitiesText {
    fn from(probabilities: &Probabilities) -> Self {
        match probabilities {
            Probabilities::Sigmoid { .. } => Self::Sigmoid,
            Probabilities::Laplace { .. } => Self::Laplace,
            Probabilities::Marks(_) => Self::Marks,
            Probabilities::Curves(_) => Self::Curves,
        }
    }
}

impl From<&Provenance> for ProvenanceText {
    fn from(provenance: &Provenance) -> Self {
        let Provenance { origin, formulation, version, source_supports, parent } =
            provenance.clone();
        let parent = parent.map(|parent| {
            let Parent { machine, supports, method, error } = parent;
            ParentText { machine, supports, method, error }
        });
        Self { origin, formulation, version, source_supports, parent }
    }
}

impl From<ProvenanceText> for Provenance {
    fn from(text: ProvenanceText) -> Self {
        let ProvenanceText { origin, formulation, version, source_supports, parent } = text;
        let parent = parent.map(|parent| {
            let ParentText { machine, supports, method, error } = parent;
            Parent { machine, supports, method, error }
        });
        Self { origin, formulation, version, source_supports, parent }
    }
}
