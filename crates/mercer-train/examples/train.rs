//! Trains on a file and prints the report; used by the benchmarks. The command line for users is `mercer train`.
//!
//! `cargo run --release -p mercer-train --example train -- FILE.svm --kernel 'rbf(gamma=0.02)' --c 10`
//!
//! Further options: `--formulation 'nu_svc(nu=0.3)'`, `--solver`, `--tolerance`, `--memory MB`,
//! `--time-limit SECONDS`, `--scheme ovr`, `--rows N` (the first ones only), `--test FILE`, `--json yes`, `--progress yes`,
//! `--polish yes` (from low rank to the exact machine), `--out MODEL`.

use std::path::Path;
use std::time::Duration;

use mercer_data::{Dataset, Matrix, Targets, read};
use mercer_kernel::block::{BLOCK, Packed};
use mercer_machine::{Answer, Machine, Scheme, Score};
use mercer_simd::Isa;
use mercer_train::{Report, Training, formulation, solver, train};
use rayon::prelude::*;

type Failure = Box<dyn std::error::Error>;

struct Words(Vec<String>);

impl Words {
    fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().position(|word| word == name)?;
        self.0.get(at + 1).map(String::as_str)
    }
}

fn main() -> Result<(), Failure> {
    let words = Words(std::env::args().skip(1).collect());
    let mut data = load(words.0.first().ok_or("which file?")?)?;
    if let Some(rows) = words.get("--rows") {
        let first: Vec<usize> = (0..data.examples.rows()).take(rows.parse()?).collect();
        data = data.select(&first);
    }
    let kernel = mercer_kernel::parse(words.get("--kernel").unwrap_or("rbf(gamma=1)"))?;
    let c_svc = format!("c_svc(C={})", words.get("--c").unwrap_or("1"));
    let formulation = formulation(words.get("--formulation").unwrap_or(&c_svc))?;
    let progress = words.get("--progress").is_some();
    let before = processor_seconds();
    let trained = train(&data, &kernel, &formulation, &training(&words)?, &mut |at| {
        if progress {
            eprintln!("{at:?}");
        }
    })?;
    let used = processor_seconds().zip(before).map(|(after, before)| after - before);
    let peak = peak_megabytes();
    let quality = match words.get("--test") {
        Some(file) => Some(quality(&trained.machine, &load(file)?)),
        None => None,
    };
    if let Some(file) = words.get("--out") {
        let format =
            mercer_machine::file::format("mercer").ok_or("the format mercer is missing")?;
        let model = mercer_machine::Model::from(trained.machine.clone());
        mercer_machine::file::save(&model, format, Path::new(file))?;
    }
    if words.get("--json").is_some() {
        print_json(&trained.report, quality, used, peak);
    } else {
        let mut report = trained.report;
        report.subproblems.clear();
        println!("{report:#?}\n{quality:?}");
        println!("kernel rows: {:.1}", report.kernel_values as f64 / data.examples.rows() as f64);
    }
    Ok(())
}

fn load(file: &str) -> Result<Dataset, Failure> {
    Ok(read::dataset(Path::new(file), &read::Options::default())?)
}

fn training(words: &Words) -> Result<Training, Failure> {
    let mut training = Training::default()
        .solver(solver(words.get("--solver").unwrap_or("smo"))?)
        .tolerance(words.get("--tolerance").unwrap_or("1e-3").parse()?)
        .polish(words.get("--polish").is_some());
    if let Some(megabytes) = words.get("--memory") {
        training = training.memory(megabytes.parse::<usize>()? << 20);
    }
    if let Some(seconds) = words.get("--time-limit") {
        training = training.time_limit(Some(Duration::try_from_secs_f64(seconds.parse()?)?));
    }
    if words.get("--scheme") == Some("ovr") {
        training = training.scheme(Scheme::OneVsRest);
    }
    Ok(training)
}

