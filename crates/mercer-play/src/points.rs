//! Points in the plane with their classes: clicked, drawn from an example, or columns of a table. How a table is read is in
//! `table.rs`.

use mercer::data::scale;
use mercer::data::{Dataset, Matrix, Row, Scaling, Targets, synthetic};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};

/// Points, at most; a table may have so many rows.
pub const MOST: usize = 20_000;
/// Classes, at most: pairs of classes grow with the square.
pub const MOST_CLASSES: usize = 10;
/// Examples by name.
pub const EXAMPLES: [&str; 4] = ["crescents", "ripley", "rings", "three clouds"];
/// The seed of all examples.
const SEED: u64 = 1;

/// Points with their classes.
#[derive(Debug, Clone)]
pub struct Points {
    /// Two values for each point.
    pub values: Vec<[f64; 2]>,
    /// The class of each.
    pub labels: Vec<usize>,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// Names of the two columns.
    pub names: [String; 2],
    /// Where they come from: an example, a table, or clicks.
    pub source: String,
    /// Whether columns are brought to the same scale before training; clicked points are not.
    pub scaling: Option<Scaling>,
    /// The target column of the table.
    pub target: Option<String>,
    /// The part of the plane that is drawn.
    pub ranges: [[f64; 2]; 2],
}

/// A point of a request: two values and the class.
pub type Clicked = (f64, f64, usize);

impl Points {
    /// Points of an example.
    ///
    /// # Errors
    /// If there is no such example, or there would be too many points.
    pub fn example(name: &str, rows: usize) -> anyhow::Result<Self> {
        anyhow::ensure!((2..=MOST).contains(&rows), "an example has 2 to {MOST} points");
        let data = match name {
            "crescents" => synthetic::crescents(rows, 0.2, SEED),
            "ripley" => synthetic::ripley(rows, SEED),
            "rings" => return Ok(rings(rows)),
            "three clouds" => return Ok(three_clouds(rows)),
            other => {
                let known = EXAMPLES.join(", ");
                anyhow::bail!("there is no example '{other}'; there are {known}")
            }
        };
        let Targets::Numbers(targets) = &data.targets else {
            anyhow::bail!("examples have classes")
        };
        let labels = targets.iter().map(|target| usize::from(*target > 0.0)).collect();
        Ok(Self::of(pairs(&data.examples), labels, &["A", "B"], name))
    }

    fn of(values: Vec<[f64; 2]>, labels: Vec<usize>, classes: &[&str], source: &str) -> Self {
        let ranges = ranges(&values);
        Self {
            values,
            labels,
            classes: classes.iter().map(|name| (*name).to_owned()).collect(),
            names: ["x".to_owned(), "y".to_owned()],
            source: source.to_owned(),
            scaling: None,
            target: None,
            ranges,
        }
    }

    /// Points of a table: columns of different units are brought to the same scale.
    ///
    /// # Errors
    /// If a column cannot be scaled.
    pub fn of_columns(
        values: Vec<[f64; 2]>,
        labels: Vec<usize>,
        classes: &[String],
        names: [&str; 2],
        source: &str,
    ) -> anyhow::Result<Self> {
        let matrix = matrix(&values)?;
        let scaling = scale::parse("standard")?.fit(&matrix)?;
        let points = Self::of(values, labels, &[], source);
        Ok(Self {
            classes: classes.to_vec(),
            names: names.map(str::to_owned),
            scaling: Some(scaling),
            ..points
        })
    }

