//! `mercer check`: problems of data before training, and of models before they are deployed.

mod cost;
mod data;
mod model;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use mercer::machine::file;
use serde_json::{Map, Value, json};

use crate::args::Check;
use crate::console::Console;
use crate::failure::DONE;

/// The results: values, and remarks worth acting on.
#[derive(Debug, Default)]
struct Findings {
    values: Vec<(&'static str, String, Value)>,
    remarks: Vec<String>,
}

impl Findings {
    fn add(&mut self, key: &'static str, text: impl Into<String>, value: impl Into<Value>) {
        self.values.push((key, text.into(), value.into()));
    }

    fn remark(&mut self, text: impl Into<String>) {
        self.remarks.push(text.into());
    }
}

pub(super) fn run(check: &Check, console: &Console) -> anyhow::Result<u8> {
    let path = &check.input.data;
    let findings = if is_model(path).with_context(|| path.display().to_string())? {
        model::examine(check, console)?
    } else {
        data::examine(check, console)?
    };
    if console.json {
        let mut object: Map<String, Value> = Map::new();
        for (key, _, value) in &findings.values {
            object.insert(key.replace(' ', "_"), value.clone());
        }
        object.insert("remarks".to_owned(), json!(findings.remarks));
        println!("{}", Value::Object(object));
        return Ok(DONE);
    }
    println!("{}", path.display());
    for (key, text, _) in &findings.values {
        println!("  {key:24}  {text}");
    }
    if findings.remarks.is_empty() {
        println!("  no remarks");
    }
    for remark in &findings.remarks {
        println!("  ! {remark}");
    }
    Ok(DONE)
}

/// Whether a file is a model, by its first bytes; every other file is data.
fn is_model(path: &Path) -> std::io::Result<bool> {
    if path.as_os_str() == "-" {
        return Ok(false);
    }
    let mut head = Vec::new();
    File::open(path)?.take(1 << 16).read_to_end(&mut head)?;
    let is_onnx = path.extension().is_some_and(|ending| ending == "onnx");
    Ok(is_onnx || file::recognise(&head).is_ok())
}

/// Bytes in the largest unit that gives a number above one.
fn size(bytes: f64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}
