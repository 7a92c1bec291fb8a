//! Points drawn by a seeded generator: the same seed gives the same points, on any machine.

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{Dataset, Matrix, MatrixBuilder, Targets};

/// The two-class mixture of Ripley (1996): each class is two round normal clouds of variance 0.03, at
/// (-0.7, 0.3), (0.3, 0.3) and at (-0.3, 0.7), (0.4, 0.7). The best possible error is about 8 %.
pub fn ripley(rows: usize, seed: u64) -> Dataset {
    let centres = [[[-0.7, 0.3], [0.3, 0.3]], [[-0.3, 0.7], [0.4, 0.7]]];
    let std_dev = 0.03f64.sqrt();
    draw(rows, seed, |class, rng| {
        let centre = centres[class][usize::from(rng.random::<bool>())];
        centre.map(|c| c + std_dev * normal(rng))
    })
}

/// Two interlocking crescents with normal noise of standard deviation 0.25.
pub fn banana(rows: usize, seed: u64) -> Dataset {
    crescents(rows, 0.25, seed)
}

/// As [`banana`], with noise of any standard deviation: how much the classes overlap.
pub fn crescents(rows: usize, noise: f64, seed: u64) -> Dataset {
    draw(rows, seed, |class, rng| {
        let angle = std::f64::consts::PI * rng.random::<f64>();
        let side = if class == 0 { 1.0 } else { -1.0 };
        let x = side * angle.cos() + if class == 0 { 0.0 } else { 1.0 };
        let y = side * angle.sin() + if class == 0 { 0.0 } else { 0.5 };
        [x + noise * normal(rng), y + noise * normal(rng)]
    })
}

/// Sparse histograms of two overlapping kinds, with about twelve filled columns each: low columns are filled
/// more often, and each kind leans to half of the columns. The first rows do not depend on how many follow.
///
/// # Panics
/// If there are more than 2^32 columns, or none.
pub fn histograms(rows: usize, columns: usize, seed: u64) -> Dataset {
    assert!((1..=1 << 32).contains(&columns), "one column or more");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut made = MatrixBuilder::new();
    let mut targets = Vec::with_capacity(rows);
    let mut filled: Vec<u32> = Vec::new();
    for row in 0..rows {
        let class = row % 2;
        filled.clear();
        for _ in 0..12 {
            let place = rng.random::<f64>();
            let column = ((place * place * columns as f64) as usize).min(columns - 1);
            // With probability 3/5 a column of the parity of the row.
            let same_parity = rng.random::<f64>() < 0.6;
            let other = usize::from((column % 2 == class) != same_parity);
            filled.push(((column + other) % columns) as u32);
        }
        filled.sort_unstable();
        filled.dedup();
        for column in &filled {
            made.push(*column, f64::from(1 + (rng.random::<f64>() * 50.0) as u32) / 50.0);
        }
        made.end_row();
        targets.push(if class == 0 { -1.0 } else { 1.0 });
    }
    Dataset { examples: made.finish(columns), targets: Targets::Numbers(targets), names: None }
}

fn draw(
    rows: usize,
    seed: u64,
    mut point: impl FnMut(usize, &mut Xoshiro256PlusPlus) -> [f64; 2],
) -> Dataset {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut values = Vec::with_capacity(2 * rows);
    let mut targets = Vec::with_capacity(rows);
    for row in 0..rows {
        let class = row % 2;
        values.extend(point(class, &mut rng));
        targets.push(if class == 0 { -1.0 } else { 1.0 });
    }
    let examples = Matrix::dense(2, values).expect("two finite values per row");
    Dataset { examples, targets: Targets::Numbers(targets), names: None }
}

/// A standard normal number by the polar method.
pub fn normal(rng: &mut impl Rng) -> f64 {
    loop {
        let u = 2.0 * rng.random::<f64>() - 1.0;
        let v = 2.0 * rng.random::<f64>() - 1.0;
        let s = u * u + v * v;
        if s > 0.0 && s < 1.0 {
            return u * (-2.0 * s.ln() / s).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_the_points() {
        assert_eq!(ripley(50, 1), ripley(50, 1));
        assert_ne!(banana(50, 1), banana(50, 2));
        assert_eq!(ripley(50, 1).examples.rows(), 50);
    }

    #[test]
    fn ripley_classes_have_the_published_means() {
        let data = ripley(20_000, 7);
        let mean = |class: usize, column: usize| {
            let rows = (0..20_000).filter(|row| row % 2 == class);
            rows.map(|row| data.examples.row(row).get(column)).sum::<f64>() / 10_000.0
        };
        for (class, x, y) in [(0, -0.2, 0.3), (1, 0.05, 0.7)] {
            // 5 standard errors: the x coordinate has variance 0.25 + 0.03 at most.
            assert!((mean(class, 0) - x).abs() < 0.027, "{}", mean(class, 0));
            assert!((mean(class, 1) - y).abs() < 0.01, "{}", mean(class, 1));
        }
    }
}
