//! Inference requests and responses as HTTP bodies: JSON, JSON followed by tensors as bytes, or one tensor as bytes.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::failure::{Failure, Kind};
use crate::infer::InferResponse;
use crate::json_apart::{Apart, apart};
use crate::json_array::{self, Elements};
use crate::request::{InferRequest, ParameterMap, ParameterValue, Parameters, WantedOutput};
use crate::tensor::{Datatype, Tensor, Values};

/// The header that says where the JSON part of a body ends.
pub const HEADER_LENGTH: &str = "inference-header-content-length";

#[derive(Deserialize)]
struct RequestJson<'a> {
    id: Option<String>,
    #[serde(default)]
    parameters: ParameterMap,
    #[serde(borrow)]
    inputs: Vec<InputJson<'a>>,
    #[serde(default)]
    outputs: Vec<OutputJson>,
}

#[derive(Deserialize)]
struct InputJson<'a> {
    name: String,
    datatype: String,
    shape: Vec<usize>,
    #[serde(default)]
    parameters: ParameterMap,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OutputJson {
    name: String,
    #[serde(default)]
    parameters: ParameterMap,
}

/// Reads a request; `json_length` is the value of [`HEADER_LENGTH`].
///
/// # Errors
/// If it is not a request of the protocol.
pub fn request(
    body: &[u8],
    json_length: Option<&str>,
    columns: usize,
) -> Result<InferRequest, Failure> {
    let Some(text) = json_length else { return from_json(body, &[]) };
    let length: usize =
        text.parse().ok().filter(|length| *length <= body.len()).ok_or_else(|| {
            Failure::invalid(format!(
                "{HEADER_LENGTH} is '{text}', the body has {} bytes",
                body.len()
            ))
        })?;
    if length == 0 {
        return raw(body, columns);
    }
    let (json, tensors) = body.split_at(length);
    from_json(json, tensors)
}

/// A body that is nothing but rows of FP64 values.
fn raw(body: &[u8], columns: usize) -> Result<InferRequest, Failure> {
    let elements = Tensor::elements_from_bytes("x", Datatype::Double, body)?;
    if columns == 0 || !elements.len().is_multiple_of(columns) {
        let what = format!("{} values are not whole rows of {columns} columns", elements.len());
        return Err(Failure::invalid(what));
    }
    let shape = vec![elements.len() / columns, columns];
    let tensor = Tensor::new("x".to_owned(), Datatype::Double, shape, elements)?;
    let parameters = Parameters { binary_output: true, ..Parameters::default() };
    Ok(InferRequest { parameters, inputs: vec![tensor], ..InferRequest::default() })
}

fn from_json(json: &[u8], tensors: &[u8]) -> Result<InferRequest, Failure> {
    match apart(json) {
        Some(Apart { rest, arrays }) if !arrays.is_empty() => from_parts(&rest, &arrays, tensors),
        _ => from_parts(json, &[], tensors),
    }
}

/// Reads a request whose arrays at `data` are apart; without any they stand in the JSON.
fn from_parts(json: &[u8], arrays: &[&[u8]], mut tensors: &[u8]) -> Result<InferRequest, Failure> {
    let request: RequestJson<'_> = serde_json::from_slice(json)
        .map_err(|error| Failure::invalid(format!("the body is no inference request: {error}")))?;
    let mut inputs = Vec::new();
    for input in request.inputs {
        inputs.push(tensor(input, arrays, &mut tensors)?);
    }
    if !tensors.is_empty() {
        let what = format!("{} bytes of the body belong to no input", tensors.len());
        return Err(Failure::invalid(what));
    }
    let wanted = |output: OutputJson| {
        let is_binary = match output.parameters.get("binary_data") {
            None => None,
            Some(ParameterValue::Bool(is_binary)) => Some(*is_binary),
            Some(_) => {
                let what = format!("output '{}': binary_data is true or false", output.name);
                return Err(Failure::invalid(what));
            }
        };
        if output.parameters.contains_key("classification") {
            let what = "the classification extension is not served";
            return Err(Failure::new(Kind::Unsupported, what));
        }
        Ok(WantedOutput { name: output.name, is_binary })
    };
    Ok(InferRequest {
        id: request.id,
        parameters: Parameters::new(&request.parameters)?,
        inputs,
        outputs: request.outputs.into_iter().map(wanted).collect::<Result<_, _>>()?,
        ..InferRequest::default()
    })
}

