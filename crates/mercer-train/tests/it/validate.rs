//! Cross-validation and search against the same done step by step.

use crate::common::{abalone, answer, select};
use mercer_data::synthetic::{banana, ripley};
use mercer_data::{Dataset, Targets};
use mercer_machine::{Answer, Scheme};
use mercer_train::{
    Calibrator, Cancel, Folds, FormulationRef, Measure, Search, TrainError, Training, Validation,
    by_class, calibrate_probabilities, cross_validate, formulation, search, train,
};

fn paths(texts: &[&str]) -> Vec<FormulationRef> {
    texts.iter().map(|text| formulation(text).unwrap()).collect()
}

fn four(rows: usize) -> Dataset {
    let mut data = banana(rows, 9);
    let class = |row: usize| {
        let row = data.examples.row(row);
        f64::from(u8::from(row.get(0) > 0.5)) + 2.0 * f64::from(u8::from(row.get(1) > 0.25))
    };
    data.targets = Targets::Numbers((0..rows).map(class).collect());
    data
}

/// The answer to an example as a number.
fn said(validation: &Validation, row: usize) -> f64 {
    match validation.output.verdict(&validation.scores[row]).answer {
        Answer::Class(class) => match &validation.output {
            mercer_machine::Output::Classes { names, .. } => {
                names[class].to_string().parse().unwrap()
            }
            _ => panic!("classes have names"),
        },
        Answer::Value(value) => value,
        Answer::Inlier(inside) => f64::from(u8::from(inside)) * 2.0 - 1.0,
    }
}

/// Trains every fold by itself and compares all answers.
fn compare(data: &Dataset, kernel: &str, texts: &[&str], training: &Training) {
    let kernel = mercer_kernel::parse(kernel).unwrap();
    let formulations = paths(texts);
    let folds = Folds::new(data, by_class(&formulations[0]), 4, 3).unwrap();
    let found =
        cross_validate(data, &kernel, &formulations, &folds, training, &mut |_| {}).unwrap();
    for (formulation, validation) in formulations.iter().zip(found) {
        let validation = validation.unwrap();
        assert!(validation.converged && validation.folds.len() == 4);
        let mut worst: f64 = 0.0;
        for fold in 0..4 {
            let rows = |own: bool| -> Vec<usize> {
                let of = folds.of().iter().enumerate();
                of.filter(|(_, of)| (**of == fold) == own).map(|(row, _)| row).collect()
            };
            let learned = select(data, &rows(false));
            let machine =
                train(&learned, &kernel, formulation, training, &mut |_| {}).unwrap().machine;
            for row in rows(true) {
                let expected = answer(&machine, data.examples.row(row));
                worst = worst.max((expected - said(&validation, row)).abs());
            }
        }
        assert!(worst < 0.02, "{}: off by {worst}", formulation.spec());
    }
}

#[test]
fn folds_answer_as_machines_trained_one_by_one() {
    let exact = Training::default().tolerance(1e-6);
    compare(&ripley(240, 2), "rbf(gamma=2)", &["c_svc(C=0.1)", "c_svc(C=10)"], &exact);
    compare(&ripley(160, 2), "linear", &["nu_svc(nu=0.4)"], &exact);
    compare(&four(200), "rbf(gamma=1)", &["c_svc(C=1)", "c_svc(C=100)"], &exact);
    let rest = exact.clone().scheme(Scheme::OneVsRest);
    compare(&four(200), "rbf(gamma=1)", &["c_svc(C=1)"], &rest);
    let rows: Vec<usize> = (0..200).collect();
    let some = select(&abalone(), &rows);
    compare(&some, "rbf(gamma=1)", &["epsilon_svr(C=1, epsilon=0.5)"], &exact);
    compare(&some, "rbf(gamma=1)", &["one_class(nu=0.2)"], &exact);
}

