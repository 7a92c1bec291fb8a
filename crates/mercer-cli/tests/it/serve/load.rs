//! More than the server can do, or hold, at a time: smaller budgets, refusals, and the time that callers give.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Digits, Server, output};

#[test]
fn overload_gives_smaller_budgets_before_it_refuses() {
    let digits = Digits::new();
    let toml = digits.folder.write("serve.toml", "queue_ms = 20\nthreads = 1\ninline_us = 0\n");
    let server = Server::start(&[&digits.model, "--overload", "degrade", "--config", &toml]);
    let rows = || 0..400;
    let requests = [json!({}), json!({ "require": "certified" })];
    let requests = requests.map(|parameters| digits.request(rows(), parameters));
    let ask = |request: &Value| {
        let replies = (0..8).map(|_| server.infer("digits", request)).filter(|reply| {
            assert!(matches!(reply.status, 200 | 429), "{}", reply.error());
            reply.status == 200
        });
        replies.map(|reply| reply.json()).collect::<Vec<Value>>()
    };
    let replies: Vec<(usize, Vec<Value>)> = std::thread::scope(|scope| {
        let start = |at: usize| {
            let (ask, request) = (&ask, &requests[at % 2]);
            (at % 2, scope.spawn(move || ask(request)))
        };
        let callers: Vec<_> = (0..16).map(start).collect();
        callers.into_iter().map(|(kind, caller)| (kind, caller.join().unwrap())).collect()
    });
    let of_kind = |wanted: usize| {
        let own = replies.iter().filter(move |(kind, _)| *kind == wanted);
        own.flat_map(|(_, replies)| replies)
    };
    let degraded: Vec<&Value> =
        of_kind(0).filter(|reply| !reply["parameters"]["budget"].is_null()).collect();
    assert!(!degraded.is_empty(), "none of {} was degraded", of_kind(0).count());
    assert_eq!(server.metric("mercer_degraded_total"), degraded.len() as f64);
    let exact = server.infer("digits", &requests[0]).json();
    assert!(exact["parameters"]["budget"].is_null(), "without load nothing is degraded");
    for reply in degraded.iter().take(3) {
        let again = json!({ "budget": reply["parameters"]["budget"] });
        let again = server.infer("digits", &digits.request(rows(), again)).json();
        assert_eq!(reply["outputs"], again["outputs"], "as with that budget");
        for at in rows() {
            let number = |reply: &Value, name: &str| output(reply, name)[at].as_f64().unwrap();
            assert!(number(reply, "low") <= number(&exact, "low"), "row {at}");
            assert!(number(reply, "high") >= number(&exact, "high"), "row {at}");
        }
    }
    // Who requires proof gets it, or is refused.
    for reply in of_kind(1) {
        assert!(reply["parameters"]["budget"].is_null());
        assert_eq!(reply["outputs"], exact["outputs"]);
    }
}

/// Sends a head, then the body after a pause; returns the whole response.
fn sent_late(server: &Server, path: &str, headers: &str, body: &[u8], pause: Duration) -> String {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    std::thread::sleep(pause);
    drop(stream.write_all(body));
    let mut said = String::new();
    drop(stream.read_to_string(&mut said));
    said
}

#[test]
fn the_time_that_a_caller_gives_counts_from_the_arrival_of_the_request() {
    let digits = Digits::new();
    let server = Server::start(&[&digits.model]);
    let path = "/v2/models/digits/infer";
    let budget = |pause| {
        let body = digits.request(0..5, json!({ "timeout": 400_000 })).to_string();
        let said = sent_late(&server, path, "", body.as_bytes(), Duration::from_millis(pause));
        let (_, body) = said.split_once("\r\n\r\n").unwrap();
        let reply: Value = serde_json::from_str(body).unwrap();
        (reply["parameters"]["budget"].as_u64().unwrap(), reply["parameters"]["unsettled"].clone())
    };
    let (at_once, unsettled) = budget(0);
    assert!(at_once > 0 && unsettled == 0, "{at_once}");
    // The body came when the time was over: what is left is nothing.
    assert_eq!(budget(600), (0, json!(5)));
}

