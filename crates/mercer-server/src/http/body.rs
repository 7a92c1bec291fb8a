//! Bodies of requests, read whole within limits of size, of time, and of the memory that all of them take together.

use std::borrow::Cow;
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
/// When a caller may try again that found the memory taken.
const RETRY: Duration = Duration::from_secs(1);

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
    place: Place,
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

    /// Reads a whole body; `more` bytes come with it that the protocol adds.
    ///
    /// # Errors
    /// If it is too long, comes too slowly, breaks off, or other bodies take the memory.
    pub async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        more: usize,
    ) -> Result<HeldBody, Failure> {
        let most = self.bytes.saturating_add(more);
        let stated = stated_length(headers);
        if stated.is_some_and(|length| length > most) {
            return Err(too_long(most));
        }
        let read = self.collect(body, stated.unwrap_or(0), most);
        let read = tokio::time::timeout(self.time, read).await;
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

    async fn collect(
        &self,
        mut body: Body,
        stated: usize,
        most: usize,
    ) -> Result<HeldBody, Failure> {
        let mut place = Place::new(&self.memory);
        let (mut first, mut joined) = (Bytes::new(), Vec::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                Failure::invalid(format!("the body could not be read: {error}"))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            let length = first.len() + joined.len() + data.len();
            if length > most {
                return Err(too_long(most));
            }
            place.grow(length)?;
            if first.is_empty() && joined.is_empty() {
                first = data;
            } else {
                // From the second frame on the body is copied together.
                if joined.is_empty() {
                    joined.reserve(stated.clamp(length, length + AT_ONCE));
                }
                joined.extend_from_slice(&std::mem::take(&mut first));
                joined.extend_from_slice(&data);
            }
        }
        let bytes = if joined.is_empty() { first } else { Bytes::from(joined) };
        Ok(HeldBody { bytes, place })
    }

    /// The body as it was before it was compressed.
    ///
    /// # Errors
    /// If the compression is unknown, damaged, or the result is too long.
    pub fn inflated<'a>(
        &self,
        body: &'a mut HeldBody,
        encoding: Option<&str>,
    ) -> Result<Cow<'a, [u8]>, Failure> {
        let most = self.bytes;
        if matches!(encoding, None | Some("identity")) {
            return Ok(Cow::Borrowed(&body.bytes));
        }
        let packed = &body.bytes[..];
        let mut source: Box<dyn Read + '_> = match encoding {
            Some("gzip") => Box::new(flate2::read::GzDecoder::new(packed)),
            Some("deflate") => Box::new(flate2::read::ZlibDecoder::new(packed)),
            other => {
                let other = other.unwrap_or_default();
                let what =
                    format!("bodies encoded as '{other}' are not read; gzip and deflate are");
                return Err(Failure::new(Kind::UnsupportedBody, what));
            }
        };
        let (mut out, mut part) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            let read = source.read(&mut part).map_err(|error| {
                Failure::invalid(format!("the compressed body is damaged: {error}"))
            })?;
            if read == 0 {
                break;
            }
            if out.len() + read > most {
                let what = format!("the body takes more than {most} bytes when it is inflated");
                return Err(Failure::new(Kind::TooLarge, what));
            }
            body.place.grow(packed.len() + out.len() + read)?;
            out.extend_from_slice(&part[..read]);
        }
        Ok(Cow::Owned(out))
    }
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

    /// Gives it back.
    pub fn release(&mut self) {
        self.permit = None;
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
mod tests {
    use super::*;

    fn limits() -> BodyLimits {
        BodyLimits::new(4096, 6000, Duration::from_secs(9))
    }

    #[tokio::test]
    async fn all_bodies_together_take_no_more_than_their_memory() {
        let (limits, headers) = (limits(), HeaderMap::new());
        let read = || limits.read(&headers, Body::from(vec![7u8; 4000]), 0);
        let first = read().await.unwrap();
        let refused = read().await.unwrap_err();
        assert!(matches!(refused.kind, Kind::Overloaded { .. }), "{refused}");
        drop(first);
        assert_eq!(read().await.unwrap().bytes.len(), 4000);
        let long = limits.read(&headers, Body::from(vec![7u8; 4097]), 0).await.unwrap_err();
        assert_eq!(long.kind, Kind::TooLarge);
        assert!(limits.read(&headers, Body::from(vec![7u8; 4097]), 5).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_that_inflates_takes_memory_for_both() {
        use std::io::Write as _;
        let limits = limits();
        let packed = |length: usize| {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            packed.write_all(&vec![b' '; length]).unwrap();
            Body::from(packed.finish().unwrap())
        };
        let mut held = limits.read(&HeaderMap::new(), packed(4096), 0).await.unwrap();
        assert_eq!(limits.inflated(&mut held, Some("gzip")).unwrap().len(), 4096);
        let mut bomb = limits.read(&HeaderMap::new(), packed(1 << 20), 0).await;
        // 1 KiB and 4 KiB of 5 are taken.
        assert!(matches!(bomb.as_ref().unwrap_err().kind, Kind::Overloaded { .. }));
        drop(held);
        bomb = limits.read(&HeaderMap::new(), packed(1 << 20), 0).await;
        let refused = limits.inflated(bomb.as_mut().unwrap(), Some("gzip")).unwrap_err();
        assert_eq!(refused.kind, Kind::TooLarge, "{refused}");
    }
}
