//! From the first listener to the end: probes while models load, versions that stand in for those that cannot be loaded, and an end
//! within its bound whatever is at work.

use std::fmt::Write as _;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Digits, Server};

const TOKEN: &str = "Authorization: Bearer 0123456789abcdef\r\n";

/// A folder of models with versions of the digits: good files, and others that are no models.
fn versions(digits: &Digits, good: &[u64], bad: &[u64]) -> String {
    let folder = digits.folder.path("models");
    for version in good.iter().chain(bad) {
        put(digits, *version, good.contains(version));
    }
    folder
}

fn put(digits: &Digits, version: u64, is_good: bool) {
    let place = digits.folder.path(&format!("models/digits/{version}"));
    std::fs::create_dir_all(&place).unwrap();
    let (part, file) = (format!("{place}/part"), format!("{place}/model.mercer"));
    if is_good {
        std::fs::copy(&digits.model, &part).unwrap();
    } else {
        std::fs::write(&part, "no model").unwrap();
    }
    std::fs::rename(part, file).unwrap();
}

fn version_that_answers(server: &Server, digits: &Digits) -> String {
    let reply = server.infer("digits", &digits.request(0..1, json!({})));
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    reply.json()["model_version"].as_str().unwrap().to_owned()
}

/// State and reason of each version in the index.
fn index(server: &Server) -> Vec<(String, String, String)> {
    let index = server.send("POST", "/v2/repository/index", "", b"").json();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    let one = |entry: &Value| (text(entry, "version"), text(entry, "state"), text(entry, "reason"));
    index.as_array().unwrap().iter().map(one).collect()
}

#[test]
fn the_last_good_version_serves_where_the_latest_cannot_be_loaded() {
    let digits = Digits::new();
    let folder = versions(&digits, &[1, 2], &[]);
    let mut server = Server::start(&[&folder]);
    assert_eq!(version_that_answers(&server, &digits), "2");
    put(&digits, 3, false);
    server.signal("-HUP");
    let changed = server.event_named("changed");
    assert_eq!(changed["failed_models"][0]["version"], 3, "{changed}");
    assert_eq!(version_that_answers(&server, &digits), "2", "the old one stays");
    let found = index(&server);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].1 == "READY" && found[0].2.contains("version 3 is not served"), "{found:?}");
    assert!(found[1].1 == "UNAVAILABLE" && found[1].2.contains("model.mercer"), "{found:?}");
    assert_eq!(server.get("/v2/health/ready").status, 200);
    // Even when its own file goes: a broken file takes no model out of service.
    std::fs::remove_dir_all(digits.folder.path("models/digits/2")).unwrap();
    std::fs::remove_dir_all(digits.folder.path("models/digits/1")).unwrap();
    put(&digits, 4, false);
    server.signal("-HUP");
    let changed = server.event_named("changed");
    assert_eq!(changed["failed_models"][0]["version"], 4, "{changed}");
    assert_eq!(version_that_answers(&server, &digits), "2");
    // A good file ends that.
    put(&digits, 4, true);
    server.signal("-HUP");
    let changed = server.event_named("changed");
    assert_eq!(changed["loaded_models"], json!([{ "model": "digits", "version": 4 }]));
    assert_eq!(changed["removed_models"].as_array().map(Vec::len), Some(2), "{changed}");
    assert_eq!(version_that_answers(&server, &digits), "4");
}

