//! Watching, stopping, resuming; the same bits on any number of threads.

use std::path::PathBuf;
use std::time::Duration;

use mercer_data::Dataset;
use mercer_data::synthetic::{banana, ripley};
use mercer_machine::{Machine, Scheme};
use mercer_train::{
    Cancel, Checkpoint, Progress, Stop, Trained, Training, formulation, solver, train,
};

fn learn(data: &Dataset, text: &str, training: &Training) -> Trained {
    watch(data, text, training, &mut |_| {})
}

fn watch(
    data: &Dataset,
    text: &str,
    training: &Training,
    observer: &mut dyn FnMut(&Progress),
) -> Trained {
    let kernel = mercer_kernel::parse("rbf(gamma=3)").unwrap();
    train(data, &kernel, &formulation(text).unwrap(), training, observer).unwrap()
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
    data.targets = mercer_data::Targets::Numbers((0..rows).map(class).collect());
    data
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mercer-train-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn small_sets() -> Training {
    Training::default().solver(solver("smo(working_set=32)").unwrap()).tolerance(1e-5)
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let data = ripley(2500, 1);
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| learn(&data, "c_svc(C=100)", &Training::default()))
    };
    let (one, three) = (on(1), on(3));
    assert_eq!(bits(&one.machine), bits(&three.machine));
    assert_eq!(one.report.iterations, three.report.iterations);
    assert_eq!(one.report.objective.to_bits(), three.report.objective.to_bits());
}

#[test]
fn memory_changes_time_and_not_the_answer() {
    let data = ripley(1500, 2);
    let wide = learn(&data, "c_svc(C=100)", &Training::default());
    let narrow = learn(&data, "c_svc(C=100)", &Training::default().memory(200_000));
    assert!(narrow.report.converged);
    assert!(narrow.report.peak_memory_bytes <= 220_000, "{}", narrow.report.peak_memory_bytes);
    assert!(
        (wide.report.objective - narrow.report.objective).abs()
            < 1e-4 * wide.report.objective.abs()
    );
}

#[test]
fn limits_return_the_best_machine_so_far_with_its_gap() {
    let data = ripley(600, 3);
    let mut gaps = Vec::new();
    for limit in [20, 200, 2000] {
        let training = small_sets().max_iterations(Some(limit));
        let report = learn(&data, "c_svc(C=100)", &training).report;
        assert_eq!((report.stop, report.converged), (Some(Stop::IterationLimit), false));
        assert_eq!(report.iterations, limit);
        gaps.push(report.gap);
    }
    assert!(gaps.is_sorted_by(|a, b| a > b), "{gaps:?}");
    let report =
        learn(&data, "c_svc(C=100)", &small_sets().time_limit(Some(Duration::ZERO))).report;
    assert_eq!(report.stop, Some(Stop::TimeLimit));
    assert!(report.gap.is_finite() && report.gap > 0.0);
}

#[test]
fn a_cancelled_training_of_many_classes_still_gives_a_machine() {
    let data = four(400);
    for scheme in [Scheme::OneVsOne, Scheme::OneVsRest] {
        let cancel = Cancel::new();
        let training = small_sets().cancel(cancel.clone()).scheme(scheme);
        let trained = watch(&data, "c_svc(C=10)", &training, &mut |progress| {
            if progress.subproblem == 1 {
                cancel.cancel();
            }
        });
        assert_eq!((trained.report.stop, trained.report.converged), (Some(Stop::Cancelled), false));
        assert!(trained.report.gap.is_finite() && trained.report.gap > 0.0);
        assert!(trained.report.subproblems[0].converged);
    }
}

#[test]
fn progress_tells_how_far_it_is() {
    let mut seen: Vec<Progress> = Vec::new();
    let data = ripley(800, 4);
    let trained = watch(&data, "c_svc(C=100)", &small_sets(), &mut |progress| seen.push(*progress));
    assert!(seen.len() > 5);
    assert!(seen.windows(2).all(|pair| pair[0].iterations <= pair[1].iterations));
    assert!(seen.iter().any(|progress| progress.time_left.is_some()));
    let last = seen.last().unwrap();
    assert!(last.violation <= 1e-5 && last.gap < seen[0].gap);
    assert_eq!(last.iterations, trained.report.iterations);
}

