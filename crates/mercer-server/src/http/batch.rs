//! Streamed batches: rows of a table or of LIBSVM text come as they are sent, answers go out as they are computed. Memory is
//! bounded by pieces, whatever the length; a batch waits where requests would be refused.

use std::cell::Cell;
use std::future::Future;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Frame;
use mercer_data::read::{Chunks, Options, Unpacked, from_reader, unpacked};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Sleep;

use super::App;
use super::body::{Place, RETRY, header_text};
use super::handlers::ModelPath;
use super::query;
use crate::answers::{certainty_name, label_text};
use crate::failure::{Failure, Kind, Shed};
use crate::infer::{check_digest, class_probabilities, probabilities, query_options};
use crate::lines::{AnswerLine, LineFormat};
use crate::record::RequestRecord;
use crate::request::{ParameterMap, ParameterValue, Parameters};
use crate::rows::{fitted, prepared, reading_options};
use crate::scheduler::Work;
use crate::served::ServedModel;

/// Rows that are read and answered at a time.
const ROWS: usize = 1024;
/// Pieces of a body, and of answers, that wait at a time.
const PIECES: usize = 4;
/// Bytes of text that may come before a row ends, and so many rows: more would have to be held.
const HELD: usize = 64 << 20;
/// Memory is counted in steps of so many bytes.
const HELD_AT_ONCE: usize = 64 << 10;

/// The last lines of a body that breaks off have so long to go out.
const LAST: Duration = Duration::from_millis(100);

/// Content types and the formats that they stand for.
const TYPES: [(&str, &str); 6] = [
    ("text/csv", "csv"),
    ("application/csv", "csv"),
    ("application/x-libsvm", "libsvm"),
    ("application/vnd.apache.arrow.stream", "arrow"),
    ("application/vnd.apache.arrow.file", "arrow"),
    ("application/vnd.apache.parquet", "parquet"),
];

/// What the query and the headers ask for.
#[derive(Debug)]
struct Wanted {
    parameters: Parameters,
    output: LineFormat,
    options: Options,
}

const KNOWN: [&str; 12] = [
    "input",
    "output",
    "id",
    "target",
    "budget",
    "budget_us",
    "require",
    "tolerance",
    "threshold",
    "digest",
    "probabilities",
    "zero_based",
];

fn wanted(headers: &HeaderMap, uri: &Uri) -> Result<Wanted, Failure> {
    let accept = header_text(headers, header::ACCEPT).unwrap_or_default();
    let mut output = if accept.contains("json") { LineFormat::Jsonl } else { LineFormat::Csv };
    let kind = header_text(headers, header::CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let by_type = TYPES.iter().find(|(known, _)| *known == kind).map(|(_, format)| *format);
    let format = by_type.map(str::to_owned);
    // Answers go out while rows come.
    let mut options = Options { format, line_by_line: true, ..Options::default() };
    let mut given = ParameterMap::new();
    for (name, value) in query::pairs(uri.query().unwrap_or_default())? {
        match name.as_str() {
            "input" => options.format = Some(value),
            "output" => {
                output = match value.as_str() {
                    "csv" => LineFormat::Csv,
                    "jsonl" => LineFormat::Jsonl,
                    other => {
                        let what = format!("output is '{other}'; it may be csv or jsonl");
                        return Err(Failure::invalid(what));
                    }
                }
            }
            "id" => options.id = Some(value),
            "target" => options.label = value.parse().unwrap_or_else(|never| match never {}),
            "probabilities" | "zero_based" => {
                let is_true = match value.as_str() {
                    "true" => true,
                    "false" => false,
                    other => {
                        let what = format!("{name} is '{other}'; it must be true or false");
                        return Err(Failure::invalid(what));
                    }
                };
                if name == "zero_based" {
                    options.zero_based = is_true;
                } else {
                    given.insert(name, ParameterValue::Bool(is_true));
                }
            }
            known if KNOWN.contains(&known) => {
                given.insert(name, ParameterValue::Text(value));
            }
            unknown => return Err(query::unknown(unknown, &KNOWN)),
        }
    }
    Ok(Wanted { parameters: Parameters::new(&given)?, output, options })
}

/// Answers the rows of a body line by line.
pub async fn batch(
    State(app): State<App>,
    path: ModelPath,
    uri: Uri,
    Extension(record): Extension<Arc<RequestRecord>>,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Failure> {
    let (name, version) = path.named();
    let served = app.service.repository.get(name, version)?;
    record.note_model(&served);
    let wanted = wanted(&headers, &uri)?;
    check_digest(&served, &wanted.parameters)?;
    if let Some(other) = header_text(&headers, header::CONTENT_ENCODING)
        .filter(|encoding| !matches!(*encoding, "gzip" | "identity"))
    {
        let what = format!("batches encoded as '{other}' are not read; gzip is");
        return Err(Failure::new(Kind::UnsupportedBody, what));
    }
    let Ok(place) = Arc::clone(&app.batches).try_acquire_owned() else {
        let retry_after = RETRY;
        let what = "as many batches run as are allowed at a time";
        return Err(Failure::new(Kind::Overloaded { reason: Shed::Batches, retry_after }, what));
    };
    let kind = match wanted.output {
        LineFormat::Csv => "text/csv",
        LineFormat::Jsonl => "application/x-ndjson",
    };
    let (sender, mut answers) = mpsc::channel(PIECES);
    let is_text = matches!(wanted.options.format.as_deref(), Some("csv" | "libsvm"));
    let source = Pieces { pieces: pump(content, app.bodies.time), current: Bytes::new() };
    let run =
        Run { app: Arc::clone(&app), served, wanted, sender, is_text, has_begun: Cell::new(false) };
    let handle = Handle::current();
    tokio::task::spawn_blocking(move || run.all(source, &handle, place));
    // What is wrong with the first rows still has a status of its own.
    let first = match answers.recv().await {
        Some(Ok(first)) => first,
        Some(Err(failure)) => return Err(failure),
        None => return Err(Failure::new(Kind::Internal, "the batch ended without an answer")),
    };
    let body = Body::new(AnswerBody { first: Some(first), answers, failure: None });
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

/// Passes the frames of a body on as they come, each within the time that is allowed.
fn pump(mut content: Body, time: Duration) -> mpsc::Receiver<io::Result<Bytes>> {
    let (sender, pieces) = mpsc::channel(PIECES);
    tokio::spawn(async move {
        loop {
            let piece = match tokio::time::timeout(time, content.frame()).await {
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no bytes came in time")),
                Ok(None) => return,
                Ok(Some(Err(error))) => Err(io::Error::other(error)),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => Ok(data),
                    Err(_) => continue,
                },
            };
            let is_last = piece.is_err();
            if sender.send(piece).await.is_err() || is_last {
                return;
            }
        }
    });
    pieces
}

/// The bytes of a body for readers, which wait for them on a thread of their own.
struct Pieces {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(piece) => self.current = piece?,
            }
        }
        let count = buffer.len().min(self.current.len());
        buffer[..count].copy_from_slice(&self.current.split_to(count));
        Ok(count)
    }
}

