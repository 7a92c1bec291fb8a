//! What the server says of itself and of its models, as JSON: metadata, configuration, statistics, the card, explanations.

use std::sync::atomic::Ordering;

use mercer_data::Matrix;
use mercer_data::scale::Map as ScalingMap;
use mercer_machine::{Output, Scheme, Score};
use mercer_query::QueryOptions;
use serde_json::{Map, Value, json};

use crate::answers::certainty_name;
use crate::batch_counts::BatchCount;
use crate::failure::Failure;
use crate::infer::{check_digest, query_options};
use crate::probabilities::ClassProbabilities;
use crate::repository::VersionPolicy;
use crate::request::InferRequest;
use crate::rows::rows;
use crate::served::ServedModel;

/// The server's own name, version and extensions; `added` is the one of the program that runs it.
pub fn server(added: Option<&str>) -> Value {
    let mut extensions = vec![
        "binary_tensor_data",
        "model_repository",
        "model_configuration",
        "schedule_policy",
        "statistics",
        "parameters",
    ];
    extensions.extend(added);
    json!({ "name": "mercer", "version": env!("CARGO_PKG_VERSION"), "extensions": extensions })
}

fn outputs(served: &ServedModel) -> [(&'static str, &'static str); 5] {
    [
        ("label", served.label_kind().datatype()),
        ("low", "FP64"),
        ("high", "FP64"),
        ("certainty", "BYTES"),
        ("cost", "INT64"),
    ]
}

/// Metadata of a model.
pub fn metadata(served: &ServedModel, versions: &[String]) -> Value {
    let outputs = outputs(served)
        .map(|(name, datatype)| json!({ "name": name, "datatype": datatype, "shape": [-1] }));
    let machine = &served.model.machine;
    let mut properties = Map::new();
    let mut add = |name: &str, value: String| {
        properties.insert(name.to_owned(), Value::String(value));
    };
    add("digest", served.digest.clone());
    add("contract", served.contract());
    add("plan", served.active_plan().spec().to_string());
    add("kernel", machine.kernel().spec().to_string());
    add("supports", machine.supports().rows().to_string());
    add("exact_multiply_adds", served.plan.exact_stage().cost().multiply_adds.to_string());
    add("classes", json!(served.class_names()).to_string());
    add("output", output_kind(served).to_owned());
    if let Some(known) = ClassProbabilities::of_model(&served.model) {
        add("probability_classes", json!(known.classes).to_string());
    }
    if served.model.input.zero_based {
        add("zero_based", "true".to_owned());
    }
    if let Some(target) = &served.model.input.target {
        add("target", target.clone());
    }
    if let Some(names) = &served.model.input.names {
        add("feature_names", json!(names).to_string());
    }
    if let Some(calibration) = served.active_plan().calibration() {
        add("calibration_eps", calibration.risk.to_string());
        add("calibration_delta", calibration.delta.to_string());
        add("calibration_queries", calibration.queries.to_string());
    }
    json!({
        "name": served.name,
        "versions": versions,
        "platform": "mercer_safetensors",
        "inputs": [{ "name": "x", "datatype": "FP64", "shape": [-1, served.columns()] }],
        "outputs": outputs,
        "properties": properties,
    })
}

/// Configuration of a model in the form of Triton.
pub fn config(served: &ServedModel, policy: &VersionPolicy) -> Value {
    let kind = |datatype: &str| match datatype {
        "BYTES" => "TYPE_STRING".to_owned(),
        other => format!("TYPE_{other}"),
    };
    let outputs = outputs(served).map(|(name, datatype)| {
        json!({ "name": name, "data_type": kind(datatype), "dims": ["1"], "reshape": { "shape": [] } })
    });
    json!({
        "name": served.name,
        "platform": "mercer_safetensors",
        "backend": "mercer",
        "max_batch_size": 2048,
        "version_policy": match policy {
            VersionPolicy::Latest => json!({ "latest": { "num_versions": 1 } }),
            VersionPolicy::All => json!({ "all": {} }),
            VersionPolicy::Named(numbers) => {
                let versions: Vec<String> = numbers.iter().map(u64::to_string).collect();
                json!({ "specific": { "versions": versions } })
            }
        },
        "input": [{ "name": "x", "data_type": "TYPE_FP64", "dims": [served.columns().to_string()] }],
        "output": outputs,
        "dynamic_batching": { "max_queue_delay_microseconds": "0" },
    })
}

