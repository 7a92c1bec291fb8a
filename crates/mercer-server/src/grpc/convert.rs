//! Messages of gRPC to requests that every protocol shares, and back. Descriptions are made of the JSON of `describe.rs`, so
//! that both protocols say the same.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

use super::inference::infer_parameter::ParameterChoice;
use super::inference::model_infer_request::InferInputTensor;
use super::inference::model_infer_response::InferOutputTensor;
use super::inference::model_metadata_response::TensorMetadata;
use super::inference::model_version_policy::{All, Latest, PolicyChoice, Specific};
use super::inference::repository_index_response::ModelIndex;
use super::inference::{
    DataType, InferBatchStatistics, InferParameter, InferStatistics, InferTensorContents,
    MemoryUsage, ModelConfig, ModelConfigResponse, ModelDynamicBatching, ModelInferRequest,
    ModelInferResponse, ModelInput, ModelMetadataResponse, ModelOutput, ModelStatistics,
    ModelVersionPolicy, RepositoryIndexResponse, ServerMetadataResponse, StatisticDuration,
};
use crate::failure::{Failure, Kind};
use crate::infer::InferResponse;
use crate::json_array::Elements;
use crate::repository::IndexEntry;
use crate::request::{InferRequest, ParameterMap, ParameterValue, Parameters, WantedOutput};
use crate::tensor::{Datatype, Tensor};

fn parameters(given: HashMap<String, InferParameter>) -> Result<ParameterMap, Failure> {
    let value = |(name, parameter): (String, InferParameter)| {
        let value = match parameter.parameter_choice {
            Some(ParameterChoice::BoolParam(value)) => ParameterValue::Bool(value),
            Some(ParameterChoice::Int64Param(value)) => ParameterValue::Integer(value),
            Some(ParameterChoice::StringParam(text)) => ParameterValue::Text(text),
            Some(ParameterChoice::DoubleParam(value)) => ParameterValue::Number(value),
            Some(ParameterChoice::Uint64Param(value)) => match i64::try_from(value) {
                Ok(value) => ParameterValue::Integer(value),
                Err(_) => ParameterValue::Text(value.to_string()),
            },
            None => return Err(Failure::invalid(format!("parameter '{name}' has no value"))),
        };
        Ok((name, value))
    };
    given.into_iter().map(value).collect()
}

/// The request of a message.
///
/// # Errors
/// If it is not a request of the protocol.
pub fn request(message: ModelInferRequest) -> Result<InferRequest, Failure> {
    let ModelInferRequest { id, inputs, outputs, raw_input_contents: raw, .. } = message;
    if !raw.is_empty() && raw.len() != inputs.len() {
        let (raw, inputs) = (raw.len(), inputs.len());
        let what = format!("there are {raw} raw_input_contents for {inputs} inputs");
        return Err(Failure::invalid(what));
    }
    let mut bytes = raw.into_iter();
    let tensors = inputs.into_iter().map(|input| tensor(input, bytes.next().as_deref()));
    let inputs = tensors.collect::<Result<_, _>>()?;
    let wanted = |output: super::inference::model_infer_request::InferRequestedOutputTensor| {
        if output.parameters.contains_key("classification") {
            let what = "the classification extension is not served";
            return Err(Failure::new(Kind::Unsupported, what));
        }
        Ok(WantedOutput { name: output.name, is_binary: None })
    };
    Ok(InferRequest {
        id: Some(id).filter(|id| !id.is_empty()),
        parameters: Parameters::new(&parameters(message.parameters)?)?,
        inputs,
        outputs: outputs.into_iter().map(wanted).collect::<Result<_, _>>()?,
        ..InferRequest::default()
    })
}

fn tensor(input: InferInputTensor, raw: Option<&[u8]>) -> Result<Tensor, Failure> {
    let InferInputTensor { name, datatype: text, shape, contents, .. } = input;
    let wrong = |what: String| Failure::invalid(format!("input '{name}': {what}"));
    let datatype =
        Datatype::named(&text).ok_or_else(|| wrong(format!("there is no datatype '{text}'")))?;
    let size = |size: &i64| {
        usize::try_from(*size)
            .map_err(|_| wrong(format!("its shape {shape:?} has a negative size")))
    };
    let sizes = shape.iter().map(size).collect::<Result<Vec<_>, _>>()?;
    let elements = match (raw, contents) {
        (Some(_), Some(_)) => {
            return Err(wrong("it has both contents and raw_input_contents".to_owned()));
        }
        (Some(bytes), None) => Tensor::elements_from_bytes(&name, datatype, bytes)?,
        (None, contents) => {
            if matches!(datatype, Datatype::Half | Datatype::Brain) {
                return Err(wrong("FP16 and BF16 come as raw_input_contents only".to_owned()));
            }
            typed(datatype, contents.unwrap_or_default())
                .ok_or_else(|| wrong(format!("its contents are not those of {text}")))?
        }
    };
    Tensor::new(name, datatype, sizes, elements)
}

