//! One inference from request to response, whatever the protocol: which model, how it is asked, what is returned.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mercer_data::Matrix;
use mercer_query::{Certainty, Decision, QueryOptions};

use crate::answers::{self, Computed};
use crate::auditor::{Auditor, Offer};
use crate::describe;
use crate::failure::{Failure, Kind};
use crate::json_array::Elements;
use crate::metrics::Metrics;
use crate::offload::{Offload, as_text};
use crate::pace::Pace;
use crate::probabilities::ClassProbabilities;
use crate::record::RequestRecord;
use crate::repository::Repository;
use crate::request::{InferRequest, Parameters};
use crate::rows::rows;
use crate::scheduler::{Answered, Expected, Reservation, Scheduler, Work};
use crate::served::ServedModel;
use crate::tensor::{OutputTensor, Tensor};

/// What every protocol shares.
#[derive(Debug)]
pub struct Service {
    /// The models.
    pub repository: Repository,
    /// The queue.
    pub scheduler: Scheduler,
    /// Asks some calibrated answers again.
    pub auditor: Auditor,
    /// Counters and histograms.
    pub metrics: Metrics,
    /// Other work that may take long.
    pub offload: Offload,
    /// How long bodies of each form take to be decoded, by the byte.
    pub reading: ReadingPaces,
    /// Rows of one request, at most.
    pub most_rows: usize,
}

/// How the rows of a body are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyForm {
    /// Numbers as text.
    Json,
    /// Numbers as bytes.
    Bytes,
}

/// How long bodies take to be decoded, by the byte, in each form.
#[derive(Debug, Default)]
pub struct ReadingPaces {
    json: Pace,
    bytes: Pace,
}

impl ReadingPaces {
    /// The pace of a form, and nanoseconds for a byte where nothing was decoded yet: 200 MB/s of JSON, 1 GB/s of bytes.
    fn of(&self, form: BodyForm) -> (&Pace, f64) {
        match form {
            BodyForm::Json => (&self.json, 5.0),
            BodyForm::Bytes => (&self.bytes, 1.0),
        }
    }
}

/// The answer to an inference request.
#[derive(Debug)]
pub struct InferResponse {
    /// The model that answered.
    pub served: Arc<ServedModel>,
    /// The caller's own name for the request.
    pub id: Option<String>,
    /// Outputs in the order asked for, and whether each comes as bytes.
    pub outputs: Vec<(OutputTensor, bool)>,
    /// Rows that are unsettled.
    pub unsettled: usize,
    /// The limit of cost that was in force.
    pub budget: Option<u64>,
    /// Time in the queue.
    pub queue: Duration,
    /// Time of the work.
    pub compute: Duration,
}

impl Service {
    /// Answers a request; `record` is told what becomes known of it.
    ///
    /// # Errors
    /// If it is wrong, there is no such model, or the queue is full.
    pub async fn infer(
        &self,
        name: &str,
        version: Option<&str>,
        request: InferRequest,
        admitted: Reservation,
        record: &RequestRecord,
    ) -> Result<InferResponse, Failure> {
        let start = Instant::now();
        let served = self.repository.get(name, version)?;
        record.note_model(&served);
        let mut pending = Pending::new(&served);
        let outcome = self.infer_with(Arc::clone(&served), request, admitted, start).await;
        pending.is_over = true;
        let counters = &served.counters;
        if let Ok(response) = &outcome {
            record.note_response(response);
            let rows = response.outputs.first().map_or(0, |(output, _)| output.shape[0]);
            counters.requests.fetch_add(1, Ordering::Relaxed);
            counters.rows.fetch_add(rows as u64, Ordering::Relaxed);
            let nanoseconds = |time: Duration| time.as_nanos() as u64;
            counters.queue_ns.fetch_add(nanoseconds(response.queue), Ordering::Relaxed);
            counters.compute_ns.fetch_add(nanoseconds(response.compute), Ordering::Relaxed);
            counters.total_ns.fetch_add(nanoseconds(start.elapsed()), Ordering::Relaxed);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            counters.last_ms.store(now.as_millis() as u64, Ordering::Relaxed);
        }
        outcome
    }

    /// What a request is expected to take whose body has so many bytes.
    fn expected(&self, served: &ServedModel, form: BodyForm, bytes: usize) -> Expected {
        let (pace, usual) = self.reading.of(form);
        let rows = served.rows_in(bytes).max(1);
        let reading = pace.mean_ns().unwrap_or(usual) * bytes as f64;
        let nanoseconds = (reading + served.queued_ns() * rows as f64).clamp(1.0, 1e15) as u64;
        Expected { nanoseconds, multiply_adds: served.expected_cost(rows) }
    }

