//! The properties of certificates for tables of curves, over every additive kernel.

use crate::common;
use mercer_compile::compile;
use mercer_data::Matrix;
use mercer_kernel::{Domain, parse};
use mercer_machine::{Machine, Output, Score};
use mercer_query::Plan;
use mercer_testkit::properties::certify::Tally;
use mercer_testkit::{generate, machines};

const PLAN: &str = "cascade(table, exact)";

const KERNELS: [&str; 8] = [
    "intersection",
    "chi2",
    "jensen_shannon",
    "hellinger",
    "power_mean(p=-3)",
    "power_mean(p=-0.25)",
    "power_mean(p=0)",
    "power_mean(p=-inf)",
];

fn check(name: &str, machine: &Machine, queries: &Matrix, tally: &mut Tally) -> bool {
    let sections = compile(machine, &PLAN.parse().unwrap(), None);
    common::hold(sections, common::TestNames { plan: PLAN, case: name }, machine, queries, tally)
}

/// Rows such as histograms: many zeros, some values repeated.
fn histograms(rows: usize, columns: usize, seed: u64) -> Matrix {
    let rows = generate::sparse(rows, columns, 0.6, seed);
    generate::map(&rows, |x| if x.abs() < 0.3 { x.abs() } else { (8.0 * x.abs()).round() / 8.0 })
}

#[test]
fn certificates_hold_on_histograms() {
    for text in KERNELS {
        let (kernel, mut tally) = (parse(text).unwrap(), Tally::default());
        for (name, output) in machines::outputs() {
            let machine = machines::random(&kernel, &histograms(40, 20, 3), &output, 4);
            assert!(check(name, &machine, &histograms(30, 22, 5), &mut tally), "{text} {name}");
        }
        println!("{text}: {tally:?}");
        assert!(tally.certified * 3 > tally.asked, "{text}: {tally:?}");
    }
}

#[test]
fn certificates_hold_on_adversarial_machines() {
    let (mut tally, mut fitted) = (Tally::default(), 0);
    for text in KERNELS {
        let kernel = parse(text).unwrap();
        let mut cases = generate::ordinary(Domain::NonNegative, 5);
        cases.extend(generate::adversarial(Domain::NonNegative, 6));
        for case in &cases {
            let machine = machines::random(&kernel, &case.rows, &Output::Novelty, 7);
            fitted += usize::from(check(case.name, &machine, &case.rows, &mut tally));
            // Ordinary supports, strange queries.
            let supports = generate::dense(20, case.rows.columns(), 8);
            let supports = generate::within(Domain::NonNegative, &supports);
            let machine = machines::random(&kernel, &supports, &Output::Novelty, 9);
            fitted += usize::from(check(case.name, &machine, &case.rows, &mut tally));
        }
    }
    println!("adversarial: {fitted} machines, {tally:?}");
    assert!(fitted > 50 && tally.certified > 200, "{fitted} {tally:?}");
}

/// Coefficients that cancel to the last digit: nothing may be certified.
#[test]
fn scores_that_cancel_are_never_certified() {
    for text in KERNELS {
        // Two rows that swap their columns, asked with rows of equal columns: f = 0.
        let supports = Matrix::dense(2, vec![0.3, 0.7, 0.7, 0.3]).unwrap();
        let scores = vec![Score::expansion(&[1e3, -1e3], 0.0)];
        let kernel = parse(text).unwrap();
        let machine = Machine::new(kernel, supports, scores, Output::Novelty).unwrap();
        let values = (1..40).flat_map(|n| [f64::from(n) / 17.0; 2]).collect();
        let queries = Matrix::dense(2, values).unwrap();
        let mut tally = Tally::default();
        assert!(check("a cancelling machine", &machine, &queries, &mut tally));
        assert_eq!(tally.certified, 0, "{text}");
    }
}

/// With a node at every value of a support nothing is left of the range but rounding.
#[test]
fn intersections_are_folded_exactly() {
    let kernel = parse("intersection").unwrap();
    let machine = machines::random(&kernel, &histograms(200, 30, 11), &Output::Value, 12);
    let sections = compile(&machine, &PLAN.parse().unwrap(), None).unwrap();
    let plan = Plan::fitted(&machine, &sections).unwrap();
    let queries = histograms(100, 30, 13);
    for row in 0..queries.rows() {
        let told = plan.explain(&queries, row, &mercer_query::QueryOptions::default()).unwrap();
        let range = told.steps[0].range;
        assert!(range.high - range.low < 1e-9, "row {row}: {range:?}");
    }
}

#[test]
fn kernels_that_are_no_sums_of_curves_are_refused_by_name() {
    for text in ["rbf(gamma=1)", "power_mean(p=2)", "exponential(chi2, gamma=1)", "linear"] {
        let kernel = parse(text).unwrap();
        let supports = generate::within(Domain::NonNegative, &generate::dense(5, 3, 1));
        let machine = machines::random(&kernel, &supports, &Output::Novelty, 2);
        let refused = compile(&machine, &PLAN.parse().unwrap(), None).unwrap_err().to_string();
        assert!(refused.contains("is not a sum of curves"), "{refused}");
    }
}