/// The keys are those of `benches/peers/train.py`.
fn print_json(report: &Report, quality: Option<(&str, f64)>, used: Option<f64>, peak: Option<f64>) {
    let quality = quality.map_or_else(String::new, |(key, value)| format!(", \"{key}\": {value}"));
    let used = used.map_or_else(String::new, |used| format!(", \"cpu_seconds\": {used:.2}"));
    let low_rank = report.low_rank.as_deref().map_or_else(String::new, |low_rank| {
        let megabytes = low_rank.factor_bytes as f64 / 1048576.0;
        let guard = low_rank.guard.as_ref().map_or_else(String::new, |guard| {
            format!(
                ", \"guard\": {:?}, \"guard_exact\": {}, \"guard_low_rank\": {}",
                guard.sentence, guard.exact, guard.low_rank
            )
        });
        format!(", \"rank\": {}, \"factor_mb\": {megabytes}{guard}", low_rank.rank)
    });
    println!(
        "{{\"seconds\": {}{used}, \"objective\": {}, \"gap\": {}, \"n_support\": {}, \"iterations\": {}, \
         \"converged\": {}, \"peak_mb\": {}{quality}{low_rank}}}",
        report.seconds,
        report.objective,
        report.gap,
        report.supports,
        report.iterations,
        report.converged,
        peak.unwrap_or(report.peak_memory_bytes as f64 / 1048576.0),
    );
}

/// CPU seconds of all threads of this process, on Linux: `utime` and `stime` of `/proc/self/stat`, in ticks of 1/100 s.
/// They are the fields 14 and 15; the process name, field 2, may contain spaces.
fn processor_seconds() -> Option<f64> {
    let state = std::fs::read_to_string("/proc/self/stat").ok()?;
    let words: Vec<&str> = state.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |at: usize| words.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

/// Peak memory of this process, on Linux.
fn peak_megabytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

/// Accuracy, or the mean squared error of a regression.
fn quality(machine: &Machine, data: &Dataset) -> (&'static str, f64) {
    let packed = Packed::new(machine.kernel().clone(), machine.supports(), machine.centre());
    let starts: Vec<usize> = (0..data.examples.rows()).step_by(BLOCK).collect();
    let sums: Vec<(f64, f64)> = starts
        .par_iter()
        .flat_map_iter(|start| {
            let end = (start + BLOCK).min(data.examples.rows());
            let scores = scores(machine, &packed, &data.examples, *start..end);
            (*start..end).zip(scores).map(|(row, scores)| {
                let answer = machine.verdict(&scores).answer;
                match (answer, &data.targets) {
                    (Answer::Class(class), Targets::Numbers(all)) => {
                        let right = machine.classes()[class].to_string() == all[row].to_string();
                        (f64::from(u8::from(right)), 0.0)
                    }
                    (Answer::Class(class), Targets::Names(all)) => {
                        let right = machine.classes()[class].to_string() == all[row];
                        (f64::from(u8::from(right)), 0.0)
                    }
                    (Answer::Value(value), Targets::Numbers(all)) => {
                        (0.0, (value - all[row]).powi(2))
                    }
                    _ => (0.0, 0.0),
                }
            })
        })
        .collect();
    let rows = sums.len().max(1) as f64;
    if machine.classes().is_empty() {
        ("mean_squared_error", sums.iter().map(|(_, error)| error).sum::<f64>() / rows)
    } else {
        ("accuracy", sums.iter().map(|(right, _)| right).sum::<f64>() / rows)
    }
}

fn scores(
    machine: &Machine,
    packed: &Packed,
    rows: &Matrix,
    range: std::ops::Range<usize>,
) -> Vec<Vec<f64>> {
    let isa = Isa::current();
    let (mut queries, mut scratch) = (packed.queries(), Vec::new());
    let mut kernel = vec![vec![0.0; packed.rows()]; range.len()];
    let rows = range.map(|row| rows.row(row));
    packed.load(isa, rows.clone(), &mut queries);
    packed.visit(isa, &queries, rows, &mut scratch, |tile| {
        for query in tile.queries.clone() {
            kernel[query][tile.rows.clone()].copy_from_slice(tile.of(query));
        }
    });
    let score = |score: &Score, kernel: &[f64]| match score {
        Score::Expansion { supports, coefficients, offset } => {
            let terms = supports.iter().zip(coefficients);
            terms.map(|(at, beta)| beta * kernel[*at as usize]).sum::<f64>() - offset
        }
        Score::Linear { .. } | Score::Additive { .. } => f64::NAN,
    };
    let all = |kernel: &Vec<f64>| machine.scores().iter().map(|s| score(s, kernel)).collect();
    kernel.iter().map(all).collect()
}
