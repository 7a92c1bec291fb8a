//! `cargo xtask bench charts`: the overview of `docs/benchmarks/` with a bar chart per result, from `overview.json`. Its bars
//! name figures of a stored file of `bench --all --quick`, or repeat figures of a dated page. It measures nothing.

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
    versions and all rows.\n`cargo xtask bench --all --quick` measures the results on any machine, with peers where they are installed; `cargo xtask bench charts` \
    writes this page\nand its charts from `overview.json`, which takes figures from a stored file of those runs, or from the dated page of a longer run.\n";

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
        let source = Source::of(folder, chart)?;
        let bars = bars(chart, &source)?;
        let (title, unit, file) = (word("title")?, word("unit")?, word("file")?);
        let best = bars.iter().find(|bar| bar.is_ours).context("no bar is ours")?;
        let ratios = bars.iter().filter(|bar| !bar.is_ours);
        let ratios = ratios.map(|bar| format!("{} {:.1}x", bar.name, bar.value / best.value));
        let _ = write!(page, "\n## {title}\n\n![{title}]({file})\n\n");
        let place = format!("{}, {}", source.word("machine")?, source.word("date")?);
        let _ = writeln!(page, "- {place}\n- `{}`", source.word("command")?);
        let _ = writeln!(
            page,
            "- Time over that of \"{}\": {}\n- [{}]({})",
            best.name,
            ratios.collect::<Vec<_>>().join(", "),
            if source.run.is_some() { "All figures of the run" } else { "Page" },
            source.file,
        );
        files.push((file.to_owned(), draw(title, unit, &place, &bars)));
    }
    page.push_str(&other_pages(folder, charts)?);
    files.push(("README.md".to_owned(), page));
    Ok(files)
}

/// A list of the dated pages that no chart is made from, newest first.
fn other_pages(folder: &Path, charts: &[Value]) -> Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_text = Path::new(&name).extension().is_some_and(|ending| ending == "md");
        let is_page = is_text && name.starts_with(|first: char| first.is_ascii_digit());
        if is_page && charts.iter().all(|chart| chart["page"] != name.as_str()) {
            names.push(name);
        }
    }
    names.sort_unstable_by(|a, b| b.cmp(a));
    let mut list = "\n## Other pages\n\n".to_owned();
    for name in names {
        let text = fs::read_to_string(folder.join(&name)).with_context(|| name.clone())?;
        let title = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let title = title.with_context(|| format!("{name} does not begin with a title"))?;
        let date = name.get(..10).context("the name of a page is shorter than its date")?;
        let title = title.trim_end_matches(date).trim_end_matches([',', ' ']);
        let _ = writeln!(list, "- {date}: [{title}]({name})");
    }
    list.push_str("- [Older pages](archive/README.md), which newer ones replaced\n");
    Ok(list)
}

struct Bar {
    name: String,
    value: f64,
    is_ours: bool,
}

/// Where the figures of a chart come from.
struct Source<'c> {
    chart: &'c Value,
    /// The dated page, or the file of runs.
    file: String,
    /// What the page says.
    text: String,
    /// The run whose figures the bars name, if they do.
    run: Option<Value>,
}

impl<'c> Source<'c> {
    fn of(folder: &Path, chart: &'c Value) -> Result<Self> {
        let name = |key: &str| chart[key].as_str().map(str::to_owned);
        let file = name("page").or_else(|| name("runs")).context("a chart has no page or runs")?;
        let text = fs::read_to_string(folder.join(&file)).with_context(|| file.clone())?;
        let run = match name("run") {
            Some(wanted) => {
                let all: Value = serde_json::from_str(&text).with_context(|| file.clone())?;
                let mut runs = all["runs"].as_array().into_iter().flatten();
                let found = runs.find(|run| run["name"] == wanted.as_str());
                Some(found.with_context(|| format!("{file} has no run {wanted}"))?.clone())
            }
            None => None,
        };
        Ok(Self { chart, file, text, run })
    }

    /// Machine, date or command: of the run, or as the overview says of the page.
    fn word(&self, key: &str) -> Result<&str> {
        let from = self.run.as_ref().unwrap_or(self.chart);
        from[key].as_str().with_context(|| format!("{} has no {key}", self.file))
    }

    /// The figure that a bar names, or the one that it repeats, which the page must have.
    fn value(&self, bar: &Value) -> Result<f64> {
        if let Some(name) = bar["figure"].as_str() {
            let run = self.run.as_ref().context("a bar names a figure, but its chart no run")?;
            let mut figures = run["figures"].as_array().into_iter().flatten();
            let found = figures.find(|figure| figure["name"] == name);
            let value = found.and_then(|figure| figure["value"].as_f64());
            return value.with_context(|| format!("{} has no figure '{name}'", self.file));
        }
        let value = bar["value"].as_f64().context("a bar has neither figure nor value")?;
        let shown = [0, 1, 2, 3].map(|digits| format!("{value:.digits$}"));
        let is_there = shown.iter().any(|text| {
            text.parse::<f64>().is_ok_and(|parsed| parsed.to_bits() == value.to_bits())
                && self.text.contains(text.as_str())
        });
        ensure!(is_there, "{} does not have {value}", self.file);
        Ok(value)
    }
}

fn bars(chart: &Value, source: &Source<'_>) -> Result<Vec<Bar>> {
    let bars = chart["bars"].as_array().context("a chart has no bars")?;
    let bar = |bar: &Value| {
        let value = Some(source.value(bar)?).filter(|value| *value > 0.0 && value.is_finite());
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
    fn a_figure_that_page_or_run_does_not_have_is_refused() {
        let chart = serde_json::json!({});
        let run = serde_json::json!({"figures": [{"name": "a", "value": 2.5}]});
        let mut source = Source {
            chart: &chart,
            file: "p".to_owned(),
            text: "113.76 µs, 24.0".to_owned(),
            run: None,
        };
        let value = |source: &Source<'_>, bar: Value| source.value(&bar).ok();
        assert_eq!(value(&source, serde_json::json!({"value": 113.76})), Some(113.76));
        assert_eq!(value(&source, serde_json::json!({"value": 24.0})), Some(24.0));
        assert_eq!(value(&source, serde_json::json!({"value": 113.8})), None);
        assert_eq!(value(&source, serde_json::json!({"figure": "a"})), None);
        source.run = Some(run);
        assert_eq!(value(&source, serde_json::json!({"figure": "a"})), Some(2.5));
        assert_eq!(value(&source, serde_json::json!({"figure": "b"})), None);
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
