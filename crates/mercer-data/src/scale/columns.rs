use crate::{Matrix, Row};

/// Least and largest value, mean and spread of each column, zeros included.
#[derive(Debug, Clone)]
pub struct Columns {
    /// Least value.
    pub low: Vec<f64>,
    /// Largest value.
    pub high: Vec<f64>,
    /// Mean.
    pub mean: Vec<f64>,
    /// Standard deviation, of the rows as a population.
    pub spread: Vec<f64>,
}

impl Columns {
    /// Looks at all rows twice.
    pub fn of(examples: &Matrix) -> Self {
        let (rows, width) = (examples.rows() as f64, examples.columns());
        let mut count = vec![0usize; width];
        let (mut low, mut high) = (vec![f64::INFINITY; width], vec![f64::NEG_INFINITY; width]);
        let mut mean = vec![0.0; width];
        for (column, value) in examples.iter().flat_map(Row::nonzeros) {
            let column = column as usize;
            count[column] += 1;
            low[column] = low[column].min(value);
            high[column] = high[column].max(value);
            mean[column] += value / rows;
        }
        for column in (0..width).filter(|column| count[*column] < examples.rows()) {
            low[column] = low[column].min(0.0);
            high[column] = high[column].max(0.0);
        }
        for column in 0..width {
            // Roundings of the sum must not make a constant column spread.
            if low[column] == high[column] {
                mean[column] = low[column];
            }
        }
        // In units of the largest deviation: squares neither overflow nor vanish.
        let unit = |column: usize| {
            let mean: f64 = mean[column];
            (high[column] - mean).max(mean - low[column])
        };
        let units: Vec<f64> = (0..width).map(unit).collect();
        let mut spread = vec![0.0; width];
        for (column, value) in examples.iter().flat_map(Row::nonzeros) {
            let column = column as usize;
            if units[column] > 0.0 {
                spread[column] += ((value - mean[column]) / units[column]).powi(2) / rows;
            }
        }
        for column in (0..width).filter(|column| units[*column] > 0.0) {
            let zeros = examples.rows() as f64 - count[column] as f64;
            spread[column] += (mean[column] / units[column]).powi(2) * zeros / rows;
            spread[column] = spread[column].sqrt() * units[column];
        }
        Self { low, high, mean, spread }
    }

    /// Columns whose values are all alike.
    pub fn constants(&self) -> Vec<usize> {
        (0..self.low.len()).filter(|column| self.low[*column] == self.high[*column]).collect()
    }
}
