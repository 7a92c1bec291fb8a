//! The solver `decomposition` against `smo`; limits, threads and checkpoints; the public pieces of a round.

use std::path::PathBuf;
use std::time::Duration;

use crate::common::abalone;
use mercer_data::synthetic::{banana, ripley};
use mercer_data::{Dataset, Matrix, Targets};
use mercer_machine::{Machine, Scheme};
use mercer_train::decomposition::{
    ChangeOptions, OptimalityBounds, OptimalityPart, RowBlock, WeightedSupports, change_program,
    solve_changes,
};
use mercer_train::{
    Cancel, Checkpoint, Folds, Optimality, Progress, RowSource, Stop, Subproblem, TrainError,
    Trained, Training, by_class, cross_validate, formulation, solver, train, train_rows,
};

const SMALL: &str = "decomposition(working_set=200)";

fn watch(
    data: &Dataset,
    kernel: &str,
    text: &str,
    training: &Training,
    observer: &mut dyn FnMut(&Progress),
) -> Trained {
    let kernel = mercer_kernel::parse(kernel).unwrap();
    train(data, &kernel, &formulation(text).unwrap(), training, observer).unwrap()
}

fn learn(data: &Dataset, kernel: &str, text: &str, training: &Training) -> Trained {
    watch(data, kernel, text, training, &mut |_| {})
}

fn by(text: &str) -> Training {
    Training::default().solver(solver(text).unwrap())
}

fn bits(machine: &Machine) -> (Vec<mercer_machine::Score>, usize) {
    (machine.scores().to_vec(), machine.supports().rows())
}

/// Four classes from two clouds.
fn four(rows: usize) -> Dataset {
    let mut data = banana(rows, 9);
    let class = |row: usize| {
        let row = data.examples.row(row);
        f64::from(u8::from(row.get(0) > 0.5)) + 2.0 * f64::from(u8::from(row.get(1) > 0.25))
    };
    data.targets = Targets::Numbers((0..rows).map(class).collect());
    data
}

/// Both objectives lie within their recomputed gaps above the optimum, and are equal to 1e-6. Those of nu_svc are scaled
/// by its margin, which differs: their gaps do not bound the difference.
fn same_optimum(data: &Dataset, kernel: &str, text: &str, with: &str, more: &Training) {
    let train_by =
        |text_of: &str| learn(data, kernel, text, &more.clone().solver(solver(text_of).unwrap()));
    let (direct, rounds) = (train_by("smo"), train_by(with));
    assert!(rounds.report.converged && rounds.report.stop.is_none(), "{text} {:?}", rounds.report);
    assert_eq!(direct.report.subproblems.len(), rounds.report.subproblems.len());
    for (a, b) in direct.report.subproblems.iter().zip(&rounds.report.subproblems) {
        assert_eq!(a.name, b.name);
        let difference = (a.objective - b.objective).abs();
        let is_bounded =
            text.starts_with("nu_svc") || difference <= a.gap.max(b.gap) * (1.0 + 1e-9);
        assert!(is_bounded, "{text} {kernel}: {a:?} {b:?}");
        assert!(difference <= 1e-6 * a.objective.abs(), "{text} {kernel}: {a:?} {b:?}");
    }
}

#[test]
fn the_objective_is_that_of_smo_for_every_quadratic_program() {
    let tight = Training::default().tolerance(1e-6);
    let data = ripley(1200, 1);
    for (kernel, text) in [
        ("rbf(gamma=3)", "c_svc(C=1)"),
        ("rbf(gamma=3)", "c_svc(C=100)"),
        ("linear", "c_svc(C=10)"),
        ("polynomial(degree=2,gamma=1,coef0=1)", "c_svc(C=1)"),
        ("laplacian(gamma=1)", "c_svc(C=10)"),
        ("rbf(gamma=3)", "nu_svc(nu=0.3)"),
        ("rbf(gamma=3)", "one_class(nu=0.2)"),
        ("rbf(gamma=3)", "epsilon_svr(C=1,epsilon=0.1)"),
        ("rbf(gamma=3)", "nu_svr(C=1,nu=0.3)"),
    ] {
        for with in [SMALL, "decomposition(working_set=100,start=zero,seed=7)"] {
            same_optimum(&data, kernel, text, with, &tight);
        }
    }
    let shells = abalone();
    same_optimum(&shells, "rbf(gamma=1)", "epsilon_svr(C=1,epsilon=1)", SMALL, &tight);
}

