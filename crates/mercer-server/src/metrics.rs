//! Metrics in the text format of Prometheus (OpenMetrics): counters and histograms in base units. What is counted is decided
//! where it happens.

mod process;
mod triton;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mercer_query::{Certainty, Decision};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::answers::certainty_name;
use crate::failure::Shed;
use crate::repository::Repository;
use crate::scheduler::Scheduler;
use crate::served::ServedModel;

/// Which names metrics have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricsNames {
    /// `mercer_...`.
    #[default]
    Mercer,
    /// Those of Triton (`nv_inference_...`) as well, for dashboards and autoscalers that know them.
    Triton,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    model: String,
    version: u64,
}

impl ModelLabels {
    fn of(served: &ServedModel) -> Self {
        Self { model: served.name.clone(), version: served.version }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CertaintyLabels {
    model: String,
    version: u64,
    certainty: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    model: String,
    version: u64,
    stage: String,
}

/// Model and version are empty where a request is of no model, or of none that there is: names that callers invent must
/// not become labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    model: String,
    version: String,
    protocol: &'static str,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InfoLabels {
    model: String,
    version: u64,
    digest: String,
    plan: String,
    contract: String,
}

const CERTAINTIES: [Certainty; 4] =
    [Certainty::Unsettled, Certainty::Calibrated, Certainty::Certified, Certainty::Exact];

type Number = Gauge<f64, AtomicU64>;

/// All metrics of a server.
pub struct Metrics {
    registry: Mutex<Registry>,
    names: MetricsNames,
    requests: Family<RequestLabels, Counter>,
    in_flight: Gauge,
    queries: Family<CertaintyLabels, Counter>,
    settled: Family<StageLabels, Counter>,
    request_seconds: Histogram,
    queue_seconds: Histogram,
    compute_seconds: Histogram,
    batch_queries: Histogram,
    query_cost: Histogram,
    shed: Family<ReasonLabels, Counter>,
    degraded: Counter,
    reloads: Family<ResultLabels, Counter>,
    info: Family<InfoLabels, Gauge>,
    bytes: Family<ModelLabels, Gauge>,
    audit: AuditMetrics,
    backlog_seconds: Number,
    backlog_cost: Gauge,
    process: process::ProcessMetrics,
}

/// What audits have found.
#[derive(Default)]
struct AuditMetrics {
    queries: Family<ModelLabels, Counter>,
    disagreements: Family<ModelLabels, Counter>,
    left_out: Family<ModelLabels, Counter>,
    low: Family<ModelLabels, Number>,
    high: Family<ModelLabels, Number>,
    alarm: Family<ModelLabels, Gauge>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Powers of two from 25 microseconds to about 13 seconds.
fn seconds() -> Histogram {
    Histogram::new((0..20).map(|power| 25e-6 * f64::from(1u32 << power)))
}

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
pub struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// No request yet.
    pub fn new(names: MetricsNames) -> Self {
        let metrics = Self {
            registry: Mutex::default(),
            names,
            requests: Family::default(),
            in_flight: Gauge::default(),
            queries: Family::default(),
            settled: Family::default(),
            request_seconds: seconds(),
            queue_seconds: seconds(),
            compute_seconds: seconds(),
            batch_queries: Histogram::new((0..12).map(|power| f64::from(1u32 << power))),
            query_cost: Histogram::new((0..10).map(|power| 10f64.powi(power))),
            shed: Family::default(),
            degraded: Counter::default(),
            reloads: Family::default(),
            info: Family::default(),
            bytes: Family::default(),
            audit: AuditMetrics::default(),
            backlog_seconds: Gauge::default(),
            backlog_cost: Gauge::default(),
            process: process::ProcessMetrics::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        macro_rules! add {
            ($name:literal, $help:literal, $metric:expr) => {
                registry.register($name, $help, $metric.clone())
            };
        }
        add!("mercer_requests", "Requests by model, protocol and status code", self.requests);
        add!("mercer_in_flight", "Requests that are being answered", self.in_flight);
        add!("mercer_queries", "Rows that were answered, by certainty", self.queries);
        add!("mercer_settled", "Rows by the stage that settled them", self.settled);
        let request_seconds = self.request_seconds.clone();
        let help = "Seconds from the first byte of a request to its response";
        registry.register("mercer_request_duration_seconds", help, request_seconds);
        add!("mercer_queue_duration_seconds", "Seconds in the queue", self.queue_seconds);
        add!("mercer_compute_duration_seconds", "Seconds of work", self.compute_seconds);
        add!("mercer_batch_queries", "Rows that were answered together", self.batch_queries);
        add!("mercer_query_multiply_adds", "Cost of a row", self.query_cost);
        add!("mercer_shed", "Requests that were refused by load", self.shed);
        add!("mercer_degraded", "Requests with a smaller budget by load", self.degraded);
        add!("mercer_reload", "Loads of models by result", self.reloads);
        add!("mercer_model_info", "1: digest, plan and contract of a model", self.info);
        add!("mercer_model_bytes", "Memory of a model", self.bytes);
        add!("mercer_queue_expected_seconds", "Expected time of what waits", self.backlog_seconds);
        add!("mercer_queue_multiply_adds", "Expected cost of what waits", self.backlog_cost);
        let AuditMetrics { queries, disagreements, left_out, low, high, alarm } = &self.audit;
        add!("mercer_audit_queries", "Calibrated answers asked again exactly", queries);
        add!("mercer_audit_disagreements", "Of those, answers with another label", disagreements);
        add!("mercer_audit_left_out", "Rows that no audit drew from, by load", left_out);
        add!("mercer_audit_bound_low", "Least share of disagreements, valid at all times", low);
        add!("mercer_audit_bound_high", "Largest share of disagreements, valid at all times", high);
        add!("mercer_audit_alarm", "1 if the promise of a calibration is broken", alarm);
        self.process.register(&mut registry);
        // Counters that may never count are 0 from the start: rates need a first value.
        for shed in Shed::ALL {
            drop(self.shed.get_or_create(&ReasonLabels { reason: shed.name() }));
        }
        for result in ["loaded", "failed"] {
            drop(self.reloads.get_or_create(&ResultLabels { result }));
        }
    }

    /// A request has begun.
    pub fn note_arrival(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// A request that was answered, well or not.
    pub fn note_request(
        &self,
        protocol: &'static str,
        code: u16,
        served: Option<&ServedModel>,
        time: Duration,
    ) {
        let labels = RequestLabels {
            model: served.map_or_else(String::new, |served| served.name.clone()),
            version: served.map_or_else(String::new, |served| served.version.to_string()),
            protocol,
            code,
        };
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.observe(time.as_secs_f64());
    }

    /// Rows that were answered, with their time in the queue and that of the work.
    pub fn note_answers(
        &self,
        served: &ServedModel,
        decisions: &[Decision],
        times: [Duration; 2],
        batch: usize,
    ) {
        let mut counts = [0u64; 4];
        for decision in decisions {
            counts[decision.certainty as usize] += 1;
            self.query_cost.observe(decision.cost.multiply_adds as f64);
        }
        for certainty in CERTAINTIES {
            let count = counts[certainty as usize];
            if count > 0 {
                let ModelLabels { model, version } = ModelLabels::of(served);
                let certainty = certainty_name(certainty);
                let labels = CertaintyLabels { model, version, certainty };
                self.queries.get_or_create(&labels).inc_by(count);
            }
        }
        self.queue_seconds.observe(times[0].as_secs_f64());
        self.compute_seconds.observe(times[1].as_secs_f64());
        self.batch_queries.observe(batch as f64);
    }

    /// A request that was refused by load.
    pub fn note_shed(&self, shed: Shed) {
        self.shed.get_or_create(&ReasonLabels { reason: shed.name() }).inc();
    }

    /// A load that ended well or not.
    pub fn note_reload(&self, is_done: bool) {
        let result = if is_done { "loaded" } else { "failed" };
        self.reloads.get_or_create(&ResultLabels { result }).inc();
    }

    /// All metrics as text.
    pub fn text(&self, repository: &Repository, scheduler: &Scheduler) -> String {
        let served = repository.served();
        self.backlog_seconds.set(scheduler.backlog().as_secs_f64());
        self.backlog_cost.set(i64::try_from(scheduler.expected_cost()).unwrap_or(i64::MAX));
        self.degraded.inner().store(scheduler.degraded(), Ordering::Relaxed);
        self.process.read();
        {
            // Models come and go: only those that are served are shown.
            self.info.clear();
            self.bytes.clear();
            self.settled.clear();
            self.audit.clear();
            served.iter().for_each(|served| self.read_model(served));
        }
        let mut out = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing into a text does not fail.
        let _ = text::encode(&mut out, &registry);
        if self.names == MetricsNames::Triton {
            triton::add(&mut out, &served);
        }
        out
    }

    fn read_model(&self, served: &ServedModel) {
        let labels = ModelLabels::of(served);
        let info = InfoLabels {
            model: served.name.clone(),
            version: served.version,
            digest: served.digest.clone(),
            plan: served.active_plan().spec().to_string(),
            contract: served.contract(),
        };
        self.info.get_or_create(&info).set(1);
        self.bytes.get_or_create(&labels).set(served.bytes as i64);
        let stages = served.plan.stages().iter().map(|stage| stage.spec().to_string());
        for (stage, count) in stages.chain(["exact".to_owned()]).zip(&served.counters.settled) {
            let ModelLabels { model, version } = labels.clone();
            let counter = self.settled.get_or_create(&StageLabels { model, version, stage });
            counter.inner().store(count.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.audit.read(served, &labels);
    }
}

impl AuditMetrics {
    fn clear(&self) {
        self.queries.clear();
        self.disagreements.clear();
        self.left_out.clear();
        self.low.clear();
        self.high.clear();
        self.alarm.clear();
    }

    fn read(&self, served: &ServedModel, labels: &ModelLabels) {
        // The guard must not be held longer than the report takes.
        let Some(report) = served.audit().map(|audit| audit.report()) else { return };
        let set = |family: &Family<ModelLabels, Counter>, value: u64| {
            family.get_or_create(labels).inner().store(value, Ordering::Relaxed);
        };
        set(&self.queries, report.audited);
        set(&self.disagreements, report.disagreements);
        set(&self.left_out, served.counters.unaudited.load(Ordering::Relaxed));
        self.low.get_or_create(labels).set(report.low);
        self.high.get_or_create(labels).set(report.high);
        let is_alarmed = served.is_alarmed.load(Ordering::Relaxed);
        self.alarm.get_or_create(labels).set(i64::from(is_alarmed));
    }
}
