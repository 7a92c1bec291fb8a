//! Messages, warnings and progress on standard error. Results go to standard output (`output.rs`).

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use mercer_report::printable;

use crate::args::{Common, LogLevel};

/// Which messages are printed, and how.
#[derive(Debug)]
pub(crate) struct Console {
    pub(crate) json: bool,
    quiet: bool,
    level: LogLevel,
    colours: bool,
    terminal: bool,
}

impl Console {
    pub(crate) fn new(common: &Common) -> Self {
        let terminal = io::stderr().is_terminal();
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            json: common.json,
            quiet: common.quiet,
            level: common.log_level,
            colours: terminal && !refused,
            terminal,
        }
    }

    /// Warnings and errors, without colours or progress.
    pub(crate) fn plain() -> Self {
        Self { json: false, quiet: false, level: LogLevel::Warn, colours: false, terminal: false }
    }

    /// Whether only results and errors are printed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Errors alone.
    pub(crate) fn quiet() -> Self {
        Self { quiet: true, ..Self::plain() }
    }

    pub(crate) fn error(&self, text: &str) {
        self.line("error", AnsiColor::Red, text);
    }

    pub(crate) fn hint(&self, text: &str) {
        self.line("hint", AnsiColor::Cyan, text);
    }

    pub(crate) fn warn(&self, text: &str) {
        if !self.quiet && self.level >= LogLevel::Warn {
            self.line("warning", AnsiColor::Yellow, text);
        }
    }

    pub(crate) fn info(&self, text: &str) {
        if !self.quiet && self.level >= LogLevel::Info {
            self.line("info", AnsiColor::Green, text);
        }
    }

    /// A line of the summary; nothing with --quiet or --json.
    pub(crate) fn summary(&self, text: &str) {
        if !self.quiet && !self.json {
            line(text);
        }
    }

    /// A counter of rows; nothing if standard error is not a terminal.
    pub(crate) fn rows(&self, what: &'static str) -> ProgressBar {
        if self.quiet || !self.terminal {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{spinner} {msg} {human_pos} rows, {per_sec}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner().with_style(style).with_message(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }

    /// A status line that is updated in place; nothing if standard error is not a terminal.
    pub(crate) fn status(&self) -> Status {
        if self.quiet || !self.terminal {
            return Status(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{spinner} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner().with_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Status(bar)
    }

    fn line(&self, word: &str, colour: AnsiColor, text: &str) {
        let style = if self.colours {
            Style::new().bold().fg_color(Some(colour.into()))
        } else {
            Style::new()
        };
        let _ = writeln!(io::stderr(), "{style}{word}{style:#}: {}", printable(text));
    }
}

/// A line on standard error, without characters that act on a terminal.
pub(crate) fn line(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(text));
}

/// The message about a wrong command line, or the help that was asked for. Words of the command line that could act
/// on a terminal cost the message its colours.
pub(crate) fn usage(error: &clap::Error) {
    let is_plain = |word: OsString| matches!(printable(&word.to_string_lossy()), Cow::Borrowed(_));
    if !error.use_stderr() || std::env::args_os().all(is_plain) {
        let _ = error.print();
    } else {
        error.render().to_string().lines().for_each(line);
    }
}

/// What is wrong with a command line, without the usage that follows.
pub(crate) fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// A status line on a terminal.
#[derive(Debug)]
pub(crate) struct Status(ProgressBar);

impl Status {
    pub(crate) fn set_message(&self, text: impl AsRef<str>) {
        self.0.set_message(printable(text.as_ref()).into_owned());
    }

    pub(crate) fn finish_and_clear(&self) {
        self.0.finish_and_clear();
    }
}
