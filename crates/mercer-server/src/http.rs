//! HTTP: addresses, status codes, tokens. What a request means is in `infer.rs` and `repository.rs`; handlers of single
//! addresses are in `http/handlers.rs`.

mod accept;
mod batch;
mod body;
mod handlers;
mod openapi;
mod page;
mod query;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

pub use accept::{ConnectionLimits, serve};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post};
use body::NotedBody;
pub use body::{BodyLimits, Framing, HeldBody, PREFIX, Place, announced_message};
pub use page::Page;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::access::{Access, Tokens};
use crate::events::Events;
use crate::extension::Extension;
use crate::failure::{Failure, Kind, Shed};
use crate::hosts::Hosts;
use crate::infer::Service;
use crate::options::ServeOptions;
use crate::panics::caught;
use crate::record::{Arrival, echo_trace};

/// What the server is doing: starting at first.
#[derive(Debug, Default)]
pub struct Phase(AtomicU8);

impl Phase {
    const SERVING: u8 = 1;
    const STOPPING: u8 = 2;

    /// The models are loaded.
    pub fn start(&self) {
        self.0.store(Self::SERVING, Ordering::Release);
    }

    /// No more requests are wanted.
    pub fn stop(&self) {
        self.0.store(Self::STOPPING, Ordering::Release);
    }

    /// Whether requests are wanted.
    pub fn is_serving(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::SERVING
    }

    /// Whether the server has begun to stop.
    pub fn is_stopping(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::STOPPING
    }
}

/// What handlers share.
#[derive(Debug)]
pub struct AppState {
    /// Models, queue, metrics.
    pub service: Service,
    /// Starting, serving or stopping.
    pub phase: Phase,
    /// Who may ask, and who may change models.
    pub tokens: Tokens,
    /// By which names the server may be asked.
    pub hosts: Hosts,
    /// The page, if it is served.
    pub page: Option<Page>,
    /// What the program adds to the server.
    pub extension: Option<Arc<dyn Extension>>,
    /// Limits of bodies.
    pub bodies: BodyLimits,
    /// Places for streamed batches.
    pub batches: Arc<Semaphore>,
    /// Where requests are told; none if there is no log.
    pub log: Option<Events>,
    /// Whether supports may be asked for: they are training data.
    pub show_supports: bool,
}

impl AppState {
    /// Whether requests are wanted and every model has a version that answers.
    pub fn is_ready(&self) -> bool {
        self.phase.is_serving() && self.service.repository.is_ready()
    }

    /// Refuses requests before the models are loaded; while the server stops, those that come are answered.
    ///
    /// # Errors
    /// If the server is starting.
    pub fn check_serving(&self) -> Result<(), Failure> {
        if self.phase.is_serving() || self.phase.is_stopping() {
            return Ok(());
        }
        Err(Failure::new(Kind::Unavailable, "the server is starting"))
    }

    /// Loads a model of the repository again.
    ///
    /// # Errors
    /// If the caller gives parameters, there is no such model, or it cannot be loaded.
    pub async fn load(self: Arc<Self>, name: String, has_parameters: bool) -> Result<(), Failure> {
        if has_parameters {
            let what = "models are loaded from the server's own folder; parameters are not taken";
            return Err(Failure::invalid(what));
        }
        let task = tokio::task::spawn_blocking(move || {
            let outcome = self.service.repository.load(&name);
            self.service.metrics.note_reload(outcome.is_ok());
            outcome
        });
        task.await.map_err(|_| Failure::new(Kind::Internal, "loading ended without a result"))?
    }
}

type App = Arc<AppState>;

/// Limits of connections by the options.
pub fn connection_limits(options: &ServeOptions) -> ConnectionLimits {
    ConnectionLimits {
        connections: options.connections,
        read_time: Duration::from_secs_f64(options.read_seconds),
        stop_time: Duration::from_secs_f64(options.stop_seconds),
    }
}

