//! The machines of a paper, as `tasks.toml` defines them.

use std::io::Cursor;
use std::path::Path;

use anyhow::{Context, bail};
use mercer::data::read::{self, Options};
use mercer::data::scale::SCALINGS;
use mercer::data::{Dataset, Matrix, Targets, synthetic};
use serde::Deserialize;

pub(crate) static TASKS: &str = include_str!("tasks.toml");

/// Data files that are part of the program.
static EMBEDDED: &[(&str, &[u8])] = &[
    ("datasets/sonar/sonar.csv", mercer_datasets::SONAR),
    ("datasets/haberman/haberman.csv", mercer_datasets::HABERMAN),
    ("datasets/abalone/abalone.csv", mercer_datasets::ABALONE),
    ("datasets/digits/digits.csv.gz", mercer_datasets::DIGITS),
];

#[derive(Debug, Deserialize)]
struct ReproductionFile {
    reproduction: Vec<Task>,
}

/// One machine to train.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Task {
    paper: String,
    pub(crate) name: String,
    reader: String,
    train: Vec<String>,
    #[serde(default)]
    test: Vec<String>,
    label: Option<String>,
    #[serde(default)]
    one_hot: Vec<String>,
    #[serde(default)]
    keep: Vec<f64>,
    rows: Option<String>,
    queries: Option<String>,
    #[serde(default)]
    positive: String,
    above: Option<f64>,
    scale: Option<String>,
    pub(crate) kernel: String,
    #[serde(rename = "C")]
    pub(crate) c: f64,
    pub(crate) tolerance: f64,
    /// Basis points moved at most.
    #[serde(default)]
    pub(crate) moved: usize,
    /// Whether every compressor is run on every goal.
    #[serde(default)]
    pub(crate) goals: bool,
    /// Vectors to compress to.
    #[serde(default)]
    pub(crate) sizes: Vec<usize>,
}

/// The tasks of a paper.
pub(crate) fn of(paper: &str) -> anyhow::Result<Vec<Task>> {
    let file: ReproductionFile = toml::from_str(TASKS).context("tasks.toml")?;
    Ok(file.reproduction.into_iter().filter(|task| task.paper == paper).collect())
}

impl Task {
    /// Its rows with targets 1 and -1, or what is missing.
    pub(crate) fn rows(&self, data: Option<&Path>) -> anyhow::Result<Result<Dataset, String>> {
        let read = match self.read(data, &self.train)? {
            Ok(read) => self.signed(&read)?,
            Err(missing) => return Ok(Err(missing)),
        };
        let examples = self.scaled(&read.examples, &read.examples)?;
        Ok(Ok(Dataset { examples, ..read }))
    }

    /// Training examples and test queries, or what is missing.
    pub(crate) fn parts(
        &self,
        data: Option<&Path>,
    ) -> anyhow::Result<Result<(Dataset, Matrix), String>> {
        let all = match self.read(data, &self.train)? {
            Ok(read) => self.signed(&read)?,
            Err(missing) => return Ok(Err(missing)),
        };
        let number = |text: &Option<String>, name: &str| -> Option<usize> {
            text.as_deref()?.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')?.parse().ok()
        };
        let count = all.examples.rows();
        let first = number(&self.rows, "first").unwrap_or(count).min(count);
        let (mut used, mut held_out): (Vec<usize>, Vec<usize>) = ((0..first).collect(), Vec::new());
        if let Some(every) = number(&self.queries, "every") {
            (held_out, used) = used.into_iter().partition(|row| row % every == every - 1);
        } else if let Some(after) = number(&self.queries, "after") {
            held_out = (first..(first + after).min(count)).collect();
        }
        let queries = if self.test.is_empty() {
            all.examples.select(held_out)
        } else {
            match self.read(data, &self.test)? {
                Ok(read) => self.signed(&read)?.examples,
                Err(missing) => return Ok(Err(missing)),
            }
        };
        let Targets::Numbers(signs) = &all.targets else { bail!("targets are numbers") };
        let targets = Targets::Numbers(used.iter().map(|row| signs[*row]).collect());
        let unscaled = all.examples.select(used);
        let (examples, queries) =
            (self.scaled(&unscaled, &unscaled)?, self.scaled(&unscaled, &queries)?);
        Ok(Ok((Dataset { examples, targets, names: None }, queries)))
    }

