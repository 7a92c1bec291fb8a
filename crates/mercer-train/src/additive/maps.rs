//! Feature maps: how a scalar kernel on bins becomes look-up factors.
//! Where the bins lie is in `bins`; how well a factor approximates the kernel is measured in `factors`.

use mercer_kernel::Term;
use mercer_simd::factors::{Factors, StepEncoding};

use super::factors::{FactorReport, FactorTables, components, evaluate};

/// How factors are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FeatureMap {
    /// Weighted kernel principal components; the smallest rank that is good enough where none is given.
    Components { rank: Option<usize> },
    /// The value itself: a linear machine.
    Value,
    /// The feature map of \[VZ12\] with this many dimensions.
    Fourier { dims: usize },
    /// One-sided interpolation by a polynomial of this degree in `ln(x + 0.05)` (\[YW12\]).
    Polynomial { degree: usize, nodes: Nodes },
}

/// Where the interpolating polynomial of \[YW12\] is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// 0.01, 0.06 and 0.75, degree 2 (section 3 of the paper).
    AdHoc,
    /// Chebyshev's, in the variable `ln(x + 0.05)`: the paper does not say in which, and in `x` itself the
    /// error grows with the degree.
    Chebyshev,
    /// Chebyshev's, in x itself: eq. 16 of the paper taken literally, with a = 0 and b = 1.
    ChebyshevInX,
}

impl Nodes {
    /// Names, in the order of the variants.
    pub(crate) const WORDS: &'static [&'static str] = &["ad_hoc", "chebyshev", "chebyshev_in_x"];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    pub(crate) fn named(name: &str) -> Self {
        match name {
            "ad_hoc" => Self::AdHoc,
            "chebyshev_in_x" => Self::ChebyshevInX,
            _ => Self::Chebyshev,
        }
    }
}

/// The values between 0 and 1 at which a polynomial of this degree is right.
pub(super) fn node_points(degree: usize, nodes: Nodes) -> Vec<f64> {
    let cosine = |k: usize| (std::f64::consts::PI * (k as f64 + 0.5) / (degree + 1) as f64).cos();
    let between =
        |low: f64, high: f64, k: usize| f64::midpoint(low, high) + (high - low) / 2.0 * cosine(k);
    match nodes {
        Nodes::AdHoc => vec![0.01, 0.06, 0.75],
        Nodes::ChebyshevInX => (0..=degree).map(|k| between(0.0, 1.0, k)).collect(),
        Nodes::Chebyshev => {
            let node = |k: usize| between(SHIFT.ln(), (1.0 + SHIFT).ln(), k).exp() - SHIFT;
            (0..=degree).map(|k| node(k).max(1e-6)).collect()
        }
    }
}

/// Powers of `ln(x + 0.05)` up to a degree.
fn powers(share: f64, degree: usize) -> impl Iterator<Item = f64> {
    let tau = (share + SHIFT).ln();
    (0..=degree).scan(1.0, move |power, _| {
        let now = *power;
        *power *= tau;
        Some(now)
    })
}

/// `X⁻¹`, X holding the powers of `ln(c + 0.05)` at the nodes c.
pub(super) fn inverse_of(points: &[f64]) -> Vec<f64> {
    let degree = points.len() - 1;
    inverse(points.iter().flat_map(|c| powers(*c, degree)).collect(), points.len())
}

/// Added before the logarithm is taken (\[YW12\] section 3.1).
pub(super) const SHIFT: f64 = 0.05;
/// Weighted error that needs no larger rank.
const GOOD: f64 = 1e-3;
/// Up to so many columns an exact table of every column is held: some 9 MB for each subproblem.
const MAX_STEP_COLUMNS: usize = 8192;
/// From so many columns on weights of more numbers would fall out of every cache.
const WIDE: usize = 1_000_000;

/// Factors, squared norms of the bins, and how good they are.
pub(super) struct KernelFactors {
    pub(super) factors: Factors,
    /// `κ(t, t)` as the solver should use it, for each bin.
    pub(super) squared_norms: Vec<f64>,
    pub(super) report: FactorReport,
    /// Whether Φ and Ψ are the same, so that there is a gap.
    pub(super) has_dual_objective: bool,
}

