//! The handwritten digits of the demo: they are part of the program. Also noisy copies of them, to tune and to test on.

use std::io::Cursor;

use mercer::data::{Dataset, Matrix, Targets, read};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A machine trained by LIBSVM on the first 1,200 of 1,797 handwritten digits.
pub(super) static LIBSVM_MODEL: &[u8] = mercer_datasets::DIGITS_MODEL;
static DIGITS: &[u8] = mercer_datasets::DIGITS;
/// The labels that LIBSVM's `svm-predict` gave to the other 597 with that machine (`datasets/digits/README.md`).
static SVM_PREDICT: &str = mercer_datasets::DIGITS_SVM_PREDICT;
pub(super) const TRAINING_ROWS: usize = 1200;
/// Side of a picture, and its darkest value.
pub(super) const SIDE: usize = 8;
pub(super) const DARKEST: f64 = 16.0;

/// Training rows and held-out rows.
pub(super) fn digits() -> anyhow::Result<(Dataset, Dataset)> {
    let options = read::Options::default();
    let mut chunks = read::from_packed(Cursor::new(DIGITS), "digits.csv.gz", &options)?;
    let all = read::read_all(&mut *chunks)?;
    let rows = all.examples.rows();
    Ok((select(&all, 0..TRAINING_ROWS)?, select(&all, TRAINING_ROWS..rows)?))
}

/// Labels of the held-out digits by `svm-predict`.
pub(super) fn svm_predict_labels() -> Vec<&'static str> {
    SVM_PREDICT.lines().collect()
}

/// The labels that were written under the digits.
pub(super) fn labels(digits: &Dataset) -> anyhow::Result<&[f64]> {
    match &digits.targets {
        Targets::Numbers(targets) => Ok(targets),
        _ => anyhow::bail!("the embedded digits have no labels"),
    }
}

/// Some rows of a table.
pub(super) fn select(
    digits: &Dataset,
    rows: impl Iterator<Item = usize> + Clone,
) -> anyhow::Result<Dataset> {
    let all = labels(digits)?;
    let targets = rows.clone().map(|row| all[row]).collect();
    let examples = digits.examples.select(rows);
    Ok(Dataset { examples, targets: Targets::Numbers(targets), names: None })
}

/// The rows whose label is one of two.
pub(super) fn pair(digits: &Dataset, pair: [f64; 2]) -> anyhow::Result<Dataset> {
    let all = labels(digits)?;
    let rows: Vec<usize> = (0..all.len()).filter(|row| pair.contains(&all[*row])).collect();
    select(digits, rows.into_iter())
}

/// Digits drawn with noise, as many as are needed: a fifth of the pixels one shade darker or lighter.
pub(super) fn noisy(digits: &Dataset, rows: usize, seed: u64) -> anyhow::Result<Dataset> {
    let targets = labels(digits)?;
    let (columns, count) = (digits.examples.columns(), digits.examples.rows());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    let mut pixels = vec![0.0; columns];
    for _ in 0..rows {
        let digit = rng.random_range(0..count);
        digits.examples.row(digit).write_dense(&mut pixels);
        for pixel in &mut pixels {
            let shade = match rng.random_range(0..10) {
                0 => -1.0,
                1 => 1.0,
                _ => 0.0,
            };
            *pixel = (*pixel + shade).clamp(0.0, DARKEST);
        }
        values.extend_from_slice(&pixels);
        labels.push(targets[digit]);
    }
    let examples = Matrix::dense(columns, values)?;
    Ok(Dataset { examples, targets: Targets::Numbers(labels), names: None })
}