#[test]
fn an_older_version_serves_from_the_start_where_the_latest_cannot_be_loaded() {
    let digits = Digits::new();
    let folder = versions(&digits, &[1, 2], &[7, 9]);
    let admin = digits.folder.write("admin", "0123456789abcdef\n");
    let mut server = Server::start(&[&folder, "--admin-token-file", &admin]);
    let changed = server.event_named("changed");
    let failed: Vec<_> = changed["failed_models"].as_array().unwrap().iter().collect();
    assert_eq!(failed.iter().map(|one| &one["version"]).collect::<Vec<_>>(), [7, 9]);
    assert_eq!(version_that_answers(&server, &digits), "2");
    // What is asked for by its number is not there, and the answer says why.
    let refused = server.infer("digits/versions/9", &digits.request(0..1, json!({})));
    assert_eq!(refused.status, 503);
    assert!(refused.error().contains("model.mercer"), "{}", refused.error());
    // A request to load says what is wrong, and the older version stays.
    let path = "/v2/repository/models/digits/load";
    let refused = server.send("POST", path, TOKEN, b"");
    assert_eq!(refused.status, 400);
    assert_eq!(version_that_answers(&server, &digits), "2");
    drop(server);
    // The check of a configuration is strict, and without any good version there is no server.
    let check = Command::new(env!("CARGO_BIN_EXE_mercer"))
        .args(["serve", "--check", &folder])
        .output()
        .unwrap();
    assert!(!check.status.success());
    for version in [1, 2] {
        put(&digits, version, false);
    }
    let none = Command::new(env!("CARGO_BIN_EXE_mercer"))
        .args(["serve", "--listen", "127.0.0.1:0", &folder])
        .output()
        .unwrap();
    assert_eq!(none.status.code(), Some(1));
    let said = String::from_utf8_lossy(&none.stderr);
    assert!(said.contains("model 'digits', version 9: "), "{said}");
}

/// A model that takes a while to load: many supports as text.
fn large_model(digits: &Digits) -> String {
    let (count, columns) = (60_000, 24);
    let mut text = format!(
        "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv {count}\nrho 0.1\nlabel 1 -1\n\
         nr_sv {half} {half}\nSV\n",
        half = count / 2
    );
    for row in 0..count {
        text.push_str(if row < count / 2 { "0.5" } else { "-0.5" });
        for column in 1..=columns {
            write!(text, " {column}:0.{:04}", (row * 7919 + column * 104_729) % 10_000).unwrap();
        }
        text.push('\n');
    }
    digits.folder.write("large.model", &text)
}

/// A server that was started, and has said so much that it listens.
fn starting(arguments: &[&str]) -> Server {
    let mut server = Server::spawn(arguments);
    let event = server.event();
    assert_eq!(event["event"], "starting");
    event["address"].as_str().unwrap().clone_into(&mut server.address);
    server
}

#[test]
fn probes_are_answered_while_models_are_loaded() {
    let digits = Digits::new();
    let mut server = starting(&[&large_model(&digits)]);
    let row = json!({ "inputs": [{ "name": "x", "shape": [1, 24], "datatype": "FP64", "data": vec![0.5; 24] }] });
    // Readiness last: what came before was answered while models were loaded.
    let live = server.get("/v2/health/live").status;
    let refused = server.infer("large", &row);
    let metadata = server.get("/v2/models/large");
    let metrics = server.get("/metrics").status;
    let ready = server.get("/v2/health/ready");
    assert_eq!((live, metrics, ready.status), (200, 200, 503));
    assert_eq!(ready.json(), json!({ "live": true, "ready": false }));
    assert_eq!((refused.status, metadata.status), (503, 503));
    assert_eq!(refused.error(), "the server is starting");
    server.event_named("listening");
    assert_eq!(server.get("/v2/health/ready").status, 200);
    assert_eq!(server.infer("large", &row).status, 200);
}

#[test]
fn a_signal_while_models_are_loaded_ends_the_server_at_once() {
    let digits = Digits::new();
    let mut server = starting(&[&large_model(&digits)]);
    server.signal("-TERM");
    let start = Instant::now();
    assert!(server.child.wait().unwrap().success());
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(server.event()["event"], "stopping", "it was not ready before");
}

#[test]
fn an_address_that_is_taken_is_told_before_the_models_are_loaded() {
    let digits = Digits::new();
    let (large, taken) = (large_model(&digits), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = taken.local_addr().unwrap().to_string();
    for arguments in [
        ["--listen", &address, "--grpc", "127.0.0.1:0"],
        ["--listen", "127.0.0.1:0", "--grpc", &address],
    ] {
        let start = Instant::now();
        let ended = Command::new(env!("CARGO_BIN_EXE_mercer"))
            .args(["serve", &large])
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(1));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains(&format!("cannot listen at {address}")), "{said}");
        assert!(!said.contains("loading models"), "{said}");
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    }
}

