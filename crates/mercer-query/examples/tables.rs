//! What a machine of tables takes for one non-zero value: to find its level, and to read its entries.
//!
//! `cargo run --release -p mercer-query --example tables -- MODEL ROWS`

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use mercer_data::read;
use mercer_machine::file;
use mercer_query::Exact;

/// Timings of which the best counts.
const REPEATS: usize = 15;

fn best(mut work: impl FnMut()) -> f64 {
    let one = |_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    };
    (0..REPEATS).map(one).fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [model, rows] = words.as_slice() else { return Err("tables MODEL ROWS".into()) };
    let machine = file::load(Path::new(model))?.machine;
    let rows = read::dataset(Path::new(rows), &read::Options::default())?.examples;
    let grid = machine.grid().ok_or("not a machine of tables")?;
    let exact = Exact::new(&machine);
    let (nonzeros, scores) = (rows.nonzeros() as f64, machine.scores().len());
    let (mut columns, mut values, mut levels) = (Vec::new(), Vec::new(), Vec::new());
    let binning = best(|| {
        for row in rows.iter() {
            columns.clear();
            values.clear();
            row.nonzeros().filter(|(column, _)| (*column as usize) < machine.columns()).for_each(
                |(column, value)| {
                    columns.push(column);
                    values.push(value);
                },
            );
            levels.resize(values.len(), 0);
            grid.levels_of(&columns, &values, black_box(&mut levels));
        }
    });
    let mut scratch = exact.scratch();
    let mut out = vec![0.0; rows.rows() * scores];
    let all = best(|| {
        let rows = (0..rows.rows()).map(|row| rows.row(row));
        exact.scores(rows, &mut scratch, black_box(&mut out));
    });
    let each = |seconds: f64| 1e9 * seconds / nonzeros;
    println!(
        "{{\"nonzeros\": {nonzeros}, \"scores\": {scores}, \"binning_ns\": {}, \"all_ns\": {}}}",
        each(binning),
        each(all)
    );
    Ok(())
}
