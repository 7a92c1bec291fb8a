use std::time::Instant;

use anyhow::Context;
use mercer::data::read::{Chunks, Options};
use mercer::data::{Matrix, Targets};
use mercer::machine::{Answer, Budget, Model, Output, Probabilities};
use mercer::query::{Audit, AuditReport, Certainty, Plan, QueryError};
use serde_json::{Map, Value, json};

use super::demands::{self, wanted};
use super::{StopSignal, compile, input_options, load};
use crate::args::Predict;
use crate::console::Console;
use crate::failure::DONE;
use crate::labels::{self, Fit};
use crate::output::{Answers, Beside, certainty};
use crate::queries::Queries;

/// Rows held at a time, fewer where they are wide: at most 64 MiB if they are dense.
fn chunk_rows(columns: usize) -> usize {
    ((64usize << 20) / (8 * columns.max(1))).clamp(256, 8192)
}

/// From the least to the most authority.
const LEVELS: [Certainty; 4] =
    [Certainty::Unsettled, Certainty::Calibrated, Certainty::Certified, Certainty::Exact];

/// What is gathered over all chunks.
#[derive(Debug, Default)]
struct Tally {
    queries: usize,
    multiply_adds: u64,
    certainties: [usize; 4],
    /// Values beyond the levels of a machine of tables.
    clamped: u64,
    seconds: f64,
    fit: Fit,
    /// `-ln p` of the classes that rows have, and how many rows have one.
    log_loss: (f64, usize),
}

/// Probabilities, where they were asked for.
struct Shares<'m> {
    model: &'m Model,
    classes: Vec<String>,
}

impl<'m> Shares<'m> {
    fn new(are_asked: bool, model: &'m Model) -> anyhow::Result<Self> {
        let mut classes = Vec::new();
        if are_asked {
            classes = match (&model.probabilities, model.machine.output()) {
                (Some(Probabilities::Marks(_)), Output::Novelty) => {
                    vec!["normal".to_owned(), "outlier".to_owned()]
                }
                (
                    Some(Probabilities::Sigmoid { .. } | Probabilities::Curves(_)),
                    Output::Classes { names, .. },
                ) => names.iter().map(ToString::to_string).collect(),
                _ => anyhow::bail!(
                    "the model knows no probabilities; `mercer train --probabilities sigmoid` fits some"
                ),
            };
        }
        Ok(Self { model, classes })
    }

    /// Probabilities of each row's classes: always from exact scores.
    fn of(&self, plan: &Plan, rows: &Matrix) -> anyhow::Result<Vec<f64>> {
        if self.classes.is_empty() {
            return Ok(Vec::new());
        }
        let machine = &self.model.machine;
        let scores = plan.scores(rows)?;
        let mut shares = Vec::with_capacity(rows.rows() * self.classes.len());
        for scores in scores.chunks_exact(machine.scores().len()) {
            let known = self.model.probabilities.as_ref();
            if let Some(of_classes) = known.and_then(|known| known.of_classes(machine, scores)) {
                shares.extend(of_classes);
            } else if let Some(normal) = known.and_then(|known| known.of_novelty(scores[0])) {
                shares.extend([normal, 1.0 - normal]);
            } else {
                anyhow::bail!("its probabilities do not fit its scores");
            }
        }
        Ok(shares)
    }
}

impl Tally {
    fn judge(&mut self, asked: &Shares<'_>, shares: &[f64], targets: &Targets) {
        let machine = &asked.model.machine;
        if asked.classes.len() != machine.classes().len() || asked.classes.is_empty() {
            return;
        }
        for (row, shares) in shares.chunks_exact(asked.classes.len()).enumerate() {
            if let Some(class) = labels::class_of(machine, targets, row) {
                self.log_loss.0 -= shares[class].max(f64::MIN_POSITIVE).ln();
                self.log_loss.1 += 1;
            }
        }
    }
}

