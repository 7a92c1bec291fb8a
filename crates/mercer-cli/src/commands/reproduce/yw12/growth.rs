//! How time and memory grow with the number of rows, on rows made here; of `--repeats N` rounds, each with an order
//! of its own, the best time of each size counts.

use mercer::data::{Dataset, synthetic};
use mercer::train::Report;
use serde_json::{Value, json};

use super::Run;
use super::methods::learn;

const COLUMNS: usize = 1000;

/// From a hundredth of the largest number of rows on, half a power of ten apart.
pub(super) fn run(run: &Run<'_>) -> anyhow::Result<Value> {
    let most = run.arguments.rows.max(100);
    run.line(&format!(
        "\ngrowth: histograms of {COLUMNS} columns, chi2, C = 0.1\n{:>10} {:>12} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "rows", "non-zeros", "seconds", "of which", "MB", "visits", "B / nz"
    ));
    let sizes = (0..=4).rev().map(|step| most as f64 / 10f64.powf(f64::from(step) / 2.0));
    let made = |rows: f64| -> anyhow::Result<Dataset> {
        run.stop.check()?;
        Ok(synthetic::histograms(rows.round() as usize, COLUMNS, 1))
    };
    let sets: Vec<Dataset> = sizes.map(made).collect::<anyhow::Result<_>>()?;
    let mut best: Vec<Option<Report>> = sets.iter().map(|_| None).collect();
    // Round by round, so that what else the computer does hits all sizes alike; each round has an order of its own.
    for seed in 1..=run.arguments.repeats.max(1) {
        for (data, best) in sets.iter().zip(&mut best) {
            // Short trainings are the noisier ones.
            for _ in 0..(2_000_000 / data.examples.rows().max(1)).clamp(1, 3) {
                let report = timed(run, data, seed)?;
                if best.as_ref().is_none_or(|best| report.seconds < best.seconds) {
                    *best = Some(report);
                }
            }
        }
    }
    let (mut lines, mut points) = (Vec::new(), Vec::new());
    for report in best.iter().flatten() {
        let rows = sets[lines.len()].examples.rows();
        let table = report.table.as_deref();
        let (nonzeros, preparation) = table.map_or((0, 0.0), |t| (t.nonzeros, t.preparation));
        // Less what each row and the model take.
        let model = COLUMNS * 4 * table.map_or(0, |table| table.rank);
        let own = report.peak_memory_bytes as f64 - (24 * rows + model) as f64;
        let per_nonzero = own / nonzeros.max(1) as f64;
        run.line(&format!(
            "{rows:>10} {nonzeros:>12} {:>9.3} {preparation:>9.3} {:>9.1} {:>9} {per_nonzero:>7.2}",
            report.seconds,
            report.peak_memory_bytes as f64 / 1e6,
            report.iterations,
        ));
        points.push(((rows as f64).ln(), report.seconds.max(1e-9).ln()));
        lines.push(json!({
            "rows": rows, "nonzeros": nonzeros, "seconds": report.seconds,
            "preparation_seconds": preparation, "memory_bytes": report.peak_memory_bytes,
            "bytes_per_nonzero_beside_24_per_row_and_model": per_nonzero,
            "visits": report.iterations, "visits_per_row": report.iterations as f64 / rows as f64,
        }));
    }
    let exponent = slope(&points);
    run.line(&format!("time grows as rows^{exponent:.3}"));
    Ok(json!({ "rows": lines, "time_exponent": exponent }))
}

fn timed(run: &Run<'_>, data: &Dataset, seed: u32) -> anyhow::Result<Report> {
    Ok(learn(run, data, ("chi2", &format!("additive(seed={seed})")), 0.1)?.report)
}

/// Of the line of least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let joint: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    joint / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_slope_of_a_line_is_found() {
        let points: Vec<(f64, f64)> = (0..5).map(f64::from).map(|x| (x, 2.0 + 1.5 * x)).collect();
        assert!((super::slope(&points) - 1.5).abs() < 1e-12);
    }
}
