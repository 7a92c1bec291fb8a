//! Files of `deploy/` as far as they can be checked here: their arguments and their metrics are those of the real command.

use std::path::Path;

use serde_json::{Value, json};

use super::{Digits, Server};
use crate::calibrated::{compile, folder};
use crate::common::object;

fn deploy(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    std::fs::read_to_string(path).expect("it can be read")
}

/// The arguments with which the command accepts these, models of another folder put in.
fn check(mut arguments: Vec<String>, models: &str) {
    let place = arguments
        .iter()
        .position(|word| word == "/mnt/models" || word == "/models")
        .expect("models");
    models.clone_into(&mut arguments[place]);
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    words.extend(["--check", "--json"]);
    assert_eq!(object(&words)["models"].as_array().map(Vec::len), Some(1), "{words:?}");
}

#[test]
fn the_command_takes_the_arguments_of_the_files() {
    let digits = Digits::new();
    let runtime = deploy("kserve-runtime.yaml");
    let arguments = runtime.lines().skip_while(|line| line.trim() != "args:").skip(1);
    let arguments = arguments.map_while(|line| line.trim().strip_prefix("- ")).map(str::to_owned);
    check(arguments.collect(), &digits.folder.path(""));
    let container = deploy("Containerfile");
    let line = container.lines().find_map(|line| line.strip_prefix("CMD ")).expect("a command");
    check(serde_json::from_str(line).expect("a list"), &digits.folder.path(""));
    for path in ["/v2/health/ready", "/v2/health/live", "/metrics"] {
        assert!(runtime.contains(path), "{path}");
    }
}

#[test]
fn the_dashboard_shows_metrics_that_there_are() {
    let folder = folder();
    compile(&folder, "cascade(student(2), exact)", &[]);
    let (fast, admin) = (folder.path("fast.mercer"), folder.write("admin", "0123456789abcdef\n"));
    let server = Server::start(&[&fast, "--audit", "0.5", "--admin-token-file", &admin]);
    let rows =
        json!({ "inputs": [{ "name": "x", "shape": [1, 2], "datatype": "FP64", "data": [0, 1] }] });
    assert_eq!(server.infer("fast", &rows).status, 200);
    let token = "Authorization: Bearer 0123456789abcdef\r\n";
    assert_eq!(server.send("POST", "/v2/repository/models/fast/load", token, b"").status, 200);
    let text = String::from_utf8(server.get("/metrics").body).unwrap();
    let dashboard: Value = serde_json::from_str(&deploy("grafana.json")).expect("JSON");
    let mut count = 0;
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            let is_name = |word: &&str| word.starts_with("mercer_") || word.starts_with("process_");
            for name in
                query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(is_name)
            {
                // Nothing was refused: a family without members has no line of its own.
                let stem = name.trim_end_matches("_total").trim_end_matches("_bucket");
                assert!(text.contains(&format!("# TYPE {stem} ")), "{name}");
                count += 1;
            }
        }
    }
    assert!(count >= 20, "{count}");
}
