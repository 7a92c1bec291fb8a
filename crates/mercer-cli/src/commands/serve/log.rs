//! What a server says on standard error: events, and a line for each request if that is asked for. A thread of its own writes,
//! so that a reader that does not read holds no request up; what it cannot take is counted and left out.

use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use mercer_report::printable;
use mercer_server::{Changes, Event, LogFormat, RequestLog};
use serde_json::{Value, json};

/// Lines that wait to be written, at most.
const WAITING: usize = 1 << 14;
/// How long the last lines may take.
const LAST: Duration = Duration::from_secs(1);

/// The log of a server.
pub(super) struct Log {
    events: Option<Sender<Event>>,
    counts: Arc<Counts>,
    writer: Option<JoinHandle<()>>,
}

/// Lines that wait, and those that were left out. A channel with a bound of its own would take memory for all that may wait.
#[derive(Default)]
struct Counts {
    waiting: AtomicUsize,
    left_out: AtomicU64,
}

impl Log {
    /// Starts the thread that writes; `None` writes nothing at all.
    pub(super) fn start(format: Option<LogFormat>) -> anyhow::Result<Self> {
        let counts = Arc::<Counts>::default();
        let Some(format) = format else {
            return Ok(Self { events: None, counts, writer: None });
        };
        let (sender, events) = channel();
        let own = Arc::clone(&counts);
        let writer = std::thread::Builder::new()
            .name("mercer-log".to_owned())
            .spawn(move || write(&events, format, &own))
            .context("the log cannot be started")?;
        Ok(Self { events: Some(sender), counts, writer: Some(writer) })
    }