    /// Rows that are kept, with targets 1 and -1.
    fn signed(&self, read: &Dataset) -> anyhow::Result<Dataset> {
        let labels: Vec<String> = match &read.targets {
            Targets::Numbers(numbers) => numbers.iter().map(ToString::to_string).collect(),
            Targets::Names(names) => names.clone(),
            Targets::Absent => bail!("{}: the rows carry no labels", self.name),
        };
        let is_kept = |label: &String| {
            self.keep.is_empty() || self.keep.iter().any(|keep| keep.to_string() == *label)
        };
        let kept: Vec<usize> = (0..labels.len()).filter(|row| is_kept(&labels[*row])).collect();
        let is_positive = |label: &String| match self.above {
            Some(above) => label.parse::<f64>().is_ok_and(|value| value > above),
            None => *label == self.positive,
        };
        let sign = |row: &usize| if is_positive(&labels[*row]) { 1.0 } else { -1.0 };
        let targets = Targets::Numbers(kept.iter().map(sign).collect());
        Ok(Dataset { examples: read.examples.select(kept), targets, names: None })
    }

    fn read(
        &self,
        data: Option<&Path>,
        names: &[String],
    ) -> anyhow::Result<Result<Dataset, String>> {
        if self.reader == "crescents" {
            return crescents(&names[0]).map(Ok);
        }
        let label = self.label.as_deref().unwrap_or("guess").parse();
        let label = label.unwrap_or_else(|never| match never {});
        let options = Options {
            format: Some(self.reader.clone()),
            label,
            one_hot: self.one_hot.clone(),
            ..Options::default()
        };
        if let Some((name, bytes)) = EMBEDDED.iter().find(|(name, _)| *name == names[0]) {
            let mut chunks = read::from_packed(Cursor::new(*bytes), name, &options)?;
            return Ok(Ok(read::read_all(&mut *chunks)?));
        }
        let Some(folder) = data else {
            return Ok(Err(format!("--data DIR must name a folder with {}", names[0])));
        };
        let mut files = Vec::new();
        for name in names {
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
        if self.reader == "words" {
            let text = std::fs::read_to_string(&files[0]);
            return words(&text.with_context(|| files[0].display().to_string())?).map(Ok);
        }
        let options = Options { labels: files.get(1).cloned(), ..options };
        let read = read::dataset(&files[0], &options);
        Ok(Ok(read.with_context(|| files[0].display().to_string())?))
    }

    /// Rows scaled by what is fitted to the examples.
    fn scaled(&self, examples: &Matrix, rows: &Matrix) -> anyhow::Result<Matrix> {
        let Some(scale) = &self.scale else { return Ok(rows.clone()) };
        if let Ok(recipe) = SCALINGS.parse(scale) {
            return Ok(recipe.fit(examples)?.apply(rows)?);
        }
        let inside = scale.strip_prefix("divide(").and_then(|rest| rest.strip_suffix(')'));
        let divisor: f64 = inside
            .and_then(|text| text.parse().ok())
            .with_context(|| format!("{}: no scale '{scale}'", self.name))?;
        let dense = rows.to_dense();
        let values = dense.as_dense().unwrap_or_default().iter().map(|x| x / divisor).collect();
        Ok(Matrix::dense(rows.columns(), values)?)
    }
}

/// Text with a line of names, then numbers between spaces, the label last.
fn words(text: &str) -> anyhow::Result<Dataset> {
    let (mut values, mut labels, mut columns) = (Vec::new(), Vec::new(), 0);
    for (number, line) in (2..).zip(text.lines().skip(1)) {
        let read: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
        let mut read = read.with_context(|| format!("line {number}"))?;
        let Some(label) = read.pop() else { continue };
        columns = read.len();
        values.extend(read);
        labels.push(label);
    }
    let examples = Matrix::dense(columns, values)?;
    anyhow::ensure!(examples.rows() == labels.len(), "lines differ in length");
    Ok(Dataset { examples, targets: Targets::Numbers(labels), names: None })
}

/// Synthetic rows: count, noise, seed.
fn crescents(text: &str) -> anyhow::Result<Dataset> {
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|word| word.trim().parse()).collect();
    match numbers?[..] {
        [rows, noise, seed] => Ok(synthetic::crescents(rows as usize, noise, seed as u64)),
        _ => bail!("crescents take a count, a noise and a seed, not '{text}'"),
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
