//! Bodies of requests, read whole within limits of size, of time, and of the memory that all of them take together.

use std::io::Read;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::{Failure, Kind, Shed};

/// Memory is counted in pieces of so many bytes.
const PIECE: usize = 1024;
/// Bytes that are set aside at once for a body, as far as its head announces them.
const AT_ONCE: usize = 1 << 20;
/// Bytes that are inflated at once.
const INFLATED_AT_ONCE: usize = 64 << 10;
/// When a caller may try again that found the memory taken.
pub const RETRY: Duration = Duration::from_secs(1);

/// Limits of bodies.
#[derive(Debug)]
pub struct BodyLimits {
    /// Bytes of one body, at most, before and after it is inflated.
    pub bytes: usize,
    /// Time in which a body must arrive.
    pub time: Duration,
    /// Pieces that all bodies together may still take.
    memory: Arc<Semaphore>,
}

/// A body, with its place in memory until it is dropped.
#[derive(Debug)]
pub struct HeldBody {
    /// The bytes.
    pub bytes: Bytes,
    /// Its place in memory.
    pub place: Place,
}

impl BodyLimits {
    /// One body takes at most `bytes`, all together `memory`.
    pub fn new(bytes: usize, memory: usize, time: Duration) -> Self {
        let pieces = (memory / PIECE).clamp(1, Semaphore::MAX_PERMITS);
        Self { bytes, time, memory: Arc::new(Semaphore::new(pieces)) }
    }

    /// A place in the memory of all bodies, empty at first.
    pub fn place(&self) -> Place {
        Place::new(&self.memory)
    }

    /// Reads a whole body; its memory is set aside before it is read, as far as its length is announced.
    ///
    /// # Errors
    /// If it is too long, comes too slowly, breaks off, or other bodies take the memory.
    pub async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        framing: Framing,
    ) -> Result<HeldBody, Failure> {
        let most = self.bytes.saturating_add(framing.prefix());
        let mut held = Gathered::new(framing, most, self.place());
        if let Some(length) = stated_length(headers)
            && let Err(refusal) = held.announce(length)
        {
            if framing == Framing::Whole {
                self.discard(headers, body).await;
            }
            return Err(refusal);
        }
        let read = tokio::time::timeout(self.time, held.all(body)).await;
        read.map_err(|_| Failure::new(Kind::TooSlow, "the body did not arrive in time"))?
    }

    /// Reads a body that nobody wants, so that its sender, who may not listen before its end, reads the refusal; nothing of it is kept. Not
    /// beyond the limit, nor one that is only sent once the server asks for it: then the connection ends.
    pub async fn discard(&self, headers: &HeaderMap, mut body: Body) {
        let is_long = stated_length(headers).is_some_and(|length| length > self.bytes);
        if is_long || headers.contains_key(header::EXPECT) {
            return;
        }
        let all = async {
            let mut length = 0;
            while length <= self.bytes
                && let Some(Ok(frame)) = body.frame().await
            {
                length += frame.data_ref().map_or(0, Bytes::len);
            }
        };
        drop(tokio::time::timeout(self.time, all).await);
    }

    /// The body as it was before it was compressed, behind `start` bytes of zeros.
    ///
    /// # Errors
    /// If the compression is unknown, damaged, or the result is too long.
    pub fn inflated(
        &self,
        body: &mut HeldBody,
        encoding: &str,
        start: usize,
    ) -> Result<Vec<u8>, Failure> {
        let packed = body.bytes.slice(start..);
        let mut out = Inflated {
            bytes: vec![0; start],
            start,
            most: start.saturating_add(self.bytes),
            packed: body.bytes.len(),
            place: &mut body.place,
        };
        match encoding {
            "gzip" => out.fill(flate2::bufread::MultiGzDecoder::new(&packed[..]))?,
            "deflate" => {
                let mut source = flate2::bufread::ZlibDecoder::new(&packed[..]);
                out.fill(&mut source)?;
                if !source.into_inner().is_empty() {
                    return Err(damaged("bytes follow its end"));
                }
            }
            other => {
                let what =
                    format!("bodies encoded as '{other}' are not read; gzip and deflate are");
                return Err(Failure::new(Kind::UnsupportedBody, what));
            }
        }
        Ok(out.bytes)
    }
}

/// How a body says how long it is, beside its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Not at all.
    Whole,
    /// It is one message of gRPC, whose prefix says it.
    Message,
}

impl Framing {
    fn prefix(self) -> usize {
        match self {
            Self::Whole => 0,
            Self::Message => PREFIX,
        }
    }
}

/// Bytes before a message of gRPC: whether it is compressed, and its length.
pub const PREFIX: usize = 5;

/// The length of a message by its prefix, and whether it is compressed; none before all of the prefix has come.
pub fn announced_message(prefix: &[u8]) -> Option<(bool, usize)> {
    let (flag, length) = prefix.get(..PREFIX)?.split_first()?;
    Some((*flag != 0, u32::from_be_bytes(length.try_into().ok()?) as usize))
}

/// What has come of a body.
struct Gathered {
    framing: Framing,
    most: usize,
    announced: usize,
    place: Place,
    /// The first frame; from the second one on the body is copied together.
    first: Bytes,
    joined: Vec<u8>,
}

