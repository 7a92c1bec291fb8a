//! Additive kernels beside LIBLINEAR, on rows and on mapped rows, and beside PmSVM-LUT as it is printed: the
//! same rows, C, bias and stopping tolerance, one thread, in turns.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use super::figures::{self, Figure};
use super::{Options, report};
use crate::workspace::{self, Workspace, stdout_of};

/// Where the sets are defined.
const SETS_FILE: &str = "crates/mercer-papers/src/tasks.toml";
/// Sets of `[[yw12]]` in it that are measured.
const SETS: [&str; 4] = ["MNIST", "gradients", "covtype", "Adult"];
/// Sets of very many columns that benches/peers/additive.py makes, and their C.
const WIDE: [&str; 2] = ["zipf", "uniform"];
const WIDE_C: f64 = 1.0;
/// The task that shows how time and memory grow, and its largest number of rows.
const GROWTH: &str = "growth";
const GROWTH_ROWS: usize = 10_000_000;
/// Programs that others are compared with.
const BASES: [&str; 3] = ["LIBLINEAR", "PmSVM-LUT as printed", "LIBLINEAR on mapped rows"];

const HEAD: &str = "| set | program | seconds | least | / LIBLINEAR | / PmSVM-LUT | / mapped |\n\
                    |---|---|---:|---:|---:|---:|---:|\n";
const MEANT: &str = "Equal C (crates/mercer-papers/src/tasks.toml; 1 for zipf and uniform), hinge, bias 1, tolerance 0.1, one \
                     thread; reading not counted, bins and packing counted unless it says without preparation; ratios are medians over \
                     turns";

/// Prints medians of seconds and of ratios within a turn, labels beside the exact machine's, and memory.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let Some(python) = &options.peers else {
        println!("additive: skipped, --peers PYTHON names an interpreter with liblinear-official");
        return Ok(ExitCode::SUCCESS);
    };
    workspace::run(&mut workspace.cargo(["build", "--release", "--locked", "-p", "mercer-cli"]))?;
    for example in [["mercer-train", "pmsvm_lut"], ["mercer-query", "tables"]] {
        let words = ["build", "--release", "--locked", "-p", example[0], "--example", example[1]];
        workspace::run(&mut workspace.cargo(words))?;
    }
    let program = |name: &str| {
        workspace.target.join(format!("release/{name}{}", std::env::consts::EXE_SUFFIX))
    };
    let wanted = |name: &&str| options.tasks.is_empty() || options.tasks.iter().any(|t| t == name);
    let sets: Vec<&str> = SETS.into_iter().filter(wanted).collect();
    let wide: Vec<&str> = WIDE.into_iter().filter(wanted).collect();
    let folder = workspace.target.join("bench-additive");
    let mut page =
        Page { options, workspace: &workspace, table: HEAD.to_owned(), notes: Vec::new() };
    if !(sets.is_empty() && wide.is_empty()) {
        print!("{HEAD}");
        write_rows(&workspace, &program("mercer"), &sets, &folder, options)?;
    }
    let penalties = sets.iter().map(|set| Ok((*set, penalty(&workspace, set)?)));
    let all: Vec<(&str, f64)> =
        penalties.chain(wide.iter().map(|set| Ok((*set, WIDE_C)))).collect::<Result<_>>()?;
    let mut versions: Vec<String> = Vec::new();
    let mut medians = Vec::new();
    for (set, c) in all {
        let mut command = workspace.command(python);
        command.arg("benches/peers/additive.py").arg("--rows").arg(&folder);
        command.arg("--mercer").arg(program("mercer"));
        command.arg("--pmsvm").arg(program("examples/pmsvm_lut"));
        command.arg("--tables").arg(program("examples/tables"));
        command.args(
            options.quick.then_some(["--repeats", "3", "--times-only"]).into_iter().flatten(),
        );
        // It tells every turn.
        command.arg(format!("{set}={c}")).stderr(Stdio::inherit());
        let found: Value = serde_json::from_str(&stdout_of(&mut command)?)?;
        versions = report::versions_of(&found).into_iter().collect();
        medians.extend(figures_of(&found));
        let (lines, notes) = summary(&found);
        page.add(&lines, notes)?;
    }
    if wanted(&GROWTH) {
        let rows = options.rows.first().copied().unwrap_or(GROWTH_ROWS).to_string();
        let mut command = workspace.command(program("mercer"));
        command.args(["reproduce", "yw12", "--only", GROWTH, "--rows", &rows, "--json"]);
        command.args(["--threads", "1", "--repeats", "3"]).stderr(Stdio::inherit());
        eprintln!("additive: growth up to {rows} rows");
        let found = serde_json::from_str(&stdout_of(&mut command)?)?;
        page.add("", grown(&found))?;
    }
    figures::write(options, medians, &versions)?;
    if !versions.is_empty() {
        versions.push(MEANT.to_owned());
        page.add("", versions)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What was found so far, printed as it comes and written anew each time: a part that fails later loses nothing.
struct Page<'p> {
    options: &'p Options,
    workspace: &'p Workspace,
    table: String,
    notes: Vec<String>,
}

