//! One handler for each address: what is taken from the path, the query and the body, and what is returned.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Extension, FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Value, json};

use super::body::{BodyLimits, Framing, HeldBody, Place, header_text, stated_length};
use super::{App, AppState, openapi, query, wire};
use crate::describe;
use crate::extension::{Call, Reply};
use crate::failure::{Failure, Kind};
use crate::infer::{BodyForm, Service};
use crate::offload::as_text;
use crate::record::RequestRecord;
use crate::request::InferRequest;
use crate::scheduler::Reservation;
use crate::served::ServedModel;

pub async fn nowhere(request: Request) -> Failure {
    Failure::new(Kind::NotFound, format!("there is nothing at {}", request.uri().path()))
}

pub async fn wrong_method(request: Request) -> Failure {
    let what = format!("{} is not for {}", request.method(), request.uri().path());
    Failure::new(Kind::NotAllowed, what)
}

pub async fn not_served(request: Request) -> Failure {
    Failure::new(Kind::Unsupported, format!("{} is not served here", request.uri().path()))
}

/// The model and the version of an address.
#[derive(Debug)]
pub struct ModelPath(BTreeMap<String, String>);

impl ModelPath {
    /// The name, and the version if the address has one.
    pub fn named(&self) -> (&str, Option<&str>) {
        (self.0.get("model").map_or("", String::as_str), self.0.get("version").map(String::as_str))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ModelPath {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let found = Path::from_request_parts(parts, state).await;
        let Path(path) = found.map_err(|error| {
            Failure::invalid(format!("the address cannot be read: {}", error.body_text()))
        })?;
        Ok(Self(path))
    }
}

/// The whole body, inflated, as JSON; nothing for an empty one.
async fn json_body(app: &AppState, headers: &HeaderMap, content: Body) -> Result<Value, Failure> {
    let mut body = app.bodies.read(headers, content, Framing::Whole).await?;
    let bytes = plain(&app.bodies, &mut body, header_text(headers, header::CONTENT_ENCODING))?;
    if bytes.is_empty() {
        return Ok(json!({}));
    }
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::invalid(format!("the body is no JSON: {error}")))?;
    if value.is_object() { Ok(value) } else { Err(Failure::invalid("the body is no JSON object")) }
}

/// A body without its compression, if it has one.
fn plain(
    limits: &BodyLimits,
    body: &mut HeldBody,
    encoding: Option<&str>,
) -> Result<Bytes, Failure> {
    match encoding {
        None | Some("identity") => Ok(body.bytes.clone()),
        Some(encoding) => limits.inflated(body, encoding, 0).map(Bytes::from),
    }
}

/// A request that was read and taken on.
struct ReadRequest {
    served: Arc<ServedModel>,
    request: InferRequest,
    admitted: Reservation,
    /// What it takes of the memory of all bodies.
    place: Place,
}

/// The model of an address, the request in the body, and what they hold.
async fn read_request(
    app: &App,
    path: &ModelPath,
    headers: &HeaderMap,
    content: Body,
    record: &RequestRecord,
) -> Result<ReadRequest, Failure> {
    let (name, version) = path.named();
    let served = app.service.repository.get(name, version)?;
    record.note_model(&served);
    let text = |name: &str| header_text(headers, name).map(str::to_owned);
    let (encoding, length) = (text("content-encoding"), text(wire::HEADER_LENGTH));
    let form = if length.is_some() { BodyForm::Bytes } else { BodyForm::Json };
    let stated = stated_length(headers).unwrap_or(0);
    if let Err(full) = app.service.check_room(&served, form, stated) {
        app.bodies.discard(headers, content).await;
        return Err(full);
    }
    let mut body = app.bodies.read(headers, content, Framing::Whole).await?;
    let bytes = body.bytes.len();
    let admitted = app.service.admit(&served, form, bytes)?;
    let (own, columns, arrived) = (Arc::clone(app), served.columns(), record.arrived());
    // Compressed bytes may become many: how many is not known before.
    let size = match form {
        _ if encoding.is_some() => usize::MAX,
        BodyForm::Json => bytes,
        BodyForm::Bytes => as_text(bytes),
    };
    let parse = move || {
        let start = Instant::now();
        let bytes = plain(&own.bodies, &mut body, encoding.as_deref())?;
        let request = wire::request(&bytes, length.as_deref(), columns)?;
        // From here on its numbers take the place of the text.
        let HeldBody { bytes: held, mut place } = body;
        drop((bytes, held));
        place.set(request.bytes())?;
        let request =
            InferRequest { read_time: start.elapsed(), arrived: Some(arrived), ..request };
        Ok::<_, Failure>((request, place))
    };
    let (request, place) = app.service.offload.run(size, parse).await??;
    app.service.note_read(form, bytes, request.read_time);
    Ok(ReadRequest { served, request, admitted, place })
}

