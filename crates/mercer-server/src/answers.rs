//! From decisions to output tensors: label, low, high, certainty, cost; scores and probabilities on request.

use mercer_machine::{Answer, ClassName, Machine, Output};
use mercer_query::{Certainty, Decision};

use crate::failure::Failure;
use crate::request::{Parameters, WantedOutput};
use crate::tensor::{OutputTensor, Values};

/// Outputs that every response has unless the caller names some.
pub const USUAL: [&str; 5] = ["label", "low", "high", "certainty", "cost"];

/// What was computed for the rows of a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Computed {
    /// A decision for each row.
    pub decisions: Vec<Decision>,
    /// Exact scores, row after row, if they were asked for.
    pub scores: Vec<f64>,
    /// Probabilities of the classes, row after row, if they were asked for.
    pub probabilities: Vec<f64>,
    /// How each row was answered, as JSON, if that was asked for.
    pub explanations: Vec<String>,
}

/// The name of a certainty in outputs and metrics.
pub fn certainty_name(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Unsettled => "unsettled",
        Certainty::Calibrated => "calibrated",
        Certainty::Certified => "certified",
        Certainty::Exact => "exact",
    }
}

/// The datatype of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelKind {
    /// Whole numbers.
    Integers,
    /// Other numbers, or values.
    Numbers,
    /// Texts.
    Texts,
}

impl LabelKind {
    /// Of the answers of a machine.
    pub fn of(machine: &Machine) -> Self {
        let is_whole = |name: &ClassName| matches!(name, ClassName::Number(number) if number.fract() == 0.0 && number.abs() < 2f64.powi(53));
        let is_text = |name: &ClassName| matches!(name, ClassName::Text(_));
        match machine.output() {
            Output::Novelty => Self::Integers,
            Output::Classes { names, .. } if names.iter().all(is_whole) => Self::Integers,
            Output::Classes { names, .. } if names.iter().any(is_text) => Self::Texts,
            Output::Value | Output::Classes { .. } => Self::Numbers,
        }
    }

    /// The name of the datatype.
    pub fn datatype(self) -> &'static str {
        match self {
            Self::Integers => "INT64",
            Self::Numbers => "FP64",
            Self::Texts => "BYTES",
        }
    }
}

/// Names of the outputs of a request, in order, and whether each comes as bytes.
///
/// # Errors
/// If an output is unknown, or was not computed because the parameters do not ask for it.
pub fn wanted(
    parameters: &Parameters,
    outputs: &[WantedOutput],
) -> Result<Vec<(&'static str, bool)>, Failure> {
    let mut all: Vec<&'static str> = USUAL.to_vec();
    if parameters.has_scores {
        all.push("scores");
    }
    if parameters.has_probabilities {
        all.push("probabilities");
    }
    if parameters.has_explanations {
        all.push("explanation");
    }
    if outputs.is_empty() {
        return Ok(all.into_iter().map(|name| (name, parameters.binary_output)).collect());
    }
    let find = |output: &WantedOutput| {
        let name = all.iter().find(|name| **name == output.name).ok_or_else(|| {
            let hint = match output.name.as_str() {
                "scores" | "probabilities" => "; it needs the parameter of the same name",
                "explanation" => "; it needs the parameter 'explain'",
                _ => "",
            };
            let known = all.join(", ");
            Failure::invalid(format!(
                "there is no output '{}'; there are {known}{hint}",
                output.name
            ))
        })?;
        Ok((*name, output.is_binary.unwrap_or(parameters.binary_output)))
    };
    outputs.iter().map(find).collect()
}

/// One output of a response.
pub fn output(name: &'static str, machine: &Machine, computed: &Computed) -> OutputTensor {
    let decisions = &computed.decisions;
    let rows = decisions.len();
    let of_rows = |values: Values| OutputTensor { name, shape: vec![rows], values };
    let table = |values: &[f64]| {
        let columns = values.len().checked_div(rows).unwrap_or(0);
        let values = Values::F64s(values.to_vec());
        OutputTensor { name, shape: vec![rows, columns], values }
    };
    match name {
        "label" => of_rows(labels(machine, decisions)),
        "low" => of_rows(Values::F64s(decisions.iter().map(|one| one.range.low).collect())),
        "high" => of_rows(Values::F64s(decisions.iter().map(|one| one.range.high).collect())),
        "certainty" => {
            let name = |decision: &Decision| certainty_name(decision.certainty).to_owned();
            of_rows(Values::Texts(decisions.iter().map(name).collect()))
        }
        "cost" => {
            let cost = |decision: &Decision| {
                i64::try_from(decision.cost.multiply_adds).unwrap_or(i64::MAX)
            };
            of_rows(Values::Integers(decisions.iter().map(cost).collect()))
        }
        "explanation" => of_rows(Values::Texts(computed.explanations.clone())),
        "scores" => table(&computed.scores),
        _ => table(&computed.probabilities),
    }
}

/// An answer as it is written to files.
pub fn label_text(classes: &[ClassName], answer: Answer) -> String {
    match answer {
        Answer::Class(class) => classes[class].to_string(),
        Answer::Value(value) => value.to_string(),
        Answer::Inlier(is_inlier) => if is_inlier { "1" } else { "-1" }.to_owned(),
    }
}

fn labels(machine: &Machine, decisions: &[Decision]) -> Values {
    let number = |answer: Answer| match answer {
        Answer::Class(class) => match &machine.classes()[class] {
            ClassName::Number(number) => *number,
            ClassName::Text(_) => class as f64,
        },
        Answer::Inlier(is_inlier) => {
            if is_inlier {
                1.0
            } else {
                -1.0
            }
        }
        Answer::Value(value) => value,
    };
    match LabelKind::of(machine) {
        LabelKind::Integers => {
            Values::Integers(decisions.iter().map(|one| number(one.answer) as i64).collect())
        }
        LabelKind::Numbers => {
            Values::F64s(decisions.iter().map(|one| number(one.answer)).collect())
        }
        LabelKind::Texts => {
            let text = |decision: &Decision| label_text(machine.classes(), decision.answer);
            Values::Texts(decisions.iter().map(text).collect())
        }
    }
}
