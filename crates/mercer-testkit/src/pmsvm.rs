//! \[YW12\] as it is printed, in plain loops: what the solvers `pmsvm` and `pmsvm_lut` are compared with, and
//! the paper's own speed in benchmarks.
//!
//! Added to the print: the labels and the constant that its algorithm 3 forgets, the shrinking and stopping
//! rule of the linear solver it builds on, and Chebyshev's nodes in the variable `ln(x + 0.05)`.

use mercer_data::{Matrix, Row};

/// Added before the logarithm is taken.
const SHIFT: f32 = 0.05;

/// One binary problem without a bias column. Values lie in 0..=1.
#[derive(Debug)]
pub struct Problem<'p> {
    /// The examples.
    pub rows: &'p Matrix,
    /// +1 and -1.
    pub signs: &'p [f32],
    /// C.
    pub c: f32,
    /// Largest violation of optimality.
    pub tolerance: f32,
    /// Where the polynomial is right; one more than its degree.
    pub nodes: Vec<f64>,
    /// Entries of the look-up tables (algorithm 3); without any, logarithms and kernel values are computed
    /// for every non-zero and kept (algorithm 2).
    pub bins: Option<usize>,
}

/// `g(x) = Σ_j Σ_k a_jk ln(x_j + 0.05)^k` over the non-zeros of x.
#[derive(Debug)]
pub struct Curves {
    /// a, column after column.
    pub coefficients: Vec<f32>,
    degree: usize,
    bins: Option<usize>,
    /// Coordinate updates.
    pub updates: u64,
}

/// Chebyshev's nodes for a degree.
pub fn chebyshev(degree: usize) -> Vec<f64> {
    let shift = f64::from(SHIFT);
    let (low, high) = (shift.ln(), (1.0 + shift).ln());
    let angle = |k: usize| std::f64::consts::PI * (k as f64 + 0.5) / (degree + 1) as f64;
    let node = |k: usize| f64::midpoint(low, high) + (high - low) / 2.0 * angle(k).cos();
    (0..=degree).map(|k| (node(k).exp() - shift).max(1e-6)).collect()
}

/// The three nodes of the earlier paper.
pub fn ad_hoc() -> Vec<f64> {
    vec![0.01, 0.06, 0.75]
}

/// Rows as the paper keeps them: four bytes for a column, four for a value.
struct Sparse {
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl Sparse {
    fn new(rows: &Matrix) -> Self {
        let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in rows.iter() {
            for (column, value) in row.nonzeros() {
                columns.push(column);
                values.push(value as f32);
            }
            starts.push(columns.len());
        }
        Self { starts, columns, values }
    }
}

/// What each non-zero stands for: `ln(x + 0.05)`, and `X⁻¹ κ(nodes, x)`.
enum Tables {
    Binned { bins: f32, logs: Vec<f32>, updates: Vec<f32> },
    Kept { logs: Vec<f32>, updates: Vec<f32> },
}

impl Tables {
    fn new(problem: &Problem<'_>, rows: &Sparse, kernel: &dyn Fn(f64, f64) -> f64) -> Self {
        let inverse = inverse(&problem.nodes);
        let one = |x: f32| -> (f32, Vec<f32>) {
            let values: Vec<f64> =
                problem.nodes.iter().map(|node| kernel(*node, f64::from(x))).collect();
            let update = inverse
                .chunks_exact(values.len())
                .map(|row| row.iter().zip(&values).map(|(a, b)| a * b).sum::<f64>() as f32);
            ((x + SHIFT).ln(), update.collect())
        };
        let (mut logs, mut updates) = (Vec::new(), Vec::new());
        let mut push = |x: f32| {
            let (log, update) = one(x);
            logs.push(log);
            updates.extend(update);
        };
        match problem.bins {
            Some(bins) => {
                (0..=bins).for_each(|bin| push(bin as f32 / bins as f32));
                Self::Binned { bins: bins as f32, logs, updates }
            }
            None => {
                rows.values.iter().for_each(|x| push(*x));
                Self::Kept { logs, updates }
            }
        }
    }

    /// The entry of a non-zero: `⌊b x⌋`, or its own.
    #[inline(always)]
    fn at(&self, place: usize, value: f32) -> usize {
        match self {
            Self::Binned { bins, .. } => (bins * value) as usize,
            Self::Kept { .. } => place,
        }
    }