/// What a batch holds in memory: bytes, unpacked ones where they come packed, of which no rows have come out yet.
struct HeldBytes {
    /// What unpacking itself needs.
    fixed: usize,
    /// Bytes since rows came out last.
    count: usize,
    most: usize,
    place: Place,
}

impl HeldBytes {
    /// Counts bytes that are read.
    fn add(&mut self, count: usize) -> io::Result<()> {
        self.count += count;
        if self.count > self.most {
            let text = format!("more than {} bytes would have to be held in memory", self.most);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        let taken = self.fixed + self.count.next_multiple_of(HELD_AT_ONCE);
        self.place
            .grow(taken)
            .map_err(|refusal| io::Error::new(io::ErrorKind::OutOfMemory, refusal.message))
    }

    /// All rows of what was read have come out.
    fn clear(&mut self) {
        self.count = 0;
        // It becomes smaller, which is always possible.
        drop(self.place.set(self.fixed));
    }
}

type SharedBytes = Arc<Mutex<HeldBytes>>;

fn locked(held: &SharedBytes) -> MutexGuard<'_, HeldBytes> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes bytes on and counts them.
struct Counted<R> {
    source: R,
    held: SharedBytes,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        locked(&self.held).add(count)?;
        Ok(count)
    }
}

type Piece = Result<Bytes, Failure>;

/// A batch at work.
struct Run {
    app: App,
    served: Arc<ServedModel>,
    wanted: Wanted,
    sender: mpsc::Sender<Piece>,
    is_text: bool,
    /// Whether lines have gone out: then the status cannot change any more.
    has_begun: Cell<bool>,
}

/// The caller has gone.
struct Gone;

impl Run {
    fn all(self, source: Pieces, handle: &Handle, place: OwnedSemaphorePermit) {
        let outcome = self.lines(source, handle);
        // Whoever sees the end may send the next batch at once.
        drop(place);
        if let Err(failure) = outcome {
            // Whoever has gone need not be told.
            if self.has_begun.get() && self.wanted.output == LineFormat::Jsonl {
                let line = json!({ "error": failure.message }).to_string() + "\n";
                drop(self.send(Ok(Bytes::from(line)), handle));
            }
            drop(self.send(Err(failure), handle));
        }
    }