/// The elements of a datatype; none if there are others.
fn typed(datatype: Datatype, contents: InferTensorContents) -> Option<Elements> {
    let InferTensorContents {
        bool_contents,
        int_contents,
        int64_contents,
        uint_contents,
        uint64_contents,
        fp32_contents,
        fp64_contents,
        bytes_contents,
    } = contents;
    let lengths = [
        bool_contents.len(),
        int_contents.len(),
        int64_contents.len(),
        uint_contents.len(),
        uint64_contents.len(),
        fp32_contents.len(),
        fp64_contents.len(),
        bytes_contents.len(),
    ];
    let numbers = match datatype {
        Datatype::Bool => bool_contents.into_iter().map(|x| f64::from(u8::from(x))).collect(),
        Datatype::Signed(8) => int64_contents.into_iter().map(|x| x as f64).collect(),
        Datatype::Signed(_) => int_contents.into_iter().map(f64::from).collect(),
        Datatype::Unsigned(8) => uint64_contents.into_iter().map(|x| x as f64).collect(),
        Datatype::Unsigned(_) => uint_contents.into_iter().map(f64::from).collect(),
        Datatype::Half | Datatype::Brain => Vec::new(),
        Datatype::Single => fp32_contents.into_iter().map(f64::from).collect(),
        Datatype::Double => fp64_contents,
        Datatype::Bytes => {
            let is_whole = lengths.iter().sum::<usize>() == bytes_contents.len();
            return is_whole.then_some(Elements::Texts(bytes_contents));
        }
    };
    (lengths.iter().sum::<usize>() == numbers.len()).then_some(Elements::Numbers(numbers))
}

