//! A table of the user: its columns and principal components, two of which become the plane. The points themselves are in
//! `points.rs`.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use mercer::data::limits::check_table;
use mercer::data::read::{self, Options};
use mercer::data::{Dataset, Matrix, Targets, scale};
use mercer::kernel::eigen;
use serde_json::{Value, json};

use crate::points::{MOST, MOST_CLASSES, Points};

/// Components that can be chosen.
const COMPONENTS: usize = 4;
/// Wider tables have no components: the matrix of covariances would be too large.
const DIRECTED: usize = 1000;
/// Of more columns than these, components are shown first.
const FEW: usize = 4;
/// Columns that can be chosen, at most.
const CHOSEN: usize = 2000;
/// Bytes that a table and its rows may take.
const MEMORY: usize = 1 << 30;

/// Bytes that a packed file may become, at most.
const UNPACKED: u64 = 256 << 20;

/// A table: rows with classes.
#[derive(Debug)]
pub struct Table {
    name: String,
    rows: Matrix,
    labels: Vec<usize>,
    classes: Vec<String>,
    target: Option<String>,
    columns: Vec<String>,
    /// Coordinates of all rows along the principal components, component after component.
    components: Vec<Vec<f64>>,
}

impl Table {
    /// Reads a file; `label` says which column holds the classes (empty: guessed).
    ///
    /// # Errors
    /// As [`Table::read`], or if the file has more bytes than a table may.
    pub fn open(path: &Path, label: &str) -> anyhow::Result<Self> {
        let mut bytes = Vec::new();
        File::open(path)?.take(MEMORY as u64 + 1).read_to_end(&mut bytes)?;
        anyhow::ensure!(bytes.len() <= MEMORY, "the file has more than {} MiB", MEMORY >> 20);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        Self::read(bytes, &name.unwrap_or_default(), label)
    }

    /// Reads the bytes of a file; `name` says what it is, `label` which column holds the classes (empty: guessed).
    ///
    /// # Errors
    /// If it cannot be read, has too many rows or classes, or no classes.
    pub fn read(bytes: Vec<u8>, name: &str, label: &str) -> anyhow::Result<Self> {
        let label = if label.is_empty() { "guess" } else { label };
        let label = label.parse().unwrap_or_else(|never| match never {});
        let options = Options { label, unpacked_limit: UNPACKED, ..Options::default() };
        let mut chunks = read::from_packed(Cursor::new(bytes), &name.to_lowercase(), &options)?;
        // One row more than is taken tells that there are too many.
        let (data, _) = read::read_first_within(&mut *chunks, MOST + 1, MEMORY)?;
        let target = chunks.target().and_then(|target| target.column);
        Self::new(name, data, target)
    }

    fn new(name: &str, data: Dataset, target: Option<String>) -> anyhow::Result<Self> {
        let (count, width) = (data.examples.rows(), data.examples.columns());
        anyhow::ensure!(count > 0, "{name} has no rows");
        anyhow::ensure!(
            count <= MOST,
            "{name} has more than {MOST} rows, which are all that is taken"
        );
        anyhow::ensure!(width >= 2, "{name} has one column: a plane needs two");
        check_table("the list of columns", width, data.examples.nonzeros())?;
        let texts: Vec<String> = match &data.targets {
            Targets::Absent => anyhow::bail!("{name} has no column of classes"),
            Targets::Numbers(numbers) => numbers.iter().map(ToString::to_string).collect(),
            Targets::Names(names) => names.clone(),
        };
        let mut classes: Vec<String> = Vec::new();
        let mut labels = Vec::with_capacity(count);
        for text in texts {
            let known = classes.iter().position(|class| *class == text);
            labels.push(known.unwrap_or(classes.len()));
            if known.is_none() {
                let most = MOST_CLASSES;
                let what = "the label column of";
                anyhow::ensure!(classes.len() < most, "{what} {name} has more than {most} values");
                classes.push(text);
            }
        }
        let named = |column: usize| format!("column {}", column + 1);
        let columns = data.names.unwrap_or_else(|| (0..width).map(named).collect());
        let components = components(&data.examples)?;
        let rows = data.examples;
        Ok(Self { name: name.to_owned(), rows, labels, classes, target, columns, components })
    }

