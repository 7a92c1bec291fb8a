//! Metrics in the text format of Prometheus: counters and histograms in base units. What is counted is decided where it
//! happens.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mercer_query::{Certainty, Decision};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::answers::certainty_name;
use crate::repository::Repository;
use crate::scheduler::Scheduler;
use crate::served::ServedModel;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    model: String,
    version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CertaintyLabels {
    model: String,
    version: u64,
    certainty: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    protocol: &'static str,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
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

/// All metrics of a server.
pub struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<RequestLabels, Counter>,
    queries: Family<CertaintyLabels, Counter>,
    request_seconds: Histogram,
    queue_seconds: Histogram,
    compute_seconds: Histogram,
    batch_queries: Histogram,
    query_cost: Histogram,
    shed: Family<ReasonLabels, Counter>,
    degraded: Counter,
    reloads: Family<ReasonLabels, Counter>,
    info: Family<InfoLabels, Gauge>,
    bytes: Family<ModelLabels, Gauge>,
    audit_queries: Family<ModelLabels, Gauge>,
    audit_disagreements: Family<ModelLabels, Gauge>,
    audit_high: Family<ModelLabels, Gauge<f64, std::sync::atomic::AtomicU64>>,
    audit_alarm: Family<ModelLabels, Gauge>,
    backlog: Gauge<f64, std::sync::atomic::AtomicU64>,
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

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::default()),
            requests: Family::default(),
            queries: Family::default(),
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
            audit_queries: Family::default(),
            audit_disagreements: Family::default(),
            audit_high: Family::default(),
            audit_alarm: Family::default(),
            backlog: Gauge::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        macro_rules! add {
            ($name:expr, $help:expr, $metric:expr) => {
                registry.register($name, $help, $metric)
            };
        }
        add!("mercer_requests", "Requests by protocol and status code", self.requests.clone());
        add!("mercer_queries", "Rows that were answered", self.queries.clone());
        let whole = "Seconds from the first byte to the response";
        add!("mercer_request_duration_seconds", whole, self.request_seconds.clone());
        add!("mercer_queue_duration_seconds", "Seconds in the queue", self.queue_seconds.clone());
        add!("mercer_compute_duration_seconds", "Seconds of work", self.compute_seconds.clone());
        add!(
            "mercer_batch_queries",
            "Rows that were answered together",
            self.batch_queries.clone()
        );
        add!("mercer_query_multiply_adds", "Cost of a row", self.query_cost.clone());
        add!("mercer_shed", "Requests that were refused", self.shed.clone());
        add!(
            "mercer_degraded",
            "Requests with a smaller budget because of overload",
            self.degraded.clone()
        );
        add!("mercer_reload", "Loads of models by result", self.reloads.clone());
        add!(
            "mercer_model_info",
            "Always 1: digest, plan and contract of a model",
            self.info.clone()
        );
        add!("mercer_model_bytes", "Memory of a model", self.bytes.clone());
        add!(
            "mercer_audit_queries",
            "Calibrated answers asked again exactly",
            self.audit_queries.clone()
        );
        let other = "Of those, answers with another label";
        add!("mercer_audit_disagreements", other, self.audit_disagreements.clone());
        let high = "Upper bound on the share of disagreements, valid at all times";
        add!("mercer_audit_bound_high", high, self.audit_high.clone());
        add!(
            "mercer_audit_alarm",
            "1 if the promise of a calibration is broken",
            self.audit_alarm.clone()
        );
        add!("mercer_queue_expected_seconds", "Expected time of what waits", self.backlog.clone());
    }

    /// A request that was answered, well or not.
    pub fn note_request(&self, protocol: &'static str, code: u16, time: Duration) {
        self.requests.get_or_create(&RequestLabels { protocol, code }).inc();
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
                let (model, version) = (served.name.clone(), served.version);
                let certainty = certainty_name(certainty);
                let labels = CertaintyLabels { model, version, certainty };
                self.queries.get_or_create(&labels).inc_by(count);
            }
        }
        self.queue_seconds.observe(times[0].as_secs_f64());
        self.compute_seconds.observe(times[1].as_secs_f64());
        self.batch_queries.observe(batch as f64);
    }

    /// A request that was refused because of its number.
    pub fn note_shed(&self, reason: &'static str) {
        self.shed.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// A load that ended well or not.
    pub fn note_reload(&self, is_done: bool) {
        let reason = if is_done { "loaded" } else { "failed" };
        self.reloads.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// The promise of a calibration was found to be broken.
    pub fn note_alarm(&self, served: &ServedModel) {
        let labels = ModelLabels { model: served.name.clone(), version: served.version };
        self.audit_alarm.get_or_create(&labels).set(1);
    }

    /// All metrics as text.
    pub fn text(&self, repository: &Repository, scheduler: &Scheduler) -> String {
        self.backlog.set(scheduler.backlog().as_secs_f64());
        self.degraded.inner().store(scheduler.degraded(), Ordering::Relaxed);
        self.info.clear();
        self.bytes.clear();
        for served in repository.served() {
            let labels = ModelLabels { model: served.name.clone(), version: served.version };
            let info = InfoLabels {
                model: served.name.clone(),
                version: served.version,
                digest: served.digest.clone(),
                plan: served.plan.spec().to_string(),
                contract: served.contract(),
            };
            self.info.get_or_create(&info).set(1);
            self.bytes.get_or_create(&labels).set(served.bytes as i64);
            if let Some(audit) = &served.audit {
                let audit =
                    audit.lock().unwrap_or_else(std::sync::PoisonError::into_inner).report();
                self.audit_queries.get_or_create(&labels).set(audit.audited as i64);
                self.audit_disagreements.get_or_create(&labels).set(audit.disagreements as i64);
                self.audit_high.get_or_create(&labels).set(audit.high);
                let is_alarmed = served.is_alarmed.load(Ordering::Relaxed);
                self.audit_alarm.get_or_create(&labels).set(i64::from(is_alarmed));
            }
        }
        let mut out = String::new();
        let registry = self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Writing into a text does not fail.
        let _ = text::encode(&mut out, &registry);
        out
    }
}
