//! The body of a streamed call: its messages are not held back, but each must come whole within the time that bodies have, and
//! takes its place in the memory of all bodies until it has come. Between messages a stream may rest.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;
use tonic::Status;

use super::PREFIX;
use crate::failure::{Failure, Kind};
use crate::http::{BodyLimits, Place};

/// A body of messages, each behind its length.
pub struct PacedMessages {
    body: Body,
    time: Duration,
    place: Place,
    message: Message,
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
    /// Bytes that have come.
    held: usize,
}

impl Message {
    fn is_begun(&self) -> bool {
        !self.prefix.is_empty() || self.left > 0
    }

    /// Counts bytes; whether a message ended among them.
    fn count(&mut self, mut bytes: &[u8]) -> bool {
        let mut has_ended = false;
        while !bytes.is_empty() {
            if self.left > 0 {
                let taken = self.left.min(bytes.len());
                (self.left, self.held) = (self.left - taken, self.held + taken);
                bytes = &bytes[taken..];
            } else {
                let taken = (PREFIX - self.prefix.len()).min(bytes.len());
                self.prefix.extend_from_slice(&bytes[..taken]);
                bytes = &bytes[taken..];
                let Some(length) = self.prefix[..].get(1..PREFIX) else { continue };
                let length = length.try_into().map_or(0, u32::from_be_bytes);
                (self.left, self.held) = (length as usize, 0);
                self.prefix.clear();
            }
            if !self.is_begun() {
                (has_ended, self.held) = (true, 0);
            }
        }
        has_ended
    }
}

impl PacedMessages {
    /// The same body within limits.
    pub fn body(body: Body, limits: &BodyLimits) -> Body {
        let (time, place) = (limits.time, limits.place());
        Body::new(Self { body, time, place, message: Message::default(), timer: None })
    }

    fn note(&mut self, data: &Bytes) -> Result<(), Failure> {
        if self.message.count(data) {
            self.timer = None;
            self.place.release();
        }
        if self.message.is_begun() {
            self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.time)));
        }
        self.place.grow(self.message.held)
    }
}

impl hyper::body::Body for PacedMessages {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
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
        let mut all = vec![0, 0, 0, 0, 3, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 8];
        let mut whole = Message::default();
        assert!(whole.count(&all));
        assert_eq!((whole.left, whole.held, whole.is_begun()), (1, 1, true));
        let mut single = Message::default();
        let ends: Vec<bool> = all.iter().map(|byte| single.count(&[*byte])).collect();
        let ends: Vec<usize> = (0..all.len()).filter(|at| ends[*at]).collect();
        assert_eq!(ends, [7, 12]);
        assert_eq!((single.left, single.held), (whole.left, whole.held));
        all.push(9);
        assert!(single.count(&[9]) && !single.is_begun());
    }
}
