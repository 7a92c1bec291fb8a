//! The Open Inference Protocol over gRPC, with health and reflection. What a request means is decided where HTTP decides it:
//! `infer.rs`, `repository.rs`, `describe.rs`; here are calls, status codes and messages.

mod convert;
mod paced;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::HeaderMap;
use axum::middleware::{self, Next};
use axum::response::Response as HttpResponse;
use prost::Message as _;
use tonic::codec::CompressionEncoding;
use tonic::codegen::tokio_stream::{Stream, StreamExt};
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_health::server::HealthReporter;

use crate::access::Access;
use crate::describe;
use crate::failure::{Failure, Kind, Shed};
use crate::http::{AppState, Framing, HeldBody, PREFIX, announced_message};
use crate::infer::BodyForm;
use crate::panics::caught;
use crate::record::{Arrival, RequestRecord, echo_trace};
use crate::request::InferRequest;
use crate::scheduler::Expected;
use crate::served::ServedModel;

use paced::PacedMessages;

use inference::grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer};
use inference::{
    ModelConfigRequest, ModelConfigResponse, ModelInferRequest, ModelInferResponse,
    ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse,
    ModelStatisticsRequest, ModelStatisticsResponse, ModelStreamInferResponse,
    RepositoryIndexRequest, RepositoryIndexResponse, RepositoryModelLoadRequest,
    RepositoryModelLoadResponse, RepositoryModelUnloadRequest, RepositoryModelUnloadResponse,
    ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse,
    ServerReadyRequest, ServerReadyResponse, UnsupportedRequest, UnsupportedResponse,
};

/// What `build.rs` makes of `proto/inference.proto`.
#[allow(missing_docs, clippy::pedantic, clippy::all, reason = "generated code")]
pub mod inference {
    tonic::include_proto!("inference");
}

/// The description of the service, for reflection.
const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/inference.bin"));
/// The path of every call of the protocol.
const SERVICE: &str = "/inference.GRPCInferenceService/";

/// All calls, and what tells health probes that the server stops.
///
/// # Errors
/// If the description of the service cannot be read, which the build has ensured.
pub fn router(
    app: Arc<AppState>,
) -> Result<(Router, HealthReporter), tonic_reflection::server::Error> {
    let most = app.bodies.bytes;
    let service = GrpcInferenceServiceServer::new(Calls { app: Arc::clone(&app) })
        .max_decoding_message_size(most)
        .max_encoding_message_size(usize::MAX)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Deflate);
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let (health, health_service) = tonic_health::server::health_reporter();
    let routes = Routes::new(service)
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    let router = routes.into_axum_router().layer(middleware::from_fn_with_state(app, guard));
    Ok((router, health))
}

/// What probes of the health service are told.
pub async fn set_serving(health: &HealthReporter, is_serving: bool) {
    use tonic_health::ServingStatus::{NotServing, Serving};
    let status = if is_serving { Serving } else { NotServing };
    for service in ["", "inference.GRPCInferenceService"] {
        health.set_service_status(service, status).await;
    }
}

fn access(path: &str) -> Access {
    match path.strip_prefix(SERVICE) {
        Some("ServerLive" | "ServerReady") => Access::Open,
        Some("RepositoryModelLoad" | "RepositoryModelUnload") => Access::Change,
        None if path.starts_with("/grpc.health.v1.Health/") => Access::Open,
        _ => Access::Query,
    }
}

/// Tokens, the time and size of a message, the caller's deadline, metrics, the log and the trace id, for every call.
async fn guard(State(app): State<Arc<AppState>>, request: HttpRequest, next: Next) -> HttpResponse {
    let arrival = Arrival::new("grpc", &request);
    let (access, metrics) = (access(arrival.path()), &app.service.metrics);
    let in_flight = metrics.note_arrival();
    let trace = request.headers().get("traceparent").cloned();
    let outcome = caught(answer(&app, access, &arrival, request, next)).await.flatten();
    let mut response = outcome.unwrap_or_else(|failure| Status::from(failure).into_http());
    drop(in_flight);
    echo_trace(trace, response.headers_mut());
    if access != Access::Open {
        // Without a status the call has begun to answer; what becomes of it stands behind the answer.
        let status = Status::from_header_map(response.headers());
        let (code, error) = status.map_or((0, None), |status| {
            (
                status.code() as u16,
                Some(status.message().to_owned()).filter(|text| !text.is_empty()),
            )
        });
        if let Some(shed) = Shed::of_headers(response.headers()) {
            metrics.note_shed(shed);
        }
        arrival.end(code, error, metrics, app.log.as_ref());
    }
    response
}