#[test]
fn working_sets_over_a_low_rank_factor_end_at_the_same_optimum() {
    let tight = Training::default().tolerance(1e-5);
    let with = "decomposition(working_set=200,inner=low_rank)";
    same_optimum(&banana(900, 4), "rbf(gamma=3)", "c_svc(C=10)", with, &tight);
    same_optimum(&ripley(500, 8), "rbf(gamma=3)", "epsilon_svr(C=1,epsilon=0.1)", with, &tight);
}

#[test]
fn a_gap_ends_the_rounds_before_the_tolerance_is_reached() {
    let data = ripley(1500, 6);
    let whole = learn(&data, "rbf(gamma=10)", "c_svc(C=10)", &by(SMALL).tolerance(1e-6));
    let text = "decomposition(working_set=200,gap=0.05)";
    let early = learn(&data, "rbf(gamma=10)", "c_svc(C=10)", &by(text).tolerance(1e-6)).report;
    assert!(early.gap < 0.05 * early.objective.abs() && early.stop.is_none(), "{early:?}");
    assert!(early.iterations < whole.report.iterations);
    assert!(early.objective >= whole.report.objective);
}

#[test]
fn weights_and_several_classes_give_the_machine_of_smo() {
    let data = ripley(900, 2);
    let weights: Vec<f64> = (0..900).map(|row| f64::from(row % 4) * 0.5).collect();
    let weighted = Training::default().tolerance(1e-6).weights(Some(weights));
    same_optimum(&data, "rbf(gamma=3)", "c_svc(C=10)", SMALL, &weighted);
    let four = four(900);
    for scheme in [Scheme::OneVsOne, Scheme::OneVsRest] {
        let training = Training::default().tolerance(1e-6).scheme(scheme);
        same_optimum(
            &four,
            "rbf(gamma=3)",
            "c_svc(C=10)",
            "decomposition(working_set=64)",
            &training,
        );
    }
}

#[test]
fn a_training_of_medium_size_with_many_bounded_supports_ends_at_the_objective_of_smo() {
    let data = banana(6000, 3);
    let tolerance = Training::default().tolerance(1e-5);
    same_optimum(&data, "rbf(gamma=2)", "c_svc(C=1)", "decomposition(working_set=700)", &tolerance);
}

#[test]
fn sparse_rows_give_the_bits_of_dense_ones() {
    let data = ripley(700, 4);
    let mut sparse = data.clone();
    sparse.examples = data.examples.to_sparse();
    let of =
        |data: &Dataset| bits(&learn(data, "rbf(gamma=3)", "c_svc(C=10)", &by(SMALL)).machine).0;
    assert_eq!(of(&data), of(&sparse));
}

#[test]
fn the_number_of_threads_changes_no_bit_and_the_seed_does() {
    let data = ripley(2500, 5);
    let on = |threads: usize, with: &str| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| learn(&data, "rbf(gamma=3)", "c_svc(C=10)", &by(with)))
    };
    let (one, three) = (on(1, SMALL), on(3, SMALL));
    assert_eq!(bits(&one.machine), bits(&three.machine));
    assert_eq!(one.report.gap.to_bits(), three.report.gap.to_bits());
    let other = on(1, "decomposition(working_set=200,seed=2)");
    assert_ne!(bits(&one.machine), bits(&other.machine));
}

#[test]
fn limits_return_the_best_machine_so_far_with_its_recomputed_gap() {
    let data = ripley(3000, 6);
    let mut gaps = Vec::new();
    for limit in [50, 500, 5000] {
        let training = by(SMALL).tolerance(1e-6).max_iterations(Some(limit));
        let report = learn(&data, "rbf(gamma=3)", "c_svc(C=100)", &training).report;
        assert_eq!((report.stop, report.converged), (Some(Stop::IterationLimit), false));
        assert_eq!(report.iterations, limit);
        gaps.push(report.gap);
    }
    assert!(gaps[2] < gaps[0], "{gaps:?}");
    let none = by(SMALL).time_limit(Some(Duration::ZERO));
    let report = learn(&data, "rbf(gamma=3)", "c_svc(C=100)", &none).report;
    assert_eq!(report.stop, Some(Stop::TimeLimit));
    assert!(report.gap.is_finite() && report.gap > 0.0);
    let cancel = Cancel::new();
    let training = by(SMALL).cancel(cancel.clone());
    let trained = watch(&data, "rbf(gamma=3)", "c_svc(C=100)", &training, &mut |progress| {
        if progress.round.is_some_and(|round| round.number == 2) {
            cancel.cancel();
        }
    });
    assert_eq!(trained.report.stop, Some(Stop::Cancelled));
    assert!(trained.machine.supports().rows() > 0);
}

