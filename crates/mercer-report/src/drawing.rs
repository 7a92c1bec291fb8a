//! Drawings of a page: data for the module that the server's page uses as well (`mercer-draw`), drawn when the page is opened.
//!
//! Figures that are files of their own are in [`svg`](crate::svg).

use serde_json::{Value, json};

use crate::printable;
use crate::svg::{Series, escape};

/// What turns the data of all drawings into drawings; it stands behind the module.
const DRAW_ALL: &str = "const drawings = { bars, closingRange, scatter, scoreLine, timeline };\n\
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

impl Drawing {
    /// Horizontal bars, one below the other.
    pub fn bars(title: &str, bars: &[Bar]) -> Self {
        let item = |bar: &Bar| json!({ "name": bar.name, "value": bar.value, "text": bar.text });
        let items: Vec<Value> = bars.iter().map(item).collect();
        let options = json!({ "items": items, "label": title, "width": 400 });
        Self { kind: "bars", title: title.to_owned(), options }
    }

    /// Points over two logarithmic axes, with the names of the series.
    pub fn scatter(title: &str, x_name: &str, y_name: &str, series: &[Series]) -> Self {
        let one = |series: &Series| json!({ "name": series.name, "points": series.points, "isLine": series.is_line });
        let series: Vec<Value> = series.iter().map(one).collect();
        let options = json!({ "series": series, "x": x_name, "y": y_name, "label": title });
        Self { kind: "scatter", title: title.to_owned(), options }
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
    let module = mercer_draw::MODULE;
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
        for name in ["bars", "closingRange", "scatter", "scoreLine", "timeline"] {
            assert!(mercer_draw::MODULE.contains(&format!("export function {name}(")), "{name}");
            assert!(DRAW_ALL.contains(name), "{name}");
        }
    }
}
