//! Low-rank training against a dense interior-point solver, against `smo`, and on adversarial data.
#![allow(non_snake_case, reason = "matrices of the solver")]

use mercer_data::{Dataset, Matrix, Targets, synthetic};
use mercer_kernel::KernelRef;
use mercer_train::{Subproblem, Trained, Training, formulation, solver, train};

fn learn(data: &Dataset, kernel: &str, text: &str, solver_text: &str, tolerance: f64) -> Trained {
    let kernel = mercer_kernel::parse(kernel).unwrap();
    let training = Training::default().solver(solver(solver_text).unwrap()).tolerance(tolerance);
    train(data, &kernel, &formulation(text).unwrap(), &training, &mut |_| {}).unwrap()
}

/// Full rank: the low-rank problem is the original one.
fn check(text: &str, kernel: &str, data: &Dataset, weights: Option<Vec<f64>>, solver_text: &str) {
    let kernel: KernelRef = mercer_kernel::parse(kernel).unwrap();
    let formulation = formulation(text).unwrap();
    let training = Training::default()
        .solver(solver(solver_text).unwrap())
        .tolerance(1e-8)
        .weights(weights.clone());
    let trained = train(data, &kernel, &formulation, &training, &mut |_| {}).unwrap();
    let report = &trained.report;
    assert!(report.converged, "{text} {report:?}");
    let low_rank = report.low_rank.as_ref().unwrap();
    assert!(low_rank.iterations <= 40, "{text}: {} iterations", low_rank.iterations);
    let (_, best) = crate::common::best(&formulation, &kernel, data, weights);
    let found = low_rank.approximation[0].objective;
    // What is left out of the trace, and the tolerance of the reference.
    let slack = low_rank.approximation[0].quadratic + 1e-6 * best.abs();
    assert!((found - best).abs() <= slack, "{text} {found} {best} {low_rank:?}");
    assert!(low_rank.approximation[0].is_exact);
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

const INTERIOR: &str = "low_rank(rank=200, method=interior, guard=off, precision=double)";

#[test]
fn every_formulation_reaches_the_optimum_of_a_dense_interior_point_solver() {
    let data = synthetic::ripley(70, 3);
    for kernel in ["rbf(gamma=2)", "polynomial(degree=2, coef0=1)", "linear"] {
        check("c_svc(C=10)", kernel, &data, None, INTERIOR);
        check("nu_svc(nu=0.4)", kernel, &data, None, INTERIOR);
    }
    let data = waves(50);
    check("epsilon_svr(C=5, epsilon=0.05)", "rbf(gamma=2)", &data, None, INTERIOR);
    check("nu_svr(nu=0.4, C=2)", "rbf(gamma=2)", &data, None, INTERIOR);
    check("one_class(nu=0.3)", "rbf(gamma=2)", &data, None, INTERIOR);
    // No choice is left to the larger side, or to all.
    check("one_class(nu=1)", "rbf(gamma=2)", &data, None, INTERIOR);
    check("nu_svr(nu=1, C=2)", "rbf(gamma=2)", &data, None, INTERIOR);
}

#[test]
fn all_ways_to_solve_the_systems_reach_it() {
    let data = synthetic::ripley(70, 3);
    for systems in ["split", "product_form", "smw", "qr"] {
        let text = format!(
            "low_rank(rank=70, method=interior, guard=off, systems={systems}, precision=double)"
        );
        check("c_svc(C=10)", "polynomial(degree=2, coef0=1)", &data, None, &text);
    }
}

#[test]
fn weights_of_examples_are_limits_of_their_coefficients() {
    let weights: Vec<f64> = (0..70).map(|row| 0.25 * f64::from(1 + row % 7)).collect();
    let data = synthetic::ripley(70, 5);
    check("c_svc(C=3)", "rbf(gamma=1)", &data, Some(weights.clone()), INTERIOR);
    check("nu_svc(nu=0.3)", "rbf(gamma=1)", &data, Some(weights.clone()), INTERIOR);
    let data = waves(70);
    check("epsilon_svr(C=1, epsilon=0.1)", "rbf(gamma=1)", &data, Some(weights.clone()), INTERIOR);
    check("one_class(nu=0.5)", "rbf(gamma=1)", &data, Some(weights), INTERIOR);
}

#[test]
fn descent_and_interior_points_find_the_same_optimum() {
    let data = synthetic::ripley(600, 7);
    for text in ["c_svc(C=1)", "epsilon_svr(C=1, epsilon=0.2)"] {
        let data = if text.contains("svr") { waves(600) } else { data.clone() };
        let found = ["descent", "interior"].map(|method| {
            let text_of = format!("low_rank(rank=60, method={method}, guard=off)");
            let trained = learn(&data, "rbf(gamma=1)", text, &text_of, 1e-4);
            assert!(trained.report.converged, "{text} {method} {:?}", trained.report);
            trained.report.objective
        });
        assert!((found[0] - found[1]).abs() <= 2e-4 * found[1].abs(), "{text} {found:?}");
    }
}

#[test]
fn the_objective_of_low_rank_bounds_that_of_smo_as_the_theorem_says() {
    let data = synthetic::banana(800, 3);
    let exact = learn(&data, "rbf(gamma=2)", "c_svc(C=5)", "smo", 1e-5).report.objective;
    let mut last = f64::INFINITY;
    for rank in [10, 40, 120] {
        let text = format!("low_rank(rank={rank}, guard=off, precision=double)");
        let trained = learn(&data, "rbf(gamma=2)", "c_svc(C=5)", &text, 1e-7);
        let low_rank = trained.report.low_rank.unwrap();
        let (lost, objective) = (&low_rank.approximation[0], trained.report.objective);
        // Minimised: the low-rank objective lies below the exact one, by at most the quadratic.
        let slack = 1e-5 * exact.abs();
        assert!(exact - objective >= -slack, "{rank} {objective} {exact}");
        assert!(exact - objective <= lost.quadratic + slack, "{rank} {lost:?} {exact}");
        assert!(lost.quadratic <= lost.bound && lost.quadratic < last, "{lost:?}");
        assert!(lost.original_gap + slack >= 0.0 && low_rank.trace_share < 1.0);
        last = lost.quadratic;
        assert_eq!(trained.machine.supports().rows(), low_rank.rank);
    }
}

#[test]
fn the_machine_scores_as_the_factor_does() {
    let data = synthetic::banana(500, 3);
    let exact = learn(&data, "rbf(gamma=1)", "c_svc(C=1)", "smo", 1e-4);
    let low = learn(&data, "rbf(gamma=1)", "c_svc(C=1)", "low_rank(rank=100, guard=off)", 1e-4);
    let fresh = synthetic::banana(300, 4);
    let far = (0..300)
        .map(|row| {
            let row = fresh.examples.row(row);
            (crate::common::scores(&exact.machine, row)[0]
                - crate::common::scores(&low.machine, row)[0])
                .abs()
        })
        .fold(0.0, f64::max);
    assert!(far < 0.02, "{far}");
}

#[test]
fn many_classes_share_one_factor() {
    let mut data = synthetic::banana(900, 5);
    let targets = crate::common::numbers(&data).to_vec();
    let third = |row: usize| if row.is_multiple_of(3) { 2.0 } else { targets[row] };
    data.targets = Targets::Numbers((0..900).map(third).collect());
    for scheme in [mercer_machine::Scheme::OneVsOne, mercer_machine::Scheme::OneVsRest] {
        let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
        let training = Training::default()
            .solver(solver("low_rank(rank=60, guard=off)").unwrap())
            .scheme(scheme);
        let c_svc = formulation("c_svc(C=1)").unwrap();
        let trained = train(&data, &kernel, &c_svc, &training, &mut |_| {}).unwrap();
        assert!(trained.report.converged, "{:?}", trained.report);
        assert_eq!((trained.report.subproblems.len(), trained.report.supports), (3, 60));
    }
}

/// 160 points, duplicated, far apart: the degenerate toy.
fn toy(scale: f64) -> Dataset {
    let base = synthetic::ripley(40, 1);
    let mut values = Vec::new();
    let mut targets = Vec::new();
    for copy in 0..4 {
        for row in 0..40 {
            let side = crate::common::numbers(&base)[row];
            let own = base.examples.row(row);
            // Separable: the classes are pushed apart.
            values.push(scale * (own.get(0) + 2.0 * side));
            values.push(scale * own.get(1));
            targets.push(side);
        }
        assert!(copy < 4);
    }
    let examples = Matrix::dense(2, values).unwrap();
    Dataset { examples, targets: Targets::Numbers(targets), names: None }
}

#[test]
fn huge_features_and_duplicates_leave_no_gap() {
    for (scale, c) in [(1e4, 1e3), (1e6, 1.0), (1.0, 1e4), (1e-4, 1.0)] {
        for systems in ["split", "product_form", "qr"] {
            let text = format!("low_rank(rank=10, guard=off, method=interior, systems={systems})");
            let formulation = format!("c_svc(C={c})");
            let trained = learn(&toy(scale), "linear", &formulation, &text, 1e-10);
            let report = &trained.report;
            assert!(report.converged, "{scale} {systems} {report:?}");
            let low_rank = report.low_rank.as_ref().unwrap();
            assert!(low_rank.iterations <= 45, "{scale} {systems} {}", low_rank.iterations);
        }
    }
}

#[test]
fn folds_and_values_of_c_share_one_factor_and_agree_with_smo() {
    let data = synthetic::banana(600, 3);
    let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
    let path = ["c_svc(C=0.1)", "c_svc(C=1)", "c_svc(C=10)"].map(|text| formulation(text).unwrap());
    let folds = mercer_train::Folds::new(&data, true, 4, 1).unwrap();
    let qualities = ["smo", "low_rank(rank=100)"].map(|text| {
        let training = Training::default().solver(solver(text).unwrap());
        let found =
            mercer_train::cross_validate(&data, &kernel, &path, &folds, &training, &mut |_| {});
        found.unwrap().into_iter().map(|one| one.unwrap().quality).collect::<Vec<f64>>()
    });
    for (exact, low) in qualities[0].iter().zip(&qualities[1]) {
        assert!((exact - low).abs() <= 0.01, "{qualities:?}");
    }
}

#[test]
fn auto_takes_smo_for_few_examples_and_says_so() {
    let data = synthetic::banana(300, 3);
    let trained = learn(&data, "rbf(gamma=1)", "c_svc(C=1)", "auto", 1e-3);
    assert!(trained.report.chosen.unwrap().starts_with("smo"));
    assert!(trained.report.low_rank.is_none());
}

#[test]
fn a_guard_that_costs_no_more_wins_where_the_spectrum_is_flat() {
    // Random points in many columns under a narrow kernel: nothing decays.
    let data = synthetic::banana(1200, 3);
    let trained = learn(&data, "rbf(gamma=3000)", "c_svc(C=10)", "low_rank(rank=8)", 1e-3);
    let guard = trained.report.low_rank.unwrap().guard.unwrap();
    assert!(guard.held_out == 120 && !guard.sentence.is_empty(), "{guard:?}");
    assert_eq!(guard.kept_low_rank, guard.low_rank >= guard.exact);
    let smooth = learn(&data, "rbf(gamma=1)", "c_svc(C=1)", "low_rank(rank=40)", 1e-3);
    assert!(smooth.report.low_rank.unwrap().guard.is_some());
}

#[test]
fn a_guard_ends_early_where_its_curve_leads_nowhere_and_goes_on_where_it_wins() {
    let data = synthetic::banana(4000, 3);
    let guard = |kernel: &str, seed: usize| {
        let text = format!("low_rank(rank=100, seed={seed})");
        let trained = learn(&data, kernel, "c_svc(C=1)", &text, 1e-3);
        (trained.report.low_rank.unwrap().guard.unwrap(), trained.machine.supports().rows())
    };
    let mut early = 0;
    for seed in 1..=8 {
        let (smooth, supports) = guard("rbf(gamma=1)", seed);
        if smooth.examples < smooth.equal_cost {
            early += 1;
            assert!(smooth.kept_low_rank && supports <= 100, "{smooth:?}");
            assert!(smooth.within_reach.unwrap() <= smooth.low_rank, "{smooth:?}");
            assert!(smooth.sentence.contains("at best"), "{smooth:?}");
        } else {
            assert_eq!(smooth.kept_low_rank, smooth.low_rank >= smooth.exact, "{smooth:?}");
        }
    }
    assert!(early > 0);
    let (flat, supports) = guard("rbf(gamma=3000)", 1);
    assert!(!flat.kept_low_rank && flat.exact > flat.low_rank, "{flat:?}");
    assert!(flat.examples == flat.equal_cost && flat.within_reach.is_none(), "{flat:?}");
    assert!(supports > 100 && supports <= flat.examples, "{flat:?}");
}

/// Coefficients without the held-out rows are a good start for all rows: the walls of those rows differ, and
/// distances from them said nothing.
#[test]
fn the_last_solution_starts_from_the_one_without_held_out_rows() {
    let data = synthetic::banana(4000, 3);
    let updates = |text: &str| {
        let trained = learn(&data, "rbf(gamma=1)", "c_svc(C=1)", text, 1e-3);
        trained.report.low_rank.unwrap().coordinate_updates
    };
    let (alone, guarded) = (updates("low_rank(rank=60, guard=off)"), updates("low_rank(rank=60)"));
    assert!(guarded <= alone, "{guarded} after {alone}");
}

#[test]
fn polishing_ends_at_the_exact_machine_in_fewer_steps() {
    let data = synthetic::banana(1500, 3);
    let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
    let c_svc = formulation("c_svc(C=10)").unwrap();
    let cold = train(&data, &kernel, &c_svc, &Training::default(), &mut |_| {}).unwrap();
    let training =
        Training::default().solver(solver("low_rank(rank=200, guard=off)").unwrap()).polish(true);
    let polished = train(&data, &kernel, &c_svc, &training, &mut |_| {}).unwrap();
    assert!(polished.report.converged);
    let close = (polished.report.objective - cold.report.objective).abs();
    assert!(close < 1e-3 * cold.report.objective.abs());
    let polish = polished.report.low_rank.unwrap().polish.unwrap();
    assert!(polish.steps < cold.report.iterations, "{polish:?} {}", cold.report.iterations);
}

/// Issue 28: coefficients of interior points are never exactly zero, and all examples counted as active and none as
/// bounded.
#[test]
fn interior_points_find_the_support_vectors_that_exact_training_finds() {
    let kernel = "polynomial(degree=5, gamma=0.0909090909090909, coef0=1)";
    let data = crate::interior::abalone(1500);
    for (kernel, rank) in [("linear", 10), (kernel, 150)] {
        let exact = learn(&data, kernel, "c_svc(C=1)", "smo", 1e-6);
        let counts = |report: &mercer_train::Report| {
            [report.subproblems[0].supports as f64, report.subproblems[0].bounded as f64]
        };
        let wanted = counts(&exact.report);
        for (tolerance, off) in [(1e-3, 0.05), (1e-6, 0.005)] {
            let text = format!("low_rank(rank={rank}, method=interior, guard=off)");
            let low = learn(&data, kernel, "c_svc(C=1)", &text, tolerance);
            for (found, wanted) in counts(&low.report).iter().zip(wanted) {
                assert!(
                    (found - wanted).abs() <= off * wanted,
                    "{kernel} {tolerance}: {found}, {wanted}"
                );
            }
        }
    }
}

/// Issue 28: `--polish` solved the active set of interior points over all examples.
#[test]
fn polishing_interior_points_solves_their_active_set() {
    let data = crate::interior::abalone(1500);
    let kernel = mercer_kernel::parse("linear").unwrap();
    let c_svc = formulation("c_svc(C=1)").unwrap();
    let exact = train(&data, &kernel, &c_svc, &Training::default(), &mut |_| {}).unwrap().report;
    let text = "low_rank(rank=10, method=interior, guard=off)";
    let training = Training::default().solver(solver(text).unwrap()).polish(true);
    let polished = train(&data, &kernel, &c_svc, &training, &mut |_| {}).unwrap().report;
    let polish = polished.low_rank.unwrap().polish.unwrap();
    let (active, wanted) = (polish.active_examples as f64, exact.subproblems[0].supports as f64);
    assert!(polish.is_gated && (active - wanted).abs() <= 0.05 * wanted, "{polish:?} {wanted}");
    assert!(polish.steps < exact.iterations / 4, "{polish:?} {}", exact.iterations);
    assert!((polished.objective - exact.objective).abs() <= 1e-3 * exact.objective.abs());
}

/// Issue 28: \[FS01\] Theorem 1 counts support vectors, `c² l ε / 2`; all examples were counted.
#[test]
fn theorem_1_counts_the_support_vectors_of_the_low_rank_problem() {
    let data = synthetic::banana(800, 3);
    for method in ["descent", "interior"] {
        let text = format!("low_rank(rank=40, method={method}, guard=off, precision=double)");
        let trained = learn(&data, "rbf(gamma=2)", "c_svc(C=5)", &text, 1e-6);
        let low_rank = trained.report.low_rank.unwrap();
        let (lost, supports) = (&low_rank.approximation[0], trained.report.subproblems[0].supports);
        assert!(lost.supports == supports && supports < 400, "{method} {supports} {lost:?}");
        let printed = 25.0 * supports as f64 * low_rank.trace / 2.0;
        assert!((lost.bound - printed).abs() <= 1e-9 * printed, "{method} {printed} {lost:?}");
        assert!(lost.quadratic <= lost.bound);
    }
}

#[test]
fn a_factor_grows_until_the_trace_is_below_a_bound() {
    let data = synthetic::banana(700, 3);
    let report = |text: &str| {
        let trained = learn(&data, "rbf(gamma=1)", "c_svc(C=1)", text, 1e-3);
        *trained.report.low_rank.unwrap()
    };
    for pivots in ["greedy", "random", "auto", "solution_aware"] {
        let with =
            |trace: &str| report(&format!("low_rank(trace={trace}, pivots={pivots}, guard=off)"));
        let (coarse, fine) = (with("1"), with("1e-3"));
        assert!(coarse.trace <= 1.0 && fine.trace <= 1e-3, "{pivots} {coarse:?} {fine:?}");
        assert!(coarse.rank < fine.rank && coarse.trace_bound == Some(1.0), "{pivots}");
        assert_eq!(fine.precision, "double", "{pivots}");
    }
    // One pivot less would leave more: pivots are taken one at a time.
    let greedy = report("low_rank(trace=1, pivots=greedy, guard=off, precision=double)");
    let shorter = report(&format!(
        "low_rank(rank={}, pivots=greedy, guard=off, precision=double)",
        greedy.rank - 1
    ));
    assert!(greedy.trace <= 1.0 && shorter.trace > 1.0, "{} {}", greedy.trace, shorter.trace);
    let limited = report("low_rank(rank=3, trace=1e-3, guard=off)");
    assert!(limited.rank == 3 && limited.trace > 1e-3);
}

/// \[FS01\] section 2 as printed reaches the optimum with every way to solve its systems; section 5.3 says where one of
/// them does not.
#[test]
fn the_printed_interior_point_method_reaches_the_optimum() {
    let data = synthetic::ripley(70, 3);
    for systems in ["split", "product_form", "smw", "qr"] {
        let text = format!("low_rank(rank=70, method=printed, guard=off, systems={systems})");
        check("c_svc(C=10)", "polynomial(degree=2, coef0=1)", &data, None, &text);
        check("c_svc(C=10)", "linear", &data, None, &text);
    }
    let waves = waves(50);
    let text = "low_rank(rank=50, method=printed, guard=off)";
    check("epsilon_svr(C=5, epsilon=0.05)", "rbf(gamma=2)", &waves, None, text);
}

#[test]
fn a_factor_on_disk_gives_the_machine_of_one_in_memory() {
    let data = synthetic::banana(3000, 3);
    let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
    let c_svc = formulation("c_svc(C=1)").unwrap();
    let machines = [1usize << 30, 1 << 20].map(|memory| {
        let training = Training::default()
            .solver(solver("low_rank(rank=120, guard=off, precision=double)").unwrap())
            .memory(memory);
        let trained = train(&data, &kernel, &c_svc, &training, &mut |_| {}).unwrap();
        let on_disk = trained.report.low_rank.as_ref().unwrap().on_disk;
        assert_eq!(on_disk, memory < 1 << 21);
        trained.expansions
    });
    assert_eq!(machines[0], machines[1]);
}

#[test]
fn threads_do_not_change_a_bit() {
    let data = synthetic::banana(2500, 3);
    let machines = [1, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            learn(&data, "rbf(gamma=1)", "c_svc(C=1)", "low_rank(rank=auto)", 1e-3).expansions
        })
    });
    assert_eq!(machines[0], machines[1]);
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let data = synthetic::ripley(60, 1);
    let low_rank = || Training::default().solver(solver("low_rank").unwrap());
    let refused = |kernel: &str, text: &str, data: &Dataset| {
        let kernel = mercer_kernel::parse(kernel).unwrap();
        let formulation = formulation(text).unwrap();
        train(data, &kernel, &formulation, &low_rank(), &mut |_| {}).unwrap_err().to_string()
    };
    assert!(refused("sigmoid(gamma=1, coef0=1)", "c_svc", &data).contains("semidefinite"));
    assert!(refused("linear", "logistic", &data).contains("logistic"));
    let mut one = data.clone();
    one.targets = Targets::Numbers(vec![1.0; 60]);
    assert!(refused("linear", "c_svc", &one).contains("two classes"));
}

