//! Streamed batches and supports.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use super::{Digits, Reply, Server};
use crate::common::{dataset, done};

/// A body that came in chunks, put together; none if it broke off.
fn unchunked(reply: &Reply) -> Option<String> {
    assert!(reply.head.contains("transfer-encoding: chunked"), "{}", reply.head);
    let (mut rest, mut text) = (&reply.body[..], String::new());
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
        rest = &rest[end + 2..];
        text.push_str(std::str::from_utf8(rest.get(..size)?).unwrap());
        rest = rest.get(size + 2..)?;
        if size == 0 {
            return Some(text);
        }
    }
}

#[test]
fn batches_give_the_lines_of_predict_in_every_format() {
    let digits = Digits::new();
    let server = Server::start(&[&digits.model]);
    let queries = dataset("digits/queries.svm");
    let text = std::fs::read(&queries).unwrap();
    let path = "/v2/models/digits/batch";
    for (output, header) in
        [("csv", "Accept: text/csv\r\n"), ("jsonl", "Accept: application/x-ndjson\r\n")]
    {
        let expected = done(&["predict", &digits.model, &queries, "--format", output, "--quiet"]);
        let reply = server.send("POST", path, header, &text);
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
        assert_eq!(unchunked(&reply).unwrap(), expected, "{output}");
        let named = server.send("POST", &format!("{path}?input=libsvm&output={output}"), "", &text);
        assert_eq!(unchunked(&named).unwrap(), expected, "{output}");
    }
    // The same rows as a table, as Parquet and as Arrow, and compressed.
    let expected = done(&["predict", &digits.model, &queries, "--format", "csv", "--quiet"]);
    for (name, kind) in [
        ("q.csv", "text/csv"),
        ("q.parquet", "application/vnd.apache.parquet"),
        ("q.arrow", "application/vnd.apache.arrow.file"),
    ] {
        let table = digits.folder.path(name);
        done(&["convert", &queries, "-o", &table]);
        let header = format!("Content-Type: {kind}\r\n");
        let reply = server.send("POST", path, &header, &std::fs::read(&table).unwrap());
        assert_eq!(reply.status, 200, "{name}: {}", String::from_utf8_lossy(&reply.body));
        assert_eq!(unchunked(&reply).unwrap(), expected, "{name}");
    }
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&text).unwrap();
    let packed = packed.finish().unwrap();
    let reply = server.send("POST", path, "Content-Encoding: gzip\r\n", &packed);
    assert_eq!(unchunked(&reply).unwrap(), expected);
    let poor = server.send("POST", &format!("{path}?budget=640"), "", &text);
    assert!(unchunked(&poor).unwrap().lines().nth(1).unwrap().contains("unsettled"));
}

#[test]
fn answers_come_while_rows_are_still_sent_and_wrong_rows_end_the_batch() {
    let digits = Digits::new();
    let options = digits.folder.write("serve.toml", "read_seconds = 1\nbatches = 1\n");
    let server = Server::start(&[&digits.model, "--config", &options]);
    let lines = std::fs::read_to_string(dataset("digits/queries.svm")).unwrap();
    let piece = lines.repeat(10);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let head = "POST /v2/models/digits/batch?input=libsvm&output=jsonl HTTP/1.1\r\nHost: localhost\r\n\
        Transfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    stream.write_all(chunk(&piece).as_bytes()).unwrap();
    // Nothing more is sent, and answers come all the same.
    let mut start = vec![0; 4096];
    stream.read_exact(&mut start).unwrap();
    let said = String::from_utf8_lossy(&start).into_owned();
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("\"row\":1}"), "{said}");
    // One batch at a time.
    let busy = server.send("POST", "/v2/models/digits/batch", "", lines.as_bytes());
    assert_eq!(busy.status, 429, "{}", String::from_utf8_lossy(&busy.body));
    assert!(busy.head.contains("mercer-shed: batches"), "{}", busy.head);
    assert_eq!(server.metric("mercer_shed_total{reason=\"batches\"}"), 1.0);
    // A line that is no row: the lines end with a sentence, and the body breaks off.
    stream.write_all(chunk("1 x:y\n").as_bytes()).unwrap();
    let mut rest = Vec::new();
    drop(stream.read_to_end(&mut rest));
    let rest = String::from_utf8_lossy(&rest);
    assert!(
        rest.contains("{\"error\":\"the rows cannot be read: line 5971"),
        "{}",
        &rest[rest.len() - 300..]
    );
    assert!(!rest.ends_with("0\r\n\r\n"));
    // What is wrong from the start has a status of its own.
    assert!(server.until(5, |server| {
        server.send("POST", "/v2/models/digits/batch", "", lines.as_bytes()).status == 200
    }));
    for (query, headers, body, status, message) in [
        ("", "", "no rows\n", 400, "the rows cannot be read"),
        ("", "", "", 400, "the body holds no rows"),
        ("?inptu=csv", "", "1 1:1\n", 400, "there is no 'inptu'"),
        ("?output=xml", "", "1 1:1\n", 400, "output is 'xml'"),
        ("?input=xml", "", "1 1:1\n", 400, "xml"),
        ("?digest=0", "", "1 1:1\n", 409, "the request asks for 0"),
        ("?probabilities=true", "", "1 1:1\n", 400, "has no probabilities"),
        ("?budget=-1", "", "1 1:1\n", 400, "parameter 'budget' is '-1'"),
        ("", "Content-Encoding: br\r\n", "1 1:1\n", 415, "'br'"),
        ("?input=csv", "", "a,b\n1,2\n", 400, "columns"),
    ] {
        let path = format!("/v2/models/digits/batch{query}");
        let reply = server.send("POST", &path, headers, body.as_bytes());
        assert_eq!(reply.status, status, "{query}: {}", String::from_utf8_lossy(&reply.body));
        assert!(reply.error().contains(message), "{query}: {}", reply.error());
    }
    // Rows that do not come.
    let mut slow = TcpStream::connect(&server.address).unwrap();
    slow.write_all(head.as_bytes()).unwrap();
    let mut said = String::new();
    drop(slow.read_to_string(&mut said));
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
}

#[test]
fn supports_are_given_only_by_a_server_that_was_told_so() {
    let digits = Digits::new();
    let closed = Server::start(&[&digits.model]);
    let refused = closed.get("/v2/models/digits/supports");
    assert_eq!(refused.status, 403);
    assert!(refused.error().contains("training data"));
    drop(closed);
    let open = Server::start(&[&digits.model, "--show-supports"]);
    let found = open.get("/v2/models/digits/supports?first=2&count=3").json();
    assert_eq!((&found["first"], found["supports"].as_array().map(Vec::len)), (&json!(2), Some(3)));
    let inspected = crate::common::object(&["inspect", &digits.model, "--json"]);
    assert_eq!(found["count"], inspected["supports"]);
    let scores = inspected["scores"].as_u64().unwrap() as usize;
    assert_eq!(found["supports"][0]["coefficients"].as_array().map(Vec::len), Some(scores));
    let beyond = open.get("/v2/models/digits/supports?first=99999999").json();
    assert_eq!(beyond["supports"], json!([]));
    assert_eq!(open.get("/v2/models/digits/supports?first=-1").status, 400);
}
