//! The models that are served, and rows to ask: MNIST from the data directory, 3 against 8 and ten classes, trained and tuned by the
//! command itself. Files stay in the target directory for the next run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::http::post;
use super::load::CheckedRequest;
use crate::workspace::{Workspace, stdout_of};

/// Pixels of an image.
pub const COLUMNS: usize = 784;
/// Queries that are asked again and again.
const QUERIES: usize = 512;

/// A machine: which digits, how many examples of them, how long its plan is searched.
pub struct MachineTask {
    pub name: &'static str,
    digits: &'static [u8],
    examples: usize,
    pub contract: &'static str,
}

/// Both have the kernel and C of `mnist38` and `mnist10` in `benches/tasks.toml`; ten classes are trained on the first 10,000 images,
/// so that the peers can be fitted within minutes.
pub const MACHINES: [MachineTask; 2] = [
    MachineTask { name: "mnist38", digits: &[3, 8], examples: 60_000, contract: "certified" },
    MachineTask {
        name: "mnist10",
        digits: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        examples: 10_000,
        contract: "certified",
    },
];

/// Where everything is.
pub struct ServePaths {
    pub workspace: Workspace,
    pub data: PathBuf,
    pub folder: PathBuf,
}

impl ServePaths {
    pub fn load() -> Result<Self> {
        let workspace = Workspace::load()?;
        let data = std::env::var_os("MERCER_DATA");
        let data = workspace.root.join(data.map_or_else(|| "../shared/data".into(), PathBuf::from));
        let folder = workspace.target.join("bench-serve");
        fs::create_dir_all(&folder).context("cannot make a folder in the target directory")?;
        Ok(Self { workspace, data, folder })
    }