impl Page<'_> {
    fn add(&mut self, lines: &str, notes: Vec<String>) -> Result<()> {
        print!("{lines}");
        notes.iter().for_each(|note| println!("{note}"));
        self.table += lines;
        self.notes.extend(notes);
        let Some(file) = &self.options.write else { return Ok(()) };
        let mut command = "cargo xtask bench additive --peers PYTHON".to_owned();
        command.extend(self.options.tasks.iter().map(|name| format!(" --task {name}")));
        command.extend(self.options.rows.iter().map(|count| format!(" --rows {count}")));
        let page =
            report::page(self.workspace, "Additive kernels", &command, &self.table, &self.notes);
        fs::write(file, page).with_context(|| format!("cannot write {file}"))
    }
}

/// Has the rows of these sets written as text.
fn write_rows(
    workspace: &Workspace,
    mercer: &Path,
    sets: &[&str],
    folder: &Path,
    options: &Options,
) -> Result<()> {
    fs::create_dir_all(folder)?;
    if sets.is_empty() {
        return Ok(());
    }
    let data = std::env::var_os("MERCER_DATA");
    let data = workspace.root.join(data.map_or_else(|| "../shared/data".into(), PathBuf::from));
    let mut rows = workspace.command(mercer);
    rows.args(["reproduce", "yw12", "--quiet", "--only", &sets.join(",")]);
    rows.arg("--write-rows").arg(folder).arg("--data").arg(&data);
    rows.args(options.rows.iter().flat_map(|rows| ["--rows".to_owned(), rows.to_string()]));
    workspace::run(&mut rows)
}

/// How time and memory grow with the number of rows.
fn grown(found: &Value) -> Vec<String> {
    let line = |row: &Value| {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let ours = row["ours"].as_f64().unwrap_or(f64::NAN);
        let (method, measure, unit) = (text("method"), text("measure"), text("unit"));
        format!("growth: {method}: {measure} {ours:.3} {unit} {}", text("note"))
            .trim_end()
            .to_owned()
    };
    found["comparisons"].as_array().into_iter().flatten().map(line).collect()
}

/// C of a set in the file of sets.
pub(super) fn penalty(workspace: &Workspace, set: &str) -> Result<f64> {
    let text = fs::read_to_string(workspace.root.join(SETS_FILE))?;
    let table: toml::Table = text.parse().context(SETS_FILE)?;
    let sets = table.get("yw12").and_then(toml::Value::as_array).into_iter().flatten();
    let named = |one: &&toml::Value| one.get("name").and_then(toml::Value::as_str) == Some(set);
    let found = sets.into_iter().find(named).and_then(|one| one.get("C")?.as_float());
    found.with_context(|| format!("no C of {set} in {SETS_FILE}"))
}

