//! Updates: the machine of rows that were added or forgotten is that of a training on all rows that are left.

use mercer_data::synthetic::{banana, ripley};
use mercer_data::{Dataset, Matrix, Targets};
use mercer_machine::{ClassName, Machine, Scheme, Score};
use mercer_train::{
    TrainError, Trained, Training, Update, Updated, WeightedRows, formulation, solver, train,
    update,
};

use crate::common::select;

fn kernel() -> mercer_kernel::KernelRef {
    mercer_kernel::parse("rbf(gamma=3)").unwrap()
}

fn exact() -> Training {
    Training::default().relative_gap(Some(1e-7))
}

fn learn(data: &Dataset, text: &str, training: &Training) -> Trained {
    train(data, &kernel(), &formulation(text).unwrap(), training, &mut |_| {}).unwrap()
}

fn updated(change: &Update<'_>, text: &str, training: &Training) -> Result<Updated, TrainError> {
    update(change, &formulation(text).unwrap(), training, &mut |_| {})
}

fn joined(first: &Dataset, second: &Dataset) -> Dataset {
    let dense = |data: &Dataset| data.examples.to_dense().into_dense().unwrap();
    let examples = Matrix::dense(2, [dense(first), dense(second)].concat()).unwrap();
    let targets = match (&first.targets, &second.targets) {
        (Targets::Numbers(a), Targets::Numbers(b)) => Targets::Numbers([&a[..], b].concat()),
        _ => panic!("these tests have numbers"),
    };
    Dataset { examples, targets, names: None }
}

/// Three classes from two clouds, 0, 1 and 2; the last comes last.
fn three(rows: usize) -> Dataset {
    let mut data = banana(rows, 9);
    let class = |row: usize| {
        let row = data.examples.row(row);
        if row.get(1) > 0.25 { 2.0 } else { f64::from(u8::from(row.get(0) > 0.5)) }
    };
    data.targets = Targets::Numbers((0..rows).map(class).collect());
    data
}

/// Objectives of subproblems without the scale of nu-SVC and nu-SVR: relative to the square of the sum of |β|, which is fixed there.
fn comparable(trained: &Trained, text: &str) -> Vec<f64> {
    let sum = |score: &Score| match score {
        Score::Expansion { coefficients, .. } => {
            coefficients.iter().map(|beta| beta.abs()).sum::<f64>()
        }
        _ => panic!("smo makes expansions"),
    };
    let parts = trained.report.subproblems.iter().zip(trained.machine.scores());
    let scale = |score: &Score| if text.starts_with("nu_") { sum(score).powi(2) } else { 1.0 };
    parts.map(|(part, score)| part.objective / scale(score)).collect()
}

/// That both trainings have the same subproblems and, to 1e-6, the same objectives.
fn assert_same(warm: &Updated, cold: &Trained, text: &str) {
    assert!(warm.trained.report.converged, "{text}: {:?}", warm.trained.report);
    assert!(warm.report.relative_gap <= 1e-6, "{text}: {:?}", warm.report);
    assert_eq!(warm.trained.machine.output(), cold.machine.output());
    for (a, b) in comparable(&warm.trained, text).iter().zip(comparable(cold, text)) {
        assert!((a - b).abs() <= 1e-6 * b.abs(), "{text}: {a} and {b}");
    }
}

const ALL: [&str; 6] = [
    "c_svc(C=10)",
    "c_svc(C=1000)",
    "nu_svc(nu=0.4)",
    "epsilon_svr(C=10, epsilon=0.05)",
    "nu_svr(C=10, nu=0.3)",
    "one_class(nu=0.2)",
];

#[test]
fn rows_added_under_a_tenth_give_the_machine_of_all_rows_in_fewer_steps() {
    let (old, new) = (ripley(900, 4), ripley(60, 5));
    let all = joined(&old, &new);
    for text in ALL {
        let first = learn(&old, text, &Training::default());
        let change = Update {
            machine: &first.machine,
            original: (&old).into(),
            added: Some((&new).into()),
            forgotten: None,
        };
        let warm = updated(&change, text, &Training::default()).unwrap();
        let cold = learn(&all, text, &exact());
        assert_same(&warm, &cold, text);
        assert_eq!(warm.data, all);
        let report = &warm.report;
        assert_eq!((report.original, report.added, report.rows), (900, 60, 960));
        assert_eq!(report.stayed + report.left, first.machine.supports().rows());
        assert_eq!(report.stayed + report.came, warm.trained.machine.supports().rows());
        assert!(report.cold.is_none() && report.came > 0, "{report:?}");
        let (warm, cold) = (warm.trained.report, cold.report);
        assert!(warm.kernel_values < cold.kernel_values, "{text}: {warm:?} {cold:?}");
    }
}