/// An input with its elements, from its JSON or from the bytes behind it.
fn tensor(input: InputJson<'_>, arrays: &[&[u8]], tensors: &mut &[u8]) -> Result<Tensor, Failure> {
    let InputJson { name, datatype: text, shape, parameters, data } = input;
    let wrong = |what: &str| Err(Failure::invalid(format!("input '{name}': {what}")));
    let Some(datatype) = Datatype::named(&text) else {
        return wrong(&format!("there is no datatype '{text}'"));
    };
    let elements = match (parameters.get("binary_data_size"), data) {
        (Some(_), Some(_)) => return wrong("it has both data and binary_data_size"),
        (None, None) => return wrong("it has no data"),
        (Some(ParameterValue::Integer(size)), None) => {
            let size = usize::try_from(*size).ok();
            let Some((own, rest)) = size.and_then(|size| tensors.split_at_checked(size)) else {
                return wrong("its binary_data_size is not what follows the JSON part");
            };
            *tensors = rest;
            Tensor::elements_from_bytes(&name, datatype, own)?
        }
        (Some(_), None) => return wrong("its binary_data_size is not a number"),
        (None, Some(data)) => {
            if matches!(datatype, Datatype::Half | Datatype::Brain) {
                return wrong("FP16 and BF16 come as bytes only");
            }
            let count = shape.iter().try_fold(1usize, |count, size| count.checked_mul(*size));
            let apart = data.get().parse().ok().and_then(|number: usize| arrays.get(number));
            let data = apart.copied().unwrap_or(data.get().as_bytes());
            json_array::parse(data, &name, count.unwrap_or(usize::MAX))?
        }
    };
    let elements = match (elements, datatype) {
        // An empty array has no elements of any type.
        (elements, Datatype::Bytes) if elements.len() == 0 => Elements::Texts(Vec::new()),
        (elements, _) => elements,
    };
    Tensor::new(name, datatype, shape, elements)
}

#[derive(Serialize)]
struct ResponseJson<'a> {
    model_name: &'a str,
    model_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    parameters: ResponseParameters<'a>,
    outputs: Vec<ResponseOutput<'a>>,
}

#[derive(Serialize)]
struct ResponseParameters<'a> {
    digest: &'a str,
    contract: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<u64>,
    unsettled: usize,
    queue_us: f64,
    compute_us: f64,
}

#[derive(Serialize)]
struct ResponseOutput<'a> {
    name: &'a str,
    datatype: &'static str,
    shape: &'a [usize],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<BinarySize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<ResponseData<'a>>,
}

#[derive(Serialize)]
struct BinarySize {
    binary_data_size: usize,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResponseData<'a> {
    F64s(Vec<f64>),
    Integers(&'a [i64]),
    Texts(&'a [String]),
}

/// A response body, and the length of its JSON part if bytes follow it.
pub fn response(response: &InferResponse) -> (Vec<u8>, Option<usize>) {
    let microseconds = |time: std::time::Duration| (1e7 * time.as_secs_f64()).round() / 10.0;
    let mut tensors: Vec<u8> = Vec::new();
    let outputs = response.outputs.iter().map(|(output, is_binary)| {
        let data = match &output.values {
            _ if *is_binary => None,
            // JSON has no infinities: a range that is not bounded ends at the largest number.
            Values::F64s(values) => {
                let finite = values.iter().map(|value| value.clamp(f64::MIN, f64::MAX));
                Some(ResponseData::F64s(finite.collect()))
            }
            Values::Integers(values) => Some(ResponseData::Integers(values)),
            Values::Texts(values) => Some(ResponseData::Texts(values)),
        };
        let parameters = is_binary.then(|| {
            let bytes = output.values.to_bytes();
            tensors.extend_from_slice(&bytes);
            BinarySize { binary_data_size: bytes.len() }
        });
        let datatype = output.values.datatype().name();
        ResponseOutput { name: output.name, datatype, shape: &output.shape, parameters, data }
    });
    let outputs = outputs.collect();
    let json = ResponseJson {
        model_name: &response.served.name,
        model_version: response.served.version.to_string(),
        id: response.id.as_deref(),
        parameters: ResponseParameters {
            digest: &response.served.digest,
            contract: response.served.contract(),
            budget: response.budget,
            unsettled: response.unsettled,
            queue_us: microseconds(response.queue),
            compute_us: microseconds(response.compute),
        },
        outputs,
    };
    let mut body = serde_json::to_vec(&json).unwrap_or_default();
    let is_binary = response.outputs.iter().any(|(_, is_binary)| *is_binary);
    let length = is_binary.then_some(body.len());
    body.extend_from_slice(&tensors);
    (body, length)
}
