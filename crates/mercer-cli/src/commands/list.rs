//! `mercer list`: kernels, solvers, stages with their parameters, formats and papers, from the registries.

use mercer::compile::{COMPRESSORS, FITTERS};
use mercer::data::read;
use mercer::data::scale::SCALINGS;
use mercer::kernel::KERNELS;
use mercer::machine::file;
use mercer::query::StageEntry;
use mercer::simd::Isa;
use mercer::spec::Parameter;
use mercer::train::{FORMULATIONS, SOLVERS};
use mercer::tune::CONTRACTS;
use serde_json::{Value, json};

use super::reproduce::papers;
use crate::console::Console;
use crate::failure::DONE;

pub(super) fn run(console: &Console) -> anyhow::Result<u8> {
    let kernels: Vec<(String, &str)> =
        KERNELS.entries.iter().map(|entry| (entry.signature(), entry.summary)).collect();
    let scalings: Vec<(String, &str)> =
        SCALINGS.entries.iter().map(|entry| (entry.signature(), entry.summary)).collect();
    let readers: Vec<(String, &str)> =
        read::FORMATS.iter().map(|format| (format.name.to_owned(), format.summary)).collect();
    let models: Vec<(String, &str)> =
        file::FORMATS.iter().map(|format| (format.name.to_owned(), format.summary)).collect();
    let formulations: Vec<(String, &str)> =
        FORMULATIONS.entries.iter().map(|entry| (entry.signature(), entry.summary)).collect();
    let solvers: Vec<(String, &str)> =
        SOLVERS.entries.iter().map(|entry| (entry.signature(), entry.summary)).collect();
    let contracts: Vec<(String, &str)> =
        CONTRACTS.entries.iter().map(|entry| (entry.signature(), entry.summary)).collect();
    let compressors: Vec<(String, &str)> =
        COMPRESSORS.entries.iter().map(|entry| (entry.signature(), entry.summary)).collect();
    let sections = [
        ("kernels", kernels),
        ("scalings", scalings),
        ("formulations", formulations),
        ("solvers", solvers),
        // With their parameters: see below.
        ("stages", Vec::new()),
        ("compressors", compressors),
        ("contracts", contracts),
        ("data_formats", readers),
        ("model_formats", models),
        ("papers", papers()),
    ];
    let sets: Vec<&str> = Isa::available().iter().map(|isa| isa.name()).collect();
    if console.json {
        let list = |rows: &[(String, &str)]| -> Vec<Value> {
            rows.iter().map(|(name, text)| json!({ "name": name, "summary": text })).collect()
        };
        let mut object = serde_json::Map::new();
        for (title, rows) in &sections {
            object.insert((*title).to_owned(), list(rows).into());
        }
        let stages: Vec<Value> = FITTERS.iter().map(|fitter| stage_object(fitter.stage)).collect();
        object.insert("stages".to_owned(), stages.into());
        object.insert("instruction_sets".to_owned(), sets.into());
        println!("{}", Value::Object(object));
        return Ok(DONE);
    }
    for (title, rows) in &sections {
        println!("{}", title.replace('_', " "));
        if *title == "stages" {
            FITTERS.iter().for_each(|fitter| print_stage(fitter.stage));
            continue;
        }
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, text) in rows {
            println!("  {name:width$}  {text}");
        }
    }
    println!("instruction sets");
    println!("  {} (in use: {})", sets.join(", "), Isa::current());
    Ok(DONE)
}

/// A stage with its summary, and a line for each parameter: default, range, meaning.
fn print_stage(stage: &StageEntry) {
    println!("  {}", stage.signature());
    println!("      {}", stage.summary);
    let width = stage.parameters.iter().map(|parameter| parameter.name.len()).max().unwrap_or(0);
    for parameter in stage.parameters {
        println!("      {:width$}  {} ({})", parameter.name, parameter.help, parameter.range());
    }
}

fn stage_object(stage: &StageEntry) -> Value {
    let parameter = |parameter: &Parameter| {
        json!({
            "name": parameter.name, "default": parameter.default, "range": parameter.range(),
            "help": parameter.help,
        })
    };
    let parameters: Vec<Value> = stage.parameters.iter().map(parameter).collect();
    json!({ "name": stage.signature(), "summary": stage.summary, "parameters": parameters })
}