async fn answer(
    app: &Arc<AppState>,
    access: Access,
    arrival: &Arrival,
    mut request: HttpRequest,
    next: Next,
) -> Result<HttpResponse, Failure> {
    app.tokens.admit(access, request.headers())?;
    let deadline = match request.headers().get("grpc-timeout") {
        None => None,
        Some(value) => Some(timeout(value.to_str().unwrap_or_default()).ok_or_else(|| {
            Failure::invalid(format!(
                "grpc-timeout is {value:?}; 1 to 8 digits and a unit are read"
            ))
        })?),
    };
    request.extensions_mut().insert(Arc::clone(&arrival.record));
    let call = arrival.path().strip_prefix(SERVICE);
    if call.is_some_and(|call| access != Access::Open && call != "ServerMetadata") {
        app.check_serving()?;
    }
    let run = async {
        if call.is_none_or(|call| call == "ModelStreamInfer") {
            let paced = request.map(|body| PacedMessages::body(body, &app.bodies));
            return Ok(next.run(paced).await);
        }
        if call == Some("ModelInfer") {
            app.service.scheduler.check_room(Expected::default())?;
        }
        // A single message is read whole, within the time that bodies of HTTP have.
        let (mut head, body) = request.into_parts();
        let held = app.bodies.read(&head.headers, body, Framing::Message).await?;
        let HeldBody { bytes, place: _place } = inflated(app, &mut head.headers, held).await?;
        Ok(next.run(HttpRequest::from_parts(head, Body::from(bytes))).await)
    };
    match deadline {
        None => run.await,
        // Work of this call that still waits is dropped with it.
        Some(time) => tokio::time::timeout(time, run).await.unwrap_or_else(|_| {
            Err(Failure::new(Kind::TooSlow, "the deadline of the call (grpc-timeout) is over"))
        }),
    }
}

/// A message without its compression, which is undone here within the limits of bodies and the memory of all of them. What is no
/// whole message, or packed in another way, is refused later.
async fn inflated(
    app: &Arc<AppState>,
    headers: &mut HeaderMap,
    mut held: HeldBody,
) -> Result<HeldBody, Failure> {
    let is_whole = announced_message(&held.bytes)
        == Some((true, held.bytes.len() - PREFIX.min(held.bytes.len())));
    let encoding = headers.get("grpc-encoding").and_then(|encoding| encoding.to_str().ok());
    let Some(encoding) = encoding.filter(|name| is_whole && ["gzip", "deflate"].contains(name))
    else {
        return Ok(held);
    };
    let (encoding, own) = (encoding.to_owned(), Arc::clone(app));
    headers.remove("grpc-encoding");
    let inflate = move || {
        let mut message = own.bodies.inflated(&mut held, &encoding, PREFIX)?;
        let length = u32::try_from(message.len() - PREFIX).unwrap_or(u32::MAX);
        message[1..PREFIX].copy_from_slice(&length.to_be_bytes());
        let HeldBody { bytes: packed, mut place } = held;
        drop(packed);
        place.set(message.capacity())?;
        Ok(HeldBody { bytes: message.into(), place })
    };
    // How many bytes it becomes is not known before.
    app.service.offload.run(usize::MAX, inflate).await?
}

/// The time of a header `grpc-timeout`: digits and a unit.
fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number =
        (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: u64 = digits.parse().ok().filter(|_| is_number)?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        let code = match failure.kind {
            Kind::Invalid | Kind::UnsupportedBody => Code::InvalidArgument,
            Kind::NotFound => Code::NotFound,
            Kind::OtherModel => Code::FailedPrecondition,
            Kind::TooLarge | Kind::LongHead => Code::OutOfRange,
            Kind::TooSlow => Code::DeadlineExceeded,
            Kind::Unauthorised => Code::Unauthenticated,
            Kind::Forbidden => Code::PermissionDenied,
            Kind::Overloaded { .. } => Code::ResourceExhausted,
            Kind::Unavailable => Code::Unavailable,
            Kind::NotAllowed | Kind::Unsupported => Code::Unimplemented,
            Kind::Internal => Code::Internal,
        };
        let mut status = Self::new(code, failure.message);
        if let Kind::Overloaded { reason, retry_after } = failure.kind {
            let name = AsciiMetadataValue::from_static(reason.name());
            status.metadata_mut().insert(Shed::HEADER, name);
            let time = (retry_after.as_millis() as u64).into();
            status.metadata_mut().insert("grpc-retry-pushback-ms", time);
        }
        status
    }
}

