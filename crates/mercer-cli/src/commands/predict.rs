//! `mercer predict`: answers the rows of a file, chunk by chunk. How answers are written is in `output.rs`.

mod answer;
mod remote;
mod sets;

use std::time::Instant;

use anyhow::Context;
use mercer::data::read::{Chunks, Options, TargetColumn};
use mercer::data::{Matrix, Targets};
use mercer::machine::{Answer, ClassName, Machine, Model, Output};
use mercer::query::{Audit, AuditReport, Certainty, Decision, Plan, QueryError};
use mercer_server::ClassProbabilities;
use serde_json::{Map, Value, json};

use super::query_options::{ResolvedBudget, resolve};
use super::{StopSignal, compile, input_options, load, trust};
use crate::args::Predict;
use crate::console::Console;
use crate::failure::DONE;
use crate::files::is_standard;
use crate::labels::{self, Fit};
use crate::output::{Fields, PredictionWriter, RowDetails, certainty};
use crate::queries::Queries;
use crate::training_input::target_object;
use answer::{Answering, Answers, BadRows};

/// Rows held at a time, fewer where they are wide: at most 64 MiB if they are dense.
fn chunk_rows(columns: usize) -> usize {
    ((64usize << 20) / (8 * columns.max(1))).clamp(256, 8192)
}

/// So many skipped rows are reported one by one.
const SHOWN_BAD_ROWS: usize = 20;

/// From the weakest to the strongest.
const CERTAINTIES: [Certainty; 4] =
    [Certainty::Unsettled, Certainty::Calibrated, Certainty::Certified, Certainty::Exact];

/// Sums over all chunks.
#[derive(Debug, Default)]
struct Tally {
    queries: usize,
    /// Rows without an answer.
    skipped: usize,
    multiply_adds: u64,
    certainties: [usize; 4],
    /// Values outside the range of the bins of an additive machine.
    clamped: u64,
    seconds: f64,
    fit: Fit,
    /// Sum of `-ln p` of the true classes.
    log_loss: f64,
    /// Rows in that sum.
    log_loss_rows: usize,
}

/// What computes class probabilities, if they are requested.
fn class_probabilities(
    are_requested: bool,
    model: &Model,
) -> anyhow::Result<Option<ClassProbabilities<'_>>> {
    let none = "the model has no probabilities; `mercer train --probabilities sigmoid` fits them";
    are_requested.then(|| ClassProbabilities::of_model(model).context(none)).transpose()
}

/// Probabilities of the classes, row after row; always from exact scores.
fn probabilities(
    known: Option<&ClassProbabilities<'_>>,
    plan: &Plan,
    rows: &Matrix,
) -> anyhow::Result<Vec<f64>> {
    let Some(known) = known else { return Ok(Vec::new()) };
    known.of_rows(plan, rows)?.context("the probabilities of the model do not match its scores")
}

impl Tally {
    /// Counts the decisions of a chunk.
    fn add(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            self.multiply_adds += decision.cost.multiply_adds;
            self.certainties[decision.certainty as usize] += 1;
        }
        self.queries += decisions.len();
    }

    /// Counts rows without an answer and reports the first ones.
    fn skip(&mut self, refused: &[anyhow::Error], source: &str, console: &Console) {
        for error in refused {
            self.skipped += 1;
            if self.skipped <= SHOWN_BAD_ROWS {
                console.warn(&format!("{source}: {error:#}; skipped"));
            }
        }
    }

    /// Adds the log loss of these rows, if they have labels that the machine knows.
    fn add_log_loss(&mut self, machine: &Machine, probabilities: &[f64], targets: &Targets) {
        let classes = machine.classes().len();
        if classes == 0 {
            return;
        }
        for (row, of_row) in probabilities.chunks_exact(classes).enumerate() {
            if let Some(class) = labels::class_of(machine, targets, row) {
                self.log_loss -= of_row[class].max(f64::MIN_POSITIVE).ln();
                self.log_loss_rows += 1;
            }
        }
    }

    fn mean_log_loss(&self) -> Option<f64> {
        (self.log_loss_rows > 0).then(|| self.log_loss / self.log_loss_rows as f64)
    }
}

