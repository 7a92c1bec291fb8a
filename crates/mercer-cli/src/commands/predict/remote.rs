//! `mercer predict --server`: a server answers, this program reads the rows and writes the answers as it writes its own. Rows
//! go out as binary tensors, a few megabytes at a time; a full queue is waited for as long as the server says.

use std::time::{Duration, Instant};

use anyhow::Context;
use mercer::data::read::{self, Chunks, Options};
use mercer::data::{Dataset, Matrix};
use mercer::machine::{Answer, ClassName};
use mercer::query::{Certainty, Cost, Decision, Interval};
use serde_json::{Map, Value, json};

use super::{Outcome, Tally, open_output, output_name};
use crate::args::{Predict, QueryFlags};
use crate::commands::{StopSignal, input_options};
use crate::console::Console;
use crate::failure::DONE;
use crate::files::is_standard;
use crate::http_client::{HttpClient, Reply};
use crate::output::RowDetails;
use crate::training_input::tell_target;

/// Bytes of rows in one request, about, and rows at most.
const REQUEST: usize = 4 << 20;
const ROWS: usize = 8192;
/// How often a request is sent again that met a full queue.
const RETRIES: usize = 20;

pub(super) fn run(
    predict: &Predict,
    server: &str,
    stop: &StopSignal,
    console: &Console,
) -> anyhow::Result<u8> {
    let threshold = predict.query.threshold;
    anyhow::ensure!(
        threshold.is_none_or(f64::is_finite),
        "the threshold is {}; it must be a finite number",
        threshold.unwrap_or_default()
    );
    let mut remote = RemoteModel::open(predict, server)?;
    let source = || predict.input.data.display().to_string();
    let mut chunks = open_queries(predict, &remote, console)?;
    let classes = match &remote.probability_classes {
        Some(classes) if predict.probabilities => classes.clone(),
        None if predict.probabilities => {
            anyhow::bail!("the model '{}' has no probabilities", predict.model.display())
        }
        _ => Vec::new(),
    };
    let mut answers = open_output(predict, &remote.classes, &classes, console)?;
    let (target, mut tally) = (|| output_name(predict), Tally::default());
    let progress = console.rows("predicting");
    let rows_at_once = (REQUEST / (8 * remote.columns.max(1))).clamp(1, ROWS);
    while let Some(chunk) = chunks.next_chunk(rows_at_once).with_context(source)? {
        stop.check()?;
        let start = Instant::now();
        let Dataset { examples, targets, .. } = &chunk;
        let answered = remote.answer(examples, predict.probabilities, stop).with_context(source)?;
        tally.seconds += start.elapsed().as_secs_f64();
        let positions: Vec<usize> = (0..examples.rows()).collect();
        let details = RowDetails {
            rows: examples.rows(),
            positions: &positions,
            ids: chunks.ids(),
            classes: &classes,
            probabilities: &answered.probabilities,
        };
        answers.write(&remote.classes, &answered.decisions, &details).with_context(target)?;
        answers.flush().with_context(target)?;
        let given: Vec<Answer> =
            answered.decisions.iter().map(|decision| decision.answer).collect();
        tally.fit.add(&remote.classes, &given, targets);
        tally.add(&answered.decisions);
        progress.inc(examples.rows() as u64);
    }
    anyhow::ensure!(tally.queries > 0, "{}: the file holds no rows", source());
    answers.finish().with_context(target)?;
    progress.finish_and_clear();
    let outcome = Outcome {
        tally: &tally,
        plan: None,
        is_regression: remote.output == "value",
        budget: None,
        limit: predict.query.budget,
        ignored: chunks.ignored(),
        target: chunks.target(),
        audit: None,
        is_trusted: false,
    };
    if console.json {
        println!("{}", outcome.object());
    } else {
        outcome.print(console);
    }
    Ok(DONE)
}

