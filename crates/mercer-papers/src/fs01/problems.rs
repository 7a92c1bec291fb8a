//! The problems of the paper, or synthetic ones of the same size.

use anyhow::Context;
use mercer::data::{Dataset, Matrix, Targets};
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

/// A number in [0, 1).
fn uniform(random: &mut SplitMix64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// In place of Fig. 5, of which only the caption is left: forty separable points in the plane, each four times, so that the
/// support vectors are redundant; features of this size.
pub(super) fn redundant(scale: f64, seed: u64) -> anyhow::Result<Dataset> {
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut draw = || uniform(&mut random) + uniform(&mut random) + uniform(&mut random) - 1.5;
    let (mut values, mut targets) = (Vec::new(), Vec::new());
    for point in 0..40 {
        let side = if point % 2 == 0 { 1.0 } else { -1.0 };
        values.extend([scale * (1.6 * side + draw()), scale * draw()]);
        targets.push(side);
    }
    Ok(Dataset {
        examples: Matrix::dense(2, values.repeat(4))?,
        targets: Targets::Numbers(targets.repeat(4)),
        names: None,
    })
}

/// Rows of V, D from 1e-8 to 1e8 with fewer small ones than columns, and a right-hand side.
pub(super) fn system(rows: usize, rank: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let mut random = SplitMix64::seed_from_u64(1);
    let mut draw =
        |count: usize| -> Vec<f64> { (0..count).map(|_| uniform(&mut random) - 0.5).collect() };
    let v = draw(rows * rank);
    let small = rank / 2;
    let d = draw(rows)
        .iter()
        .enumerate()
        .map(|(row, x)| {
            if row < small {
                10f64.powf(8.0 * x - 4.0)
            } else {
                10f64.powf(8.0 * (x + 0.5)) * rank as f64
            }
        })
        .collect();
    let w = draw(rows);
    (v, d, w)
}

/// Dense rows whose columns share a few directions, with noisy linear labels.
pub(super) fn dense(rows: usize, columns: usize, seed: u64) -> anyhow::Result<Dataset> {
    const DIRECTIONS: usize = 12;
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut draw = || uniform(&mut random) + uniform(&mut random) + uniform(&mut random) - 1.5;
    let mixing: Vec<f64> = (0..DIRECTIONS * columns).map(|_| draw()).collect();
    let (mut values, mut targets) = (Vec::with_capacity(rows * columns), Vec::new());
    for _ in 0..rows {
        let hidden: Vec<f64> = (0..DIRECTIONS).map(|_| draw()).collect();
        for column in 0..columns {
            let mixed: f64 =
                hidden.iter().enumerate().map(|(at, h)| h * mixing[at * columns + column]).sum();
            values.push(mixed + 0.5 * draw());
        }
        let score = hidden[0] + 0.5 * hidden[1] * hidden[2] + 0.4 * draw();
        targets.push(if score > 0.0 { 1.0 } else { -1.0 });
    }
    let examples = Matrix::dense(columns, values)?;
    Ok(Dataset { examples, targets: Targets::Numbers(targets), names: None })
}

/// Abalone: up to nine rings or more, a column for each sex, all columns from -1 to 1.
pub(super) fn abalone() -> anyhow::Result<Dataset> {
    let (mut values, mut targets) = (Vec::new(), Vec::new());
    let text = std::str::from_utf8(mercer_datasets::ABALONE).context("abalone.csv")?;
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        values.extend(["F", "I", "M"].map(|sex| f64::from(u8::from(fields[0] == sex))));
        let numbers: Result<Vec<f64>, _> = fields[1..].iter().map(|field| field.parse()).collect();
        let numbers = numbers.context("abalone.csv holds numbers")?;
        values.extend(&numbers[..7]);
        targets.push(if numbers[7] <= 9.0 { 1.0 } else { -1.0 });
    }
    for column in 0..10 {
        let all = values.iter().skip(column).step_by(10);
        let low = all.clone().copied().fold(f64::INFINITY, f64::min);
        let high = all.copied().fold(f64::NEG_INFINITY, f64::max);
        values
            .iter_mut()
            .skip(column)
            .step_by(10)
            .for_each(|x| *x = 2.0 * (*x - low) / (high - low) - 1.0);
    }
    let examples = Matrix::dense(10, values)?;
    Ok(Dataset { examples, targets: Targets::Numbers(targets), names: None })
}
