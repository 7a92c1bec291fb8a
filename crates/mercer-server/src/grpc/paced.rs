//! The body of a streamed call: its messages are not held back, but each must come whole within the time that bodies have, and
//! has its place in the memory of all bodies from its prefix until it is answered. Between messages a stream may rest.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;
use tonic::Status;

use crate::failure::{Failure, Kind};
use crate::http::{BodyLimits, PREFIX, Place, announced_message};

/// Deflate, and so gzip, never makes more bytes of one.
const MAX_GROWTH: usize = 1032;

/// A body of messages, each behind its length.
pub struct PacedMessages {
    body: Body,
    time: Duration,
    /// Bytes of a message, at most.
    most: usize,
    place: Place,
    message: Message,
    /// Memory of the message that comes and of those before it that are not answered yet.
    held: usize,
    /// Runs while a part of a message has come.
    timer: Option<Pin<Box<Sleep>>>,
}

/// How much of a message has come.
#[derive(Debug, Default)]
struct Message {
    /// Of its prefix.
    prefix: Vec<u8>,
    /// Bytes that are missing.
    left: usize,
    /// Memory that it may take: its bytes, and what they are inflated to at most.
    memory: usize,
}

impl Message {
    fn is_begun(&self) -> bool {
        !self.prefix.is_empty() || self.left > 0
    }

    /// Counts bytes of messages that inflate to at most `most`; returns whether a message ended among them, and the memory of those
    /// that began.
    fn count(&mut self, mut bytes: &[u8], most: usize) -> Result<(bool, usize), Failure> {
        let (mut has_ended, mut begun) = (false, 0usize);
        while !bytes.is_empty() {
            if self.left > 0 {
                let taken = self.left.min(bytes.len());
                self.left -= taken;
                bytes = &bytes[taken..];
            } else {
                let taken = (PREFIX - self.prefix.len()).min(bytes.len());
                self.prefix.extend_from_slice(&bytes[..taken]);
                bytes = &bytes[taken..];
                let Some((is_packed, length)) = announced_message(&self.prefix) else { continue };
                if length > most {
                    let what = format!("the message is longer than {most} bytes");
                    return Err(Failure::new(Kind::TooLarge, what));
                }
                let inflated =
                    if is_packed { length.saturating_mul(MAX_GROWTH).min(most) } else { 0 };
                (self.left, self.memory) = (length, length + inflated);
                begun += self.memory;
                self.prefix.clear();
            }
            has_ended |= !self.is_begun();
        }
        Ok((has_ended, begun))
    }
}

impl PacedMessages {
    /// The same body within limits.
    pub fn body(body: Body, limits: &BodyLimits) -> Body {
        let (time, most, place) = (limits.time, limits.bytes, limits.place());
        let (message, held, timer) = (Message::default(), 0, None);
        Body::new(Self { body, time, most, place, message, held, timer })
    }

    fn note(&mut self, data: &Bytes) -> Result<(), Failure> {
        let (has_ended, begun) = self.message.count(data, self.most)?;
        if has_ended {
            self.timer = None;
        }
        if self.message.is_begun() {
            self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.time)));
        }
        self.held += begun;
        self.place.grow(self.held)
    }

    /// Whoever asks for more has answered the messages that have come whole.
    fn give_back(&mut self) {
        let held = if self.message.left > 0 { self.message.memory } else { 0 };
        if held < self.held {
            self.held = held;
            // It becomes smaller, which is always possible.
            drop(self.place.set(held));
        }
    }
}

impl hyper::body::Body for PacedMessages {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.give_back();
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let noted = frame.data_ref().map_or(Ok(()), |data| self.note(data));
                Poll::Ready(Some(noted.map(|()| frame).map_err(Status::from)))
            }
            Poll::Ready(Some(Err(error))) => {
                Poll::Ready(Some(Err(Status::cancelled(error.to_string()))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let Some(timer) = &mut self.timer else { return Poll::Pending };
                std::task::ready!(timer.as_mut().poll(context));
                let slow = Failure::new(Kind::TooSlow, "a message did not arrive in time");
                Poll::Ready(Some(Err(slow.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_their_bytes_come() {
        let mut all = vec![0, 0, 0, 0, 3, 7, 7, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 8];
        let mut whole = Message::default();
        assert_eq!(whole.count(&all, 900).unwrap(), (true, 3 + 2 + 900));
        assert_eq!((whole.left, whole.memory, whole.is_begun()), (1, 902, true));
        let mut single = Message::default();
        let ends: Vec<bool> =
            all.iter().map(|byte| single.count(&[*byte], 900).unwrap().0).collect();
        let ends: Vec<usize> = (0..all.len()).filter(|at| ends[*at]).collect();
        assert_eq!(ends, [7, 12]);
        assert_eq!((single.left, single.memory), (whole.left, whole.memory));
        all.push(9);
        assert!(single.count(&[9], 900).unwrap().0 && !single.is_begun());
        let long = single.count(&[0, 0, 0, 4, 0], 900).unwrap_err();
        assert_eq!(long.message, "the message is longer than 900 bytes");
    }

    #[tokio::test]
    async fn a_message_has_its_place_from_its_prefix_until_more_is_asked_for() {
        use http_body_util::BodyExt as _;
        let limits = BodyLimits::new(8192, 10 << 10, Duration::from_secs(9));
        let message =
            |length: u32, sent: usize| [&[0][..], &length.to_be_bytes(), &vec![7; sent]].concat();
        let frames = [message(4096, 4096), message(6144, 0), vec![7; 6144]];
        let stream = tonic::codegen::tokio_stream::iter(frames.map(Ok::<_, std::io::Error>));
        let mut body = PacedMessages::body(Body::from_stream(stream), &limits);
        let free = |bytes| limits.place().grow(bytes).is_ok();
        body.frame().await.unwrap().unwrap();
        assert!(free(6144) && !free(6145), "the first message waits for its answer");
        body.frame().await.unwrap().unwrap();
        assert!(free(4096) && !free(4097), "the second one was announced");
        body.frame().await.unwrap().unwrap();
        assert!(body.frame().await.is_none());
        assert!(free(10 << 10));
    }
}
