//! A server from its first listener to its last request: it listens before the models are loaded, exchanges them while it serves, and
//! stops within a bound. What a request means is no concern of this file.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tonic_health::server::HealthReporter;

use crate::events::Events;
use crate::http::AppState;
use crate::served::ServedModel;
use crate::{
    Changes, Event, Extension, Repository, ServeError, ServeOptions, Signal, app, grpc, http, tls,
};

/// What listens, and what ends it.
struct Listeners {
    address: SocketAddr,
    grpc: Option<SocketAddr>,
    health: Option<HealthReporter>,
    /// Dropped when no more connections are wanted.
    stop: watch::Sender<()>,
    /// Each returns whether all of its requests ended.
    served: Vec<JoinHandle<bool>>,
}

impl Listeners {
    /// Listens, and answers with what there is: probes are answered before the models are loaded.
    async fn start(options: &ServeOptions, app: &Arc<AppState>) -> Result<Self, ServeError> {
        let tls = tls::acceptor(options)?;
        let (listener, address) = listen(options.listen).await?;
        let mut all: Vec<(TcpListener, Router)> = vec![(listener, http::router(Arc::clone(app)))];
        let (mut grpc, mut health) = (None, None);
        if let Some(address) = options.grpc {
            let (listener, address) = listen(address).await?;
            let (router, reporter) = grpc::router(Arc::clone(app))
                .map_err(|error| ServeError::Model(format!("the reflection of gRPC: {error}")))?;
            grpc::set_serving(&reporter, false).await;
            all.push((listener, router));
            (grpc, health) = (Some(address), Some(reporter));
        }
        let limits = http::connection_limits(options);
        let (stop, stopped) = watch::channel(());
        let start = |(listener, router)| {
            let (tls, mut stopped) = (tls.clone(), stopped.clone());
            tokio::spawn(http::serve(listener, router, limits, tls, async move {
                // Stop as well if nobody can say so any more.
                drop(stopped.changed().await);
            }))
        };
        let served = all.into_iter().map(start).collect();
        Ok(Self { address, grpc, health, stop, served })
    }

