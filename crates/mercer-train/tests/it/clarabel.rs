//! Every formulation against a dense interior-point solver.
#![allow(non_snake_case, reason = "matrices of the solver")]

use mercer_data::{Dataset, Targets, synthetic};
use mercer_kernel::KernelRef;
use mercer_train::{Training, formulation, train};

fn check(text: &str, kernel: &str, data: &Dataset, weights: Option<Vec<f64>>) {
    let kernel: KernelRef = mercer_kernel::parse(kernel).unwrap();
    let formulation = formulation(text).unwrap();
    let training = Training::default().tolerance(1e-7).weights(weights.clone());
    let trained = train(data, &kernel, &formulation, &training, &mut |_| {}).unwrap();
    let report = &trained.report;
    assert!(report.converged, "{text} {report:?}");

    let (qp, best) = crate::common::best(&formulation, &kernel, data, weights);
    if text.starts_with("nu_svc") {
        // The report is in LIBSVM's scale, in which β is divided by the margin.
        let sum: f64 = match &trained.machine.scores()[0] {
            mercer_machine::Score::Expansion { coefficients, .. } => {
                coefficients.iter().map(|beta| beta.abs()).sum()
            }
            _ => panic!("an expansion"),
        };
        let scale = qp.start.iter().map(|beta| beta.abs()).sum::<f64>() / sum;
        let found = report.objective * scale * scale;
        assert!((found - best).abs() <= 1e-6 * best.abs(), "{text} {found} {best}");
    } else {
        let found = report.objective;
        assert!((found - best).abs() <= 1e-6 * best.abs(), "{text} {found} {best}");
    }
    assert!(report.gap <= 1e-4 * report.objective.abs().max(1.0), "{text} {report:?}");
}

fn waves(rows: usize) -> Dataset {
    let mut data = synthetic::ripley(rows, 11);
    let value = |row: usize| {
        let row = data.examples.row(row);
        (3.0 * row.get(0)).sin() + row.get(1) * row.get(1)
    };
    data.targets = Targets::Numbers((0..rows).map(value).collect());
    data
}

#[test]
fn classification_reaches_the_optimum_of_an_interior_point_solver() {
    let data = synthetic::ripley(70, 3);
    for kernel in ["rbf(gamma=2)", "polynomial(degree=2, coef0=1)", "linear", "laplacian(gamma=1)"]
    {
        check("c_svc(C=10)", kernel, &data, None);
        check("nu_svc(nu=0.4)", kernel, &data, None);
    }
}

#[test]
fn regression_and_novelty_reach_the_optimum_of_an_interior_point_solver() {
    let data = waves(50);
    for kernel in ["rbf(gamma=2)", "polynomial(degree=3, coef0=1)"] {
        check("epsilon_svr(C=5, epsilon=0.05)", kernel, &data, None);
        check("nu_svr(nu=0.4, C=2)", kernel, &data, None);
        check("one_class(nu=0.3)", kernel, &data, None);
    }
}

#[test]
fn weights_of_examples_are_limits_of_their_coefficients() {
    let weights: Vec<f64> = (0..70).map(|row| 0.25 * f64::from(1 + row % 7)).collect();
    let data = synthetic::ripley(70, 5);
    check("c_svc(C=3)", "rbf(gamma=1)", &data, Some(weights.clone()));
    check("nu_svc(nu=0.3)", "rbf(gamma=1)", &data, Some(weights.clone()));
    let data = waves(70);
    check("epsilon_svr(C=1, epsilon=0.1)", "rbf(gamma=1)", &data, Some(weights.clone()));
    check("nu_svr(nu=0.5, C=1)", "rbf(gamma=1)", &data, Some(weights.clone()));
    check("one_class(nu=0.5)", "rbf(gamma=1)", &data, Some(weights));
}