pub async fn infer(
    State(app): State<App>,
    path: ModelPath,
    Extension(record): Extension<Arc<RequestRecord>>,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Failure> {
    let start = Instant::now();
    let answered = answered(&app, &path, &record, &headers, content).await;
    answered.inspect_err(|failure| record.note_failure(failure, start.elapsed()))
}

async fn answered(
    app: &App,
    path: &ModelPath,
    record: &RequestRecord,
    headers: &HeaderMap,
    content: Body,
) -> Result<Response, Failure> {
    let read = read_request(app, path, headers, content, record).await?;
    let ReadRequest { request, admitted, place: _place, .. } = read;
    let (name, version) = path.named();
    let answered = app.service.infer(name, version, request, admitted, record).await?;
    let elements =
        answered.outputs.iter().map(|(output, _)| output.shape.iter().product::<usize>());
    let size = 8 * elements.sum::<usize>();
    let encode = move || wire::response(&answered);
    let (bytes, json_length) = app.service.offload.run(size, encode).await?;
    let kind = if json_length.is_some() { "application/octet-stream" } else { "application/json" };
    let mut response = ([(header::CONTENT_TYPE, kind)], bytes).into_response();
    if let Some(length) = json_length {
        response.headers_mut().insert(wire::HEADER_LENGTH, HeaderValue::from(length));
    }
    Ok(response)
}

pub async fn explain(
    State(app): State<App>,
    path: ModelPath,
    Extension(record): Extension<Arc<RequestRecord>>,
    headers: HeaderMap,
    content: Body,
) -> Result<axum::Json<Value>, Failure> {
    let read = read_request(&app, &path, &headers, content, &record).await?;
    let ReadRequest { served, request, admitted: _admitted, place: _place } = read;
    let explain = move || describe::explanation(&served, &request);
    Ok(axum::Json(app.service.offload.run(usize::MAX, explain).await??))
}

/// Some supports of a model, and their coefficients.
pub async fn supports(
    State(app): State<App>,
    path: ModelPath,
    uri: Uri,
) -> Result<axum::Json<Value>, Failure> {
    if !app.show_supports {
        let what = "supports are training data: only a server with --show-supports gives them";
        return Err(Failure::new(Kind::Forbidden, what));
    }
    let (name, version) = path.named();
    let served = app.service.repository.get(name, version)?;
    let (mut first, mut count) = (0, 100);
    for (name, value) in query::pairs(uri.query().unwrap_or_default())? {
        match name.as_str() {
            "first" => first = query::whole(&name, &value)?,
            "count" => count = query::whole(&name, &value)?,
            _ => return Err(query::unknown(&name, &["first", "count"])),
        }
    }
    let describe = move || describe::supports(&served, first, count);
    Ok(axum::Json(app.service.offload.run(usize::MAX, describe).await?))
}

pub async fn open_api() -> axum::Json<Value> {
    axum::Json(openapi::document())
}

pub async fn live() -> axum::Json<Value> {
    axum::Json(json!({ "live": true }))
}

pub async fn ready(State(app): State<App>) -> Response {
    let is_ready = app.is_ready();
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, axum::Json(json!({ "ready": is_ready, "live": true }))).into_response()
}

pub async fn model_ready(
    State(app): State<App>,
    path: ModelPath,
) -> Result<axum::Json<Value>, Failure> {
    let (name, version) = path.named();
    app.service.repository.get(name, version)?;
    Ok(axum::Json(json!({ "name": name, "ready": true })))
}

pub async fn server_metadata(State(app): State<App>) -> axum::Json<Value> {
    axum::Json(describe::server(app.extension.as_ref().map(|extension| extension.name())))
}

