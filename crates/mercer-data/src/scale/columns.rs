//! Statistics of the columns of a matrix.

use crate::{DataError, Matrix, Row, limits};

/// Smallest and largest value, mean and standard deviation of each column, zeros included.
#[derive(Debug, Clone)]
pub struct ColumnStats {
    /// Smallest value.
    pub min: Vec<f64>,
    /// Largest value.
    pub max: Vec<f64>,
    /// Mean.
    pub mean: Vec<f64>,
    /// Standard deviation, of the rows as a population.
    pub std_dev: Vec<f64>,
}

impl ColumnStats {
    /// Two passes over the rows.
    ///
    /// # Errors
    /// If there are far more columns than values.
    pub fn of(examples: &Matrix) -> Result<Self, DataError> {
        let (rows, width) = (examples.rows() as f64, examples.columns());
        limits::check_table("the statistics of columns", width, examples.nonzeros())?;
        let mut count = vec![0usize; width];
        let (mut min, mut max) = (vec![f64::INFINITY; width], vec![f64::NEG_INFINITY; width]);
        let mut mean = vec![0.0; width];
        for (column, value) in examples.iter().flat_map(Row::nonzeros) {
            let column = column as usize;
            count[column] += 1;
            min[column] = min[column].min(value);
            max[column] = max[column].max(value);
            mean[column] += value / rows;
        }
        for column in (0..width).filter(|column| count[*column] < examples.rows()) {
            min[column] = min[column].min(0.0);
            max[column] = max[column].max(0.0);
        }
        for column in 0..width {
            // Rounding of the sum must not give a constant column a deviation.
            if min[column] == max[column] {
                mean[column] = min[column];
            }
        }
        // In units of the largest deviation: squares neither overflow nor vanish.
        let unit = |column: usize| {
            let mean: f64 = mean[column];
            (max[column] - mean).max(mean - min[column])
        };
        let units: Vec<f64> = (0..width).map(unit).collect();
        let mut std_dev = vec![0.0; width];
        for (column, value) in examples.iter().flat_map(Row::nonzeros) {
            let column = column as usize;
            if units[column] > 0.0 {
                std_dev[column] += ((value - mean[column]) / units[column]).powi(2) / rows;
            }
        }
        for column in (0..width).filter(|column| units[*column] > 0.0) {
            let zeros = examples.rows() as f64 - count[column] as f64;
            std_dev[column] += (mean[column] / units[column]).powi(2) * zeros / rows;
            std_dev[column] = std_dev[column].sqrt() * units[column];
        }
        Ok(Self { min, max, mean, std_dev })
    }

    /// Columns with one value in all rows.
    pub fn constants(&self) -> Vec<usize> {
        (0..self.min.len()).filter(|column| self.min[*column] == self.max[*column]).collect()
    }
}
