//! Iterations of the interior point method: few, whatever C, the kernel and the size of features.

use mercer_data::{Dataset, Matrix, Targets, synthetic};
use mercer_train::{Training, formulation, solver, train};

const PENALTIES: [&str; 8] = ["1e-3", "1e-2", "0.1", "1", "10", "100", "1e3", "1e4"];

/// Iterations to a relative gap of 1e-8, which must be reached.
fn iterations(data: &Dataset, kernel: &str, rank: usize, text: &str) -> usize {
    weighted(data, None, kernel, rank, text)
}

fn weighted(
    data: &Dataset,
    weights: Option<Vec<f64>>,
    kernel: &str,
    rank: usize,
    text: &str,
) -> usize {
    let how = format!("low_rank(rank={rank}, guard=off, method=interior, precision=double)");
    let training = Training::default().solver(solver(&how).unwrap()).tolerance(1e-8);
    let training = training.weights(weights);
    let kernel = mercer_kernel::parse(kernel).unwrap();
    let trained =
        train(data, &kernel, &formulation(text).unwrap(), &training, &mut |_| {}).unwrap();
    let report = &trained.report;
    assert!(report.converged && report.violation <= 1e-8, "{text} {} {report:?}", kernel.spec());
    report.low_rank.as_ref().unwrap().iterations
}

/// Up to nine rings or more, a column for each sex, all columns from -1 to 1.
pub(crate) fn abalone(rows: usize) -> Dataset {
    let text = include_str!("../../../../datasets/abalone/abalone.csv");
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

/// Some rows, one after the other, moved by `shift` to the side of their class.
fn chosen(data: &Dataset, rows: impl Iterator<Item = usize>, shift: f64) -> Dataset {
    let picked = data.select(&rows.collect::<Vec<_>>());
    let columns = picked.examples.columns();
    let side = sides(&picked);
    let values = (0..columns * side.len())
        .map(|at| picked.examples.row(at / columns).get(at % columns) + shift * side[at / columns])
        .collect();
    Dataset { examples: Matrix::dense(columns, values).unwrap(), ..picked }
}

fn sides(data: &Dataset) -> Vec<f64> {
    let Targets::Numbers(targets) = &data.targets else { panic!("numbers") };
    let first = targets[0];
    targets.iter().map(|target| if *target == first { 1.0 } else { -1.0 }).collect()
}

/// What was counted must be few always and typically.
fn check_few(all: &[(String, usize)], typical: usize) {
    let slow: Vec<&(String, usize)> = all.iter().filter(|(_, made)| *made > 40).collect();
    assert!(slow.is_empty(), "{slow:?}");
    let mut made: Vec<usize> = all.iter().map(|(_, made)| *made).collect();
    made.sort_unstable();
    let (median, most) = (made[made.len() / 2], made[made.len() * 19 / 20]);
    println!(
        "{} problems: median {median}, 95 % {most}, most {}",
        made.len(),
        made[made.len() - 1]
    );
    assert!(median <= typical && most <= 25, "median {median}, 95 % within {most}");
}

#[test]
fn iterations_stay_few_for_c_over_seven_orders_of_magnitude() {
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
        for c in PENALTIES {
            for text in [format!("c_svc(C={c})"), format!("epsilon_svr(C={c}, epsilon=0.1)")] {
                let made = iterations(data, kernel, rank, &text);
                all.push((format!("{text} {kernel}"), made));
            }
        }
    }
    check_few(&all, 15);
}