#[test]
fn bodies_are_refused_before_they_are_read_where_others_take_the_memory() {
    let digits = Digits::new();
    let options = "body_bytes = 1000000\nbodies_bytes = 1500000\nread_seconds = 20\n";
    let toml = digits.folder.write("serve.toml", options);
    let server = Server::start(&[&digits.model, "--config", &toml]);
    let path = "/v2/models/digits/infer";
    // One that is on its way has its memory from the start.
    let mut first = TcpStream::connect(&server.address).unwrap();
    let head =
        "Host: localhost\r\nContent-Length: 1000000\r\nInference-Header-Content-Length: 0\r\n";
    first.write_all(format!("POST {path} HTTP/1.1\r\n{head}\r\n").as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let large = vec![0; 800_000];
    let raw = "Inference-Header-Content-Length: 0\r\n";
    let refused = server.send("POST", path, raw, &large);
    assert_eq!(refused.status, 429, "{}", String::from_utf8_lossy(&refused.body));
    assert!(refused.error().contains("the memory that there is for them"), "{}", refused.error());
    assert!(
        refused.head.contains("mercer-shed: memory") && refused.head.contains("retry-after: 1")
    );
    assert_eq!(server.infer("digits", &digits.request(0..1, json!({}))).status, 200);
    drop(first);
    assert!(
        server
            .until(5, |server| server.send("POST", path, raw, &vec![0; 512 * 1000]).status == 200)
    );
}

fn packed(length: usize) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&vec![b' '; length]).unwrap();
    packed.finish().unwrap()
}

/// The largest memory that the process had, in kilobytes.
fn most_memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn whatever_is_inflated_stays_within_its_limit_and_its_memory() {
    let digits = Digits::new();
    let options = "body_bytes = 2000000\nrows = 1000\nbatches = 4\n";
    let toml = digits.folder.write("serve.toml", options);
    let server = Server::start(&[&digits.model, "--config", &toml]);
    let before = most_memory(&server);
    let bomb = packed(400 << 20);
    assert!(bomb.len() < 1_000_000);
    let (infer, batch) = ("/v2/models/digits/infer", "/v2/models/digits/batch");
    let inflated = "the body takes more than 2000000 bytes when it is inflated";
    let unpacked = "the file unpacks to more than 2000000 bytes";
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    zlib.write_all(&vec![b' '; 100 << 20]).unwrap();
    let zlib = zlib.finish().unwrap();
    for (path, headers, body, sentence) in [
        (infer, "Content-Encoding: gzip\r\n", &bomb, inflated),
        (infer, "Content-Encoding: deflate\r\n", &zlib, inflated),
        ("/v2/models/digits/explain", "Content-Encoding: gzip\r\n", &bomb, inflated),
        // The format is one that is read whole, and so bounded as a body.
        (batch, "Content-Type: application/vnd.apache.parquet\r\n", &bomb, unpacked),
        (batch, "", &packed(30 << 20), unpacked),
    ] {
        let reply = server.send("POST", path, headers, body);
        assert_eq!(reply.status, 413, "{headers}: {}", String::from_utf8_lossy(&reply.body));
        assert!(reply.error().contains(sentence), "{headers}: {}", reply.error());
    }
    // Text of a single line that never ends, in each packing that batches read.
    let line = digits.folder.write("line.svm", &format!("1 1:1{}", " ".repeat(90 << 20)));
    for ending in ["gz", "bz2", "xz", "zst"] {
        let name = digits.folder.path(&format!("line.svm.{ending}"));
        let packer = match ending {
            "gz" => "gzip",
            "bz2" => "bzip2",
            "xz" => "xz",
            _ => "zstd",
        };
        let made = std::process::Command::new(packer).args(["-q", "-k", "-c", &line]).output();
        // Not every machine has every program.
        let Ok(made) = made else { continue };
        std::fs::write(&name, made.stdout).unwrap();
        let body = std::fs::read(&name).unwrap();
        let reply = server.send("POST", &format!("{batch}?input=libsvm"), "", &body);
        let said = reply.error();
        assert!(matches!(reply.status, 400 | 413), "{ending}: {} {said}", reply.status);
        assert!(
            said.contains("held in memory") || said.contains("times its size"),
            "{ending}: {said}"
        );
    }
    // Lines of a request are not unpacked, whatever their bytes are.
    let mut element = packed(100 << 20);
    element.retain(|byte| *byte != b'\n');
    let mut binary = u32::try_from(element.len()).unwrap().to_le_bytes().to_vec();
    binary.extend(element);
    let head = json!({ "inputs": [{
        "name": "rows", "shape": [1], "datatype": "BYTES", "parameters": { "binary_data_size": binary.len() },
    }]})
    .to_string();
    let headers = format!("Inference-Header-Content-Length: {}\r\n", head.len());
    let reply = server.send("POST", infer, &headers, &[head.as_bytes(), &binary].concat());
    assert_eq!(reply.status, 400, "{}", String::from_utf8_lossy(&reply.body));
    assert!(!reply.error().contains("gzip"), "{}", reply.error());
    let grown = most_memory(&server) - before;
    assert!(grown < 150_000, "{grown} kilobytes");
}
