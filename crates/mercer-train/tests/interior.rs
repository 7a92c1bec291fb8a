//! Iterations of the interior point method: few, whatever the price, the kernel and the size of features.

mod common;

use mercer_data::{Dataset, Matrix, Targets, synthetic};
use mercer_train::{Training, formulation, solver, train};

const PRICES: [&str; 8] = ["1e-3", "1e-2", "0.1", "1", "10", "100", "1e3", "1e4"];

/// Iterations to a relative gap of 1e-8, which must be reached.
fn iterations(data: &Dataset, kernel: &str, rank: usize, text: &str) -> usize {
    let how = format!("low_rank(rank={rank}, guard=off, method=interior, precision=double)");
    let training = Training::default().solver(solver(&how).unwrap()).tolerance(1e-8);
    let kernel = mercer_kernel::parse(kernel).unwrap();
    let trained =
        train(data, &kernel, &formulation(text).unwrap(), &training, &mut |_| {}).unwrap();
    let report = &trained.report;
    assert!(report.converged && report.violation <= 1e-8, "{text} {} {report:?}", kernel.spec());
    report.low_rank.as_ref().unwrap().iterations
}

/// Up to nine rings or more, a column for each sex, all columns from -1 to 1.
fn abalone(rows: usize) -> Dataset {
    let text = include_str!("../../../datasets/abalone/abalone.csv");
    let (mut values, mut targets) = (Vec::new(), Vec::new());
    for line in text.lines().skip(1).take(rows) {
        let fields: Vec<&str> = line.split(',').collect();
        values.extend(["F", "I", "M"].map(|sex| f64::from(u8::from(fields[0] == sex))));
        let numbers: Vec<f64> = fields[1..].iter().map(|field| field.parse().unwrap()).collect();
        values.extend(&numbers[..7]);
        targets.push(if numbers[7] <= 9.0 { 1.0 } else { -1.0 });
    }
    for column in 0..10 {
        let all = values.iter().skip(column).step_by(10);
        let low = all.clone().copied().fold(f64::INFINITY, f64::min);
        let high = all.copied().fold(f64::NEG_INFINITY, f64::max);
        let own = values.iter_mut().skip(column).step_by(10);
        own.for_each(|x| *x = 2.0 * (*x - low) / (high - low) - 1.0);
    }
    let examples = Matrix::dense(10, values).unwrap();
    Dataset { examples, targets: Targets::Numbers(targets), names: None }
}

fn scaled(data: &Dataset, by: f64) -> Dataset {
    let (columns, rows) = (data.examples.columns(), data.examples.rows());
    let value = |at: usize| by * data.examples.row(at / columns).get(at % columns);
    let values = (0..rows * columns).map(value).collect();
    Dataset { examples: Matrix::dense(columns, values).unwrap(), ..data.clone() }
}

/// At most 25 typically and 40 always, to 1e-8, on these problems. Not in general: overlapping classes with
/// features of 1e4 at a price of 100 stall after 94 iterations at a gap of 4e-5 (rounding is suspected, not shown),
/// and so did `nu_svc(nu=0.2)` on Abalone, where the objective is near zero.
#[test]
fn iterations_stay_few_for_prices_over_seven_orders_of_magnitude() {
    let (abalone, banana, ripley) =
        (abalone(1000), synthetic::banana(500, 9), synthetic::ripley(500, 2));
    let large = scaled(&ripley, 100.0);
    let degree_5 = "polynomial(degree=5, gamma=0.0909090909090909, coef0=1)";
    let problems: [(&Dataset, &str, usize); 8] = [
        (&abalone, "linear", 10),
        (&abalone, degree_5, 80),
        (&abalone, "rbf(gamma=0.5)", 80),
        (&banana, "rbf(gamma=1)", 60),
        (&banana, "rbf(gamma=30)", 120),
        (&ripley, "linear", 2),
        (&large, "linear", 2),
        (&ripley, "polynomial(degree=3, gamma=1, coef0=1)", 10),
    ];
    let mut all = Vec::new();
    for (data, kernel, rank) in problems {
        for c in PRICES {
            for text in [format!("c_svc(C={c})"), format!("epsilon_svr(C={c}, epsilon=0.1)")] {
                let made = iterations(data, kernel, rank, &text);
                assert!(made <= 40, "{text} {kernel} {}: {made}", data.examples.row(0).get(0));
                all.push(made);
            }
        }
    }
    all.sort_unstable();
    let (median, most) = (all[all.len() / 2], all[all.len() * 19 / 20]);
    assert!(median <= 15 && most <= 25, "median {median}, 95 % within {most}");
}

#[test]
fn iterations_stay_few_for_shares_of_examples() {
    let (banana, abalone) = (synthetic::banana(400, 9), abalone(800));
    // A classifier of a share below the errors has no margin, so Abalone begins at a half.
    let problems = [
        (&banana, "rbf(gamma=1)", ["0.2", "0.3", "0.5"]),
        (&abalone, "rbf(gamma=0.5)", ["0.5", "0.55", "0.6"]),
    ];
    for (data, kernel, shares) in problems {
        for nu in shares {
            for name in ["nu_svc(nu=#)", "one_class(nu=#)", "nu_svr(nu=#, C=10)"] {
                let text = name.replace('#', nu);
                let made = iterations(data, kernel, 60, &text);
                assert!(made <= 40, "{text} {kernel}: {made}");
            }
        }
    }
}
