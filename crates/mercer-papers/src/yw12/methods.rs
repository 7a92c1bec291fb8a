//! Training time, test time, memory and accuracy of all methods, at one value of C and at each method's best
//! (Tables 4 to 9).

use mercer::data::{Dataset, Targets};
use mercer::kernel::parse;
use mercer::machine::{Answer, ClassName, Machine};
use mercer::query::Plan;
use mercer::train::{Trained, Training, formulation, solver, train};

use super::paper::{self, ACCURACY, MEMORY, PrintedMethod, TEST, TIME};
use super::printed::{Logarithm, test_time};
use super::sets::{Set, SetRows};
use crate::{Comparison, Session};
use mercer_report::timing::best_us;

/// A method of the comparison.
#[derive(Debug, Clone, Copy)]
struct Method {
    name: &'static str,
    learner: Learner<'static>,
    /// The method of the paper that it is.
    paper: Option<PrintedMethod>,
}

/// A kernel and a solver, as texts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Learner<'l> {
    pub(super) kernel: &'l str,
    pub(super) solver: &'l str,
}

const fn method(
    name: &'static str,
    kernel: &'static str,
    solver: &'static str,
    paper: Option<PrintedMethod>,
) -> Method {
    Method { name, learner: Learner { kernel, solver }, paper }
}

/// The kernel that the paper takes for histogram intersection.
const HI: &str = "power_mean(p=-8)";

/// What the paper compares, as printed and on the engine that ours shares with it, and ours.
const METHODS: [Method; 13] = [
    method("ours, chi2", "chi2", "additive", None),
    method("ours, intersection", "intersection", "additive", None),
    method("PmSVM-LUT as printed, chi2", "chi2", LUT, Some(PrintedMethod::LutChi2)),
    method("PmSVM as printed, chi2", "chi2", PMSVM, Some(PrintedMethod::PmsvmChi2)),
    method("PmSVM-LUT as printed, HI", HI, LUT, Some(PrintedMethod::LutHi)),
    method("PmSVM as printed, HI", HI, PMSVM, Some(PrintedMethod::PmsvmHi)),
    method("PmSVM-LUT, shared, chi2", "chi2", "pmsvm_lut", None),
    method("PmSVM, shared, chi2", "chi2", "pmsvm", None),
    method("PmSVM-LUT, shared, HI", HI, "pmsvm_lut", None),
    method("PmSVM, shared, HI", HI, "pmsvm", None),
    method("feature map, chi2", "chi2", "feature_map", Some(PrintedMethod::MapChi2)),
    method("feature map, HI", "intersection", "feature_map", Some(PrintedMethod::MapHi)),
    method("linear", "linear", "linear", Some(PrintedMethod::Liblinear)),
];
const LUT: &str = "pmsvm_lut(as=printed)";
const PMSVM: &str = "pmsvm(as=printed)";

/// One training and its test.
pub(super) struct TrainingRow {
    pub(super) trained: Trained,
    pub(super) accuracy: f64,
    /// Microseconds for a query, as Mercer answers.
    pub(super) test_us: f64,
}

impl TrainingRow {
    /// Bytes of the packed examples for each non-zero.
    fn bytes_per_nonzero(&self) -> f64 {
        let table = self.trained.report.linear.as_deref();
        table.map_or(f64::NAN, |t| t.example_bytes as f64 / t.nonzeros.max(1) as f64)
    }
}

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
pub(super) fn compare(session: &Session<'_>, set: &Set, rows: &SetRows) -> anyhow::Result<()> {
    let examples = &rows.examples.examples;
    session.line(&format!(
        "\n{}: {} rows of {} columns, {:.1} non-zeros each; {} queries; C = {}{}",
        set.name,
        examples.rows(),
        examples.columns(),
        examples.nonzeros() as f64 / examples.rows().max(1) as f64,
        rows.queries.examples.rows(),
        set.c,
        set.linear_c.map_or(String::new(), |c| format!(", linear C = {c}")),
    ));
    for method in METHODS.into_iter().filter(|method| session.wants_method(method.name)) {
        let is_linear = method.learner.kernel == "linear";
        let c = set.linear_c.filter(|_| is_linear).unwrap_or(set.c);
        let found = measure(session, rows, method.learner, c)?;
        add_rows(session, set, method, rows, &found);
        // A quick run stays at the one C.
        if session.options.quick || set.penalties.len() < 2 {
            continue;
        }
        let best = best_c(session, set, rows, method.learner)?;
        let own = if best.to_bits() == c.to_bits() {
            found.accuracy
        } else {
            measure(session, rows, method.learner, best)?.accuracy
        };
        let row = Comparison::new(&*set.name, method.name, "accuracy at its best C");
        session.compare(row.ours(100.0 * own).unit("%").note(format!("C = {best}")));
    }
    Ok(())
}

/// Time, accuracy, memory and test time of one method, beside the paper's.
fn add_rows(session: &Session<'_>, set: &Set, method: Method, rows: &SetRows, found: &TrainingRow) {
    let report = &found.trained.report;
    let add = |(measure, unit): (&str, &'static str), ours: f64, note: String| {
        let row = Comparison::new(&*set.name, method.name, measure).unit(unit).note(note);
        session.compare(row.ours(ours).paper(paper::number(&set.name, method.paper, measure)));
    };
    let preparation = report.linear.as_ref().map_or(0.0, |table| table.preparation);
    add(TIME, report.seconds, format!("{preparation:.3} s of it before the first pass"));
    let open = if report.converged { "" } else { "given up after 1,000 passes" };
    add(ACCURACY, 100.0 * found.accuracy, open.to_owned());
    let bytes = format!("{:.1} bytes for each non-zero", found.bytes_per_nonzero());
    add(MEMORY, report.peak_memory_bytes as f64 / 1e6, bytes);
    let queries = &rows.queries.examples;
    let logarithm = match method.learner.solver {
        LUT => Some((Logarithm::Table(1000), "eq. 20 of the paper")),
        PMSVM => Some((Logarithm::Computed, "eq. 9 of the paper")),
        _ => None,
    };
    let repeats = session.options.repeats.min(3);
    let printed = logarithm.and_then(|(logarithm, note)| {
        let (time, sum) = test_time(&found.trained.machine, queries, 2, logarithm, repeats)?;
        Some((time, format!("{note}, one thread; mean score {:.3}", sum / queries.rows() as f64)))
    });
    let own = || (found.test_us * queries.rows() as f64 / 1e3, "all threads".to_owned());
    let (time, note) = printed.unwrap_or_else(own);
    add(TEST, time, note);
}