/// The message of a response: all outputs as bytes.
pub fn response(answered: &InferResponse) -> ModelInferResponse {
    let microseconds = |time: Duration| 1e6 * time.as_secs_f64();
    let parameter = |choice| InferParameter { parameter_choice: Some(choice) };
    let mut parameters = HashMap::new();
    let mut add = |name: &str, choice| parameters.insert(name.to_owned(), parameter(choice));
    add("digest", ParameterChoice::StringParam(answered.served.digest.clone()));
    add("contract", ParameterChoice::StringParam(answered.served.contract()));
    add("unsettled", ParameterChoice::Int64Param(answered.unsettled as i64));
    add("queue_us", ParameterChoice::DoubleParam(microseconds(answered.queue)));
    add("compute_us", ParameterChoice::DoubleParam(microseconds(answered.compute)));
    if let Some(budget) = answered.budget {
        let budget = i64::try_from(budget).unwrap_or(i64::MAX);
        add("budget", ParameterChoice::Int64Param(budget));
    }
    let output = |(output, _): &(crate::tensor::OutputTensor, bool)| InferOutputTensor {
        name: output.name.to_owned(),
        datatype: output.values.datatype().name().to_owned(),
        shape: output.shape.iter().map(|size| *size as i64).collect(),
        parameters: HashMap::new(),
        contents: None,
    };
    ModelInferResponse {
        model_name: answered.served.name.clone(),
        model_version: answered.served.version.to_string(),
        id: answered.id.clone().unwrap_or_default(),
        parameters,
        outputs: answered.outputs.iter().map(output).collect(),
        raw_output_contents: answered
            .outputs
            .iter()
            .map(|(output, _)| output.values.to_bytes())
            .collect(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

/// A whole number, which the JSON of protobuf may hold as a text.
fn whole(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default()
}

fn wholes(value: &Value) -> Vec<i64> {
    value.as_array().into_iter().flatten().map(whole).collect()
}

/// Name, version and extensions of the server.
pub fn server(json: &Value) -> ServerMetadataResponse {
    let (name, version) = (text(&json["name"]), text(&json["version"]));
    ServerMetadataResponse { name, version, extensions: texts(&json["extensions"]) }
}

/// Metadata of a model.
pub fn metadata(json: &Value) -> ModelMetadataResponse {
    let tensor = |json: &Value| TensorMetadata {
        name: text(&json["name"]),
        datatype: text(&json["datatype"]),
        shape: wholes(&json["shape"]),
    };
    let tensors =
        |name: &str| json[name].as_array().into_iter().flatten().map(tensor).collect::<Vec<_>>();
    let properties = json["properties"].as_object().into_iter().flatten();
    ModelMetadataResponse {
        name: text(&json["name"]),
        versions: texts(&json["versions"]),
        platform: text(&json["platform"]),
        inputs: tensors("inputs"),
        outputs: tensors("outputs"),
        properties: properties.map(|(name, value)| (name.clone(), text(value))).collect(),
    }
}

/// Configuration of a model.
pub fn config(json: &Value) -> ModelConfigResponse {
    let kind = |json: &Value| {
        let name = json["data_type"].as_str().unwrap_or_default();
        DataType::from_str_name(name).unwrap_or(DataType::TypeInvalid).into()
    };
    let list = |name: &str| json[name].as_array().into_iter().flatten();
    let input = |json: &Value| ModelInput {
        name: text(&json["name"]),
        data_type: kind(json),
        dims: wholes(&json["dims"]),
    };
    let output = |json: &Value| ModelOutput {
        name: text(&json["name"]),
        data_type: kind(json),
        dims: wholes(&json["dims"]),
    };
    let config = ModelConfig {
        name: text(&json["name"]),
        platform: text(&json["platform"]),
        version_policy: Some(version_policy(&json["version_policy"])),
        max_batch_size: i32::try_from(whole(&json["max_batch_size"])).unwrap_or(i32::MAX),
        input: list("input").map(input).collect(),
        output: list("output").map(output).collect(),
        dynamic_batching: Some(ModelDynamicBatching::default()),
        backend: text(&json["backend"]),
    };
    ModelConfigResponse { config: Some(config) }
}

fn version_policy(json: &Value) -> ModelVersionPolicy {
    let policy_choice = if json["latest"].is_object() {
        let number = whole(&json["latest"]["num_versions"]);
        PolicyChoice::Latest(Latest { num_versions: u32::try_from(number).unwrap_or(1) })
    } else if json["specific"].is_object() {
        PolicyChoice::Specific(Specific { versions: wholes(&json["specific"]["versions"]) })
    } else {
        PolicyChoice::All(All {})
    };
    ModelVersionPolicy { policy_choice: Some(policy_choice) }
}

/// Statistics of a model.
pub fn statistics(json: &Value) -> ModelStatistics {
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    let time = |json: &Value| {
        Some(StatisticDuration { count: count(&json["count"]), ns: count(&json["ns"]) })
    };
    let duration = |name: &str| time(&json["inference_stats"][name]);
    let batch = |json: &Value| InferBatchStatistics {
        batch_size: count(&json["batch_size"]),
        compute_input: time(&json["compute_input"]),
        compute_infer: time(&json["compute_infer"]),
        compute_output: time(&json["compute_output"]),
    };
    let memory = |json: &Value| MemoryUsage {
        r#type: text(&json["type"]),
        id: whole(&json["id"]),
        byte_size: count(&json["byte_size"]),
    };
    ModelStatistics {
        name: text(&json["name"]),
        version: text(&json["version"]),
        last_inference: count(&json["last_inference"]),
        inference_count: count(&json["inference_count"]),
        execution_count: count(&json["execution_count"]),
        inference_stats: Some(InferStatistics {
            success: duration("success"),
            fail: duration("fail"),
            queue: duration("queue"),
            compute_input: duration("compute_input"),
            compute_infer: duration("compute_infer"),
            compute_output: duration("compute_output"),
            cache_hit: duration("cache_hit"),
            cache_miss: duration("cache_miss"),
        }),
        batch_stats: json["batch_stats"].as_array().into_iter().flatten().map(batch).collect(),
        memory_usage: json["memory_usage"].as_array().into_iter().flatten().map(memory).collect(),
    }
}

/// The index of the repository.
pub fn index(entries: Vec<IndexEntry>) -> RepositoryIndexResponse {
    let one = |IndexEntry { name, version, state, reason }: IndexEntry| ModelIndex {
        name,
        version,
        state: state.to_owned(),
        reason,
    };
    RepositoryIndexResponse { models: entries.into_iter().map(one).collect() }
}
