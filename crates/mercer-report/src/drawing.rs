//! Drawings of a page: data for the module that the server's page uses as well (`mercer-draw`), drawn when the page is opened.
//!
//! Figures that are files of their own are in [`svg`](crate::svg).

use serde_json::{Value, json};

use crate::printable;
use crate::svg::{Series, SignedBar, escape};

/// What turns the data of all drawings into drawings; it stands behind the module.
const DRAW_ALL: &str = "const drawings = { bars, closingPath, picture, plot, scatter, signedBars };\n\
for (const data of document.querySelectorAll('script[data-drawing]')) {\n\
  data.replaceWith(drawings[data.dataset.drawing](JSON.parse(data.textContent)));\n\
}\n";

/// A drawing: the name of its function in the module, and what the function takes.
#[derive(Debug, Clone)]
pub struct Drawing {
    kind: &'static str,
    title: String,
    options: Value,
}

/// One bar of a drawing.
#[derive(Debug, Clone)]
pub struct Bar {
    /// What stands beside it.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// What stands at its end.
    pub text: String,
}

/// The steps by which one query was answered.
#[derive(Debug, Clone)]
pub struct ClosingPath {
    /// The steps, in order; at least one.
    pub steps: Vec<PathStep>,
    /// The step from which on the label is proved.
    pub settled: Option<usize>,
    /// What lies below and above 0, where 0 is a border.
    pub sides: Option<[String; 2]>,
    /// What the exact evaluation costs, in multiply-adds.
    pub exact_cost: u64,
}

/// What was known of a score after one step.
#[derive(Debug, Clone)]
pub struct PathStep {
    /// The stage at work.
    pub stage: String,
    /// Lower end of the range.
    pub low: f64,
    /// Upper end of the range.
    pub high: f64,
    /// What the query had cost by then, in multiply-adds.
    pub cost: u64,
    /// Whether the range is estimated, not proved.
    pub is_estimate: bool,
    /// Whether another label leads than before.
    pub is_change: bool,
}

impl Drawing {
    fn new(kind: &'static str, title: &str, mut options: Value) -> Self {
        options["label"] = title.into();
        Self { kind, title: title.to_owned(), options }
    }

    /// Horizontal bars, one below the other.
    pub fn bars(title: &str, bars: &[Bar]) -> Self {
        let item = |bar: &Bar| json!({ "name": bar.name, "value": bar.value, "text": bar.text });
        let items: Vec<Value> = bars.iter().map(item).collect();
        Self::new("bars", title, json!({ "items": items, "width": 400 }))
    }

    /// Bars to both sides of 0.
    pub fn signed_bars(title: &str, x_name: &str, bars: &[SignedBar]) -> Self {
        let item =
            |bar: &SignedBar| json!({ "name": bar.name, "value": bar.value, "text": bar.text });
        let items: Vec<Value> = bars.iter().map(item).collect();
        Self::new("signedBars", title, json!({ "items": items, "x": x_name }))
    }

    /// The range of a score as it closes, and its cost beside that of the exact evaluation.
    pub fn closing_path(title: &str, path: &ClosingPath) -> Self {
        let ClosingPath { steps, settled, sides, exact_cost } = path;
        // JSON has no infinity.
        let end = |value: f64| value.clamp(f64::MIN, f64::MAX);
        let step = |step: &PathStep| {
            json!({
                "stage": step.stage, "low": end(step.low), "high": end(step.high), "cost": step.cost,
                "isEstimate": step.is_estimate, "isChange": step.is_change,
            })
        };
        let steps: Vec<Value> = steps.iter().map(step).collect();
        let options =
            json!({ "steps": steps, "settled": settled, "sides": sides, "exact": exact_cost });
        Self::new("closingPath", title, options)
    }

    /// A square picture of `side` by `side` values; `full` is as dark as can be.
    pub fn picture(title: &str, values: &[f64], side: usize, full: f64) -> Self {
        Self::new("picture", title, json!({ "values": values, "side": side, "full": full }))
    }

    /// Lines or points over two plain axes.
    pub fn plot(title: &str, x_name: &str, y_name: &str, series: &[Series]) -> Self {
        let series: Vec<Value> = series.iter().map(of_series).collect();
        Self::new("plot", title, json!({ "series": series, "x": x_name, "y": y_name }))
    }

    /// Points over two logarithmic axes, with the names of the series.
    pub fn scatter(title: &str, x_name: &str, y_name: &str, series: &[Series]) -> Self {
        let series: Vec<Value> = series.iter().map(of_series).collect();
        Self::new("scatter", title, json!({ "series": series, "x": x_name, "y": y_name }))
    }

    /// Its markup: the data, in place of which the drawing comes.
    pub(crate) fn markup(&self) -> String {
        let Self { kind, title, options } = self;
        // No text of the data can end its element.
        let data = printable_texts(options.clone()).to_string().replace('<', "\\u003c");
        format!(
            "<figure><figcaption>{}</figcaption><script type=\"application/json\" \
             data-drawing=\"{kind}\">{data}</script></figure>",
            escape(title)
        )
    }
}

fn of_series(series: &Series) -> Value {
    json!({ "name": series.name, "points": series.points, "isLine": series.is_line })
}

/// The same with printable texts: what a browser shows holds no control characters or direction marks.
fn printable_texts(value: Value) -> Value {
    match value {
        Value::String(text) => printable(&text).into(),
        Value::Array(items) => items.into_iter().map(printable_texts).collect(),
        Value::Object(items) => {
            items.into_iter().map(|(name, item)| (name, printable_texts(item))).collect()
        }
        other => other,
    }
}

/// The script of a page with drawings.
pub(crate) fn script() -> String {
    let module = mercer_draw::REPORT_MODULE;
    format!("<script type=\"module\">\n{module}\n{DRAW_ALL}</script>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_become_markup() {
        let series = Series::line("</script><b>&", vec![(1.0, 10.0), (0.0, 1e6)]);
        let markup = Drawing::scatter("<i>", "x", "y", &[series]).markup();
        assert_eq!(markup.matches("</script>").count(), 1);
        assert!(!markup.contains("<b>") && !markup.contains("<i>"));
        let start = markup.find('{').unwrap();
        let end = markup.find("</script>").unwrap();
        let data: Value = serde_json::from_str(&markup[start..end]).unwrap();
        assert_eq!(data["series"][0]["name"], "</script><b>&");
        assert_eq!(data["series"][0]["points"][1], json!([0.0, 1e6]));
    }

    #[test]
    fn every_drawing_is_a_function_of_the_module() {
        for name in ["bars", "closingPath", "picture", "plot", "scatter", "signedBars"] {
            assert!(
                mercer_draw::REPORT_MODULE.contains(&format!("export function {name}(")),
                "{name}"
            );
            assert!(DRAW_ALL.contains(name), "{name}");
        }
    }
}