    /// Names of what can be chosen.
    fn axes(&self) -> Vec<String> {
        let own = self.columns.iter().take(CHOSEN).cloned();
        let components = (1..=self.components.len()).map(|number| format!("component {number}"));
        own.chain(components).collect()
    }

    /// Values of all rows along an axis.
    fn values(&self, axis: &str) -> anyhow::Result<Vec<f64>> {
        if let Some(column) = self.columns.iter().position(|name| name == axis) {
            return Ok(self.rows.iter().map(|row| row.get(column)).collect());
        }
        let number = axis.strip_prefix("component ").and_then(|text| text.parse::<usize>().ok());
        let component = number.and_then(|number| self.components.get(number.checked_sub(1)?));
        let missing = || anyhow::anyhow!("{} has no column or component '{axis}'", self.name);
        component.cloned().ok_or_else(missing)
    }

    /// The points of two axes.
    ///
    /// # Errors
    /// If there is no such axis, or both are the same.
    pub fn points(&self, x: &str, y: &str) -> anyhow::Result<Points> {
        anyhow::ensure!(x != y, "a plane needs two different columns or components");
        let (first, second) = (self.values(x)?, self.values(y)?);
        let values = first.into_iter().zip(second).map(|(x, y)| [x, y]).collect();
        let points =
            Points::of_columns(values, self.labels.clone(), &self.classes, [x, y], &self.name)?;
        Ok(Points { target: self.target.clone(), ..points })
    }

    /// The points that are shown first: two columns of a narrow table, two components of a wide one.
    ///
    /// # Errors
    /// As [`Table::points`].
    pub fn first_points(&self) -> anyhow::Result<Points> {
        if self.columns.len() > FEW && self.components.len() >= 2 {
            return self.points("component 1", "component 2");
        }
        self.points(&self.columns[0], &self.columns[1])
    }

    /// What the page says of it.
    pub fn object(&self) -> Value {
        json!({
            "name": self.name, "rows": self.rows.rows(), "axes": self.axes(),
            "columns": self.columns.len(), "target": self.target,
        })
    }
}

/// Coordinates of rows along the principal components of their columns, each column at the same scale.
fn components(rows: &Matrix) -> anyhow::Result<Vec<Vec<f64>>> {
    let width = rows.columns();
    if width > DIRECTED {
        return Ok(Vec::new());
    }
    let scaled = scale::parse("standard")?.fit(rows)?.apply(rows)?;
    let mut covariance = vec![0.0; width * width];
    let mut row = vec![0.0; width];
    for values in scaled.iter() {
        values.write_dense(&mut row);
        for (a, line) in row.iter().zip(covariance.chunks_exact_mut(width)) {
            line.iter_mut().zip(&row).for_each(|(sum, b)| *sum += a * b);
        }
    }
    let Some((eigenvalues, vectors)) = eigen::symmetric(covariance, width) else {
        return Ok(Vec::new());
    };
    let mut order: Vec<usize> = (0..width).collect();
    order.sort_by(|a, b| eigenvalues[*b].total_cmp(&eigenvalues[*a]));
    let along = |place: &usize| {
        let direction = &vectors[place * width..(place + 1) * width];
        // Either sign is an eigenvector: the largest part is positive.
        let largest = direction.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()));
        let sign = if largest.unwrap_or(1.0) < 0.0 { -1.0 } else { 1.0 };
        let at = |row: mercer::data::Row<'_>| {
            sign * row.nonzeros().map(|(column, x)| x * direction[column as usize]).sum::<f64>()
        };
        scaled.iter().map(at).collect()
    };
    Ok(order.iter().take(COMPONENTS).map(along).collect())
}