pub(super) fn run(predict: &Predict, seed: u64, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    if let Some(server) = &predict.remote.server {
        return remote::run(predict, server, &stop, console);
    }
    let model = load(&predict.model, console)?;
    if predict.sets {
        return sets::run(predict, &model, &stop, console);
    }
    let plan = trust::load(&predict.model, &model, predict.plan, console)?;
    let mut audit = audit(predict, seed, &model, &plan, console)?;
    let source = || predict.input.data.display().to_string();
    let mut options = input_options(&predict.input);
    // Who sends rows one by one gets the answers one by one.
    options.line_by_line = is_standard(&predict.input.data);
    let mut chunks = Queries::open(&predict.input.data, options, &model, console)?.unscaled();
    let target = || output_name(predict);
    let known = class_probabilities(predict.probabilities, &model)
        .with_context(|| predict.model.display().to_string())?;
    let labels = model.machine.classes();
    let classes: &[String] = known.as_ref().map_or(&[], |known| &known.classes);
    let mut answers = open_output(predict, labels, classes, console)?;
    let progress = console.rows("predicting");
    let mut tally = Tally::default();
    let mut limits_in_use = None;
    let rows_at_once = chunk_rows(model.machine.columns());
    let bad_rows = if predict.skip_bad_rows { BadRows::Skip } else { BadRows::Fail };
    let answering = Answering { model: &model, plan: &plan, bad_rows };
    while let Some(chunk) = chunks.next_chunk(rows_at_once).with_context(source)? {
        stop.check()?;
        let before = tally.queries + tally.skipped;
        let limits = match &limits_in_use {
            Some(limits) => limits,
            None => {
                let first = match predict.query.budget_us {
                    Some(_) => answering.first_rows(&chunk.examples).with_context(source)?,
                    None => chunk.examples.select(0..0),
                };
                limits_in_use.insert(resolve(&predict.query, &model, &plan, &first)?)
            }
        };
        let start = Instant::now();
        let mut answered = answering
            .answer(&chunk.examples, &limits.query_options, before)
            .with_context(source)?;
        check_answers(&plan, &mut answered, audit.as_mut(), console)
            .map_err(|error| error.after_rows(before))
            .with_context(source)?;
        tally.seconds += start.elapsed().as_secs_f64();
        let Answers { rows, positions, decisions, refused } = &answered;
        tally.skip(refused, &source(), console);
        let targets = chunk.targets.select(positions);
        tally.clamped += model.machine.clamped(rows);
        let probabilities = probabilities(known.as_ref(), &plan, rows).with_context(source)?;
        tally.add_log_loss(&model.machine, &probabilities, &targets);
        let details = RowDetails {
            rows: chunk.examples.rows(),
            positions,
            ids: chunks.ids(),
            classes,
            probabilities: &probabilities,
        };
        answers.write(model.machine.classes(), decisions, &details).with_context(target)?;
        answers.flush().with_context(target)?;
        let given: Vec<Answer> = decisions.iter().map(|decision| decision.answer).collect();
        tally.fit.add(model.machine.classes(), &given, &targets);
        tally.add(decisions);
        progress.inc(chunk.examples.rows() as u64);
    }
    anyhow::ensure!(tally.queries + tally.skipped > 0, "{}: the file holds no rows", source());
    anyhow::ensure!(tally.queries > 0, "{}: none of the rows has an answer", source());
    answers.finish().with_context(target)?;
    progress.finish_and_clear();
    let limits = limits_in_use.as_ref();
    let outcome = Outcome {
        tally: &tally,
        plan: Some(&plan),
        is_regression: matches!(model.machine.output(), Output::Value),
        budget: limits.and_then(|limits| limits.budget.as_ref()),
        limit: limits.and_then(|limits| limits.query_options.budget),
        ignored: chunks.ignored(),
        target: chunks.target(),
        audit: audit.as_ref().map(Audit::report),
        is_trusted: predict.plan.trust_plan && model.plan.is_some(),
    };
    if console.json {
        println!("{}", outcome.object());
    } else {
        outcome.print(console);
    }
    Ok(DONE)
}

