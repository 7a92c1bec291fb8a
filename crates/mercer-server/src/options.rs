//! Options of a server: from a TOML file, from the command line, or from a program.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use mercer_data::limits::{check_threads, cores};
use serde::Deserialize;

use crate::metrics::MetricsNames;
use crate::repository::VersionPolicy;
use crate::scheduler::Overload;

/// Connections and batches at a time, at most: no system keeps more of them open.
const MOST_AT_A_TIME: usize = 1_000_000;

/// Everything that can be chosen. All have a default but the models.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServeOptions {
    /// Model files, or folders with `name.mercer` or `name/VERSION/model.mercer`.
    pub models: Vec<PathBuf>,
    /// Where HTTP is served.
    pub listen: SocketAddr,
    /// Where gRPC is served; nowhere if not given.
    pub grpc: Option<SocketAddr>,
    /// Which versions of a model are served.
    pub versions: VersionPolicy,
    /// Threads that compute, at most four for each core; one for each if not given.
    pub threads: Option<usize>,
    /// Expected milliseconds of work that may wait.
    pub queue_ms: f64,
    /// Requests that are expected to take no more microseconds than this are answered by the thread that has read them, as long as no other waits.
    pub inline_us: f64,
    /// What is done when more waits.
    pub overload: Overload,
    /// Share of calibrated answers that are asked again exactly.
    pub audit: f64,
    /// Seed of the drawing of audited queries.
    pub seed: u64,
    /// Seconds between looks at the files of the models; 0 for none.
    pub watch_seconds: f64,
    /// Whether plans are believed without verification.
    pub trust_plan: bool,
    /// A file that holds the token that every request must carry.
    pub token_file: Option<PathBuf>,
    /// A file that holds the token for loading and unloading models; without one they are not served.
    pub admin_token_file: Option<PathBuf>,
    /// The server's certificates (PEM): with a key, all listeners speak TLS.
    pub tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM).
    pub tls_key: Option<PathBuf>,
    /// Certificate authorities (PEM): clients must show a certificate of one of them.
    pub tls_client_ca: Option<PathBuf>,
    /// Whether supports of a model may be asked for: they are training data.
    pub show_supports: bool,
    /// Whether the page is served at `/`.
    pub page: bool,
    /// Names by which browsers may ask the server, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Which names metrics have.
    pub metrics_names: MetricsNames,
    /// Whether requests are logged, and how.
    pub log: LogFormat,
    /// Bytes of a body, at most, before and after it is inflated.
    pub body_bytes: usize,
    /// Bytes of all bodies that are held at a time, at most.
    pub bodies_bytes: usize,
    /// Streamed batches at a time, at most.
    pub batches: usize,
    /// Rows of a request, at most.
    pub rows: usize,
    /// Connections at a time, at most.
    pub connections: usize,
    /// Seconds in which the head of a request, and then its body, must arrive.
    pub read_seconds: f64,
    /// Seconds between the signal to stop and the end of new connections.
    pub drain_seconds: f64,
    /// Seconds after that in which requests may end.
    pub stop_seconds: f64,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            models: Vec::new(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8000)),
            grpc: None,
            versions: VersionPolicy::default(),
            threads: None,
            queue_ms: 100.0,
            inline_us: 100.0,
            overload: Overload::default(),
            audit: 0.0,
            seed: 1,
            watch_seconds: 0.0,
            trust_plan: false,
            token_file: None,
            admin_token_file: None,
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            show_supports: false,
            page: true,
            hosts: Vec::new(),
            metrics_names: MetricsNames::default(),
            log: LogFormat::default(),
            body_bytes: 64 << 20,
            bodies_bytes: 1 << 30,
            batches: 16,
            rows: 1_000_000,
            connections: 1024,
            read_seconds: 10.0,
            drain_seconds: 5.0,
            stop_seconds: 25.0,
        }
    }
}