#[test]
fn rows_can_be_forgotten_and_added_at_once() {
    let data = ripley(900, 6);
    let new = ripley(40, 7);
    let forgotten: Vec<usize> = (0..900).filter(|row| row % 13 == 0).collect();
    let kept: Vec<usize> = (0..900).filter(|row| row % 13 != 0).collect();
    let gone = select(&data, &forgotten);
    for text in ALL {
        let first = learn(&data, text, &Training::default());
        for added in [None, Some(&new)] {
            let change = Update {
                machine: &first.machine,
                original: (&data).into(),
                added: added.map(WeightedRows::from),
                forgotten: Some(&gone),
            };
            let warm = updated(&change, text, &Training::default()).unwrap();
            let left = select(&data, &kept);
            let left = added.map_or(left.clone(), |new| joined(&left, new));
            assert_eq!(warm.data, left);
            assert_eq!(warm.report.forgotten, gone.examples.rows());
            assert_same(&warm, &learn(&left, text, &exact()), text);
        }
    }
}

#[test]
fn what_is_added_and_then_forgotten_leaves_the_machine_of_before() {
    let (old, new) = (ripley(500, 8), ripley(40, 9));
    let text = "c_svc(C=10)";
    let first = learn(&old, text, &exact());
    let change = Update {
        machine: &first.machine,
        original: (&old).into(),
        added: Some((&new).into()),
        forgotten: None,
    };
    let more = updated(&change, text, &exact()).unwrap();
    let change = Update {
        machine: &more.trained.machine,
        original: (&more.data).into(),
        added: None,
        forgotten: Some(&new),
    };
    let back = updated(&change, text, &exact()).unwrap();
    assert_eq!(back.data, old);
    assert_same(&back, &first, text);
}

#[test]
fn classes_may_come_go_and_change_their_order_in_both_schemes() {
    let data = three(700);
    let Targets::Numbers(classes) = &data.targets else { panic!("numbers") };
    let of = |wanted: &dyn Fn(f64) -> bool| -> Vec<usize> {
        (0..700).filter(|row| wanted(classes[*row])).collect()
    };
    let (two, last) = (select(&data, &of(&|c| c < 2.0)), select(&data, &of(&|c| c == 2.0)));
    let text = "c_svc(C=20)";
    for scheme in [Scheme::OneVsOne, Scheme::OneVsRest] {
        let (quick, exact) = (Training::default().scheme(scheme), exact().scheme(scheme));
        // A class that was not there.
        let first = learn(&two, text, &quick);
        let change = Update {
            machine: &first.machine,
            original: (&two).into(),
            added: Some((&last).into()),
            forgotten: None,
        };
        // The scheme is that of the machine.
        let grown = updated(&change, text, &Training::default()).unwrap();
        assert_same(&grown, &learn(&joined(&two, &last), text, &exact), text);
        // The same class goes again.
        let change = Update {
            machine: &grown.trained.machine,
            original: (&grown.data).into(),
            added: None,
            forgotten: Some(&last),
        };
        let shrunk = updated(&change, text, &Training::default()).unwrap();
        assert_same(&shrunk, &learn(&two, text, &exact), text);
        // The first row of the first class goes, so that another class is met first.
        let start = (1..700).find(|row| classes[*row] != classes[0]).unwrap();
        let gone = select(&data, &(0..start).collect::<Vec<_>>());
        let first = learn(&data, text, &quick);
        let change = Update {
            machine: &first.machine,
            original: (&data).into(),
            added: None,
            forgotten: Some(&gone),
        };
        let turned = updated(&change, text, &Training::default()).unwrap();
        let left = select(&data, &(start..700).collect::<Vec<_>>());
        assert_ne!(first.machine.output(), turned.trained.machine.output());
        assert_same(&turned, &learn(&left, text, &exact), text);
    }
}