/// A call of what the program adds to the server.
pub async fn extension(
    State(app): State<App>,
    Path(name): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Failure> {
    app.check_serving()?;
    let known = app.extension.as_ref().filter(|known| known.calls().contains(&name.as_str()));
    let Some(extension) = known.map(Arc::clone) else {
        return Err(Failure::new(Kind::NotFound, format!("there is nothing at {}", uri.path())));
    };
    let parameters = query::pairs(uri.query().unwrap_or_default())?;
    let mut body = app.bodies.read(&headers, content, Framing::Whole).await?;
    let encoding = header_text(&headers, header::CONTENT_ENCODING).map(str::to_owned);
    let own = Arc::clone(&app);
    let work = move || {
        let bytes = plain(&own.bodies, &mut body, encoding.as_deref())?;
        let call = Call { name: &name, parameters: &parameters, body: &bytes };
        extension.answer(&call, &own.service.repository).map_err(Failure::invalid)
    };
    let Reply { content_type, body } = app.service.offload.run(usize::MAX, work).await??;
    Ok(([(header::CONTENT_TYPE, content_type)], body).into_response())
}

pub async fn list(State(app): State<App>) -> axum::Json<Value> {
    let index = app.service.repository.index(true);
    let mut names: Vec<String> = index.into_iter().map(|entry| entry.name).collect();
    names.dedup();
    axum::Json(json!({ "models": names }))
}

pub async fn metadata(
    State(app): State<App>,
    path: ModelPath,
) -> Result<axum::Json<Value>, Failure> {
    let (name, version) = path.named();
    let served = app.service.repository.get(name, version)?;
    Ok(axum::Json(describe::metadata(&served, &app.service.repository.versions(name))))
}

pub async fn config(State(app): State<App>, path: ModelPath) -> Result<axum::Json<Value>, Failure> {
    let (name, version) = path.named();
    let repository = &app.service.repository;
    let served = repository.get(name, version)?;
    Ok(axum::Json(describe::config(&served, repository.policy())))
}

pub async fn card(State(app): State<App>, path: ModelPath) -> Result<axum::Json<Value>, Failure> {
    let (name, version) = path.named();
    let mut card = describe::card(&*app.service.repository.get(name, version)?);
    card["show_supports"] = app.show_supports.into();
    Ok(axum::Json(card))
}

pub async fn statistics(
    State(app): State<App>,
    path: ModelPath,
) -> Result<axum::Json<Value>, Failure> {
    let (name, version) = path.named();
    let served = app.service.repository.get(name, version)?;
    Ok(axum::Json(json!({ "model_stats": [describe::statistics(&served)] })))
}

pub async fn all_statistics(State(app): State<App>) -> axum::Json<Value> {
    let served = app.service.repository.served();
    let all: Vec<Value> = served.iter().map(|served| describe::statistics(served)).collect();
    axum::Json(json!({ "model_stats": all }))
}

pub async fn index(
    State(app): State<App>,
    headers: HeaderMap,
    content: Body,
) -> Result<axum::Json<Value>, Failure> {
    let wanted = json_body(&app, &headers, content).await?;
    let only_ready = match wanted.get("ready") {
        None => false,
        Some(Value::Bool(only_ready)) => *only_ready,
        Some(other) => {
            return Err(Failure::invalid(format!("ready is {other}; it is true or false")));
        }
    };
    Ok(axum::Json(json!(app.service.repository.index(only_ready))))
}

pub async fn load(
    State(app): State<App>,
    path: ModelPath,
    headers: HeaderMap,
    content: Body,
) -> Result<axum::Json<Value>, Failure> {
    let has_parameters = match json_body(&app, &headers, content).await?.get("parameters") {
        None => false,
        Some(Value::Object(given)) => !given.is_empty(),
        Some(_) => return Err(Failure::invalid("parameters is no JSON object")),
    };
    Arc::clone(&app).load(path.named().0.to_owned(), has_parameters).await?;
    Ok(axum::Json(json!({})))
}

pub async fn unload(State(app): State<App>, path: ModelPath) -> Result<axum::Json<Value>, Failure> {
    app.service.repository.unload(path.named().0)?;
    Ok(axum::Json(json!({})))
}

pub async fn metrics(State(app): State<App>) -> Response {
    let Service { repository, scheduler, metrics, .. } = &app.service;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], metrics.text(repository, scheduler)).into_response()
}
