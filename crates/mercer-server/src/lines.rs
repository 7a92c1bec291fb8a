//! Answers as lines: a table (CSV) or one JSON object a line. `mercer predict` writes the same ones.

use serde_json::{Value, json};

/// Formats of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFormat {
    /// A table with a head.
    Csv,
    /// One JSON object a line.
    Jsonl,
}

/// The answer to one row.
#[derive(Debug, Clone, Copy)]
pub struct AnswerLine<'a> {
    /// Its number, from 1.
    pub row: usize,
    /// Its id, where rows have ids.
    pub id: Option<&'a str>,
    /// Its label or value.
    pub label: &'a str,
    /// Lower end of the range.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Name of the certainty.
    pub certainty: &'a str,
    /// Multiply-adds.
    pub cost: u64,
    /// Names of the classes that have probabilities.
    pub classes: &'a [String],
    /// Their probabilities.
    pub probabilities: &'a [f64],
}

impl LineFormat {
    /// The line before all others, if there is one.
    pub fn head(self, has_ids: bool, classes: &[String]) -> Option<String> {
        match self {
            Self::Jsonl => None,
            Self::Csv => {
                let id = if has_ids { "id," } else { "" };
                let probabilities: String = classes
                    .iter()
                    .map(|class| ",".to_owned() + &quoted(&format!("p({class})")))
                    .collect();
                Some(format!("row,{id}label,low,high,certainty,cost{probabilities}"))
            }
        }
    }

    /// The line of an answer, without its end.
    pub fn line(self, answer: &AnswerLine<'_>) -> String {
        let AnswerLine { row, id, label, low, high, certainty, cost, classes, probabilities } =
            *answer;
        match self {
            Self::Csv => {
                let id = id.map_or(String::new(), |id| quoted(id) + ",");
                let label = quoted(label);
                let probabilities: String =
                    probabilities.iter().map(|probability| format!(",{probability}")).collect();
                format!("{row},{id}{label},{low},{high},{certainty},{cost}{probabilities}")
            }
            Self::Jsonl => {
                let mut object = json!({
                    "row": row, "label": label, "low": low, "high": high,
                    "certainty": certainty, "cost": cost,
                });
                if let Some(id) = id {
                    object["id"] = id.into();
                }
                if !probabilities.is_empty() {
                    let pairs = classes.iter().cloned().zip(probabilities.iter().copied());
                    object["probabilities"] = Value::Object(
                        pairs.map(|(class, probability)| (class, json!(probability))).collect(),
                    );
                }
                object.to_string()
            }
        }
    }
}

/// A field that survives commas and quotes.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_lines() {
        let classes = ["a,b".to_owned(), "c".to_owned()];
        let answer = AnswerLine {
            row: 3,
            id: Some("x\"y"),
            label: "a,b",
            low: -1.5,
            high: f64::INFINITY,
            certainty: "unsettled",
            cost: 7,
            classes: &classes,
            probabilities: &[0.25, 0.75],
        };
        let head = LineFormat::Csv.head(true, &classes).unwrap();
        assert_eq!(head, "row,id,label,low,high,certainty,cost,\"p(a,b)\",p(c)");
        let line = LineFormat::Csv.line(&answer);
        assert_eq!(line, "3,\"x\"\"y\",\"a,b\",-1.5,inf,unsettled,7,0.25,0.75");
        let object: Value = serde_json::from_str(&LineFormat::Jsonl.line(&answer)).unwrap();
        assert_eq!((&object["row"], &object["high"]), (&json!(3), &Value::Null));
        assert_eq!(object["probabilities"], json!({ "a,b": 0.25, "c": 0.75 }));
        assert_eq!(LineFormat::Jsonl.head(true, &classes), None);
    }
}
