//! Reads a data file and tells, as one JSON object, how long that took and how much memory it needed.
//!
//! `cargo run --release -p mercer-data --example read -- FILE`

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use mercer_data::read::{Options, dataset};

fn main() -> Result<(), Box<dyn Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("a data file is needed")?);
    let start = Instant::now();
    let data = dataset(&path, &Options::default())?;
    let seconds = start.elapsed().as_secs_f64();
    let examples = &data.examples;
    let bytes = match examples.as_sparse() {
        Some((starts, indices, values)) => 8 * starts.len() + 4 * indices.len() + 8 * values.len(),
        None => 8 * examples.rows() * examples.columns(),
    };
    let (rows, columns, nonzeros) = (examples.rows(), examples.columns(), examples.nonzeros());
    let peak = peak().map_or_else(|| "null".to_owned(), |bytes| bytes.to_string());
    println!(
        "{{\"seconds\":{seconds},\"rows\":{rows},\"columns\":{columns},\"nonzeros\":{nonzeros},\
         \"matrix_bytes\":{bytes},\"peak_bytes\":{peak}}}"
    );
    Ok(())
}

/// The largest resident size so far, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}
