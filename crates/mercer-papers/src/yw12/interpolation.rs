//! Tables 1 and 2, Figures 1 and 2: how far the polynomial is from the curve `g_j(x) = Σ β_t κ(x, x_tj)` of a trained
//! machine.

use mercer::data::{Dataset, Targets};
use mercer::kernel::{Form, parse};
use mercer::machine::Score;
use mercer::train::{Training, formulation, train};

use super::PAPER;
use super::sets::SetRows;
use crate::{Comparison, Session};
use mercer_report::svg::{Series, lines, plot};

/// The set whose machine has the curves.
pub(super) const SET: &str = "MNIST";
/// Examples of that machine.
const EXAMPLES: usize = 3000;
/// Columns, counted among those where a support has a value in at least `FILLED` rows.
const COLUMNS: [usize; 3] = [30, 50, 100];
const FILLED: usize = 100;
const SHIFT: f64 = 0.05;

/// Tables 1 and 2: largest and mean relative error in percent, Chebyshev nodes and ad hoc nodes, for the three columns.
const TABLES: [(&str, [[f64; 4]; 3]); 2] = [
    ("Caltech 101", [[0.77, 0.33, 0.87, 0.45], [8.30, 1.25, 5.31, 2.73], [1.51, 0.30, 1.25, 0.58]]),
    ("MNIST", [[1.78, 0.88, 2.17, 0.81], [2.03, 1.33, 2.55, 1.43], [1.56, 0.85, 1.88, 0.90]]),
];

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
pub(super) fn run(session: &Session<'_>, rows: &SetRows) -> anyhow::Result<()> {
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
        "\nTables 1 and 2: one class of MNIST against the rest, {} supports, C = 0.01; shares of the curve's largest value. \
         The paper names neither the class nor how it counts columns.",
        supports.len()
    ));
    let mut by_degree = Vec::new();
    for (number, j) in COLUMNS.into_iter().enumerate() {
        let Some(column) = filled.get(j) else { continue };
        let curve =
            |x: f64| columns[*column].iter().map(|(t, beta)| beta * term.term(x, *t)).sum::<f64>();
        let [largest, mean, ad_hoc_largest, ad_hoc_mean] = TABLES[1].1[number];
        let add = |name: &str, degree: usize, nodes: &Nodes, paper: Option<[f64; 2]>| {
            let [worst, mean, worst_share, mean_share] = errors(&curve, &nodes.points(degree));
            let dataset = format!("MNIST, column j = {j}");
            let method = format!("{name}, degree {degree}");
            let row = |measure: &str| Comparison::new(&*dataset, &*method, measure).unit("%");
            let of = |at: usize| paper.map(|paper| paper[at]);
            let worst = format!("{worst:.1e} as it is");
            let mean = format!("{mean:.1e} as it is");
            session
                .compare(row("largest error").ours(100.0 * worst_share).paper(of(0)).note(worst));
            session.compare(row("mean error").ours(100.0 * mean_share).paper(of(1)).note(mean));
            [worst_share, mean_share]
        };
        add("ad hoc nodes", 2, &Nodes::AdHoc, Some([ad_hoc_largest, ad_hoc_mean]));
        let paper = |degree: usize| (degree == 2).then_some([largest, mean]);
        for degree in 2..=5 {
            let found = add("Chebyshev in ln", degree, &Nodes::InLogarithm, paper(degree));
            by_degree.push((degree, j, found));
        }
        for degree in [2, 5] {
            add("Chebyshev in x", degree, &Nodes::InValue, paper(degree));
        }
        if j == COLUMNS[0] {
            figure_1(session, j, &curve)?;
        }
    }
    figure_2(session, &by_degree)?;
    missing_table(session);
    Ok(())
}

/// Table 1, whose features are not part of the paper.
fn missing_table(session: &Session<'_>) {
    let (name, columns) = TABLES[0];
    for (j, [largest, mean, ad_hoc_largest, ad_hoc_mean]) in COLUMNS.into_iter().zip(columns) {
        let pairs =
            [("Chebyshev nodes", [largest, mean]), ("ad hoc nodes", [ad_hoc_largest, ad_hoc_mean])];
        for (method, paper) in pairs {
            for (measure, paper) in ["largest error", "mean error"].into_iter().zip(paper) {
                let row = Comparison::new(format!("{name}, column j = {j}"), method, measure);
                let row = row.paper(paper).unit("%");
                session.compare(row.note("the features of the images are not part of the paper"));
            }
        }
    }
}

/// Figure 1: the curve of one column, and two polynomials of degree 2.
fn figure_1(session: &Session<'_>, j: usize, curve: &dyn Fn(f64) -> f64) -> anyhow::Result<()> {
    let values = || (1..=255).map(|step| f64::from(step) / 255.0);
    let polynomial = |nodes: &Nodes| {
        let nodes = nodes.points(2);
        let at_nodes: Vec<f64> = nodes.iter().map(|x| curve(*x)).collect();
        values().map(|x| (x, interpolated(&nodes, &at_nodes, x))).collect()
    };
    let drawn = [
        Series::line("g_j", values().map(|x| (x, curve(x))).collect()),
        Series::line("Chebyshev nodes in ln(x + 0.05)", polynomial(&Nodes::InLogarithm)),
        Series::line("Chebyshev nodes in x", polynomial(&Nodes::InValue)),
        Series::line("ad hoc nodes", polynomial(&Nodes::AdHoc)),
    ];
    let title = format!("MNIST, column {j}: the curve and its polynomials of degree 2 (Fig. 1 a)");
    session.figure(&PAPER, "fig1", &plot(&title, "x", "g_j(x)", &drawn))
}

/// Figure 2: relative errors against the degree.
fn figure_2(session: &Session<'_>, by_degree: &[(usize, usize, [f64; 2])]) -> anyhow::Result<()> {
    let mut drawn = Vec::new();
    for (at, name) in ["largest", "mean"].into_iter().enumerate() {
        // The worst of the three columns.
        let worst = |degree: usize| {
            let of = by_degree.iter().filter(|(other, ..)| *other == degree);
            100.0 * of.map(|(.., errors)| errors[at]).fold(0.0, f64::max)
        };
        let points = (2..=5).map(|degree| (degree as f64, worst(degree))).collect();
        drawn.push(Series::line(&format!("{name} relative error, %"), points));
    }
    let title = "MNIST: relative error against the degree, Chebyshev nodes (Fig. 2 a)";
    session.figure(&PAPER, "fig2", &lines(title, "degree", &drawn))
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
