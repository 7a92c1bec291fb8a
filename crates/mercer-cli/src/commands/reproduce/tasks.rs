//! The machines of a paper, as `benches/tasks.toml` defines them.

use std::io::Cursor;
use std::path::Path;

use anyhow::{Context, bail};
use mercer::data::read::{self, Options};
use mercer::data::{Dataset, Matrix, Targets};
use serde::Deserialize;

static TASKS: &str = include_str!("../../../../../benches/tasks.toml");

/// Files that come with the program.
static OWN: &[(&str, &[u8])] = &[
    ("datasets/sonar/sonar.csv", include_bytes!("../../../../../datasets/sonar/sonar.csv")),
    (
        "datasets/haberman/haberman.csv",
        include_bytes!("../../../../../datasets/haberman/haberman.csv"),
    ),
];

#[derive(Debug, Deserialize)]
struct File {
    reproduction: Vec<Task>,
}

/// One machine to train.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    paper: String,
    pub(super) name: String,
    reader: String,
    train: Vec<String>,
    label: Option<String>,
    #[serde(default)]
    keep: Vec<f64>,
    positive: String,
    scale: Option<String>,
    pub(super) kernel: String,
    #[serde(rename = "C")]
    pub(super) c: f64,
    pub(super) tolerance: f64,
    /// Basis points moved at most.
    pub(super) moved: usize,
}

/// The tasks of a paper.
pub(super) fn of(paper: &str) -> anyhow::Result<Vec<Task>> {
    let file: File = toml::from_str(TASKS).context("benches/tasks.toml")?;
    Ok(file.reproduction.into_iter().filter(|task| task.paper == paper).collect())
}

impl Task {
    /// Its rows with targets 1 and -1, or what is missing.
    pub(super) fn rows(&self, data: Option<&Path>) -> anyhow::Result<Result<Dataset, String>> {
        let read = match self.read(data)? {
            Ok(read) => read,
            Err(missing) => return Ok(Err(missing)),
        };
        let labels: Vec<String> = match &read.targets {
            Targets::Numbers(numbers) => numbers.iter().map(ToString::to_string).collect(),
            Targets::Names(names) => names.clone(),
            Targets::Absent => bail!("{}: the rows carry no labels", self.name),
        };
        let is_kept = |label: &String| {
            self.keep.is_empty() || self.keep.iter().any(|keep| keep.to_string() == *label)
        };
        let kept: Vec<usize> = (0..labels.len()).filter(|row| is_kept(&labels[*row])).collect();
        let sign = |row: &usize| if labels[*row] == self.positive { 1.0 } else { -1.0 };
        let targets = Targets::Numbers(kept.iter().map(sign).collect());
        let examples = self.scaled(&read.examples.select(kept))?;
        Ok(Ok(Dataset { examples, targets, names: None }))
    }

    fn read(&self, data: Option<&Path>) -> anyhow::Result<Result<Dataset, String>> {
        let label = self.label.as_deref().unwrap_or("guess").parse();
        let label = label.unwrap_or_else(|never| match never {});
        let options = Options {
            format: Some(self.reader.clone()),
            label,
            targets_needed: true,
            ..Options::default()
        };
        if let Some((name, bytes)) = OWN.iter().find(|(name, _)| *name == self.train[0]) {
            let mut chunks = read::from_reader(Cursor::new(*bytes), name, &options)?;
            return Ok(Ok(read::whole(&mut *chunks)?));
        }
        let Some(folder) = data else {
            return Ok(Err(format!("--data DIR must name a folder with {}", self.train[0])));
        };
        let mut files = Vec::new();
        for name in &self.train {
            let plain = folder.join(name);
            let packed = folder.join(format!("{name}.gz"));
            match [plain, packed].into_iter().find(|path| path.exists()) {
                Some(path) => files.push(path),
                None => {
                    let place = folder.join(name);
                    return Ok(Err(format!("there is no {}", place.display())));
                }
            }
        }
        let options = Options { labels: files.get(1).cloned(), ..options };
        let read = read::dataset(&files[0], &options);
        Ok(Ok(read.with_context(|| files[0].display().to_string())?))
    }

    fn scaled(&self, rows: &Matrix) -> anyhow::Result<Matrix> {
        let Some(scale) = &self.scale else { return Ok(rows.clone()) };
        let inside = scale.strip_prefix("divide(").and_then(|rest| rest.strip_suffix(')'));
        let divisor: f64 = inside
            .and_then(|text| text.parse().ok())
            .with_context(|| format!("{}: no scale '{scale}'", self.name))?;
        let dense = rows.to_dense();
        let values = dense.as_dense().unwrap_or_default().iter().map(|x| x / divisor).collect();
        Ok(Matrix::dense(rows.columns(), values)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_the_paper_come_with_the_program() {
        let tasks = of("decoste03").unwrap();
        let counts = |task: &Task| {
            let Targets::Numbers(signs) = task.rows(None).unwrap().unwrap().targets else {
                panic!("numbers")
            };
            let positive = signs.iter().filter(|sign| **sign > 0.0).count();
            (positive, signs.len() - positive)
        };
        assert_eq!(counts(&tasks[0]), (97, 111));
        assert_eq!(counts(&tasks[1]), (81, 225));
        assert!(tasks[2].rows(None).unwrap().unwrap_err().contains("--data"));
    }
}
