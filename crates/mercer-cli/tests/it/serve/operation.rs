//! What operators see: the log, metrics under both names, versions by policy, signals, named columns, overload.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Digits, Server, output};
use crate::common::{Folder, done};
use crate::guide::table;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[test]
fn every_request_is_logged_with_its_trace() {
    let digits = Digits::new();
    let mut server = Server::start(&[&digits.model, "--log", "json"]);
    let trace = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let headers = format!("traceparent: {trace}\r\n");
    let body = digits.request(0..3, json!({})).to_string();
    let reply = server.send("POST", "/v2/models/digits/infer", &headers, body.as_bytes());
    assert!(reply.head.contains(&format!("traceparent: {trace}")), "{}", reply.head);
    let digest = reply.json()["parameters"]["digest"].clone();
    let line = server.event_named("request");
    for (name, expected) in [
        ("protocol", json!("http")),
        ("method", json!("POST")),
        ("path", json!("/v2/models/digits/infer")),
        ("code", json!(200)),
        ("model", json!("digits")),
        ("version", json!(1)),
        ("digest", digest),
        ("id", json!("7")),
        ("rows", json!(3)),
        ("unsettled", json!(0)),
        ("trace_id", json!(TRACE)),
        ("parent_id", json!("00f067aa0ba902b7")),
    ] {
        assert_eq!(line[name], expected, "{name}: {line}");
    }
    assert!(
        line["duration_us"].as_f64().unwrap() > 0.0
            && line["time"].as_str().unwrap().ends_with('Z')
    );
    let wrong = server.send("POST", "/v2/models/digits/infer", "traceparent: nonsense\r\n", b"{}");
    assert!(!wrong.head.contains("traceparent"), "{}", wrong.head);
    let line = server.event_named("request");
    assert_eq!((&line["code"], &line["error"]), (&json!(400), &json!(wrong.error())));
    assert!(line["trace_id"].is_null());
    // Probes are not logged: the next line is of the next request.
    server.get("/v2/health/ready");
    server.get("/v2/models/nobody");
    let line = server.event_named("request");
    assert_eq!((&line["path"], &line["code"]), (&json!("/v2/models/nobody"), &json!(404)));
    assert_eq!(
        server.metric(
            "mercer_requests_total{model=\"digits\",version=\"1\",protocol=\"http\",code=\"400\"}"
        ),
        1.0
    );
    assert_eq!(
        server.metric(
            "mercer_requests_total{model=\"\",version=\"\",protocol=\"http\",code=\"404\"}"
        ),
        1.0
    );
}

#[test]
fn metrics_have_the_names_of_triton_on_request() {
    let digits = Digits::new();
    let server = Server::start(&[&digits.model, "--metrics-names", "triton"]);
    server.infer("digits", &digits.request(0..5, json!({})));
    server.infer("digits", &json!({ "inputs": [] }));
    let labels = "{model=\"digits\",version=\"1\"}";
    assert_eq!(server.metric(&format!("nv_inference_request_success{labels}")), 1.0);
    assert_eq!(server.metric(&format!("nv_inference_count{labels}")), 5.0);
    assert_eq!(server.metric(&format!("nv_inference_exec_count{labels}")), 1.0);
    assert_eq!(server.metric(&format!("nv_inference_pending_request_count{labels}")), 0.0);
    assert!(server.metric(&format!("nv_inference_compute_infer_duration_us{labels}")) > 0.0);
    let other = "nv_inference_request_failure{model=\"digits\",version=\"1\",reason=\"OTHER\"}";
    assert_eq!(server.metric(other), 1.0);
    let text = String::from_utf8(server.get("/metrics").body).unwrap();
    assert!(text.ends_with("# EOF\n"));
    for name in [
        "mercer_queries_total",
        "mercer_settled_total",
        "mercer_request_duration_seconds_bucket",
        "mercer_queue_duration_seconds_bucket",
        "mercer_compute_duration_seconds_bucket",
        "mercer_batch_queries_bucket",
        "mercer_query_multiply_adds_bucket",
        "mercer_queue_multiply_adds",
        "mercer_in_flight",
        "mercer_model_info",
        "mercer_model_bytes",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_cpu_seconds_total",
    ] {
        assert!(text.contains(&format!("\n{name}")), "{name}: {text}");
    }
    assert!(server.metric("process_resident_memory_bytes") > 1e6);
}

