//! `mercer play`: training in the loop of the server's page. Points come by clicks, from examples or from a table; each change
//! trains a machine in the plane, fits a plan to it and puts both into the server, where all views of the page use them.
//!
//! The server knows no trainer: this crate is its [`Extension`]. The view is `page/train.js`.

mod maps;
mod points;
mod reduced;
mod table;
mod training;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use mercer::machine::{Model, file};
use mercer::train::Cancel;
use mercer_server::{Call, Extension, Reply, Repository};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use points::Points;
use reduced::ReducedMachine;
pub use table::Table;
use training::{FitRequest, Settings, TrainedMachine};

/// The model's name in the server.
const MODEL: &str = "play";
/// Points of the first example.
const FIRST: usize = 400;

/// What is played with: points, the machine trained on them, and perhaps a table that the points come from.
#[derive(Debug)]
pub struct Playground {
    state: Mutex<State>,
    /// Set by a change that waits for the state: a training that goes on ends with the best machine so far.
    is_changing: Arc<AtomicBool>,
}

/// Calls that make another machine: a training that goes on does not keep them waiting.
const CHANGES: [&str; 4] = ["example", "table", "axes", "fit"];

#[derive(Debug)]
struct State {
    table: Option<Table>,
    points: Points,
    trained: Option<TrainedMachine>,
    reduced: Option<ReducedMachine>,
}

impl Playground {
    /// Begins with a table, or with an example.
    ///
    /// # Errors
    /// If two columns of the table cannot be drawn.
    pub fn new(table: Option<Table>) -> anyhow::Result<Self> {
        let points = match &table {
            Some(table) => table.first_points()?,
            None => Points::example("crescents", FIRST)?,
        };
        let (trained, reduced) = (None, None);
        let state = Mutex::new(State { table, points, trained, reduced });
        Ok(Self { state, is_changing: Arc::default() })
    }
}

impl Extension for Playground {
    fn name(&self) -> &'static str {
        "train"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &FILES
    }

    fn calls(&self) -> &'static [&'static str] {
        &["state", "example", "table", "axes", "fit", "continue", "map", "compress", "save"]
    }

    fn start(&self, models: &Repository) -> Result<(), String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.train(&Settings::default(), models).map(drop).map_err(|error| format!("{error:#}"))
    }

    fn answer(&self, call: &Call<'_>, models: &Repository) -> Result<Reply, String> {
        let is_change = CHANGES.contains(&call.name);
        if is_change {
            self.is_changing.store(true, Ordering::SeqCst);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if is_change {
            // Nothing goes on any more: this call has the state.
            self.is_changing.store(false, Ordering::SeqCst);
        }
        let cancel = Cancel::from_flag(Arc::clone(&self.is_changing));
        state.answer(call, models, cancel).map_err(|error| format!("{error:#}"))
    }
}

const FILES: [(&str, &str); 2] =
    [("plot.js", include_str!("../page/plot.js")), ("train.js", include_str!("../page/train.js"))];

#[derive(Debug, Deserialize)]
struct ExampleRequest {
    name: String,
    rows: usize,
}

#[derive(Debug, Deserialize)]
struct AxesRequest {
    x: String,
    y: String,
}

#[derive(Debug, Deserialize)]
struct CompressRequest {
    size: usize,
}

#[derive(Debug, Deserialize)]
struct SaveRequest {
    what: String,
}

fn parsed<T: DeserializeOwned>(call: &Call<'_>) -> anyhow::Result<T> {
    serde_json::from_slice(call.body).with_context(|| format!("the body of {}", call.name))
}

impl State {
    fn answer(
        &mut self,
        call: &Call<'_>,
        models: &Repository,
        cancel: Cancel,
    ) -> anyhow::Result<Reply> {
        let value = match call.name {
            "state" => self.object(),
            "example" => {
                let ExampleRequest { name, rows } = parsed(call)?;
                self.take(Points::example(&name, rows)?)
            }
            "table" => {
                let table = Table::read(
                    call.body.to_vec(),
                    &parameter(call, "name"),
                    &parameter(call, "label"),
                )?;
                let points = table.first_points()?;
                self.table = Some(table);
                self.take(points)
            }
            "axes" => {
                let AxesRequest { x, y } = parsed(call)?;
                let table = self.table.as_ref().context("there is no table")?;
                let points = table.points(&x, &y)?;
                self.take(points)
            }
            "fit" => {
                let FitRequest { points, classes, kernel, c, plan } = parsed(call)?;
                if let Some(clicked) = &points {
                    self.points.replace(clicked, classes.as_deref())?;
                }
                self.train(&Settings { kernel, c, plan }, models)?
            }
            "continue" => self.go_on(models, cancel)?,
            "map" => {
                let trained = self.trained.as_ref().context("nothing is trained")?;
                maps::answer(&parsed(call)?, trained, self.reduced.as_ref())?
            }
            "compress" => {
                let CompressRequest { size } = parsed(call)?;
                let trained = self.trained.as_ref().context("nothing is trained")?;
                let reduced = ReducedMachine::new(trained, &self.points, size)?;
                self.reduced.insert(reduced).object()
            }
            "save" => return self.save(&parsed::<SaveRequest>(call)?.what),
            other => anyhow::bail!("there is no call '{other}'"),
        };
        Ok(Reply::json(&value))
    }

    /// Other points: the machine stays until the next training, and is no start for it.
    fn take(&mut self, points: Points) -> Value {
        self.points = points;
        self.trained = None;
        self.reduced = None;
        self.object()
    }

    /// The points, and what they come from.
    fn object(&self) -> Value {
        let mut object = self.points.object();
        object["examples"] = json!(points::EXAMPLES);
        object["table"] = self.table.as_ref().map_or(Value::Null, Table::object);
        object
    }

    fn train(&mut self, settings: &Settings, models: &Repository) -> anyhow::Result<Value> {
        if let Some(message) = self.points.lack() {
            return Ok(json!({ "message": message }));
        }
        let trained = TrainedMachine::new(&self.points, settings, self.trained.as_ref())?;
        self.put(trained, models)
    }

    /// One more part of a training that ended early; without one, the machine as it is.
    fn go_on(&mut self, models: &Repository, cancel: Cancel) -> anyhow::Result<Value> {
        let trained = self.trained.as_ref().context("nothing is trained")?;
        if !trained.is_open() {
            return Ok(trained.object());
        }
        let trained = trained.continued(&self.points, cancel)?;
        self.put(trained, models)
    }

    /// Another machine, for all views of the page.
    fn put(&mut self, trained: TrainedMachine, models: &Repository) -> anyhow::Result<Value> {
        self.reduced = None;
        models.put(MODEL, trained.model.clone()).map_err(anyhow::Error::msg)?;
        Ok(self.trained.insert(trained).object())
    }

    /// The bytes of a model file.
    fn save(&self, what: &str) -> anyhow::Result<Reply> {
        let model: &Model = match what {
            "machine" => &self.trained.as_ref().context("nothing is trained")?.model,
            "compressed" => &self.reduced.as_ref().context("nothing is compressed")?.model,
            other => anyhow::bail!("'{other}' cannot be saved: machine and compressed can"),
        };
        let format = file::format("mercer").context("the mercer format is always registered")?;
        let body = file::to_bytes(model, format)?;
        Ok(Reply { content_type: "application/octet-stream", body })
    }
}

/// A parameter of the query; empty if it is not there.
fn parameter(call: &Call<'_>, name: &str) -> String {
    let found = call.parameters.iter().find(|(known, _)| known == name);
    found.map_or_else(String::new, |(_, value)| value.clone())
}

#[cfg(test)]
mod tests;