#[test]
fn equal_rows_and_weights_are_those_of_the_whole_training() {
    let base = ripley(300, 10);
    let twice = joined(&joined(&base, &base), &base);
    let weights: Vec<f64> = (0..900).map(|row| [1.0, 0.5, 3.0, 0.0][row % 4]).collect();
    let new = ripley(50, 11);
    let more: Vec<f64> = (0..50).map(|row| [2.0, 1.0][row % 2]).collect();
    let gone = select(&twice, &(0..60).collect::<Vec<_>>());
    let classes = vec![
        (ClassName::Number(1.0), 2.0),
        (ClassName::Number(0.0), 1.0),
        (ClassName::Number(-1.0), 1.0),
    ];
    let Targets::Numbers(targets) = &base.targets else { panic!("numbers") };
    let classes: Vec<_> = classes
        .into_iter()
        .filter(|(name, _)| targets.iter().any(|y| ClassName::Number(*y) == *name))
        .collect();
    for text in ALL {
        let with_classes = |training: Training| {
            let has = text.contains("svc");
            training.class_weights(if has { classes.clone() } else { Vec::new() })
        };
        let first =
            learn(&twice, text, &with_classes(Training::default().weights(Some(weights.clone()))));
        let change = Update {
            machine: &first.machine,
            original: WeightedRows { data: &twice, weights: Some(&weights) },
            added: Some(WeightedRows { data: &new, weights: Some(&more) }),
            forgotten: Some(&gone),
        };
        let warm = updated(&change, text, &with_classes(Training::default())).unwrap();
        let kept = warm.weights.clone().unwrap();
        // Of equal rows the first goes.
        assert_eq!(kept, [&weights[60..], &more].concat());
        let cold = learn(&warm.data, text, &with_classes(exact().weights(Some(kept))));
        assert_same(&warm, &cold, text);
    }
}

#[test]
fn a_machine_of_the_same_rows_is_confirmed_at_once() {
    let twice = joined(&ripley(300, 12), &ripley(300, 12));
    for text in ALL {
        let first = learn(&twice, text, &exact());
        let change = Update {
            machine: &first.machine,
            original: (&twice).into(),
            added: None,
            forgotten: None,
        };
        let again = updated(&change, text, &Training::default()).unwrap();
        assert_same(&again, &first, text);
        let (again, first) = (again.trained.report.iterations, first.report.iterations);
        assert!(10 * again <= first, "{text}: {again} and {first}");
    }
}

/// Many small classes: an update computes kernel rows of what moves, a training from the start those of all rows.
#[test]
fn updates_of_many_small_classes_compute_few_kernel_rows() {
    let classes = |rows: usize, seed: u64| {
        let mut data = ripley(rows, seed);
        let class = |row: usize| {
            let row = data.examples.row(row);
            (3.0 * row.get(0)).floor() + 3.0 * f64::from(u8::from(row.get(1) > 0.5))
        };
        data.targets = Targets::Numbers((0..rows).map(class).collect());
        data
    };
    let (old, new) = (classes(600, 20), classes(30, 21));
    let all = joined(&old, &new);
    let text = "c_svc(C=10)";
    let training = Training::default().relative_gap(Some(1e-6));
    let first = learn(&old, text, &training);
    assert!(first.machine.scores().len() > 10);
    let change = Update {
        machine: &first.machine,
        original: (&old).into(),
        added: Some((&new).into()),
        forgotten: None,
    };
    let warm = updated(&change, text, &Training::default()).unwrap();
    let cold = learn(&all, text, &training);
    assert_same(&warm, &cold, text);
    let (warm, cold) = (warm.trained.report, cold.report);
    assert!(2 * warm.kernel_values < cold.kernel_values, "{warm:?} {cold:?}");
}

#[test]
fn decomposition_updates_too_and_auto_takes_smo() {
    let (old, new) = (ripley(900, 13), ripley(60, 14));
    let text = "c_svc(C=10)";
    let first = learn(&old, text, &Training::default());
    let change = Update {
        machine: &first.machine,
        original: (&old).into(),
        added: Some((&new).into()),
        forgotten: None,
    };
    let cold = learn(&joined(&old, &new), text, &exact());
    for name in ["decomposition(working_set=256)", "auto"] {
        let training = Training::default().solver(solver(name).unwrap());
        let warm = updated(&change, text, &training).unwrap();
        assert_same(&warm, &cold, name);
        assert!(warm.report.cold.is_none());
    }
}

#[test]
fn solvers_without_a_starting_point_train_all_rows_and_say_so() {
    let (old, new) = (ripley(200, 15), ripley(20, 16));
    let all = joined(&old, &new);
    for (name, text) in
        [("low_rank", "c_svc(C=1)"), ("direct", "ls_svm(C=1)"), ("smo", "ls_svm(C=1)")]
    {
        let mut training = Training::default();
        if name != "smo" {
            training = training.solver(solver(name).unwrap());
        }
        let first = learn(&old, text, &training);
        let change = Update {
            machine: &first.machine,
            original: (&old).into(),
            added: Some((&new).into()),
            forgotten: None,
        };
        let warm = updated(&change, text, &training).unwrap();
        assert!(warm.report.cold.is_some(), "{name}");
        let cold = learn(&all, text, &training);
        assert_eq!(warm.trained.machine.scores(), cold.machine.scores(), "{name}");
    }
    let linear = mercer_kernel::parse("linear").unwrap();
    let training = Training::default().solver(solver("linear").unwrap());
    let c_svc = formulation("c_svc(C=1)").unwrap();
    let first = train(&old, &linear, &c_svc, &training, &mut |_| {}).unwrap();
    let change = Update {
        machine: &first.machine,
        original: (&old).into(),
        added: Some((&new).into()),
        forgotten: None,
    };
    for training in [training, Training::default()] {
        let warm = update(&change, &c_svc, &training, &mut |_| {}).unwrap();
        assert!(warm.report.cold.is_some());
        assert_eq!(warm.report.rows, 220);
    }
}

