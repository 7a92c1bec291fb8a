//! The solvers of papers (`pmsvm`, `pmsvm_lut`, `feature_map`) against `additive` and against the printed algorithms.

use mercer_data::{Dataset, Matrix, Targets};

use crate::additive::{by, histograms, learn, score};

/// Histograms with values between 0 and 1.
fn shares(rows: usize, columns: usize, seed: u64) -> Dataset {
    let data = histograms(rows, columns, seed);
    let values = data.examples.as_dense().unwrap();
    let largest = values.iter().copied().fold(0.0, f64::max);
    let values = values.iter().map(|x| x / largest).collect();
    Dataset { examples: Matrix::dense(columns, values).unwrap(), ..data }
}

#[test]
fn paper_solvers_and_maps_agree_with_the_exact_machine_roughly() {
    let data = shares(300, 10, 11);
    let exact = ["additive(rank=16)", "additive(rank=16, bias=0)"]
        .map(|text| learn(&data, "chi2", "c_svc(C=1)", &by(text).tolerance(1e-2)));
    for text in [
        "pmsvm",
        "pmsvm_lut",
        "pmsvm_lut(degree=5, bins=100)",
        "pmsvm_lut(nodes=ad_hoc, bins=10000)",
        "pmsvm_lut(nodes=chebyshev_in_x)",
        "pmsvm_lut(as=printed)",
        "pmsvm_lut(as=printed, degree=5, nodes=chebyshev)",
        "pmsvm_lut(as=printed, nodes=ad_hoc, bins=10000)",
        "feature_map",
        "feature_map(dims=5)",
    ] {
        let trained = learn(&data, "chi2", "c_svc(C=1)", &by(text).tolerance(1e-2));
        assert!(trained.report.converged, "{text} {:?}", trained.report);
        assert_eq!(trained.report.gap.is_nan(), text.starts_with("pmsvm"), "{text}");
        // The printed algorithms have no bias.
        let exact = &exact[usize::from(text.contains("printed"))];
        let agree = data.examples.iter().filter(|row| {
            let signs = [exact, &trained].map(|t| score(&t.machine, 0, *row) > 0.0);
            signs[0] == signs[1]
        });
        assert!(agree.count() >= 280, "{text}");
    }
}

type Scalar = fn(f64, f64) -> f64;

/// The paper's loops in the test kit and our look-up factors end in the same curves. Values lie a quarter of
/// a bin above the bin, so that rounding down and to the nearest agree.
#[test]
fn paper_solvers_are_the_printed_algorithms() {
    use mercer_testkit::pmsvm;
    let mut data = histograms(160, 8, 17);
    let bins = 100.0;
    let on_bin =
        |x: &f64| if *x == 0.0 { 0.0 } else { ((x * 49.0).floor().max(1.0) + 0.25) / bins };
    let mut values: Vec<f64> = data.examples.as_dense().unwrap().iter().map(on_bin).collect();
    values[3] = 1.0;
    data.examples = Matrix::dense(8, values).unwrap();
    let Targets::Numbers(targets) = &data.targets else { panic!("numbers") };
    let signs: Vec<f32> = targets.iter().map(|y| *y as f32).collect();
    let kernels: [(&str, Scalar); 2] =
        [("chi2", |s, t| 2.0 * s * t / (s + t)), ("intersection", f64::min)];
    for (name, kernel) in kernels {
        let variants = [
            ("pmsvm(bias=0)", pmsvm::ad_hoc(), None),
            ("pmsvm_lut(bins=100, bias=0)", pmsvm::chebyshev(2), Some(100)),
            ("pmsvm_lut(degree=5, bins=100, bias=0)", pmsvm::chebyshev(5), Some(100)),
        ];
        for (text, nodes, bins) in variants {
            let problem = pmsvm::Problem {
                rows: &data.examples,
                signs: &signs,
                c: 1.0,
                tolerance: 1e-3,
                nodes,
                bins,
            };
            let printed = pmsvm::train(&problem, &kernel, || ());
            let ours = learn(&data, name, "c_svc(C=1)", &by(text).tolerance(1e-3));
            assert!(ours.report.converged, "{name} {text} {:?}", ours.report);
            for (number, row) in data.examples.iter().enumerate() {
                let pair = [score(&ours.machine, 0, row), f64::from(printed.score(row))];
                // Both stop 1e-3 from optimal; curves are a few times less settled than violations.
                assert!((pair[0] - pair[1]).abs() < 2e-2, "{name} {text} row {number}: {pair:?}");
            }
        }
    }
}

