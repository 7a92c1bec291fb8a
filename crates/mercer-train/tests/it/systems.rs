//! Machines with all coefficients, against their equations, closed forms and trainings without an example.

use mercer_data::{Dataset, Matrix, Targets, synthetic};
use mercer_kernel::KernelRef;
use mercer_machine::{Answer, ClassName, Machine, Scheme, Score};
use mercer_train::{
    Cancel, Folds, FormulationRef, TrainError, Trained, Training, cross_validate, formulation,
    solver, train,
};

fn kernel(text: &str) -> KernelRef {
    mercer_kernel::parse(text).unwrap()
}

fn learn(data: &Dataset, kernel: &KernelRef, text: &str, training: &Training) -> Trained {
    train(data, kernel, &formulation(text).unwrap(), training, &mut |_| {}).unwrap()
}

fn score(machine: &Machine, number: usize, data: &Dataset, row: usize) -> f64 {
    let Score::Expansion { supports, coefficients, offset } = &machine.scores()[number] else {
        panic!("an expansion")
    };
    let one = |(support, beta): (&u32, &f64)| {
        beta * machine
            .kernel()
            .value(machine.supports().row(*support as usize), data.examples.row(row))
    };
    supports.iter().zip(coefficients).map(one).sum::<f64>() - offset
}

/// Three overlapping clouds of different sizes.
fn three_classes() -> Dataset {
    let two = synthetic::ripley(50, 7);
    let Targets::Numbers(classes) = &two.targets else { panic!("numbers") };
    let third = |row: usize| two.examples.row(row).nonzeros().map(|(_, v)| v).sum::<f64>() > 0.9;
    let targets = classes.iter().enumerate().map(|(row, c)| if third(row) { 2.0 } else { *c });
    let targets = Targets::Numbers(targets.collect());
    Dataset { examples: two.examples.clone(), targets, names: None }
}

fn weights(rows: usize) -> Vec<f64> {
    (0..rows).map(|row| 0.5 + (row % 4) as f64).collect()
}

#[test]
fn coefficients_solve_the_equations_weights_included() {
    let data = synthetic::ripley(150, 3);
    let rbf = kernel("rbf(gamma=2)");
    let Targets::Numbers(y) = &data.targets else { panic!("numbers") };
    let weights = weights(150);
    let training = Training::default().weights(Some(weights.clone()));
    for (text, ridge, has_bias) in [
        ("ridge(lambda=0.3)", 0.3, false),
        ("ridge(lambda=0.3, bias=yes)", 0.3, true),
        ("ls_svm(C=20)", 0.05, true),
    ] {
        let trained = learn(&data, &rbf, text, &training);
        assert!(trained.report.converged, "{text}");
        assert!(trained.report.gap >= 0.0 && trained.report.gap < 1e-12, "{text}");
        let Score::Expansion { coefficients, .. } = &trained.machine.scores()[0] else { panic!() };
        assert_eq!(coefficients.len(), 150);
        let first = match &trained.machine.output() {
            mercer_machine::Output::Classes { names, .. } => Some(names[0].clone()),
            _ => None,
        };
        let expansion = &trained.expansions[0];
        let total: f64 = expansion.coefficients.iter().sum();
        assert!(!has_bias || total.abs() < 1e-10, "{text}: {total}");
        for (example, beta) in expansion.examples.iter().zip(&expansion.coefficients) {
            let row = *example as usize;
            let target = match &first {
                Some(name) if *name == ClassName::Number(y[row]) => 1.0,
                Some(_) => -1.0,
                None => y[row],
            };
            let found = score(&trained.machine, 0, &data, row) + ridge / weights[row] * beta;
            assert!((found - target).abs() < 1e-9, "{text}: row {row} gives {found}");
        }
    }
}