    /// What probes of gRPC are told.
    async fn set_serving(&self, is_serving: bool) {
        if let Some(health) = &self.health {
            grpc::set_serving(health, is_serving).await;
        }
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |error| ServeError::System { what: format!("cannot listen at {address}"), error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let found = listener.local_addr().map_err(failed)?;
    Ok((listener, found))
}

/// Serves until a signal says stop. `extension` is what the caller adds to the server; `events` is called with what happens;
/// `signals` are read as they come.
///
/// # Errors
/// If the options cannot be used, the address cannot be listened at, or a model has no version that can be loaded.
pub async fn serve(
    options: &ServeOptions,
    extension: Option<Arc<dyn Extension>>,
    mut signals: UnboundedReceiver<Signal>,
    events: impl Fn(Event) + Send + Sync + 'static,
) -> Result<(), ServeError> {
    options.check()?;
    if extension.is_none() {
        options.check_models()?;
    }
    let events = Events::new(events);
    let app = Arc::new(app(options, extension, &events)?);
    let listeners = Listeners::start(options, &app).await?;
    let (address, grpc) = (listeners.address, listeners.grpc);
    events.tell(Event::Starting { address, grpc });
    let changes = tokio::select! {
        loaded = load(&app) => loaded?,
        // Nobody was promised an answer yet.
        () = told_to_stop(&mut signals) => {
            app.phase.stop();
            events.tell(Event::Stopping);
            events.tell(Event::Stopped { all_answered: true });
            return Ok(());
        }
    };
    app.phase.start();
    listeners.set_serving(true).await;
    let models = app.service.repository.served();
    events.tell(Event::Listening { address, grpc, models: models.len() });
    if !changes.failed.is_empty() {
        events.tell(Event::Changed(Changes { failed: changes.failed, ..Changes::default() }));
    }
    tell_unaudited(&models, &events);
    let pause = until_stopped(options, &app, &mut signals, &events).await;
    app.phase.stop();
    listeners.set_serving(false).await;
    events.tell(Event::Stopping);
    let all_answered = tokio::select! {
        all_answered = stopped(listeners, app, pause, options.stop_seconds) => all_answered,
        // What is at work ends with the process.
        () = told_to_stop(&mut signals) => false,
    };
    events.tell(Event::Stopped { all_answered });
    Ok(())
}

/// Loads the first models, apart from the threads that answer probes meanwhile.
async fn load(app: &Arc<AppState>) -> Result<Changes, ServeError> {
    let own = Arc::clone(app);
    let work = move || match &own.extension {
        Some(extension) => {
            let started = extension.start(&own.service.repository);
            started.map(|()| Changes::default()).map_err(ServeError::Model)
        }
        None => first_models(&own.service.repository),
    };
    let loaded = tokio::task::spawn_blocking(work).await;
    loaded.unwrap_or_else(|_| Err(ServeError::Model("loading ended without a result".to_owned())))
}

/// Loads the models of the options: each must have a version that can be loaded.
pub fn first_models(repository: &Repository) -> Result<Changes, ServeError> {
    let changes = repository.refresh().map_err(|failure| ServeError::Model(failure.message))?;
    if let Some(missing) = repository.without_version().first() {
        let failed = changes.failed.iter().rev().find(|(name, ..)| name == missing);
        let unknown = || ServeError::Model(format!("model '{missing}' has no version to serve"));
        return Err(failed.map_or_else(unknown, not_loaded));
    }
    if changes.loaded.is_empty() {
        return Err(ServeError::Model("there is no model to serve".to_owned()));
    }
    Ok(changes)
}

/// A version that cannot be loaded, with the reason.
pub fn not_loaded(failed: &(String, u64, String)) -> ServeError {
    let (name, version, reason) = failed;
    ServeError::Model(format!("model '{name}', version {version}: {reason}"))
}

/// Loads models as signals and the clock say, until a signal says stop; returns the pause before connections end. Loading holds no
/// signal up.
async fn until_stopped(
    options: &ServeOptions,
    app: &Arc<AppState>,
    signals: &mut UnboundedReceiver<Signal>,
    events: &Events,
) -> Duration {
    let mut watch = watch_interval(options.watch_seconds);
    let (mut reloading, mut is_wanted) = (JoinSet::new(), false);
    loop {
        tokio::select! {
            signal = signals.recv() => match signal {
                Some(Signal::Reload) => is_wanted = true,
                Some(Signal::Stop) => return Duration::from_secs_f64(options.drain_seconds),
                Some(Signal::StopNow) | None => return Duration::ZERO,
            },
            () = tick(&mut watch) => is_wanted = true,
            Some(_) = reloading.join_next() => {}
        }
        if is_wanted && reloading.is_empty() {
            is_wanted = false;
            reloading.spawn(reload(Arc::clone(app), events.clone()));
        }
    }
}

/// The next signal to stop; never, if nobody can give one any more.
async fn told_to_stop(signals: &mut UnboundedReceiver<Signal>) {
    loop {
        match signals.recv().await {
            Some(Signal::Reload) => {}
            Some(Signal::Stop | Signal::StopNow) => return,
            None => std::future::pending().await,
        }
    }
}

/// Goes on for `pause`, then takes no more connections, and returns once all requests have ended, at the latest after `seconds`:
/// streams, batches, the audit and work whose callers have left are given no more time. Returns whether all requests ended.
async fn stopped(listeners: Listeners, app: Arc<AppState>, pause: Duration, seconds: f64) -> bool {
    tokio::time::sleep(pause).await;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    drop(listeners.stop);
    let mut all_answered = true;
    for listener in listeners.served {
        all_answered &= listener.await.unwrap_or(false);
    }
    let join = move || {
        app.service.auditor.stop();
        app.service.scheduler.stop();
    };
    // Threads that are still at work end with the process.
    drop(tokio::time::timeout_at(end, tokio::task::spawn_blocking(join)).await);
    all_answered
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
async fn reload(app: Arc<AppState>, events: Events) {
    let own = Arc::clone(&app);
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
        tell_unaudited(&models, &events);
    }
}
