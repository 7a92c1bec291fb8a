//! Cases on which other programs hang or fail without a word: each ends.

use std::time::{Duration, Instant};

use mercer_data::synthetic::{crescents, histograms, ripley};
use mercer_data::{Dataset, Matrix, Targets};
use mercer_machine::ClassName;
use mercer_train::{Stop, TrainError, Trained, Training, formulation, solver, train};

fn data(columns: usize, values: Vec<f64>, targets: Vec<f64>) -> Dataset {
    let examples = Matrix::dense(columns, values).unwrap();
    Dataset { examples, targets: Targets::Numbers(targets), names: None }
}

/// Trains under a limit of one second; fails the test if it takes much longer.
fn attempt(data: &Dataset, kernel: &str, text: &str) -> Result<Trained, TrainError> {
    let training = Training::default().time_limit(Some(Duration::from_secs(1)));
    attempt_with(data, kernel, text, &training)
}

fn attempt_with(
    data: &Dataset,
    kernel: &str,
    text: &str,
    training: &Training,
) -> Result<Trained, TrainError> {
    let (kernel, formulation) = (mercer_kernel::parse(kernel).unwrap(), formulation(text).unwrap());
    let started = Instant::now();
    let result = train(data, &kernel, &formulation, training, &mut |_| {});
    assert!(started.elapsed() < Duration::from_secs(15), "{text} took {:?}", started.elapsed());
    if let Ok(trained) = &result {
        assert!(trained.report.converged || trained.report.stop.is_some(), "{:?}", trained.report);
        assert!(trained.report.gap.is_finite(), "{:?}", trained.report);
    }
    result
}

fn message(result: Result<Trained, TrainError>) -> String {
    result.expect_err("it is refused").to_string()
}

