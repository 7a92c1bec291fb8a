//! Tables of measurements, and the page a table is published on.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::figures::Figure;
use crate::workspace::{Workspace, stdout_of};

/// How queries were asked: all at once, or one by one.
const MODES: [&str; 2] = ["batch", "single"];
/// The series the others are compared with.
const REFERENCE: &str = "mercer exact";

/// One program, asked in one way, on one task.
#[derive(Debug, PartialEq)]
pub struct Series {
    task: String,
    mode: &'static str,
    name: String,
    /// Microseconds per query.
    micros: f64,
    /// How many labels are not those of LIBSVM, where the program says.
    differs: Option<u64>,
}

/// The series in what a program printed.
///
/// A number under `<name>_<batch|single>[_<variant>]_us` is a time in microseconds per query;
/// `<name>_differs` counts wrong labels. Objects inside the object join their keys with `_`, so
/// `{"exact": {"batch_us": 3}}` says the same as `{"exact_batch_us": 3}`.
pub fn series_of(program: &str, task: &str, answer: &Value) -> Vec<Series> {
    let mut numbers = Vec::new();
    flatten("", answer, &mut numbers);
    let mut numbers = all_cores_first(&numbers);
    numbers.sort_by(|a, b| a.0.cmp(&b.0));
    let mut found = Vec::new();
    for (key, micros) in &numbers {
        let Some(key) = key.strip_suffix("_us") else {
            continue;
        };
        for mode in MODES {
            let words: Vec<_> = key.split('_').collect();
            let Some(place) = words.iter().position(|word| *word == mode) else {
                continue;
            };
            let owner = words[..place].join("_");
            let counted = format!("{owner}_differs");
            let differs = numbers.iter().find(|(key, _)| *key == counted);
            let name = [program, &owner.replace('_', " "), &words[place + 1..].join(" ")].join(" ");
            found.push(Series {
                task: task.to_owned(),
                mode,
                name: name.split_whitespace().collect::<Vec<_>>().join(" "),
                micros: *micros,
                differs: differs.map(|(_, count)| *count as u64),
            });
        }
    }
    found
}

/// Peers use all cores: `exact_batch_us_all_threads` becomes `exact_batch_us`, and what had that name
/// becomes a variant.
fn all_cores_first(numbers: &[(String, f64)]) -> Vec<(String, f64)> {
    let rename = |(key, number): &(String, f64)| {
        let has_twin = numbers.iter().any(|(other, _)| *other == format!("{key}_all_threads"));
        let key = match key.strip_suffix("_all_threads") {
            Some(plain) => plain.to_owned(),
            None if has_twin => key.replace("_batch_us", "_batch_one_thread_us"),
            None => key.clone(),
        };
        (key, *number)
    };
    numbers.iter().map(rename).collect()
}

fn flatten(prefix: &str, value: &Value, numbers: &mut Vec<(String, f64)>) {
    if let Some(number) = value.as_f64() {
        numbers.push((prefix.to_owned(), number));
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        let joined = if prefix.is_empty() { key.clone() } else { format!("{prefix}_{key}") };
        flatten(&joined, inner, numbers);
    }
}

/// The same as figures, for JSON.
pub fn figures(rows: &[Series]) -> Vec<Figure> {
    let figure = |row: &Series| Figure {
        name: format!("{}, {}, {}", row.task, row.mode, row.name),
        value: row.micros,
        unit: "µs per query",
        differs: row.differs,
    };
    rows.iter().map(figure).collect()
}

/// The peers' versions as one line, if the answer has them.
pub fn versions_of(answer: &Value) -> Option<String> {
    let versions = answer.get("versions")?.as_object()?;
    let named = versions.iter().filter_map(|(name, v)| Some(format!("{name} {}", v.as_str()?)));
    Some(format!("Peers: {}", named.collect::<Vec<_>>().join(", ")))
}

/// A Markdown table: times, and ratios to Mercer's exact plan (2.00: takes twice as long).
pub fn table(rows: &[Series]) -> String {
    let head = ["task", "asked", "program", "µs per query", "/ exact", "labels differ"];
    let mut cells = vec![head.map(str::to_owned)];
    for row in rows {
        let ratio = reference(rows, row).map(|base| format!("{:.2}", row.micros / base));
        cells.push([
            row.task.clone(),
            row.mode.to_owned(),
            row.name.clone(),
            format!("{:.2}", row.micros),
            ratio.unwrap_or_default(),
            row.differs.map(|count| count.to_string()).unwrap_or_default(),
        ]);
    }
    aligned(&cells)
}

