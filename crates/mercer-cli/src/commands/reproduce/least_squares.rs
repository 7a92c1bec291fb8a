//! Machines with all coefficients, by one dense solve: small data only.

use anyhow::Context;
use mercer::data::Matrix;
use mercer::kernel::KernelRef;
use mercer::machine::{ClassName, Machine, Output, Scheme, Score};

/// What is fitted, always by `(K + I / C) α + b = targets`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// Least-squares SVM: targets 1 and -1, and a bias.
    LsSvm,
    /// Kernel Fisher discriminant: targets n / n+ and -n / n-, and a bias, which is the same direction.
    Kfd,
    /// Ridge regression on 1 and -1, without a bias.
    Ridge,
}

impl Fit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LsSvm => "LS-SVM",
            Self::Kfd => "KFD",
            Self::Ridge => "ridge",
        }
    }
}

/// Solves for all coefficients.
pub(super) fn machine(
    fit: Fit,
    kernel: &KernelRef,
    rows: &Matrix,
    signs: &[f64],
    c: f64,
) -> anyhow::Result<Machine> {
    let n = rows.rows();
    let mut matrix = vec![0.0; n * n];
    for a in 0..n {
        for b in 0..=a {
            matrix[a * n + b] = kernel.value(rows.row(a), rows.row(b));
        }
        matrix[a * n + a] += 1.0 / c;
    }
    factorise(&mut matrix, n).context("the Gram matrix is not positive definite")?;
    let positive = signs.iter().filter(|sign| **sign > 0.0).count().max(1) as f64;
    let target = |sign: &f64| match fit {
        Fit::LsSvm | Fit::Ridge => *sign,
        Fit::Kfd if *sign > 0.0 => n as f64 / positive,
        Fit::Kfd => -(n as f64) / (n as f64 - positive).max(1.0),
    };
    let mut alpha: Vec<f64> = signs.iter().map(target).collect();
    solve(&matrix, n, &mut alpha);
    let mut bias = 0.0;
    if fit != Fit::Ridge {
        let mut ones = vec![1.0; n];
        solve(&matrix, n, &mut ones);
        bias = alpha.iter().sum::<f64>() / ones.iter().sum::<f64>();
        alpha.iter_mut().zip(&ones).for_each(|(alpha, one)| *alpha -= bias * one);
    }
    let names = vec![ClassName::Number(1.0), ClassName::Number(-1.0)];
    let output = Output::Classes { names, scheme: Scheme::OneVsOne };
    let scores = vec![Score::expansion(&alpha, -bias)];
    Ok(Machine::new(kernel.clone(), rows.clone(), scores, output)?)
}

/// Cholesky's factor in place of the lower triangle.
fn factorise(matrix: &mut [f64], n: usize) -> Option<()> {
    for a in 0..n {
        let (before, own) = matrix.split_at_mut(a * n);
        let own = &mut own[..n];
        for b in 0..=a {
            let other: &[f64] = if b < a { &before[b * n..b * n + b] } else { &[] };
            let sum: f64 = if b < a {
                own[..b].iter().zip(other).map(|(x, y)| x * y).sum()
            } else {
                own[..b].iter().map(|x| x * x).sum()
            };
            let left = own[b] - sum;
            own[b] = if b < a {
                left / before[b * n + b]
            } else if left > 0.0 {
                left.sqrt()
            } else {
                return None;
            };
        }
    }
    Some(())
}

/// Solves with a factor, in place.
fn solve(factor: &[f64], n: usize, x: &mut [f64]) {
    for a in 0..n {
        let sum: f64 = factor[a * n..a * n + a].iter().zip(&*x).map(|(l, x)| l * x).sum();
        x[a] = (x[a] - sum) / factor[a * n + a];
    }
    for a in (0..n).rev() {
        x[a] /= factor[a * n + a];
        let value = x[a];
        for b in 0..a {
            x[b] -= factor[a * n + b] * value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_solved() {
        let matrix = [4.0, 0.0, 0.0, 2.0, 5.0, 0.0, 1.0, 3.0, 6.0];
        let mut factor = matrix.to_vec();
        factorise(&mut factor, 3).unwrap();
        let mut x = vec![1.0, -2.0, 0.5];
        let wanted = x.clone();
        solve(&factor, 3, &mut x);
        let entry = |a: usize, b: usize| matrix[a.max(b) * 3 + a.min(b)];
        for a in 0..3 {
            let found: f64 = (0..3).map(|b| entry(a, b) * x[b]).sum();
            assert!((found - wanted[a]).abs() < 1e-14);
        }
    }

    #[test]
    fn least_squares_interpolates_with_little_ridge() {
        let rows = Matrix::dense(1, vec![0.0, 1.0, 2.0, 4.0]).unwrap();
        let kernel = mercer::kernel::parse("rbf(gamma=1)").unwrap();
        let signs = [1.0, -1.0, 1.0, -1.0];
        for fit in [Fit::LsSvm, Fit::Kfd, Fit::Ridge] {
            let machine = machine(fit, &kernel, &rows, &signs, 1e9).unwrap();
            let scores = mercer::query::Plan::exact(&machine).scores(&rows).unwrap();
            for (score, sign) in scores.iter().zip(signs) {
                let wanted = if fit == Fit::Kfd { 2.0 * sign } else { sign };
                assert!((score - wanted).abs() < 1e-6, "{fit:?}: {score}");
            }
        }
    }
}