    fn lines(&self, source: Pieces, handle: &Handle) -> Result<(), Failure> {
        let Wanted { parameters, output, options } = &self.wanted;
        let model = &self.served.model;
        let classes = if parameters.has_probabilities {
            class_probabilities(&self.served)?.classes
        } else {
            Vec::new()
        };
        let mut options = reading_options(model, options.clone());
        let bodies = &self.app.bodies;
        // Formats that are no text are read whole, and unpack to no more than a body may be.
        let most = if self.is_text { HELD } else { bodies.bytes };
        if !self.is_text {
            options.unpacked_limit = bodies.bytes as u64;
        }
        let Unpacked { source, memory: fixed, .. } =
            unpacked(source, "", &options).map_err(unreadable)?;
        let held = HeldBytes { fixed, count: 0, most, place: bodies.place() };
        let held = Arc::new(Mutex::new(held));
        let source = Counted { source, held: Arc::clone(&held) };
        let mut chunks = from_reader(source, "", &options).map_err(unreadable)?;
        let head = output.head(options.id.is_some(), &classes);
        let mut text = head.map_or_else(String::new, |head| head + "\n");
        let mut before = 0;
        while let Some(chunk) = chunks.next_chunk(ROWS).map_err(unreadable)? {
            if self.is_text {
                locked(&held).clear();
            }
            let count = chunk.examples.rows();
            let rows = fitted(model, chunk.examples)?;
            let rows = prepared(model, rows).map_err(|error| unreadable(error.behind(before)))?;
            text.push_str(&self.answer(rows, chunks.as_ref(), before, &classes, handle)?);
            before += count;
            self.has_begun.set(true);
            if self.send(Ok(Bytes::from(std::mem::take(&mut text))), handle).is_err() {
                return Ok(());
            }
        }
        if before == 0 {
            return Err(Failure::invalid("the body holds no rows"));
        }
        Ok(())
    }

    /// The lines of some rows, before which `before` others came.
    fn answer(
        &self,
        rows: mercer_data::Matrix,
        chunks: &dyn Chunks,
        before: usize,
        classes: &[String],
        handle: &Handle,
    ) -> Result<String, Failure> {
        let (served, parameters) = (&self.served, &self.wanted.parameters);
        let options = query_options(served, parameters);
        let answered = loop {
            let (served, rows) = (Arc::clone(served), rows.clone());
            let work = Work { served, rows, options, deadline: None };
            match handle.block_on(self.app.service.answer(work, None)) {
                Err(Failure { kind: Kind::Overloaded { retry_after, .. }, .. }) => {
                    // A batch has time; requests go first.
                    std::thread::sleep(retry_after);
                }
                Err(failure) if before > 0 => {
                    let what = format!("behind row {before}: {}", failure.message);
                    return Err(Failure::new(failure.kind, what));
                }
                Err(failure) => return Err(failure),
                Ok(answered) => break answered,
            }
            if self.sender.is_closed() {
                return Ok(String::new());
            }
        };
        let shares = if classes.is_empty() { Vec::new() } else { probabilities(served, &rows)? };
        served.counters.rows.fetch_add(rows.rows() as u64, Ordering::Relaxed);
        let mut text = String::new();
        for (at, decision) in answered.decisions.iter().enumerate() {
            let label = label_text(served.model.machine.classes(), decision.answer);
            let line = AnswerLine {
                row: before + at + 1,
                id: chunks.ids().map(|ids| ids[at].as_str()),
                label: &label,
                low: decision.range.low,
                high: decision.range.high,
                certainty: certainty_name(decision.certainty),
                cost: decision.cost.multiply_adds,
                classes,
                probabilities: &shares[at * classes.len()..(at + 1) * classes.len()],
            };
            text.push_str(&self.wanted.output.line(&line));
            text.push('\n');
        }
        Ok(text)
    }

    /// Passes lines on, within the time that a caller has to take them.
    fn send(&self, piece: Piece, handle: &Handle) -> Result<(), Gone> {
        let time = self.app.bodies.time;
        let sent =
            handle.block_on(async { tokio::time::timeout(time, self.sender.send(piece)).await });
        match sent {
            Ok(Ok(())) => Ok(()),
            _ => Err(Gone),
        }
    }
}

fn unreadable(error: mercer_data::DataError) -> Failure {
    let kind = match &error {
        mercer_data::DataError::Io(error) => match error.kind() {
            io::ErrorKind::TimedOut => Kind::TooSlow,
            io::ErrorKind::FileTooLarge => Kind::TooLarge,
            io::ErrorKind::OutOfMemory => {
                Kind::Overloaded { reason: Shed::Memory, retry_after: RETRY }
            }
            _ => Kind::Invalid,
        },
        _ => Kind::Invalid,
    };
    Failure::new(kind, format!("the rows cannot be read: {error}"))
}

/// Answers as they come. An error after the first lines breaks the body off, so that nobody takes it for whole.
struct AnswerBody {
    first: Option<Bytes>,
    answers: mpsc::Receiver<Piece>,
    /// Why it breaks off, and when: what came before it should have gone out by then.
    failure: Option<(Pin<Box<Sleep>>, Failure)>,
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if self.failure.is_none() {
            match ready!(self.answers.poll_recv(context)) {
                None => return Poll::Ready(None),
                Some(Ok(piece)) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Some(Err(failure)) => {
                    self.failure = Some((Box::pin(tokio::time::sleep(LAST)), failure));
                }
            }
        }
        let Some((moment, failure)) = &mut self.failure else { return Poll::Ready(None) };
        ready!(moment.as_mut().poll(context));
        Poll::Ready(Some(Err(failure.clone())))
    }
}
