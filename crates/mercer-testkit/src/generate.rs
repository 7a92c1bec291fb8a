//! Generators of test rows, ordinary and adversarial; the seed determines them on every processor.

use mercer_data::Matrix;
use mercer_data::synthetic::normal;
use mercer_kernel::Domain;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Rows with a name for messages.
#[derive(Debug, Clone)]
pub struct Case {
    /// What is special about them.
    pub name: &'static str,
    /// The rows.
    pub rows: Matrix,
}

/// The generator behind everything here.
pub fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Standard normal values.
pub fn dense(rows: usize, columns: usize, seed: u64) -> Matrix {
    let mut rng = rng(seed);
    matrix(columns, (0..rows * columns).map(|_| normal(&mut rng)))
}

/// Standard normal values, each kept with probability `density`, stored sparsely.
pub fn sparse(rows: usize, columns: usize, density: f64, seed: u64) -> Matrix {
    let mut rng = rng(seed);
    let values = (0..rows * columns).map(|_| {
        let value = normal(&mut rng);
        if rng.random::<f64>() < density { value } else { 0.0 }
    });
    matrix(columns, values).to_sparse()
}

/// The same rows with a function applied to every value, in the same storage.
///
/// # Panics
/// If a value becomes infinite or NaN.
pub fn map(rows: &Matrix, function: impl Fn(f64) -> f64) -> Matrix {
    let mapped = matrix(rows.columns(), values(rows).into_iter().map(function));
    if rows.is_sparse() { mapped.to_sparse() } else { mapped }
}

/// The same rows as a domain allows them.
pub fn within(domain: Domain, rows: &Matrix) -> Matrix {
    match domain {
        Domain::Real => rows.clone(),
        Domain::NonNegative => map(rows, f64::abs),
    }
}

/// All values, row after row, zeros included.
pub fn values(rows: &Matrix) -> Vec<f64> {
    let mut out = vec![0.0; rows.rows() * rows.columns()];
    for (row, place) in out.chunks_exact_mut(rows.columns().max(1)).enumerate() {
        rows.row(row).write_dense(place);
    }
    out
}

/// One row as a vector, zeros included.
pub fn row(rows: &Matrix, row: usize) -> Vec<f64> {
    let mut out = vec![0.0; rows.columns()];
    rows.row(row).write_dense(&mut out);
    out
}

/// Ordinary rows: dense, sparse, histograms, one column, one row.
pub fn ordinary(domain: Domain, seed: u64) -> Vec<Case> {
    let histogram = map(&dense(10, 12, seed + 2), |x| x.abs() / 12.0);
    let cases = [
        ("dense", dense(10, 9, seed)),
        ("sparse", sparse(10, 40, 0.2, seed + 1)),
        ("histograms", histogram),
        ("one column", dense(8, 1, seed + 3)),
        ("one row", dense(1, 7, seed + 4)),
    ];
    collect(domain, cases)
}

/// Adversarial rows, which break careless arithmetic.
pub fn adversarial(domain: Domain, seed: u64) -> Vec<Case> {
    let base = dense(8, 6, seed);
    let mut rng = rng(seed + 1);
    let doubled = base.select([0, 1, 1, 0, 2, 2, 2, 3]);
    let mixed = map_seeded(&base, seed + 2, |x, exponent| x * 10f64.powf(300.0 * exponent - 150.0));
    let subnormal = map_seeded(&base, seed + 3, |x, size| f64::MIN_POSITIVE.copysign(x) * size);
    let column_of_zeros: Vec<f64> =
        (0..24).map(|at| if at % 3 == 1 { 0.0 } else { normal(&mut rng) }).collect();
    let column = map_seeded(&dense(8, 1, seed), seed + 5, |x, exponent| {
        x * 10f64.powf(300.0 * exponent - 150.0)
    });
    let far = sparse(8, 6, 0.5, seed + 4);
    let cases = [
        ("duplicated rows", doubled),
        ("all zero", map(&base, |_| 0.0)),
        ("some zero rows", zero_rows(&base)),
        ("all equal", base.select([5; 8])),
        ("huge", map(&base, |x| x.clamp(-2.0, 2.0) * 1e150)),
        ("tiny", map(&base, |x| x * 1e-150)),
        ("products underflow", map(&base, |x| x * 1e-170)),
        ("squares underflow partly", map(&base, |x| x * 1e-156)),
        ("shifted by 1e6", map(&base, |x| x + 1e6)),
        ("subnormal", subnormal),
        ("mixed scales", mixed),
        ("one column of mixed scales", column),
        ("zero column", matrix(3, column_of_zeros)),
        ("sparse and huge", map(&far, |x| x * 1e149)),
        ("nearly equal", map(&base.select([5; 8]), |x| x + 1e-9 * x)),
    ];
    collect(domain, cases)
}

