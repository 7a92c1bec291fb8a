//! The page at `/`: its files, its headers, and who may ask for it. What it does is tested in a browser (`cargo xtask test --only page`).

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::{Digits, Server, checked};

/// Addresses that the index names.
fn files(index: &str) -> Vec<String> {
    let named = index.split("=\"page/").skip(1).filter_map(|rest| rest.split('"').next());
    named.map(|rest| format!("/page/{rest}")).collect()
}

#[test]
fn the_page_is_served_with_a_strict_policy_and_cached_by_its_digest() {
    let digits = Digits::new();
    let server = Server::start(&[&digits.model]);
    let index = server.get("/");
    assert_eq!(index.status, 200);
    let text = String::from_utf8(index.body.clone()).unwrap();
    assert!(index.head.contains("content-type: text/html; charset=utf-8"), "{}", index.head);
    assert!(index.head.contains("cache-control: no-cache"), "{}", index.head);
    let found = files(&text);
    assert_eq!(found.len(), 3, "{text}");
    for (file, kind) in found.iter().zip(["image/svg+xml", "text/css", "text/javascript"]) {
        let reply = server.get(file);
        assert_eq!(reply.status, 200, "{file}");
        assert!(reply.head.contains(&format!("content-type: {kind}")), "{}", reply.head);
        assert!(reply.head.contains("max-age=31536000, immutable"), "{}", reply.head);
        for header in ["default-src 'none'; script-src 'self'", "nosniff", "no-referrer"] {
            assert!(reply.head.contains(header) && index.head.contains(header), "{}", reply.head);
        }
    }
    let tag = index.head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag");
    let again = server.send("GET", "/", &format!("If-None-Match: {tag}\r\n"), b"");
    assert_eq!((again.status, again.body.len()), (304, 0));
    // Another digest is another page.
    assert_eq!(server.get("/page/0123456789abcdef/app.js").status, 404);
    assert_eq!(server.send("POST", "/", "", b"").status, 405);
}

#[test]
fn the_page_can_be_turned_off() {
    let digits = Digits::new();
    let server = Server::start(&[&digits.model, "--no-page"]);
    assert_eq!(server.get("/").status, 404);
    let options = digits.folder.write("serve.toml", "page = false\n");
    let server = Server::start(&[&digits.model, "--config", &options]);
    assert_eq!(server.get("/").status, 404);
}

#[test]
fn the_page_needs_no_token_and_what_it_asks_does() {
    let digits = Digits::new();
    let token = digits.folder.write("token", "0123456789abcdef");
    let server = Server::start(&[&digits.model, "--token-file", &token]);
    assert_eq!(server.get("/").status, 200);
    assert_eq!(server.get("/v2/models").status, 401);
}

#[test]
fn requests_by_other_names_and_from_other_sites_are_refused() {
    let digits = Digits::new();
    let server = Server::start(&[&digits.model, "--host", "models.example"]);
    let ask = |host: &str, origin: &str, path: &str| {
        // The first host is the one of `send`; a request with two is refused by the protocol, so an absolute address is used.
        let origin =
            if origin.is_empty() { String::new() } else { format!("Origin: {origin}\r\n") };
        server.send("GET", &format!("http://{host}{path}"), &origin, b"")
    };
    for path in ["/", "/v2/models", "/v2/models/digits/card", "/metrics"] {
        assert_eq!(ask("models.example", "", path).status, 200, "{path}");
        assert_eq!(ask("127.0.0.1:8000", "http://127.0.0.1:8000", path).status, 200, "{path}");
        let rebound = ask("evil.example", "", path);
        assert_eq!(rebound.status, 403, "{path}");
        let sentence = "the host 'evil.example' is not known here; `--host` adds one";
        assert_eq!(rebound.error(), sentence);
        let other = ask("localhost", "http://evil.example", path);
        assert_eq!(other.status, 403, "{path}");
        assert_eq!(
            other.error(),
            "the origin 'http://evil.example' is another site than this server"
        );
    }
    assert_eq!(ask("evil.example", "", "/v2/health/live").status, 200);
}

#[test]
fn play_tells_its_events_as_serve_does() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mercer"))
        .args(["play", "--no-browser", "--listen", "127.0.0.1:0", "--json"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    for name in ["starting", "listening"] {
        assert_eq!(checked(&said.next().expect("a line").unwrap())["event"], name);
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let rest: Vec<String> = said.map(|line| checked(&line.unwrap())["event"].to_string()).collect();
    assert!(rest.iter().any(|name| name.contains("stop")), "{rest:?}");
    assert!(child.wait().unwrap().success());
}
