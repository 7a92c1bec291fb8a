//! \[FS01\]: Example 1 and a degenerate toy for all methods to solve the linear systems, Abalone against `smo`,
//! many dense problems, and rank against objective and error.

mod many;
mod problems;
mod rank;

use std::cell::RefCell;
use std::time::Instant;

use mercer::data::Dataset;
use mercer::kernel::parse;
use mercer::train::{Report, Systems, Trained, Training, formulation, solver, train};
use serde_json::{Value, json};

use crate::{Paper, Session};
use mercer_report::svg::stacked;

pub(crate) static PAPER: Paper = Paper {
    key: "fs01",
    title: "S. Fine and K. Scheinberg, Efficient SVM Training Using Low-Rank Kernel Representations, 2001",
    quick: &["example 1", "toy", "pivots"],
    run,
};

/// Parts, by the names that `--only` takes.
const PARTS: [(&str, fn(&Run<'_>) -> anyhow::Result<Value>); 7] = [
    ("example 1", example_1),
    ("toy", toy),
    ("factorisation", factorisation),
    ("pivots", pivots),
    ("Abalone", abalone),
    ("problems", many::run),
    ("rank", rank::run),
];

/// One run of the parts.
struct Run<'r> {
    session: &'r Session<'r>,
    /// Figures, in the order of the parts.
    figures: RefCell<Vec<String>>,
}

fn run(session: &Session<'_>) -> anyhow::Result<()> {
    let run = Run { session, figures: RefCell::default() };
    let mut parts = serde_json::Map::new();
    for (name, part) in PARTS.into_iter().filter(|(name, _)| session.wants(name)) {
        session.line(&format!("\n{name}"));
        parts.insert(name.to_owned(), part(&run)?);
        session.check()?;
    }
    let figures = run.figures.take();
    if !figures.is_empty() {
        session.figure(&PAPER, "figures", &stacked(&figures))?;
    }
    session.detail("parts", json!(parts));
    Ok(())
}

impl Run<'_> {
    /// At most this many rows; fewer if `--rows` says so.
    fn rows(&self, usual: usize) -> usize {
        usual.min(self.session.options.rows.max(100))
    }

    /// The first rows of a set if `--rows` is less than it has.
    fn first(&self, data: &Dataset) -> Dataset {
        let count = self.rows(data.examples.rows());
        data.select(&(0..count).collect::<Vec<_>>())
    }

    /// Trains and returns the machine and the seconds.
    fn train(
        &self,
        data: &Dataset,
        kernel: &str,
        c: f64,
        solver_text: &str,
        tolerance: f64,
    ) -> anyhow::Result<(Trained, f64)> {
        let training = Training::default()
            .solver(solver(solver_text)?)
            .tolerance(tolerance)
            .cancel(self.session.cancel());
        let status = self.session.status();
        let mut show = |progress: &mercer::train::Progress| {
            status.show(&format!("{solver_text}, C {c}: gap {:.1e}", progress.violation));
        };
        let (kernel, c_svc) = (parse(kernel)?, formulation(&format!("c_svc(C={c})"))?);
        let started = Instant::now();
        let trained = train(data, &kernel, &c_svc, &training, &mut show)?;
        drop(status);
        self.session.check()?;
        Ok((trained, started.elapsed().as_secs_f64()))
    }
}

/// The solver with this method for the linear systems.
fn interior(systems: Systems, rank: usize) -> String {
    format!(
        "low_rank(rank={rank}, pivots=greedy, method=interior, systems={}, precision=double, guard=off)",
        systems.name()
    )
}

/// `(D + VV')u = w` for `D = diag(ε², 1)`, `V = (1, 1)'`, `w = (1, 0.7)`: relative errors.
fn example_1(run: &Run<'_>) -> anyhow::Result<Value> {
    let w = [1.0, 0.7];
    run.session.line(&format!(
        "{:>7} {:>13} {:>13} {:>13} {:>13}",
        "eps^2", "split", "product_form", "woodbury", "qr"
    ));
    let mut rows = Vec::new();
    for exponent in [8, 12, 16, 20] {
        let small = 10f64.powi(-exponent);
        let det = 1.0 + 2.0 * small;
        let right = [(2.0 * w[0] - w[1]) / det, ((1.0 + small) * w[1] - w[0]) / det];
        let norm = |x: [f64; 2]| x[0].hypot(x[1]);
        let error = |systems: Systems| {
            let found = systems.solve(1, &[1.0, 1.0], &[small, 1.0], &w);
            found.map_or(f64::NAN, |u| norm([u[0] - right[0], u[1] - right[1]]) / norm(right))
        };
        let errors = Systems::ALL.map(error);
        let [split, product, woodbury, qr] = errors.map(|error| format!("{error:.1e}"));
        run.session
            .line(&format!("  1e-{exponent:<3} {split:>13} {product:>13} {woodbury:>13} {qr:>13}"));
        let named: serde_json::Map<String, Value> = Systems::ALL
            .iter()
            .zip(errors)
            .map(|(systems, error)| (systems.name().to_owned(), json!(error)))
            .collect();
        rows.push(json!({ "eps_squared": small, "errors": named }));
    }
    Ok(json!(rows))
}

