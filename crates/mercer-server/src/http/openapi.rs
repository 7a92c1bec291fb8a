//! The description of all addresses in the form of OpenAPI 3.1. `routes()` of `http.rs` is what is served; a test compares
//! the two.

use serde_json::{Map, Value, json};

/// One address with one method.
struct Operation {
    path: &'static str,
    method: &'static str,
    /// Its name in generated clients.
    id: &'static str,
    summary: &'static str,
    /// Parameters of the query.
    query: &'static [(&'static str, &'static str, &'static str)],
    /// Content types of the body, with the name of a schema; `binary` stands for bytes.
    body: &'static [(&'static str, &'static str)],
    /// Content types of the response, likewise.
    reply: &'static [(&'static str, &'static str)],
    /// Codes of refusals beside those that every address has.
    refusals: &'static [u16],
}

const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

const fn get(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    schema: &'static [(&'static str, &'static str)],
    refusals: &'static [u16],
) -> Operation {
    Operation { path, method: "get", id, summary, query: &[], body: &[], reply: schema, refusals }
}

/// Addresses of the server.
const OF_SERVER: [Operation; 11] = [
    get("/v2", "serverMetadata", "Name, version and extensions", &[(JSON, "Server")], &[]),
    get("/v2/", "serverMetadataToo", "The same", &[(JSON, "Server")], &[]),
    get("/v2/health/live", "live", "Whether the process runs", &[(JSON, "Live")], &[]),
    get("/v2/health/ready", "ready", "Whether requests are wanted", &[(JSON, "Ready")], &[503]),
    get("/v2/models", "models", "Names of the models", &[(JSON, "Models")], &[]),
    get("/v2/models/stats", "allStatistics", "What all models did", &[(JSON, "Statistics")], &[]),
    get("/openapi.json", "openApi", "This description", &[(JSON, "Object")], &[]),
    get(
        "/metrics",
        "metrics",
        "Metrics for Prometheus",
        &[("application/openmetrics-text", "Text")],
        &[],
    ),
    Operation {
        path: "/v2/repository/index",
        method: "post",
        id: "index",
        summary: "Models and versions that there are, ready or not, and why not",
        query: &[],
        body: &[(JSON, "IndexRequest")],
        reply: &[(JSON, "Index")],
        refusals: &[400, 408, 413, 415, 429],
    },
    Operation {
        path: "/v2/repository/models/{model}/load",
        method: "post",
        id: "load",
        summary: "Loads a model again from its file; needs the admin token",
        query: &[],
        body: &[(JSON, "LoadRequest")],
        reply: &[(JSON, "Object")],
        refusals: &[400, 404, 408, 413, 415, 429, 501],
    },
    Operation {
        path: "/v2/repository/models/{model}/unload",
        method: "post",
        id: "unload",
        summary: "Takes a model out of service; needs the admin token",
        query: &[],
        body: &[],
        reply: &[(JSON, "Object")],
        refusals: &[404, 501],
    },
];

/// Addresses of a model, behind `/v2/models/{model}` or `/v2/models/{model}/versions/{version}`.
const OF_MODEL: [Operation; 9] = [
    get("", "metadata", "Inputs, outputs, digest, plan", &[(JSON, "Metadata")], &[404, 503]),
    get("/ready", "modelReady", "Whether it answers", &[(JSON, "ModelReady")], &[404, 503]),
    get("/config", "config", "Configuration as Triton has it", &[(JSON, "Object")], &[404, 503]),
    get("/stats", "statistics", "What it did", &[(JSON, "Statistics")], &[404, 503]),
    get("/card", "card", "All that a user should know", &[(JSON, "Card")], &[404, 503]),
    Operation {
        path: "/infer",
        method: "post",
        id: "infer",
        summary: "Answers rows. With the header Inference-Header-Content-Length tensors come as bytes behind the JSON part",
        query: &[],
        body: &[(JSON, "InferRequest"), (BYTES, "binary")],
        reply: &[(JSON, "InferResponse"), (BYTES, "binary")],
        refusals: &[400, 404, 408, 409, 413, 415, 429, 501, 503],
    },
    Operation {
        path: "/explain",
        method: "post",
        id: "explain",
        summary: "How one row is answered, step by step",
        query: &[],
        body: &[(JSON, "InferRequest"), (BYTES, "binary")],
        reply: &[(JSON, "Explanation")],
        refusals: &[400, 404, 408, 409, 413, 415, 429, 501, 503],
    },
    Operation {
        path: "/batch",
        method: "post",
        id: "batch",
        summary: "Answers the rows of a table or of LIBSVM text line by line, while they are sent",
        query: &[
            ("input", "string", "Format of the rows: csv, libsvm, arrow, parquet, npy or idx"),
            ("output", "string", "Format of the answers: csv or jsonl"),
            ("id", "string", "A column that names rows"),
            (
                "target",
                "string",
                "The target column of a table, which is not used; none if there is none",
            ),
            ("zero_based", "boolean", "LIBSVM text whose columns count from 0"),
            ("budget", "integer", "Most multiply-adds of a row"),
            ("budget_us", "number", "Most microseconds of a row"),
            ("require", "string", "certified"),
            ("tolerance", "number", "Half-width at which a value is settled"),
            ("threshold", "number", "What scores are compared with in place of 0"),
            ("digest", "string", "The model that is meant"),
            ("probabilities", "boolean", "Whether probabilities are added"),
        ],
        body: &[
            ("text/csv", "Text"),
            ("application/x-libsvm", "Text"),
            ("application/vnd.apache.arrow.stream", "binary"),
            ("application/vnd.apache.parquet", "binary"),
        ],
        reply: &[("text/csv", "Text"), ("application/x-ndjson", "Text")],
        refusals: &[400, 404, 408, 409, 413, 415, 429, 503],
    },
    Operation {
        path: "/supports",
        method: "get",
        id: "supports",
        summary: "Supports and their coefficients; only with --show-supports, for they are training data",
        query: &[
            ("first", "integer", "The first one, from 0"),
            ("count", "integer", "How many, at most 1000"),
        ],
        body: &[],
        reply: &[(JSON, "Supports")],
        refusals: &[400, 403, 404, 503],
    },
];

