//! One number of a paper beside ours, the row that every paper reports in.
//!
//! Rows are collected and printed by [`crate::Session`]; nothing here computes or prints.

use serde::Serialize;

/// One number of a paper beside ours.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Data set, machine or problem.
    pub dataset: String,
    /// Method, with its parameters.
    pub method: String,
    /// What is measured.
    pub measure: String,
    /// The paper's number; none where it prints none or the scan has lost it.
    #[serde(rename = "published")]
    pub paper: Option<f64>,
    /// Ours; none where it was not computed, and the note says why.
    pub ours: Option<f64>,
    /// Unit of both numbers, empty for counts and ratios.
    pub unit: &'static str,
    /// What a reader must know to compare the two, empty if nothing.
    pub note: String,
}

impl Comparison {
    /// A row without numbers.
    pub(crate) fn new(
        dataset: impl Into<String>,
        method: impl Into<String>,
        measure: impl Into<String>,
    ) -> Self {
        Self {
            dataset: dataset.into(),
            method: method.into(),
            measure: measure.into(),
            paper: None,
            ours: None,
            unit: "",
            note: String::new(),
        }
    }

    /// Our number; one that is not finite is none.
    pub(crate) fn ours(self, ours: impl Into<Option<f64>>) -> Self {
        Self { ours: ours.into().filter(|number| number.is_finite()), ..self }
    }

    /// The paper's number.
    pub(crate) fn paper(self, paper: impl Into<Option<f64>>) -> Self {
        Self { paper: paper.into(), ..self }
    }

    pub(crate) fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    pub(crate) fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// The row as a line of a table whose data set is in the heading.
    pub(crate) fn line(&self) -> String {
        let [paper, ours] = [self.paper, self.ours].map(text_of);
        let line = format!(
            "  {:<34} {:<28} {paper:>11} {ours:>11}  {:<8} {}",
            self.method, self.measure, self.unit, self.note
        );
        line.trim_end().to_owned()
    }

    /// Names of the columns of [`Comparison::line`].
    pub(crate) fn header() -> String {
        let line = format!(
            "  {:<34} {:<28} {:>11} {:>11}  {:<8} {}",
            "method", "measure", "paper", "ours", "unit", "note"
        );
        line.trim_end().to_owned()
    }
}

/// Counts as they are, other numbers with four significant digits, `-` for none.
fn text_of(number: Option<f64>) -> String {
    let Some(number) = number else { return "-".to_owned() };
    let size = number.abs();
    if number.fract() == 0.0 && size < 1e9 {
        return format!("{number:.0}");
    }
    if !(1e-3..1e7).contains(&size) {
        return format!("{number:.3e}");
    }
    let digits = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
    format!("{number:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_digits() {
        let texts = [0.0, 165.0, 47.6, 0.012_345, 1234.56, 1.5e-9, -2.5, 3.1e12];
        let found = texts.map(|number| text_of(Some(number)));
        let wanted = ["0", "165", "47.60", "0.01235", "1235", "1.500e-9", "-2.500", "3.100e12"];
        assert_eq!(found, wanted);
        assert_eq!(text_of(None), "-");
    }

    #[test]
    fn what_is_not_finite_is_no_number() {
        let row = Comparison::new("Sonar", "greedy", "error").ours(f64::NAN).paper(1.0).note("n");
        assert_eq!((row.ours, row.paper), (None, Some(1.0)));
        assert!(row.line().ends_with('n'), "{}", row.line());
    }
}
