//! Progress of a fit, reported to a callback that may end it. Progress of training is in `mercer_train`.

use std::fmt;

use crate::CompileError;

/// Progress of the fit of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is done.
    pub what: &'static str,
    /// Steps done.
    pub done: usize,
    /// Steps in all, as far as is known.
    pub most: usize,
}

/// A callback that gets the progress of a fit; the fit goes on as long as it returns `true`.
#[derive(Clone, Copy)]
pub struct Watch<'a>(&'a dyn Fn(Progress) -> bool);

impl<'a> Watch<'a> {
    /// No callback: the fit runs to its end.
    pub const NOBODY: Watch<'static> = Watch(&|_| true);

    /// Calls this function after every step.
    pub fn new(callback: &'a dyn Fn(Progress) -> bool) -> Self {
        Self(callback)
    }

    pub(crate) fn step(
        &self,
        what: &'static str,
        done: usize,
        most: usize,
    ) -> Result<(), CompileError> {
        if (self.0)(Progress { what, done, most }) {
            Ok(())
        } else {
            Err(CompileError::Interrupted)
        }
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}
