//! The sets, as `[[yw12]]` of `tasks.toml` defines them.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use mercer::data::read::{self, Options};
use mercer::data::scale::SCALINGS;
use mercer::data::{Dataset, Matrix, MatrixBuilder, Targets};
use serde::Deserialize;

use crate::Session;
use crate::tasks::TASKS;

/// One set of rows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    pub(super) name: String,
    reader: String,
    train: Vec<String>,
    #[serde(default)]
    test: Vec<String>,
    label: Option<String>,
    #[serde(default)]
    one_hot: Vec<String>,
    queries: Option<String>,
    positive: Option<String>,
    prepare: String,
    /// The penalty at which all methods are compared.
    #[serde(rename = "C")]
    pub(super) c: f64,
    pub(super) penalties: Vec<f64>,
    /// The penalty of the linear machine, where the paper gives it another one.
    #[serde(rename = "linear_C")]
    pub(super) linear_c: Option<f64>,
    pub(super) validation: usize,
    #[serde(default)]
    pub(super) sweeps: bool,
}

#[derive(Debug, Deserialize)]
struct Yw12File {
    yw12: Vec<Set>,
}

/// Rows to train on, and rows to predict.
pub(super) struct SetRows {
    pub(super) examples: Dataset,
    pub(super) queries: Dataset,
}

/// All sets.
pub(super) fn all() -> anyhow::Result<Vec<Set>> {
    let file: Yw12File = toml::from_str(TASKS).context("tasks.toml")?;
    Ok(file.yw12)
}

impl Set {
    /// Whether its files lie in the data folder.
    pub(super) fn is_there(&self, session: &Session<'_>) -> bool {
        let folder = session.data();
        files(folder.as_deref(), &self.train).is_ok()
            && files(folder.as_deref(), &self.test).is_ok()
    }

    /// Its rows, at most `most` of them for training, or what is missing.
    pub(super) fn rows(
        &self,
        data: Option<&Path>,
        most: usize,
    ) -> anyhow::Result<Result<SetRows, String>> {
        let train = match files(data, &self.train) {
            Ok(files) => self.read(&files)?,
            Err(missing) => return Ok(Err(missing)),
        };
        let (examples, queries) = if self.test.is_empty() {
            let every: usize = self.number("queries", "every")?;
            let (held_out, used): (Vec<usize>, Vec<usize>) =
                (0..train.examples.rows()).partition(|row| row % every == every - 1);
            (train.select(&used), train.select(&held_out))
        } else {
            match files(data, &self.test) {
                Ok(files) => (train, self.read(&files)?),
                Err(missing) => return Ok(Err(missing)),
            }
        };
        let examples = first(examples, most);
        let columns = examples.examples.columns().max(queries.examples.columns());
        let (examples, queries) = (widened(examples, columns)?, widened(queries, columns)?);
        let (left, right) = self.prepared(&examples.examples, &queries.examples)?;
        let examples = Dataset { examples: left, ..examples };
        Ok(Ok(SetRows { examples, queries: Dataset { examples: right, ..queries } }))
    }

