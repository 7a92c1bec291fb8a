//! `mercer serve` on the real binary, over real connections: answers, refusals, models that change, and its end.

mod audit;
mod batch;
mod deploy;
mod forged;
mod lifecycle;
mod load;
mod names;
mod operation;
mod page;
mod remote;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::common::{Folder, dataset, done, object};

/// A server that ends with the test.
struct Server {
    child: Child,
    address: String,
    said: BufReader<std::process::ChildStderr>,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A response.
struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    fn error(&self) -> String {
        self.json()["error"].as_str().expect("an error is a sentence").to_owned()
    }
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut server = Self::spawn(arguments);
        let event = server.event_named("listening");
        event["address"].as_str().expect("an address").clone_into(&mut server.address);
        server
    }

    /// One that may not be ready yet.
    fn spawn(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mercer"))
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let said = BufReader::new(child.stderr.take().expect("it is piped"));
        Self { child, address: String::new(), said }
    }

    /// The next event of this name.
    fn event_named(&mut self, name: &str) -> Value {
        loop {
            let event = self.event();
            if event["event"] == name {
                return event;
            }
        }
    }

    /// The value of a metric: the first line that begins so.
    fn metric(&self, start: &str) -> f64 {
        let text = String::from_utf8(self.get("/metrics").body).unwrap();
        let line = text.lines().find(|line| line.starts_with(start));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        value.unwrap_or_else(|| panic!("{start}: {text}"))
    }

    /// Waits until something holds, at most so many seconds.
    fn until(&self, seconds: u64, mut holds: impl FnMut(&Self) -> bool) -> bool {
        let start = std::time::Instant::now();
        while start.elapsed().as_secs() < seconds {
            if holds(self) {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        false
    }

    /// The next event.
    fn event(&mut self) -> Value {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("a line");
        checked(&line)
    }

    fn send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses early may not read the rest.
        drop(stream.write_all(body));
        let mut all = Vec::new();
        drop(stream.read_to_end(&mut all));
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        Reply { status, head: head.to_lowercase(), body: all[end..].to_vec() }
    }

    fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "", b"")
    }

    fn infer(&self, model: &str, request: &Value) -> Reply {
        let path = format!("/v2/models/{model}/infer");
        self.send("POST", &path, "", request.to_string().as_bytes())
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}

/// An event, as the schema says.
fn checked(line: &str) -> Value {
    let event: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    let name = event["event"].as_str().unwrap_or_else(|| panic!("{line}"));
    crate::json::check(&format!("serve: {name}"), &event);
    event
}

/// The digits model, its queries as rows, and the answers of `mercer predict`.
struct Digits {
    folder: Folder,
    model: String,
    rows: Vec<Vec<f64>>,
    answers: Vec<Value>,
}

impl Digits {
    fn new() -> Self {
        let folder = Folder::new();
        let model = folder.path("digits.mercer");
        done(&["import", &dataset("digits/digits.model"), "-o", &model]);
        let queries = dataset("digits/queries.svm");
        let text = std::fs::read_to_string(&queries).unwrap();
        let row = |line: &str| {
            let mut row = vec![0.0; 64];
            for pair in line.split_whitespace().skip(1) {
                let (column, value) = pair.split_once(':').unwrap();
                row[column.parse::<usize>().unwrap() - 1] = value.parse().unwrap();
            }
            row
        };
        let rows = text.lines().map(row).collect();
        let answers = done(&["predict", &model, &queries, "--format", "jsonl", "--quiet"]);
        let answers = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Self { folder, model, rows, answers }
    }

    fn request(&self, rows: std::ops::Range<usize>, parameters: Value) -> Value {
        let rows = &self.rows[rows];
        json!({
            "id": "7", "parameters": parameters,
            "inputs": [{ "name": "x", "shape": [rows.len(), 64], "datatype": "FP64", "data": rows }],
        })
    }
}

fn output<'a>(reply: &'a Value, name: &str) -> &'a Vec<Value> {
    let outputs = reply["outputs"].as_array().expect("outputs");
    let found = outputs.iter().find(|output| output["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {reply}"))["data"].as_array().expect("data")
}

