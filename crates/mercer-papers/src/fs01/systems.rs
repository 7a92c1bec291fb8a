//! The linear systems `(D + VV')u = w`: Example 1, seconds of one factorisation, and seconds of the factor V itself.
//! What becomes of a training when they are inaccurate is in `failure`.

use std::time::Instant;

use mercer::train::Systems;

use super::{Run, TrainingTask, problems};
use crate::Comparison;

/// Example 1: `D = diag(ε², 1)`, `V = (1, -1)'`, w = (1, 0.7): relative errors of u.
pub(super) fn example_1(run: &Run<'_>) -> anyhow::Result<()> {
    let w = [1.0, 0.7];
    let norm = |x: [f64; 2]| x[0].hypot(x[1]);
    for exponent in [8, 12, 16, 20] {
        let small = 10f64.powi(-exponent);
        let det = 1.0 + 2.0 * small;
        let right = [(2.0 * w[0] + w[1]) / det, (w[0] + (1.0 + small) * w[1]) / det];
        let off = |u: [f64; 2]| norm([u[0] - right[0], u[1] - right[1]]) / norm(right);
        for systems in Systems::ALL {
            let found = systems.solve(1, &[1.0, -1.0], &[small, 1.0], &w);
            let error = found.map_or(f64::NAN, |u| off([u[0], u[1]]));
            // The paper computes u = (0, w_1 + w_2) where ε² is below the rounding of 1.
            let is_printed = systems == Systems::Smw && small < f64::EPSILON;
            let printed = is_printed.then(|| off([0.0, w[0] + w[1]]));
            let row = Comparison::new(
                format!("Example 1, eps^2 = 1e-{exponent}"),
                systems.name(),
                "relative error of u",
            );
            run.compare(row.ours(error).paper(printed).note(if error.is_nan() {
                "the method broke down"
            } else {
                ""
            }));
        }
    }
    Ok(())
}

/// Seconds of one factorisation and one solve, for every method.
pub(super) fn factorisation(run: &Run<'_>) -> anyhow::Result<()> {
    for rank in [100, 300] {
        let count = run.rows(10_000);
        let (v, d, w) = problems::system(count, rank);
        for systems in Systems::ALL {
            let mut best = f64::INFINITY;
            for _ in 0..run.session.options.repeats.clamp(1, 3) {
                let started = Instant::now();
                let _ = systems.solve(rank, &v, &d, &w);
                best = best.min(started.elapsed().as_secs_f64());
            }
            let note = match systems {
                Systems::Smw => "the paper: half the work of the product form",
                Systems::ProductForm => "n k^2 multiplications, one at a time",
                _ => "",
            };
            let dataset = format!("one system, n = {count}, k = {rank}");
            let row = Comparison::new(dataset, systems.name(), "time");
            run.compare(row.ours(best).unit("s").note(note));
            run.session.check()?;
        }
    }
    Ok(())
}

/// Fig. 2: seconds for a factor of rank 800 of 5,000 rows, column by column as printed and in blocks.
pub(super) fn pivots(run: &Run<'_>) -> anyhow::Result<()> {
    let data = problems::dense(run.rows(5000), 60, 5)?;
    let task = TrainingTask { data: &data, kernel: "rbf(gamma=0.05)", c: 1.0 };
    let dataset = format!("factor of rank 800, {} dense rows", data.examples.rows());
    for (rule, precision) in [("greedy", "double"), ("random", "double"), ("random", "single")] {
        let text = format!("low_rank(rank=800, pivots={rule}, precision={precision}, guard=off)");
        let (trained, _) = run.train(task, &text, 1e-1)?;
        let Some(report) = trained.report.low_rank.as_deref() else { continue };
        let method = format!("pivots={rule}, precision={precision}");
        let row = |measure: &str| Comparison::new(&*dataset, &*method, measure);
        let note = if rule == "greedy" { "Fig. 2 of the paper" } else { "in blocks of 64" };
        run.compare(row("time").ours(report.factor_seconds).unit("s").note(note));
        run.compare(row("share of the trace left").ours(report.trace_share));
    }
    Ok(())
}