    fn number<T: std::str::FromStr>(&self, key: &str, name: &str) -> anyhow::Result<T> {
        let text = if key == "queries" { self.queries.as_deref() } else { Some(&*self.prepare) };
        text.and_then(|text| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')'))
            .and_then(|inside| inside.parse().ok())
            .with_context(|| format!("{}: {key} = {text:?}", self.name))
    }

    fn read(&self, files: &[PathBuf]) -> anyhow::Result<Dataset> {
        let label = self.label.as_deref().unwrap_or("guess").parse();
        let options = Options {
            format: Some(self.reader.clone()),
            label: label.unwrap_or_else(|never| match never {}),
            labels: files.get(1).cloned(),
            one_hot: self.one_hot.clone(),
            ..Options::default()
        };
        let read = read::dataset(&files[0], &options);
        let read = read.with_context(|| files[0].display().to_string())?;
        let targets = match (&self.positive, &read.targets) {
            (Some(positive), Targets::Names(names)) => {
                names.iter().map(|name| sign(name.trim() == positive)).collect()
            }
            (Some(positive), Targets::Numbers(numbers)) => {
                numbers.iter().map(|number| sign(number.to_string() == *positive)).collect()
            }
            (None, Targets::Numbers(numbers)) => numbers.clone(),
            _ => bail!("{}: the labels are not numbers", self.name),
        };
        Ok(Dataset { targets: Targets::Numbers(targets), names: None, ..read })
    }

    fn prepared(&self, examples: &Matrix, queries: &Matrix) -> anyhow::Result<(Matrix, Matrix)> {
        let each = |change: &dyn Fn(&Matrix) -> Matrix| (change(examples), change(queries));
        Ok(match self.prepare.as_str() {
            "min_max" => {
                let scaling = SCALINGS.parse("min_max(low=0, high=1)")?.fit(examples)?;
                let (left, right) = (scaling.apply(examples)?, scaling.apply(queries)?);
                (left.compact(), within(&right).compact())
            }
            "max_abs" => {
                let scaling = SCALINGS.parse("max_abs")?.fit(examples)?;
                (scaling.apply(examples)?.compact(), scaling.apply(queries)?.compact())
            }
            "gradients" => each(&gradients),
            "shares" => each(&|rows| rescaled(rows, |_, x| x, |x| x.iter().sum())),
            "tf_idf" => {
                let rarity = rarity(examples);
                let term = |column: u32, count: f64| count.ln_1p() * rarity[column as usize];
                let length = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
                each(&|rows| rescaled(rows, term, length))
            }
            _ => {
                let divisor: f64 = self.number("prepare", "divide")?;
                each(&|rows| rescaled(rows, |_, x| x / divisor, |_| 1.0))
            }
        })
    }
}

/// Endings of packed files.
const ENDINGS: [&str; 5] = ["", ".gz", ".bz2", ".xz", ".zst"];

/// The files of these names, packed or not, in the folder or in `libsvm` in it; or what is missing.
fn files(data: Option<&Path>, names: &[String]) -> Result<Vec<PathBuf>, String> {
    let Some(folder) = data else {
        return Err(format!("--data DIR must name a folder with {}", names[0]));
    };
    let find = |name: &String| {
        let folders = [folder.to_owned(), folder.join("libsvm")];
        let found = folders.iter().find_map(|folder| {
            let packed = ENDINGS.iter().map(|ending| folder.join(format!("{name}{ending}")));
            packed.into_iter().find(|path| path.exists())
        });
        found.ok_or_else(|| format!("there is no {}", folder.join(name).display()))
    };
    names.iter().map(find).collect()
}

fn sign(is_positive: bool) -> f64 {
    if is_positive { 1.0 } else { -1.0 }
}

fn first(data: Dataset, most: usize) -> Dataset {
    if data.examples.rows() <= most {
        return data;
    }
    data.select(&(0..most).collect::<Vec<_>>())
}

fn widened(data: Dataset, columns: usize) -> anyhow::Result<Dataset> {
    Ok(Dataset { examples: data.examples.with_columns(columns)?, ..data })
}

/// Values below zero, which a query may have after min-max, as zero.
fn within(rows: &Matrix) -> Matrix {
    rescaled(rows, |_, x| x.max(0.0), |_| 1.0)
}

/// Every value changed, then every row divided by its size.
fn rescaled(
    rows: &Matrix,
    change: impl Fn(u32, f64) -> f64,
    size: impl Fn(&[f64]) -> f64,
) -> Matrix {
    let mut made = MatrixBuilder::new();
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for row in rows.iter() {
        columns.clear();
        values.clear();
        for (column, value) in row.nonzeros() {
            columns.push(column);
            values.push(change(column, value));
        }
        let size = size(&values);
        let divisor = if size > 0.0 { size } else { 1.0 };
        for (column, value) in columns.iter().zip(&values) {
            made.push(*column, value / divisor);
        }
        made.end_row();
    }
    made.finish(rows.columns())
}

