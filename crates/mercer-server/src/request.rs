//! An inference request, whatever the protocol: parameters with their checks, input tensors, wanted outputs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use mercer_query::Require;
use serde::de::{Deserialize, Deserializer, Visitor};

use crate::failure::{Failure, Kind};
use crate::tensor::Tensor;

/// The value of a parameter; the protocol has no others.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterValue {
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Number(f64),
    /// A text.
    Text(String),
}

/// By hand: the derived code tries one form after the other, and writes a message for each that does not fit.
impl<'de> Deserialize<'de> for ParameterValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl Visitor<'_> for AnyValue {
    type Value = ParameterValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, a number or a text")
    }

    fn visit_bool<E>(self, value: bool) -> Result<ParameterValue, E> {
        Ok(ParameterValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<ParameterValue, E> {
        Ok(ParameterValue::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<ParameterValue, E> {
        let whole = i64::try_from(value).map(ParameterValue::Integer);
        Ok(whole.unwrap_or(ParameterValue::Number(value as f64)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<ParameterValue, E> {
        Ok(ParameterValue::Number(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<ParameterValue, E> {
        Ok(ParameterValue::Text(text.to_owned()))
    }
}

/// Parameters by name.
pub type ParameterMap = BTreeMap<String, ParameterValue>;

/// What a caller asks for beside the rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parameters {
    /// Most multiply-adds of a query.
    pub budget: Option<u64>,
    /// Most microseconds of a query.
    pub budget_us: Option<f64>,
    /// Microseconds that the caller gives the request, its time in the queue included.
    pub timeout_us: Option<u64>,
    /// What to do when the budget does not suffice.
    pub require: Require,
    /// Half-width at which the value of a regression is settled.
    pub tolerance: Option<f64>,
    /// What scores are compared with in place of 0.
    pub threshold: Option<f64>,
    /// The model that the caller means.
    pub digest: Option<String>,
    /// Whether exact scores are wanted.
    pub has_scores: bool,
    /// Whether probabilities are wanted.
    pub has_probabilities: bool,
    /// Whether it is wanted how each row was answered.
    pub has_explanations: bool,
    /// Whether outputs come as bytes unless they say otherwise.
    pub binary_output: bool,
}

/// Parameters that other servers know and that change nothing here.
const IGNORED: [&str; 2] = ["content_type", "headers"];

/// Parameters of requests that belong together; their values that mean none are taken.
const SEQUENCES: [&str; 3] = ["sequence_id", "sequence_start", "sequence_end"];

/// Parameters that are read here.
const KNOWN: [&str; 12] = [
    "binary_data_output",
    "budget",
    "budget_us",
    "digest",
    "explain",
    "priority",
    "probabilities",
    "require",
    "scores",
    "threshold",
    "timeout",
    "tolerance",
];

impl Parameters {
    /// Reads the parameters of a request.
    ///
    /// # Errors
    /// If one is unknown, of a wrong type or out of its range: a misspelt requirement must not be ignored.
    pub fn new(given: &ParameterMap) -> Result<Self, Failure> {
        let mut found = Self::default();
        for (name, value) in given {
            match name.as_str() {
                "binary_data_output" => found.binary_output = truth(name, value)?,
                "budget" => found.budget = Some(count(name, value)?),
                "budget_us" => found.budget_us = Some(positive(name, value)?),
                "timeout" => found.timeout_us = Some(count(name, value)?).filter(|time| *time > 0),
                "tolerance" => found.tolerance = Some(positive(name, value)?),
                "threshold" => found.threshold = Some(finite(name, value)?),
                "digest" => found.digest = Some(text(name, value)?),
                "scores" => found.has_scores = truth(name, value)?,
                "probabilities" => found.has_probabilities = truth(name, value)?,
                "explain" => found.has_explanations = truth(name, value)?,
                "require" => match text(name, value)?.as_str() {
                    "certified" => found.require = Require::Certified,
                    other => {
                        let what = format!(
                            "parameter 'require' is '{other}'; it may be certified, which gives the label of the exact scores; \
                             'scores' gives these too"
                        );
                        return Err(Failure::invalid(what));
                    }
                },
                // No request goes before another: the queue is bounded in time.
                "priority" if count(name, value)? == 0 => {}
                "priority" => {
                    return Err(wrong(name, value, "0: requests are answered as they come"));
                }
                unserved if SEQUENCES.contains(&unserved) => {
                    let is_set =
                        !matches!(value, ParameterValue::Bool(false) | ParameterValue::Integer(0));
                    if is_set && *value != ParameterValue::Text(String::new()) {
                        let what = format!(
                            "parameter '{unserved}': sequences are not served here; every request is answered by itself"
                        );
                        return Err(Failure::new(Kind::Unsupported, what));
                    }
                }
                ignored if IGNORED.contains(&ignored) => {}
                unknown => {
                    let known = KNOWN.join(", ");
                    let what = format!("there is no parameter '{unknown}'; known are {known}");
                    return Err(Failure::invalid(what));
                }
            }
        }
        Ok(found)
    }
}

fn wrong(name: &str, value: &ParameterValue, wanted: &str) -> Failure {
    let value = match value {
        ParameterValue::Bool(value) => value.to_string(),
        ParameterValue::Integer(value) => value.to_string(),
        ParameterValue::Number(value) => value.to_string(),
        ParameterValue::Text(text) => format!("'{text}'"),
    };
    Failure::invalid(format!("parameter '{name}' is {value}; it must be {wanted}"))
}

fn truth(name: &str, value: &ParameterValue) -> Result<bool, Failure> {
    match value {
        ParameterValue::Bool(value) => Ok(*value),
        other => Err(wrong(name, other, "true or false")),
    }
}

fn text(name: &str, value: &ParameterValue) -> Result<String, Failure> {
    match value {
        ParameterValue::Text(text) => Ok(text.clone()),
        other => Err(wrong(name, other, "a text")),
    }
}

fn count(name: &str, value: &ParameterValue) -> Result<u64, Failure> {
    let found = match value {
        ParameterValue::Integer(value) => u64::try_from(*value).ok(),
        ParameterValue::Text(text) => text.parse().ok(),
        _ => None,
    };
    found.ok_or_else(|| wrong(name, value, "a whole number of at least 0"))
}

fn number(value: &ParameterValue) -> Option<f64> {
    let found = match value {
        ParameterValue::Integer(value) => Some(*value as f64),
        ParameterValue::Number(value) => Some(*value),
        ParameterValue::Text(text) => text.parse().ok(),
        ParameterValue::Bool(_) => None,
    };
    found.filter(|value| value.is_finite())
}

fn finite(name: &str, value: &ParameterValue) -> Result<f64, Failure> {
    number(value).ok_or_else(|| wrong(name, value, "a number"))
}

fn positive(name: &str, value: &ParameterValue) -> Result<f64, Failure> {
    let found = number(value).filter(|value| *value > 0.0);
    found.ok_or_else(|| wrong(name, value, "a positive number"))
}

/// An output that a caller names.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedOutput {
    /// Its name.
    pub name: String,
    /// Whether it comes as bytes; none means as the parameters of the request say.
    pub is_binary: Option<bool>,
}

/// An inference request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InferRequest {
    /// The caller's own name for it, which the response repeats.
    pub id: Option<String>,
    /// What the caller asks for beside the rows.
    pub parameters: Parameters,
    /// The rows.
    pub inputs: Vec<Tensor>,
    /// Outputs by name; all usual ones if there are none.
    pub outputs: Vec<WantedOutput>,
    /// The time in which the body, once it had arrived, became this.
    pub read_time: Duration,
    /// When the request began to come: the time that its caller gives it counts from here.
    pub arrived: Option<Instant>,
}

impl InferRequest {
    /// Bytes of its tensors in memory.
    pub fn bytes(&self) -> usize {
        self.inputs.iter().map(Tensor::bytes).sum()
    }

    /// Checks that no tensor has the name of another.
    ///
    /// # Errors
    /// If one has.
    pub fn check_names(&self) -> Result<(), Failure> {
        let inputs = self.inputs.iter().map(|tensor| tensor.name.as_str());
        let outputs = self.outputs.iter().map(|output| output.name.as_str());
        for (kind, mut names) in
            [("input", inputs.collect::<Vec<_>>()), ("output", outputs.collect())]
        {
            names.sort_unstable();
            let is_twice = |pair: &&[&str]| matches!(pair, [one, other] if one == other);
            if let Some(&[name, ..]) = names.windows(2).find(is_twice) {
                return Err(Failure::invalid(format!("two {kind}s are named '{name}'")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(text: &str) -> Result<Parameters, String> {
        let map: ParameterMap = serde_json::from_str(text).unwrap();
        Parameters::new(&map).map_err(|failure| failure.message)
    }

    #[test]
    fn values_are_of_four_kinds() {
        let text = r#"{"a": true, "b": -3, "c": 2.5, "d": "x\u00e9", "e": 18446744073709551615}"#;
        let map: ParameterMap = serde_json::from_str(text).unwrap();
        let expected = [
            ParameterValue::Bool(true),
            ParameterValue::Integer(-3),
            ParameterValue::Number(2.5),
            ParameterValue::Text("xé".to_owned()),
            ParameterValue::Number(18_446_744_073_709_551_615.0),
        ];
        assert!(map.values().eq(&expected), "{map:?}");
        for wrong in ["{\"a\": null}", "{\"a\": [1]}", "{\"a\": {}}"] {
            let said = serde_json::from_str::<ParameterMap>(wrong).unwrap_err().to_string();
            assert!(said.contains("true, false, a number or a text"), "{said}");
        }
    }

    #[test]
    fn sequences_are_not_served_and_their_absence_is_no_sequence() {
        let none = r#"{"sequence_id": 0, "sequence_start": false, "sequence_end": false}"#;
        assert_eq!(parameters(none), Ok(Parameters::default()));
        assert_eq!(parameters(r#"{"sequence_id": ""}"#), Ok(Parameters::default()));
        for text in [
            r#"{"sequence_id": 7}"#,
            r#"{"sequence_id": "a"}"#,
            r#"{"sequence_start": true}"#,
            r#"{"sequence_end": true}"#,
        ] {
            let map: ParameterMap = serde_json::from_str(text).unwrap();
            let refused = Parameters::new(&map).unwrap_err();
            assert_eq!(refused.kind, Kind::Unsupported, "{text}");
            assert!(refused.message.contains("sequences are not served here"), "{refused}");
        }
    }

    #[test]
    fn parameters_are_read_and_checked() {
        let found = parameters(
            "{\"budget\": 100, \"budget_us\": 2.5, \"require\": \"certified\", \"timeout\": 0, \
             \"scores\": true, \"priority\": 0, \"content_type\": \"np\", \"digest\": \"ab\", \"tolerance\": \"0.5\", \
             \"threshold\": -0.25}",
        );
        let found = found.unwrap();
        assert_eq!((found.budget, found.budget_us), (Some(100), Some(2.5)));
        assert_eq!((found.timeout_us, found.tolerance), (None, Some(0.5)));
        assert_eq!(found.threshold, Some(-0.25));
        assert_eq!((found.require, found.has_scores), (Require::Certified, true));
        for (text, message) in [
            ("{\"bugdet\": 1}", "there is no parameter 'bugdet'"),
            ("{\"budget\": -1}", "parameter 'budget' is -1; it must be a whole number"),
            ("{\"budget_us\": 0}", "parameter 'budget_us' is 0; it must be a positive number"),
            ("{\"require\": \"proof\"}", "parameter 'require' is 'proof'"),
            ("{\"require\": \"exact\"}", "parameter 'require' is 'exact'; it may be certified"),
            ("{\"priority\": 1}", "parameter 'priority' is 1; it must be 0: requests are answered"),
            ("{\"priority\": -1}", "parameter 'priority' is -1; it must be a whole number"),
            ("{\"threshold\": \"inf\"}", "parameter 'threshold' is 'inf'; it must be a number"),
            ("{\"threshold\": true}", "parameter 'threshold' is true; it must be a number"),
            ("{\"scores\": 1}", "parameter 'scores' is 1; it must be true or false"),
        ] {
            let said = parameters(text).unwrap_err();
            assert!(said.contains(message), "{text}: {said}");
        }
    }
}