/// Statistics of a model in the form of Triton.
pub fn statistics(served: &ServedModel) -> Value {
    let counters = &served.counters;
    let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let count = get(&counters.requests);
    let duration = |ns: u64, count: u64| json!({ "count": count, "ns": ns });
    // Inputs and outputs are made for each request, before and after batches.
    let batch = |(rows, size): &(usize, BatchCount)| {
        json!({
            "batch_size": rows,
            "compute_input": duration(0, 0),
            "compute_infer": duration(size.nanoseconds, size.count),
            "compute_output": duration(0, 0),
        })
    };
    json!({
        "name": served.name,
        "version": served.version.to_string(),
        "last_inference": get(&counters.last_ms),
        "inference_count": get(&counters.rows),
        "execution_count": served.batches.count(),
        "inference_stats": {
            "success": duration(get(&counters.total_ns), count),
            "fail": duration(get(&counters.failed_ns), get(&counters.failures) + get(&counters.rejected)),
            "queue": duration(get(&counters.queue_ns), count),
            "compute_input": duration(get(&counters.input_ns), count),
            "compute_infer": duration(get(&counters.compute_ns), count),
            "compute_output": duration(get(&counters.output_ns), count),
            "cache_hit": duration(0, 0),
            "cache_miss": duration(0, 0),
        },
        "batch_stats": served.batches.by_size().iter().map(batch).collect::<Vec<Value>>(),
        "memory_usage": [{ "type": "CPU", "id": "0", "byte_size": served.bytes }],
        "response_stats": {},
    })
}

/// What its answers are.
fn output_kind(served: &ServedModel) -> &'static str {
    match served.model.machine.output() {
        Output::Value => "value",
        Output::Novelty => "novelty",
        Output::Classes { .. } => "classes",
    }
}

/// How scores decide among classes: pairs in the order (0, 1), (0, 2), ..., or a score for each class.
fn scheme(served: &ServedModel) -> Option<&'static str> {
    match served.model.machine.output() {
        Output::Classes { scheme: Scheme::OneVsOne, .. } => Some("one_vs_one"),
        Output::Classes { scheme: Scheme::OneVsRest, .. } => Some("one_vs_rest"),
        Output::Value | Output::Novelty => None,
    }
}

/// All that a user of the model should know.
pub fn card(served: &ServedModel) -> Value {
    let machine = &served.model.machine;
    let calibration = served.plan.calibration().map(|calibration| {
        json!({
            "eps": calibration.risk, "delta": calibration.delta, "queries": calibration.queries,
            "disagreements": calibration.disagreements, "bound": calibration.bound,
        })
    });
    let stages: Vec<String> =
        served.plan.stages().iter().map(|stage| stage.spec().to_string()).collect();
    let left_out = served.plan.left_out().iter().map(ToString::to_string);
    let left_out: Vec<String> =
        left_out.chain(served.plan.budget_left_out(&served.model)).collect();
    let tuning = served.model.plan.as_ref().and_then(|plan| plan.tuning.as_deref());
    json!({
        "name": served.name,
        "version": served.version.to_string(),
        "digest": served.digest,
        "kernel": machine.kernel().spec().to_string(),
        "output": output_kind(served),
        "classes": served.class_names(),
        "scheme": scheme(served),
        "columns": served.columns(),
        "feature_names": served.model.input.names,
        "scaling": served.model.input.scaling.as_ref().map(|scaling| scaling.spec().to_string()),
        "supports": machine.supports().rows(),
        "bytes": served.bytes,
        "plan": served.plan.spec().to_string(),
        "stages": stages,
        "left_out": left_out,
        "contract": served.contract(),
        "calibration": calibration,
        "is_alarmed": served.is_alarmed.load(Ordering::Relaxed),
        "exact_multiply_adds": served.plan.exact_stage().cost().multiply_adds,
        "mean_us": served.speed().mean_us,
        "audit": audit(served),
        "tuning": tuning,
    })
}

/// Supports at a time, at most.
const SUPPORTS: usize = 1000;

