//! How time and memory grow with the number of rows, on synthetic rows; of `--repeats N` rounds, each with its own
//! random permutation, the best time of each size counts.

use mercer::data::{Dataset, synthetic};
use mercer::train::Report;

use super::methods::{Learner, train_on};
use crate::{Comparison, Session};

const COLUMNS: usize = 1000;

/// From a hundredth of the largest number of rows on, half a power of ten apart.
pub(super) fn run(session: &Session<'_>) -> anyhow::Result<()> {
    let most = session.options.rows.max(100);
    let sizes = (0..=4).rev().map(|step| most as f64 / 10f64.powf(f64::from(step) / 2.0));
    let made = |rows: f64| -> anyhow::Result<Dataset> {
        session.check()?;
        Ok(synthetic::histograms(rows.round() as usize, COLUMNS, 1))
    };
    let sets: Vec<Dataset> = sizes.map(made).collect::<anyhow::Result<_>>()?;
    let mut best: Vec<Option<Report>> = sets.iter().map(|_| None).collect();
    // Round by round, so that other load on the computer affects all sizes; each round has its own permutation.
    for seed in 1..=session.options.repeats.max(1) {
        for (data, best) in sets.iter().zip(&mut best) {
            // Timings of short trainings are noisier.
            for _ in 0..(2_000_000 / data.examples.rows().max(1)).clamp(1, 3) {
                let report = timed(session, data, seed)?;
                if best.as_ref().is_none_or(|best| report.seconds < best.seconds) {
                    *best = Some(report);
                }
            }
        }
    }
    let mut points = Vec::new();
    let name = format!("histograms of {COLUMNS} columns, chi2, C = 0.1");
    for (data, report) in sets.iter().zip(best.iter().flatten()) {
        let rows = data.examples.rows();
        let table = report.linear.as_deref();
        let (nonzeros, preparation) = table.map_or((0, 0.0), |t| (t.nonzeros, t.preparation));
        // Without the memory of each row and of the model.
        let model = COLUMNS * 4 * table.map_or(0, |table| table.rank);
        let own = report.peak_memory_bytes as f64 - (24 * rows + model) as f64;
        let per_nonzero = own / nonzeros.max(1) as f64;
        let method = format!("additive, {rows} rows");
        let row = |measure: &str| Comparison::new(&*name, &*method, measure);
        let of_which = format!("{preparation:.3} s of it before the first pass");
        session.compare(row("training time").ours(report.seconds).unit("s").note(of_which));
        let memory = row("memory").ours(report.peak_memory_bytes as f64 / 1e6).unit("MB");
        session.compare(memory.note(format!("{per_nonzero:.2} bytes for each non-zero")));
        points.push(((rows as f64).ln(), report.seconds.max(1e-9).ln()));
    }
    let row = Comparison::new(&*name, "additive", "exponent of time in rows");
    session.compare(row.ours(slope(&points)));
    Ok(())
}

fn timed(session: &Session<'_>, data: &Dataset, seed: u32) -> anyhow::Result<Report> {
    let solver = format!("additive(seed={seed})");
    let learner = Learner { kernel: "chi2", solver: &solver };
    Ok(train_on(session, data, learner, 0.1)?.report)
}

/// The slope of the least-squares line.
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
