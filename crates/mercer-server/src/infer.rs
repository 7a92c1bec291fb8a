//! One inference from request to response, whatever the protocol: which model, how it is asked, what is returned.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mercer_query::{Certainty, QueryOptions};

use crate::answers::{self, Computed};
use crate::failure::{Failure, Kind};
use crate::metrics::Metrics;
use crate::repository::Repository;
use crate::request::{InferRequest, Parameters};
use crate::rows::rows;
use crate::scheduler::{Answered, Scheduler, Work};
use crate::served::ServedModel;
use crate::tensor::OutputTensor;

/// What every protocol shares.
#[derive(Debug)]
pub struct Service {
    /// The models.
    pub repository: Repository,
    /// The queue.
    pub scheduler: Scheduler,
    /// Counters and histograms.
    pub metrics: Metrics,
    /// Rows of one request, at most.
    pub most_rows: usize,
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
    /// Answers a request.
    ///
    /// # Errors
    /// If it is wrong, there is no such model, or the queue is full.
    pub async fn infer(
        &self,
        name: &str,
        version: Option<&str>,
        request: InferRequest,
    ) -> Result<InferResponse, Failure> {
        let start = Instant::now();
        let served = self.repository.get(name, version)?;
        let outcome = self.infer_with(Arc::clone(&served), request, start).await;
        let counters = &served.counters;
        match &outcome {
            Ok(response) => {
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
            Err(_) => {
                counters.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
        outcome
    }

    async fn infer_with(
        &self,
        served: Arc<ServedModel>,
        request: InferRequest,
        start: Instant,
    ) -> Result<InferResponse, Failure> {
        request.check_names()?;
        let InferRequest { id, parameters, inputs, outputs } = request;
        check_digest(&served, &parameters)?;
        let wanted = answers::wanted(&parameters, &outputs)?;
        let rows = rows(&served.model, &inputs, self.most_rows)?;
        let options = query_options(&served, &parameters);
        let timeout = parameters.timeout_us.map(Duration::from_micros);
        let deadline = timeout.and_then(|timeout| start.checked_add(timeout));
        let exact_rows =
            (parameters.has_scores || parameters.has_probabilities).then(|| rows.clone());
        let audited = served.audit.is_some().then(|| rows.clone());
        let work = Work { served: Arc::clone(&served), rows, options, deadline };
        let answered = self.scheduler.answer(work).await?;
        let Answered { mut decisions, budget, queue, compute, batch } = answered;
        if let Some(rows) = audited
            && served.audit(&rows, &mut decisions)
        {
            self.metrics.note_alarm(&served);
        }
        let mut computed = Computed { decisions, ..Computed::default() };
        if let Some(rows) = exact_rows {
            add_scores(&served, &parameters, &rows, &mut computed)?;
        }
        let is_unsettled = |certainty: Certainty| certainty == Certainty::Unsettled;
        let certainties = computed.decisions.iter().map(|decision| decision.certainty);
        let unsettled = certainties.filter(|certainty| is_unsettled(*certainty)).count();
        self.metrics.note_answers(&served, &computed.decisions, [queue, compute], batch);
        let machine = &served.model.machine;
        let outputs = wanted
            .into_iter()
            .map(|(name, is_binary)| (answers::output(name, machine, &computed), is_binary))
            .collect();
        Ok(InferResponse { served, id, outputs, unsettled, budget, queue, compute })
    }
}

/// Exact scores and probabilities, as far as they are asked for.
fn add_scores(
    served: &ServedModel,
    parameters: &Parameters,
    rows: &mercer_data::Matrix,
    computed: &mut Computed,
) -> Result<(), Failure> {
    let scores = served.plan.scores(rows).map_err(|error| Failure::invalid(error.to_string()))?;
    let machine = &served.model.machine;
    if parameters.has_probabilities {
        let curves = served.model.probabilities.as_ref();
        for scores in scores.chunks_exact(machine.scores().len()) {
            let shares = curves.and_then(|curves| curves.of_classes(machine, scores));
            let shares = shares.ok_or_else(|| {
                Failure::invalid(format!("the model '{}' has no probabilities", served.name))
            })?;
            computed.probabilities.extend(shares);
        }
    }
    if parameters.has_scores {
        computed.scores = scores;
    }
    Ok(())
}

fn check_digest(served: &ServedModel, parameters: &Parameters) -> Result<(), Failure> {
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
    let tuned = served.query_options;
    let by_time = parameters.budget_us.map(|time| served.times.limit(time));
    QueryOptions {
        budget: parameters.budget.or(by_time).or(tuned.budget),
        tolerance: parameters.tolerance.or(tuned.tolerance),
        require: parameters.require,
    }
}
