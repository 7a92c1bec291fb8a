//! The rows of a problem as Mercer trains on them, and how LIBSVM groups them by class.

use std::sync::Arc;

use mercer::data::{Matrix, MatrixBuilder};
use mercer::kernel::{Gram, KernelRef};

use crate::layout::{kernel_type, svm_node, svm_parameter};
use crate::pack;

/// Rows with the kernel between them.
#[derive(Debug, Clone)]
pub(crate) struct Examples {
    pub(crate) rows: Matrix,
    pub(crate) kernel: KernelRef,
}

impl Examples {
    /// The rows of a problem, or a sentence that says why they cannot be used.
    pub(crate) fn new(rows: &[&[svm_node]], param: &svm_parameter) -> Result<Self, String> {
        if param.kernel_type == kernel_type::PRECOMPUTED {
            return Self::given(rows);
        }
        let kernel = pack::kernel(param).ok_or_else(|| {
            let svm_parameter { gamma, degree, coef0, .. } = param;
            format!("there is no such kernel (gamma {gamma}, degree {degree}, coef0 {coef0})")
        })?;
        let rows = match pack::matrix(rows.iter().copied()) {
            Some(rows) => rows,
            None => sorted(rows)?,
        };
        Ok(Self { rows, kernel })
    }

    /// Rows of kernel values: the first entry holds the number of the row, the others its values, by their place.
    fn given(rows: &[&[svm_node]]) -> Result<Self, String> {
        let width = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let mut values = vec![0.0; rows.len() * width];
        let mut serials = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let serial = row.first().map_or(0.0, |node| node.value);
            if !(serial >= 1.0 && serial < width as f64) {
                return Err(format!("row {}: {serial} is not a sample serial number", at + 1));
            }
            serials.push(serial as usize);
            for (place, node) in row.iter().enumerate() {
                if !node.value.is_finite() {
                    return Err(format!("row {}: {} is not finite", at + 1, node.value));
                }
                values[at * width + place] = node.value;
            }
        }
        let said = |error: mercer::data::DataError| error.to_string();
        let values = Matrix::dense(width, values).map_err(said)?;
        let examples = Gram::serials(serials.len()).map_err(said)?;
        Ok(Self { rows: examples, kernel: Arc::new(Gram::with_columns(values, serials)) })
    }

    /// Some of the rows.
    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        Self { rows: self.rows.select(rows.iter().copied()), kernel: self.kernel.clone() }
    }
}

/// Rows whose indices do not increase: sorted, and values of one index added.
fn sorted(rows: &[&[svm_node]]) -> Result<Matrix, String> {
    let mut builder = MatrixBuilder::new();
    for (at, row) in rows.iter().enumerate() {
        let mut nodes: Vec<(u32, f64)> = Vec::with_capacity(row.len());
        for node in *row {
            let column = u32::try_from(node.index);
            let column = column
                .map_err(|_| format!("row {}: the index {} is negative", at + 1, node.index))?;
            nodes.push((column, node.value));
        }
        nodes.sort_by_key(|(column, _)| *column);
        nodes.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            kept.1 += if is_same { later.1 } else { 0.0 };
            is_same
        });
        if let Some((column, value)) = nodes.iter().find(|(_, value)| !value.is_finite()) {
            return Err(format!("row {}: index {column}: {value} is not finite", at + 1));
        }
        builder.push_entries(nodes.iter().map(|node| node.0), nodes.iter().map(|node| node.1));
    }
    let columns = builder.width();
    Ok(builder.finish(columns))
}

/// Rows grouped by class as LIBSVM does it.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    /// Whole numbers, in order of appearance; +1 before -1 where these are the two.
    pub(crate) labels: Vec<i32>,
    /// Rows of the first class, then of the second, and so on.
    pub(crate) order: Vec<usize>,
    /// Where each class begins in `order`, and the end.
    pub(crate) starts: Vec<usize>,
}

impl Groups {
    pub(crate) fn new(targets: &[f64]) -> Self {
        let mut labels: Vec<i32> = Vec::new();
        let mut class_of: Vec<usize> = Vec::with_capacity(targets.len());
        for target in targets {
            // C's conversion: towards zero.
            let label = *target as i32;
            let known = labels.iter().position(|known| *known == label);
            class_of.push(known.unwrap_or_else(|| {
                labels.push(label);
                labels.len() - 1
            }));
        }
        if labels == [-1, 1] {
            labels.reverse();
            class_of.iter_mut().for_each(|class| *class = 1 - *class);
        }
        let (mut order, mut starts) = (Vec::with_capacity(targets.len()), vec![0]);
        for class in 0..labels.len() {
            order.extend((0..targets.len()).filter(|row| class_of[*row] == class));
            starts.push(order.len());
        }
        Self { labels, order, starts }
    }

    pub(crate) fn classes(&self) -> usize {
        self.labels.len()
    }

    /// Rows of a class.
    pub(crate) fn rows(&self, class: usize) -> &[usize] {
        &self.order[self.starts[class]..self.starts[class + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_come_in_order_of_appearance_and_plus_one_first() {
        let groups = Groups::new(&[3.0, 1.7, 3.2, 1.0, 7.0]);
        assert_eq!(groups.labels, [3, 1, 7]);
        assert_eq!(groups.order, [0, 2, 1, 3, 4]);
        assert_eq!(groups.rows(1), [1, 3]);
        let groups = Groups::new(&[-1.0, 1.0, -1.0]);
        assert_eq!(
            (groups.labels.as_slice(), groups.rows(0)),
            ([1, -1].as_slice(), [1].as_slice())
        );
    }

    #[test]
    fn rows_in_disorder_are_sorted() {
        let node = |index, value| svm_node { index, value };
        let row = [node(3, 1.0), node(1, 2.0), node(3, 0.5)];
        let matrix = sorted(&[&row]).unwrap();
        assert_eq!(matrix.row(0).nonzeros().collect::<Vec<_>>(), [(1, 2.0), (3, 1.5)]);
        assert!(sorted(&[&[node(-7, 1.0)]]).is_err());
        assert!(sorted(&[&[node(1, f64::NAN)]]).is_err());
    }
}