#[test]
fn versions_are_served_by_policy() {
    let digits = Digits::new();
    let folder = digits.folder.path("models");
    for version in [1, 2, 10] {
        std::fs::create_dir_all(format!("{folder}/digits/{version}")).unwrap();
        std::fs::copy(&digits.model, format!("{folder}/digits/{version}/model.mercer")).unwrap();
    }
    for (policy, expected) in
        [("latest", json!(["10"])), ("all", json!(["1", "2", "10"])), ("1,2,7", json!(["1", "2"]))]
    {
        let server = Server::start(&[&folder, "--versions", policy]);
        assert_eq!(server.get("/v2/models/digits").json()["versions"], expected, "{policy}");
        let latest = expected.as_array().unwrap().last().unwrap();
        let reply = server.infer("digits", &digits.request(0..1, json!({}))).json();
        assert_eq!(&reply["model_version"], latest);
        let one = server.infer("digits/versions/2", &digits.request(0..1, json!({})));
        assert_eq!(one.status, if policy == "latest" { 404 } else { 200 }, "{policy}");
    }
    let toml = digits.folder.write("serve.toml", "versions = [2]\n");
    let server = Server::start(&[&folder, "--config", &toml]);
    assert_eq!(server.get("/v2/models/digits").json()["versions"], json!(["2"]));
}

#[test]
fn columns_are_found_by_their_names() {
    let folder = Folder::new();
    let (train, model) =
        (folder.write("train.csv", &table(200, 0, false)), folder.path("m.mercer"));
    done(&["train", &train, "-o", &model, "--kernel", "rbf(gamma=1)"]);
    let server = Server::start(&[&model]);
    let column = |name: &str, data: [f64; 2]| json!({ "name": name, "shape": [2], "datatype": "FP64", "data": data });
    let (x, y) = ([0.3, -0.2], [0.1, 0.7]);
    let named = server.infer("m", &json!({ "inputs": [column("y", y), column("x", x)] })).json();
    let rows = json!({ "name": "rows", "shape": [2, 2], "datatype": "FP64", "data": [[0.3, 0.1], [-0.2, 0.7]] });
    let dense = server.infer("m", &json!({ "inputs": [rows] })).json();
    assert_eq!(output(&named, "low"), output(&dense, "low"));
    // Metadata call whole rows 'x', which is the name of a column here.
    let rows = json!({ "name": "x", "shape": [2, 2], "datatype": "FP64", "data": [[0.3, 0.1], [-0.2, 0.7]] });
    let dense = server.infer("m", &json!({ "inputs": [rows] })).json();
    assert_eq!(output(&named, "low"), output(&dense, "low"));
    for (inputs, message) in [
        (vec![column("x", x)], "column 'y' is missing"),
        (vec![column("x", x), column("z", y)], "input 'z' is no column of the model"),
        (vec![column("x", x), column("x", y)], "two inputs are named 'x'"),
    ] {
        let refused = server.infer("m", &json!({ "inputs": inputs }));
        assert!(refused.error().contains(message), "{}", refused.error());
    }
}

