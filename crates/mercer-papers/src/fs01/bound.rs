//! Theorem 1 beside what is really lost, and the active set that section 6 proposes to identify.

use mercer::train::Training;

use super::{POLYNOMIAL, Run, TrainingTask, problems};
use crate::Comparison;

/// Theorem 1 on Abalone: `c² l ε / 2`, the sharper `½ x'ΔQx`, and the difference of the objectives itself.
pub(super) fn theorem_1(run: &Run<'_>) -> anyhow::Result<()> {
    let data = run.first(&problems::abalone()?);
    let kernels = [("degree 5", POLYNOMIAL), ("rbf(0.5)", "rbf(gamma=0.5)")];
    for (name, kernel) in kernels {
        let task = TrainingTask { data: &data, kernel, c: 1.0 };
        let exact = run.train(task, "smo", 1e-6)?.0.report;
        for rank in [20, 50, 100, 200, 400] {
            let text = format!(
                "low_rank(rank={rank}, pivots=greedy, method=interior, precision=double, guard=off)"
            );
            let trained = run.train(task, &text, 1e-9)?.0;
            let Some(report) = trained.report.low_rank.as_deref() else { continue };
            let lost = &report.approximation[0];
            let dataset = format!("Abalone, {name}, C = 1, rank {rank}");
            let row = |measure: &str| Comparison::new(&*dataset, "low_rank, greedy", measure);
            let share =
                |part: f64| format!("{:.1e} of the objective", part / exact.objective.abs());
            let difference = exact.objective - trained.report.objective;
            run.compare(row("trace left, eps").ours(report.trace));
            run.compare(row("support vectors, l").ours(lost.supports as f64));
            run.compare(row("c^2 l eps / 2").ours(lost.bound).note(share(lost.bound)));
            run.compare(row("x' dQ x / 2").ours(lost.quadratic).note(share(lost.quadratic)));
            run.compare(row("f* - f~").ours(difference).note(share(difference)));
        }
    }
    Ok(())
}

/// Support vectors that the low-rank solution identifies, beside those of exact training; and what `--polish` needs.
pub(super) fn active_set(run: &Run<'_>) -> anyhow::Result<()> {
    let data = run.first(&problems::abalone()?);
    for (name, kernel, rank) in [("linear", "linear", 10), ("degree 5", POLYNOMIAL, 200)] {
        let task = TrainingTask { data: &data, kernel, c: 1.0 };
        let dataset = format!("Abalone, {name}, C = 1, {} rows", data.examples.rows());
        let row = |method: &str, measure: &str| Comparison::new(&*dataset, method, measure);
        let exact = run.train(task, "smo", 1e-6)?.0.report;
        let of = &exact.subproblems[0];
        run.compare(row("smo", "support vectors").ours(of.supports as f64));
        run.compare(row("smo", "at the bound C").ours(of.bounded as f64));
        for (method, tolerance) in [("interior", 1e-3), ("interior", 1e-8), ("printed", 1e-8)] {
            let text = format!("low_rank(rank={rank}, method={method}, guard=off)");
            let found = run.train(task, &text, tolerance)?.0.report;
            let of = &found.subproblems[0];
            let method = format!("{method}, gap {tolerance:.0e}");
            run.compare(row(&method, "support vectors").ours(of.supports as f64));
            run.compare(row(&method, "at the bound C").ours(of.bounded as f64));
        }
        let cold = run.train(task, "smo", 1e-3)?.0.report.iterations as f64;
        let text = format!("low_rank(rank={rank}, method=interior, guard=off)");
        let polished = run.train_with(task, &text, Training::default().polish(true))?.0.report;
        let Some(polish) = polished.low_rank.and_then(|report| report.polish) else { continue };
        let method = "interior, --polish";
        run.compare(row(method, "active examples").ours(polish.active_examples as f64));
        run.compare(row(method, "steps on the active set").ours(polish.active_steps as f64));
        let note = format!("smo from nothing takes {cold:.0}");
        run.compare(row(method, "steps on all examples").ours(polish.steps as f64).note(note));
    }
    Ok(())
}