#[test]
fn neither_threads_nor_neighbours_change_a_fold() {
    let (data, kernel) = (four(180), mercer_kernel::parse("rbf(gamma=1)").unwrap());
    let folds = Folds::new(&data, true, 3, 1).unwrap();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let training = Training::default();
        let formulations = paths(&["c_svc(C=1)", "c_svc(C=10)"]);
        let found = pool.install(|| {
            cross_validate(&data, &kernel, &formulations, &folds, &training, &mut |_| {}).unwrap()
        });
        found.into_iter().map(|one| one.unwrap().scores).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn a_class_with_one_example_and_an_infeasible_nu_do_not_end_a_validation() {
    let mut data = ripley(60, 4);
    if let Targets::Numbers(targets) = &mut data.targets {
        targets[0] = 7.0;
    }
    let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
    let folds = Folds::new(&data, true, 3, 1).unwrap();
    let formulations = paths(&["c_svc(C=1)", "nu_svc(nu=0.99)"]);
    let training = Training::default();
    let found =
        cross_validate(&data, &kernel, &formulations, &folds, &training, &mut |_| {}).unwrap();
    assert!(found[0].as_ref().unwrap().quality > 0.6);
    assert!(matches!(found[1], Err(TrainError::InfeasibleNu { .. })), "{:?}", found[1]);
    let mixed = paths(&["c_svc(C=1)", "one_class(nu=0.5)"]);
    let mixed = cross_validate(&data, &kernel, &mixed, &folds, &training, &mut |_| {});
    assert!(matches!(mixed, Err(TrainError::MixedGoals { .. })));
}

fn kernels(texts: &[&str]) -> Vec<mercer_kernel::KernelRef> {
    texts.iter().map(|text| mercer_kernel::parse(text).unwrap()).collect()
}

#[test]
fn a_search_finds_the_candidate_that_validates_best() {
    let data = banana(300, 5);
    let kernels = kernels(&["linear", "rbf(gamma=0.01)", "rbf(gamma=1)"]);
    let formulations = paths(&["c_svc(C=0.01)", "c_svc(C=1)", "c_svc(C=100)"]);
    let options = Search { seed: 11, ..Search::default() };
    let found = search(&data, &kernels, &formulations, &options, &|_| {}).unwrap();
    assert_eq!((found.candidates.len(), found.measure), (9, Measure::Accuracy));
    let folds = Folds::new(&data, true, 5, 11).unwrap();
    let mut expected = Vec::new();
    for kernel in &kernels {
        for formulation in &formulations {
            let alone = [formulation.clone()];
            let one = cross_validate(&data, kernel, &alone, &folds, &options.training, &mut |_| {});
            expected.push(one.unwrap().remove(0).unwrap().mean());
        }
    }
    for (candidate, alone) in found.candidates.iter().zip(&expected) {
        assert!((candidate.mean().unwrap() - alone).abs() < 0.01, "{candidate:?}: {alone}");
    }
    let best = &found.candidates[found.best.unwrap()];
    assert!(
        best.mean().unwrap() >= expected.iter().fold(0.0, |most: f64, one| most.max(*one)) - 0.01
    );
    assert!(best.kernel.contains("gamma=1)"), "{best:?}");
}

#[test]
fn halving_ends_with_the_best_on_all_examples() {
    let data = banana(1000, 5);
    let kernels = kernels(&["linear", "rbf(gamma=0.001)", "rbf(gamma=1)"]);
    let formulations = paths(&["c_svc(C=0.01)", "c_svc(C=1)", "c_svc(C=10)"]);
    let options = Search { halving: Some(2), ..Search::default() };
    let found = search(&data, &kernels, &formulations, &options, &|_| {}).unwrap();
    let count = |rows: usize| found.candidates.iter().filter(|one| one.rows == rows).count();
    assert_eq!([count(250), count(500), count(1000)], [9, 5, 3]);
    let best = &found.candidates[found.best.unwrap()];
    assert!(best.rows == 1000 && best.kernel.contains("gamma=1)"), "{best:?}");
}

#[test]
fn a_search_continues_from_its_journal_and_refuses_that_of_another() {
    let data = banana(120, 5);
    let (kernels, formulations) = (kernels(&["linear", "rbf(gamma=1)"]), paths(&["c_svc(C=1)"]));
    let folder = std::env::temp_dir().join(format!("mercer-search-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let journal = folder.join("journal");
    let mut options = Search { journal: Some(journal.clone()), ..Search::default() };
    let first = search(&data, &kernels[..1], &formulations, &options, &|_| {}).unwrap();
    let both = search(&data, &kernels, &formulations, &options, &|_| {}).unwrap();
    assert_eq!(both.candidates[0], first.candidates[0], "to the second: it was not done again");
    options.seed = 5;
    let other = search(&data, &kernels, &formulations, &options, &|_| {});
    assert!(matches!(other, Err(TrainError::Checkpoint { .. })));
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, &text[..text.len() - 30]).unwrap();
    options.seed = 0;
    let damaged = search(&data, &kernels, &formulations, &options, &|_| {});
    assert!(matches!(damaged, Err(TrainError::Checkpoint { .. })));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_cancelled_search_says_so() {
    let cancel = Cancel::new();
    cancel.cancel();
    let options = Search { training: Training::default().cancel(cancel), ..Search::default() };
    let found =
        search(&banana(100, 1), &kernels(&["linear"]), &paths(&["c_svc(C=1)"]), &options, &|_| {});
    let found = found.unwrap();
    assert!(found.stop.is_some() && found.best.is_none());
    let nothing =
        search(&banana(100, 1), &[], &paths(&["c_svc(C=1)"]), &Search::default(), &|_| {});
    assert!(matches!(nothing, Err(TrainError::NoCandidates)));
}

#[test]
fn the_same_seed_gives_the_same_search_and_probabilities_for_any_number_of_threads() {
    let data = ripley(600, 8);
    let kernels = ["rbf(gamma=0.5)", "rbf(gamma=2)", "rbf(gamma=8)"];
    let kernels: Vec<_> = kernels.iter().map(|text| mercer_kernel::parse(text).unwrap()).collect();
    for texts in [["c_svc(C=0.1)", "c_svc(C=10)"], ["ls_svm(C=0.1)", "ls_svm(C=10)"]] {
        let run = |threads: usize, seed: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let options = Search { folds: 3, seed, halving: Some(2), ..Search::default() };
            pool.install(|| {
                let formulations = paths(&texts);
                let found = search(&data, &kernels, &formulations, &options, &|_| {}).unwrap();
                let folds = Folds::new(&data, true, 3, seed).unwrap();
                let alone = &formulations[..1];
                let judged = cross_validate(
                    &data,
                    &kernels[1],
                    alone,
                    &folds,
                    &options.training,
                    &mut |_| {},
                );
                let judged = judged.unwrap().remove(0).unwrap();
                let fitted =
                    calibrate_probabilities(&data, &judged, None, Calibrator::Isotonic).unwrap();
                let told: Vec<_> = found.candidates.into_iter().map(|one| one.folds).collect();
                (told, found.best, fitted)
            })
        };
        assert_eq!(run(1, 5), run(3, 5));
        assert_ne!(run(1, 5).0, run(1, 6).0);
    }
}