/// Duplicated
fn toy(run: &Run<'_>) -> anyhow::Result<Value> {
    run.session.line(&format!(
        "{:>8} {:>6} {:13} {:>10} {:>10} {:>10}",
        "features", "C", "systems", "iterations", "computed", "true gap"
    ));
    let mut rows = Vec::new();
    for (scale, c) in [(1e4, 1e3), (1e6, 1.0)] {
        let data = problems::toy(scale)?;
        for systems in Systems::ALL {
            let (trained, _) = run.train(&data, "linear", c, &interior(systems, 10), 1e-12)?;
            let (iterations, computed_gap, gap) = progress_of(&trained.report);
            run.session.line(&format!(
                "{scale:>8.0e} {c:>6.0} {:13} {iterations:>10} {computed_gap:>10.1e} {gap:>10.1e}",
                systems.name()
            ));
            rows.push(json!({
                "scale": scale, "C": c, "systems": systems.name(), "iterations": iterations,
                "computed_gap": computed_gap, "relative_gap": gap,
            }));
        }
    }
    Ok(json!(rows))
}

/// Interior-point iterations, the gap of the low-rank problem, and the true relative gap.
fn progress_of(report: &Report) -> (usize, f64, f64) {
    let low_rank = report.low_rank.as_deref();
    (
        low_rank.map_or(0, |r| r.iterations),
        low_rank.map_or(f64::NAN, |r| r.running_gap),
        report.violation,
    )
}

/// Seconds of one factorisation and one solve, for every method.
fn factorisation(run: &Run<'_>) -> anyhow::Result<Value> {
    let mut rows = Vec::new();
    for rank in [100, 300] {
        let count = run.rows(10_000);
        let (v, d, w) = problems::system(count, rank);
        let seconds = |systems: Systems| {
            let mut best = f64::INFINITY;
            for _ in 0..run.session.options.repeats.clamp(1, 3) {
                let started = Instant::now();
                let _ = systems.solve(rank, &v, &d, &w);
                best = best.min(started.elapsed().as_secs_f64());
            }
            best
        };
        let all = Systems::ALL.map(seconds);
        run.session.line(&format!(
            "n {count}, k {rank}: split {:.3} s, product form {:.3} s ({:.1}x), woodbury {:.3} s, qr {:.3} s",
            all[0], all[1], all[1] / all[0], all[2], all[3]
        ));
        rows.push(json!({
            "rows": count, "rank": rank, "split": all[0], "product_form": all[1],
            "woodbury": all[2], "qr": all[3], "product_form_over_split": all[1] / all[0],
        }));
        run.session.check()?;
    }
    Ok(json!(rows))
}

/// Seconds for a factor of rank 800 of 5,000 rows, column by column and in blocks.
fn pivots(run: &Run<'_>) -> anyhow::Result<Value> {
    let data = problems::dense(run.rows(5000), 60, 5)?;
    let seconds = |rule: &str, precision: &str| -> anyhow::Result<(f64, f64)> {
        let text = format!("low_rank(rank=800, pivots={rule}, precision={precision}, guard=off)");
        let (trained, _) = run.train(&data, "rbf(gamma=0.05)", 1.0, &text, 1e-1)?;
        let report = trained.report.low_rank.as_deref();
        Ok(report.map_or((f64::NAN, f64::NAN), |r| (r.factor_seconds, r.trace_share)))
    };
    let greedy = seconds("greedy", "double")?;
    let (double, single) = (seconds("random", "double")?, seconds("random", "single")?);
    run.session.line(&format!(
        "greedy, by columns {:.2} s (trace {:.3}); random, in blocks {:.2} s ({:.1}x, trace {:.3}), in f32 \
         {:.2} s ({:.1}x)",
        greedy.0, greedy.1, double.0, greedy.0 / double.0, double.1, single.0, greedy.0 / single.0
    ));
    Ok(json!({
        "greedy": greedy.0, "random": double.0, "random_single": single.0,
        "greedy_trace": greedy.1, "random_trace": double.1,
    }))
}

/// Linear and degree 5 against `smo` at three values of C: digits of accuracy, iterations, time.
fn abalone(run: &Run<'_>) -> anyhow::Result<Value> {
    let data = run.first(&problems::abalone()?);
    run.session.line(&format!(
        "{:10} {:>6} {:22} {:>10} {:>8} {:>8}",
        "kernel", "C", "solver", "steps", "digits", "seconds"
    ));
    let mut rows = Vec::new();
    let kernels = [
        ("linear", "linear", 10usize),
        ("degree 5", "polynomial(degree=5, gamma=0.0909090909090909, coef0=1)", 300),
    ];
    for (name, kernel, rank) in kernels {
        for c in [1e-2, 1.0, 100.0] {
            let mut print = |label: &str, steps: u64, gap: f64, seconds: f64| {
                let digits = -gap.max(1e-17).log10();
                run.session.line(&format!(
                    "{name:10} {c:>6} {label:22} {steps:>10} {digits:>8.1} {seconds:>8.2}"
                ));
                rows.push(json!({
                    "kernel": name, "C": c, "solver": label, "steps": steps,
                    "relative_gap": gap, "seconds": seconds,
                }));
            };
            for systems in [Systems::Split, Systems::Woodbury] {
                let (trained, seconds) =
                    run.train(&data, kernel, c, &interior(systems, rank), 1e-11)?;
                let (iterations, _, gap) = progress_of(&trained.report);
                print(&format!("interior, {}", systems.name()), iterations as u64, gap, seconds);
            }
            let (trained, seconds) = run.train(&data, kernel, c, "smo", 1e-3)?;
            let gap = trained.report.gap / trained.report.objective.abs();
            print("smo", trained.report.iterations, gap, seconds);
        }
    }
    Ok(json!(rows))
}
