//! What the load generator is told, as a file, and the program that is started with it. The generator itself is `generator.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::workspace::{Workspace, stdout_with_errors};

/// A request, and the answers that each model gives to it.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedRequest {
    pub request: Vec<u8>,
    pub expected: Vec<Vec<u8>>,
}

/// How answers are compared with the expected ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// They are not.
    Unchecked,
    /// The bytes behind the JSON part.
    Binary,
    /// All outputs in JSON.
    Json,
    /// The labels in JSON.
    Labels,
}

const FORMS: [(&str, Form); 4] = [
    ("unchecked", Form::Unchecked),
    ("binary", Form::Binary),
    ("json", Form::Json),
    ("labels", Form::Labels),
];

/// Models that are exchanged while requests run.
#[derive(Debug, Clone, PartialEq)]
pub struct Reloads {
    pub count: usize,
    /// Files that take turns; the first is loaded at the start.
    pub files: Vec<PathBuf>,
    /// The file that the server reads.
    pub target: PathBuf,
    /// The address that loads it.
    pub path: String,
    pub token: String,
    /// Seconds between them.
    pub pause: f64,
}

/// What a generator does.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadTest {
    pub address: String,
    pub form: Form,
    /// Requests per second; none means each connection as fast as it is answered.
    pub rate: Option<f64>,
    pub seconds: f64,
    pub connections: usize,
    /// Whether the run ends when the server takes no more connections.
    pub until_closed: bool,
    /// Digests of the models that may answer; not looked at if there are none.
    pub digests: Vec<String>,
    pub reloads: Option<Reloads>,
}

impl LoadTest {
    /// Requests at a rate, or without one as fast as they are answered; answers in the binary form.
    pub fn new(address: &str, rate: Option<f64>, seconds: f64, connections: usize) -> Self {
        Self {
            address: address.to_owned(),
            form: Form::Binary,
            rate,
            seconds,
            connections,
            until_closed: false,
            digests: Vec::new(),
            reloads: None,
        }
    }

    /// Writes the job and its requests.
    fn write(&self, path: &Path, questions: &[CheckedRequest]) -> Result<()> {
        let form = FORMS.iter().find(|(_, form)| *form == self.form).map(|(name, _)| *name);
        let reloads = self.reloads.as_ref().map(|reloads| {
            json!({
                "count": reloads.count, "files": reloads.files, "target": reloads.target,
                "path": reloads.path, "token": reloads.token, "pause": reloads.pause,
            })
        });
        let job = json!({
            "address": self.address, "form": form, "rate": self.rate, "seconds": self.seconds,
            "connections": self.connections, "until_closed": self.until_closed,
            "digests": self.digests, "reloads": reloads,
        });
        let mut bytes = Vec::new();
        let text = job.to_string();
        push(&mut bytes, text.as_bytes());
        for question in questions {
            push(&mut bytes, &question.request);
            bytes.extend((question.expected.len() as u64).to_le_bytes());
            question.expected.iter().for_each(|expected| push(&mut bytes, expected));
        }
        fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads what [`LoadTest::write`] has written.
    pub fn read(path: &Path) -> Result<(Self, Vec<CheckedRequest>)> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut rest = bytes.as_slice();
        let job: Value = serde_json::from_slice(take(&mut rest)?).context("the job is no JSON")?;
        let mut questions = Vec::new();
        while !rest.is_empty() {
            let request = take(&mut rest)?.to_vec();
            let count = number(&mut rest)?;
            let expected = (0..count).map(|_| Ok(take(&mut rest)?.to_vec()));
            questions.push(CheckedRequest { request, expected: expected.collect::<Result<_>>()? });
        }
        if questions.is_empty() {
            bail!("the job has no requests");
        }
        let form = FORMS.iter().find(|(name, _)| job["form"] == *name);
        let texts = |value: &Value| {
            let texts = value.as_array().into_iter().flatten();
            texts.filter_map(|text| text.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reloads = job["reloads"].as_object().map(|reloads| Reloads {
            count: reloads["count"].as_u64().unwrap_or_default() as usize,
            files: texts(&reloads["files"]).into_iter().map(PathBuf::from).collect(),
            target: PathBuf::from(text(&reloads["target"])),
            path: text(&reloads["path"]),
            token: text(&reloads["token"]),
            pause: reloads["pause"].as_f64().unwrap_or_default(),
        });
        let job = Self {
            address: text(&job["address"]),
            form: form.context("the job has no form")?.1,
            rate: job["rate"].as_f64(),
            seconds: job["seconds"].as_f64().context("the job has no seconds")?,
            connections: job["connections"].as_u64().unwrap_or(1) as usize,
            until_closed: job["until_closed"] == true,
            digests: texts(&job["digests"]),
            reloads,
        };
        Ok((job, questions))
    }
}

fn push(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend((part.len() as u64).to_le_bytes());
    bytes.extend_from_slice(part);
}

fn number(rest: &mut &[u8]) -> Result<usize> {
    let (eight, behind) = rest.split_first_chunk::<8>().context("the job breaks off")?;
    *rest = behind;
    Ok(u64::from_le_bytes(*eight) as usize)
}

fn take<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = number(rest)?;
    let (part, behind) = rest.split_at_checked(length).context("the job breaks off")?;
    *rest = behind;
    Ok(part)
}

/// The generator's program and the folder of its jobs.
pub struct Generator<'a> {
    pub workspace: &'a Workspace,
    pub program: PathBuf,
    pub folder: PathBuf,
}

impl Generator<'_> {
    /// Runs a job in a process of its own, and returns what it measured.
    pub fn run(&self, job: &LoadTest, questions: &[CheckedRequest]) -> Result<Value> {
        let path = self.folder.join("job.bin");
        job.write(&path, questions)?;
        let text =
            stdout_with_errors(self.workspace.command(&self.program).arg("load").arg(&path))?;
        serde_json::from_str(&text).context("the generator printed no JSON")
    }

    /// Starts a job that runs beside the caller.
    pub fn start(
        &self,
        job: &LoadTest,
        questions: &[CheckedRequest],
    ) -> Result<std::process::Child> {
        let path = self.folder.join("job.bin");
        job.write(&path, questions)?;
        let mut command = self.workspace.command(&self.program);
        command.arg("load").arg(&path).stdout(std::process::Stdio::piped());
        command.spawn().context("the generator cannot be started")
    }
}

/// What a generator that was started has measured, when it has ended.
pub fn finished(child: std::process::Child) -> Result<Value> {
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("the generator failed: {}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("the generator printed no JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.bin");
        let reloads = Reloads {
            count: 3,
            files: vec!["a".into(), "b".into()],
            target: "m.mercer".into(),
            path: "/load".to_owned(),
            token: "secret".to_owned(),
            pause: 0.5,
        };
        let job = LoadTest {
            form: Form::Json,
            until_closed: true,
            digests: vec!["ab".to_owned()],
            reloads: Some(reloads),
            ..LoadTest::new("127.0.0.1:1", Some(10.5), 2.0, 4)
        };
        let questions = vec![
            CheckedRequest { request: b"GET /".to_vec(), expected: vec![vec![1, 2], Vec::new()] },
            CheckedRequest { request: vec![0; 300], expected: Vec::new() },
        ];
        job.write(&path, &questions).unwrap();
        assert_eq!(LoadTest::read(&path).unwrap(), (job, questions));
    }
}