#[test]
fn a_resumed_training_ends_in_the_same_bits_wherever_it_was_killed() {
    let folder = Folder::new("resume");
    for (number, (data, text)) in [
        (ripley(1500, 5), "c_svc(C=100)"),
        (four(300), "c_svc(C=30)"),
        (ripley(300, 6), "nu_svc(nu=0.3)"),
    ]
    .into_iter()
    .enumerate()
    {
        let whole = learn(&data, text, &small_sets());
        let rounds = {
            let mut rounds = 0;
            watch(&data, text, &small_sets(), &mut |_| rounds += 1);
            rounds
        };
        for killed_at in [1, rounds / 3, rounds / 2, rounds - 1] {
            let path = folder.0.join(format!("{number}-{killed_at}.checkpoint"));
            let save =
                |resume| Some(Checkpoint { path: path.clone(), every: Duration::ZERO, resume });
            // A panic in the observer stands for the kill: nothing after it is written.
            let mut round = 0;
            let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                watch(&data, text, &small_sets().checkpoint(save(false)), &mut |_| {
                    round += 1;
                    assert!(round <= killed_at, "killed on purpose");
                })
            }));
            assert!(killed.is_err());
            let resumed = learn(&data, text, &small_sets().checkpoint(save(true)));
            assert_eq!(bits(&whole.machine), bits(&resumed.machine), "{text} {killed_at}");
            assert_eq!(whole.report.iterations, resumed.report.iterations);
            assert_eq!(whole.report.gap.to_bits(), resumed.report.gap.to_bits());
        }
    }
}

#[test]
fn a_checkpoint_of_something_else_or_a_damaged_one_is_refused() {
    let folder = Folder::new("foreign");
    let path = folder.0.join("file");
    let checkpoint =
        |resume| Some(Checkpoint { path: path.clone(), every: Duration::ZERO, resume });
    learn(&ripley(100, 1), "c_svc(C=1)", &small_sets().checkpoint(checkpoint(false)));
    let kernel = mercer_kernel::parse("rbf(gamma=3)").unwrap();
    let refuse = |data: &Dataset, text: &str| {
        let what = formulation(text).unwrap();
        let training = small_sets().checkpoint(checkpoint(true));
        train(data, &kernel, &what, &training, &mut |_| {}).map(|_| ()).unwrap_err().to_string()
    };
    assert!(refuse(&ripley(100, 2), "c_svc(C=1)").ends_with("other data or other parameters"));
    assert!(refuse(&ripley(100, 1), "c_svc(C=2)").ends_with("other data or other parameters"));
    let mut bytes = std::fs::read(&path).unwrap();
    for damage in [0, 9, 60, bytes.len() - 1] {
        bytes[damage] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(refuse(&ripley(100, 1), "c_svc(C=1)").ends_with("the file is damaged"));
        bytes[damage] ^= 1;
    }
    std::fs::write(&path, &bytes[..40]).unwrap();
    assert!(refuse(&ripley(100, 1), "c_svc(C=1)").ends_with("the file is damaged"));
}

#[test]
fn a_limit_that_was_hit_can_be_raised_and_the_training_resumed() {
    let folder = Folder::new("raise");
    let checkpoint =
        Some(Checkpoint { path: folder.0.join("c"), every: Duration::ZERO, resume: true });
    let data = ripley(800, 7);
    let whole = learn(&data, "c_svc(C=100)", &small_sets());
    let first = small_sets()
        .checkpoint(checkpoint.clone())
        .max_iterations(Some(whole.report.iterations / 2));
    assert!(!learn(&data, "c_svc(C=100)", &first).report.converged);
    let second = learn(&data, "c_svc(C=100)", &small_sets().checkpoint(checkpoint));
    assert_eq!(bits(&whole.machine), bits(&second.machine));
}

#[test]
fn a_warm_start_finds_the_same_optimum_and_stays_there() {
    let data = ripley(800, 8);
    for (before, after) in [
        ("c_svc(C=100)", "c_svc(C=120)"),
        ("nu_svc(nu=0.3)", "nu_svc(nu=0.32)"),
        ("epsilon_svr(C=10)", "epsilon_svr(C=12)"),
        ("one_class(nu=0.3)", "one_class(nu=0.31)"),
    ] {
        let training = Training::default().tolerance(1e-4);
        let first = learn(&data, before, &training);
        let cold = learn(&data, after, &training);
        let warm = learn(&data, after, &training.clone().warm_start(Some(first.machine)));
        assert!(warm.report.converged, "{after}");
        let relative =
            (warm.report.objective - cold.report.objective).abs() / cold.report.objective.abs();
        assert!(relative < 1e-4, "{after} {relative}");
        let again = learn(&data, after, &training.warm_start(Some(cold.machine)));
        assert!(10 * again.report.iterations <= cold.report.iterations, "{:?}", again.report);
    }
}

#[test]
fn both_schemes_learn_four_classes() {
    let data = four(500);
    for (scheme, scores) in [(Scheme::OneVsOne, 6), (Scheme::OneVsRest, 4)] {
        let trained = learn(&data, "c_svc(C=100)", &Training::default().scheme(scheme));
        assert!(trained.report.converged);
        assert_eq!(trained.machine.scores().len(), scores);
        assert_eq!(trained.report.subproblems.len(), scores);
    }
}
