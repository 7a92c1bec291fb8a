//! Clusters of rows for the first round: Lloyd's k-means on a sample, then all rows go to the nearest centre.
//! What is done with the clusters is in `run`.

use mercer_data::Matrix;
use rayon::prelude::*;

use super::rows::TrainingRows;
use super::working_set::Draw;
use crate::TrainError;

/// Passes over the sample.
const PASSES: usize = 6;
/// Sampled rows for each centre.
const SAMPLE: usize = 200;
/// Centres would take more bytes than this: such rows are not clustered.
const MOST_BYTES: usize = 64 << 20;

/// Cuts all rows into clusters of at most `size` rows; empty where rows have too many columns.
///
/// # Errors
/// Those of reading the rows.
pub(super) fn clusters(
    rows: &dyn TrainingRows,
    size: usize,
    seed: u64,
) -> Result<Vec<Vec<u32>>, TrainError> {
    let count = rows.len().div_ceil(size.max(1)).max(2);
    let mut sampled: Vec<u32> = (0..rows.len() as u32).collect();
    Draw { seed, round: 0 }.keep(&mut sampled, SAMPLE * count);
    let sample = rows.gather(&sampled)?;
    if 8 * count * sample.columns() > MOST_BYTES || sample.rows() < count {
        return Ok(Vec::new());
    }
    let mut chosen: Vec<u32> = (0..sample.rows() as u32).collect();
    Draw { seed, round: 1 }.keep(&mut chosen, count);
    let mut centres = Centres::new(&sample.select(chosen.iter().map(|row| *row as usize)));
    for _ in 0..PASSES {
        centres.improve(&sample);
    }
    let mut clusters = vec![Vec::new(); count];
    rows.each(&mut |numbers, block| {
        for (row, centre) in numbers.iter().zip(centres.nearest(block)) {
            clusters[centre as usize].push(*row);
        }
    })?;
    // In the order of the rows, wherever these are.
    clusters.iter_mut().for_each(|cluster: &mut Vec<u32>| cluster.sort_unstable());
    Ok(clusters.into_iter().flat_map(|cluster| cut(cluster, size)).collect())
}

/// Equal parts of at most `size` rows.
fn cut(cluster: Vec<u32>, size: usize) -> Vec<Vec<u32>> {
    if cluster.is_empty() {
        return Vec::new();
    }
    let parts = cluster.len().div_ceil(size.max(1));
    // Rows are dealt out in turn, so that each part has rows of all places of the file.
    let part = |part: usize| cluster.iter().skip(part).step_by(parts).copied().collect();
    (0..parts).map(part).collect()
}

#[derive(Debug)]
struct Centres {
    columns: usize,
    values: Vec<f64>,
    /// Half of the squared norm of each.
    half_norms: Vec<f64>,
}

impl Centres {
    fn new(rows: &Matrix) -> Self {
        let columns = rows.columns();
        let mut values = vec![0.0; rows.rows() * columns];
        for (row, out) in rows.iter().zip(values.chunks_mut(columns.max(1))) {
            row.nonzeros().for_each(|(column, value)| out[column as usize] = value);
        }
        let mut centres = Self { columns, values, half_norms: Vec::new() };
        centres.update_norms();
        centres
    }

    fn update_norms(&mut self) {
        let half = |centre: &[f64]| 0.5 * centre.iter().map(|value| value * value).sum::<f64>();
        self.half_norms = self.values.chunks(self.columns.max(1)).map(half).collect();
    }

    /// The nearest centre of each row, the first of equally near ones.
    fn nearest(&self, rows: &Matrix) -> Vec<u32> {
        let nearest = |row: usize| {
            let row = rows.row(row);
            let mut best = (f64::INFINITY, 0u32);
            let centres = self.values.chunks(self.columns.max(1)).zip(&self.half_norms);
            for (number, (centre, half_norm)) in (0u32..).zip(centres) {
                let product: f64 =
                    row.nonzeros().map(|(column, value)| value * centre[column as usize]).sum();
                if half_norm - product < best.0 {
                    best = (half_norm - product, number);
                }
            }
            best.1
        };
        (0..rows.rows()).into_par_iter().with_min_len(64).map(nearest).collect()
    }

    /// One pass: each centre becomes the mean of its rows. One without rows stays.
    fn improve(&mut self, sample: &Matrix) {
        let nearest = self.nearest(sample);
        let mut sums = vec![0.0; self.values.len()];
        let mut counts = vec![0usize; self.half_norms.len()];
        for (row, centre) in sample.iter().zip(&nearest) {
            let centre = *centre as usize;
            counts[centre] += 1;
            let sum = &mut sums[centre * self.columns..][..self.columns];
            row.nonzeros().for_each(|(column, value)| sum[column as usize] += value);
        }
        let centres = self.values.chunks_mut(self.columns.max(1));
        for ((centre, sum), count) in centres.zip(sums.chunks(self.columns.max(1))).zip(&counts) {
            if *count > 0 {
                let mean = sum.iter().map(|value| value / *count as f64);
                centre.iter_mut().zip(mean).for_each(|(value, mean)| *value = mean);
            }
        }
        self.update_norms();
    }
}