#[test]
fn progress_counts_rounds_and_moved_rows() {
    let data = ripley(3000, 7);
    let mut seen: Vec<Progress> = Vec::new();
    let training = by(SMALL);
    let trained = watch(&data, "rbf(gamma=3)", "c_svc(C=10)", &training, &mut |p| seen.push(*p));
    let rounds: Vec<u64> = seen.iter().map(|p| p.round.unwrap().number).collect();
    assert!(rounds.len() > 3 && rounds.is_sorted(), "{rounds:?}");
    assert!(seen[1].round.unwrap().moved > 0);
    assert!(seen.last().unwrap().violation <= 1e-3);
    assert_eq!(seen.last().unwrap().iterations, trained.report.iterations);
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("mercer-train-decomposition-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_resumed_training_ends_in_the_same_bits_wherever_it_was_killed() {
    let folder = Folder::new("resume");
    let small = || by("decomposition(working_set=100)").tolerance(1e-5);
    let sets = [(ripley(1500, 5), "c_svc(C=100)"), (four(600), "c_svc(C=30)")];
    for (number, (data, text)) in sets.into_iter().enumerate() {
        let mut rounds = 0;
        let whole = watch(&data, "rbf(gamma=3)", text, &small(), &mut |_| rounds += 1);
        for killed_at in [1, 2, rounds / 2, rounds - 1] {
            let path = folder.0.join(format!("{number}-{killed_at}"));
            let save =
                |resume| Some(Checkpoint { path: path.clone(), every: Duration::ZERO, resume });
            // A panic in the observer stands for the kill: nothing after it is written.
            let mut round = 0;
            let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let training = small().checkpoint(save(false));
                watch(&data, "rbf(gamma=3)", text, &training, &mut |_| {
                    round += 1;
                    assert!(round <= killed_at, "killed on purpose");
                })
            }));
            assert!(killed.is_err());
            let resumed = learn(&data, "rbf(gamma=3)", text, &small().checkpoint(save(true)));
            assert_eq!(bits(&whole.machine), bits(&resumed.machine), "{text} {killed_at}");
            assert_eq!(whole.report.iterations, resumed.report.iterations);
            assert_eq!(whole.report.gap.to_bits(), resumed.report.gap.to_bits());
        }
    }
}

#[test]
fn warm_starts_and_cross_validation_go_through_the_same_rounds() {
    let data = ripley(900, 8);
    let training = by(SMALL).tolerance(1e-5);
    let first = learn(&data, "rbf(gamma=3)", "c_svc(C=10)", &training);
    let again = training.clone().warm_start(Some(first.machine));
    let again = learn(&data, "rbf(gamma=3)", "c_svc(C=10)", &again);
    assert!(again.report.converged);
    assert!(10 * again.report.iterations <= first.report.iterations, "{:?}", again.report);
    let kernel = mercer_kernel::parse("rbf(gamma=3)").unwrap();
    let formulations = [formulation("c_svc(C=1)").unwrap(), formulation("c_svc(C=3)").unwrap()];
    let folds = Folds::new(&data, by_class(&formulations[0]), 4, 3).unwrap();
    let scores = |training: &Training| -> Vec<f64> {
        let found =
            cross_validate(&data, &kernel, &formulations, &folds, training, &mut |_| {}).unwrap();
        found.into_iter().flat_map(|one| one.unwrap().scores.concat()).collect()
    };
    let direct = scores(&Training::default().tolerance(1e-5));
    let rounds = scores(&training);
    assert_eq!(direct.len(), rounds.len());
    // |f - f'| <= |W - W'| + |b - b'|: both ended with a violation below 1e-5, |W - W'|^2 is at most twice the gaps.
    let most = direct.iter().zip(&rounds).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(most < 0.02, "{most}");
}