/// The time of the reference on the same task, asked in the same way.
fn reference(rows: &[Series], row: &Series) -> Option<f64> {
    let same = |other: &&Series| {
        other.name == REFERENCE && other.task == row.task && other.mode == row.mode
    };
    rows.iter().find(same).map(|other| other.micros)
}

/// Rows of a Markdown table with columns of equal width; numbers, from the fourth, to the right.
fn aligned<const COLUMNS: usize>(cells: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| width(column).unwrap_or(0).max(3));
    let mut text = String::new();
    for (number, row) in cells.iter().enumerate() {
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            let _ = if column < 3 {
                write!(text, "| {cell}{padding} ")
            } else {
                write!(text, "| {padding}{cell} ")
            };
        }
        text += "|\n";
        if number == 0 {
            for (column, &width) in widths.iter().enumerate() {
                let end = if column < 3 { "-" } else { ":" };
                let _ = write!(text, "| {}{end} ", "-".repeat(width - 1));
            }
            text += "|\n";
        }
    }
    text
}

/// The page for `docs/benchmarks/`: what, when, where, how, and the table.
pub fn page(
    workspace: &Workspace,
    title: &str,
    command: &str,
    table: &str,
    notes: &[String],
) -> String {
    let mut text = format!("# {title}, {}\n\n", today());
    let _ = writeln!(text, "- Machine: {}", machine());
    let _ = writeln!(text, "- Commit: {}", commit(workspace));
    let _ = writeln!(text, "- Command: `{command}`\n\n{table}");
    for note in notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

pub(super) fn commit(workspace: &Workspace) -> String {
    let describe = ["describe", "--always", "--dirty", "--exclude=*"];
    let said = stdout_of(workspace.command("git").args(describe));
    said.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// The processor's name where the system tells it, and how many threads there are.
pub(super) fn machine() -> String {
    let facts = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = facts.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let has = |flag: &str| facts.split_whitespace().any(|word| word == flag);
    let widest =
        [("avx512_vnni", ", AVX-512 with VNNI"), ("avx512f", ", AVX-512"), ("avx2", ", AVX2")];
    let widest = widest.iter().find(|(flag, _)| has(flag)).map_or("", |(_, name)| name);
    format!("{model}{widest}, {threads} threads, {}", std::env::consts::OS)
}

/// The date of today in UTC: 2026-01-31.
pub(super) fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = date((seconds / 86_400) as i64);
    format!("{year}-{month:02}-{day:02}")
}

/// Year, month and day of a number of days since 1970-01-01, by Hinnant's `civil_from_days`.
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468; // days since 0000-03-01, so that leap days end a year
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_found_by_their_keys() {
        let threads = json!({"exact_batch_us": 9.0, "exact_batch_us_all_threads": 5.0});
        let rows = series_of("mercer", "x", &threads);
        let named = |name: &str| rows.iter().find(|row| row.name == name).map(|row| row.micros);
        assert_eq!(named("mercer exact"), Some(5.0));
        assert_eq!(named("mercer exact one thread"), Some(9.0));
        let answer = json!({"queries": 7, "intelex_batch_f32_us": 2.5, "intelex_differs": 3});
        let found = series_of("", "digits", &answer);
        let expected = Series {
            task: "digits".to_owned(),
            mode: "batch",
            name: "intelex f32".to_owned(),
            micros: 2.5,
            differs: Some(3),
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn ratios_are_to_exact_on_the_same_task_asked_the_same_way() {
        let mercer = json!({"exact": {"batch_us": 2.0, "single_us": 4.0}});
        let mut rows = series_of("mercer", "digits", &mercer);
        rows.extend(series_of("", "digits", &json!({"sklearn_single_us": 10.0})));
        rows.extend(series_of("", "sonar", &json!({"sklearn_single_us": 10.0})));
        let table = table(&rows);
        let ratio =
            |line: usize| table.lines().nth(line).unwrap().split('|').nth(5).unwrap().trim();
        assert_eq!([2, 3, 4, 5].map(ratio), ["1.00", "1.00", "2.50", ""]);
    }

    #[test]
    fn versions_make_one_line() {
        let answer = json!({"versions": {"numpy": "2.1", "python": "3.11"}});
        assert_eq!(versions_of(&answer).unwrap(), "Peers: numpy 2.1, python 3.11");
        assert_eq!(versions_of(&json!({})), None);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(20_453), (2025, 12, 31));
    }
}