#[test]
fn nu_svc_of_six_rows_ends() {
    // scikit-learn issue 9136 in spirit: tiny classes, overlapping.
    let values = vec![0.0, 0.0, 1.0, 1.0, 0.5, 0.5, 0.4, 0.6, 1.0, 0.0, 0.0, 1.0];
    let six = data(2, values, vec![1.0, 1.0, 1.0, -1.0, -1.0, -1.0]);
    for nu in ["0.1", "0.5", "0.9", "1"] {
        for kernel in ["linear", "rbf(gamma=1)", "rbf(gamma=100)"] {
            match attempt(&six, kernel, &format!("nu_svc(nu={nu})")) {
                Ok(trained) => assert!(trained.report.converged),
                Err(error) => assert!(matches!(error, TrainError::NoMargin { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn an_infeasible_nu_is_refused_before_work_starts() {
    let few = data(1, (0..10).map(f64::from).collect(), [vec![1.0; 2], vec![-1.0; 8]].concat());
    let text = message(attempt(&few, "linear", "nu_svc(nu=0.5)"));
    assert_eq!(
        text,
        "nu = 0.5 is infeasible for 1 against -1: the smaller class allows at most 0.4"
    );
    assert!(attempt(&few, "linear", "nu_svc(nu=0.4)").is_ok());
}

#[test]
fn equal_rows_with_opposite_labels_end() {
    let twice = data(1, vec![1.0, 1.0, 2.0, 2.0, 3.0, 3.0], vec![1.0, -1.0, 1.0, -1.0, 1.0, -1.0]);
    for kernel in ["linear", "rbf(gamma=1)", "polynomial(degree=3)"] {
        for text in ["c_svc(C=1)", "c_svc(C=1000000)"] {
            assert!(attempt(&twice, kernel, text).unwrap().report.converged, "{kernel} {text}");
        }
        match attempt(&twice, kernel, "nu_svc(nu=0.5)") {
            Ok(_) => panic!("equal classes have no margin"),
            Err(error) => assert!(matches!(error, TrainError::NoMargin { .. }), "{error}"),
        }
    }
}

#[test]
fn constant_features_end() {
    let constant = data(2, [7.0, 7.0].repeat(40), [1.0, -1.0, 1.0, 1.0].repeat(10));
    for kernel in ["linear", "rbf(gamma=1)", "polynomial(degree=2)"] {
        assert!(attempt(&constant, kernel, "c_svc(C=1)").unwrap().report.converged);
        assert!(attempt(&constant, kernel, "epsilon_svr(C=1)").unwrap().report.converged);
        assert!(attempt(&constant, kernel, "one_class(nu=0.5)").unwrap().report.converged);
    }
}

#[test]
fn extreme_c_and_gamma_end() {
    let cloud = ripley(300, 1);
    for kernel in ["rbf(gamma=1)", "rbf(gamma=1e-9)", "rbf(gamma=1000)", "linear"] {
        for text in ["c_svc(C=1)", "c_svc(C=1000000)", "epsilon_svr(C=1000000)"] {
            let trained = attempt(&cloud, kernel, text).unwrap();
            println!("{kernel} {text} {:?}", trained.report);
        }
    }
    assert!(attempt(&cloud, "rbf(gamma=1000)", "c_svc(C=1)").unwrap().report.converged);
    assert!(attempt(&cloud, "rbf(gamma=1e-9)", "c_svc(C=1)").unwrap().report.converged);
}

#[test]
fn degree_nine_on_unscaled_data_ends() {
    let mut cloud = ripley(200, 2);
    let values = cloud.examples.as_dense().unwrap().iter().map(|x| 1e3 * x).collect();
    cloud.examples = Matrix::dense(2, values).unwrap();
    let trained = attempt(&cloud, "polynomial(degree=9, gamma=1, coef0=1)", "c_svc(C=1)").unwrap();
    println!("{:?}", trained.report);
    let values = cloud.examples.as_dense().unwrap().iter().map(|x| 1e30 * x).collect();
    cloud.examples = Matrix::dense(2, values).unwrap();
    let refused = message(attempt(&cloud, "polynomial(degree=9)", "c_svc(C=1)"));
    assert!(refused.starts_with("the kernel value of example 1 with itself is inf"), "{refused}");
}

/// Crescents where one label of five is wrong.
fn noisy_crescents(rows: usize) -> Dataset {
    let mut cloud = crescents(rows, 0.2, 1);
    let Targets::Numbers(targets) = &mut cloud.targets else { panic!("crescents have numbers") };
    targets.iter_mut().step_by(5).for_each(|target| *target = -*target);
    cloud
}

/// Rounding errors of f32 kernel values were taken for gradients: the objective rose above 0, that of no machine at all.
#[test]
fn more_steps_lower_the_objective_where_kernel_values_are_huge() {
    let cloud = noisy_crescents(1000);
    for kernel in
        ["polynomial(degree=8, gamma=1, coef0=1)", "polynomial(degree=8, gamma=316, coef0=1)"]
    {
        for text in ["c_svc(C=1)", "c_svc(C=10000)"] {
            let objective = |limit| {
                let training = Training::default().max_iterations(Some(limit));
                attempt_with(&cloud, kernel, text, &training).unwrap().report.objective
            };
            let objectives = [30_000, 300_000, 1_000_000].map(objective);
            let is_lower = objectives.is_sorted_by(|earlier, later| later < earlier);
            assert!(objectives[0] < 0.0 && is_lower, "{kernel} {text}: {objectives:?}");
        }
    }
}

/// A start near the optimum is not left for a worse point, however little time there is.
#[test]
fn a_warm_start_is_never_left_for_a_worse_machine() {
    let cloud = noisy_crescents(1000);
    let kernel = "polynomial(degree=8, gamma=1, coef0=1)";
    let limited = Training::default().max_iterations(Some(1_000_000));
    let first = attempt_with(&cloud, kernel, "c_svc(C=10000)", &limited).unwrap();
    for limit in [10, 1000, 100_000] {
        let training = Training::default().max_iterations(Some(limit));
        let training = training.warm_start(Some(first.machine.clone()));
        let later = attempt_with(&cloud, kernel, "c_svc(C=10000)", &training).unwrap();
        let (before, after) = (first.report.objective, later.report.objective);
        assert!(after <= before + 1e-9 * before.abs(), "{limit}: {before} {after}");
    }
}

#[test]
fn a_linear_kernel_at_a_large_c_on_unscaled_data_hits_its_limit_or_ends() {
    let mut cloud = ripley(400, 4);
    let values = cloud.examples.as_dense().unwrap().iter().map(|x| 1e3 * x).collect();
    cloud.examples = Matrix::dense(2, values).unwrap();
    let training = Training::default().time_limit(Some(Duration::from_secs(1)));
    let trained = attempt_with(&cloud, "linear", "c_svc(C=1000000)", &training).unwrap();
    println!("{:?}", trained.report);
    let training = Training::default().max_iterations(Some(100));
    let trained = attempt_with(&cloud, "linear", "c_svc(C=1000000)", &training).unwrap();
    assert_eq!(trained.report.stop, Some(Stop::IterationLimit));
    assert_eq!(trained.report.iterations, 100);
    assert!(!trained.report.converged);
}

/// Passes over the few rows that are left are cheap, and many of them are no reason to give up; where rounding is all that
/// is left, it says so, and how far the machine is from the optimum.
#[test]
fn tight_tolerances_in_f32_are_reached_or_end_at_their_rounding() {
    let rows = histograms(600, 40, 3);
    let mut stopped = 0;
    for kernel in ["chi2", "intersection"] {
        for (tolerance, may_stop, share) in [(1e-3, false, 1e-3), (1e-9, true, 1e-4)] {
            let training = Training::default().solver(solver("additive").unwrap());
            let training = training.tolerance(tolerance);
            let report = attempt_with(&rows, kernel, "c_svc(C=10)", &training).unwrap().report;
            assert!(report.gap < share * report.objective.abs(), "{kernel} {report:?}");
            if !report.converged {
                assert!(may_stop, "{kernel} {report:?}");
                assert_eq!(report.stop, Some(Stop::F32Stalled), "{kernel}");
                stopped += 1;
            }
        }
    }
    assert!(stopped > 0, "a tolerance that f32 does not reach");
}

#[test]
fn one_class_only_is_refused() {
    let one = data(1, vec![1.0, 2.0], vec![5.0, 5.0]);
    assert_eq!(
        message(attempt(&one, "linear", "c_svc(C=1)")),
        "all examples belong to class '5'; a classifier needs at least two classes"
    );
    assert_eq!(
        message(attempt(&Dataset { targets: Targets::Absent, ..one }, "linear", "c_svc(C=1)")),
        "c_svc needs a target for each of the 2 examples, there are 0"
    );
}

#[test]
fn a_class_of_zero_weight_is_refused_by_name() {
    let three = data(1, vec![1.0, 2.0, 3.0], vec![1.0, 2.0, 3.0]);
    let training = Training::default().class_weights(vec![(ClassName::Number(2.0), 0.0)]);
    assert_eq!(
        message(attempt_with(&three, "linear", "c_svc(C=1)", &training)),
        "all examples of class '2' have weight 0; leave the class out instead"
    );
    let training = Training::default().class_weights(vec![(ClassName::Number(9.0), 1.0)]);
    assert_eq!(
        message(attempt_with(&three, "linear", "c_svc(C=1)", &training)),
        "a weight is given for class '9', which no example has; the classes are 1, 2, 3"
    );
    let training = Training::default().weights(Some(vec![1.0, -1.0, 1.0]));
    assert_eq!(
        message(attempt_with(&three, "linear", "c_svc(C=1)", &training)),
        "the weight of example 2 is -1; weights must be finite and at least 0"
    );
}

#[test]
fn as_many_classes_as_rows_end() {
    let values: Vec<f64> = (0..40).map(f64::from).collect();
    let each = data(1, values.clone(), values);
    let trained = attempt(&each, "rbf(gamma=1)", "c_svc(C=1)").unwrap();
    assert!(trained.report.converged);
    assert_eq!(trained.machine.scores().len(), 780);
    let values: Vec<f64> = (0..3000).map(f64::from).collect();
    let each = data(1, values.clone(), values);
    assert_eq!(
        message(attempt(&each, "linear", "c_svc(C=1)")),
        "3000 classes in 3000 examples would need 4498500 binary subproblems; are the targets values of a regression?"
    );
}

#[test]
fn rows_of_weight_zero_are_left_out() {
    let cloud = ripley(60, 8);
    let weights = (0..60).map(|row| f64::from(u8::from(row >= 20))).collect();
    let training = Training::default().weights(Some(weights));
    let trained = attempt_with(&cloud, "rbf(gamma=1)", "c_svc(C=1)", &training).unwrap();
    let rest = Dataset {
        examples: cloud.examples.select(20..60),
        targets: match &cloud.targets {
            Targets::Numbers(all) => Targets::Numbers(all[20..].to_vec()),
            other => other.clone(),
        },
        names: None,
    };
    let alone = attempt(&rest, "rbf(gamma=1)", "c_svc(C=1)").unwrap();
    let relative = trained.report.objective / alone.report.objective - 1.0;
    assert!(relative.abs() < 1e-6, "{relative}");
    assert_eq!(trained.report.supports, alone.report.supports);
}

#[test]
fn rows_of_kernel_values_are_refused() {
    let refused = attempt(&ripley(20, 1), "precomputed", "c_svc(C=1)");
    assert!(matches!(refused, Err(TrainError::PrecomputedKernel)));
}