#[test]
fn served_answers_are_those_of_predict() {
    let digits = Digits::new();
    let server = Server::start(&[&digits.model]);
    for rows in [0..1, 1..65, 0..597] {
        let reply = server.infer("digits", &digits.request(rows.clone(), json!({})));
        let found = reply.json();
        assert_eq!(reply.status, 200, "{found}");
        assert_eq!((&found["model_name"], &found["id"]), (&json!("digits"), &json!("7")));
        for (at, expected) in digits.answers[rows].iter().enumerate() {
            assert_eq!(
                output(&found, "label")[at].to_string(),
                expected["label"].as_str().unwrap()
            );
            for name in ["low", "high", "cost", "certainty"] {
                assert_eq!(output(&found, name)[at], expected[name], "{name} of {at}");
            }
        }
    }
    // With a budget some are unsettled, as with `predict --budget`.
    let poor = server.infer("digits", &digits.request(0..5, json!({ "budget": 640 }))).json();
    assert_eq!(output(&poor, "certainty"), &vec![json!("unsettled"); 5]);
    assert_eq!(poor["parameters"]["unsettled"], 5);
    let firm = json!({ "budget": 640, "require": "certified" });
    let firm = server.infer("digits", &digits.request(0..5, firm)).json();
    assert_eq!(output(&firm, "certainty"), &vec![json!("exact"); 5]);
    // A microsecond is not enough; the limit that was in force gives the same answers by itself.
    let late = server.infer("digits", &digits.request(0..5, json!({ "timeout": 1 }))).json();
    assert_eq!(late["parameters"]["budget"], 0);
    for timeout in [2_000, 100_000] {
        let limited = digits.request(0..5, json!({ "timeout": timeout }));
        let limited = server.infer("digits", &limited).json();
        let budget = limited["parameters"]["budget"].clone();
        let again =
            server.infer("digits", &digits.request(0..5, json!({ "budget": budget }))).json();
        assert_eq!(limited["outputs"], again["outputs"], "{timeout} us became {budget}");
    }
    let statistics = server.get("/v2/models/digits/stats").json();
    assert_eq!(statistics["model_stats"][0]["inference_count"], 1 + 64 + 597 + 15 + 20);
    let metrics = server.get("/metrics");
    let text = String::from_utf8(metrics.body).unwrap();
    assert!(
        text.contains("mercer_queries_total{model=\"digits\",version=\"1\",certainty=\"exact\"}"),
        "{text}"
    );
}

#[test]
fn sparse_rows_lines_bytes_and_compressed_bodies_give_the_same_answers() {
    let digits = Digits::new();
    let server = Server::start(&[&digits.model]);
    let dense = server.infer("digits", &digits.request(0..3, json!({}))).json();
    let lines: Vec<String> = std::fs::read_to_string(dataset("digits/queries.svm"))
        .unwrap()
        .lines()
        .take(3)
        .map(str::to_owned)
        .collect();
    let lines =
        json!({ "inputs": [{ "name": "rows", "shape": [3], "datatype": "BYTES", "data": lines }] });
    let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in &digits.rows[..3] {
        for (column, value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            indices.push(column);
            values.push(*value);
        }
        starts.push(indices.len());
    }
    let sparse = json!({ "inputs": [
        { "name": "indptr", "shape": [4], "datatype": "INT64", "data": starts },
        { "name": "indices", "shape": [indices.len()], "datatype": "INT32", "data": indices },
        { "name": "values", "shape": [values.len()], "datatype": "FP64", "data": values },
    ] });
    for request in [lines, sparse] {
        let found = server.infer("digits", &request).json();
        for name in ["label", "low", "high", "cost"] {
            assert_eq!(output(&found, name), output(&dense, name), "{name}: {request}");
        }
    }
    // Binary tensors in and out, then a body that is nothing but rows, then gzip.
    let bytes: Vec<u8> = digits.rows[..3].iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    let size = bytes.len();
    let head = json!({
        "inputs": [{
            "name": "x", "shape": [3, 64], "datatype": "FP64", "parameters": { "binary_data_size": size },
        }],
        "outputs": [{ "name": "label", "parameters": { "binary_data": true } }],
    });
    let head = head.to_string();
    let headers = format!("Inference-Header-Content-Length: {}\r\n", head.len());
    let path = "/v2/models/digits/infer";
    let reply = server.send("POST", path, &headers, &[head.as_bytes(), &bytes].concat());
    assert_eq!(reply.status, 200);
    let labels: Vec<i64> = output(&dense, "label").iter().map(|x| x.as_i64().unwrap()).collect();
    let found: Vec<u8> = labels.iter().flat_map(|label| label.to_le_bytes()).collect();
    assert!(reply.body.ends_with(&found) && reply.head.contains("inference-header-content-length"));
    let raw = server.send("POST", path, "Inference-Header-Content-Length: 0\r\n", &bytes);
    assert_eq!(raw.status, 200, "{}", String::from_utf8_lossy(&raw.body));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(digits.request(0..3, json!({})).to_string().as_bytes()).unwrap();
    let packed = server.send("POST", path, "Content-Encoding: gzip\r\n", &packed.finish().unwrap());
    assert_eq!(output(&packed.json(), "low"), output(&dense, "low"));
}

