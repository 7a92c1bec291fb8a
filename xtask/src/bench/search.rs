//! Model selection: a grid of 6 x 6 candidates in 5 folds, the same for Mercer and, if asked for, its peer.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use super::figures::{self, Figure};
use super::{Options, report};
use crate::workspace::{self, Workspace, stdout_of};

const ROWS: usize = 10_000;
/// With `--quick`: the peer takes 27 s per thousand rows and more.
const QUICK_ROWS: usize = 5_000;
const FOLDS: usize = 5;
const KERNELS: &str = "rbf(gamma={0.003, 0.01, 0.03, 0.1, 0.3, 1})";
const FORMULATIONS: &str = "c_svc(C={0.1, 0.3, 1, 3, 10, 30})";

/// Prints seconds and the largest difference of the mean accuracies.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let prepared = match &options.prepared {
        Some(folder) => std::path::absolute(folder)?,
        None => workspace.target.join("bench"),
    };
    let whole = prepared.join("a9a.train.svm");
    if !whole.is_file() {
        let (out, data) = (workspace.shown(&prepared), "../shared/data");
        println!("search: skipped, no rows of a9a in {out}");
        println!("  this writes them: PYTHON benches/peers/rows.py --data {data} --out {out} a9a");
        return Ok(ExitCode::SUCCESS);
    }
    let count = if options.quick { QUICK_ROWS } else { ROWS };
    let own = workspace.target.join("bench-search");
    fs::create_dir_all(&own).context("cannot make a folder in the target directory")?;
    let text = fs::read_to_string(&whole).with_context(|| whole.display().to_string())?;
    let rows: String = text.split_inclusive('\n').take(count).collect();
    let (rows_file, folds_file) = (own.join("rows.svm"), own.join("folds"));
    fs::write(&rows_file, rows)?;
    fs::write(&folds_file, (0..count).map(|row| format!("{}\n", row % FOLDS)).collect::<String>())?;
    workspace::run(&mut workspace.cargo(["build", "--release", "--locked", "-p", "mercer-cli"]))?;
    let program = format!("release/mercer{}", std::env::consts::EXE_SUFFIX);
    let mut command = workspace.command(workspace.target.join(program));
    command.arg("search").arg(&rows_file).arg("--folds").arg(&folds_file).arg("--json");
    command.args(["--kernel", KERNELS, "--formulation", FORMULATIONS]);
    let started = Instant::now();
    let found: Value = serde_json::from_str(&stdout_of(&mut command)?)?;
    let seconds = started.elapsed().as_secs_f64();
    let means = means(&found);
    let mut table = String::from(
        "| program | seconds | / mercer | largest difference |\n|---|---:|---:|---:|\n",
    );
    let _ = writeln!(table, "| mercer search | {seconds:.1} | 1.00 | |");
    let mut notes = vec![format!(
        "a9a, first {count} rows, {FOLDS} folds (row modulo {FOLDS}), {KERNELS}, {FORMULATIONS}"
    )];
    let figure = |name: &str, value: f64| Figure {
        name: name.to_owned(),
        value,
        unit: "seconds",
        differs: None,
    };
    let mut figures = vec![figure("mercer search", seconds)];
    if let Some(python) = &options.peers {
        let data = std::env::var_os("MERCER_DATA");
        let data = workspace.root.join(data.map_or_else(|| "../shared/data".into(), PathBuf::from));
        let mut command = workspace.command(python);
        command
            .arg("benches/peers/search.py")
            .arg("--data")
            .arg(data)
            .arg("--rows")
            .arg(count.to_string());
        let peer: Value = serde_json::from_str(&stdout_of(&mut command)?)?;
        notes.extend(report::versions_of(&peer));
        let taken = peer["seconds"].as_f64().context("the peer printed no seconds")?;
        let theirs = peer["means"].as_array().context("the peer printed no means")?;
        figures.push(figure("GridSearchCV(SVC), intelex", taken));
        let apart = means.iter().zip(theirs.iter().filter_map(Value::as_f64));
        let apart = apart.map(|(own, other)| (own - other).abs()).fold(0.0, f64::max);
        let _ = writeln!(
            table,
            "| GridSearchCV(SVC), intelex | {taken:.1} | {:.2} | {apart:.4} |",
            taken / seconds
        );
    }
    print!("{table}");
    notes.iter().for_each(|note| println!("{note}"));
    figures::write(options, figures, &notes)?;
    if let Some(file) = &options.write {
        let command = "cargo xtask bench search --prepared DIR --peers PYTHON";
        let page = report::page(&workspace, "Model selection", command, &table, &notes);
        fs::write(file, page).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Kernel after kernel, formulations in order.
fn means(found: &Value) -> Vec<f64> {
    let candidates = found["candidates"].as_array();
    let mean = |candidate: &Value| candidate["mean"].as_f64();
    candidates.into_iter().flatten().filter_map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_come_in_the_order_of_the_candidates() {
        let found =
            serde_json::json!({"candidates": [{"mean": 0.5}, {"mean": null}, {"mean": 1.0}]});
        assert_eq!(means(&found), [0.5, 1.0]);
    }
}