/// `w ∝ (S_W + I/C)⁻¹ (m_+ - m_-)`, the threshold at the mean of all projections.
#[test]
fn fisher_finds_the_direction_of_the_closed_form() {
    let data = synthetic::ripley(90, 5);
    let rows: Vec<usize> = (0..90).filter(|row| row % 3 != 0 || row % 2 == 0).collect();
    let data = data.select(&rows);
    let Targets::Numbers(y) = &data.targets else { panic!("numbers") };
    let trained = learn(&data, &kernel("linear"), "fisher(C=0.5)", &Training::default());
    let ClassName::Number(first) = trained.machine.classes()[0] else { panic!("numbers") };
    let point = |row: usize| -> [f64; 2] {
        let mut x = [0.0; 2];
        data.examples.row(row).nonzeros().for_each(|(column, v)| x[column as usize] = v);
        x
    };
    let mean = |is_first: Option<bool>| {
        let chosen: Vec<[f64; 2]> = (0..y.len())
            .filter(|row| is_first.is_none_or(|is_first| (y[*row] == first) == is_first))
            .map(point)
            .collect();
        [0, 1].map(|c| chosen.iter().map(|x| x[c]).sum::<f64>() / chosen.len() as f64)
    };
    let (plus, minus, all) = (mean(Some(true)), mean(Some(false)), mean(None));
    let mut scatter = [[2.0, 0.0], [0.0, 2.0]];
    for row in 0..y.len() {
        let (x, m) = (point(row), if y[row] == first { plus } else { minus });
        for a in 0..2 {
            for b in 0..2 {
                scatter[a][b] += (x[a] - m[a]) * (x[b] - m[b]);
            }
        }
    }
    let d = [plus[0] - minus[0], plus[1] - minus[1]];
    let w =
        [scatter[1][1] * d[0] - scatter[0][1] * d[1], scatter[0][0] * d[1] - scatter[1][0] * d[0]];
    let projection = |x: [f64; 2]| w[0] * (x[0] - all[0]) + w[1] * (x[1] - all[1]);
    let scale = score(&trained.machine, 0, &data, 0) / projection(point(0));
    assert!(scale > 0.0);
    for row in 0..y.len() {
        let found = score(&trained.machine, 0, &data, row);
        assert!((found - scale * projection(point(row))).abs() < 1e-9, "row {row}");
    }
}

/// Every example held out in turn, by as many trainings.
fn one_by_one(
    data: &Dataset,
    kernel: &KernelRef,
    formulation: &FormulationRef,
    training: &Training,
) -> mercer_train::Validation {
    let folds = Folds::given((0..data.examples.rows() as u32).collect()).unwrap();
    let alone = std::slice::from_ref(formulation);
    let found = cross_validate(data, kernel, alone, &folds, training, &mut |_| {}).unwrap();
    found.into_iter().next().unwrap().unwrap()
}

#[test]
fn leaving_one_out_for_nothing_is_what_training_without_it_gives() {
    let data = three_classes();
    let rbf = kernel("rbf(gamma=3)");
    for solver_text in ["direct", "direct(rank=60)"] {
        for scheme in [Scheme::OneVsRest, Scheme::OneVsOne] {
            for text in ["ridge(lambda=0.1)", "ridge(bias=yes)", "ls_svm(C=5)", "fisher(C=5)"] {
                let training = Training::default()
                    .solver(solver(solver_text).unwrap())
                    .scheme(scheme)
                    .weights(Some(weights(50)));
                let free = learn(&data, &rbf, text, &training).leave_one_out.unwrap();
                let truth = one_by_one(&data, &rbf, &formulation(text).unwrap(), &training);
                // Rank 60 spans all rows, with and without one of them, up to the pivot floor.
                let close = if solver_text == "direct" { 1e-8 } else { 1e-3 };
                for (row, (free, truth)) in free.scores.iter().zip(&truth.scores).enumerate() {
                    assert_eq!(free.len(), truth.len());
                    for (a, b) in free.iter().zip(truth) {
                        let what = format!("{solver_text} {text} {scheme:?} row {row}: {a} {b}");
                        assert!((a - b).abs() <= close * b.abs().max(1.0), "{what}");
                    }
                }
                if solver_text == "direct" {
                    assert_eq!(free.measure, truth.measure);
                    assert!((free.quality - truth.quality).abs() < 1e-8);
                }
            }
        }
    }
}

#[test]
fn low_rank_machines_keep_their_pivots_and_come_near_the_whole_one() {
    let data = synthetic::ripley(400, 9);
    let rbf = kernel("rbf(gamma=1)");
    let whole = learn(&data, &rbf, "ls_svm(C=10)", &Training::default());
    let mut last = f64::INFINITY;
    for rank in [10, 30, 80] {
        let text = format!("direct(rank={rank})");
        let training = Training::default().solver(solver(&text).unwrap());
        let some = learn(&data, &rbf, "ls_svm(C=10)", &training);
        let report = some.report.system.unwrap();
        assert!(report.rank.unwrap() <= rank && some.machine.supports().rows() <= rank);
        assert!(some.report.converged, "{rank}: violation {}", some.report.violation);
        // The cost of a machine of low rank is above the best one, by no more than the gap says.
        let above = whole.report.objective - some.report.objective;
        assert!(above >= -1e-9 && above <= some.report.gap + 1e-9, "{rank}: {above}");
        assert!(some.report.gap <= last, "{rank}");
        last = some.report.gap;
        let apart = (0..400)
            .map(|row| score(&whole.machine, 0, &data, row) - score(&some.machine, 0, &data, row))
            .fold(0.0, |worst: f64, one| worst.max(one.abs()));
        assert!(rank < 80 || apart < 1e-3, "{rank}: scores are {apart} apart");
    }
}