/// Audits the answers to a chunk of rows, with a warning at the first alarm.
fn check_answers(
    plan: &Plan,
    answered: &mut Answers<'_>,
    audit: Option<&mut Audit>,
    console: &Console,
) -> Result<(), QueryError> {
    let Some(audit) = audit else { return Ok(()) };
    let had_alarm = audit.report().alarm.is_some();
    audit.check(plan, &answered.rows, &mut answered.decisions)?;
    if let (false, Some(at)) = (had_alarm, audit.report().alarm) {
        console.warn(&alarm(at, plan));
    }
    Ok(())
}

/// Where the predictions of these rows go.
fn open_output(
    predict: &Predict,
    labels: &[ClassName],
    classes: &[String],
    console: &Console,
) -> anyhow::Result<PredictionWriter> {
    PredictionWriter::open(
        predict.output.as_deref(),
        predict.format,
        console.json,
        Fields { has_ids: predict.input.id.is_some(), labels, classes },
    )
    .with_context(|| output_name(predict))
}

/// The name of the output in messages.
fn output_name(predict: &Predict) -> String {
    match &predict.output {
        Some(path) => path.display().to_string(),
        None => "standard output".to_owned(),
    }
}

/// The audit of calibrated answers, if one was requested.
fn audit(
    predict: &Predict,
    seed: u64,
    model: &Model,
    plan: &Plan,
    console: &Console,
) -> anyhow::Result<Option<Audit>> {
    let Some(share) = predict.audit else { return Ok(None) };
    let audit = Audit::new(plan, share, seed).context("--audit")?;
    let Some(path) = &predict.audit_sample else { return Ok(Some(audit)) };
    let options = predict.memory.limit(Options::default());
    let rows = Queries::read_all(path, options, model, console)?.examples;
    let named = || path.display().to_string();
    Ok(Some(audit.reference(&rows).with_context(named)?))
}

/// The warning when calibrated answers disagree more often than the contract allows.
fn alarm(at: u64, plan: &Plan) -> String {
    let risk = plan.calibration().map_or(0.0, |calibration| calibration.risk);
    format!(
        "audit, at query {at}: more than {risk} of the labels disagree with exact ones. These queries are not \
         like the sample; calibrate again on a new sample, or use --require certified"
    )
}

/// What is reported after the last row.
struct Outcome<'o> {
    tally: &'o Tally,
    /// None if a server answered.
    plan: Option<&'o Plan>,
    is_regression: bool,
    budget: Option<&'o ResolvedBudget>,
    /// Most multiply-adds of a query.
    limit: Option<u64>,
    /// Columns that the model does not know.
    ignored: &'o [String],
    /// The target column, if the rows are a table.
    target: Option<TargetColumn>,
    audit: Option<AuditReport>,
    /// Whether the plan is believed without verification.
    is_trusted: bool,
}

