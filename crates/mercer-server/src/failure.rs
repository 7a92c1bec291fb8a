//! Why a request gets no answer: a kind, which each protocol maps to its own codes, and one sentence for the caller.

use std::fmt;
use std::time::Duration;

/// What went wrong, as protocols tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request is wrong.
    Invalid,
    /// There is no such model, version or address.
    NotFound,
    /// The model is another one than the caller asks for.
    OtherModel,
    /// The method is not allowed at this address.
    NotAllowed,
    /// The request is larger than the limit.
    TooLarge,
    /// The head of the request is larger than the limit.
    LongHead,
    /// The request came too slowly.
    TooSlow,
    /// The body is of a kind that is not read here.
    UnsupportedBody,
    /// No token, or a wrong one.
    Unauthorised,
    /// The server is told not to do this.
    Forbidden,
    /// There is too much of something.
    Overloaded {
        /// Of what.
        reason: Shed,
        /// When it is worth trying again.
        retry_after: Duration,
    },
    /// The server is starting or stopping.
    Unavailable,
    /// The server does not do this.
    Unsupported,
    /// A fault of the server.
    Internal,
}

/// What there is too much of, for one more request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shed {
    /// Expected time of what is read, waits and runs.
    Queue,
    /// Bytes of bodies.
    Memory,
    /// Batches that are streamed.
    Batches,
}

impl Shed {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Queue, Self::Memory, Self::Batches];
    /// The header of HTTP and gRPC that tells it.
    pub const HEADER: &'static str = "mercer-shed";

    /// Its name in metrics and headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Memory => "memory",
            Self::Batches => "batches",
        }
    }

    /// What the headers of a response tell.
    pub fn of_headers(headers: &axum::http::HeaderMap) -> Option<Self> {
        let told = headers.get(Self::HEADER)?;
        Self::ALL.into_iter().find(|shed| told == shed.name())
    }
}

/// A request without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// What went wrong.
    pub kind: Kind,
    /// One sentence.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Failure {
    /// A failure of some kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A wrong request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }
}