/// A whole training with the public pieces alone, the rows in blocks of bytes.
#[test]
fn rounds_outside_the_library_end_at_the_same_optimum_and_blocking_changes_no_bit() {
    let data = ripley(600, 9);
    let Targets::Numbers(targets) = &data.targets else { panic!("ripley has numbers") };
    let (kernel, weights) = (mercer_kernel::parse("rbf(gamma=3)").unwrap(), vec![1.0; 600]);
    let part = Subproblem { name: "one", targets, weights: &weights };
    let qp = formulation("c_svc(C=10)").unwrap().quadratic_program(&part).unwrap();
    let options = ChangeOptions { tolerance: 1e-6, ..ChangeOptions::default() };
    let by_blocks = |size: usize| {
        let starts: Vec<usize> = (0..600).step_by(size).collect();
        let blocks: Vec<Vec<u8>> = starts
            .iter()
            .map(|start| {
                let rows = data.examples.select(*start..(start + size).min(600));
                RowBlock::new(rows).to_bytes()
            })
            .collect();
        let (mut beta, mut k_beta) = (vec![0.0; 600], vec![0.0; 600]);
        for round in 0..60u32 {
            let rows: Vec<u32> = (0..600).filter(|row| (row * 7 + round * 13) % 3 != 0).collect();
            let program = change_program(&qp, &beta, &k_beta, &rows);
            let gathered: Matrix = data.examples.select(rows.iter().map(|row| *row as usize));
            let found = solve_changes(&kernel, &gathered, &program, &options).unwrap();
            let supports = WeightedSupports::new(&kernel, &gathered, &found.changes, None);
            for (row, change) in rows.iter().zip(&found.changes) {
                beta[*row as usize] += change;
            }
            for (start, block) in starts.iter().zip(&blocks) {
                let block = RowBlock::from_bytes(block).unwrap();
                let end = start + block.rows().rows();
                supports.add(block.rows(), &mut k_beta[*start..end]);
            }
        }
        let mut bounds = OptimalityBounds::empty(1);
        bounds.merge(&OptimalityBounds::of(&qp, &beta, &k_beta));
        let part = OptimalityPart::of(&qp, &beta, &k_beta, &bounds.multipliers());
        (beta, k_beta, part.finish(&bounds))
    };
    let (beta, k_beta, optimality) = by_blocks(600);
    let (other, other_sums, _) = by_blocks(37);
    assert_eq!(beta, other);
    assert_eq!(k_beta, other_sums);
    assert_eq!(optimality.violation, Optimality::of(&qp, &beta, &k_beta).violation);
    let direct = learn(&data, "rbf(gamma=3)", "c_svc(C=10)", &by("smo").tolerance(1e-6)).report;
    let difference = (optimality.objective - direct.objective).abs();
    assert!(difference <= 1e-6 * direct.objective.abs(), "{optimality:?} {direct:?}");
}

/// Rows that are only shown in pieces.
struct Pieces<'d>(&'d Matrix);

impl RowSource for Pieces<'_> {
    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn columns(&self) -> usize {
        self.0.columns()
    }

    fn nonzeros(&self) -> usize {
        self.0.nonzeros()
    }

    fn bytes(&self) -> usize {
        0
    }

    fn each(
        &self,
        see: &mut dyn FnMut(usize, &Matrix) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        for start in (0..self.rows()).step_by(123) {
            see(start, &self.0.select(start..(start + 123).min(self.rows())))?;
        }
        Ok(())
    }
}

#[test]
fn rows_in_a_file_give_the_bits_of_rows_in_memory() {
    let kernel = mercer_kernel::parse("rbf(gamma=3)").unwrap();
    for (data, text) in [
        (ripley(1500, 10), "c_svc(C=10)"),
        (four(600), "c_svc(C=10)"),
        (ripley(700, 10), "epsilon_svr(C=1,epsilon=0.1)"),
    ] {
        let mut sparse = data.clone();
        sparse.examples = data.examples.to_sparse();
        for data in [&data, &sparse] {
            let what = formulation(text).unwrap();
            // The same size of working sets, although the rows leave more memory in the file.
            let training = by(SMALL);
            let rows = Pieces(&data.examples);
            let found = train_rows(&rows, &data.targets, &kernel, &what, &training, &mut |_| {});
            let (found, expected) = (found.unwrap(), learn(data, "rbf(gamma=3)", text, &training));
            assert_eq!(bits(&found.machine), bits(&expected.machine), "{text}");
            assert_eq!(found.report.gap.to_bits(), expected.report.gap.to_bits());
        }
    }
    let data = ripley(300, 10);
    let rows = Pieces(&data.examples);
    let refused = train_rows(
        &rows,
        &data.targets,
        &kernel,
        &formulation("c_svc(C=1)").unwrap(),
        &by("smo"),
        &mut |_| {},
    );
    assert!(refused.unwrap_err().to_string().ends_with("it needs all examples in memory"));
}