impl Outcome<'_> {
    fn mean_cost(&self) -> f64 {
        self.tally.multiply_adds as f64 / self.tally.queries as f64
    }

    fn object(&self) -> Value {
        let Self { tally, plan, budget, ignored, target, audit, is_trusted, .. } = self;
        let counts: Map<String, Value> = CERTAINTIES
            .iter()
            .map(|kind| (certainty(*kind).to_owned(), tally.certainties[*kind as usize].into()))
            .collect();
        let mut object = json!({
            "queries": tally.queries, "seconds": tally.seconds, "mean_cost": self.mean_cost(),
            "certainties": counts, "target": target.as_ref().map(target_object),
        });
        if let Some(calibration) = plan.and_then(Plan::calibration) {
            object["calibration"] = compile::value(calibration);
        }
        if let Some(budget) = budget {
            object["budget"] = json!(budget.budget);
        }
        if let Some(report) = audit {
            object["audit"] = audit_object(report);
        }
        if let Some(plan) = plan {
            trust::describe(plan, *is_trusted, &mut object);
        }
        if tally.skipped > 0 {
            object["skipped_rows"] = json!(tally.skipped);
        }
        if tally.clamped > 0 {
            object["clamped_values"] = json!(tally.clamped);
        }
        if let Some(loss) = tally.mean_log_loss() {
            object["log_loss"] = json!(loss);
        }
        if !ignored.is_empty() {
            object["ignored_columns"] = json!(ignored);
        }
        if tally.fit.counted() > 0 {
            let (key, value) = if self.is_regression {
                ("mse", tally.fit.mean_squared_error())
            } else {
                ("accuracy", tally.fit.accuracy())
            };
            object[key] = json!(value);
        }
        object
    }

    fn print(&self, console: &Console) {
        let Self { tally, plan, budget, audit, .. } = self;
        if tally.clamped > 0 {
            console.warn(&format!(
                "{} values are outside the range of the training data and were clamped",
                tally.clamped
            ));
        }
        if tally.fit.is_strange() {
            console.warn("the model knows none of the targets: there is no accuracy");
        }
        if tally.skipped > 0 {
            console.summary(&format!("{} rows have no answer and were skipped", tally.skipped));
        }
        let each = 1e6 * tally.seconds / tally.queries as f64;
        let kinds: Vec<String> = CERTAINTIES
            .iter()
            .rev()
            .filter(|kind| tally.certainties[**kind as usize] > 0)
            .map(|kind| format!("{} {}", tally.certainties[*kind as usize], certainty(*kind)))
            .collect();
        console.summary(&format!(
            "{} queries{}; {}; {:.0} multiply-adds and {each:.1} us each",
            tally.queries,
            self.quality(),
            kinds.join(", "),
            self.mean_cost(),
        ));
        if let Some(loss) = tally.mean_log_loss() {
            console.summary(&format!("mean log loss of the probabilities {loss:.6}"));
        }
        if let Some(budget) = budget {
            console.summary(&budget.sentence());
        }
        if let Some(warning) = self.unsettled() {
            console.warn(&warning);
        }
        if let Some(calibration) = plan.and_then(Plan::calibration) {
            console.summary(&compile::sentence(calibration));
        }
        if let Some(AuditReport { audited, disagreements, low, high, alarm, .. }) = audit {
            let verdict = if alarm.is_some() { "the contract is violated" } else { "no alarm" };
            console.summary(&format!(
                "audit: {audited} queries also evaluated exactly, {disagreements} disagreements; between \
                 {low:.2e} and {high:.2e} of all queries, valid at any time: {verdict}"
            ));
        }
    }

    /// The warning about queries that stay unsettled, and why.
    fn unsettled(&self) -> Option<String> {
        let unsettled = self.tally.certainties[Certainty::Unsettled as usize];
        if unsettled == 0 {
            return None;
        }
        let of_time = self.budget.and_then(ResolvedBudget::too_little);
        let reason = match (of_time, self.limit) {
            (Some(reason), _) => reason,
            (None, Some(limit)) => format!("{limit} multiply-adds are too little for them"),
            (None, None) if self.plan.is_some() => {
                "a stage of the plan stops by a rule that was not tested".to_owned()
            }
            (None, None) => "the limit that the server set was too little for them".to_owned(),
        };
        let queries = self.tally.queries;
        Some(format!(
            "{unsettled} of {queries} queries are unsettled: {reason}; each has the best label known"
        ))
    }

    /// Accuracy or error, if the rows have targets.
    fn quality(&self) -> String {
        let fit = &self.tally.fit;
        match (fit.counted(), self.is_regression) {
            (0, _) => String::new(),
            (_, true) => format!(", mean squared error {:.6}", fit.mean_squared_error()),
            (counted, false) => {
                format!(", accuracy {:.4} % ({}/{counted})", 100.0 * fit.accuracy(), fit.correct())
            }
        }
    }
}

fn audit_object(report: &AuditReport) -> Value {
    let AuditReport { seen, audited, disagreements, low, high, alarm } = report;
    json!({
        "queries": seen, "audited": audited, "disagreements": disagreements, "low": low,
        "high": high, "alarm_at_query": alarm,
    })
}
