//! What becomes known of a request on its way, for its line in the log and its labels in metrics, whatever the protocol.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::http::HeaderMap;

use crate::events::{Event, Events, RequestLog, TraceParent};
use crate::failure::Failure;
use crate::infer::InferResponse;
use crate::metrics::Metrics;
use crate::served::ServedModel;

/// A request on its way; handlers find it among the extensions of the request.
#[derive(Debug)]
pub struct RequestRecord {
    arrived: Instant,
    known: Mutex<Known>,
}

impl Default for RequestRecord {
    fn default() -> Self {
        Self { arrived: Instant::now(), known: Mutex::default() }
    }
}

#[derive(Debug, Default)]
struct Known {
    served: Option<Arc<ServedModel>>,
    id: Option<String>,
    rows: usize,
    unsettled: usize,
    queue: Duration,
    compute: Duration,
}

impl RequestRecord {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When its head had come.
    pub fn arrived(&self) -> Instant {
        self.arrived
    }

    /// The model that it asks.
    pub fn note_model(&self, served: &Arc<ServedModel>) {
        self.known().served = Some(Arc::clone(served));
    }

    /// That an inference failed after so much time: it counts for the model, if that is known.
    pub fn note_failure(&self, failure: &Failure, time: Duration) {
        if let Some(served) = &self.known().served {
            served.note_failure(failure, time);
        }
    }

    /// The answer that it gets.
    pub fn note_response(&self, response: &InferResponse) {
        let mut known = self.known();
        known.id.clone_from(&response.id);
        known.unsettled = response.unsettled;
        (known.queue, known.compute) = (response.queue, response.compute);
        known.rows = response.outputs.first().map_or(0, |(output, _)| output.shape[0]);
    }
}

/// What is known of a request before it is answered.
#[derive(Debug)]
pub struct Arrival {
    /// What becomes known on its way.
    pub record: Arc<RequestRecord>,
    protocol: &'static str,
    time: SystemTime,
    method: String,
    path: String,
    trace: Option<TraceParent>,
}

impl Arrival {
    /// A request that has just come.
    pub fn new<B>(protocol: &'static str, request: &axum::http::Request<B>) -> Self {
        Self {
            record: Arc::default(),
            protocol,
            time: SystemTime::now(),
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            trace: trace(request.headers()),
        }
    }

    /// The path of the request.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Counts the request, and tells it to the log if there is one.
    pub fn end(self, code: u16, error: Option<String>, metrics: &Metrics, log: Option<&Events>) {
        let Self { record, protocol, time, method, path, trace } = self;
        let duration = record.arrived.elapsed();
        let known = record.known();
        metrics.note_request(protocol, code, known.served.as_deref(), duration);
        let Some(events) = log else { return };
        let describe = |served: &Arc<ServedModel>| {
            (served.name.clone(), served.version, served.digest.clone())
        };
        events.tell(Event::Request(Box::new(RequestLog {
            time,
            protocol,
            method,
            path,
            code,
            duration,
            model: known.served.as_ref().map(describe),
            id: known.id.clone(),
            rows: known.rows,
            unsettled: known.unsettled,
            queue: known.queue,
            compute: known.compute,
            trace,
            error,
        })));
    }
}

fn trace(headers: &HeaderMap) -> Option<TraceParent> {
    TraceParent::parse(headers.get("traceparent")?.to_str().ok()?)
}

/// Repeats the caller's trace in the headers of the response.
pub fn echo_trace(request: Option<axum::http::HeaderValue>, response: &mut HeaderMap) {
    let is_whole = |value: &axum::http::HeaderValue| {
        value.to_str().ok().and_then(TraceParent::parse).is_some()
    };
    if let Some(value) = request.filter(is_whole) {
        response.insert("traceparent", value);
    }
}