impl FeatureMap {
    /// The exact kernel, where it is the minimum of both values and no rank is given.
    pub(super) fn step_encoding(
        self,
        term: &dyn Term,
        values: &[f64],
        columns: usize,
    ) -> Option<StepEncoding> {
        let is_free =
            matches!(self, Self::Components { rank: None }) && columns <= MAX_STEP_COLUMNS;
        let in_f32 = || values.iter().map(|value| *value as f32).collect::<Vec<f32>>();
        (is_free && is_minimum(term, values)).then(|| StepEncoding::new(&in_f32()))
    }

    /// Factors of `term` on these values of bins; `counts` says how often bins occur.
    pub(super) fn make(
        self,
        term: &dyn Term,
        values: &[f64],
        counts: &[u64],
        columns: usize,
    ) -> KernelFactors {
        let kernel = |a: usize, b: usize| term.term(values[a + 1], values[b + 1]);
        let kernel_norms = || values.iter().map(|t| term.term(*t, *t)).collect::<Vec<f64>>();
        match self {
            Self::Components { rank } => {
                let (factors, rank) = chosen(&matrix(term, values), counts, rank, columns);
                symmetric(&kernel, counts, &factors, rank)
            }
            Self::Value => symmetric(&kernel, counts, values, 1),
            Self::Fourier { dims } => {
                let factors = fourier(term, values, dims);
                symmetric(&kernel, counts, &factors, dims)
            }
            Self::Polynomial { degree, nodes } => {
                let (read, write) = polynomial(term, values, degree, nodes);
                let stored = padded(degree + 1);
                let (read, write) =
                    (pad(&read, degree + 1, stored), pad(&write, degree + 1, stored));
                let report = evaluate(
                    &kernel,
                    counts,
                    FactorTables { read: &read, write: &write, rank: degree + 1, stored },
                );
                let factors = Factors::new(stored, &read, Some(&write));
                KernelFactors {
                    factors,
                    squared_norms: kernel_norms(),
                    report,
                    has_dual_objective: false,
                }
            }
        }
    }
}

/// The scalar kernel on the bins from 1 on.
fn matrix(term: &dyn Term, values: &[f64]) -> Vec<f64> {
    let values = &values[1..];
    values.iter().flat_map(|a| values.iter().map(|b| term.term(*a, *b))).collect()
}

fn symmetric(
    kernel: &dyn Fn(usize, usize) -> f64,
    counts: &[u64],
    factors: &[f64],
    rank: usize,
) -> KernelFactors {
    let stored = padded(rank);
    let read = pad(factors, rank, stored);
    let report = evaluate(kernel, counts, FactorTables { read: &read, write: &read, rank, stored });
    let factors = Factors::new(stored, &read, None);
    let squared_norms = (0..counts.len()).map(|bin| factors.squared_norm(bin)).collect();
    KernelFactors { factors, squared_norms, report, has_dual_objective: true }
}

/// Whether the kernel on the bins is the smaller of both: intersection, under any name.
fn is_minimum(term: &dyn Term, values: &[f64]) -> bool {
    let rises = values.windows(2).all(|pair| pair[0] <= pair[1]);
    let inner = &values[1..];
    let is_smaller = |a: f64, b: f64| term.term(a, b).to_bits() == a.min(b).to_bits();
    rises && values.len() <= 256 && inner.iter().all(|a| inner.iter().all(|b| is_smaller(*a, *b)))
}

/// Components of the given rank, or of the smallest rank that is good.
fn chosen(
    kernel: &[f64],
    counts: &[u64],
    rank: Option<usize>,
    columns: usize,
) -> (Vec<f64>, usize) {
    if let Some(rank) = rank {
        return (components(kernel, counts, rank), rank);
    }
    let most = if columns >= WIDE { 4 } else { 16 };
    let all = components(kernel, counts, most);
    for rank in [4, 8, 16].into_iter().filter(|rank| *rank <= most) {
        let factors: Vec<f64> =
            all.chunks_exact(most).flat_map(|row| row[..rank].iter().copied()).collect();
        let read = pad(&factors, rank, rank);
        let entry = |a: usize, b: usize| kernel[a * (counts.len() - 1) + b];
        let report = evaluate(
            &entry,
            counts,
            FactorTables { read: &read, write: &read, rank, stored: rank },
        );
        if rank == most || report.relative_error <= GOOD {
            return (factors, rank);
        }
    }
    unreachable!("the largest rank is always taken")
}