/// The rows, read as the model wants them.
fn open_queries(
    predict: &Predict,
    remote: &RemoteModel,
    console: &Console,
) -> anyhow::Result<Box<dyn Chunks>> {
    let path = &predict.input.data;
    let line_by_line = is_standard(path);
    let options = remote.reading_options(input_options(&predict.input));
    let options = Options { line_by_line, ..options };
    let chunks = read::open(path, &options).with_context(|| path.display().to_string())?;
    tell_target(path, chunks.target().as_ref(), console);
    if !chunks.ignored().is_empty() {
        let (file, columns) = (path.display(), chunks.ignored().join(", "));
        console.warn(&format!("{file}: ignored columns, which the model does not know: {columns}"));
    }
    Ok(chunks)
}

/// A model of a server.
struct RemoteModel {
    client: HttpClient,
    /// The address of the model there.
    path: String,
    columns: usize,
    names: Option<Vec<String>>,
    target: Option<String>,
    /// `classes`, `value` or `novelty`.
    output: String,
    classes: Vec<ClassName>,
    probability_classes: Option<Vec<String>>,
    kernel: String,
    zero_based: bool,
    /// The model that the first answer came from: all others must come from it too.
    digest: String,
    parameters: Map<String, Value>,
}

struct Answered {
    decisions: Vec<Decision>,
    probabilities: Vec<f64>,
}

impl RemoteModel {
    fn open(predict: &Predict, server: &str) -> anyhow::Result<Self> {
        let flags = &predict.remote;
        let read = |path: &std::path::PathBuf| {
            std::fs::read_to_string(path).with_context(|| path.display().to_string())
        };
        let token = flags.token_file.as_ref().map(read).transpose()?;
        let token = token.as_deref().map(str::trim);
        let mut client = HttpClient::new(server, token, flags.server_ca.as_deref())?;
        let named = predict.model.to_str().context("the name of the model is not text")?;
        let (name, version) = named.split_once('/').map_or((named, None), |(a, b)| (a, Some(b)));
        let version =
            version.map_or_else(String::new, |text| format!("/versions/{}", encoded(text)));
        let path = format!("/v2/models/{}{version}", encoded(name));
        let reply = client.send("GET", &path, "", b"")?;
        let metadata = object(reply.status, &reply.body)?;
        let properties = &metadata["properties"];
        let text = |name: &str| properties[name].as_str().unwrap_or_default().to_owned();
        let texts = |name: &str| serde_json::from_str::<Vec<String>>(&text(name)).ok();
        let columns = metadata["inputs"][0]["shape"][1].as_u64().unwrap_or(0) as usize;
        anyhow::ensure!(columns > 0, "the server does not say how many columns '{name}' has");
        let is_text = metadata["outputs"][0]["datatype"] == "BYTES";
        let class = |name: String| match name.parse() {
            Ok(number) if !is_text => ClassName::Number(number),
            _ => ClassName::Text(name),
        };
        Ok(Self {
            client,
            path,
            columns,
            names: texts("feature_names"),
            target: properties["target"].as_str().map(str::to_owned),
            output: text("output"),
            classes: texts("classes").unwrap_or_default().into_iter().map(class).collect(),
            probability_classes: texts("probability_classes"),
            kernel: text("kernel"),
            zero_based: text("zero_based") == "true",
            digest: text("digest"),
            parameters: parameters(&predict.query),
        })
    }

    /// How the rows are read that it is asked.
    fn reading_options(&self, options: Options) -> Options {
        Options {
            precomputed: self.kernel == "precomputed",
            features: Some(self.columns),
            names: self.names.clone(),
            target: self.target.clone(),
            zero_based: options.zero_based || self.zero_based,
            ..options
        }
    }