    /// Refuses a request before its body is read if it would be refused later: what is refused should cost little.
    ///
    /// # Errors
    /// If the server has taken on too much.
    pub fn check_room(
        &self,
        served: &ServedModel,
        form: BodyForm,
        bytes: usize,
    ) -> Result<(), Failure> {
        self.scheduler.check_room(self.expected(served, form, bytes))
    }

    /// Takes a request on whose body has come, before it is decoded.
    ///
    /// # Errors
    /// If the server has taken on too much.
    pub fn admit(
        &self,
        served: &ServedModel,
        form: BodyForm,
        bytes: usize,
    ) -> Result<Reservation, Failure> {
        self.scheduler.admit(self.expected(served, form, bytes))
    }

    /// A body that was decoded.
    pub fn note_read(&self, form: BodyForm, bytes: usize, time: Duration) {
        // A small body says little of the time for a byte.
        if bytes >= 4096 {
            let (pace, usual) = self.reading.of(form);
            let most = 4e-9 * pace.mean_ns().unwrap_or(usual) * bytes as f64;
            pace.note(bytes, time.min(Duration::from_secs_f64(most)));
        }
    }

    /// Decisions for rows: at once or from the queue, drawn for the audit, counted.
    ///
    /// # Errors
    /// If the queue is full, or a row cannot be answered.
    pub async fn answer(
        &self,
        work: Work,
        admitted: Option<Reservation>,
    ) -> Result<Answered, Failure> {
        let served = Arc::clone(&work.served);
        let offer = Offer::draw(&served, &work.rows);
        let answered = self.scheduler.answer(work, admitted).await?;
        let Answered { decisions, queue, compute, batch, .. } = &answered;
        self.metrics.note_answers(&served, decisions, [*queue, *compute], *batch);
        if let Some(offer) = offer {
            self.auditor.offer(&served, offer, decisions);
        }
        Ok(answered)
    }

    async fn infer_with(
        &self,
        served: Arc<ServedModel>,
        request: InferRequest,
        admitted: Reservation,
        start: Instant,
    ) -> Result<InferResponse, Failure> {
        request.check_names()?;
        let InferRequest { id, parameters, inputs, outputs, read_time, arrived } = request;
        check_digest(&served, &parameters)?;
        let wanted = answers::wanted(&parameters, &outputs)?;
        let (own, most) = (Arc::clone(&served), self.most_rows);
        let bytes = match inputs.as_slice() {
            [Tensor { elements: Elements::Numbers(numbers), .. }] => as_text(8 * numbers.len()),
            inputs => inputs.iter().map(Tensor::bytes).sum(),
        };
        let make = move || timed(|| rows(&own.model, inputs, most));
        let (rows, input) = self.offload.run(bytes, make).await?;
        let rows = rows?;
        let options = query_options(&served, &parameters);
        let timeout = parameters.timeout_us.map(Duration::from_micros);
        let deadline = timeout.and_then(|timeout| arrived.unwrap_or(start).checked_add(timeout));
        let is_more_wanted = parameters.has_scores || parameters.has_probabilities;
        let kept = (is_more_wanted || parameters.has_explanations).then(|| rows.clone());
        if parameters.has_explanations && rows.rows() > EXPLAINED {
            let what = format!("{} rows to explain; at most {EXPLAINED} are", rows.rows());
            return Err(Failure::new(Kind::TooLarge, what));
        }
        let work = Work { served: Arc::clone(&served), rows, options, deadline };
        let Answered { decisions, budget, queue, compute, .. } =
            self.answer(work, Some(admitted)).await?;
        let mut computed = Computed { decisions, ..Computed::default() };
        if let Some(rows) = kept {
            let options = QueryOptions { budget, ..options };
            computed = self.with_more(&served, &parameters, options, rows, computed).await?;
        }
        let is_unsettled = |decision: &&Decision| decision.certainty == Certainty::Unsettled;
        let unsettled = computed.decisions.iter().filter(is_unsettled).count();
        let (own, bytes) = (Arc::clone(&served), OUTPUT_BYTES * computed.decisions.len());
        let make = move || {
            let output = |(name, is_binary)| {
                (answers::output(name, &own.model.machine, &computed), is_binary)
            };
            timed(|| wanted.into_iter().map(output).collect())
        };
        let (outputs, output) = self.offload.run(bytes, make).await?;
        let input_ns = (read_time + input).as_nanos() as u64;
        served.counters.input_ns.fetch_add(input_ns, Ordering::Relaxed);
        served.counters.output_ns.fetch_add(output.as_nanos() as u64, Ordering::Relaxed);
        Ok(InferResponse { served, id, outputs, unsettled, budget, queue, compute })
    }

