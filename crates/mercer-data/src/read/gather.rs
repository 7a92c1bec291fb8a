//! Joins the chunks of a reader to one dataset.

use crate::{DataError, Dataset, Matrix, MatrixBuilder, Targets};

/// Chunks of one file put below each other.
pub(super) struct Gathered {
    columns: usize,
    rows: Rows,
    targets: Targets,
    names: Option<Vec<String>>,
}

enum Rows {
    Dense(Vec<f64>),
    Sparse(MatrixBuilder),
}

impl Gathered {
    pub(super) fn new(first: &Dataset) -> Self {
        let rows = match first.examples.as_dense() {
            Some(_) => Rows::Dense(Vec::new()),
            None => Rows::Sparse(MatrixBuilder::new()),
        };
        let targets = match first.targets {
            Targets::Absent => Targets::Absent,
            Targets::Numbers(_) => Targets::Numbers(Vec::new()),
            Targets::Names(_) => Targets::Names(Vec::new()),
        };
        let mut gathered = Self { columns: 0, rows, targets, names: first.names.clone() };
        gathered.push(first);
        gathered
    }

    pub(super) fn push(&mut self, chunk: &Dataset) {
        self.columns = self.columns.max(chunk.examples.columns());
        match (&mut self.rows, chunk.examples.as_dense()) {
            (Rows::Dense(values), Some(more)) => values.extend_from_slice(more),
            (Rows::Dense(_), None) => unreachable!("a reader yields one kind of rows"),
            (Rows::Sparse(builder), _) => {
                builder.append(&chunk.examples, 0..chunk.examples.rows());
            }
        }
        join_targets(&mut self.targets, &chunk.targets);
    }

    pub(super) fn finish(self) -> Result<Dataset, DataError> {
        let examples = match self.rows {
            Rows::Dense(values) => Matrix::dense(self.columns, values)?,
            Rows::Sparse(builder) => builder.finish(self.columns),
        };
        if !self.targets.is_empty() && examples.rows() == 0 {
            return Err(DataError::NoFeatures);
        }
        Ok(Dataset { examples, targets: self.targets, names: self.names })
    }
}

/// Adds targets at the end. If one of them is not a number, all become texts: `1`, `2`, `unknown` are three
/// class names.
pub fn join_targets(all: &mut Targets, more: &Targets) {
    match (&mut *all, more) {
        (Targets::Numbers(numbers), Targets::Numbers(more)) => numbers.extend_from_slice(more),
        (Targets::Names(names), Targets::Names(more)) => names.extend_from_slice(more),
        (Targets::Names(names), Targets::Numbers(more)) => {
            names.extend(more.iter().map(ToString::to_string));
        }
        (Targets::Numbers(numbers), Targets::Names(more)) => {
            let mut names: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            names.extend_from_slice(more);
            *all = Targets::Names(names);
        }
        (Targets::Absent, _) | (_, Targets::Absent) => {}
    }
}
