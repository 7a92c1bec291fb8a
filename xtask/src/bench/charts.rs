//! `cargo xtask bench charts`: the overview of `docs/benchmarks/` with a bar chart per result, from the figures of dated pages in
//! `overview.json`. It measures nothing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Options;
use crate::workspace::Workspace;

const FOLDER: &str = "docs/benchmarks";
const INTRODUCTION: &str = "# Benchmarks\n\n\
    One chart per result of the README. Bars are on a logarithmic scale, shorter is better; the page of each result has commit, \
    versions and all rows.\n`cargo xtask bench charts` writes this page and its charts from `overview.json`, whose figures are those of \
    the pages.\n";

pub fn run(_: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let folder = workspace.root.join(FOLDER);
    for (name, text) in files(&folder)? {
        fs::write(folder.join(&name), text).with_context(|| name.clone())?;
        println!("charts: {FOLDER}/{name}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Names and texts of the overview and its charts.
fn files(folder: &Path) -> Result<Vec<(String, String)>> {
    let text = fs::read_to_string(folder.join("overview.json")).context("overview.json")?;
    let stored: Value = serde_json::from_str(&text).context("overview.json")?;
    let charts = stored["charts"].as_array().context("overview.json has no charts")?;
    let mut files = Vec::new();
    let mut page = INTRODUCTION.to_owned();
    for chart in charts {
        let word = |key: &str| chart[key].as_str().with_context(|| format!("a chart has no {key}"));
        let bars = bars(chart)?;
        let dated = word("page")?;
        ensure!(folder.join(dated).is_file(), "there is no page {dated}");
        let (title, unit, file) = (word("title")?, word("unit")?, word("file")?);
        let best = bars.iter().find(|bar| bar.is_ours).context("no bar is ours")?;
        let ratios = bars.iter().filter(|bar| !bar.is_ours);
        let ratios = ratios.map(|bar| format!("{} {:.1}x", bar.name, bar.value / best.value));
        let _ = write!(page, "\n## {title}\n\n![{title}]({file})\n\n");
        let _ =
            writeln!(page, "- {}, {}\n- `{}`", word("machine")?, word("date")?, word("command")?);
        let _ = writeln!(
            page,
            "- Time over that of \"{}\": {}\n- [Page]({dated})",
            best.name,
            ratios.collect::<Vec<_>>().join(", ")
        );
        let below = format!("{}, {}", word("machine")?, word("date")?);
        files.push((file.to_owned(), draw(title, unit, &below, &bars)));
    }
    files.push(("README.md".to_owned(), page));
    Ok(files)
}

struct Bar {
    name: String,
    value: f64,
    is_ours: bool,
}

fn bars(chart: &Value) -> Result<Vec<Bar>> {
    let bars = chart["bars"].as_array().context("a chart has no bars")?;
    let bar = |bar: &Value| {
        let value = bar["value"].as_f64().filter(|value| *value > 0.0 && value.is_finite());
        Ok(Bar {
            name: bar["name"].as_str().context("a bar has no name")?.to_owned(),
            value: value.context("a bar has no value above 0")?,
            is_ours: bar["ours"] == true,
        })
    };
    bars.iter().map(bar).collect()
}

/// Horizontal bars on a logarithmic axis that begins at a power of ten below the shortest. Colours are readable on light and
/// dark pages.
fn draw(title: &str, unit: &str, below: &str, bars: &[Bar]) -> String {
    let (left, width, step) = (230.0, 380.0, 30.0);
    let logs = || bars.iter().map(|bar| bar.value.log10());
    // A bar at the beginning of the axis would not be seen.
    let low = (logs().fold(f64::INFINITY, f64::min) - 0.3).floor();
    let high = logs().fold(f64::NEG_INFINITY, f64::max).ceil().max(low + 1.0);
    let place = |log: f64| left + width * (log - low) / (high - low);
    let bottom = 40.0 + step * bars.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 {:.0}\" role=\"img\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        bottom + 50.0,
        title = escape(title)
    );
    let _ = writeln!(svg, "<text x=\"10\" y=\"22\" font-weight=\"bold\">{}</text>", escape(title));
    for power in low as i32..=high as i32 {
        let x = place(f64::from(power));
        let _ = writeln!(svg, "<path d=\"M{x:.1} 34V{bottom:.0}\" stroke=\"#d0d0d0\"/>");
        let label = 10f64.powi(power);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{label}</text>",
            bottom + 16.0
        );
    }
    for (number, bar) in bars.iter().enumerate() {
        let y = 40.0 + step * number as f64;
        let colour = if bar.is_ours { "#1667b0" } else { "#8a8a8a" };
        let end = place(bar.value.log10());
        let _ = write!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{left}\" y=\"{y:.0}\" width=\"{:.1}\" height=\"20\" fill=\"{colour}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.0}\">{}</text>\n",
            left - 8.0,
            y + 15.0,
            escape(&bar.name),
            end - left,
            end + 5.0,
            y + 15.0,
            bar.value
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"10\" y=\"{:.0}\" fill=\"#555555\">{}, logarithmic; {}</text>\n</svg>",
        bottom + 38.0,
        escape(unit),
        escape(below)
    );
    svg
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_overview_is_what_the_figures_give() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(FOLDER);
        for (name, text) in files(&folder).unwrap() {
            let stored = fs::read_to_string(folder.join(&name)).unwrap();
            assert_eq!(stored, text, "{name}: `cargo xtask bench charts` writes it again");
        }
    }

    #[test]
    fn longer_times_have_longer_bars() {
        let bar = |value| Bar { name: "a < b".to_owned(), value, is_ours: false };
        let svg = draw("t", "s", "m", &[bar(1.0), bar(10.0), bar(1000.0)]);
        let widths =
            svg.split("width=\"").skip(2).filter_map(|rest| rest.split('"').next()?.parse().ok());
        let widths: Vec<f64> = widths.collect();
        assert_eq!(widths.len(), 3);
        assert!(0.0 < widths[0] && widths[0] < widths[1] && widths[1] < widths[2]);
        // A factor of 100 is twice a factor of 10.
        assert!((widths[2] - widths[1] - 2.0 * (widths[1] - widths[0])).abs() < 0.3);
        assert!(svg.contains("a &lt; b"));
    }
}
