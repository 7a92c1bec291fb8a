//! The solver `primal`: the decision surface of `smo` from fewer vectors where the Gram matrix is rank-deficient.

use mercer_data::{Dataset, Matrix, Targets, synthetic};
use mercer_kernel::parse;
use mercer_machine::{Machine, Score};
use mercer_train::{Folds, Trained, Training, cross_validate, formulation, solver, train};

fn trained(data: &Dataset, kernel: &str, problem: &str, solver_text: &str) -> Trained {
    let training = Training::default().solver(solver(solver_text).unwrap()).tolerance(1e-4);
    let (kernel, problem) = (parse(kernel).unwrap(), formulation(problem).unwrap());
    train(data, &kernel, &problem, &training, &mut |_| {}).unwrap()
}

/// Scores of all rows, in plain sums.
fn scores(machine: &Machine, rows: &Matrix) -> Vec<f64> {
    let mut all = Vec::new();
    for row in rows.iter() {
        for score in machine.scores() {
            let Score::Expansion { supports, coefficients, offset } = score else { panic!() };
            let terms = supports.iter().zip(coefficients).map(|(support, beta)| {
                beta * machine.kernel().value(machine.supports().row(*support as usize), row)
            });
            all.push(terms.sum::<f64>() - offset);
        }
    }
    all
}

