//! Tuning machines of every kind: is the plan that is kept ever slower than exact, does it keep its contract, and
//! how does it do beside plans written by hand?

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

/// Two timing runs of the same plan may differ by so much.
const NOISE: f64 = 0.10;
/// Of the speed of the best plan written by hand at least so much is asked for.
const OF_BY_HAND: f64 = 0.90;

/// Tunes all machines, or the prepared ones that are named; fails if one of them is slower than exact, much slower than
/// a hand-written plan, or does not keep its contract.
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
    if !options.tasks.is_empty() {
        command.arg("--files-only");
    }
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
         tuning never saw; the best of 15 to 200 timing runs in \
         five memory layouts; few queries are repeated to a longer batch"
            .to_owned(),
        noise(&rows),
        "By hand: the fastest of the plans in `BY_HAND` of the sweep, compiled with the same sample and the same \
         training rows, if there are any, and its time over that of the plan that was kept"
            .to_owned(),
        format!(
            "{} of {} plans are slower than exact, slower than {OF_BY_HAND} of one by hand, or break their contract",
            failed.len(),
            rows.len()
        ),
    ];
    notes.extend(rows.iter().flat_map(broken));
    let cut = rows.iter().filter(|row| row.get("is_cut_short") == Some(&Value::Bool(true)));
    notes.push(format!("{} searches were ended by their time limit", cut.count()));
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

/// In what a plan is measured by what it was tuned for.
fn kind(row: &Value) -> &'static str {
    if text(row, "aim") == "latency" { "single" } else { "batch" }
}

/// The fastest hand-written plan that keeps the contract, and its time over that of the plan that was kept.
fn by_hand(row: &Value) -> Option<(&str, f64)> {
    let key = format!("{}_us", kind(row));
    let plans = row.get("hand_written")?.as_array()?.iter();
    let plans = plans.filter(|plan| number(plan, "disagreements") <= most_others(row));
    let best = plans.min_by(|a, b| number(a, &key).total_cmp(&number(b, &key)))?;
    Some((text(best, "plan"), number(best, &key) / number(row, &key)))
}

/// Hand-written plans that are left out of the comparison, as they break the contract.
fn broken(row: &Value) -> Vec<String> {
    let plans = row.get("hand_written").and_then(Value::as_array).into_iter().flatten();
    let broken = plans.filter(|plan| number(plan, "disagreements") > most_others(row));
    let (machine, queries) = (text(row, "machine"), number(row, "queries"));
    let told = |plan: &Value| {
        let (spec, others) = (text(plan, "plan"), number(plan, "disagreements"));
        format!(
            "{machine}: the hand-written plan `{spec}` disagrees on {others} of {queries} labels and is not compared with"
        )
    };
    broken.map(told).collect()
}

/// Disagreements that the contract allows. A proved label is never another one; a calibrated share of 0.01
/// may be exceeded by three standard deviations.
fn most_others(row: &Value) -> f64 {
    match text(row, "contract") {
        "certified" => 0.0,
        _ => {
            let expected = 0.01 * number(row, "queries");
            expected + 3.0 * expected.sqrt()
        }
    }
}

/// What the clock can tell: every plan that was kept ran twice in its race.
fn noise(rows: &[Value]) -> String {
    let between = |row: &Value| {
        let of = |key: &str| number(row, &format!("{key}{}_us", kind(row)));
        let (once, again) = (of(""), of("again_"));
        once.max(again) / once.min(again) - 1.0
    };
    let mut all: Vec<f64> = rows.iter().map(between).filter(|share| share.is_finite()).collect();
    all.sort_by(f64::total_cmp);
    let (middle, most) = (all.get(all.len() / 2), all.last());
    let percent = |share: Option<&f64>| 100.0 * share.copied().unwrap_or(f64::NAN);
    format!(
        "Every plan that was kept ran as two racers: they differ by {:.1} % (median), {:.1} % at most",
        percent(middle),
        percent(most),
    )
}

