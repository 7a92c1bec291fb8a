//! Files of strangers on a server: forged plans are not served, and no certified label is wrong. Files and what they show:
//! `mercer-machine/tests/data/trust/README.md`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Server, output};
use crate::common::{Folder, refused};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../mercer-machine/tests/data/trust").join(name)
}

/// The queries of a file as a request of lines.
fn request(name: &str) -> Value {
    let text = fs::read_to_string(path(&format!("{name}.svm"))).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    json!({ "inputs": [{ "name": "rows", "shape": [lines.len()], "datatype": "BYTES", "data": lines }] })
}

const STAGES: [&str; 8] =
    ["anytime", "compressed", "monomials", "projected", "spectral", "table", "table_i", "taylor"];

#[test]
fn forged_plans_are_not_served_and_the_others_are() {
    let folder = Folder::new();
    let (served, admin) = (folder.path("models"), folder.write("admin", "0123456789abcdef\n"));
    fs::create_dir(&served).unwrap();
    fs::copy(path("norm_deg20_1e-8.mercer"), format!("{served}/good.mercer")).unwrap();
    let server = Server::start(&[&served, "--admin-token-file", &admin]);
    for stage in STAGES {
        let name = format!("forged_plan_{stage}");
        let file = path(&format!("{name}.mercer"));
        let said = refused(&["serve", "--check", file.to_str().unwrap()]);
        assert!(said.contains("cannot be believed"), "{stage}: {said}");
        // A file that comes later is not loaded, and the others are served on.
        fs::copy(&file, format!("{served}/{name}.mercer")).unwrap();
        let load = format!("/v2/repository/models/{name}/load");
        let reply = server.send("POST", &load, "Authorization: Bearer 0123456789abcdef\r\n", b"{}");
        assert!(reply.status >= 400, "{stage}: {}", String::from_utf8_lossy(&reply.body));
        assert!(reply.error().contains("cannot be believed"), "{stage}: {}", reply.error());
        assert!(server.infer(&name, &request(&name)).status >= 400, "{stage} is not served");
    }
    assert_eq!(server.infer("good", &request("norm_deg20_1e-8")).status, 200);
}

#[test]
fn no_certified_label_is_wrong_at_the_ends_of_the_range_of_numbers() {
    let folder = Folder::new();
    let models = folder.path("models");
    fs::create_dir(&models).unwrap();
    let text = fs::read_to_string(path("references.txt")).unwrap();
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    let mut files = Vec::new();
    for references in lines.chunk_by(|a, b| a[0] == b[0]) {
        for ending in ["mercer", "model", "anyt.mercer", "comp.mercer"] {
            let file = path(&format!("{}.{ending}", references[0][0]));
            if !file.exists() {
                continue;
            }
            // A plan that is refused certifies nothing.
            let output = crate::common::mercer(&["serve", "--check", file.to_str().unwrap()]);
            if !output.status.success() {
                continue;
            }
            let name = format!("model{}", files.len());
            let source = file.to_str().unwrap();
            match ending {
                "model" => {
                    crate::common::done(&[
                        "import",
                        source,
                        "-o",
                        &format!("{models}/{name}.mercer"),
                    ]);
                }
                _ => drop(fs::copy(source, format!("{models}/{name}.mercer")).unwrap()),
            }
            files.push((name, references));
        }
    }
    assert!(files.len() >= 9, "{} files", files.len());
    let server = Server::start(&[&models]);
    for (name, references) in files {
        let reply = server.infer(&name, &request(references[0][0]));
        assert_eq!(reply.status, 200, "{name}: {}", String::from_utf8_lossy(&reply.body));
        let reply = reply.json();
        let column = |name: &str| output(&reply, name).clone();
        let (lows, highs) = (column("low"), column("high"));
        let (certainties, labels) = (column("certainty"), column("label"));
        let classes =
            crate::common::object(&["inspect", &format!("{models}/{name}.mercer"), "--json"]);
        let classes = classes["classes"].as_array().unwrap().clone();
        for (row, words) in references.iter().enumerate() {
            let [low, high] = [1, 2].map(|at| words[at].parse::<f64>().unwrap());
            let place = format!("{}, row {row}", words[0]);
            // Infinite ends are written as texts or null: they enclose everything.
            assert!(lows[row].as_f64().is_none_or(|found| found <= low), "{place}");
            assert!(highs[row].as_f64().is_none_or(|found| found >= high), "{place}");
            if certainties[row] == "certified" {
                let right = classes[usize::from(high <= 0.0)].as_str().unwrap();
                assert_eq!(labels[row].to_string().trim_matches('"'), right, "{place}");
            }
        }
    }
}
