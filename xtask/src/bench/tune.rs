//! Tuning machines of every kind: is the plan that is kept ever slower than exact, does it keep its contract?

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Options, report};
use crate::workspace::{self, Workspace, stdout_of};

/// Prepared machines of `benches/tasks.toml` that are tuned besides those drawn at random.
const PREPARED: [&str; 6] = ["mnist38", "mnist38_poly2", "mnist10", "a9a", "abalone", "digits"];

/// Two laps of the same plan may differ by so much.
const NOISE: f64 = 0.10;

/// Tunes all machines; fails if one of them is slower than exact or does not keep its contract.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let prepared = match &options.prepared {
        Some(folder) => std::path::absolute(folder)?,
        None => workspace.target.join("bench"),
    };
    let build = ["build", "--release", "--locked", "-p", "mercer", "--example", "sweep"];
    workspace::run(&mut workspace.cargo(build))?;
    let program = format!("release/examples/sweep{}", std::env::consts::EXE_SUFFIX);
    let mut command = workspace.command(workspace.target.join(program));
    let wanted =
        |name: &&&str| options.tasks.is_empty() || options.tasks.iter().any(|t| t == *name);
    for name in PREPARED.iter().filter(wanted) {
        let files: [PathBuf; 2] =
            ["model", "test.svm"].map(|end| prepared.join(format!("{name}.{end}")));
        if files.iter().all(|file| file.is_file()) {
            command.args(files);
        } else {
            println!("tune: skipped, not prepared in {}: {name}", workspace.shown(&prepared));
        }
    }
    let lines = stdout_of(&mut command)?;
    let rows: Vec<Value> =
        lines.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("the sweep")?;
    let table = table(&rows);
    print!("{table}");
    let failed: Vec<String> = rows.iter().filter_map(failure).collect();
    let mut notes = vec![
        "Times of exact answers over times of the plan that was kept, both in one run, in turns, on queries that \
         tuning never saw; the best of 7 laps"
            .to_owned(),
        format!("{} of {} plans are slower or break their contract", failed.len(), rows.len()),
    ];
    notes.extend(failed.iter().cloned());
    notes.iter().for_each(|note| println!("{note}"));
    if let Some(file) = &options.write {
        let mut command = "cargo xtask bench tune --prepared DIR".to_owned();
        command.extend(options.tasks.iter().map(|name| format!(" --task {name}")));
        let title = "Tuning machines of every kind";
        let page = report::page(&workspace, title, &command, &table, &notes);
        fs::write(file, page).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn number(row: &Value, key: &str) -> f64 {
    row.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row.get(key).and_then(Value::as_str).unwrap_or("?")
}

fn speedups(row: &Value) -> (f64, f64) {
    let of =
        |kind: &str| number(row, &format!("exact_{kind}_us")) / number(row, &format!("{kind}_us"));
    (of("batch"), of("single"))
}

/// What is wrong with a row, if anything is. Tuning is for batches, so a batch must not be slower; a proved
/// label is never another one; a calibrated share of 0.01 may be exceeded by three standard deviations.
fn failure(row: &Value) -> Option<String> {
    let (batch, _) = speedups(row);
    let (queries, others) = (number(row, "queries"), number(row, "others"));
    let most = match text(row, "contract") {
        "certified" => 0.0,
        _ => 0.01 * queries + 3.0 * (0.01 * queries).sqrt(),
    };
    let who = format!("{}, {}", text(row, "machine"), text(row, "contract"));
    if others > most {
        return Some(format!("{who}: {others} of {queries} labels are others"));
    }
    (batch.is_nan() || batch < 1.0 - NOISE).then(|| format!("{who}: {batch:.2}x in a batch"))
}

fn table(rows: &[Value]) -> String {
    let mut out = String::from(
        "| machine | columns | supports | contract | plan | batch us | faster | single us | faster | other labels |\n\
         |---|---:|---:|---|---|---:|---:|---:|---:|---:|\n",
    );
    for row in rows {
        let (batch, single) = speedups(row);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | `{}` | {:.3} | {batch:.2} | {:.3} | {single:.2} | {} of {} |",
            text(row, "machine"),
            number(row, "columns"),
            number(row, "supports"),
            text(row, "contract"),
            text(row, "plan"),
            number(row, "batch_us"),
            number(row, "single_us"),
            number(row, "others"),
            number(row, "queries"),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(contract: &str, batch: f64, others: u32) -> Value {
        json!({"machine": "m", "contract": contract, "queries": 1000, "others": others,
               "exact_batch_us": 1.0, "batch_us": batch, "exact_single_us": 1.0, "single_us": 1.0})
    }

    #[test]
    fn slow_plans_and_broken_contracts_are_told() {
        assert_eq!(failure(&row("certified", 1.05, 0)), None);
        assert_eq!(
            failure(&row("certified", 1.5, 0)).as_deref(),
            Some("m, certified: 0.67x in a batch")
        );
        assert!(failure(&row("certified", 0.5, 1)).is_some());
        assert_eq!(failure(&row("calibrated(eps=0.01, delta=0.05)", 0.5, 12)), None);
        assert!(failure(&row("calibrated(eps=0.01, delta=0.05)", 0.5, 30)).is_some());
    }
}
