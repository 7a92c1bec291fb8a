//! A server for kernel machines: the Open Inference Protocol (version 2) over HTTP and gRPC, with answers that state their range,
//! certainty and cost. It links neither trainer nor compiler.
//!
//! The path of a request: `http/accept.rs` (connections) - `http.rs` (addresses, tokens, limits) - `http/wire.rs` (JSON and
//! bytes), or `grpc.rs` (calls) and `grpc/convert.rs` (messages) - `infer.rs` - `rows.rs` (tensors to rows) - `scheduler.rs` (now, or in the queue) - `answers.rs` (decisions to
//! tensors). Models are loaded and exchanged in `repository.rs`.

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
mod scheduler;
mod served;
mod tensor;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mercer_data::limits::cores;
use tokio::net::TcpListener;
use tokio::sync::watch;

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
    refresh_all(&repository)?;
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

fn refresh_all(repository: &Repository) -> Result<Changes, ServeError> {
    let changes = repository.refresh().map_err(|failure| ServeError::Model(failure.message))?;
    if let Some((name, version, reason)) = changes.failed.first() {
        return Err(ServeError::Model(format!("model '{name}', version {version}: {reason}")));
    }
    if changes.loaded.is_empty() {
        return Err(ServeError::Model("there is no model to serve".to_owned()));
    }
    Ok(changes)
}

/// Serves until a signal says stop. `extension` is what the caller adds to the server; `events` is called with what happens;
/// `signals` are read as they come.
///
/// # Errors
/// If the options cannot be used, a model cannot be loaded, or the address cannot be listened at.
pub async fn serve(
    options: &ServeOptions,
    extension: Option<Arc<dyn Extension>>,
    mut signals: tokio::sync::mpsc::UnboundedReceiver<Signal>,
    events: impl Fn(Event) + Send + Sync + 'static,
) -> Result<(), ServeError> {
    options.check()?;
    if extension.is_none() {
        options.check_models()?;
    }
    let events = Events::new(events);
    let app = Arc::new(app(options, extension, &events)?);
    let (listener, address) = listen(options.listen).await?;
    let grpc_listener = match options.grpc {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let (grpc_router, health) = grpc::router(Arc::clone(&app))
        .map_err(|error| ServeError::Model(format!("the reflection of gRPC: {error}")))?;
    match &app.extension {
        Some(extension) => {
            extension.start(&app.service.repository).map_err(ServeError::Model)?;
        }
        None => drop(refresh_all(&app.service.repository)?),
    }
    app.phase.start();
    grpc::set_serving(&health, true).await;
    let grpc = grpc_listener.as_ref().map(|(_, address)| *address);
    let served_models = app.service.repository.served();
    events.tell(Event::Listening { address, grpc, models: served_models.len() });
    tell_unaudited(&served_models, &events);
    let (limits, tls) = (http::connection_limits(options), tls::acceptor(options)?);
    let (stop, stopped) = watch::channel(());
    let mut listeners = vec![(listener, http::router(Arc::clone(&app)))];
    listeners.extend(grpc_listener.map(|(listener, _)| (listener, grpc_router)));
    let served: Vec<_> = listeners
        .into_iter()
        .map(|(listener, router)| {
            let (tls, mut stopped) = (tls.clone(), stopped.clone());
            tokio::spawn(http::serve(listener, router, limits, tls, async move {
                // Stop as well if nobody can say so any more.
                drop(stopped.changed().await);
            }))
        })
        .collect();
    let pause = until_stopped(options, &app, &mut signals, &events).await;
    app.phase.stop();
    grpc::set_serving(&health, false).await;
    events.tell(Event::Stopping);
    let end = async {
        tokio::time::sleep(pause).await;
        drop(stop);
        let mut all_answered = true;
        for listener in served {
            all_answered &= listener.await.unwrap_or(false);
        }
        app.service.scheduler.stop();
        app.service.auditor.stop();
        all_answered
    };
    let all_answered = tokio::select! {
        all_answered = end => all_answered,
        // What is at work ends with the process.
        () = second(&mut signals) => false,
    };
    events.tell(Event::Stopped { all_answered });
    Ok(())
}

/// Loads models as signals and the clock say, until a signal says stop; returns the pause before connections end.
async fn until_stopped(
    options: &ServeOptions,
    app: &Arc<AppState>,
    signals: &mut tokio::sync::mpsc::UnboundedReceiver<Signal>,
    events: &Events,
) -> Duration {
    let mut watch = watch_interval(options.watch_seconds);
    loop {
        tokio::select! {
            signal = signals.recv() => match signal {
                Some(Signal::Reload) => reload(app, events).await,
                Some(Signal::Stop) => break Duration::from_secs_f64(options.drain_seconds),
                Some(Signal::StopNow) | None => break Duration::ZERO,
            },
            () = tick(&mut watch) => reload(app, events).await,
        }
    }
}

/// The next signal to stop; never, if nobody can give one any more.
async fn second(signals: &mut tokio::sync::mpsc::UnboundedReceiver<Signal>) {
    loop {
        match signals.recv().await {
            Some(Signal::Reload) => {}
            Some(Signal::Stop | Signal::StopNow) => return,
            None => std::future::pending().await,
        }
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |error| ServeError::System { what: format!("cannot listen at {address}"), error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let found = listener.local_addr().map_err(failed)?;
    Ok((listener, found))
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

/// Says which of these models cannot be audited although that was asked for.
fn tell_unaudited(models: &[Arc<ServedModel>], events: &Events) {
    for served in models {
        if let Some(reason) = &served.audit_refusal {
            let (model, version, reason) = (served.name.clone(), served.version, reason.clone());
            events.tell(Event::NotAudited { model, version, reason });
        }
    }
}

fn watch_interval(seconds: f64) -> Option<tokio::time::Interval> {
    (seconds > 0.0).then(|| {
        let mut interval = tokio::time::interval(Duration::from_secs_f64(seconds));
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        interval
    })
}

/// The next look at the files; never, if they are not watched.
async fn tick(watch: &mut Option<tokio::time::Interval>) {
    match watch {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

/// Loads what changed; the old models answer meanwhile.
async fn reload(app: &Arc<AppState>, events: &Events) {
    let own = Arc::clone(app);
    let outcome = tokio::task::spawn_blocking(move || own.service.repository.refresh()).await;
    let changes = match outcome {
        Ok(Ok(changes)) => changes,
        Ok(Err(failure)) => {
            Changes { failed: vec![(String::new(), 0, failure.message)], ..Changes::default() }
        }
        Err(_) => return,
    };
    changes.loaded.iter().for_each(|_| app.service.metrics.note_reload(true));
    changes.failed.iter().for_each(|_| app.service.metrics.note_reload(false));
    if changes != Changes::default() {
        let is_new = |served: &Arc<ServedModel>| {
            changes
                .loaded
                .iter()
                .any(|(name, version)| (name, *version) == (&served.name, served.version))
        };
        let mut models = app.service.repository.served();
        models.retain(is_new);
        events.tell(Event::Changed(changes));
        tell_unaudited(&models, events);
    }
}