/// The head of a request whose body is still to come.
fn begun(server: &Server, path: &str, more: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn nothing_that_is_at_work_holds_the_end_up_beyond_its_bound() {
    let digits = Digits::new();
    let options =
        "drain_seconds = 0\nstop_seconds = 1.5\nread_seconds = 60\nthreads = 1\nqueue_ms = 1e9\n";
    let toml = digits.folder.write("serve.toml", options);
    let large = large_model(&digits);
    let mut server = Server::start(&[&large, "--config", &toml]);
    // A batch whose rows stop coming, and a request of which half has come.
    let mut batch =
        begun(&server, "/v2/models/large/batch?input=libsvm", "Transfer-Encoding: chunked\r\n");
    batch.write_all(b"6\r\n0 1:1\n\r\n").unwrap();
    let mut half = begun(&server, "/v2/models/large/infer", "Content-Length: 100\r\n");
    half.write_all(b"{").unwrap();
    // Work for the only thread, rows of 60,000 supports each. A fast machine may end it within the bound; the two above never end.
    let rows = 200_000;
    let head = json!({ "inputs": [{
        "name": "x", "shape": [rows, 24], "datatype": "FP64", "parameters": { "binary_data_size": 8 * 24 * rows },
    }]})
    .to_string();
    let lengths = format!(
        "Content-Length: {}\r\nInference-Header-Content-Length: {}\r\n",
        head.len() + 8 * 24 * rows,
        head.len()
    );
    let mut long = begun(&server, "/v2/models/large/infer", &lengths);
    long.write_all(head.as_bytes()).unwrap();
    long.write_all(&vec![0; 8 * 24 * rows]).unwrap();
    assert!(server.until(20, |server| server.metric("mercer_queue_expected_seconds") > 5.0));
    server.signal("-TERM");
    let start = Instant::now();
    assert_eq!(server.event_named("stopping")["event"], "stopping");
    assert_eq!(server.event_named("stopped")["all_answered"], false);
    assert!(server.child.wait().unwrap().success(), "an end within the bound is a good end");
    let time = start.elapsed();
    assert!(time > Duration::from_millis(1200) && time < Duration::from_secs(4), "{time:?}");
}

#[test]
fn a_second_signal_ends_the_server_while_its_threads_are_at_work() {
    let digits = Digits::new();
    let options = "drain_seconds = 0\nstop_seconds = 60\nthreads = 1\nqueue_ms = 1e9\n";
    let toml = digits.folder.write("serve.toml", options);
    let mut server = Server::start(&[&large_model(&digits), "--config", &toml]);
    let rows = 200_000;
    let mut long = begun(
        &server,
        "/v2/models/large/infer",
        &format!("Content-Length: {}\r\nInference-Header-Content-Length: 0\r\n", 8 * 24 * rows),
    );
    long.write_all(&vec![0; 8 * 24 * rows]).unwrap();
    assert!(server.until(20, |server| server.metric("mercer_queue_expected_seconds") > 5.0));
    server.signal("-TERM");
    assert_eq!(server.event_named("stopping")["event"], "stopping");
    std::thread::sleep(Duration::from_millis(300));
    let start = Instant::now();
    server.signal("-TERM");
    assert!(server.child.wait().is_ok());
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    drop(long);
}

#[test]
fn a_file_that_is_loaded_holds_no_signal_up() {
    let digits = Digits::new();
    let folder = versions(&digits, &[1], &[]);
    let mut server = Server::start(&[&folder, "--log", "off"]);
    let place = digits.folder.path("models/digits/2");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::rename(large_model(&digits), format!("{place}/model.mercer")).unwrap();
    server.signal("-HUP");
    std::thread::sleep(Duration::from_millis(30));
    server.signal("-INT");
    assert_eq!(server.event()["event"], "stopping", "before the model was loaded");
    assert!(server.child.wait().unwrap().success());
}
