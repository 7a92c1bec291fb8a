//! A server for kernel machines: the Open Inference Protocol (version 2) over HTTP and gRPC, with answers that state their range,
//! certainty and cost. It links neither trainer nor compiler.
//!
//! The path of a request: `http/accept.rs` (connections) - `http.rs` (addresses, tokens, limits) - `http/wire.rs` (JSON and
//! bytes), or `grpc.rs` (calls) and `grpc/convert.rs` (messages) - `infer.rs` - `rows.rs` (tensors to rows) - `scheduler.rs` (now, or in the queue) - `answers.rs` (decisions to
//! tensors). Models are loaded and exchanged in `repository.rs`; `run.rs` starts and stops all of it.

mod access;
mod answers;
mod auditor;
mod batch_counts;
mod describe;
mod events;
mod extension;
mod failure;
mod grpc;
mod hosts;
mod http;
mod infer;
mod json_apart;
mod json_array;
mod lines;
mod metrics;
mod offload;
mod options;
mod pace;
mod panics;
mod probabilities;
mod record;
mod repository;
mod request;
mod rows;
mod run;
mod scheduler;
mod served;
mod tensor;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use mercer_data::limits::cores;

use access::Tokens;
use auditor::Auditor;
use events::Events;
use hosts::Hosts;
use http::{AppState, BodyLimits, Page, Phase};
use infer::{ReadingPaces, Service};
use metrics::Metrics;
use offload::Offload;
use served::{LoadOptions, ServedModel};

pub use answers::label_text;
pub use events::{Alarm, Event, RequestLog, TraceParent};
pub use extension::{Call, Extension, Reply};
pub use lines::{AnswerLine, LineFormat};
pub use metrics::MetricsNames;
pub use options::{LogFormat, OptionsError, ServeOptions};
pub use probabilities::ClassProbabilities;
pub use repository::{Changes, Repository, VersionPolicy};
pub use rows::reading_options;
pub use run::serve;
pub use scheduler::{Overload, Scheduler};

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The options cannot be used.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A model cannot be loaded.
    #[error("{0}")]
    Model(String),
    /// The address cannot be listened at, or threads cannot be started.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        error: std::io::Error,
    },
}

/// A signal from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Look at the files of the models.
    Reload,
    /// Stop after the pause for balancers.
    Stop,
    /// Stop without the pause.
    StopNow,
}

/// Loads the models without serving them: what a server with these options would do at its start.
///
/// # Errors
/// If the options cannot be used, or a model cannot be loaded.
pub fn check(options: &ServeOptions) -> Result<Vec<String>, ServeError> {
    options.check()?;
    options.check_models()?;
    let repository = repository(options);
    let changes = run::first_models(&repository)?;
    if let Some(failed) = changes.failed.first() {
        return Err(run::not_loaded(failed));
    }
    let describe = |served: &Arc<ServedModel>| {
        format!("{} version {}: {}", served.name, served.version, served.plan.spec())
    };
    Ok(repository.served().iter().map(describe).collect())
}

fn repository(options: &ServeOptions) -> Repository {
    let ServeOptions { trust_plan, audit, seed, .. } = *options;
    let load_options = LoadOptions { trust_plan, audit, seed };
    Repository::new(options.models.clone(), options.versions.clone(), load_options)
}

fn app(
    options: &ServeOptions,
    extension: Option<Arc<dyn Extension>>,
    events: &Events,
) -> Result<AppState, ServeError> {
    let limit = Duration::from_secs_f64(options.queue_ms / 1e3);
    let threads = options.threads.unwrap_or_else(cores);
    let no_thread =
        |error| ServeError::System { what: "threads cannot be started".to_owned(), error };
    let inline = Duration::from_secs_f64(options.inline_us / 1e6);
    let scheduler =
        Scheduler::start(threads, limit, inline, options.overload).map_err(no_thread)?;
    let own = events.clone();
    let auditor = Auditor::start(scheduler.is_busy(), move |served| own.tell(alarm(served)));
    let auditor = auditor.map_err(no_thread)?;
    let token = |path: &Option<std::path::PathBuf>| path.as_deref().map(options::token).transpose();
    Ok(AppState {
        service: Service {
            repository: repository(options),
            scheduler,
            auditor,
            metrics: Metrics::new(options.metrics_names),
            offload: Offload::start(threads).map_err(no_thread)?,
            reading: ReadingPaces::default(),
            most_rows: options.rows,
        },
        phase: Phase::default(),
        tokens: Tokens {
            query: token(&options.token_file)?,
            admin: token(&options.admin_token_file)?,
        },
        hosts: Hosts::new(&options.hosts, options.listen),
        page: options
            .page
            .then(|| Page::new(extension.as_ref().map_or(&[], |extension| extension.files()))),
        extension,
        bodies: BodyLimits::new(
            options.body_bytes,
            options.bodies_bytes,
            Duration::from_secs_f64(options.read_seconds),
        ),
        batches: Arc::new(tokio::sync::Semaphore::new(options.batches)),
        log: (options.log != LogFormat::Off).then(|| events.clone()),
        show_supports: options.show_supports,
    })
}

/// What is told of a promise that was found to be broken.
fn alarm(served: &ServedModel) -> Event {
    let report = served.audit().map(|audit| audit.report());
    Event::Alarm(Alarm {
        model: served.name.clone(),
        version: served.version,
        digest: served.digest.clone(),
        queries: report.and_then(|report| report.alarm).unwrap_or(0),
        low: report.map_or(0.0, |report| report.low),
        promised: served.plan.calibration().map_or(0.0, |calibration| calibration.risk),
    })
}