/// The calls of the protocol.
struct Calls {
    app: Arc<AppState>,
}

/// No version stands for the latest.
fn version(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

async fn infer(
    app: &Arc<AppState>,
    message: ModelInferRequest,
    record: &RequestRecord,
    arrived: Instant,
) -> Result<ModelInferResponse, Failure> {
    let start = Instant::now();
    let version = version(&message.model_version);
    let served = app.service.repository.get(&message.model_name, version)?;
    let answered = infer_with(app, &served, message, record, arrived).await;
    answered.inspect_err(|failure| served.note_failure(failure, start.elapsed()))
}

async fn infer_with(
    app: &AppState,
    served: &ServedModel,
    message: ModelInferRequest,
    record: &RequestRecord,
    arrived: Instant,
) -> Result<ModelInferResponse, Failure> {
    let (name, version_text) = (message.model_name.clone(), message.model_version.clone());
    let (size, service) = (message.encoded_len(), &app.service);
    let admitted = service.admit(served, BodyForm::Bytes, size)?;
    let convert = move || {
        let start = Instant::now();
        let request = convert::request(message)?;
        let (read_time, arrived) = (start.elapsed(), Some(arrived));
        Ok::<_, Failure>(InferRequest { read_time, arrived, ..request })
    };
    let request = service.offload.run(size, convert).await??;
    let mut place = app.bodies.place();
    place.set(request.bytes())?;
    let answered = service.infer(&name, version(&version_text), request, admitted, record).await?;
    let rows = answered.outputs.first().map_or(0, |(output, _)| output.shape[0]);
    app.service.offload.run(64 * rows, move || convert::response(&answered)).await
}

/// What is known of a call; the guard has put it there.
fn record<T>(request: &Request<T>) -> Arc<RequestRecord> {
    request.extensions().get::<Arc<RequestRecord>>().cloned().unwrap_or_default()
}

type GrpcResult<T> = Result<Response<T>, Status>;

fn unsupported(call: &str) -> GrpcResult<UnsupportedResponse> {
    Err(Status::unimplemented(format!("{call} is not served here")))
}

#[tonic::async_trait]
impl GrpcInferenceService for Calls {
    async fn server_live(&self, _: Request<ServerLiveRequest>) -> GrpcResult<ServerLiveResponse> {
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(
        &self,
        _: Request<ServerReadyRequest>,
    ) -> GrpcResult<ServerReadyResponse> {
        Ok(Response::new(ServerReadyResponse { ready: self.app.is_ready() }))
    }

    async fn model_ready(
        &self,
        request: Request<ModelReadyRequest>,
    ) -> GrpcResult<ModelReadyResponse> {
        let ModelReadyRequest { name, version: text } = request.into_inner();
        let ready = match self.app.service.repository.get(&name, version(&text)) {
            Ok(_) => true,
            Err(failure) if failure.kind == Kind::Unavailable => false,
            Err(failure) => return Err(failure.into()),
        };
        Ok(Response::new(ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> GrpcResult<ServerMetadataResponse> {
        Ok(Response::new(convert::server(&describe::server(None))))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> GrpcResult<ModelMetadataResponse> {
        let ModelMetadataRequest { name, version: text } = request.into_inner();
        let repository = &self.app.service.repository;
        let served = repository.get(&name, version(&text))?;
        let described = describe::metadata(&served, &repository.versions(&name));
        Ok(Response::new(convert::metadata(&described)))
    }

    async fn model_infer(
        &self,
        request: Request<ModelInferRequest>,
    ) -> GrpcResult<ModelInferResponse> {
        let record = record(&request);
        let arrived = record.arrived();
        Ok(Response::new(infer(&self.app, request.into_inner(), &record, arrived).await?))
    }

    type ModelStreamInferStream =
        Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

    async fn model_stream_infer(
        &self,
        request: Request<Streaming<ModelInferRequest>>,
    ) -> GrpcResult<Self::ModelStreamInferStream> {
        let (app, record) = (Arc::clone(&self.app), record(&request));
        let answers = request.into_inner().then(move |message| {
            let (app, record) = (Arc::clone(&app), Arc::clone(&record));
            async move {
                let message = message?;
                let id = message.id.clone();
                Ok(match infer(&app, message, &record, Instant::now()).await {
                    Ok(response) => ModelStreamInferResponse {
                        error_message: String::new(),
                        infer_response: Some(response),
                    },
                    // The stream goes on: the id says which request failed.
                    Err(failure) => ModelStreamInferResponse {
                        error_message: failure.message,
                        infer_response: Some(ModelInferResponse { id, ..Default::default() }),
                    },
                })
            }
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn model_config(
        &self,
        request: Request<ModelConfigRequest>,
    ) -> GrpcResult<ModelConfigResponse> {
        let ModelConfigRequest { name, version: text } = request.into_inner();
        let repository = &self.app.service.repository;
        let served = repository.get(&name, version(&text))?;
        Ok(Response::new(convert::config(&describe::config(&served, repository.policy()))))
    }

    async fn model_statistics(
        &self,
        request: Request<ModelStatisticsRequest>,
    ) -> GrpcResult<ModelStatisticsResponse> {
        let ModelStatisticsRequest { name, version: text } = request.into_inner();
        let repository = &self.app.service.repository;
        let served = match name.as_str() {
            "" => repository.served(),
            name => vec![repository.get(name, version(&text))?],
        };
        let one = |served| convert::statistics(&describe::statistics(served));
        let model_stats = served.iter().map(|served| one(served)).collect();
        Ok(Response::new(ModelStatisticsResponse { model_stats }))
    }

    async fn repository_index(
        &self,
        request: Request<RepositoryIndexRequest>,
    ) -> GrpcResult<RepositoryIndexResponse> {
        let index = self.app.service.repository.index(request.into_inner().ready);
        Ok(Response::new(convert::index(index)))
    }

    async fn repository_model_load(
        &self,
        request: Request<RepositoryModelLoadRequest>,
    ) -> GrpcResult<RepositoryModelLoadResponse> {
        let RepositoryModelLoadRequest { model_name, parameters, .. } = request.into_inner();
        Arc::clone(&self.app).load(model_name, !parameters.is_empty()).await?;
        Ok(Response::new(RepositoryModelLoadResponse {}))
    }

    async fn repository_model_unload(
        &self,
        request: Request<RepositoryModelUnloadRequest>,
    ) -> GrpcResult<RepositoryModelUnloadResponse> {
        self.app.service.repository.unload(&request.into_inner().model_name)?;
        Ok(Response::new(RepositoryModelUnloadResponse {}))
    }

    async fn system_shared_memory_status(
        &self,
        _: Request<UnsupportedRequest>,
    ) -> GrpcResult<UnsupportedResponse> {
        unsupported("shared memory")
    }

    async fn system_shared_memory_register(
        &self,
        _: Request<UnsupportedRequest>,
    ) -> GrpcResult<UnsupportedResponse> {
        unsupported("shared memory")
    }

    async fn system_shared_memory_unregister(
        &self,
        _: Request<UnsupportedRequest>,
    ) -> GrpcResult<UnsupportedResponse> {
        unsupported("shared memory")
    }

    async fn cuda_shared_memory_status(
        &self,
        _: Request<UnsupportedRequest>,
    ) -> GrpcResult<UnsupportedResponse> {
        unsupported("shared memory")
    }

    async fn cuda_shared_memory_register(
        &self,
        _: Request<UnsupportedRequest>,
    ) -> GrpcResult<UnsupportedResponse> {
        unsupported("shared memory")
    }

    async fn cuda_shared_memory_unregister(
        &self,
        _: Request<UnsupportedRequest>,
    ) -> GrpcResult<UnsupportedResponse> {
        unsupported("shared memory")
    }

    async fn trace_setting(
        &self,
        _: Request<UnsupportedRequest>,
    ) -> GrpcResult<UnsupportedResponse> {
        unsupported("the trace setting")
    }

    async fn log_settings(
        &self,
        _: Request<UnsupportedRequest>,
    ) -> GrpcResult<UnsupportedResponse> {
        unsupported("the log settings")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_deadline_is_read_as_the_protocol_says() {
        assert_eq!(timeout("20m"), Some(Duration::from_millis(20)));
        assert_eq!(timeout("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(timeout("0n"), Some(Duration::ZERO));
        for wrong in ["", "m", "1", "1x", "-1m", "+1m", "123456789m", "1é"] {
            assert_eq!(timeout(wrong), None, "{wrong}");
        }
    }
}
