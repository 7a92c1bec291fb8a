//! `mercer list`: kernels, solvers, stages with their parameters, formats and papers, from the registries.

use mercer::compile::{COMPRESSORS, FITTERS};
use mercer::data::read;
use mercer::data::scale::SCALINGS;
use mercer::kernel::KERNELS;
use mercer::machine::file;
use mercer::query::StageEntry;
use mercer::simd::Isa;
use mercer::spec::{Entry, Parameter, Registry};
use mercer::train::{FORMULATIONS, SOLVERS};
use mercer::tune::CONTRACTS;
use serde_json::{Value, json};

use super::reproduce::papers;
use crate::console::Console;
use crate::failure::DONE;

/// One name of a list.
struct Item {
    /// As it is written, with its parameters and their defaults.
    signature: String,
    summary: &'static str,
    /// Nothing for what is not a component.
    parameters: Option<&'static [Parameter]>,
}

impl Item {
    fn plain(signature: &str, summary: &'static str) -> Self {
        Self { signature: signature.to_owned(), summary, parameters: None }
    }

    fn object(&self) -> Value {
        let mut object = json!({ "name": self.signature, "summary": self.summary });
        if let Some(parameters) = self.parameters {
            object["parameters"] = parameters.iter().map(parameter_object).collect();
        }
        object
    }
}

fn components<T>(registry: &Registry<T>) -> Vec<Item> {
    let item = |entry: &&'static Entry<T>| Item {
        signature: entry.signature(),
        summary: entry.summary,
        parameters: Some(entry.parameters),
    };
    registry.entries.iter().map(item).collect()
}

fn stages() -> Vec<Item> {
    let item = |stage: &StageEntry| Item {
        signature: stage.signature(),
        summary: stage.summary,
        parameters: Some(stage.parameters),
    };
    FITTERS.iter().map(|fitter| item(fitter.stage)).collect()
}

fn sections() -> [(&'static str, Vec<Item>); 10] {
    let readers = read::FORMATS.iter().map(|format| Item::plain(format.name, format.summary));
    let models = file::FORMATS.iter().map(|format| Item::plain(format.name, format.summary));
    let papers = papers().into_iter().map(|(name, summary)| Item::plain(&name, summary));
    [
        ("kernels", components(&KERNELS)),
        ("scalings", components(&SCALINGS)),
        ("formulations", components(&FORMULATIONS)),
        ("solvers", components(&SOLVERS)),
        ("stages", stages()),
        ("compressors", components(&COMPRESSORS)),
        ("contracts", components(&CONTRACTS)),
        ("data_formats", readers.collect()),
        ("model_formats", models.collect()),
        ("papers", papers.collect()),
    ]
}

pub(super) fn run(console: &Console) -> anyhow::Result<u8> {
    let sections = sections();
    let sets: Vec<&str> = Isa::available().iter().map(|isa| isa.name()).collect();
    if console.json {
        let mut object = serde_json::Map::new();
        for (title, items) in &sections {
            object.insert((*title).to_owned(), items.iter().map(Item::object).collect());
        }
        object.insert("instruction_sets".to_owned(), sets.into());
        println!("{}", Value::Object(object));
        return Ok(DONE);
    }
    for (title, items) in &sections {
        println!("{}", title.replace('_', " "));
        if *title == "stages" {
            items.iter().for_each(print_with_parameters);
            continue;
        }
        let width = items.iter().map(|item| item.signature.chars().count()).max().unwrap_or(0);
        for Item { signature, summary, .. } in items {
            println!("  {signature:width$}  {summary}");
        }
    }
    println!("instruction sets");
    println!("  {} (in use: {})", sets.join(", "), Isa::current());
    Ok(DONE)
}

/// A stage with its summary, and a line for each parameter: default, range, meaning.
fn print_with_parameters(stage: &Item) {
    println!("  {}", stage.signature);
    println!("      {}", stage.summary);
    let parameters = stage.parameters.unwrap_or_default();
    let width = parameters.iter().map(|parameter| parameter.name.len()).max().unwrap_or(0);
    for parameter in parameters {
        println!("      {:width$}  {} ({})", parameter.name, parameter.help, parameter.range());
    }
}

fn parameter_object(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name, "default": parameter.default, "range": parameter.range(),
        "help": parameter.help,
    })
}
