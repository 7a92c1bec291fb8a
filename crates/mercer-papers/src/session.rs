//! What one reproduction is given: options, a stop flag, and the observer that gets its output.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mercer::train::Cancel;
use serde_json::Value;

/// Receives what a reproduction has to say.
pub trait Observer {
    /// One line of a table or the JSON object: a result.
    fn line(&self, text: &str);

    /// Something is left out or looks wrong.
    fn warn(&self, text: &str);

    /// What is computed now; none when nothing is.
    fn status(&self, text: Option<&str>);
}

/// What to compute.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder with data files that are not part of the program.
    pub data: Option<PathBuf>,
    /// Names of the machines or parts to compute; all if empty.
    pub only: Vec<String>,
    /// Names of the methods to compute; all if empty.
    pub method: Vec<String>,
    /// Timings of which the best counts.
    pub repeats: u32,
    /// Training rows at most, for papers with large sets.
    pub rows: usize,
    /// Instead of measuring, write the rows of the sets into this folder.
    pub write_rows: Option<PathBuf>,
    /// Where a figure goes.
    pub svg: Option<PathBuf>,
    /// One JSON object instead of tables.
    pub json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data: None,
            only: Vec::new(),
            method: Vec::new(),
            repeats: 5,
            rows: 10_000_000,
            write_rows: None,
            svg: None,
            json: false,
        }
    }
}

/// One reproduction: its options, its stop flag and its observer.
pub struct Session<'s> {
    /// What to compute.
    pub options: Options,
    observer: &'s dyn Observer,
    stop: Arc<AtomicBool>,
}

impl<'s> Session<'s> {
    /// A reproduction that ends early once `stop` is set.
    pub fn new(options: Options, observer: &'s dyn Observer, stop: Arc<AtomicBool>) -> Self {
        Self { options, observer, stop }
    }

    /// Fails with [`Interrupted`] if the stop flag is set.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.is_stopped() { Err(Interrupted::default().into()) } else { Ok(()) }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The stop flag, for training.
    pub(crate) fn cancel(&self) -> Cancel {
        Cancel::from_flag(self.stop.clone())
    }

    /// Whether this machine, part or set is to be computed.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let only = &self.options.only;
        only.is_empty() || only.iter().any(|wanted| wanted == name)
    }

    /// Whether this method is to be computed.
    pub(crate) fn wants_method(&self, name: &str) -> bool {
        let methods = &self.options.method;
        methods.is_empty() || methods.iter().any(|wanted| wanted == name)
    }

    /// The folder with data files: `--data`, or else `$MERCER_DATA`.
    pub(crate) fn data(&self) -> Option<PathBuf> {
        let given = self.options.data.clone();
        given.or_else(|| std::env::var_os("MERCER_DATA").map(PathBuf::from))
    }

    /// A line of a table; nothing if JSON is wanted.
    pub(crate) fn line(&self, text: &str) {
        if !self.options.json {
            self.observer.line(text);
        }
    }

    /// The results as one JSON object; nothing if tables are wanted.
    pub(crate) fn object(&self, object: &Value) {
        if self.options.json {
            self.observer.line(&object.to_string());
        }
    }

    pub(crate) fn warn(&self, text: &str) {
        self.observer.warn(text);
    }

    /// A status text that is cleared when the value is dropped.
    pub(crate) fn status(&self) -> Status<'s> {
        Status(self.observer)
    }
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What is computed now, as the observer shows it.
pub(crate) struct Status<'s>(&'s dyn Observer);

impl Status<'_> {
    pub(crate) fn show(&self, text: &str) {
        self.0.status(Some(text));
    }
}

impl Drop for Status<'_> {
    fn drop(&mut self) {
        self.0.status(None);
    }
}

/// The stop flag was set before the reproduction was finished.
#[derive(Debug, Default)]
pub struct Interrupted {
    /// What is kept, in words; none if nothing was written.
    pub kept: Option<String>,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted; {}", self.kept.as_deref().unwrap_or("nothing was written"))
    }
}

impl std::error::Error for Interrupted {}
