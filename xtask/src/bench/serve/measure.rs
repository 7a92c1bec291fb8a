//! What was measured, beside its target: a line of the table, and of the JSON file.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// One measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    pub task: &'static str,
    pub name: String,
    pub found: f64,
    pub unit: &'static str,
    pub target: Option<Target>,
}

/// What the measurement should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    fn is_met(self, found: f64) -> bool {
        match self {
            Self::AtMost(most) => found <= most,
            Self::AtLeast(least) => found >= least,
        }
    }
}

impl Measure {
    pub fn new(
        task: &'static str,
        name: impl Into<String>,
        found: f64,
        unit: &'static str,
    ) -> Self {
        Self { task, name: name.into(), found, unit, target: None }
    }

    pub fn at_most(self, most: f64) -> Self {
        Self { target: Some(Target::AtMost(most)), ..self }
    }

    pub fn at_least(self, least: f64) -> Self {
        Self { target: Some(Target::AtLeast(least)), ..self }
    }

    /// Whether it meets its target, if it has one.
    pub fn is_met(&self) -> Option<bool> {
        self.target.map(|target| target.is_met(self.found))
    }

    fn target_text(&self) -> String {
        match self.target {
            None => String::new(),
            Some(Target::AtMost(most)) => format!("<= {}", shown(most)),
            Some(Target::AtLeast(least)) => format!(">= {}", shown(least)),
        }
    }

    fn met_text(&self) -> &'static str {
        match self.is_met() {
            None => "",
            Some(true) => "yes",
            Some(false) => "NO",
        }
    }
}

/// A number with about three digits.
fn shown(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 || number.fract() == 0.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A Markdown table.
pub fn table(measures: &[Measure]) -> String {
    let mut text = String::from(
        "| task | measured | found | unit | target | met |\n|---|---|---:|---|---:|---|\n",
    );
    for measure in measures {
        let Measure { task, name, found, unit, .. } = measure;
        let (found, target, met) = (shown(*found), measure.target_text(), measure.met_text());
        let _ = writeln!(text, "| {task} | {name} | {found} | {unit} | {target} | {met} |");
    }
    text
}

/// How many targets are met, and a table of those that are not, with how far they are missed.
pub fn missed(measures: &[Measure]) -> String {
    let met: Vec<bool> = measures.iter().filter_map(Measure::is_met).collect();
    let count = met.iter().filter(|is_met| **is_met).count();
    let mut text = format!("Of {} targets {count} are met.", met.len());
    if count == met.len() {
        return text + "\n";
    }
    text.push_str(" Not met:\n\n| task | measured | found | target | found over target |\n|---|---|---:|---:|---:|\n");
    for measure in measures.iter().filter(|measure| measure.is_met() == Some(false)) {
        let Measure { task, name, found, unit, target } = measure;
        let Some(Target::AtMost(bound) | Target::AtLeast(bound)) = *target else {
            continue;
        };
        let ratio = if bound == 0.0 { String::new() } else { format!("{:.2}", found / bound) };
        let (found, target) = (shown(*found), measure.target_text());
        let _ = writeln!(text, "| {task} | {name} | {found} {unit} | {target} | {ratio} |");
    }
    text
}

/// The same as JSON.
pub fn object(measures: &[Measure], notes: &[String]) -> Value {
    let one = |measure: &Measure| {
        let (kind, bound) = match measure.target {
            None => (Value::Null, Value::Null),
            Some(Target::AtMost(most)) => (json!("at_most"), json!(most)),
            Some(Target::AtLeast(least)) => (json!("at_least"), json!(least)),
        };
        json!({
            "task": measure.task, "name": measure.name, "found": measure.found,
            "unit": measure.unit, "target": kind, "bound": bound, "met": measure.is_met(),
        })
    };
    let measures: Vec<Value> = measures.iter().map(one).collect();
    json!({ "measures": measures, "notes": notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_shown_beside_what_was_found() {
        let measures = [
            Measure::new("one_row", "p50", 123.4, "us").at_most(150.0),
            Measure::new("one_row", "rate", 0.5, "").at_least(0.8),
            Measure::new("one_row", "plan", 7.04, "us"),
        ];
        let text = table(&measures);
        assert!(text.contains("| one_row | p50 | 123 | us | <= 150 | yes |"), "{text}");
        assert!(text.contains("| one_row | rate | 0.50 |  | >= 0.80 | NO |"), "{text}");
        assert!(text.contains("| one_row | plan | 7.04 | us |  |  |"), "{text}");
        let text = missed(&measures);
        assert!(text.starts_with("Of 2 targets 1 are met. Not met:"), "{text}");
        assert!(text.contains("| one_row | rate | 0.50  | >= 0.80 | 0.62 |"), "{text}");
        assert_eq!(missed(&measures[..1]), "Of 1 targets 1 are met.\n");
        let object = object(&measures, &[]);
        assert_eq!(object["measures"][1]["met"], false);
        assert_eq!(object["measures"][2]["met"], Value::Null);
    }
}