/// Targets of 0 and 1 would make a quadratic program that nothing moves, and call it optimal.
#[test]
fn targets_that_are_no_sides_are_rejected_at_the_door() {
    for text in ["c_svc(C=1)", "nu_svc(nu=0.1)"] {
        let formulation = formulation(text).unwrap();
        for targets in [[0.0, 1.0, 1.0], [1.0, -1.0, 2.0], [1.0, -1.0, f64::NAN]] {
            let part = Subproblem { name: "a against b", targets: &targets, weights: &[1.0; 3] };
            let error = formulation.quadratic_program(&part).unwrap_err().to_string();
            assert!(error.contains("a binary subproblem needs 1 or -1"), "{text}: {error}");
        }
    }
    // Names of classes are anything, as long as there are two.
    let mut data = synthetic::ripley(60, 1);
    let sides = crate::common::numbers(&data).iter().map(|side| (side + 1.0) / 2.0).collect();
    data.targets = Targets::Numbers(sides);
    let trained = learn(&data, "rbf(gamma=1)", "c_svc(C=1)", "low_rank(rank=20)", 1e-3);
    assert_eq!(trained.machine.classes().len(), 2);
}

#[test]
fn an_interrupted_training_returns_what_it_has() {
    let data = synthetic::banana(2000, 3);
    let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
    let c_svc = formulation("c_svc(C=1)").unwrap();
    let cancel = mercer_train::Cancel::new();
    let training =
        Training::default().solver(solver("low_rank(rank=1000)").unwrap()).cancel(cancel.clone());
    let trained = train(&data, &kernel, &c_svc, &training, &mut |_| cancel.cancel()).unwrap();
    assert_eq!(trained.report.stop, Some(mercer_train::Stop::Cancelled));
    assert!(trained.machine.supports().rows() < 1000);
}
