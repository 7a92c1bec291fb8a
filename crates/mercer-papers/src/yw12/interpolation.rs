//! Tables 1 and 2: how far the polynomial is from the curve `g_j(x) = Σ β_t κ(x, x_tj)` of a trained machine.

use mercer::data::{Dataset, Targets};
use mercer::kernel::{Form, parse};
use mercer::machine::Score;
use mercer::train::{Training, formulation, train};
use serde_json::{Value, json};

use super::sets::SetRows;
use crate::Session;

/// The set whose machine has the curves.
pub(super) const SET: &str = "MNIST";
/// Examples of that machine.
const EXAMPLES: usize = 3000;
/// Columns, counted among those where a support has a value in at least `FILLED` rows.
const COLUMNS: [usize; 3] = [30, 50, 100];
const FILLED: usize = 100;
const SHIFT: f64 = 0.05;

/// Where the polynomial equals the curve.
enum Nodes {
    /// The paper's 0.01, 0.06, 0.75.
    AdHoc,
    /// Chebyshev's in `ln(x + 0.05)`.
    InLogarithm,
    /// Chebyshev's in x itself: what one might read into the paper.
    InValue,
}

impl Nodes {
    fn points(&self, degree: usize) -> Vec<f64> {
        let angle = |k: usize| std::f64::consts::PI * (k as f64 + 0.5) / (degree + 1) as f64;
        let between = |low: f64, high: f64, k: usize| {
            f64::midpoint(low, high) + (high - low) / 2.0 * angle(k).cos()
        };
        match self {
            Self::AdHoc => vec![0.01, 0.06, 0.75],
            Self::InValue => (0..=degree).map(|k| between(0.0, 1.0, k)).collect(),
            Self::InLogarithm => {
                let node = |k: usize| between(SHIFT.ln(), (1.0 + SHIFT).ln(), k).exp() - SHIFT;
                (0..=degree).map(|k| node(k).max(1e-6)).collect()
            }
        }
    }
}

/// Lagrange's polynomial in `ln(x + 0.05)` through `curve` at the nodes.
fn interpolated(nodes: &[f64], at_nodes: &[f64], x: f64) -> f64 {
    let tau = |x: f64| (x + SHIFT).ln();
    let share = |k: usize| {
        let others = (0..nodes.len()).filter(|j| *j != k);
        others.map(|j| (tau(x) - tau(nodes[j])) / (tau(nodes[k]) - tau(nodes[j]))).product::<f64>()
    };
    (0..nodes.len()).map(|k| share(k) * at_nodes[k]).sum()
}

/// Largest and mean error on the 255 values of a pixel, and both over the curve's largest size.
fn errors(curve: &dyn Fn(f64) -> f64, nodes: &[f64]) -> [f64; 4] {
    let at_nodes: Vec<f64> = nodes.iter().map(|x| curve(*x)).collect();
    let (mut worst, mut sum, mut largest) = (0.0f64, 0.0, 0.0f64);
    for step in 1..=255 {
        let x = f64::from(step) / 255.0;
        let right = curve(x);
        let error = (right - interpolated(nodes, &at_nodes, x)).abs();
        worst = worst.max(error);
        sum += error;
        largest = largest.max(right.abs());
    }
    let (mean, size) = (sum / 255.0, if largest > 0.0 { largest } else { 1.0 });
    [worst, mean, worst / size, mean / size]
}

/// Trains one class against the rest with `smo`, whose machines keep supports and coefficients.
pub(super) fn run(session: &Session<'_>, rows: &SetRows) -> anyhow::Result<Value> {
    let data = one_against_rest(&rows.examples)?;
    let kernel = parse("chi2")?;
    let training = Training::default().cancel(session.cancel());
    let machine =
        train(&data, &kernel, &formulation("c_svc(C=0.01)")?, &training, &mut |_| {})?.machine;
    session.check()?;
    let (Form::Additive(term, _), Some(Score::Expansion { supports, coefficients, .. })) =
        (kernel.form(), machine.scores().first())
    else {
        anyhow::bail!("an additive expansion")
    };
    let mut columns: Vec<Vec<(f64, f64)>> = vec![Vec::new(); machine.columns()];
    for (support, beta) in supports.iter().zip(coefficients) {
        for (column, value) in machine.supports().row(*support as usize).nonzeros() {
            columns[column as usize].push((value, *beta));
        }
    }
    let filled: Vec<usize> =
        (0..columns.len()).filter(|column| columns[*column].len() >= FILLED).collect();
    session.line(&format!(
        "\nTables 1 and 2: errors of interpolation, {} supports, chi2 (share of the curve's largest size)\n\
         {:>4} {:26} {:>20} {:>20}",
        supports.len(),
        "j",
        "nodes",
        "largest error",
        "mean error"
    ));
    let mut lines = Vec::new();
    for j in COLUMNS {
        let Some(column) = filled.get(j) else { continue };
        let curve =
            |x: f64| columns[*column].iter().map(|(t, beta)| beta * term.term(x, *t)).sum::<f64>();
        let mut add = |name: &str, degree: usize, nodes: &Nodes| {
            let [worst, mean, worst_share, mean_share] = errors(&curve, &nodes.points(degree));
            session.line(&format!(
                "{j:>4} {:26} {:>20} {:>20}",
                format!("{name}, degree {degree}"),
                format!("{worst:.1e} ({:.2} %)", 100.0 * worst_share),
                format!("{mean:.1e} ({:.2} %)", 100.0 * mean_share)
            ));
            lines.push(json!({
                "j": j, "column": column + 1, "nodes": name, "degree": degree,
                "largest_error": worst, "mean_error": mean,
                "largest_share": worst_share, "mean_share": mean_share,
            }));
        };
        add("ad hoc", 2, &Nodes::AdHoc);
        for degree in 2..=5 {
            add("Chebyshev in ln", degree, &Nodes::InLogarithm);
        }
        for degree in [2, 5] {
            add("Chebyshev in x", degree, &Nodes::InValue);
        }
    }
    Ok(json!({ "supports": supports.len(), "rows": lines }))
}

/// The first examples; the largest class label is +1 (the paper does not say which digit).
fn one_against_rest(data: &Dataset) -> anyhow::Result<Dataset> {
    let part = data.select(&(0..data.examples.rows().min(EXAMPLES)).collect::<Vec<_>>());
    let Targets::Numbers(labels) = &part.targets else { anyhow::bail!("labels are numbers") };
    let largest = labels.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sign = |label: &f64| if *label >= largest { 1.0 } else { -1.0 };
    let targets = Targets::Numbers(labels.iter().map(sign).collect());
    Ok(Dataset { targets, ..part })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parabola_in_the_logarithm_is_interpolated_everywhere() {
        let curve = |x: f64| {
            let tau = (x + SHIFT).ln();
            1.0 - 2.0 * tau + 0.5 * tau * tau
        };
        for nodes in [Nodes::AdHoc, Nodes::InLogarithm, Nodes::InValue] {
            let [worst, mean, ..] = errors(&curve, &nodes.points(2));
            assert!(worst < 1e-10 && mean <= worst, "{worst}");
        }
        let [two, ..] = errors(&f64::sqrt, &Nodes::InLogarithm.points(2));
        let [five, ..] = errors(&f64::sqrt, &Nodes::InLogarithm.points(5));
        assert!(five < two);
    }
}
