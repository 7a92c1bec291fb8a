//! Linear and additive trainings that are interrupted and resumed, and examples that memory does not hold.

use std::time::Duration;

use mercer_data::{Dataset, Matrix, Targets};
use mercer_machine::{Machine, Score};
use mercer_train::{
    Cancel, Checkpoint, Progress, RowSource, Stop, TrainError, Trained, Training, formulation,
    solver, train, train_rows,
};

/// Histograms of `kinds` overlapping kinds, and a value for each row.
fn histograms(rows: usize, columns: usize, kinds: usize) -> Dataset {
    let mut state = 7u64;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    let (mut values, mut targets) = (Vec::new(), Vec::new());
    for row in 0..rows {
        // Sorted by kind, as files often are.
        let kind = row * kinds / rows;
        for column in 0..columns {
            let near = (column % kinds) == kind;
            let height = next() * if near { 1.5 } else { 1.0 };
            values.push(if next() < 0.4 { height } else { 0.0 });
        }
        targets.push(kind as f64);
    }
    let examples = Matrix::dense(columns, values).unwrap();
    Dataset { examples, targets: Targets::Numbers(targets), names: None }
}

fn watch(
    data: &Dataset,
    kernel: &str,
    text: &str,
    training: &Training,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Trained, TrainError> {
    let kernel = mercer_kernel::parse(kernel).unwrap();
    let formulation = formulation(text).unwrap();
    train(data, &kernel, &formulation, training, observer)
}

fn by(text: &str) -> Training {
    Training::default().solver(solver(text).unwrap())
}

fn bits(machine: &Machine) -> Vec<u64> {
    let of = |score: &Score| match score {
        Score::Linear { weights, offset } => {
            weights.iter().chain([offset]).map(|x| x.to_bits()).collect::<Vec<_>>()
        }
        Score::Additive { weights, offset } => {
            let weights = weights.iter().map(|x| u64::from(x.to_bits()));
            weights.chain([offset.to_bits()]).collect()
        }
        Score::Expansion { .. } => panic!("an additive machine"),
    };
    machine.scores().iter().flat_map(of).collect()
}

/// Kernel, formulation and solver of every kind of training: factors, step encodings, values, Newton's.
const TRAININGS: [[&str; 3]; 5] = [
    ["chi2", "c_svc(C=1)", "additive"],
    ["intersection", "c_svc(C=1)", "additive"],
    ["chi2", "epsilon_svr(C=1, epsilon=0.1)", "additive(rank=8)"],
    ["linear", "logistic(C=1)", "linear"],
    ["linear", "squared_hinge(C=1)", "linear(space=primal)"],
];

/// Examples by columns, which are in memory or nowhere.
const COLUMNS: [&str; 3] = ["linear", "logistic(C=1)", "linear(penalty=l1)"];

#[test]
fn a_resumed_training_ends_in_the_same_bits_wherever_it_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let data = histograms(120, 12, 3);
    for (number, [kernel, text, name]) in TRAININGS.into_iter().chain([COLUMNS]).enumerate() {
        // In memory, and in chunks.
        let places = if number < TRAININGS.len() { &[1 << 30, 9000][..] } else { &[1 << 30] };
        for memory in places.iter().copied() {
            let training = by(name).tolerance(1e-3).memory(memory);
            let (whole, mut rounds) =
                (watch(&data, kernel, text, &training, &mut |_| {}).unwrap(), 0);
            let path = folder.path().join(format!("{number}-{memory}"));
            let save =
                |resume| Some(Checkpoint { path: path.clone(), every: Duration::ZERO, resume });
            let kept = training.clone().checkpoint(save(false));
            watch(&data, kernel, text, &kept, &mut |_| rounds += 1).unwrap();
            assert!(rounds > 3, "{name}: {rounds}");
            for killed_at in [1, rounds / 2, rounds - 1] {
                let mut round = 0;
                // A panic in the observer stands for the kill: nothing after it is written.
                let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    watch(&data, kernel, text, &kept, &mut |_| {
                        round += 1;
                        assert!(round <= killed_at, "killed on purpose");
                    })
                }));
                assert!(killed.is_err());
                let again = training.clone().checkpoint(save(true));
                let resumed = watch(&data, kernel, text, &again, &mut |_| {}).unwrap();
                assert_eq!(bits(&whole.machine), bits(&resumed.machine), "{name} {killed_at}");
                assert_eq!(whole.report.iterations, resumed.report.iterations);
                assert_eq!(whole.report.gap.to_bits(), resumed.report.gap.to_bits());
            }
        }
    }
}