/// The next rank with a loop of its own.
pub(super) fn padded(rank: usize) -> usize {
    mercer_simd::factors::RANKS.into_iter().find(|padded| *padded >= rank).unwrap_or(16)
}

pub(super) fn pad(factors: &[f64], rank: usize, stored: usize) -> Vec<f32> {
    let mut out = vec![0.0; factors.len() / rank * stored];
    for (row, out) in factors.chunks_exact(rank).zip(out.chunks_exact_mut(stored)) {
        out.iter_mut().zip(row).for_each(|(place, x)| *place = *x as f32);
    }
    out
}

/// The map of \[VZ12\] eq. 12 for a kernel with `κ(cs, ct) = c κ(s, t)`: samples of its spectrum, `L` apart.
/// The step is that of VLFeat for the chi-squared kernel and a uniform window.
fn fourier(term: &dyn Term, values: &[f64], dims: usize) -> Vec<f64> {
    let order = dims / 2;
    let step = 2.0 * std::f64::consts::PI / (5.86 * (order as f64).sqrt() + 3.65);
    let sizes: Vec<f64> =
        (0..=order).map(|j| (step * spectrum(term, j as f64 * step)).max(0.0).sqrt()).collect();
    let mut out = vec![0.0; values.len() * dims];
    for (value, out) in values.iter().zip(out.chunks_exact_mut(dims)).filter(|(t, _)| **t > 0.0) {
        out[0] = sizes[0] * value.sqrt();
        for j in 1..=order {
            let (size, angle) = (sizes[j] * (2.0 * value).sqrt(), j as f64 * step * value.ln());
            out[2 * j - 1] = size * angle.cos();
            out[2 * j] = size * angle.sin();
        }
    }
    out
}

/// `1/2π ∫ e^(-iωλ) κ(e^(λ/2), e^(-λ/2)) dλ` by the trapezoid rule: all these signatures fall at least as
/// fast as `e^(-|λ|/2)`.
fn spectrum(term: &dyn Term, frequency: f64) -> f64 {
    let step = 0.02;
    let at = |n: i32| {
        let lambda = f64::from(n) * step;
        (frequency * lambda).cos() * term.term((lambda / 2.0).exp(), (-lambda / 2.0).exp())
    };
    let sum: f64 = (1..4000).map(at).sum();
    (at(0) + 2.0 * sum) * step / (2.0 * std::f64::consts::PI)
}

/// Φ(t) = powers of `τ = ln(t + 0.05)`, Ψ(t) = `X⁻¹ κ(nodes, t)`: `Φ(s)·Ψ(t)` interpolates `κ(s, t)` in
/// `s` at the nodes, X holding the powers of τ at the nodes. Values are shares of the largest one.
pub(super) fn polynomial(
    term: &dyn Term,
    values: &[f64],
    degree: usize,
    nodes: Nodes,
) -> (Vec<f64>, Vec<f64>) {
    let top = values.iter().copied().fold(0.0, f64::max);
    let points = node_points(degree, nodes);
    let inverse = inverse_of(&points);
    let (mut read, mut write) = (Vec::new(), Vec::new());
    for value in values {
        // The polynomial is not zero at zero: it is never evaluated there.
        if *value == 0.0 {
            read.extend(vec![0.0; degree + 1]);
            write.extend(vec![0.0; degree + 1]);
            continue;
        }
        read.extend(powers(value / top, degree));
        let kernel: Vec<f64> = points.iter().map(|c| term.term(c * top, *value)).collect();
        let row = |k: usize| inverse[k * (degree + 1)..(k + 1) * (degree + 1)].iter();
        write.extend((0..=degree).map(|k| row(k).zip(&kernel).map(|(a, b)| a * b).sum::<f64>()));
    }
    (read, write)
}

