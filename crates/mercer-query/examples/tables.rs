//! What a machine of tables takes for a row and for one of its non-zero values: to find levels, to read entries of
//! rows that have levels, and for both.
//!
//! `cargo run --release -p mercer-query --example tables -- MODEL ROWS`
//!
//! Each is measured on the rows as they are and on their first halves and quarters; a line through the three is what a
//! row takes, whatever its length, and what each of its values adds.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use mercer_data::{Row, read};
use mercer_machine::file;
use mercer_query::{Binned, Exact, Tables};
use mercer_simd::Isa;

/// Timings of which the best counts.
const REPEATS: usize = 25;
/// Rows that are asked together.
const BLOCK: usize = 256;

fn best(mut work: impl FnMut()) -> f64 {
    let one = |_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    };
    (0..REPEATS).map(one).fold(f64::INFINITY, f64::min)
}

/// Seconds of everything, of levels, and of entries.
fn measure(exact: &Exact, tables: &Tables, rows: &[Row<'_>]) -> [f64; 3] {
    let scores = exact.machine().scores().len();
    let mut out = vec![0.0; rows.len() * scores];
    let (mut scratch, mut binned) = (exact.scratch(), Binned::default());
    let both = best(|| {
        for (rows, out) in rows.chunks(BLOCK).zip(out.chunks_mut(BLOCK * scores)) {
            exact.scores(rows.iter().copied(), &mut scratch, black_box(out));
        }
    });
    let levels = best(|| {
        for rows in rows.chunks(BLOCK) {
            tables.bin(rows.iter().copied(), black_box(&mut binned));
        }
    });
    let mut blocks: Vec<Binned> = Vec::new();
    for rows in rows.chunks(BLOCK) {
        let mut binned = Binned::default();
        tables.bin(rows.iter().copied(), &mut binned);
        blocks.push(binned);
    }
    let entries = best(|| {
        for (binned, out) in blocks.iter_mut().zip(out.chunks_mut(BLOCK * scores)) {
            tables.read(binned, black_box(out));
        }
    });
    [both, levels, entries]
}

/// The line of least squares `seconds = a rows + b values` through points of equally many rows.
fn line(points: &[(f64, f64)], rows: f64) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let joint: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let slope = joint / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>();
    ((y - slope * x) / rows, slope)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [model, rows] = words.as_slice() else { return Err("tables MODEL ROWS".into()) };
    let machine = file::load(Path::new(model))?.machine;
    let rows = read::dataset(Path::new(rows), &read::Options::default())?.examples;
    let tables = Tables::new(&machine, Isa::current()).ok_or("not a machine of tables")?;
    let (exact, scores) = (Exact::new(&machine), machine.scores().len());
    let mut kept: Vec<(Vec<u32>, Vec<f64>)> = Vec::new();
    for row in rows.iter() {
        let inside = row.nonzeros().filter(|(column, _)| (*column as usize) < machine.columns());
        kept.push(inside.unzip());
    }
    let part = |share: usize| -> Vec<Row<'_>> {
        kept.iter()
            .map(|(columns, values)| {
                let length = columns.len().div_ceil(share);
                Row::Sparse { columns: &columns[..length], values: &values[..length] }
            })
            .collect()
    };
    let mut points: [Vec<(f64, f64)>; 3] = Default::default();
    for share in [1, 2, 4] {
        let rows = part(share);
        let values: usize = rows.iter().map(|row| row.nonzeros().count()).sum();
        let found = measure(&exact, &tables, &rows);
        points.iter_mut().zip(found).for_each(|(points, time)| points.push((values as f64, time)));
    }
    let (count, nonzeros) = (kept.len() as f64, points[0][0].0);
    print!("{{\"rows\": {count}, \"nonzeros\": {nonzeros}, \"scores\": {scores}");
    for (name, points) in ["all", "binning", "reading"].iter().zip(&points) {
        let (row, value) = line(points, count);
        print!(
            ", \"{name}\": {{\"ns_per_nonzero\": {}, \"row_ns\": {}, \"value_ns\": {}}}",
            1e9 * points[0].1 / nonzeros,
            1e9 * row,
            1e9 * value,
        );
    }
    println!("}}");
    Ok(())
}