/// `ln(rows / rows with the word)` of each column.
fn rarity(rows: &Matrix) -> Vec<f64> {
    let mut seen = vec![0usize; rows.columns()];
    for row in rows.iter() {
        row.nonzeros().for_each(|(column, _)| seen[column as usize] += 1);
    }
    seen.iter().map(|seen| (rows.rows() as f64 / (*seen).max(1) as f64).ln()).collect()
}

/// Pixels on a side of a cell, and directions.
const CELL: usize = 4;
const DIRECTIONS: usize = 9;

/// Histograms of gradients of square images: each pixel gives the size of its gradient to the two nearest of
/// nine directions (of half a turn) of its cell; a row's numbers are divided by their largest.
fn gradients(images: &Matrix) -> Matrix {
    let side = images.columns().isqrt();
    let cells = side.div_ceil(CELL);
    let mut made = MatrixBuilder::new();
    let (mut image, mut sums) =
        (vec![0.0; images.columns()], vec![0.0f64; cells * cells * DIRECTIONS]);
    for row in images.iter() {
        image.fill(0.0);
        sums.fill(0.0);
        row.nonzeros().for_each(|(column, value)| image[column as usize] = value);
        let pixel = |x: usize, y: usize| {
            // One place to the right and below, so that the border has neighbours.
            let inside = (1..=side).contains(&x) && (1..=side).contains(&y);
            if inside { image[(y - 1) * side + x - 1] } else { 0.0 }
        };
        for y in 0..side {
            for x in 0..side {
                let across = pixel(x + 2, y + 1) - pixel(x, y + 1);
                let down = pixel(x + 1, y + 2) - pixel(x + 1, y);
                let size = across.hypot(down);
                if size == 0.0 {
                    continue;
                }
                let turn = down.atan2(across).rem_euclid(std::f64::consts::PI);
                let place = turn / std::f64::consts::PI * DIRECTIONS as f64;
                let (low, share) = (place.floor(), place - place.floor());
                let start = (y / CELL * cells + x / CELL) * DIRECTIONS;
                sums[start + low as usize % DIRECTIONS] += size * (1.0 - share);
                sums[start + (low as usize + 1) % DIRECTIONS] += size * share;
            }
        }
        let largest = sums.iter().copied().fold(0.0, f64::max);
        for (column, sum) in (0u32..).zip(&sums).filter(|(_, sum)| **sum > 0.0) {
            made.push(column, sum / largest);
        }
        made.end_row();
    }
    made.finish(sums.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_has_one_direction() {
        // The right half of an image of 8 x 8 pixels is white: all gradients but those of the border point
        // across, and cells left of the edge are empty but for the border of their neighbours.
        let pixel = |at: usize| f64::from(u8::from(at % 8 >= 4));
        let image = Matrix::dense(64, (0..64).map(pixel).collect()).unwrap();
        let row: Vec<(u32, f64)> = gradients(&image).row(0).nonzeros().collect();
        let across = row.iter().filter(|(column, _)| column % 9 == 0).map(|(_, x)| x).sum::<f64>();
        let all = row.iter().map(|(_, x)| x).sum::<f64>();
        assert!(across > 0.6 * all, "{row:?}");
        assert!(row.iter().all(|(_, x)| (0.0..=1.0).contains(x)));
    }

    #[test]
    fn every_set_is_described() {
        let sets = all().unwrap();
        assert_eq!(sets.len(), 12);
        for set in sets {
            assert!(set.rows(None, 10).unwrap().is_err_and(|text| text.contains("--data")));
            assert!(set.penalties.contains(&set.c), "{}", set.name);
        }
    }
}
