//! \[FS01\]: Example 1, the failure of the Sherman-Morrison-Woodbury formula (section 5.3), Theorem 1 and the active set,
//! Abalone against `smo`, many dense problems (Fig. 3), and rank against objective and error (Figs. 6 and 7).
//!
//! One file for each part; the problems are in `problems`.

mod bound;
mod failure;
mod many;
mod problems;
mod rank;
mod systems;

use std::time::Instant;

use mercer::data::Dataset;
use mercer::kernel::parse;
use mercer::train::{Report, Systems, Trained, Training, formulation, solver, train};

use crate::{Comparison, Paper, Session};

pub(crate) static PAPER: Paper = Paper {
    key: "fs01",
    title: "S. Fine and K. Scheinberg, Efficient SVM Training Using Low-Rank Kernel Representations, 2001",
    quick: &["example 1", "section 5.3", "theorem 1", "active set", "Abalone", "problems", "rank"],
    run,
};

/// Computes one part.
type ComputePart = fn(&Run<'_>) -> anyhow::Result<()>;

/// Parts, by the names that `--only` takes.
const PARTS: [(&str, ComputePart); 9] = [
    ("example 1", systems::example_1),
    ("section 5.3", failure::run),
    ("theorem 1", bound::theorem_1),
    ("active set", bound::active_set),
    ("factorisation", systems::factorisation),
    ("pivots", systems::pivots),
    ("Abalone", abalone),
    ("problems", many::run),
    ("rank", rank::run),
];

/// The polynomial kernel of section 5.4; the paper prints neither its constant nor its scale.
const POLYNOMIAL: &str = "polynomial(degree=5, gamma=0.0909090909090909, coef0=1)";

/// One run of the parts.
struct Run<'r> {
    session: &'r Session<'r>,
}

/// One training problem: examples, kernel and C.
#[derive(Clone, Copy)]
struct TrainingTask<'t> {
    data: &'t Dataset,
    kernel: &'t str,
    c: f64,
}

fn run(session: &Session<'_>) -> anyhow::Result<()> {
    let run = Run { session };
    for (_, part) in PARTS.into_iter().filter(|(name, _)| session.wants(name)) {
        part(&run)?;
        session.check()?;
    }
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
        task: TrainingTask<'_>,
        how: &str,
        tolerance: f64,
    ) -> anyhow::Result<(Trained, f64)> {
        self.train_with(task, how, Training::default().tolerance(tolerance))
    }

    /// The same with more options.
    fn train_with(
        &self,
        task: TrainingTask<'_>,
        how: &str,
        training: Training,
    ) -> anyhow::Result<(Trained, f64)> {
        let training = training.solver(solver(how)?).cancel(self.session.cancel());
        let TrainingTask { data, kernel, c } = task;
        let status = self.session.status();
        let mut show = |progress: &mercer::train::Progress| {
            status.show(&format!("{how}, C {c}: gap {:.1e}", progress.violation));
        };
        let (kernel, c_svc) = (parse(kernel)?, formulation(&format!("c_svc(C={c})"))?);
        let started = Instant::now();
        let trained = train(data, &kernel, &c_svc, &training, &mut show)?;
        drop(status);
        self.session.check()?;
        Ok((trained, started.elapsed().as_secs_f64()))
    }

    fn compare(&self, row: Comparison) {
        self.session.compare(row);
    }
}

/// An interior point method with this method for its linear systems: ours (`interior`), or the paper's (`printed`).
fn interior(method: &str, systems: Systems, rank: usize) -> String {
    format!(
        "low_rank(rank={rank}, pivots=greedy, method={method}, systems={}, precision=double, guard=off)",
        systems.name()
    )
}

/// Interior-point iterations, and the true relative gap.
fn progress_of(report: &Report) -> (usize, f64) {
    (report.low_rank.as_deref().map_or(0, |r| r.iterations), report.violation)
}

/// Digits of accuracy: the negative logarithm of the recomputed relative gap, at most 16.
fn digits(gap: f64) -> f64 {
    -gap.clamp(1e-16, 1.0).log10()
}

/// Section 5.2: the whole set, linear, at three values of C, beside `smo`; and the polynomial of degree 5.
fn abalone(run: &Run<'_>) -> anyhow::Result<()> {
    let data = run.first(&problems::abalone()?);
    let kernels = [("linear", "linear", 10), ("degree 5", POLYNOMIAL, 200)];
    for (name, kernel, rank) in kernels {
        for c in [1e-2, 1.0, 100.0] {
            let task = TrainingTask { data: &data, kernel, c };
            let dataset = format!("Abalone, {name}, C = {c}");
            let is_linear = rank == 10;
            let add = |method: &str, report: &Report, gap: f64, seconds: f64| {
                let steps = report
                    .low_rank
                    .as_deref()
                    .map_or(report.iterations as f64, |r| r.iterations as f64);
                let row = |measure: &str| Comparison::new(&*dataset, method, measure);
                let figure = if is_linear { "Fig. 4, the curve CholQP" } else { "" };
                run.compare(row("time").ours(seconds).unit("s").note(figure));
                run.compare(row("iterations").ours(steps));
                run.compare(row("digits").ours(digits(gap)).note("of the recomputed duality gap"));
            };
            let methods = [("printed", Systems::ProductForm), ("interior", Systems::Split)];
            for (method, systems) in methods {
                // The product form of rank 200 takes most of a minute: once is enough.
                if method == "printed" && !is_linear && c != 1.0 {
                    continue;
                }
                let (trained, seconds) = run.train(task, &interior(method, systems, rank), 1e-9)?;
                let name = format!("{method}, {}", systems.name());
                add(&name, &trained.report, trained.report.violation, seconds);
            }
            let (trained, seconds) = run.train(task, "smo", 1e-3)?;
            let gap = trained.report.gap / trained.report.objective.abs();
            add("smo", &trained.report, gap, seconds);
        }
    }
    Ok(())
}