    /// Takes events; it never waits.
    pub(super) fn teller(&self) -> impl Fn(Event) + Send + Sync + 'static {
        let (events, counts) = (self.events.clone(), Arc::clone(&self.counts));
        move |event| {
            let Some(events) = &events else { return };
            if counts.waiting.fetch_add(1, Ordering::Relaxed) < WAITING {
                // Nobody writes any more: there is nobody to tell.
                drop(events.send(event));
            } else {
                counts.waiting.fetch_sub(1, Ordering::Relaxed);
                counts.left_out.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Writes what waits, within a bound: requests that were cut may still hold the other end.
    pub(super) fn finish(mut self) {
        let Some(writer) = self.writer.take() else { return };
        drop(self.events.take());
        let start = std::time::Instant::now();
        while !writer.is_finished() && start.elapsed() < LAST {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn write(events: &Receiver<Event>, format: LogFormat, counts: &Counts) {
    let mut out = BufWriter::new(io::stderr());
    while let Ok(first) = events.recv() {
        let mut next = Some(first);
        while let Some(event) = next {
            counts.waiting.fetch_sub(1, Ordering::Relaxed);
            let is_end = matches!(event, Event::Stopped { .. });
            // Nobody reads: there is nobody to tell.
            let _ = writeln!(out, "{}", line(&event, format));
            if is_end {
                let _ = out.flush();
                return;
            }
            next = events.try_recv().ok();
        }
        let count = counts.left_out.swap(0, Ordering::Relaxed);
        if count > 0 {
            let said = match format {
                LogFormat::Json => {
                    json!({ "event": "log_lines_left_out", "count": count }).to_string()
                }
                _ => format!("{count} lines of the log are left out: they were not read in time"),
            };
            let _ = writeln!(out, "{said}");
        }
        let _ = out.flush();
    }
}

fn line(event: &Event, format: LogFormat) -> String {
    match format {
        LogFormat::Json => object(event).to_string(),
        LogFormat::Text | LogFormat::Off => printable(&sentence(event)).into_owned(),
    }
}

fn sentence(event: &Event) -> String {
    match event {
        Event::Starting { address, grpc } => {
            format!("loading models; http://{address}{} says when they are ready", for_grpc(*grpc))
        }
        Event::Listening { address, grpc, models } => {
            let grpc = for_grpc(*grpc);
            format!("{models} models are served at http://{address}{grpc} (Ctrl-C stops)")
        }
        Event::NotAudited { model, version, reason } => {
            format!("{model} version {version} is not audited: {reason}")
        }
        Event::Changed(Changes { loaded, failed, removed }) => {
            let name = |(name, version): &(String, u64)| format!("{name} version {version}");
            let mut parts: Vec<String> = Vec::new();
            parts.extend(loaded.iter().map(|model| format!("loaded {}", name(model))));
            parts.extend(removed.iter().map(|model| format!("removed {}", name(model))));
            parts.extend(failed.iter().map(|(name, version, reason)| {
                format!(
                    "not loaded: {name} version {version}, {reason}; the last good one is served"
                )
            }));
            parts.join("; ")
        }
        Event::Alarm(alarm) => format!(
            "alarm: {} version {}: at query {} more than {:.2e} of the labels disagree with exact ones, {:.2e} are promised; \
             it answers by its proved plan until a model is loaded",
            alarm.model, alarm.version, alarm.queries, alarm.low, alarm.promised
        ),
        Event::Request(request) => request_sentence(request),
        Event::Stopping => "stopping: requests that have begun are answered".to_owned(),
        Event::Stopped { all_answered: true } => "stopped".to_owned(),
        Event::Stopped { all_answered: false } => {
            "stopped before all requests were answered: the time for that was over".to_owned()
        }
    }
}

fn for_grpc(address: Option<SocketAddr>) -> String {
    address.map(|address| format!(" and for gRPC at {address}")).unwrap_or_default()
}

fn request_sentence(request: &RequestLog) -> String {
    let RequestLog { protocol, method, path, code, duration, rows, .. } = request;
    let us = 1e6 * duration.as_secs_f64();
    let rows = if *rows > 0 { format!(", {rows} rows") } else { String::new() };
    let trace = request.trace.as_ref().map(|trace| format!(", trace {}", trace.trace_id));
    let error = request.error.as_ref().map(|error| format!(": {error}"));
    let (trace, error) = (trace.unwrap_or_default(), error.unwrap_or_default());
    let time = time(request.time);
    format!("{time} {protocol} {method} {path} {code} {us:.0} us{rows}{trace}{error}")
}

fn object(event: &Event) -> Value {
    match event {
        Event::Starting { address, grpc } => {
            let (address, grpc) = (address.to_string(), grpc.map(|address| address.to_string()));
            json!({ "event": "starting", "address": address, "grpc": grpc })
        }
        Event::Listening { address, grpc, models } => {
            let (address, grpc) = (address.to_string(), grpc.map(|address| address.to_string()));
            json!({ "event": "listening", "address": address, "grpc": grpc, "ready_models": models })
        }
        Event::NotAudited { model, version, reason } => {
            json!({ "event": "not_audited", "model": model, "version": version, "reason": reason })
        }
        Event::Changed(Changes { loaded, failed, removed }) => {
            let one =
                |(model, version): &(String, u64)| json!({ "model": model, "version": version });
            let why = |(model, version, reason): &(String, u64, String)| json!({ "model": model, "version": version, "reason": reason });
            json!({
                "event": "changed",
                "loaded_models": loaded.iter().map(one).collect::<Vec<_>>(),
                "removed_models": removed.iter().map(one).collect::<Vec<_>>(),
                "failed_models": failed.iter().map(why).collect::<Vec<_>>(),
            })
        }
        Event::Alarm(alarm) => json!({
            "event": "alarm", "model": alarm.model, "version": alarm.version, "digest": alarm.digest,
            "queries": alarm.queries, "low": alarm.low, "promised": alarm.promised,
        }),
        Event::Request(request) => request_object(request),
        Event::Stopping => json!({ "event": "stopping" }),
        Event::Stopped { all_answered } => {
            json!({ "event": "stopped", "all_answered": all_answered })
        }
    }
}

fn request_object(request: &RequestLog) -> Value {
    let microseconds = |time: Duration| (1e7 * time.as_secs_f64()).round() / 10.0;
    let mut object = json!({
        "event": "request", "time": time(request.time), "protocol": request.protocol,
        "method": request.method, "path": request.path, "code": request.code,
        "duration_us": microseconds(request.duration),
    });
    if let Some((model, version, digest)) = &request.model {
        object["model"] = json!(model);
        object["version"] = json!(version);
        object["digest"] = json!(digest);
    }
    if request.rows > 0 {
        object["rows"] = json!(request.rows);
        object["unsettled"] = json!(request.unsettled);
        object["queue_us"] = json!(microseconds(request.queue));
        object["compute_us"] = json!(microseconds(request.compute));
    }
    if let Some(id) = &request.id {
        object["id"] = json!(id);
    }
    if let Some(trace) = &request.trace {
        object["trace_id"] = json!(trace.trace_id);
        object["parent_id"] = json!(trace.parent_id);
    }
    if let Some(error) = &request.error {
        object["error"] = json!(error);
    }
    object
}

/// A moment as RFC 3339 writes it, in UTC and milliseconds.
fn time(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days since 1 March of the year 0 in eras of 400 years, whose days are always as many.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let milliseconds = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_the_standard_says() {
        for (seconds, text) in [
            (0.0, "1970-01-01T00:00:00.000Z"),
            (951_782_400.5, "2000-02-29T00:00:00.500Z"),
            (1_709_251_199.0, "2024-02-29T23:59:59.000Z"),
            (4_107_542_400.0, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(time(UNIX_EPOCH + Duration::from_secs_f64(seconds)), text);
        }
    }
}