/// Texts that build every registered kernel, with several parameters.
pub fn kernel_specs() -> &'static [&'static str] {
    &[
        "linear",
        "polynomial(degree=1, gamma=1, coef0=0)",
        "polynomial(degree=2, gamma=0.5, coef0=1)",
        "polynomial(degree=3)",
        "polynomial(degree=9, gamma=0.1, coef0=2)",
        "polynomial(degree=5, gamma=0.3, coef0=-1)",
        "rbf(gamma=0.001)",
        "rbf(gamma=0.5)",
        "rbf(gamma=20)",
        "laplacian(gamma=0.05)",
        "laplacian(gamma=3)",
        "sigmoid(gamma=0.01, coef0=-1)",
        "sigmoid(gamma=-0.7)",
        "normalized(linear)",
        "normalized(polynomial(degree=3, gamma=0.5, coef0=1))",
        "normalized(polynomial(degree=9))",
        "normalized(chi2)",
        "normalized(intersection)",
        "normalized(rbf(gamma=0.5))",
        "intersection",
        "chi2",
        "exponential(linear, gamma=0.1)",
        "exponential(chi2, gamma=0.5)",
        "exponential(intersection, gamma=2)",
        "exponential(polynomial(degree=2, gamma=1, coef0=1), gamma=0.01)",
        "exponential(normalized(linear), gamma=1)",
        "exponential(laplacian(gamma=0.5), gamma=1)",
        "exponential(rbf(gamma=0.5), gamma=3)",
        "exponential(hellinger, gamma=0.3)",
        "power_mean(p=-inf)",
        "power_mean(p=-64)",
        "power_mean(p=-8.5)",
        "power_mean(p=-1)",
        "power_mean(p=-0.5)",
        "power_mean(p=-0.05)",
        "power_mean(p=-0.001)",
        "power_mean(p=-1e-12)",
        "power_mean(p=0)",
        "power_mean(p=0.01)",
        "power_mean(p=0.3)",
        "power_mean(p=1)",
        "power_mean(p=3)",
        "power_mean(p=64)",
        "jensen_shannon",
        "hellinger",
        "precomputed",
    ]
}

fn matrix(columns: usize, values: impl IntoIterator<Item = f64>) -> Matrix {
    Matrix::dense(columns, values.into_iter().collect()).expect("whole rows of finite values")
}

fn collect<const N: usize>(domain: Domain, cases: [(&'static str, Matrix); N]) -> Vec<Case> {
    let case = |(name, rows): (&'static str, Matrix)| Case { name, rows: within(domain, &rows) };
    cases.into_iter().map(case).collect()
}

/// Applies a function of the value and a uniform number of [0, 1).
fn map_seeded(rows: &Matrix, seed: u64, function: impl Fn(f64, f64) -> f64) -> Matrix {
    let mut rng = rng(seed);
    let mapped = values(rows).into_iter().map(|x| function(x, rng.random()));
    matrix(rows.columns(), mapped)
}

/// Every third row becomes zero.
fn zero_rows(rows: &Matrix) -> Matrix {
    let columns = rows.columns();
    let keep =
        |(at, value): (usize, f64)| if (at / columns).is_multiple_of(3) { 0.0 } else { value };
    matrix(columns, values(rows).into_iter().enumerate().map(keep))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_kernel::KERNELS;

    #[test]
    fn every_registered_kernel_is_covered() {
        for entry in KERNELS.entries {
            let named = |text: &&&str| text.split('(').next() == Some(entry.name);
            let count = kernel_specs().iter().filter(named).count();
            let wanted = if entry.parameters.is_empty() { 1 } else { 2 };
            assert!(count >= wanted, "{} is tried {count} times", entry.name);
        }
        for text in kernel_specs() {
            mercer_kernel::parse(text).unwrap();
        }
    }

    #[test]
    fn the_seed_decides_the_rows() {
        assert_eq!(dense(5, 4, 1), dense(5, 4, 1));
        assert_ne!(dense(5, 4, 1), dense(5, 4, 2));
        assert_eq!(sparse(9, 30, 0.1, 3), sparse(9, 30, 0.1, 3));
        assert!(sparse(9, 30, 0.1, 3).nonzeros() < 60);
    }

    #[test]
    fn histograms_are_not_negative() {
        let mut cases = ordinary(Domain::NonNegative, 1);
        cases.extend(adversarial(Domain::NonNegative, 1));
        for case in cases {
            let all = values(&case.rows);
            assert!(all.iter().all(|x| *x >= 0.0), "{}", case.name);
        }
    }
}