fn refusal(change: &Update<'_>) -> String {
    updated(change, "c_svc(C=10)", &Training::default()).unwrap_err().to_string()
}

#[test]
fn what_does_not_fit_is_refused_in_a_sentence() {
    let (old, other) = (ripley(200, 17), ripley(200, 18));
    let machine: Machine = learn(&old, "c_svc(C=10)", &Training::default()).machine;
    let change =
        Update { machine: &machine, original: (&old).into(), added: None, forgotten: None };
    let all = machine.supports().rows();
    assert_eq!(
        refusal(&Update { original: (&other).into(), ..change }),
        format!(
            "the original rows are not those of the machine: {all} of its {all} supports are none of these 200 rows; give \
             the rows that it was trained on, prepared (scaled) in the same way"
        )
    );
    let gone = select(&other, &[3]);
    assert_eq!(
        refusal(&Update { forgotten: Some(&gone), ..change }),
        "row 1 of the rows to forget is none of the original rows"
    );
    let mut turned = select(&old, &[0, 1]);
    if let Targets::Numbers(targets) = &mut turned.targets {
        targets[1] = 7.0;
    }
    assert_eq!(
        refusal(&Update { forgotten: Some(&turned), ..change }),
        "row 2 of the rows to forget is one of the original rows, but with another target"
    );
    let twice = select(&old, &[5, 5]);
    assert_eq!(
        refusal(&Update { forgotten: Some(&twice), ..change }),
        "row 2 of the rows to forget is asked for more often than it is there (1 times among the original rows)"
    );
    let absent = Dataset { targets: Targets::Absent, ..select(&old, &[5]) };
    assert_eq!(
        refusal(&Update { forgotten: Some(&absent), ..change }),
        "the rows to forget do not fit the original rows: they need the targets that they were trained with"
    );
    let wide = Dataset {
        examples: Matrix::dense(3, vec![1.0; 3]).unwrap(),
        targets: Targets::Numbers(vec![1.0]),
        names: None,
    };
    assert_eq!(
        refusal(&Update { added: Some((&wide).into()), ..change }),
        "the new rows do not fit the original rows: they have 3 columns, not 2"
    );
    assert_eq!(
        refusal(&Update { added: Some((&absent).into()), ..change }),
        "the new rows do not fit the original rows: there are 0 targets for 1 rows"
    );
    let short = WeightedRows { data: &old, weights: Some(&[1.0]) };
    assert_eq!(
        refusal(&Update { original: short, ..change }),
        "there are 1 weights for 200 rows".replace("rows", "examples")
    );
    let wrong = update(
        &change,
        &formulation("epsilon_svr(C=1)").unwrap(),
        &Training::default(),
        &mut |_| {},
    );
    assert_eq!(
        wrong.unwrap_err().to_string(),
        "the warm start is not possible with this machine: it is a classifier, which epsilon_svr does not train"
    );
}

#[test]
fn a_relative_gap_is_reached_or_said_to_be_missed() {
    let data = ripley(400, 19);
    let loose = learn(&data, "c_svc(C=100)", &Training::default());
    let tight = learn(&data, "c_svc(C=100)", &Training::default().relative_gap(Some(1e-8)));
    let share = |trained: &Trained| trained.report.gap / trained.report.objective.abs();
    assert!(share(&loose) > 1e-8 && share(&tight) <= 1e-8);
    assert!(tight.report.converged && tight.report.objective <= loose.report.objective);
    // Beyond what f64 can show.
    let beyond = learn(&data, "c_svc(C=100)", &Training::default().relative_gap(Some(1e-18)));
    assert!(!beyond.report.converged, "{:?}", beyond.report);
    for (training, words) in [
        (
            Training::default().relative_gap(Some(0.0)),
            "the relative gap is 0; it must be above 0 and finite",
        ),
        (
            Training::default().relative_gap(Some(1e-6)).solver(solver("low_rank").unwrap()),
            "the solver low_rank does not fit this problem: it does not stop by a relative gap; leave it out",
        ),
    ] {
        let c_svc = formulation("c_svc(C=1)").unwrap();
        let refused = train(&data, &kernel(), &c_svc, &training, &mut |_| {}).unwrap_err();
        assert_eq!(refused.to_string(), words);
    }
}