/// Addresses that other servers have, and this one refuses with 501.
const UNSUPPORTED: [&str; 7] = [
    "/v2/systemsharedmemory/{rest}",
    "/v2/cudasharedmemory/{rest}",
    "/v2/trace/setting",
    "/v2/models/{model}/trace/setting",
    "/v2/logging",
    "/v2/models/{model}/generate",
    "/v2/models/{model}/generate_stream",
];

/// The description.
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let mut add = |path: String, method: &str, described: Value| {
        let path = paths.entry(path).or_insert_with(|| json!({}));
        path[method] = described;
    };
    for operation in &OF_SERVER {
        add(operation.path.to_owned(), operation.method, describe(operation, operation.path, ""));
    }
    for (base, suffix) in
        [("/v2/models/{model}", ""), ("/v2/models/{model}/versions/{version}", "OfVersion")]
    {
        for operation in &OF_MODEL {
            let path = format!("{base}{}", operation.path);
            let described = describe(operation, &path, suffix);
            add(path, operation.method, described);
        }
    }
    for (number, path) in UNSUPPORTED.into_iter().enumerate() {
        for method in ["get", "post"] {
            let described = json!({
                "operationId": format!("unsupported{number}{method}"),
                "summary": "Not served here",
                "parameters": path_parameters(path),
                "responses": { "401": refusal(), "403": refusal(), "501": refusal() },
            });
            add(path.to_owned(), method, described);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "mercer serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The Open Inference Protocol, version 2, for kernel machines, with Triton's extensions.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn path_parameters(path: &str) -> Vec<Value> {
    let parts = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let one = |name: &str| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } });
    parts.map(one).collect()
}

fn refusal() -> Value {
    json!({
        "description": "Refused, with one sentence",
        "content": { JSON: { "schema": { "$ref": "#/components/schemas/Error" } } },
    })
}

fn content(kinds: &[(&str, &str)]) -> Value {
    let one = |(kind, schema): &(&str, &str)| {
        let schema = match *schema {
            "binary" => json!({ "type": "string", "format": "binary" }),
            name => json!({ "$ref": format!("#/components/schemas/{name}") }),
        };
        ((*kind).to_owned(), json!({ "schema": schema }))
    };
    Value::Object(kinds.iter().map(one).collect())
}

fn describe(operation: &Operation, path: &str, suffix: &str) -> Value {
    let Operation { id, summary, query, body, reply, refusals, .. } = operation;
    let mut parameters = path_parameters(path);
    parameters.extend(query.iter().map(|(name, kind, what)| {
        json!({ "name": name, "in": "query", "description": what, "schema": { "type": kind } })
    }));
    let mut responses = json!({ "200": { "description": "Done", "content": content(reply) } });
    for code in refusals.iter().chain([&401, &403]) {
        responses[code.to_string()] = refusal();
    }
    if *id == "ready" {
        responses["503"] =
            json!({ "description": "Not ready", "content": content(&[(JSON, "Ready")]) });
    }
    let mut described = json!({
        "operationId": format!("{id}{suffix}"), "summary": summary, "parameters": parameters,
        "responses": responses,
    });
    if !body.is_empty() {
        // Calls of the repository may come without a body.
        let is_required = !path.starts_with("/v2/repository");
        described["requestBody"] = json!({ "required": is_required, "content": content(body) });
    }
    described
}

/// What bodies hold.
fn schemas() -> Value {
    serde_json::from_str(include_str!("schemas.json")).expect("a test reads it")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_address_is_described_and_no_other() {
        let mut served = BTreeSet::new();
        for (path, method, _) in super::super::routes() {
            let path = path.replace("{*rest}", "{rest}");
            let methods = if method == "any" { vec!["get", "post"] } else { vec![method] };
            served.extend(methods.into_iter().map(|method| (path.clone(), method.to_owned())));
        }
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        let methods = |(path, methods): (&String, &Value)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(|method| (path.clone(), method.clone())).collect::<Vec<_>>()
        };
        assert_eq!(paths.iter().flat_map(methods).collect::<BTreeSet<_>>(), served);
    }

    #[test]
    fn every_schema_that_is_named_is_there_and_ids_are_distinct() {
        let document = document();
        let text = document.to_string();
        let names = text.split("#/components/schemas/").skip(1).map(|rest| rest.split('"').next());
        for name in names.flatten() {
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
        let ids: Vec<&str> = text
            .split("\"operationId\":\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    }
}
