//! Figures of a topic as JSON, for `bench --all`; `--figures FILE` writes them.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Options;

/// One measured number.
pub struct Figure {
    /// What was measured, such as `mnist10, batch, mercer exact`.
    pub name: String,
    pub value: f64,
    pub unit: &'static str,
    /// How many labels are not those of the exact machine, where that was counted.
    pub differs: Option<u64>,
}

/// Writes figures and notes where the options say.
pub fn write(options: &Options, figures: Vec<Figure>, notes: &[String]) -> Result<()> {
    let Some(file) = &options.figures else { return Ok(()) };
    let text = serde_json::to_string_pretty(&as_json(figures, notes))?;
    fs::write(file, text + "\n").with_context(|| format!("cannot write {file}"))
}

fn as_json(figures: Vec<Figure>, notes: &[String]) -> Value {
    let as_json = |figure: Figure| {
        // Four digits are more than a time has.
        let value = format!("{:.3e}", figure.value).parse().unwrap_or(figure.value);
        let mut json = json!({"name": figure.name, "value": value, "unit": figure.unit});
        if let Some(count) = figure.differs {
            json["differs"] = count.into();
        }
        json
    };
    json!({"figures": figures.into_iter().map(as_json).collect::<Vec<_>>(), "notes": notes})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits_and_counts_where_there_are_some() {
        let figure = |differs| Figure { name: "a".to_owned(), value: 113.7649, unit: "s", differs };
        let json = as_json(vec![figure(None), figure(Some(3))], &["note".to_owned()]);
        assert_eq!(json["figures"][0], json!({"name": "a", "value": 113.8, "unit": "s"}));
        assert_eq!(json["figures"][1]["differs"], 3);
        assert_eq!(json["notes"][0], "note");
    }
}