pub(super) fn run(predict: &Predict, seed: u64, console: &Console) -> anyhow::Result<u8> {
    let stop = StopSignal::install()?;
    let model = load(&predict.model, console)?;
    let plan = Plan::of(&model)?;
    let mut audit = audit(predict, seed, &model, &plan, console)?;
    let source = || predict.input.data.display().to_string();
    let options = input_options(&predict.input);
    let mut chunks = Queries::open(&predict.input.data, options, &model, console)?;
    let target = || match &predict.output {
        Some(path) => path.display().to_string(),
        None => "standard output".to_owned(),
    };
    let has_ids = predict.input.id.is_some();
    let asked = Shares::new(predict.probabilities, &model)
        .with_context(|| predict.model.display().to_string())?;
    let mut answers = Answers::open(
        predict.output.as_deref(),
        predict.format,
        console.json,
        has_ids,
        &asked.classes,
    )
    .with_context(target)?;
    let progress = console.rows("predicting");
    let mut tally = Tally::default();
    let mut known = None;
    let rows_at_once = chunk_rows(model.machine.columns());
    while let Some(chunk) = chunks.next_chunk(rows_at_once).with_context(source)? {
        stop.check()?;
        let rows = &chunk.examples;
        let limits = match &known {
            Some(limits) => limits,
            None => known.insert(wanted(&predict.demands, &model, &plan, rows)?),
        };
        let start = Instant::now();
        let mut decisions = plan
            .decide_with(rows, &limits.query_options)
            .map_err(|error| shift(error, tally.queries))
            .with_context(source)?
            .decisions;
        if let Some(audit) = &mut audit {
            let rang = audit.report().alarm.is_some();
            audit
                .look(&plan, rows, &mut decisions)
                .map_err(|error| shift(error, tally.queries))
                .with_context(source)?;
            if let (false, Some(at)) = (rang, audit.report().alarm) {
                console.warn(&alarm(at, &plan));
            }
        }
        tally.seconds += start.elapsed().as_secs_f64();
        tally.clamped += model.machine.clamped(rows);
        let shares = asked.of(&plan, rows).with_context(source)?;
        tally.judge(&asked, &shares, &chunk.targets);
        let beside = Beside { ids: chunks.ids(), classes: &asked.classes, probabilities: &shares };
        answers.write(&model.machine, &decisions, &beside).with_context(target)?;
        let given: Vec<Answer> = decisions.iter().map(|decision| decision.answer).collect();
        tally.fit.add(&model.machine, &given, &chunk.targets);
        for decision in &decisions {
            tally.multiply_adds += decision.cost.multiply_adds;
            tally.certainties[decision.certainty as usize] += 1;
        }
        tally.queries += decisions.len();
        progress.inc(decisions.len() as u64);
    }
    anyhow::ensure!(tally.queries > 0, "{}: the file holds no rows", source());
    answers.finish().with_context(target)?;
    progress.finish_and_clear();
    let budget = known.and_then(|limits| limits.budget);
    let audited = audit.as_ref().map(Audit::report);
    report(&tally, &plan, budget.as_ref(), (chunks.ignored(), audited), console);
    Ok(DONE)
}

/// Who watches over calibrated answers, if somebody is to.
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
    let rows = Queries::whole(path, Options::default(), model, console)?.examples;
    let named = || path.display().to_string();
    Ok(Some(audit.near(&rows).with_context(named)?))
}

/// What is said when answers are wrong more often than promised.
fn alarm(at: u64, plan: &Plan) -> String {
    let risk = plan.calibration().map_or(0.0, |known| known.risk);
    format!(
        "by query {at} the audit shows that more than {risk} of the labels differ from exact ones: these \
         queries are not like the sample; calibrate anew, or use --require certified"
    )
}