/// All addresses, with a method and its handler. `openapi.rs` describes each of them.
fn routes() -> Vec<(String, &'static str, MethodRouter<App>)> {
    use handlers as of;
    let mut routes = vec![
        ("/v2".to_owned(), "get", get(of::server_metadata)),
        ("/v2/".to_owned(), "get", get(of::server_metadata)),
        ("/v2/health/live".to_owned(), "get", get(of::live)),
        ("/v2/health/ready".to_owned(), "get", get(of::ready)),
        ("/v2/models".to_owned(), "get", get(of::list)),
        ("/v2/models/stats".to_owned(), "get", get(of::all_statistics)),
        ("/v2/repository/index".to_owned(), "post", post(of::index)),
        ("/v2/repository/models/{model}/load".to_owned(), "post", post(of::load)),
        ("/v2/repository/models/{model}/unload".to_owned(), "post", post(of::unload)),
        ("/metrics".to_owned(), "get", get(of::metrics)),
        ("/openapi.json".to_owned(), "get", get(of::open_api)),
    ];
    for base in ["/v2/models/{model}", "/v2/models/{model}/versions/{version}"] {
        let at = |rest: &str| format!("{base}{rest}");
        routes.extend([
            (at(""), "get", get(of::metadata)),
            (at("/ready"), "get", get(of::model_ready)),
            (at("/infer"), "post", post(of::infer)),
            (at("/config"), "get", get(of::config)),
            (at("/stats"), "get", get(of::statistics)),
            (at("/card"), "get", get(of::card)),
            (at("/explain"), "post", post(of::explain)),
            (at("/batch"), "post", post(batch::batch)),
            (at("/supports"), "get", get(of::supports)),
        ]);
    }
    for unsupported in [
        "/v2/systemsharedmemory/{*rest}",
        "/v2/cudasharedmemory/{*rest}",
        "/v2/trace/setting",
        "/v2/models/{model}/trace/setting",
        "/v2/logging",
        "/v2/models/{model}/generate",
        "/v2/models/{model}/generate_stream",
    ] {
        routes.push((unsupported.to_owned(), "any", any(of::not_served)));
    }
    routes
}

/// The router of all addresses.
pub fn router(app: App) -> Router {
    let add = |router: Router<App>, (path, _, handler): (String, _, MethodRouter<App>)| {
        router.route(&path, handler)
    };
    let router = routes().into_iter().fold(Router::new(), add);
    let router = if app.page.is_some() { page::add(router) } else { router };
    let router = match &app.extension {
        Some(extension) => {
            router.route(&format!("/{}/{{call}}", extension.name()), post(handlers::extension))
        }
        None => router,
    };
    router
        .fallback(handlers::nowhere)
        .method_not_allowed_fallback(handlers::wrong_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard))
        .with_state(app)
}

/// Why a request was refused, for its line in the log.
#[derive(Debug, Clone)]
struct Refusal(String);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.kind {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::OtherModel => StatusCode::CONFLICT,
            Kind::NotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::LongHead => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Kind::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Kind::UnsupportedBody => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::Unauthorised => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::Overloaded { .. } => StatusCode::TOO_MANY_REQUESTS,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut response = (status, axum::Json(json!({ "error": self.message }))).into_response();
        response.extensions_mut().insert(Refusal(self.message));
        let headers = response.headers_mut();
        if let Kind::Overloaded { reason, retry_after } = self.kind {
            headers.insert(Shed::HEADER, HeaderValue::from_static(reason.name()));
            // Whole seconds by the standard; the milliseconds are ours.
            let seconds = retry_after.as_secs_f64().ceil().max(1.0) as u64;
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            headers.insert("retry-after-ms", HeaderValue::from(retry_after.as_millis() as u64));
        }
        if self.kind == Kind::Unauthorised {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Hosts, tokens, phase, metrics, the log and the trace id, for every request.
async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let (arrival, metrics) = (Arrival::new("http", &request), &app.service.metrics);
    let in_flight = metrics.note_arrival();
    let trace = request.headers().get("traceparent").cloned();
    request.extensions_mut().insert(Arc::clone(&arrival.record));
    let (head, body) = request.into_parts();
    let (body, is_read) = NotedBody::noting(body);
    let request = Request::from_parts(head, body);
    let (access, headers) = (access(arrival.path()), request.headers());
    let admitted = app.hosts.admit(access, request.uri(), headers);
    let admitted = admitted.and_then(|()| app.tokens.admit(access, headers));
    let needs_models = asks_models(arrival.path());
    let admitted = admitted.and_then(|()| if needs_models { app.check_serving() } else { Ok(()) });
    let mut response = match admitted {
        Ok(()) => caught(next.run(request)).await.unwrap_or_else(IntoResponse::into_response),
        Err(failure) => failure.into_response(),
    };
    drop(in_flight);
    echo_trace(trace, response.headers_mut());
    // What is left of a body would be taken for the next request: the connection ends with this one.
    let is_left = !response.status().is_success() && !is_read.load(Ordering::Relaxed);
    if is_left || app.phase.is_stopping() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let code = response.status().as_u16();
    if let Some(shed) = Shed::of_headers(response.headers()) {
        metrics.note_shed(shed);
    }
    let is_probe = arrival.path().starts_with("/v2/health") || arrival.path() == "/metrics";
    if !is_probe {
        let refusal = response.extensions_mut().remove::<Refusal>();
        arrival.end(code, refusal.map(|refusal| refusal.0), metrics, app.log.as_ref());
    }
    response
}

/// Whether an address is of models: there are none before they are loaded.
fn asks_models(path: &str) -> bool {
    path.starts_with("/v2/models") || path.starts_with("/v2/repository")
}

fn access(path: &str) -> Access {
    match path {
        _ if path.starts_with("/v2/health") => Access::Open,
        _ if page::is_page(path) => Access::Page,
        _ if path.starts_with("/v2/repository/models/") => Access::Change,
        _ => Access::Query,
    }
}
