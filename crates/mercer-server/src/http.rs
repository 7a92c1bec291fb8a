//! HTTP: addresses, status codes, tokens, bodies. What a request means is in `infer.rs` and `repository.rs`.

mod accept;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

pub use accept::{ConnectionLimits, serve};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};

use crate::access::{Access, Tokens};
use crate::describe;
use crate::failure::{Failure, Kind};
use crate::infer::Service;
use crate::options::ServeOptions;
use crate::request::InferRequest;
use crate::served::ServedModel;

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
    /// Bytes of a body, at most.
    pub body_bytes: usize,
    /// Time in which a body must arrive.
    pub read_time: Duration,
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
            return Err(Failure::new(Kind::Unsupported, what));
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

/// All addresses.
pub fn router(app: App) -> Router {
    let model = "/v2/models/{model}";
    let version = "/v2/models/{model}/versions/{version}";
    let mut router = Router::new()
        .route("/v2", get(server_metadata))
        .route("/v2/", get(server_metadata))
        .route("/v2/health/live", get(live))
        .route("/v2/health/ready", get(ready))
        .route("/v2/models", get(list))
        .route("/v2/models/stats", get(all_statistics))
        .route("/v2/repository/index", post(index))
        .route("/v2/repository/models/{model}/load", post(load))
        .route("/v2/repository/models/{model}/unload", post(unload))
        .route("/metrics", get(metrics));
    for base in [model, version] {
        router = router
            .route(base, get(metadata))
            .route(&format!("{base}/ready"), get(model_ready))
            .route(&format!("{base}/infer"), post(infer))
            .route(&format!("{base}/config"), get(config))
            .route(&format!("{base}/stats"), get(statistics))
            .route(&format!("{base}/card"), get(card))
            .route(&format!("{base}/explain"), post(explain));
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
        router = router.route(unsupported, axum::routing::any(not_served));
    }
    router
        .fallback(nowhere)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard))
        .with_state(app)
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.kind {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::OtherModel => StatusCode::CONFLICT,
            Kind::NotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Kind::UnsupportedBody => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::Unauthorised => StatusCode::UNAUTHORIZED,
            Kind::Overloaded { .. } => StatusCode::TOO_MANY_REQUESTS,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut response = (status, axum::Json(json!({ "error": self.message }))).into_response();
        let headers = response.headers_mut();
        if let Kind::Overloaded { retry_after } = self.kind {
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

/// Tokens, phase, metrics and the trace id, for every request.
async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let (start, path) = (Instant::now(), request.uri().path().to_owned());
    let trace = request.headers().get("traceparent").cloned();
    let mut response = match app.tokens.admit(access(&path), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    };
    if let Some(trace) = trace {
        response.headers_mut().insert("traceparent", trace);
    }
    if app.phase.is_stopping() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let code = response.status().as_u16();
    if code == 429 {
        app.service.metrics.note_shed("queue");
    }
    if !path.starts_with("/v2/health") && path != "/metrics" {
        app.service.metrics.note_request("http", code, start.elapsed());
    }
    response
}

fn access(path: &str) -> Access {
    match path {
        _ if path.starts_with("/v2/health") => Access::Open,
        _ if path.starts_with("/v2/repository/models/") => Access::Change,
        _ => Access::Query,
    }
}

async fn nowhere(request: Request) -> Failure {
    Failure::new(Kind::NotFound, format!("there is nothing at {}", request.uri().path()))
}

async fn wrong_method(request: Request) -> Failure {
    let what = format!("{} is not for {}", request.method(), request.uri().path());
    Failure::new(Kind::NotAllowed, what)
}

async fn not_served(request: Request) -> Failure {
    Failure::new(Kind::Unsupported, format!("{} is not served here", request.uri().path()))
}

/// The model and the version of an address.
type ModelPath = Path<BTreeMap<String, String>>;

fn named(path: &BTreeMap<String, String>) -> (&str, Option<&str>) {
    (path.get("model").map_or("", String::as_str), path.get("version").map(String::as_str))
}

/// A whole body of any protocol, within its limits of size and time.
///
/// # Errors
/// If it is too long, comes too slowly, or breaks off.
pub async fn read_body(body: Body, most: usize, time: Duration) -> Result<Bytes, Failure> {
    let collected = tokio::time::timeout(time, Limited::new(body, most).collect());
    let collected = collected
        .await
        .map_err(|_| Failure::new(Kind::TooSlow, "the body did not arrive in time"))?;
    let bytes = collected.map_err(|error| {
        if error.is::<LengthLimitError>() {
            Failure::new(Kind::TooLarge, format!("the body is longer than {most} bytes"))
        } else {
            Failure::invalid(format!("the body could not be read: {error}"))
        }
    })?;
    Ok(bytes.to_bytes())
}

/// The whole body, inflated.
async fn body(app: &AppState, headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Failure> {
    let bytes = read_body(body, app.body_bytes, app.read_time).await?;
    let encoding = headers.get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?"));
    Ok(wire::inflated(&bytes, encoding, app.body_bytes)?.into_owned())
}

/// The model of an address, and the request in the body.
async fn read_request(
    app: &AppState,
    path: &BTreeMap<String, String>,
    headers: &HeaderMap,
    content: Body,
) -> Result<(Arc<ServedModel>, InferRequest), Failure> {
    app.check_serving()?;
    let (name, version) = named(path);
    let served = app.service.repository.get(name, version)?;
    let bytes = body(app, headers, content).await?;
    let length = headers.get(wire::HEADER_LENGTH).map(|value| value.to_str().unwrap_or("?"));
    let request = wire::request(&bytes, length, served.columns())?;
    Ok((served, request))
}

async fn infer(
    State(app): State<App>,
    Path(path): ModelPath,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Failure> {
    let (_, request) = read_request(&app, &path, &headers, content).await?;
    let (name, version) = named(&path);
    let answered = app.service.infer(name, version, request).await?;
    let (bytes, json_length) = wire::response(&answered);
    let kind = if json_length.is_some() { "application/octet-stream" } else { "application/json" };
    let mut response = ([(header::CONTENT_TYPE, kind)], bytes).into_response();
    if let Some(length) = json_length {
        response.headers_mut().insert(wire::HEADER_LENGTH, HeaderValue::from(length));
    }
    Ok(response)
}

async fn explain(
    State(app): State<App>,
    Path(path): ModelPath,
    headers: HeaderMap,
    content: Body,
) -> Result<axum::Json<Value>, Failure> {
    let (served, request) = read_request(&app, &path, &headers, content).await?;
    Ok(axum::Json(describe::explanation(&served, &request)?))
}

async fn live() -> axum::Json<Value> {
    axum::Json(json!({ "live": true }))
}

async fn ready(State(app): State<App>) -> Response {
    let is_ready = app.is_ready();
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, axum::Json(json!({ "ready": is_ready, "live": true }))).into_response()
}

async fn model_ready(
    State(app): State<App>,
    Path(path): ModelPath,
) -> Result<axum::Json<Value>, Failure> {
    let (name, version) = named(&path);
    app.service.repository.get(name, version)?;
    Ok(axum::Json(json!({ "name": name, "ready": true })))
}

async fn server_metadata() -> axum::Json<Value> {
    axum::Json(describe::server())
}

async fn list(State(app): State<App>) -> axum::Json<Value> {
    let index = app.service.repository.index(true);
    let mut names: Vec<String> = index.into_iter().map(|entry| entry.name).collect();
    names.dedup();
    axum::Json(json!({ "models": names }))
}

async fn metadata(
    State(app): State<App>,
    Path(path): ModelPath,
) -> Result<axum::Json<Value>, Failure> {
    let (name, version) = named(&path);
    let served = app.service.repository.get(name, version)?;
    Ok(axum::Json(describe::metadata(&served, &app.service.repository.versions(name))))
}

async fn config(
    State(app): State<App>,
    Path(path): ModelPath,
) -> Result<axum::Json<Value>, Failure> {
    let (name, version) = named(&path);
    Ok(axum::Json(describe::config(&*app.service.repository.get(name, version)?)))
}

async fn card(State(app): State<App>, Path(path): ModelPath) -> Result<axum::Json<Value>, Failure> {
    let (name, version) = named(&path);
    Ok(axum::Json(describe::card(&*app.service.repository.get(name, version)?)))
}

async fn statistics(
    State(app): State<App>,
    Path(path): ModelPath,
) -> Result<axum::Json<Value>, Failure> {
    let (name, version) = named(&path);
    let served = app.service.repository.get(name, version)?;
    Ok(axum::Json(json!({ "model_stats": [describe::statistics(&served)] })))
}

async fn all_statistics(State(app): State<App>) -> axum::Json<Value> {
    let served = app.service.repository.served();
    let all: Vec<Value> = served.iter().map(|served| describe::statistics(served)).collect();
    axum::Json(json!({ "model_stats": all }))
}

async fn index(
    State(app): State<App>,
    headers: HeaderMap,
    content: Body,
) -> Result<axum::Json<Value>, Failure> {
    let bytes = body(&app, &headers, content).await?;
    let wanted: Value = if bytes.is_empty() {
        json!({})
    } else {
        serde_json::from_slice(&bytes)
            .map_err(|error| Failure::invalid(format!("the body is no JSON: {error}")))?
    };
    let only_ready = wanted["ready"].as_bool().unwrap_or(false);
    Ok(axum::Json(json!(app.service.repository.index(only_ready))))
}

async fn load(
    State(app): State<App>,
    Path(path): ModelPath,
    headers: HeaderMap,
    content: Body,
) -> Result<axum::Json<Value>, Failure> {
    let bytes = body(&app, &headers, content).await?;
    let given: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let has_parameters = given["parameters"].as_object().is_some_and(|given| !given.is_empty());
    Arc::clone(&app).load(named(&path).0.to_owned(), has_parameters).await?;
    Ok(axum::Json(json!({})))
}

async fn unload(
    State(app): State<App>,
    Path(path): ModelPath,
) -> Result<axum::Json<Value>, Failure> {
    app.service.repository.unload(named(&path).0)?;
    Ok(axum::Json(json!({})))
}

async fn metrics(State(app): State<App>) -> Response {
    let Service { repository, scheduler, metrics, .. } = &app.service;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], metrics.text(repository, scheduler)).into_response()
}
