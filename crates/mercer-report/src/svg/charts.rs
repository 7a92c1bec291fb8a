//! Charts for pages: inline SVG, 400 wide, coloured by the page.
//!
//! Figures that are files of their own are in `figures.rs`.

use std::fmt::Write as _;

use super::{Series, escape, shortened};

const WIDTH: f64 = 400.0;
/// Colours of series, in turn; the page defines them for light and dark.
const COLOURS: [&str; 6] = ["--a", "--b", "--c", "--d", "--e", "--f"];

fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

fn svg(title: &str, height: f64, marks: &str) -> String {
    let title = escape(title);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">\
         <title>{title}</title><text x=\"4\" y=\"16\" font-weight=\"600\">{title}</text>{marks}</svg>"
    )
}

/// One bar of a chart.
#[derive(Debug, Clone)]
pub struct Bar {
    /// What stands above it.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// What stands at its end.
    pub text: String,
}

/// Horizontal bars, one below the other.
pub fn bars(title: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let mut marks = String::new();
    for (number, bar) in bars.iter().enumerate() {
        let top = 30.0 + 40.0 * number as f64;
        let long = (300.0 * bar.value / most).max(1.0);
        let _ = write!(
            marks,
            "<text x=\"4\" y=\"{:.0}\" class=\"soft\">{}</text>\
             <rect x=\"4\" y=\"{:.0}\" width=\"{long:.1}\" height=\"16\" rx=\"2\" fill=\"var({})\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\">{}</text>",
            top + 10.0,
            escape(&shortened(&bar.name, 60)),
            top + 15.0,
            colour(number),
            long + 10.0,
            top + 28.0,
            escape(&bar.text),
        );
    }
    svg(title, 34.0 + 40.0 * bars.len() as f64, &marks)
}

/// An axis whose ticks are powers of ten.
struct Axis {
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| *value > 0.0 && value.is_finite()) {
            (low, high) = (low.min(value.log10()), high.max(value.log10()));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let margin = 0.05 * (high - low).max(0.4);
        Self { low: low - margin, high: high + margin, start, end }
    }

    /// Values that have no logarithm are drawn at the start of the axis.
    fn place(&self, value: f64) -> f64 {
        let at = if value > 0.0 { value.log10().max(self.low) } else { self.low };
        self.start + (self.end - self.start) * (at - self.low) / (self.high - self.low)
    }

    /// One, two and five times the powers of ten within it; only the powers if those are enough.
    fn ticks(&self) -> Vec<f64> {
        let powers = (self.low.floor() as i32)..=(self.high.ceil() as i32);
        let of = |steps: &[f64]| -> Vec<f64> {
            let all = powers.clone().flat_map(|p| steps.iter().map(move |s| s * 10f64.powi(p)));
            all.filter(|tick| (self.low..=self.high).contains(&tick.log10())).collect()
        };
        let powers = of(&[1.0]);
        if powers.len() >= 3 { powers } else { of(&[1.0, 2.0, 5.0]) }
    }
}

/// Points over two logarithmic axes, with a legend.
pub fn scatter(title: &str, x_name: &str, y_name: &str, series: &[Series]) -> String {
    let all = || series.iter().flat_map(|series| &series.points);
    let x = Axis::new(all().map(|point| point.0), 50.0, WIDTH - 10.0);
    let y = Axis::new(all().map(|point| point.1), 230.0, 40.0);
    let mut marks = String::new();
    for tick in x.ticks() {
        let at = x.place(tick);
        let _ = write!(
            marks,
            "<line class=\"axis\" x1=\"{at:.1}\" y1=\"40\" x2=\"{at:.1}\" y2=\"230\"/>\
             <text class=\"soft\" x=\"{at:.1}\" y=\"244\" text-anchor=\"middle\">{}</text>",
            number(tick)
        );
    }
    for tick in y.ticks() {
        let at = y.place(tick);
        let _ = write!(
            marks,
            "<line class=\"axis\" x1=\"50\" y1=\"{at:.1}\" x2=\"390\" y2=\"{at:.1}\"/>\
             <text class=\"soft\" x=\"46\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            at + 4.0,
            number(tick)
        );
    }
    for (at, series) in series.iter().enumerate() {
        let colour = colour(at);
        if series.is_line {
            let places = series.points.iter();
            let path: String =
                places.map(|(a, b)| format!("{:.1},{:.1} ", x.place(*a), y.place(*b))).collect();
            let _ = write!(
                marks,
                "<polyline points=\"{path}\" fill=\"none\" stroke=\"var({colour})\" stroke-width=\"2\"/>"
            );
        }
        let (radius, opacity) = if series.points.len() > 100 { (1.8, 0.5) } else { (3.5, 0.9) };
        let _ = write!(marks, "<g fill=\"var({colour})\" fill-opacity=\"{opacity}\">");
        for (a, b) in &series.points {
            let (a, b) = (x.place(*a), y.place(*b));
            let _ = write!(marks, "<circle cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"{radius}\"/>");
        }
        let top = 278.0 + 18.0 * at as f64;
        let _ = write!(
            marks,
            "</g><circle cx=\"10\" cy=\"{:.0}\" r=\"5\" fill=\"var({colour})\"/>\
             <text x=\"22\" y=\"{top:.0}\">{}</text>",
            top - 4.0,
            escape(&shortened(&series.name, 58)),
        );
    }
    let _ = write!(
        marks,
        "<text class=\"soft\" x=\"390\" y=\"260\" text-anchor=\"end\">{}</text>\
         <text class=\"soft\" x=\"4\" y=\"32\">{}</text>",
        escape(x_name),
        escape(y_name),
    );
    svg(title, 270.0 + 18.0 * series.len() as f64, &marks)
}

/// A tick as people write it.
fn number(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{}G", v / 1e9),
        v if v >= 1e6 => format!("{}M", (v / 1e6).round()),
        v if v >= 1e3 => format!("{}k", (v / 1e3).round()),
        v if v >= 0.01 => format!("{}", (v * 1000.0).round() / 1000.0),
        v => format!("{v:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_hold_their_points_and_escape_names() {
        let points = vec![(1.0, 10.0), (0.0, 1e6), (1e-3, 5.0)];
        let series = Series::line("<b>&", points);
        let chart = scatter("a", "x", "y", &[series]);
        assert!(chart.contains("&lt;b&gt;&amp;") && !chart.contains("<b>"));
        assert!(!chart.contains("NaN") && !chart.contains("inf"));
        assert_eq!(chart.matches("r=\"3.5\"").count(), 3);
        let nothing = scatter("a", "x", "y", &[]);
        assert!(!nothing.contains("NaN"));
        let bar = Bar { name: "\"q\"".to_owned(), value: 0.0, text: "0".to_owned() };
        assert!(bars("t", &[bar]).contains("&quot;q&quot;"));
    }
}
