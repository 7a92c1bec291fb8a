use std::fmt;

use crate::CompileError;

/// How far the fitting of a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is done.
    pub what: &'static str,
    /// Steps done.
    pub done: usize,
    /// Steps in all, as far as is known.
    pub most: usize,
}

/// Who is told how far a fitting is; it goes on as long as the answer is `true`.
#[derive(Clone, Copy)]
pub struct Watch<'a>(&'a dyn Fn(Progress) -> bool);

impl<'a> Watch<'a> {
    /// Nobody looks, nobody ends it.
    pub const NOBODY: Watch<'static> = Watch(&|_| true);

    /// Asks this function after every step.
    pub fn new(ask: &'a dyn Fn(Progress) -> bool) -> Self {
        Self(ask)
    }

    pub(crate) fn step(
        &self,
        what: &'static str,
        done: usize,
        most: usize,
    ) -> Result<(), CompileError> {
        if (self.0)(Progress { what, done, most }) { Ok(()) } else { Err(CompileError::Ended) }
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}
