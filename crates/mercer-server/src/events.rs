//! What a server tells the program that runs it: that it listens, models that change, alarms, one record for each request.
//! The program writes it where it likes; nothing is printed here.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::repository::Changes;

/// What a server tells the program that runs it.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It listens here and loads its models: it answers probes, and is not ready.
    Starting {
        /// The address.
        address: SocketAddr,
        /// The address of gRPC, if it is served.
        grpc: Option<SocketAddr>,
    },
    /// It is ready, with so many models.
    Listening {
        /// The address.
        address: SocketAddr,
        /// The address of gRPC, if it is served.
        grpc: Option<SocketAddr>,
        /// Models that are ready.
        models: usize,
    },
    /// Calibrated answers of this model cannot be audited.
    NotAudited {
        /// The model.
        model: String,
        /// Its version.
        version: u64,
        /// Why not.
        reason: String,
    },
    /// Files of models changed.
    Changed(Changes),
    /// The audit found that a calibrated plan does not keep its promise; its model answers by proved plans from now on.
    Alarm(Alarm),
    /// A request was answered or refused. Only told if the options ask for a log.
    Request(Box<RequestLog>),
    /// It was told to stop, and no longer says that it is ready.
    Stopping,
    /// It has ended; whether all requests were answered.
    Stopped {
        /// Whether all requests ended in time.
        all_answered: bool,
    },
}

/// A promise that was found to be broken.
#[derive(Debug, Clone, PartialEq)]
pub struct Alarm {
    /// The model.
    pub model: String,
    /// Its version.
    pub version: u64,
    /// Its digest.
    pub digest: String,
    /// Queries until then.
    pub queries: u64,
    /// At least this share of the labels disagrees with exact ones, with the confidence of the calibration.
    pub low: f64,
    /// The share that the calibration allows.
    pub promised: f64,
}

/// One request, for a log.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestLog {
    /// When it came.
    pub time: SystemTime,
    /// `http` or `grpc`.
    pub protocol: &'static str,
    /// The method of HTTP; `POST` for gRPC.
    pub method: String,
    /// The path.
    pub path: String,
    /// The status code of the protocol.
    pub code: u16,
    /// From the first byte to the response.
    pub duration: Duration,
    /// The model, its version and its digest, if the request found one.
    pub model: Option<(String, u64, String)>,
    /// The caller's own name for the request.
    pub id: Option<String>,
    /// Rows that were answered.
    pub rows: usize,
    /// Those that are unsettled.
    pub unsettled: usize,
    /// Time in the queue.
    pub queue: Duration,
    /// Time of the work.
    pub compute: Duration,
    /// The trace and the caller's span (`traceparent` of the W3C).
    pub trace: Option<TraceParent>,
    /// Why it was refused.
    pub error: Option<String>,
}

/// The caller's trace: 32 and 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace_id: String,
    /// The caller's span.
    pub parent_id: String,
}

impl TraceParent {
    /// Reads the header `traceparent` (W3C Trace Context, section 3.2); none if it is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_hex = |part: &str, length: usize| {
            part.len() == length
                && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_some_id = |part: &str, length: usize| {
            is_hex(part, length) && part.bytes().any(|byte| byte != b'0')
        };
        let mut parts = text.split('-');
        let (version, trace, parent, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Later versions may have more parts.
        let is_known = is_hex(version, 2) && version != "ff";
        let has_end = parts.next().is_none() || version != "00";
        let is_whole = is_known && has_end && is_hex(flags, 2);
        (is_whole && is_some_id(trace, 32) && is_some_id(parent, 16))
            .then(|| Self { trace_id: trace.to_owned(), parent_id: parent.to_owned() })
    }
}

/// Where events go.
#[derive(Clone)]
pub(crate) struct Events(Arc<dyn Fn(Event) + Send + Sync>);

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    pub(crate) fn new(tell: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn tell(&self, event: Event) {
        (self.0)(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_parents_are_read_as_the_standard_says() {
        let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let found = TraceParent::parse(&format!("00-{trace}-{parent}-01")).unwrap();
        assert_eq!((found.trace_id.as_str(), found.parent_id.as_str()), (trace, parent));
        assert!(TraceParent::parse(&format!("01-{trace}-{parent}-01-more")).is_some());
        let zeros = "0".repeat(32);
        for wrong in [
            String::new(),
            format!("00-{trace}-{parent}"),
            format!("00-{trace}-{parent}-01-more"),
            format!("ff-{trace}-{parent}-01"),
            format!("00-{zeros}-{parent}-01"),
            format!("00-{trace}-{}-01", &zeros[..16]),
            format!("00-{}-{parent}-01", trace.to_uppercase()),
        ] {
            assert_eq!(TraceParent::parse(&wrong), None, "{wrong}");
        }
    }
}