/// Some supports, as the machine holds them: after the scaling of the model, values of columns from 0. Where a value was scaled to
/// `(x - centre) factor`, these numbers are there too.
pub fn supports(served: &ServedModel, first: usize, count: usize) -> Value {
    let machine = &served.model.machine;
    let all = machine.supports();
    let end = first.saturating_add(count.min(SUPPORTS)).min(all.rows());
    let one = |row: usize| {
        let (indices, values): (Vec<u32>, Vec<f64>) = all.row(row).nonzeros().unzip();
        let coefficient = |score: &Score| match score {
            Score::Expansion { supports, coefficients, .. } => {
                let place = supports.binary_search(&(row as u32));
                place.map_or(0.0, |place| coefficients[place])
            }
            Score::Linear { .. } | Score::Additive { .. } => 0.0,
        };
        let coefficients: Vec<f64> = machine.scores().iter().map(coefficient).collect();
        json!({ "indices": indices, "values": values, "coefficients": coefficients })
    };
    let mut found = json!({
        "count": all.rows(), "columns": all.columns(), "first": first,
        "supports": (first..end).map(one).collect::<Vec<Value>>(),
    });
    let map = served.model.input.scaling.as_ref().map(mercer_data::scale::Scaling::map);
    if let Some(ScalingMap::Affine { centres, factors }) = map {
        found["centres"] = json!(centres);
        found["factors"] = json!(factors);
    }
    found
}

/// What the audit of calibrated answers has found, why there is none, or null if none is asked for.
fn audit(served: &ServedModel) -> Value {
    if let Some(reason) = &served.audit_refusal {
        return json!({ "refused": reason });
    }
    // The guard must not be held longer than the report takes.
    let Some(report) = served.audit().map(|audit| audit.report()) else { return Value::Null };
    json!({
        "queries": report.seen, "audited": report.audited, "disagreements": report.disagreements,
        "low": report.low, "high": report.high, "alarm_at_query": report.alarm,
    })
}

/// How one row is answered, step by step.
///
/// # Errors
/// If there is not exactly one row, or it cannot be answered.
pub fn explanation(served: &ServedModel, request: &InferRequest) -> Result<Value, Failure> {
    request.check_names()?;
    check_digest(served, &request.parameters)?;
    let rows = rows(&served.model, request.inputs.clone(), 1)?;
    if rows.rows() != 1 {
        return Err(Failure::invalid("one row is explained at a time"));
    }
    explained(served, &rows, 0, &query_options(served, &request.parameters))
}

/// How one of some rows is answered with these options.
///
/// # Errors
/// If it cannot be answered.
pub fn explained(
    served: &ServedModel,
    rows: &Matrix,
    row: usize,
    options: &QueryOptions,
) -> Result<Value, Failure> {
    let explained = served.active_plan().explain(rows, row, options);
    let explained = explained.map_err(|error| Failure::invalid(error.to_string()))?;
    let finite = |value: f64| value.clamp(f64::MIN, f64::MAX);
    let steps: Vec<Value> = explained
        .steps
        .iter()
        .map(|step| {
            json!({
                "stage": step.stage, "score": step.score, "progress": step.progress,
                "low": finite(step.range.low), "high": finite(step.range.high),
                "cost": step.cost.multiply_adds, "is_estimate": step.is_estimate,
                "is_between": step.is_between,
            })
        })
        .collect();
    let decision = explained.decision;
    let answer = crate::answers::output(
        "label",
        &served.model.machine,
        &crate::answers::Computed { decisions: vec![decision], ..Default::default() },
    );
    let label = match answer.values {
        crate::tensor::Values::F64s(values) => json!(values[0]),
        crate::tensor::Values::Integers(values) => json!(values[0]),
        crate::tensor::Values::Texts(values) => json!(values[0]),
    };
    Ok(json!({
        "label": label,
        "low": finite(decision.range.low),
        "high": finite(decision.range.high),
        "certainty": certainty_name(decision.certainty),
        "cost": decision.cost.multiply_adds,
        "exact_cost": served.plan.exact_stage().cost().multiply_adds,
        "answered_by": explained.answered_by,
        "stages": explained.stages,
        "steps": steps,
    }))
}