/// The inverse of a small matrix by Gauss and Jordan with pivots.
fn inverse(mut matrix: Vec<f64>, n: usize) -> Vec<f64> {
    let mut out: Vec<f64> = (0..n * n).map(|at| f64::from(u8::from(at / n == at % n))).collect();
    for column in 0..n {
        let size = |row: &usize| matrix[row * n + column].abs();
        let pivot = (column..n).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(column);
        for k in 0..n {
            matrix.swap(column * n + k, pivot * n + k);
            out.swap(column * n + k, pivot * n + k);
        }
        let scale = 1.0 / matrix[column * n + column];
        for k in 0..n {
            matrix[column * n + k] *= scale;
            out[column * n + k] *= scale;
        }
        for row in (0..n).filter(|row| *row != column) {
            let share = matrix[row * n + column];
            for k in 0..n {
                matrix[row * n + k] -= share * matrix[column * n + k];
                out[row * n + k] -= share * out[column * n + k];
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_kernel::Form;

    fn with_term(kernel: &str, check: impl Fn(&dyn Term)) {
        let kernel = mercer_kernel::parse(kernel).unwrap();
        let Form::Additive(term, _) = kernel.form() else { panic!("additive") };
        check(term);
    }

    /// What \[YW12\] eq. 8 says, without any matrix: Lagrange's polynomials in `ln(x + 0.05)`.
    fn interpolated(term: &dyn Term, nodes: &[f64], s: f64, t: f64) -> f64 {
        let tau = |x: f64| (x + 0.05f64).ln();
        let lagrange = |k: usize| {
            let others = (0..nodes.len()).filter(|j| *j != k);
            let ratio = |j: usize| (tau(s) - tau(nodes[j])) / (tau(nodes[k]) - tau(nodes[j]));
            others.map(ratio).product::<f64>()
        };
        (0..nodes.len()).map(|k| lagrange(k) * term.term(nodes[k], t)).sum()
    }

    #[test]
    fn polynomials_interpolate_as_the_paper_says() {
        let values: Vec<f64> = (0..=50).map(|b| f64::from(b) / 50.0).collect();
        for kernel in ["chi2", "intersection", "power_mean(p=-8)"] {
            with_term(kernel, |term| {
                let (read, write) = polynomial(term, &values, 2, Nodes::AdHoc);
                for (a, s) in values.iter().enumerate().skip(1) {
                    for (b, t) in values.iter().enumerate().skip(1) {
                        let product: f64 = (0..3).map(|k| read[a * 3 + k] * write[b * 3 + k]).sum();
                        let naive = interpolated(term, &[0.01, 0.06, 0.75], *s, *t);
                        assert!((product - naive).abs() < 1e-9, "{kernel} {s} {t}");
                    }
                }
            });
        }
    }

    #[test]
    fn higher_degrees_and_dimensions_are_better() {
        let values: Vec<f64> = (0..256).map(|b| f64::from(b) / 255.0).collect();
        let counts = vec![1; 256];
        with_term("chi2", |term| {
            let error =
                |map: FeatureMap| map.make(term, &values, &counts, 10).report.relative_error;
            let nodes = Nodes::Chebyshev;
            let poly = |degree| error(FeatureMap::Polynomial { degree, nodes });
            assert!(poly(5) < poly(3) && poly(3) < poly(2) && poly(2) < 0.1);
            let waves = |dims| error(FeatureMap::Fourier { dims });
            assert!(waves(5) < waves(3) && waves(3) < 0.2, "{} {}", waves(3), waves(5));
            let rank = |rank| error(FeatureMap::Components { rank: Some(rank) });
            assert!(rank(8) < 1e-4 && rank(8) < rank(4) && rank(4) < waves(7));
        });
    }

    #[test]
    fn the_spectrum_of_chi_squared_is_a_hyperbolic_secant() {
        with_term("chi2", |term| {
            for frequency in [0.0f64, 0.3, 1.0] {
                let known = 1.0 / (std::f64::consts::PI * frequency).cosh();
                assert!((spectrum(term, frequency) - known).abs() < 1e-9, "{frequency}");
            }
        });
    }
}