#[test]
fn sigterm_ends_readiness_at_once_answers_what_has_begun_and_exits_with_0() {
    let digits = Digits::new();
    let toml = digits.folder.write("serve.toml", "drain_seconds = 1\nstop_seconds = 20\n");
    let mut server = Server::start(&[&digits.model, "--config", &toml]);
    // A request of which half has come.
    let body = digits.request(0..2, json!({})).to_string();
    let head = format!(
        "POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body.as_bytes()[..100]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    server.signal("-TERM");
    assert_eq!(server.event()["event"], "stopping");
    assert_eq!(server.get("/v2/health/ready").status, 503);
    assert_eq!(server.get("/v2/health/live").status, 200);
    let late = server.infer("digits", &digits.request(0..1, json!({})));
    assert_eq!(late.status, 200, "requests that come within the pause are answered");
    std::thread::sleep(Duration::from_millis(1300));
    stream.write_all(&body.as_bytes()[100..]).unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut stream, &mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    assert_eq!(server.event()["all_answered"], true);
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn a_second_signal_ends_the_server_now() {
    let digits = Digits::new();
    let toml = digits
        .folder
        .write("serve.toml", "drain_seconds = 60\nstop_seconds = 60\nread_seconds = 60\n");
    let mut server = Server::start(&[&digits.model, "--config", &toml]);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream
        .write_all(
            b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        )
        .unwrap();
    std::thread::sleep(Duration::from_millis(100));
    server.signal("-TERM");
    assert_eq!(server.event()["event"], "stopping");
    let start = Instant::now();
    server.signal("-TERM");
    assert!(server.child.wait().is_ok());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn the_description_of_the_addresses_is_served() {
    let digits = Digits::new();
    let server = Server::start(&[&digits.model]);
    let found = server.get("/openapi.json").json();
    assert_eq!(found["openapi"], "3.1.0");
    assert!(found["paths"]["/v2/models/{model}/infer"]["post"].is_object());
    let wrong = server.get("/v2/models/%ff/ready");
    assert_eq!(wrong.status, 400, "{}", wrong.head);
    assert!(wrong.error().contains("the address cannot be read"), "{}", wrong.error());
}

#[test]
fn digest_and_contract_stand_in_the_metadata_and_in_every_answer() {
    let digits = Digits::new();
    let server = Server::start(&[&digits.model]);
    let metadata = server.get("/v2/models/digits").json();
    let digest = metadata["properties"]["digest"].clone();
    let reply = server.infer("digits", &digits.request(0..1, json!({ "digest": digest }))).json();
    assert_eq!(reply["parameters"]["digest"], digest);
    assert_eq!(reply["parameters"]["contract"], metadata["properties"]["contract"]);
    assert_eq!(server.infer("digits", &digits.request(0..1, json!({ "digest": "x" }))).status, 409);
}

#[test]
fn a_request_may_ask_how_its_rows_were_answered() {
    let digits = Digits::new();
    let server = Server::start(&[&digits.model]);
    let one = server.infer("digits", &digits.request(0..2, json!({ "explain": true }))).json();
    for (at, text) in output(&one, "explanation").iter().enumerate() {
        let found: serde_json::Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        assert_eq!(found["cost"], output(&one, "cost")[at]);
        assert!(found["steps"].as_array().is_some_and(|steps| !steps.is_empty()), "{found}");
    }
    let request = digits.request(0..1, json!({}));
    let alone =
        server.send("POST", "/v2/models/digits/explain", "", request.to_string().as_bytes());
    let first = output(&one, "explanation")[0].as_str().unwrap().to_owned();
    assert_eq!(alone.json().to_string(), first);
    let many = server.infer("digits", &digits.request(0..17, json!({ "explain": true })));
    assert_eq!(many.status, 413, "{}", many.error());
}

#[test]
fn a_watched_folder_is_served_as_it_changes() {
    let digits = Digits::new();
    let folder = digits.folder.path("models");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(&digits.model, format!("{folder}/one.mercer")).unwrap();
    let mut server = Server::start(&[&folder, "--watch", "0.1"]);
    std::fs::copy(&digits.model, digits.folder.path("two.mercer")).unwrap();
    std::fs::rename(digits.folder.path("two.mercer"), format!("{folder}/two.mercer")).unwrap();
    let event = server.event_named("changed");
    assert_eq!(event["loaded_models"], json!([{ "model": "two", "version": 1 }]));
    std::fs::write(digits.folder.path("bad.mercer"), "no model").unwrap();
    std::fs::rename(digits.folder.path("bad.mercer"), format!("{folder}/two.mercer")).unwrap();
    let event = server.event_named("changed");
    assert!(
        event["failed_models"][0]["reason"].as_str().unwrap().contains("two.mercer"),
        "{event}"
    );
    assert_eq!(
        server.infer("two", &digits.request(0..1, json!({}))).status,
        200,
        "the old one stays"
    );
    std::fs::remove_file(format!("{folder}/two.mercer")).unwrap();
    let event = server.event_named("changed");
    assert_eq!(event["removed_models"], json!([{ "model": "two", "version": 1 }]));
    assert_eq!(server.infer("two", &digits.request(0..1, json!({}))).status, 404);
    assert_eq!(server.get("/v2/models").json(), json!({ "models": ["one"] }));
    assert_eq!(server.metric("mercer_reload_total{result=\"failed\"}"), 1.0);
}

/// What waits and what runs is bounded, whatever the connections: the rest is refused at once, its body read and dropped, and its
/// connection goes on.
#[test]
fn more_requests_than_can_be_done_in_time_are_refused_and_keep_their_connections() {
    let digits = Digits::new();
    let toml = digits.folder.write("serve.toml", "queue_ms = 20\nthreads = 1\n");
    let server = Server::start(&[&digits.model, "--config", &toml]);
    let (values, count) = (&digits.rows[0], 500);
    let head = json!({ "inputs": [{
        "name": "x", "shape": [count, values.len()], "datatype": "FP64",
        "parameters": { "binary_data_size": 8 * count * values.len() },
    }]})
    .to_string();
    let row = values.iter().flat_map(|value| value.to_le_bytes());
    let mut body = head.clone().into_bytes();
    (0..count).for_each(|_| body.extend(row.clone()));
    let request = format!(
        "POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\
         Inference-Header-Content-Length: {}\r\n\r\n",
        body.len(),
        head.len(),
    );
    let ask = || {
        let (mut statuses, mut stream) = (Vec::new(), TcpStream::connect(&server.address).unwrap());
        for _ in 0..10 {
            stream.write_all(request.as_bytes()).unwrap();
            stream.write_all(&body).unwrap();
            statuses.push(status(&mut stream));
        }
        statuses
    };
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..24).map(|_| scope.spawn(ask)).collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!(count(200) + count(429), 240, "{statuses:?}");
    assert!(count(200) > 0 && count(429) > 0, "{statuses:?}");
    assert_eq!(server.metric("mercer_shed_total{reason=\"queue\"}"), count(429) as f64);
    assert_eq!(server.metric("mercer_queue_expected_seconds"), 0.0, "all was given back");
}

/// The status of a response, which is read to its end.
fn status(stream: &mut TcpStream) -> u16 {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        std::io::Read::read_exact(stream, &mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let number = |name: &str| {
        let value = head.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        value.trim().parse::<usize>().unwrap()
    };
    let mut body = vec![0; number("content-length:")];
    std::io::Read::read_exact(stream, &mut body).unwrap();
    head[9..12].parse().unwrap()
}