    fn answer(
        &mut self,
        rows: &Matrix,
        has_probabilities: bool,
        stop: &StopSignal,
    ) -> anyhow::Result<Answered> {
        let mut parameters = self.parameters.clone();
        parameters.insert("binary_data_output".to_owned(), json!(true));
        parameters.insert("digest".to_owned(), json!(self.digest));
        if has_probabilities {
            parameters.insert("probabilities".to_owned(), json!(true));
        }
        let (inputs, tensors) = tensors(rows, self.columns);
        let head = json!({ "parameters": parameters, "inputs": inputs }).to_string();
        let headers = format!(
            "Content-Type: application/octet-stream\r\nInference-Header-Content-Length: {}\r\n",
            head.len()
        );
        let body = [head.as_bytes(), &tensors].concat();
        let path = format!("{}/infer", self.path);
        for _ in 0..RETRIES {
            let reply = self.client.send("POST", &path, &headers, &body)?;
            if reply.status != 429 {
                return self.decisions(&reply, rows.rows());
            }
            stop.check()?;
            std::thread::sleep(retry_after(&reply));
        }
        anyhow::bail!("the queue of the server stayed full: it refused {RETRIES} times")
    }

    fn decisions(&self, reply: &Reply, rows: usize) -> anyhow::Result<Answered> {
        let length = reply.header("inference-header-content-length");
        let length = length.and_then(|text| text.parse().ok()).unwrap_or(reply.body.len());
        let (head, mut bytes) =
            reply.body.split_at_checked(length).context("the answer of the server is too short")?;
        let head = object(reply.status, head)?;
        let mut columns = Columns::default();
        for output in head["outputs"].as_array().into_iter().flatten() {
            let size = output["parameters"]["binary_data_size"].as_u64().unwrap_or(0) as usize;
            let (own, rest) =
                bytes.split_at_checked(size).context("the answer of the server is too short")?;
            bytes = rest;
            columns.add(output, own)?;
        }
        let lengths =
            [columns.label.len(), columns.low.len(), columns.high.len(), columns.certainty.len()];
        anyhow::ensure!(
            lengths.iter().all(|length| *length == rows) && columns.cost.len() == rows,
            "the server answered {lengths:?} of {rows} rows"
        );
        let decision = |row: usize| {
            Ok(Decision {
                answer: self.parsed(&columns.label[row])?,
                range: Interval { low: columns.low[row], high: columns.high[row] },
                certainty: certainty(&columns.certainty[row])?,
                cost: Cost { multiply_adds: columns.cost[row] as u64 },
            })
        };
        let decisions = (0..rows).map(decision).collect::<anyhow::Result<_>>()?;
        Ok(Answered { decisions, probabilities: columns.probabilities })
    }

    /// The answer that a label stands for.
    fn parsed(&self, label: &str) -> anyhow::Result<Answer> {
        let unknown = || format!("the server answered '{label}', which is no answer of this model");
        if self.output == "classes" {
            let place = self.classes.iter().position(|class| class.to_string() == label);
            return Ok(Answer::Class(place.with_context(unknown)?));
        }
        let number: f64 = label.parse().ok().with_context(unknown)?;
        Ok(if self.output == "value" {
            Answer::Value(number)
        } else {
            Answer::Inlier(number > 0.0)
        })
    }
}

/// The outputs of a response, by name.
#[derive(Default)]
struct Columns {
    label: Vec<String>,
    low: Vec<f64>,
    high: Vec<f64>,
    certainty: Vec<String>,
    cost: Vec<i64>,
    probabilities: Vec<f64>,
}

impl Columns {
    fn add(&mut self, output: &Value, bytes: &[u8]) -> anyhow::Result<()> {
        let (eights, _) = bytes.as_chunks::<8>();
        let numbers = || eights.iter().map(|eight| f64::from_le_bytes(*eight));
        let integers = || eights.iter().map(|eight| i64::from_le_bytes(*eight));
        match output["name"].as_str().unwrap_or_default() {
            "label" => {
                self.label = match output["datatype"].as_str() {
                    Some("INT64") => integers().map(|label| label.to_string()).collect(),
                    Some("FP64") => numbers().map(|label| label.to_string()).collect(),
                    _ => texts(bytes)?,
                }
            }
            "low" => self.low = numbers().collect(),
            "high" => self.high = numbers().collect(),
            "certainty" => self.certainty = texts(bytes)?,
            "cost" => self.cost = integers().collect(),
            "probabilities" => self.probabilities = numbers().collect(),
            _ => {}
        }
        Ok(())
    }
}