    /// Adds exact scores, probabilities and explanations, as far as they are asked for.
    async fn with_more(
        &self,
        served: &Arc<ServedModel>,
        parameters: &Parameters,
        options: QueryOptions,
        rows: Matrix,
        mut computed: Computed,
    ) -> Result<Computed, Failure> {
        // In units of the work on a body: an exact score reads all supports for every row.
        let bytes = rows.rows().saturating_mul(served.bytes);
        let (own, parameters) = (Arc::clone(served), parameters.clone());
        let add = move || {
            add_scores(&own, &parameters, &rows, &mut computed)?;
            if parameters.has_explanations {
                let explain =
                    |row| Ok(describe::explained(&own, &rows, row, &options)?.to_string());
                computed.explanations =
                    (0..rows.rows()).map(explain).collect::<Result<_, Failure>>()?;
            }
            Ok(computed)
        };
        self.offload.run(bytes, add).await?
    }
}

/// Rows of a request that are explained, at most.
const EXPLAINED: usize = 16;
/// Bytes of the outputs of a row, about.
const OUTPUT_BYTES: usize = 64;

/// What some work returns, and how long it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (work(), start.elapsed())
}

/// A request that is being answered. One that is dropped before its end was given up by its caller.
struct Pending<'a> {
    served: &'a ServedModel,
    is_over: bool,
}

impl<'a> Pending<'a> {
    fn new(served: &'a ServedModel) -> Self {
        served.counters.pending.fetch_add(1, Ordering::Relaxed);
        Self { served, is_over: false }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let counters = &self.served.counters;
        counters.pending.fetch_sub(1, Ordering::Relaxed);
        if !self.is_over {
            counters.cancelled.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn add_scores(
    served: &ServedModel,
    parameters: &Parameters,
    rows: &Matrix,
    computed: &mut Computed,
) -> Result<(), Failure> {
    if parameters.has_probabilities {
        computed.probabilities = probabilities(served, rows)?;
    }
    if parameters.has_scores {
        computed.scores = exact_scores(served, rows)?;
    }
    Ok(())
}

fn exact_scores(served: &ServedModel, rows: &Matrix) -> Result<Vec<f64>, Failure> {
    served.plan.scores(rows).map_err(|error| Failure::invalid(error.to_string()))
}

/// What computes probabilities.
///
/// # Errors
/// If the model has none.
pub(crate) fn class_probabilities(served: &ServedModel) -> Result<ClassProbabilities<'_>, Failure> {
    let none = || Failure::invalid(format!("the model '{}' has no probabilities", served.name));
    ClassProbabilities::of_model(&served.model).ok_or_else(none)
}

/// Probabilities of the classes, row after row.
///
/// # Errors
/// If the model has none, or a score overflows.
pub(crate) fn probabilities(served: &ServedModel, rows: &Matrix) -> Result<Vec<f64>, Failure> {
    let found = class_probabilities(served)?.of_rows(&served.plan, rows);
    found.map_err(|error| Failure::invalid(error.to_string()))?.ok_or_else(|| {
        let what = "the probabilities of the model do not match its scores";
        Failure::new(Kind::Internal, what)
    })
}

pub(crate) fn check_digest(served: &ServedModel, parameters: &Parameters) -> Result<(), Failure> {
    match &parameters.digest {
        Some(wanted) if *wanted != served.digest => {
            let what = format!(
                "the model '{}' has the digest {}, the request asks for {wanted}",
                served.name, served.digest
            );
            Err(Failure::new(Kind::OtherModel, what))
        }
        _ => Ok(()),
    }
}

/// Options of the request, and those of the model where it has none.
pub(crate) fn query_options(served: &ServedModel, parameters: &Parameters) -> QueryOptions {
    let tuned = served.query_options();
    let by_time = parameters.budget_us.map(|time| served.speed().times.limit(time));
    QueryOptions {
        budget: parameters.budget.or(by_time).or(tuned.budget),
        tolerance: parameters.tolerance.or(tuned.tolerance),
        require: parameters.require,
        threshold: parameters.threshold.or(tuned.threshold),
    }
}