impl Gathered {
    fn new(framing: Framing, most: usize, place: Place) -> Self {
        let (first, joined) = (Bytes::new(), Vec::new());
        Self { framing, most, announced: 0, place, first, joined }
    }

    fn announce(&mut self, length: usize) -> Result<(), Failure> {
        if length > self.most {
            return Err(too_long(self.most - self.framing.prefix()));
        }
        self.announced = self.announced.max(length);
        self.place.grow(self.announced)
    }

    async fn all(mut self, mut body: Body) -> Result<HeldBody, Failure> {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                Failure::invalid(format!("the body could not be read: {error}"))
            })?;
            if let Ok(data) = frame.into_data() {
                self.add(data)?;
            }
        }
        let bytes = if self.joined.is_empty() { self.first } else { Bytes::from(self.joined) };
        Ok(HeldBody { bytes, place: self.place })
    }

    fn add(&mut self, data: Bytes) -> Result<(), Failure> {
        let length = self.first.len() + self.joined.len() + data.len();
        if length > self.most {
            return Err(too_long(self.most - self.framing.prefix()));
        }
        if self.first.is_empty() && self.joined.is_empty() {
            self.place.grow(length)?;
            self.first = data;
        } else {
            let capacity = self.joined.capacity();
            if length > capacity {
                // Not all that is announced at once: it may never come.
                let more = (2 * capacity).max(length + AT_ONCE);
                let expected = if self.announced < length { self.most } else { self.announced };
                let wanted = more.min(expected).max(length);
                self.place.grow(wanted)?;
                self.joined.reserve_exact(wanted - self.joined.len());
            }
            self.joined.extend_from_slice(&std::mem::take(&mut self.first));
            self.joined.extend_from_slice(&data);
        }
        if self.framing == Framing::Message && self.announced == 0 {
            let start = if self.joined.is_empty() { &self.first[..] } else { &self.joined };
            if let Some((_, message)) = announced_message(start) {
                self.announce(PREFIX + message)?;
            }
        }
        Ok(())
    }
}

/// What has been inflated of a body, within its limit and the memory of all bodies.
struct Inflated<'a> {
    bytes: Vec<u8>,
    /// Bytes before it.
    start: usize,
    most: usize,
    packed: usize,
    place: &'a mut Place,
}

impl Inflated<'_> {
    fn fill(&mut self, mut source: impl Read) -> Result<(), Failure> {
        let mut part = vec![0; INFLATED_AT_ONCE];
        loop {
            let read = source.read(&mut part).map_err(|error| damaged(&error.to_string()))?;
            if read == 0 {
                return Ok(());
            }
            let length = self.bytes.len() + read;
            if length > self.most {
                let most = self.most - self.start;
                let what = format!("the body takes more than {most} bytes when it is inflated");
                return Err(Failure::new(Kind::TooLarge, what));
            }
            let capacity = self.bytes.capacity();
            if length > capacity {
                let wanted = (2 * capacity).min(self.most).max(length);
                self.place.grow(self.packed + wanted)?;
                self.bytes.reserve_exact(wanted - self.bytes.len());
            }
            self.bytes.extend_from_slice(&part[..read]);
        }
    }
}

fn damaged(why: &str) -> Failure {
    Failure::invalid(format!("the compressed body is damaged: {why}"))
}

/// The bytes of a body that its head announces.
pub fn stated_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_long(most: usize) -> Failure {
    Failure::new(Kind::TooLarge, format!("the body is longer than {most} bytes"))
}

/// The value of a header as text.
pub fn header_text(
    headers: &HeaderMap,
    name: impl axum::http::header::AsHeaderName,
) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// A body that notes when all of it was read.
pub struct NotedBody {
    body: Body,
    is_read: Arc<AtomicBool>,
}

impl NotedBody {
    /// The same body, and whether it was read to its end.
    pub fn noting(body: Body) -> (Body, Arc<AtomicBool>) {
        let is_read = Arc::new(AtomicBool::new(hyper::body::Body::is_end_stream(&body)));
        (Body::new(Self { body, is_read: Arc::clone(&is_read) }), is_read)
    }
}

impl hyper::body::Body for NotedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.is_read.store(true, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A part of the memory of all bodies.
#[derive(Debug)]
pub struct Place {
    memory: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Place {
    fn new(memory: &Arc<Semaphore>) -> Self {
        Self { memory: Arc::clone(memory), permit: None }
    }

    /// Takes as much as so many bytes need, and gives back what is more.
    ///
    /// # Errors
    /// If other bodies take the memory.
    pub fn set(&mut self, bytes: usize) -> Result<(), Failure> {
        let pieces = bytes.div_ceil(PIECE);
        if let Some(permit) = &mut self.permit {
            drop(permit.split(permit.num_permits().saturating_sub(pieces)));
        }
        self.grow(bytes)
    }

    /// Takes as much as so many bytes need.
    ///
    /// # Errors
    /// If other bodies take the memory.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let held = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.div_ceil(PIECE).saturating_sub(held);
        if missing == 0 {
            return Ok(());
        }
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(&self.memory).try_acquire_many_owned(missing) else {
            let what = "the bodies of other requests take the memory that there is for them";
            return Err(Failure::new(
                Kind::Overloaded { reason: Shed::Memory, retry_after: RETRY },
                what,
            ));
        };
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