/// Lines of the table, and what stands below it.
fn summary(found: &Value) -> (String, Vec<String>) {
    let mut table = String::new();
    let mut notes = Vec::new();
    for (set, measured) in found["sets"].as_object().into_iter().flatten() {
        for (name, line) in measured["times"].as_object().into_iter().flatten() {
            let number = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
            let ratio = |base: &str| {
                line[format!("/ {base}")].as_f64().map_or_else(String::new, |r| format!("{r:.2}"))
            };
            let [a, b, c] = BASES.map(ratio);
            let _ = writeln!(
                table,
                "| {set} | {name} | {:.3} | {:.3} | {a} | {b} | {c} |",
                number("median"),
                number("least"),
            );
        }
        let count = |key: &str| measured[key].as_f64().unwrap_or(f64::NAN);
        notes.push(format!(
            "{set}: {} rows, {} non-zeros; {:.2} bytes per non-zero beside 24 per row and the model",
            count("rows"),
            count("nonzeros"),
            count("bytes_per_nonzero_beside_24_per_row"),
        ));
        notes.extend(answered(set, &measured["answering"]));
        let labels = &measured["labels"];
        if let Some(equal) = labels["equal"].as_f64() {
            notes.push(format!(
                "{set}: {:.2} % of {} labels are those of the exact chi2 machine on {} rows, both trained tightly",
                100.0 * equal,
                labels["queries"],
                labels["rows"],
            ));
        }
    }
    (table, notes)
}

/// Medians of seconds.
fn figures_of(found: &Value) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (set, measured) in found["sets"].as_object().into_iter().flatten() {
        for (name, line) in measured["times"].as_object().into_iter().flatten() {
            let Some(value) = line["median"].as_f64() else { continue };
            let name = format!("{set}, {name}");
            figures.push(Figure { name, value, unit: "seconds", differs: None });
        }
    }
    figures
}

/// What an answer takes: to find bins, and to read entries of rows that have them.
fn answered(set: &str, found: &Value) -> Option<String> {
    let scores = found["scores"].as_f64()?;
    let part = |name: &str| {
        let number = |key: &str| found[name][key].as_f64().unwrap_or(f64::NAN);
        (number("ns_per_nonzero"), number("value_ns"), number("row_ns"))
    };
    let [(all, ..), (binning, value, row), (read, read_value, read_row)] =
        ["all", "binning", "reading"].map(part);
    Some(format!(
        "{set}: an answer of {scores} scores takes {all:.2} ns per non-zero; to find bins {binning:.2} ({value:.2} for a value \
         and {row:.0} for a row), to read entries of rows with bins {read:.2} ({read_value:.2} for a value and {read_row:.0} \
         for a row), {:.2} for each score",
        read / scores,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stand_in_the_table_and_labels_below() {
        let line = serde_json::json!({
            "median": 0.5, "least": 0.4, "/ LIBLINEAR": 0.45, "/ PmSVM-LUT as printed": 0.3,
            "/ LIBLINEAR on mapped rows": 0.2,
        });
        let found = serde_json::json!({ "sets": { "MNIST": {
            "rows": 10, "nonzeros": 20, "bytes_per_nonzero_beside_24_per_row": 3.0,
            "times": { "mercer chi2": line }, "labels": { "rows": 5, "queries": 4, "equal": 1.0 },
            "answering": { "scores": 10, "reading": { "ns_per_nonzero": 5.0, "value_ns": 4.0, "row_ns": 100.0 } },
        } } });
        let (table, notes) = summary(&found);
        assert!(table.ends_with("| MNIST | mercer chi2 | 0.500 | 0.400 | 0.45 | 0.30 | 0.20 |\n"));
        assert!(
            notes[1].contains(
                "rows with bins 5.00 (4.00 for a value and 100 for a row), 0.50 for each"
            )
        );
        assert!(notes[2].starts_with("MNIST: 100.00 % of 4 labels"));
    }
}