#[test]
fn a_limit_that_was_hit_can_be_raised_and_a_foreign_checkpoint_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = histograms(200, 12, 3);
    let path = folder.path().join("kept");
    let keep =
        Some(Checkpoint { path: path.clone(), every: Duration::from_secs(3600), resume: true });
    let training = by("additive").tolerance(1e-4);
    let whole = watch(&data, "chi2", "c_svc(C=1)", &training, &mut |_| {}).unwrap();
    let cut = training.clone().checkpoint(keep.clone());
    let cut = cut.max_iterations(Some(whole.report.iterations / 2));
    let half = watch(&data, "chi2", "c_svc(C=1)", &cut, &mut |_| {}).unwrap();
    assert_eq!(half.report.stop, Some(Stop::IterationLimit));
    let rest = training.clone().checkpoint(keep.clone());
    let other = watch(&data, "chi2", "c_svc(C=2)", &rest, &mut |_| {}).unwrap_err();
    assert!(other.to_string().ends_with("other data or other parameters"), "{other}");
    let second = watch(&data, "chi2", "c_svc(C=1)", &rest, &mut |_| {}).unwrap();
    assert_eq!(bits(&whole.machine), bits(&second.machine));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let damaged = watch(&data, "chi2", "c_svc(C=1)", &rest, &mut |_| {}).unwrap_err();
    assert!(damaged.to_string().ends_with("the file is damaged"), "{damaged}");
}

#[test]
fn chunks_of_a_file_give_the_machine_of_the_same_objective() {
    let data = histograms(600, 20, 3);
    for [kernel, text, name] in TRAININGS {
        let training = by(name).tolerance(1e-3);
        let inside = watch(&data, kernel, text, &training, &mut |_| {}).unwrap();
        let training = training.memory(24_000);
        let outside = watch(&data, kernel, text, &training, &mut |_| {}).unwrap();
        assert_eq!(inside.report.linear.as_ref().unwrap().chunks, None);
        let chunks = outside.report.linear.as_ref().unwrap().chunks;
        assert!(chunks.is_some_and(|chunks| chunks > 3), "{name}: {chunks:?}");
        assert!(outside.report.converged, "{name}");
        let (a, b) = (inside.report.objective, outside.report.objective);
        let gaps = inside.report.gap + outside.report.gap;
        assert!((a - b).abs() <= gaps.abs() + 1e-5 * a.abs(), "{name}: {a} {b} {gaps}");
        // Any number of threads gives the same bits.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let alone = pool.install(|| watch(&data, kernel, text, &training, &mut |_| {})).unwrap();
        assert_eq!(bits(&outside.machine), bits(&alone.machine), "{name}");
    }
}

/// Rows that are shown a few at a time.
struct Pieces<'a>(&'a Matrix, usize);

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
        for first in (0..self.0.rows()).step_by(self.1) {
            let end = (first + self.1).min(self.0.rows());
            let rows: Vec<f64> = (first..end)
                .flat_map(|row| (0..self.0.columns()).map(move |column| (row, column)))
                .map(|(row, column)| self.0.row(row).get(column))
                .collect();
            see(first, &Matrix::dense(self.0.columns(), rows).unwrap())?;
        }
        Ok(())
    }
}

#[test]
fn rows_read_in_pieces_give_the_machine_of_rows_in_memory() {
    let data = histograms(150, 11, 2);
    for [kernel, text, name] in [
        ["chi2", "c_svc(C=1)", "additive"],
        ["chi2", "c_svc(C=1)", "additive(bins=quantile)"],
        ["linear", "c_svc(C=1)", "linear"],
    ] {
        let inside = watch(&data, kernel, text, &by(name), &mut |_| {}).unwrap();
        let pieces = Pieces(&data.examples, 13);
        let (kernel, text) = (mercer_kernel::parse(kernel).unwrap(), formulation(text).unwrap());
        let outside =
            train_rows(&pieces, &data.targets, &kernel, &text, &by(name), &mut |_| {}).unwrap();
        assert_eq!(bits(&inside.machine), bits(&outside.machine), "{name}");
    }
    let (kernel, text) = (mercer_kernel::parse("chi2").unwrap(), formulation("c_svc").unwrap());
    let refused =
        train_rows(&data.examples, &data.targets, &kernel, &text, &by("smo"), &mut |_| {})
            .unwrap_err();
    assert!(refused.to_string().contains("all examples in memory"), "{refused}");
}

#[test]
fn a_cancelled_training_in_chunks_ends_with_a_machine() {
    let data = histograms(600, 20, 3);
    let cancel = Cancel::new();
    let training = by("additive").tolerance(1e-6).memory(24_000).cancel(cancel.clone());
    let ended = watch(&data, "chi2", "c_svc(C=100)", &training, &mut |_| cancel.cancel());
    assert_eq!(ended.unwrap().report.stop, Some(Stop::Cancelled));
}
