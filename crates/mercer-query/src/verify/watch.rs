//! Progress of long work, reported to a callback that may end it. What is done then is up to the caller.

use std::fmt;

/// Progress of a fit or of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is done.
    pub what: &'static str,
    /// Steps done.
    pub done: usize,
    /// Steps in all, as far as is known.
    pub most: usize,
}

/// The callback ended the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// A callback that gets the progress of some work; the work goes on as long as it returns `true`.
#[derive(Clone, Copy)]
pub struct Watch<'a>(&'a dyn Fn(Progress) -> bool);

impl<'a> Watch<'a> {
    /// No callback: the work runs to its end.
    pub const NOBODY: Watch<'static> = Watch(&|_| true);

    /// Calls this function after every step.
    pub fn new(callback: &'a dyn Fn(Progress) -> bool) -> Self {
        Self(callback)
    }

    /// Reports a step.
    ///
    /// # Errors
    /// If the callback ends the work.
    pub fn step(&self, what: &'static str, done: usize, most: usize) -> Result<(), Interrupted> {
        if (self.0)(Progress { what, done, most }) { Ok(()) } else { Err(Interrupted) }
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}