fn largest_difference(first: &Machine, second: &Machine, rows: &Matrix) -> f64 {
    let pairs = scores(first, rows).into_iter().zip(scores(second, rows));
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// \[OG98\]'s own example: a hyperplane of the plane needs two vectors, not a hundred.
#[test]
fn a_plane_needs_two_vectors() {
    let (data, unseen) = (synthetic::ripley(250, 1), synthetic::ripley(500, 2).examples);
    let smo = trained(&data, "linear", "c_svc(C=1)", "smo");
    for penalty in ["l1", "margin", "errors"] {
        let text = format!("primal(penalty={penalty})");
        let primal = trained(&data, "linear", "c_svc(C=1)", &text);
        assert_eq!(primal.machine.supports().rows(), 2, "{penalty}");
        let difference = largest_difference(&smo.machine, &primal.machine, &unseen);
        assert!(difference <= 1e-10, "{penalty}: {difference}");
        let report = primal.report.primal.unwrap();
        assert_eq!(report.dual_supports, smo.machine.supports().rows());
        assert!(report.unchanged == 0 && report.error <= 1e-7, "{report:?}");
    }
}

#[test]
fn smooth_kernels_need_fewer_vectors_and_attractors_choose_them() {
    let (data, unseen) = (synthetic::ripley(250, 1), synthetic::ripley(500, 2).examples);
    let smo = trained(&data, "rbf(gamma=0.5)", "c_svc(C=1)", "smo");
    let mut drawn = Vec::new();
    for penalty in ["l1", "margin", "errors"] {
        let text = format!("primal(penalty={penalty})");
        let primal = trained(&data, "rbf(gamma=0.5)", "c_svc(C=1)", &text);
        let (before, after) = (smo.machine.supports().rows(), primal.machine.supports().rows());
        assert!(2 * after < before, "{penalty}: {after} of {before}");
        let difference = largest_difference(&smo.machine, &primal.machine, &unseen);
        assert!(difference <= 1e-6, "{penalty}: {difference}");
        let report = primal.report.primal.unwrap();
        assert!(report.error <= 1e-5 && report.score_change <= 1e-6, "{report:?}");
        assert!(report.priced > 0 && report.pricings > 0, "{report:?}");
        drawn.push((report.drawn, primal.machine.supports().clone()));
    }
    let [l1, margin, errors] = [&drawn[0], &drawn[1], &drawn[2]];
    assert!(margin.0[0] < l1.0[0] && errors.0[0] < margin.0[0], "they draw different points");
    // Most misclassified points leave; the others carry what the rest cannot.
    assert!(errors.0[0] > 10 && 3 * errors.0[1] < errors.0[0], "{:?}", errors.0);
    assert!(l1.1 != margin.1 && l1.1 != errors.1 && margin.1 != errors.1);
}

/// Rows far apart: the Gram matrix is regular, and there is no other solution.
#[test]
fn a_regular_gram_matrix_keeps_the_dual_coefficients() {
    let values: Vec<f64> = (0..60).map(|x| f64::from((x * 37) % 101)).collect();
    let signs = (0..30).map(|x| if x % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let examples = Matrix::dense(2, values).unwrap();
    let data = Dataset { examples, targets: Targets::Numbers(signs), names: None };
    let smo = trained(&data, "rbf(gamma=0.5)", "c_svc(C=1)", "smo");
    let primal = trained(&data, "rbf(gamma=0.5)", "c_svc(C=1)", "primal");
    assert_eq!(smo.expansions, primal.expansions);
    assert_eq!(primal.report.primal.unwrap().unchanged, 1);
}

#[test]
fn several_classes_and_regressions_are_reformulated_too() {
    let two = synthetic::ripley(180, 1);
    let classes: Vec<f64> = (0..180).map(|row| f64::from(row % 3)).collect();
    let three =
        Dataset { examples: two.examples.clone(), targets: Targets::Numbers(classes), names: None };
    let values: Vec<f64> =
        two.examples.iter().map(|row| row.nonzeros().map(|x| x.1).sum()).collect();
    let curve =
        Dataset { examples: two.examples.clone(), targets: Targets::Numbers(values), names: None };
    for (data, problem) in [
        (&three, "c_svc(C=1)"),
        (&curve, "epsilon_svr(C=1, epsilon=0.01)"),
        (&two, "nu_svc(nu=0.4)"),
        (&two, "one_class(nu=0.3)"),
    ] {
        let smo = trained(data, "rbf(gamma=0.5)", problem, "smo");
        let primal = trained(data, "rbf(gamma=0.5)", problem, "primal(penalty=margin)");
        let counts = (smo.machine.supports().rows(), primal.machine.supports().rows());
        assert!(counts.1 < counts.0, "{problem}: {counts:?}");
        let difference = largest_difference(&smo.machine, &primal.machine, &data.examples);
        assert!(difference <= 2e-6, "{problem}: {difference}");
    }
}

#[test]
fn what_does_not_suit_is_refused_in_a_sentence() {
    let data = synthetic::ripley(40, 1);
    let refused = |solver_text: &str, kernel: &str, problem: &str| {
        let training = Training::default().solver(solver(solver_text).unwrap());
        let (kernel, problem) = (parse(kernel).unwrap(), formulation(problem).unwrap());
        train(&data, &kernel, &problem, &training, &mut |_| {}).unwrap_err().to_string()
    };
    let text = refused("primal(penalty=errors)", "rbf(gamma=1)", "epsilon_svr(C=1, epsilon=0.1)");
    assert!(text.contains("misclassified"), "{text}");
    let text = refused("primal", "sigmoid(gamma=1, coef0=0)", "c_svc(C=1)");
    assert!(text.contains("semidefinite"), "{text}");
    let text = refused("primal", "rbf(gamma=1)", "ridge(lambda=1)");
    assert!(text.contains("quadratic program"), "{text}");
}

#[test]
fn folds_are_those_of_smo() {
    let data = synthetic::ripley(120, 1);
    let quality = |text: &str| {
        let training = Training::default().solver(solver(text).unwrap());
        let folds = Folds::new(&data, true, 4, 1).unwrap();
        let (kernel, problem) = (parse("rbf(gamma=1)").unwrap(), formulation("c_svc").unwrap());
        let found = cross_validate(&data, &kernel, &[problem], &folds, &training, &mut |_| {});
        found.unwrap().remove(0).unwrap().quality
    };
    assert_eq!(quality("smo"), quality("primal"));
}
