//! Training time, test time, memory and accuracy of all methods, at one value of C and at each method's best.

use mercer::data::{Dataset, Targets};
use mercer::kernel::parse;
use mercer::machine::{Answer, ClassName, Machine};
use mercer::query::Plan;
use mercer::train::{Trained, Training, formulation, solver, train};
use serde_json::{Value, json};

use super::sets::{Set, SetRows};
use crate::Session;
use mercer_report::timing::best_us;

/// A method of the comparison.
#[derive(Debug, Clone, Copy)]
struct Method {
    name: &'static str,
    learner: Learner<'static>,
}

/// A kernel and a solver, as texts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Learner<'l> {
    pub(super) kernel: &'l str,
    pub(super) solver: &'l str,
}

const fn method(name: &'static str, kernel: &'static str, solver: &'static str) -> Method {
    Method { name, learner: Learner { kernel, solver } }
}

/// What the paper compares, and ours.
const METHODS: [Method; 9] = [
    method("ours, chi2", "chi2", "additive"),
    method("ours, intersection", "intersection", "additive"),
    method("PmSVM-LUT, chi2", "chi2", "pmsvm_lut"),
    method("PmSVM-LUT, HI", "power_mean(p=-8)", "pmsvm_lut"),
    method("PmSVM, chi2", "chi2", "pmsvm"),
    method("PmSVM, HI", "power_mean(p=-8)", "pmsvm"),
    method("feature map, chi2", "chi2", "feature_map"),
    method("feature map, HI", "intersection", "feature_map"),
    method("linear", "linear", "linear"),
];

/// One line of the table: one training.
pub(super) struct TrainingRow {
    pub(super) trained: Trained,
    pub(super) accuracy: f64,
    pub(super) test_us: f64,
}

impl TrainingRow {
    pub(super) fn object(&self) -> Value {
        let report = &self.trained.report;
        let table = report.linear.as_deref();
        json!({
            "training_seconds": report.seconds,
            "preparation_seconds": table.map(|table| table.preparation),
            "test_microseconds_per_row": self.test_us,
            "memory_bytes": report.peak_memory_bytes,
            "bytes_per_nonzero": table.map(|t| t.example_bytes as f64 / t.nonzeros.max(1) as f64),
            "accuracy": self.accuracy, "updates": report.iterations,
            "converged": report.converged,
            "relative_error_of_factors": table.map(|table| table.factor.relative_error),
        })
    }

    pub(super) fn line(&self) -> String {
        let report = &self.trained.report;
        let preparation = report.linear.as_ref().map_or(0.0, |table| table.preparation);
        format!(
            "{:>9.3} {preparation:>9.3} {:>9.2} {:>9.1} {:>9.2}",
            report.seconds,
            self.test_us,
            report.peak_memory_bytes as f64 / 1e6,
            100.0 * self.accuracy
        )
    }
}

pub(super) const HEAD: &str = "  seconds  of which  us / row        MB  accuracy";

/// Trains one machine.
pub(super) fn train_on(
    session: &Session<'_>,
    data: &Dataset,
    learner: Learner<'_>,
    c: f64,
) -> anyhow::Result<Trained> {
    // Rows are packed in memory, however many there are.
    let Learner { kernel, solver: text } = learner;
    let training = Training::default().solver(solver(text)?).memory(usize::MAX);
    let training = training.cancel(session.cancel());
    let status = session.status();
    let mut show = |progress: &mercer::train::Progress| {
        status.show(&format!(
            "{kernel}, {text}, C {c}: {} updates, violation {:.1e}",
            progress.iterations, progress.violation
        ));
    };
    let (kernel, c_svc) = (parse(kernel)?, formulation(&format!("c_svc(C={c})"))?);
    let trained = train(data, &kernel, &c_svc, &training, &mut show)?;
    drop(status);
    session.check()?;
    Ok(trained)
}