/// How requests are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Not at all.
    #[default]
    Off,
    /// A line of text for each.
    Text,
    /// A JSON object on a line for each.
    Json,
}

/// Why options cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(pub String);

impl ServeOptions {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// If it cannot be read, or holds anything else.
    pub fn from_file(path: &Path) -> Result<Self, OptionsError> {
        let wrong =
            |error: &dyn std::fmt::Display| OptionsError(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        toml::from_str(&text).map_err(|error| wrong(&error))
    }

    /// Checks numbers and files.
    ///
    /// # Errors
    /// If one is out of its range, a file of a token is missing or empty, or certificates cannot be used.
    pub fn check(&self) -> Result<(), OptionsError> {
        let wrong = |text: String| Err(OptionsError(text));
        if !(0.0..=1.0).contains(&self.audit) {
            return wrong(format!("audit is {}; it must be between 0 and 1", self.audit));
        }
        let times = [
            ("queue_ms", self.queue_ms),
            ("inline_us", self.inline_us),
            ("watch_seconds", self.watch_seconds),
            ("read_seconds", self.read_seconds),
            ("drain_seconds", self.drain_seconds),
            ("stop_seconds", self.stop_seconds),
        ];
        if let Some((name, value)) = times.iter().find(|(_, value)| !(0.0..=1e9).contains(value)) {
            return wrong(format!("{name} is {value}; it must be between 0 and 1e9"));
        }
        self.check_counts()?;
        for path in [&self.token_file, &self.admin_token_file].into_iter().flatten() {
            token(path)?;
        }
        crate::tls::acceptor(self).map(drop)
    }

    fn check_counts(&self) -> Result<(), OptionsError> {
        let counts = [
            ("rows", self.rows, usize::MAX),
            ("connections", self.connections, MOST_AT_A_TIME),
            ("body_bytes", self.body_bytes, usize::MAX),
            ("bodies_bytes", self.bodies_bytes, usize::MAX),
            ("batches", self.batches, MOST_AT_A_TIME),
        ];
        for (name, value, most) in counts {
            if value == 0 {
                return Err(OptionsError(format!("{name} is 0; it must be at least 1")));
            }
            if value > most {
                return Err(OptionsError(format!("{name} is {value}; it must be at most {most}")));
            }
        }
        let threads = self.threads.unwrap_or(1);
        check_threads("threads", threads, cores()).map_err(|error| OptionsError(error.to_string()))
    }

    /// Checks that models are named: servers whose program gives them have no need of it.
    ///
    /// # Errors
    /// If none is.
    pub fn check_models(&self) -> Result<(), OptionsError> {
        if self.models.is_empty() {
            return Err(OptionsError("no model is named: give a file or a folder".to_owned()));
        }
        Ok(())
    }
}

/// The token that a file holds.
///
/// # Errors
/// If the file cannot be read, or holds less than 16 characters.
pub fn token(path: &Path) -> Result<String, OptionsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| OptionsError(format!("{}: {error}", path.display())))?;
    let token = text.trim().to_owned();
    if token.len() < 16 {
        return Err(OptionsError(format!(
            "{}: a token has at least 16 characters",
            path.display()
        )));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_would_stop_a_computer_are_refused() {
        let said = |text: &str| {
            let options: ServeOptions = toml::from_str(text).unwrap();
            options.check().unwrap_err().to_string()
        };
        let threads = said("threads = 100000");
        assert!(threads.starts_with("threads asks for 100000 threads; at most "), "{threads}");
        assert_eq!(
            said("connections = 4611686018427387904"),
            "connections is 4611686018427387904; it must be at most 1000000"
        );
        assert_eq!(
            said("batches = 4611686018427387904"),
            "batches is 4611686018427387904; it must be at most 1000000"
        );
        assert_eq!(said("rows = 0"), "rows is 0; it must be at least 1");
        let good: ServeOptions = toml::from_str("threads = 1\nconnections = 1000000").unwrap();
        assert_eq!(good.check(), Ok(()));
    }
}