/// Algorithms 2 and 3 as printed, as solvers, end where the loops of the test kit end. Algorithm 2 takes `κ(0.01, x)` as 0.01.
#[test]
fn printed_solvers_are_the_loops_of_the_test_kit() {
    use mercer_testkit::pmsvm;
    let data = shares(160, 8, 17);
    let Targets::Numbers(targets) = &data.targets else { panic!("numbers") };
    let signs: Vec<f32> = targets.iter().map(|y| *y as f32).collect();
    let first = |s: f64, t: f64| if s == 0.01 { 0.01 } else { 2.0 * s * t / (s + t) };
    let chi2 = |s: f64, t: f64| if s + t > 0.0 { 2.0 * s * t / (s + t) } else { 0.0 };
    let variants: [(&str, Vec<f64>, Option<usize>, Scalar); 4] = [
        ("pmsvm(as=printed)", pmsvm::ad_hoc(), None, first),
        ("pmsvm_lut(as=printed, bins=100)", pmsvm::chebyshev(2), Some(100), chi2),
        ("pmsvm_lut(as=printed, degree=4, bins=1000)", pmsvm::chebyshev(4), Some(1000), chi2),
        ("pmsvm_lut(as=printed, nodes=ad_hoc, bins=50)", pmsvm::ad_hoc(), Some(50), chi2),
    ];
    for (text, nodes, bins, kernel) in variants {
        let rows = &data.examples;
        let problem = pmsvm::Problem { rows, signs: &signs, c: 1.0, tolerance: 1e-3, nodes, bins };
        let printed = pmsvm::train(&problem, &kernel, || ());
        let ours = learn(&data, "chi2", "c_svc(C=1)", &by(text).tolerance(1e-3));
        assert!(ours.report.converged, "{text} {:?}", ours.report);
        let far = data.examples.iter().filter(|row| {
            (score(&ours.machine, 0, *row) - f64::from(printed.score(*row))).abs() > 2e-2
        });
        // Both stop 1e-3 from optimal; the machine's own bins may take a value beside a step to the next one.
        assert!(far.count() <= 2, "{text}");
    }
}

/// The thesis of the paper: tables in place of kept values leave 8 of 20 bytes for each non-zero.
#[test]
fn printed_tables_take_two_fifths_of_the_memory_of_kept_values() {
    let data = shares(2000, 40, 5);
    let bytes = |text: &str| {
        let trained = learn(&data, "chi2", "c_svc(C=0.1)", &by(text));
        let linear = trained.report.linear.unwrap();
        // Beside the starts of rows and the tables, which do not grow with the non-zeros.
        let tables = if text.contains("lut") { 16 * 1001 } else { 0 };
        let own = linear.example_bytes - 8 * 2001 - tables;
        own as f64 / linear.nonzeros as f64
    };
    assert_eq!(bytes("pmsvm(as=printed)"), 20.0);
    assert_eq!(bytes("pmsvm_lut(as=printed)"), 8.0);
}

#[test]
fn printed_solvers_refuse_what_the_paper_has_not() {
    let refused = |text: &str| mercer_train::solver(text).unwrap_err().to_string();
    assert!(refused("pmsvm(as=printed, bias=1)").contains("no bias term"));
    assert!(mercer_train::solver("pmsvm_lut(as=printed, bias=0)").is_ok());
    let kernel = mercer_kernel::parse("chi2").unwrap();
    let says = |data: &Dataset, formulation: &str| {
        let formulation = mercer_train::formulation(formulation).unwrap();
        let training = by("pmsvm_lut(as=printed)");
        let trained = mercer_train::train(data, &kernel, &formulation, &training, &mut |_| {});
        trained.unwrap_err().to_string()
    };
    let mut data = shares(60, 4, 1);
    assert!(says(&data, "logistic").contains("minimises c_svc, not logistic"));
    let mut values = data.examples.as_dense().unwrap().to_vec();
    values[9] = 3.5;
    data.examples = Matrix::dense(4, values).unwrap();
    let text = says(&data, "c_svc(C=1)");
    assert!(text.contains("example 3, column 2 has the value 3.5"), "{text}");
}

/// Several classes and folds, with the same result on any number of threads.
#[test]
fn printed_solvers_take_several_classes_and_folds() {
    let mut data = shares(300, 10, 11);
    let Targets::Numbers(targets) = &mut data.targets else { panic!("numbers") };
    targets.iter_mut().step_by(3).for_each(|target| *target = 2.0);
    let machines = [1, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| learn(&data, "chi2", "c_svc(C=1)", &by("pmsvm_lut(as=printed)")))
    });
    assert_eq!(machines[0].report.subproblems.len(), 3);
    for row in data.examples.iter() {
        for subproblem in 0..3 {
            let scores = [0, 1].map(|at: usize| score(&machines[at].machine, subproblem, row));
            assert_eq!(scores[0].to_bits(), scores[1].to_bits());
        }
    }
    let data = shares(300, 10, 11);
    let folds = mercer_train::Folds::new(&data, true, 3, 1).unwrap();
    let kernel = mercer_kernel::parse("chi2").unwrap();
    let path = [mercer_train::formulation("c_svc(C=1)").unwrap()];
    let quality = ["pmsvm_lut(as=printed)", "pmsvm_lut"].map(|text| {
        let found =
            mercer_train::cross_validate(&data, &kernel, &path, &folds, &by(text), &mut |_| {});
        found.unwrap().remove(0).unwrap().quality
    });
    assert!((quality[0] - quality[1]).abs() <= 0.05, "{quality:?}");
}