/// Trains and measures accuracy and test time.
pub(super) fn measure(
    session: &Session<'_>,
    rows: &SetRows,
    learner: Learner<'_>,
    c: f64,
) -> anyhow::Result<TrainingRow> {
    let mut trained = train_on(session, &rows.examples, learner, c)?;
    for _ in 1..session.options.repeats.min(3) {
        let again = train_on(session, &rows.examples, learner, c)?;
        if again.report.seconds < trained.report.seconds {
            trained = again;
        }
    }
    let plan = Plan::exact(&trained.machine);
    let accuracy = accuracy(&trained.machine, &plan, &rows.queries)?;
    let queries = &rows.queries.examples;
    let test_us = best_us(session.options.repeats.min(3), queries.rows(), || {
        drop(plan.decide(queries));
    });
    Ok(TrainingRow { trained, accuracy, test_us })
}

/// The share of rows whose class is found.
pub(super) fn accuracy(machine: &Machine, plan: &Plan, rows: &Dataset) -> anyhow::Result<f64> {
    let Targets::Numbers(labels) = &rows.targets else { anyhow::bail!("labels are numbers") };
    let answers = plan.decide(&rows.examples)?;
    let right = answers.iter().zip(labels).filter(|(decision, label)| match decision.answer {
        Answer::Class(class) => machine.classes()[class] == ClassName::Number(**label),
        _ => false,
    });
    Ok(right.count() as f64 / labels.len().max(1) as f64)
}

/// The value of C with the best accuracy on a fifth of the rows; the smallest of several.
fn best_c(
    session: &Session<'_>,
    set: &Set,
    rows: &SetRows,
    learner: Learner<'_>,
) -> anyhow::Result<f64> {
    let all = rows.examples.examples.rows();
    // Every n-th row, so that files sorted by class give all classes.
    let stride = all.div_ceil(set.validation.max(1)).max(1);
    let part: Vec<usize> = (0..all).step_by(stride).collect();
    let pick = |held: bool| -> Vec<usize> {
        let kept = part.iter().enumerate().filter(|(at, _)| (at % 5 == 4) == held);
        kept.map(|(_, row)| *row).collect()
    };
    let (examples, held_out) =
        (rows.examples.select(&pick(false)), rows.examples.select(&pick(true)));
    let mut best = (set.c, -1.0);
    for c in &set.penalties {
        let trained = train_on(session, &examples, learner, *c)?;
        let plan = Plan::exact(&trained.machine);
        let found = accuracy(&trained.machine, &plan, &held_out)?;
        if found > best.1 {
            best = (*c, found);
        }
    }
    Ok(best.0)
}

/// All methods on one set.
pub(super) fn compare(session: &Session<'_>, set: &Set, rows: &SetRows) -> anyhow::Result<Value> {
    let examples = &rows.examples.examples;
    session.line(&format!(
        "\n{}: {} rows of {} columns, {:.1} non-zeros each; {} queries\n{:20} {:>7} {HEAD}",
        set.name,
        examples.rows(),
        examples.columns(),
        examples.nonzeros() as f64 / examples.rows().max(1) as f64,
        rows.queries.examples.rows(),
        "",
        "C",
    ));
    let mut lines = Vec::new();
    for Method { name, learner } in METHODS {
        if !session.wants_method(name) {
            continue;
        }
        let best = best_c(session, set, rows, learner)?;
        let equal = measure(session, rows, learner, set.c)?;
        session.line(&format!("{name:20} {:>7} {}", set.c, equal.line()));
        let mut object = json!({
            "method": name, "kernel": learner.kernel, "solver": learner.solver, "C": set.c, "best_C": best,
            "at_equal_C": equal.object(),
        });
        object["at_best_C"] = if best.to_bits() == set.c.to_bits() {
            object["at_equal_C"].clone()
        } else {
            let own = measure(session, rows, learner, best)?;
            session.line(&format!("{:20} {best:>7} {}", "  its best C", own.line()));
            own.object()
        };
        lines.push(object);
    }
    Ok(json!({
        "rows": examples.rows(), "columns": examples.columns(), "nonzeros": examples.nonzeros(),
        "queries": rows.queries.examples.rows(), "methods": lines,
    }))
}
