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
    /// The request came too slowly.
    TooSlow,
    /// The body is of a kind that is not read here.
    UnsupportedBody,
    /// No token, or a wrong one.
    Unauthorised,
    /// The server is told not to do this.
    Forbidden,
    /// The queue is full.
    Overloaded {
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