    /// The command, with optimisation.
    pub fn mercer(&self, verb: &str) -> Command {
        let program = format!("release/mercer{}", std::env::consts::EXE_SUFFIX);
        let mut command = self.workspace.command(self.workspace.target.join(program));
        // Plans that this bench fitted are remembered beside it, not in the user's own folder.
        command.arg(verb).env("MERCER_CACHE_DIR", self.folder.join("cache"));
        command
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// A model file, its queries and the answers of `mercer predict`.
pub struct Prepared {
    pub name: String,
    pub model: PathBuf,
    queries: PathBuf,
    rows: Vec<Vec<f64>>,
    answers: Vec<[f64; 3]>,
}

/// Both plans of a machine.
pub struct TrainedMachine {
    pub exact: Prepared,
    pub tuned: Prepared,
}

/// Trains and tunes what is not there yet; none if the data are missing.
pub fn prepare(paths: &ServePaths, task: &MachineTask) -> Result<Option<TrainedMachine>> {
    let names = ["train-images-idx3-ubyte", "t10k-images-idx3-ubyte"];
    if names.iter().any(|name| find(paths, name).is_none()) {
        println!("serve: {} skipped, MNIST is not in MERCER_DATA/mnist", task.name);
        return Ok(None);
    }
    let file = |end: &str| paths.file(&format!("{}.{end}", task.name));
    let (pixels, labels) = images(paths, "t10k", task)?;
    let cut = pixels.len() * 3 / 5;
    let queries = &pixels[cut..pixels.len().min(cut + QUERIES)];
    let (exact, tuned) = (file("exact.mercer"), file("tuned.mercer"));
    if !exact.is_file() {
        eprintln!("serve: {} is trained", task.name);
        let (rows, targets) = images(paths, "train", task)?;
        write_rows(&file("train.npy"), &rows)?;
        write_labels(&file("train.labels.npy"), &targets)?;
        let mut train = paths.mercer("train");
        train.arg(file("train.npy")).arg("--labels").arg(file("train.labels.npy"));
        train.args(["--kernel", "rbf(gamma=0.02)", "--formulation", "c_svc(C=10)", "--quiet"]);
        stdout_of(train.arg("-o").arg(&exact))?;
    }
    write_rows(&file("queries.npy"), queries)?;
    if !tuned.is_file() {
        eprintln!("serve: {} is tuned", task.name);
        write_rows(&file("sample.npy"), &pixels[..cut])?;
        write_labels(&file("sample.labels.npy"), &labels[..cut])?;
        let mut tune = paths.mercer("tune");
        tune.arg(&exact).arg("--sample").arg(file("sample.npy"));
        tune.args(["--contract", task.contract, "--time-limit", "60s", "--quiet"]);
        stdout_of(tune.arg("-o").arg(&tuned))?;
    }
    let prepared = |model: &Path| {
        let queries_file = file("queries.npy");
        let answers = predicted(paths, model, &queries_file)?;
        ensure!(answers.len() == queries.len(), "{}: answers are missing", model.display());
        let name = model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let rows = queries.iter().map(|row| scaled(row)).collect();
        Ok::<_, anyhow::Error>(Prepared {
            name,
            model: model.to_owned(),
            queries: queries_file,
            rows,
            answers,
        })
    };
    Ok(Some(TrainedMachine { exact: prepared(&exact)?, tuned: prepared(&tuned)? }))
}

impl Prepared {
    /// Requests of so many rows each, in the binary form or in JSON, with the answers of `mercer predict`.
    pub fn questions(&self, rows: usize, is_binary: bool) -> Vec<CheckedRequest> {
        self.questions_to(&self.name, rows, is_binary)
    }

    /// The same to a model of another name.
    pub fn questions_to(&self, name: &str, rows: usize, is_binary: bool) -> Vec<CheckedRequest> {
        let path = format!("/v2/models/{name}/infer");
        let body = if is_binary { binary } else { json };
        let groups = self.rows.chunks_exact(rows).zip(self.answers.chunks_exact(rows));
        let question = |(rows, answers): (&[Vec<f64>], &[[f64; 3]])| {
            let (body, json_bytes) = body(rows);
            let headers = if is_binary {
                format!("Inference-Header-Content-Length: {json_bytes}\r\n")
            } else {
                "Content-Type: application/json\r\n".to_owned()
            };
            let expected = vec![expected(answers)];
            CheckedRequest { request: post(&path, &headers, &body), expected }
        };
        groups.map(question).collect()
    }

    /// Requests of one row to another server: in the protocol's JSON, or as a plain list of rows.
    pub fn peer_questions(&self, path: &str, is_protocol: bool) -> Vec<CheckedRequest> {
        let one = |(row, answer): (&Vec<f64>, &[f64; 3])| {
            let body = if is_protocol {
                let (shape, data) = ([1, COLUMNS], row);
                serde_json::json!({ "inputs": [
                    { "name": "x", "shape": shape, "datatype": "FP64", "data": data },
                ]})
            } else {
                serde_json::json!({ "data": [row] })
            };
            let body = body.to_string();
            let request = post(path, "Content-Type: application/json\r\n", body.as_bytes());
            CheckedRequest { request, expected: vec![expected(std::slice::from_ref(answer))] }
        };
        self.rows.iter().zip(&self.answers).map(one).collect()
    }

    /// What `mercer bench` says of the model.
    pub fn bench(&self, paths: &ServePaths) -> Result<Value> {
        let mut command = paths.mercer("bench");
        command.arg(&self.model).arg(&self.queries).args(["--repeats", "5", "--json"]);
        serde_json::from_str(&stdout_of(&mut command)?).context("mercer bench printed no JSON")
    }
}

/// Labels, then lower, then upper ends of ranges, as the binary form has them.
fn expected(answers: &[[f64; 3]]) -> Vec<u8> {
    let labels = answers.iter().flat_map(|answer| (answer[0] as i64).to_le_bytes());
    let ends = |end: usize| answers.iter().flat_map(move |answer| answer[end].to_le_bytes());
    labels.chain(ends(1)).chain(ends(2)).collect()
}

const OUTPUTS: [&str; 3] = ["label", "low", "high"];

fn binary(rows: &[Vec<f64>]) -> (Vec<u8>, usize) {
    let outputs: Vec<Value> = OUTPUTS
        .iter()
        .map(|name| serde_json::json!({ "name": name, "parameters": { "binary_data": true } }))
        .collect();
    let json = serde_json::json!({
        "inputs": [{
            "name": "x", "shape": [rows.len(), COLUMNS], "datatype": "FP64",
            "parameters": { "binary_data_size": 8 * COLUMNS * rows.len() },
        }],
        "outputs": outputs,
    });
    let mut body = json.to_string().into_bytes();
    let length = body.len();
    body.extend(rows.iter().flatten().flat_map(|value| value.to_le_bytes()));
    (body, length)
}

fn json(rows: &[Vec<f64>]) -> (Vec<u8>, usize) {
    let outputs: Vec<Value> =
        OUTPUTS.iter().map(|name| serde_json::json!({ "name": name })).collect();
    let values: Vec<f64> = rows.iter().flatten().copied().collect();
    let json = serde_json::json!({
        "inputs": [{
            "name": "x", "shape": [rows.len(), COLUMNS], "datatype": "FP64", "data": values,
        }],
        "outputs": outputs,
    });
    let body = json.to_string().into_bytes();
    let length = body.len();
    (body, length)
}

/// Label, lower and upper end of each row by `mercer predict`.
fn predicted(paths: &ServePaths, model: &Path, queries: &Path) -> Result<Vec<[f64; 3]>> {
    let mut predict = paths.mercer("predict");
    predict.arg(model).arg(queries).args(["--format", "jsonl", "--quiet"]);
    let text = stdout_of(&mut predict)?;
    let answer = |line: &str| {
        let answer: Value = serde_json::from_str(line).context("an answer is no JSON")?;
        // Labels are names, and these names are numbers.
        let number = |name: &str| {
            let named = || answer[name].as_str().and_then(|text| text.parse().ok());
            let found = answer[name].as_f64().or_else(named);
            found.with_context(|| format!("an answer without {name}: {line}"))
        };
        Ok([number("label")?, number("low")?, number("high")?])
    };
    text.lines().map(answer).collect()
}

fn find(paths: &ServePaths, name: &str) -> Option<PathBuf> {
    let plain = paths.data.join("mnist").join(name);
    let packed = plain.with_extension("gz");
    [plain, packed].into_iter().find(|path| path.is_file())
}

fn unpacked(paths: &ServePaths, name: &str) -> Result<Vec<u8>> {
    let path = find(paths, name).with_context(|| format!("mnist/{name} is missing"))?;
    if path.extension().is_none_or(|ending| ending != "gz") {
        return Ok(fs::read(path)?);
    }
    let output = Command::new("gzip").arg("-dc").arg(&path).output().context("gzip is missing")?;
    ensure!(output.status.success(), "{} cannot be unpacked", path.display());
    Ok(output.stdout)
}

/// Images of the task's digits, and the digits.
fn images(paths: &ServePaths, part: &str, task: &MachineTask) -> Result<(Vec<Vec<u8>>, Vec<u8>)> {
    let images = unpacked(paths, &format!("{part}-images-idx3-ubyte"))?;
    let labels = unpacked(paths, &format!("{part}-labels-idx1-ubyte"))?;
    let (Some(pixels), Some(labels)) = (images.get(16..), labels.get(8..)) else {
        bail!("mnist/{part}: the files are too short");
    };
    let all = pixels.chunks_exact(COLUMNS).zip(labels).take(task.examples);
    let kept = all.filter(|(_, label)| task.digits.contains(label));
    Ok(kept.map(|(image, label)| (image.to_vec(), *label)).unzip())
}

fn scaled(image: &[u8]) -> Vec<f64> {
    image.iter().map(|pixel| f64::from(*pixel) / 255.0).collect()
}

fn write_rows(path: &Path, images: &[Vec<u8>]) -> Result<()> {
    let values = images.iter().flat_map(|image| scaled(image));
    write_npy(path, &format!("({}, {COLUMNS})", images.len()), values)
}

fn write_labels(path: &Path, labels: &[u8]) -> Result<()> {
    write_npy(path, &format!("({},)", labels.len()), labels.iter().map(|label| f64::from(*label)))
}

fn write_npy(path: &Path, shape: &str, values: impl Iterator<Item = f64>) -> Result<()> {
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    // The header with its ten bytes before it ends at a multiple of 64.
    let padding = 63 - (header.len() + 10) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.flat_map(f64::to_le_bytes));
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_rows_and_the_expected_answers() {
        let rows = vec![vec![0.5; COLUMNS]; 2];
        let (body, length) = binary(&rows);
        assert_eq!(body.len() - length, 2 * 8 * COLUMNS);
        let head: Value = serde_json::from_slice(&body[..length]).unwrap();
        assert_eq!(head["inputs"][0]["parameters"]["binary_data_size"], 2 * 8 * COLUMNS);
        let (body, length) = json(&rows);
        assert_eq!(body.len(), length);
        let whole: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(whole["inputs"][0]["data"].as_array().unwrap().len(), 2 * COLUMNS);
        let bytes = expected(&[[3.0, -0.5, 0.5], [8.0, 1.0, 2.0]]);
        let eights: Vec<[u8; 8]> = bytes.as_chunks::<8>().0.to_vec();
        assert_eq!(eights[..2], [3i64, 8].map(i64::to_le_bytes));
        assert_eq!(eights[2..], [-0.5, 1.0, 0.5, 2.0f64].map(f64::to_le_bytes));
    }
}