/// Texts, each after its length in four bytes.
fn texts(mut bytes: &[u8]) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let (text, rest) = rest
            .split_at_checked(length)
            .context("a text in the answer of the server is cut off")?;
        found.push(String::from_utf8_lossy(text).into_owned());
        bytes = rest;
    }
    Ok(found)
}

fn certainty(name: &str) -> anyhow::Result<Certainty> {
    super::CERTAINTIES
        .into_iter()
        .find(|known| crate::output::certainty(*known) == name)
        .with_context(|| format!("the server names a certainty '{name}'"))
}

/// The parameters of a request that the flags stand for.
fn parameters(flags: &QueryFlags) -> Map<String, Value> {
    let mut given = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        given.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("budget", flags.budget.map(Value::from));
    add("budget_us", flags.budget_us.map(Value::from));
    add("tolerance", flags.value_tolerance.map(Value::from));
    add("threshold", flags.threshold.map(Value::from));
    add("require", flags.require.map(|_| Value::from("certified")));
    given
}

/// Descriptions of the input tensors, and their bytes.
fn tensors(rows: &Matrix, columns: usize) -> (Vec<Value>, Vec<u8>) {
    let tensor = |name: &str, datatype: &str, shape: &[usize], bytes: usize| {
        json!({
            "name": name, "datatype": datatype, "shape": shape, "parameters": { "binary_data_size": bytes },
        })
    };
    if let Some(values) = rows.as_dense() {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let width = if rows.rows() == 0 { columns } else { rows.columns() };
        return (vec![tensor("x", "FP64", &[rows.rows(), width], bytes.len())], bytes);
    }
    let (mut starts, mut indices, mut values) = (vec![0i64], Vec::new(), Vec::new());
    for row in rows.iter() {
        for (column, value) in row.nonzeros() {
            indices.extend_from_slice(&column.to_le_bytes());
            values.extend_from_slice(&value.to_le_bytes());
        }
        starts.push(values.len() as i64 / 8);
    }
    let count = values.len() / 8;
    let starts_bytes: Vec<u8> = starts.iter().flat_map(|start| start.to_le_bytes()).collect();
    let described = vec![
        tensor("indptr", "INT64", &[starts.len()], starts_bytes.len()),
        tensor("indices", "UINT32", &[count], indices.len()),
        tensor("values", "FP64", &[count], values.len()),
    ];
    (described, [starts_bytes, indices, values].concat())
}

/// The JSON object of a response, or the sentence of its refusal.
fn object(status: u16, body: &[u8]) -> anyhow::Result<Value> {
    let found: Option<Value> = serde_json::from_slice(body).ok();
    let said = found.as_ref().and_then(|found| found["error"].as_str());
    match (status, said) {
        (200, None) => found.context("the server did not answer with JSON"),
        (code, Some(said)) => anyhow::bail!("the server refuses ({code}): {said}"),
        (code, None) => anyhow::bail!("the server answered with the status {code}"),
    }
}

fn retry_after(reply: &Reply) -> Duration {
    let number = |name: &str| reply.header(name)?.parse::<f64>().ok().filter(|time| *time >= 0.0);
    let seconds = number("retry-after-ms").map(|time| time / 1e3).or_else(|| number("retry-after"));
    Duration::from_secs_f64(seconds.unwrap_or(1.0).clamp(0.001, 60.0))
}

/// A part of a path.
fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(one).collect()
}