    #[inline(always)]
    fn parts(&self) -> (&[f32], &[f32]) {
        match self {
            Self::Binned { logs, updates, .. } | Self::Kept { logs, updates } => (logs, updates),
        }
    }
}

/// Dual coordinate descent; `kernel` is the scalar kernel. `timer` is called when preparation is over.
pub fn train(
    problem: &Problem<'_>,
    kernel: &dyn Fn(f64, f64) -> f64,
    mut timer: impl FnMut(),
) -> Curves {
    let rows = Sparse::new(problem.rows);
    timer();
    let tables = Tables::new(problem, &rows, kernel);
    let terms = problem.nodes.len();
    let count = problem.signs.len();
    let mut curves = Curves {
        coefficients: vec![0.0; problem.rows.columns() * terms],
        degree: terms - 1,
        bins: problem.bins,
        updates: 0,
    };
    let own = |row: usize| -> f32 {
        let sum = rows.values[rows.starts[row]..rows.starts[row + 1]].iter().sum::<f32>();
        if sum > 0.0 { sum } else { 1.0 }
    };
    let squares: Vec<f32> = (0..count).map(own).collect();
    let mut alpha = vec![0.0f32; count];
    let mut order: Vec<usize> = (0..count).collect();
    let mut active = count;
    let (mut high_before, mut low_before) = (f32::INFINITY, f32::NEG_INFINITY);
    let mut state = 1u64;
    for _ in 0..4000 {
        let (mut high, mut low) = (f32::NEG_INFINITY, f32::INFINITY);
        for at in 0..active {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let other = at + ((state >> 33) as usize) % (active - at);
            order.swap(at, other);
        }
        let mut at = 0;
        while at < active {
            let row = order[at];
            curves.updates += 1;
            let slope = problem.signs[row] * curves.value(&rows, &tables, row) - 1.0;
            let mut projected = slope;
            if alpha[row] == 0.0 {
                if slope > high_before {
                    active -= 1;
                    order.swap(at, active);
                    continue;
                }
                projected = slope.min(0.0);
            } else if alpha[row] >= problem.c {
                if slope < low_before {
                    active -= 1;
                    order.swap(at, active);
                    continue;
                }
                projected = slope.max(0.0);
            }
            high = high.max(projected);
            low = low.min(projected);
            if projected.abs() > 1e-12 {
                let old = alpha[row];
                alpha[row] = (old - slope / squares[row]).max(0.0).min(problem.c);
                let change = (alpha[row] - old) * problem.signs[row];
                curves.update(&rows, &tables, row, change);
            }
            at += 1;
        }
        if high - low <= problem.tolerance {
            if active == count {
                break;
            }
            active = count;
            (high_before, low_before) = (f32::INFINITY, f32::NEG_INFINITY);
        } else {
            high_before = if high > 0.0 { high } else { f32::INFINITY };
            low_before = if low < 0.0 { low } else { f32::NEG_INFINITY };
        }
    }
    curves
}

impl Curves {
    #[inline(always)]
    fn value(&self, rows: &Sparse, tables: &Tables, row: usize) -> f32 {
        let (logs, _) = tables.parts();
        let terms = self.degree + 1;
        let mut sum = 0.0;
        for place in rows.starts[row]..rows.starts[row + 1] {
            let tau = logs[tables.at(place, rows.values[place])];
            let own = &self.coefficients[rows.columns[place] as usize * terms..][..terms];
            sum += own.iter().rev().fold(0.0, |sum, a| sum * tau + a);
        }
        sum
    }

    #[inline(always)]
    fn update(&mut self, rows: &Sparse, tables: &Tables, row: usize, change: f32) {
        let (_, updates) = tables.parts();
        let terms = self.degree + 1;
        for place in rows.starts[row]..rows.starts[row + 1] {
            let update = &updates[tables.at(place, rows.values[place]) * terms..][..terms];
            let own = &mut self.coefficients[rows.columns[place] as usize * terms..][..terms];
            own.iter_mut().zip(update).for_each(|(a, by)| *a += change * by);
        }
    }

    /// `g` of a row.
    pub fn score(&self, row: Row<'_>) -> f32 {
        let terms = self.degree + 1;
        let one = |(column, value): (u32, f64)| {
            let value = value as f32;
            let seen = self.bins.map_or(value, |bins| (bins as f32 * value).floor() / bins as f32);
            let tau = (seen + SHIFT).ln();
            let own = &self.coefficients[column as usize * terms..][..terms];
            own.iter().rev().fold(0.0, |sum, a| sum * tau + a)
        };
        row.nonzeros().map(one).sum()
    }
}

/// `X⁻¹` for `X_ik = ln(c_i + 0.05)^k`: row k holds the coefficients of `τ^k` in Lagrange's polynomials.
fn inverse(nodes: &[f64]) -> Vec<f64> {
    let tau: Vec<f64> = nodes.iter().map(|node| (node + f64::from(SHIFT)).ln()).collect();
    let count = nodes.len();
    let mut out = vec![0.0; count * count];
    for i in 0..count {
        // Π_{j≠i} (τ - τ_j) / (τ_i - τ_j), multiplied out.
        let mut polynomial = vec![1.0];
        for j in (0..count).filter(|j| *j != i) {
            let mut next = vec![0.0; polynomial.len() + 1];
            for (k, a) in polynomial.iter().enumerate() {
                next[k + 1] += a / (tau[i] - tau[j]);
                next[k] -= a * tau[j] / (tau[i] - tau[j]);
            }
            polynomial = next;
        }
        for (k, a) in polynomial.into_iter().enumerate() {
            out[k * count + i] = a;
        }
    }
    out
}