#[test]
fn bad_requests_get_a_sentence_and_nothing_else_suffers() {
    let digits = Digits::new();
    let small =
        digits.folder.write("serve.toml", "body_bytes = 100000\nrows = 50\nread_seconds = 1\n");
    let server = Server::start(&[&digits.model, "--config", &small]);
    let infer = |request: Value| server.infer("digits", &request);
    let tensor = |shape: Value, datatype: &str, data: Value| json!({ "inputs": [{ "name": "x", "shape": shape, "datatype": datatype, "data": data }] });
    for (request, status, message) in [
        (json!({}), 400, "missing field `inputs`"),
        (json!({ "inputs": [] }), 400, "has no inputs"),
        (
            tensor(json!([1, 3]), "FP64", json!([1, 2, 3])),
            400,
            "rows have 3 columns, the model has 64",
        ),
        (tensor(json!([2, 64]), "FP64", json!([1])), 400, "does not fit its 1 elements"),
        (tensor(json!([1]), "FP99", json!([1])), 400, "there is no datatype 'FP99'"),
        (tensor(json!([1]), "FP64", json!(["a"])), 400, "its data are texts"),
        (tensor(json!([-1, 64]), "FP64", json!([])), 400, "no inference request"),
        (tensor(json!([60, 64]), "FP64", json!(vec![0; 3840])), 413, "60 rows in one request"),
        (
            digits.request(0..1, json!({ "requre": "certified" })),
            400,
            "there is no parameter 'requre'",
        ),
        (digits.request(0..1, json!({ "digest": "0" })), 409, "the request asks for 0"),
        (digits.request(0..1, json!({ "probabilities": true })), 400, "has no probabilities"),
    ] {
        let reply = infer(request.clone());
        assert_eq!(reply.status, status, "{request}: {}", String::from_utf8_lossy(&reply.body));
        assert!(reply.error().contains(message), "{request}: {}", reply.error());
    }
    let send =
        |headers: &str, body: &[u8]| server.send("POST", "/v2/models/digits/infer", headers, body);
    let bomb = {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&vec![b' '; 10_000_000]).unwrap();
        packed.finish().unwrap()
    };
    for (headers, body, status, message) in [
        ("", &b"{"[..], 400, "no inference request"),
        ("", &[0xff, 0xfe][..], 400, "no inference request"),
        ("", &vec![b' '; 200_000][..], 413, "longer than 100000 bytes"),
        ("Content-Encoding: gzip\r\n", &bomb[..], 413, "when it is inflated"),
        ("Content-Encoding: gzip\r\n", b"no gzip", 400, "damaged"),
        ("Content-Encoding: zstd\r\n", b"x", 415, "'zstd'"),
        (
            "Inference-Header-Content-Length: 99999999999999999999\r\n",
            b"{}",
            400,
            "the body has 2 bytes",
        ),
        (
            "Inference-Header-Content-Length: 0\r\n",
            b"12345678",
            400,
            "not whole rows of 64 columns",
        ),
    ] {
        let reply = send(headers, body);
        assert_eq!(reply.status, status, "{headers}: {}", String::from_utf8_lossy(&reply.body));
        assert!(reply.error().contains(message), "{headers}: {}", reply.error());
    }
    for (method, path, status) in [
        ("GET", "/v2/models/nobody", 404),
        ("GET", "/v2/models/digits/versions/9", 404),
        ("GET", "/elsewhere", 404),
        ("PUT", "/v2", 405),
        ("GET", "/v2/logging", 501),
        ("POST", "/v2/repository/models/digits/load", 501),
    ] {
        let reply = server.send(method, path, "", b"");
        assert_eq!(reply.status, status, "{method} {path}");
        assert!(!reply.error().is_empty());
    }
    // Whoever is refused before the body was read is told that the connection ends.
    let body = digits.request(0..40, json!({})).to_string();
    let mut early = TcpStream::connect(&server.address).unwrap();
    let head = format!(
        "POST /v2/models/nobody/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    early.write_all(head.as_bytes()).unwrap();
    let mut said = [0; 400];
    let count = early.read(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said[..count]).to_lowercase();
    assert!(said.starts_with("http/1.1 404") && said.contains("connection: close"), "{said}");
    // A body that never comes.
    let mut slow = TcpStream::connect(&server.address).unwrap();
    slow.write_all(
        b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{",
    )
    .unwrap();
    let mut said = String::new();
    drop(slow.read_to_string(&mut said));
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    assert_eq!(infer(digits.request(0..1, json!({}))).status, 200);
}

#[test]
fn models_change_while_they_are_served_and_stopping_lets_requests_end() {
    let digits = Digits::new();
    let folder = digits.folder.path("models");
    std::fs::create_dir_all(format!("{folder}/digits/1")).unwrap();
    std::fs::copy(&digits.model, format!("{folder}/digits/1/model.mercer")).unwrap();
    let token = digits.folder.write("token", "0123456789abcdef\n");
    let mut server = Server::start(&[&folder, "--admin-token-file", &token]);
    let version = |server: &Server| server.get("/v2/models/digits").json()["versions"].clone();
    assert_eq!(version(&server), json!(["1"]));
    assert_eq!(server.get("/v2/health/ready").status, 200);
    std::fs::create_dir_all(format!("{folder}/digits/2")).unwrap();
    std::fs::copy(&digits.model, format!("{folder}/digits/2/model.mercer")).unwrap();
    server.signal("-HUP");
    assert_eq!(server.event()["loaded_models"], json!([{ "model": "digits", "version": 2 }]));
    assert_eq!(version(&server), json!(["2"]));
    // A file that is no model leaves the old one in place.
    std::fs::write(format!("{folder}/digits/2/model.mercer"), "no model").unwrap();
    let load = "/v2/repository/models/digits/load";
    assert_eq!(server.send("POST", load, "", b"{}").status, 401);
    let admin = "Authorization: Bearer 0123456789abcdef\r\n";
    let refused = server.send("POST", load, admin, b"{}");
    assert_eq!(refused.status, 400, "{}", refused.error());
    assert_eq!(server.infer("digits", &digits.request(0..1, json!({}))).status, 200);
    let index = server.send("POST", "/v2/repository/index", "", b"").json();
    assert!(index[0]["reason"].as_str().unwrap().contains("model.mercer"), "{index}");
    let unload = "/v2/repository/models/digits/unload";
    assert_eq!(server.send("POST", unload, admin, b"").status, 200);
    assert_eq!(server.get("/v2/health/ready").status, 503);
    assert_eq!(server.infer("digits", &digits.request(0..1, json!({}))).status, 503);
    server.signal("-INT");
    assert_eq!(server.event()["event"], "stopping");
    assert_eq!(server.event()["all_answered"], true);
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn options_are_checked_before_anything_is_served() {
    let digits = Digits::new();
    let checked = object(&["serve", &digits.model, "--check", "--json"]);
    crate::json::check("serve --check", &checked);
    assert_eq!(checked["models"].as_array().map(Vec::len), Some(1));
    let wrong = digits.folder.write("wrong.toml", "lisen = \"127.0.0.1:1\"\n");
    let said = crate::common::refused(&["serve", &digits.model, "--check", "--config", &wrong]);
    assert!(said.contains("unknown field `lisen`"), "{said}");
    let said = crate::common::refused(&["serve", "--check"]);
    assert!(said.contains("no model is named"), "{said}");
    let said = crate::common::refused(&["serve", &digits.model, "--check", "--audit", "2"]);
    assert!(said.contains("audit is 2"), "{said}");
}