fn audited(report: &AuditReport) -> Value {
    let AuditReport { seen, asked, disagreements, low, high, alarm } = report;
    json!({
        "queries": seen, "asked_again": asked, "disagreements": disagreements, "low": low,
        "high": high, "alarm_at_query": alarm,
    })
}

/// Rows of a chunk become rows of the file.
fn shift(error: QueryError, before: usize) -> QueryError {
    match error {
        QueryError::NotFinite { row, value } => QueryError::NotFinite { row: row + before, value },
        QueryError::Negative { row, column, value, kernel } => {
            QueryError::Negative { row: row + before, column, value, kernel }
        }
        other => other,
    }
}

fn report(
    tally: &Tally,
    plan: &Plan,
    budget: Option<&Budget>,
    (ignored, audit): (&[String], Option<AuditReport>),
    console: &Console,
) {
    let fit = &tally.fit;
    let is_value = matches!(plan.exact_stage().machine().output(), Output::Value);
    let mean_cost = tally.multiply_adds as f64 / tally.queries as f64;
    if console.json {
        let counts: Map<String, Value> = LEVELS
            .iter()
            .map(|level| (certainty(*level).to_owned(), tally.certainties[*level as usize].into()))
            .collect();
        let mut object = json!({
            "queries": tally.queries, "seconds": tally.seconds, "mean_cost": mean_cost,
            "certainty": counts,
        });
        if let Some(calibration) = plan.calibration() {
            object["calibration"] = compile::value(calibration);
        }
        if let Some(budget) = budget {
            object["budget"] = json!(budget);
        }
        if let Some(report) = &audit {
            object["audit"] = audited(report);
        }
        if tally.clamped > 0 {
            object["clamped_values"] = json!(tally.clamped);
        }
        if tally.log_loss.1 > 0 {
            object["log_loss"] = json!(tally.log_loss.0 / tally.log_loss.1 as f64);
        }
        if !ignored.is_empty() {
            object["ignored_columns"] = json!(ignored);
        }
        if fit.counted() > 0 {
            let (key, value) = if is_value {
                ("mse", fit.mean_squared_error())
            } else {
                ("accuracy", fit.accuracy())
            };
            object[key] = json!(value);
        }
        println!("{object}");
        return;
    }
    if tally.clamped > 0 {
        console.warn(&format!(
            "{} values lie beyond those of the training and were clamped",
            tally.clamped
        ));
    }
    let quality = match (fit.counted(), is_value) {
        (0, _) => String::new(),
        (_, true) => format!(", mean squared error {:.6}", fit.mean_squared_error()),
        (counted, false) => {
            format!(", accuracy {:.4} % ({}/{counted})", 100.0 * fit.accuracy(), fit.right())
        }
    };
    let each = 1e6 * tally.seconds / tally.queries as f64;
    let kinds: Vec<String> = LEVELS
        .iter()
        .rev()
        .filter(|level| tally.certainties[**level as usize] > 0)
        .map(|level| format!("{} {}", tally.certainties[*level as usize], certainty(*level)))
        .collect();
    console.summary(&format!(
        "{} queries{quality}; {}; {mean_cost:.0} multiply-adds and {each:.1} us each",
        tally.queries,
        kinds.join(", "),
    ));
    if tally.log_loss.1 > 0 {
        let mean = tally.log_loss.0 / tally.log_loss.1 as f64;
        console.summary(&format!("mean log loss of the probabilities {mean:.6}"));
    }
    if let Some(budget) = budget {
        console.summary(&demands::sentence(budget));
    }
    if let Some(calibration) = plan.calibration() {
        console.summary(&compile::sentence(calibration));
    }
    if let Some(AuditReport { asked, disagreements, low, high, alarm, .. }) = audit {
        let verdict = if alarm.is_some() { "the promise is broken" } else { "no alarm" };
        console.summary(&format!(
            "audit: {asked} queries asked again exactly, {disagreements} other labels; at all times \
             between {low:.2e} and {high:.2e} of all queries: {verdict}"
        ));
    }
}