/// What is wrong with a row, if anything is.
fn failure(row: &Value) -> Option<String> {
    let (kind, (batch, single)) = (kind(row), speedups(row));
    let (queries, others) = (number(row, "queries"), number(row, "disagreements"));
    let who = format!("{}, {}, {kind}", text(row, "machine"), text(row, "contract"));
    if others > most_others(row) {
        return Some(format!("{who}: {others} of {queries} labels are others"));
    }
    let faster = if kind == "single" { single } else { batch };
    if faster.is_nan() || faster < 1.0 - NOISE {
        return Some(format!("{who}: {faster:.2}x as fast as exact"));
    }
    let (plan, share) = by_hand(row)?;
    (share < OF_BY_HAND).then(|| format!("{who}: {share:.2}x as fast as `{plan}`"))
}

fn table(rows: &[Value]) -> String {
    let mut out = String::from(
        "| machine | columns | supports | contract | for | plan | batch us | faster | single us | faster | disagreements | \
         by hand |\n|---|---:|---:|---|---|---|---:|---:|---:|---:|---:|---|\n",
    );
    for row in rows {
        let (batch, single) = speedups(row);
        let by_hand = by_hand(row)
            .map_or(String::new(), |(plan, share)| format!("{:.0} %: `{plan}`", 100.0 * share));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | `{}` | {:.3} | {batch:.2} | {:.3} | {single:.2} | {} of {} | {by_hand} |",
            text(row, "machine"),
            number(row, "columns"),
            number(row, "supports"),
            text(row, "contract"),
            kind(row),
            text(row, "plan"),
            number(row, "batch_us"),
            number(row, "single_us"),
            number(row, "disagreements"),
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
        json!({"machine": "m", "contract": contract, "queries": 1000, "disagreements": others,
               "exact_batch_us": 1.0, "batch_us": batch, "exact_single_us": 1.0, "single_us": 1.0})
    }

    #[test]
    fn the_noise_is_that_of_a_plan_beside_itself() {
        let rows: Vec<Value> = [0.5, 0.55, 0.8]
            .map(|again| {
                let mut row = row("certified", 0.5, 0);
                row["again_batch_us"] = json!(again);
                row
            })
            .into();
        let told = noise(&rows);
        assert!(told.ends_with("by 10.0 % (median), 60.0 % at most"), "{told}");
    }

    #[test]
    fn slow_plans_and_broken_contracts_are_told() {
        assert_eq!(failure(&row("certified", 1.05, 0)), None);
        assert_eq!(
            failure(&row("certified", 1.5, 0)).as_deref(),
            Some("m, certified, batch: 0.67x as fast as exact")
        );
        assert!(failure(&row("certified", 0.5, 1)).is_some());
        assert_eq!(failure(&row("calibrated(eps=0.01, delta=0.05)", 0.5, 12)), None);
        assert!(failure(&row("calibrated(eps=0.01, delta=0.05)", 0.5, 30)).is_some());
        let mut beside = row("certified", 0.5, 0);
        let by_hand = |us: f64| {
            json!([{"plan": "p", "batch_us": us, "single_us": 1.0, "disagreements": 0},
                   {"plan": "wrong", "batch_us": 0.1, "single_us": 0.1, "disagreements": 1}])
        };
        beside["hand_written"] = by_hand(0.46);
        assert_eq!(failure(&beside), None);
        beside["hand_written"] = by_hand(0.4);
        assert_eq!(failure(&beside).as_deref(), Some("m, certified, batch: 0.80x as fast as `p`"));
        assert_eq!(
            broken(&beside),
            [
                "m: the hand-written plan `wrong` disagrees on 1 of 1000 labels and is not compared with"
            ]
        );
        // For single queries only those count.
        beside["aim"] = json!("latency");
        assert_eq!(failure(&beside), None);
    }
}
