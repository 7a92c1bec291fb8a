//! Reading LIBSVM text: a9a written again and again up to 100 MB, and what scikit-learn needs for the same file.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Options, report};
use crate::workspace::{self, Workspace, stdout_of};

/// Size of the file that is read.
const BYTES: usize = 100_000_000;
/// Readings of which the fastest counts; programs take turns, so that a busy moment hurts all alike.
const REPEATS: usize = 5;
const PEER_REPEATS: usize = 2;

/// What a program says about one reading, and its name.
struct Reading {
    name: String,
    seconds: f64,
    matrix: f64,
    peak: f64,
}

/// Prints seconds and memory; fails if rows or non-zeros differ.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let prepared = match &options.prepared {
        Some(folder) => std::path::absolute(folder)?,
        None => workspace.target.join("bench"),
    };
    let source = prepared.join("a9a.train.svm");
    if !source.is_file() {
        let (out, data) = (workspace.shown(&prepared), "../shared/data");
        println!("read: skipped, no rows of a9a in {out}");
        println!("  this writes them: PYTHON benches/peers/rows.py --data {data} --out {out} a9a");
        return Ok(ExitCode::SUCCESS);
    }
    let own = workspace.target.join("bench-read");
    fs::create_dir_all(&own).context("cannot make a folder in the target directory")?;
    let file = own.join("a9a-100mb.svm");
    let (copies, size) = repeated(&source, &file)?;
    // LIBSVM text needs none of the features, and they take long to build.
    let build = ["build", "--release", "--locked", "-p", "mercer-data", "--no-default-features"];
    workspace::run(workspace.cargo(build).args(["--example", "read"]))?;
    let program = format!("release/examples/read{}", std::env::consts::EXE_SUFFIX);
    let program = workspace.target.join(program);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut counts = vec![threads, 1];
    counts.dedup();
    let mut said: Vec<Vec<Value>> = vec![Vec::new(); counts.len() + 1];
    for repeat in 0..REPEATS {
        for (place, count) in counts.iter().enumerate() {
            let mut command = workspace.command(&program);
            command.arg(&file).env("RAYON_NUM_THREADS", count.to_string());
            said[place].push(object(&mut command)?);
        }
        if let Some(python) = options.peers.as_ref().filter(|_| repeat < PEER_REPEATS) {
            let mut command = workspace.command(python);
            said[counts.len()].push(object(command.arg("benches/peers/read.py").arg(&file))?);
        }
    }
    fs::remove_file(&file)?;
    let mut names: Vec<String> = counts.iter().map(|n| format!("mercer, {n} threads")).collect();
    names.push("load_svmlight_file".to_owned());
    let all = names.into_iter().zip(&said).filter(|(_, said)| !said.is_empty());
    let readings = all.map(|(name, said)| best(name, said)).collect::<Result<Vec<_>>>()?;
    let every: Vec<&Value> = said.iter().flatten().collect();
    for key in ["rows", "columns", "nonzeros"] {
        ensure!(every.iter().all(|one| one[key] == every[0][key]), "{key} differ between programs");
    }
    let table = table(&readings, size as f64);
    let mut notes = vec![format!(
        "a9a written {copies} times, {size} bytes: {} rows, {} non-zeros; the fastest of {REPEATS} \
         readings ({PEER_REPEATS} of the peer), the largest memory of them",
        every[0]["rows"], every[0]["nonzeros"]
    )];
    notes.extend(said.last().and_then(|peer| peer.first()).and_then(report::versions_of));
    print!("{table}");
    notes.iter().for_each(|note| println!("{note}"));
    if let Some(file) = &options.write {
        let command = "cargo xtask bench read --prepared DIR --peers PYTHON";
        let page = report::page(&workspace, "Reading LIBSVM text", command, &table, &notes);
        fs::write(file, page).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the source as often as it takes; tells how often, and the size.
fn repeated(source: &Path, file: &Path) -> Result<(usize, usize)> {
    let text = fs::read(source).with_context(|| source.display().to_string())?;
    ensure!(text.ends_with(b"\n"), "{}: the last line does not end", source.display());
    let copies = BYTES.div_ceil(text.len());
    let mut out = fs::File::create(file).with_context(|| file.display().to_string())?;
    for _ in 0..copies {
        out.write_all(&text)?;
    }
    Ok((copies, copies * text.len()))
}

fn object(command: &mut Command) -> Result<Value> {
    serde_json::from_str(&stdout_of(command)?).context("not one JSON object")
}

fn best(name: String, said: &[Value]) -> Result<Reading> {
    let numbers = |key: &str| said.iter().filter_map(|one| one[key].as_f64()).collect::<Vec<_>>();
    let seconds = numbers("seconds").into_iter().fold(f64::INFINITY, f64::min);
    ensure!(seconds.is_finite(), "{name} printed no seconds");
    let largest = |key: &str| numbers(key).into_iter().fold(0.0, f64::max);
    Ok(Reading { seconds, matrix: largest("matrix_bytes"), peak: largest("peak_bytes"), name })
}

/// Times as ratios to the first line; memory beside the file plus 1.3 times the matrix.
fn table(readings: &[Reading], size: f64) -> String {
    let mut text = String::from(
        "| program | seconds | / mercer | matrix MB | peak MB | file + 1.3 matrix MB |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    let base = readings.first().map_or(f64::NAN, |first| first.seconds);
    for Reading { name, seconds, matrix, peak } in readings {
        let (ratio, allowed) = (seconds / base, (size + 1.3 * matrix) / 1e6);
        let (matrix, peak) = (matrix / 1e6, peak / 1e6);
        let _ = writeln!(
            text,
            "| {name} | {seconds:.3} | {ratio:.2} | {matrix:.1} | {peak:.1} | {allowed:.1} |"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_reading_counts_with_the_largest_memory() {
        let one = |seconds: f64, peak: f64| serde_json::json!({"seconds": seconds, "matrix_bytes": 2e6, "peak_bytes": peak});
        let own = best("own".into(), &[one(2.0, 3e6), one(1.0, 4e6)]).unwrap();
        let other = best("other".into(), &[one(3.0, 9e6)]).unwrap();
        let text = table(&[own, other], 1e6);
        assert!(text.contains("| own | 1.000 | 1.00 | 2.0 | 4.0 | 3.6 |"), "{text}");
        assert!(text.contains("| other | 3.000 | 3.00 | 2.0 | 9.0 | 3.6 |"), "{text}");
        assert!(best("none".into(), &[]).is_err());
    }
}