/// Features of 1, 1e4 and 1e6: `C |x|²` from 1e-3 to 1e16.
#[test]
fn iterations_stay_few_for_features_over_six_orders_of_magnitude() {
    let ripley = synthetic::ripley(200, 2);
    let side = sides(&ripley);
    let rare = (0..200).filter(|row| side[*row] > 0.0 || *row < 8);
    let problems = [
        ("overlapping", chosen(&ripley, 0..200, 0.0)),
        ("separable", chosen(&ripley, 0..200, 0.8)),
        ("nearly separable", chosen(&ripley, 0..200, 0.2)),
        ("duplicated", chosen(&ripley, (0..200).map(|at| at % 40), 0.0)),
        ("one rare class", chosen(&ripley, rare, 0.0)),
        ("Abalone", abalone(150)),
    ];
    let mut all = Vec::new();
    for (name, data) in &problems {
        let penalties: Vec<f64> =
            (0..data.examples.rows()).map(|row| 10f64.powi(row as i32 * 7 % 5 - 2)).collect();
        for size in [1.0, 1e4, 1e6] {
            let data = scaled(data, size);
            for c in PENALTIES {
                for text in [format!("c_svc(C={c})"), format!("epsilon_svr(C={c}, epsilon=0.1)")] {
                    let made = iterations(&data, "linear", 10, &text);
                    all.push((format!("{name} x{size:e} {text}"), made));
                    let made = weighted(&data, Some(penalties.clone()), "linear", 10, &text);
                    all.push((format!("{name} x{size:e} {text} weighted"), made));
                }
            }
        }
    }
    check_few(&all, 15);
}

/// The same problem in other units: features times 1e4 and C by 1e8, exactly so in powers of two.
#[test]
fn units_of_features_and_c_change_no_iteration() {
    let data = synthetic::ripley(200, 3);
    let (large, c_factor) = (scaled(&data, 16384.0), f64::powi(2.0, -28));
    for c in [0.1, 10.0, 1e4] {
        let one = iterations(&data, "linear", 2, &format!("c_svc(C={c})"));
        let other = iterations(&large, "linear", 2, &format!("c_svc(C={})", c * c_factor));
        assert_eq!(one, other, "C={c}");
    }
}

/// Below the share of errors the hulls of the classes meet and the best margin is zero: that is said, where it
/// used to stall.
#[test]
fn a_share_without_a_margin_is_told_whatever_the_features() {
    let abalone = abalone(600);
    for (size, kernel) in [(1.0, "rbf(gamma=0.5)"), (1.0, "linear"), (1e4, "linear")] {
        for nu in ["0.05", "0.2"] {
            let how = "low_rank(rank=60, guard=off, method=interior, precision=double)";
            let training = Training::default().solver(solver(how).unwrap()).tolerance(1e-8);
            let (kernel, formulation) =
                (mercer_kernel::parse(kernel).unwrap(), formulation(&format!("nu_svc(nu={nu})")));
            let data = scaled(&abalone, size);
            let trained = train(&data, &kernel, &formulation.unwrap(), &training, &mut |_| {});
            let error = trained.expect_err("no margin").to_string();
            assert!(error.contains("margin"), "{nu} {size} {error}");
        }
    }
}

#[test]
fn iterations_stay_few_for_shares_of_examples() {
    let (banana, abalone) = (synthetic::banana(400, 9), abalone(800));
    let ripley = synthetic::ripley(200, 2);
    let (large, huge) = (scaled(&ripley, 1e4), scaled(&ripley, 1e6));
    // A classifier of a share below the errors has no margin, so Abalone begins at a half.
    let problems = [
        (&banana, "rbf(gamma=1)", ["0.2", "0.3", "0.5"]),
        (&abalone, "rbf(gamma=0.5)", ["0.5", "0.55", "0.6"]),
        (&ripley, "linear", ["0.4", "0.5", "0.9"]),
        (&large, "linear", ["0.4", "0.5", "0.9"]),
        (&huge, "linear", ["0.4", "0.5", "0.9"]),
    ];
    let mut all = Vec::new();
    for (data, kernel, shares) in problems {
        for nu in shares {
            for name in ["nu_svc(nu=#)", "one_class(nu=#)", "nu_svr(nu=#, C=10)"] {
                let text = name.replace('#', nu);
                all.push((format!("{text} {kernel}"), iterations(data, kernel, 60, &text)));
            }
        }
    }
    check_few(&all, 15);
}