    /// Takes the points of a request instead. The plane and its columns stay.
    ///
    /// # Errors
    /// If there are too many points or classes, or a value is not finite.
    pub fn replace(
        &mut self,
        points: &[Clicked],
        classes: Option<&[String]>,
    ) -> anyhow::Result<()> {
        let classes = classes.unwrap_or(&self.classes).to_vec();
        let most = MOST_CLASSES;
        anyhow::ensure!(points.len() <= MOST, "{} points: at most {MOST} are taken", points.len());
        anyhow::ensure!(classes.len() <= most, "{} classes: at most {most}", classes.len());
        let is_wrong = |(_, _, class): &Clicked| *class >= classes.len();
        anyhow::ensure!(!points.iter().any(is_wrong), "a point has a class that is not there");
        let is_finite = |(x, y, _): &Clicked| x.is_finite() && y.is_finite();
        anyhow::ensure!(points.iter().all(is_finite), "a point is not finite");
        self.values = points.iter().map(|(x, y, _)| [*x, *y]).collect();
        self.labels = points.iter().map(|(_, _, class)| *class).collect();
        self.classes = classes;
        Ok(())
    }

    /// What is missing for a training, if anything is.
    pub fn lack(&self) -> Option<&'static str> {
        let mut classes = self.labels.clone();
        classes.sort_unstable();
        classes.dedup();
        match classes.len() {
            0 => Some("There is no point yet: click into the plane."),
            1 => Some("All points are of one class: choose another class and click."),
            _ => None,
        }
    }

    /// The points as the machine sees them.
    ///
    /// # Errors
    /// If a scaled value overflows.
    pub fn dataset(&self) -> anyhow::Result<Dataset> {
        let mut examples = matrix(&self.values)?;
        if let Some(scaling) = &self.scaling {
            examples = scaling.apply(&examples)?;
        }
        let label = |class: &usize| self.classes[*class].clone();
        let targets = Targets::Names(self.labels.iter().map(label).collect());
        Ok(Dataset { examples, targets, names: Some(self.names.to_vec()) })
    }

    /// The points for the page.
    pub fn object(&self) -> Value {
        let point = |([x, y], class): (&[f64; 2], &usize)| json!([x, y, class]);
        json!({
            "points": self.values.iter().zip(&self.labels).map(point).collect::<Vec<_>>(),
            "classes": self.classes, "names": self.names, "source": self.source, "ranges": self.ranges,
        })
    }
}

/// Rows of two columns.
///
/// # Errors
/// If a value is not finite.
pub fn matrix(values: &[[f64; 2]]) -> anyhow::Result<Matrix> {
    Ok(Matrix::dense(2, values.as_flattened().to_vec())?)
}

/// The rows of a matrix with two columns.
fn pairs(matrix: &Matrix) -> Vec<[f64; 2]> {
    let mut pair = [0.0; 2];
    let of = |row: Row<'_>| {
        row.write_dense(&mut pair);
        pair
    };
    matrix.iter().map(of).collect()
}

/// Least and largest value of both columns, with some space around them.
fn ranges(values: &[[f64; 2]]) -> [[f64; 2]; 2] {
    [0, 1].map(|column| {
        let of = values.iter().map(|point| point[column]);
        let (low, high) = of.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let space = if high > low { 0.08 * (high - low) } else { 1.0 };
        if low.is_finite() { [low - space, high + space] } else { [0.0, 1.0] }
    })
}

/// A narrow ring of one class within a wide ring of the other.
fn rings(rows: usize) -> Points {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut point = |class: usize| {
        let angle = std::f64::consts::TAU * rng.random::<f64>();
        let radius = [0.4, 1.0][class] + 0.12 * synthetic::normal(&mut rng);
        [radius * angle.cos(), radius * angle.sin()]
    };
    let labels: Vec<usize> = (0..rows).map(|row| row % 2).collect();
    let values = labels.iter().map(|class| point(*class)).collect();
    Points::of(values, labels, &["A", "B"], "rings")
}

/// Three round clouds that touch.
fn three_clouds(rows: usize) -> Points {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let centres = [[0.0, 0.0], [1.0, 0.0], [0.5, 0.9]];
    let labels: Vec<usize> = (0..rows).map(|row| row % 3).collect();
    let mut point =
        |class: &usize| centres[*class].map(|at| at + 0.25 * synthetic::normal(&mut rng));
    let values = labels.iter().map(&mut point).collect();
    Points::of(values, labels, &["A", "B", "C"], "three clouds")
}