#[test]
fn duplicates_wide_scales_and_constant_kernels_are_solved() {
    let ripley = synthetic::ripley(40, 2);
    let twice: Vec<usize> = (0..40).chain(0..40).collect();
    let data = ripley.select(&twice);
    for (kernel_text, text) in [
        ("rbf(gamma=1e-9)", "ls_svm(C=1)"),
        ("rbf(gamma=1e9)", "fisher(C=1)"),
        ("rbf(gamma=1)", "ls_svm(C=1e6)"),
        ("polynomial(degree=3, gamma=1, coef0=1)", "ridge(lambda=1e-3)"),
    ] {
        for solver_text in ["direct", "direct(rank=80)"] {
            let training = Training::default().solver(solver(solver_text).unwrap());
            let trained = learn(&data, &kernel(kernel_text), text, &training);
            let what = format!("{kernel_text} {text} {solver_text}");
            assert!(trained.report.converged, "{what}: {}", trained.report.violation);
            assert!(score(&trained.machine, 0, &data, 3).is_finite(), "{what}");
        }
    }
    let zeros = Matrix::dense(2, vec![0.0; 8]).unwrap();
    let targets = Targets::Numbers(vec![1.0, 2.0, 3.0, 6.0]);
    let nothing = Dataset { examples: zeros, targets, names: None };
    for solver_text in ["direct", "direct(rank=4)"] {
        let training = Training::default().solver(solver(solver_text).unwrap());
        let trained = learn(&nothing, &kernel("linear"), "ridge(bias=yes)", &training);
        assert!((score(&trained.machine, 0, &nothing, 0) - 3.0).abs() < 1e-12, "{solver_text}");
    }
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    let data = three_classes();
    let rbf = kernel("rbf(gamma=3)");
    for solver_text in ["direct", "direct(rank=20)"] {
        let training = Training::default().solver(solver(solver_text).unwrap());
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| learn(&data, &rbf, "fisher(C=2)", &training))
        };
        let (one, three) = (with(1), with(3));
        assert_eq!(one.expansions, three.expansions);
        assert_eq!(one.leave_one_out.unwrap().scores, three.leave_one_out.unwrap().scores);
    }
}

#[test]
fn several_classes_are_told_apart() {
    let data = three_classes();
    let trained = learn(&data, &kernel("rbf(gamma=3)"), "ls_svm(C=100)", &Training::default());
    let Targets::Numbers(y) = &data.targets else { panic!("numbers") };
    let right = (0..50)
        .filter(|row| {
            let scores: Vec<f64> =
                (0..3).map(|number| score(&trained.machine, number, &data, *row)).collect();
            let Answer::Class(class) = trained.machine.verdict(&scores).answer else { panic!() };
            trained.machine.classes()[class] == ClassName::Number(y[*row])
        })
        .count();
    assert!(right >= 40, "{right} of 50");
}

#[test]
fn solvers_and_formulations_that_do_not_fit_are_refused_and_a_switch_ends_it() {
    let data = synthetic::ripley(60, 1);
    let rbf = kernel("rbf(gamma=1)");
    let ask = |text: &str, training: &Training| {
        train(&data, &rbf, &formulation(text).unwrap(), training, &mut |_| {}).unwrap_err()
    };
    let with = |text: &str| Training::default().solver(solver(text).unwrap());
    assert!(matches!(ask("c_svc", &with("direct")), TrainError::Unsuited { .. }));
    assert!(matches!(ask("ls_svm", &with("smo")), TrainError::NeedsDirect { .. }));
    assert!(matches!(ask("ridge", &with("additive")), TrainError::Unsuited { .. }));
    let cancel = Cancel::new();
    cancel.cancel();
    let stopped = ask("fisher", &Training::default().cancel(cancel));
    assert!(matches!(stopped, TrainError::Stopped(_)));
}
