//! Solvers of look-up factors against plain dual coordinate descent on kernel values, and at the edges.

use mercer_data::{Dataset, Matrix, Row, Targets};
use mercer_kernel::KernelRef;
use mercer_machine::{ClassName, Machine, Scheme, Score};
use mercer_train::{
    Cancel, Folds, Stop, TrainError, Trained, Training, Validation, cross_validate, formulation,
    solver, train,
};

/// Histograms of two overlapping kinds: a few of `columns` bins are filled, more at one end.
pub(crate) fn histograms(rows: usize, columns: usize, seed: u64) -> Dataset {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    let (mut values, mut targets) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let kind = row % 2;
        let lean = if kind == 0 { 0.6 } else { 1.4 };
        for column in 0..columns {
            let place = column as f64 / columns as f64;
            let filled = next() < 0.5;
            let height = next() * (lean * place + (2.0 - lean) * (1.0 - place));
            values.push(if filled { height } else { 0.0 });
        }
        targets.push(if kind == 0 { 1.0 } else { -1.0 });
    }
    let examples = Matrix::dense(columns, values).unwrap();
    Dataset { examples, targets: Targets::Numbers(targets), names: None }
}

pub(crate) fn learn(data: &Dataset, kernel: &str, text: &str, training: &Training) -> Trained {
    attempt(data, kernel, text, training).unwrap()
}

fn attempt(
    data: &Dataset,
    kernel: &str,
    text: &str,
    training: &Training,
) -> Result<Trained, TrainError> {
    let (kernel, formulation) = (mercer_kernel::parse(kernel).unwrap(), formulation(text).unwrap());
    train(data, &kernel, &formulation, training, &mut |_| {})
}

pub(crate) fn by(text: &str) -> Training {
    Training::default().solver(solver(text).unwrap())
}

/// The score of a machine of tables or a linear one, by its definition.
pub(crate) fn score(machine: &Machine, number: usize, row: Row<'_>) -> f64 {
    match &machine.scores()[number] {
        Score::Linear { weights, offset } => {
            row.nonzeros().map(|(c, x)| weights[c as usize] * x).sum::<f64>() - offset
        }
        Score::Additive { weights, offset } => {
            let grid = machine.bins().unwrap();
            let rank = grid.rank();
            let entry = |(column, x): (u32, f64)| {
                let level = grid.bin(column as usize, x);
                let factors = &grid.encoding()[level * rank..(level + 1) * rank];
                let own = &weights[column as usize * rank..(column as usize + 1) * rank];
                own.iter().zip(factors).map(|(w, f)| f64::from(*w) * f64::from(*f)).sum::<f64>()
            };
            row.nonzeros().map(entry).sum::<f64>() - offset
        }
        Score::Expansion { .. } => panic!("no expansion"),
    }
}

/// The dual objective of the hinge loss with a constant column, by thousands of passes over kernel values.
fn exact_objective(data: &Dataset, kernel: &KernelRef, c: f64, bias: f64) -> f64 {
    let Targets::Numbers(y) = &data.targets else { panic!("numbers") };
    let rows = data.examples.rows();
    let value =
        |a: usize, b: usize| kernel.value(data.examples.row(a), data.examples.row(b)) + bias * bias;
    let gram: Vec<f64> = (0..rows * rows).map(|at| value(at / rows, at % rows)).collect();
    let mut beta = vec![0.0; rows];
    let mut k_beta = vec![0.0; rows];
    for _ in 0..3000 {
        let mut moved = 0.0f64;
        for i in 0..rows {
            let alpha = y[i] * beta[i];
            let slope = y[i] * k_beta[i] - 1.0;
            let new = (alpha - slope / gram[i * rows + i]).clamp(0.0, c);
            let change = y[i] * (new - alpha);
            if change != 0.0 {
                beta[i] += change;
                (0..rows).for_each(|k| k_beta[k] += change * gram[k * rows + i]);
                moved = moved.max(change.abs());
            }
        }
        if moved < 1e-10 {
            break;
        }
    }
    (0..rows).map(|i| 0.5 * beta[i] * k_beta[i] - y[i] * beta[i]).sum()
}

#[test]
fn rank_eight_is_the_exact_machine_of_every_additive_kernel() {
    let data = histograms(240, 12, 7);
    let kernels =
        ["chi2", "jensen_shannon", "hellinger", "power_mean(p=-2)", "intersection", "linear"];
    for text in kernels {
        let kernel = mercer_kernel::parse(text).unwrap();
        // The components of intersection fall like 1/k² only: its own table is exact.
        let rank = if text == "intersection" { "auto" } else { "8" };
        let training = by(&format!("additive(rank={rank}, bins=uniform)")).tolerance(1e-3);
        let trained = learn(&data, text, "c_svc(C=2)", &training);
        let exact = exact_objective(&data, &kernel, 2.0, 1.0);
        let report = &trained.report;
        let relative = (report.objective - exact).abs() / exact.abs();
        assert!(report.converged, "{text} {report:?}");
        assert!(relative < 1e-3, "{text}: {} against {exact}", report.objective);
        assert!(report.gap.abs() < 1e-2 * exact.abs(), "{text}: gap {}", report.gap);
        assert!(report.linear.as_ref().unwrap().factor.relative_error < 0.02, "{text}");
    }
}

/// Values on the bins themselves, so that quantising changes nothing: the table of intersection is then the
/// exact machine, to the accuracy of f32 and of the stopping rule.
#[test]
fn the_two_level_table_of_intersection_is_exact() {
    let mut data = histograms(200, 9, 13);
    let on_level = |x: &f64| (x * 127.5).round().min(255.0) / 255.0;
    let mut values: Vec<f64> = data.examples.as_dense().unwrap().iter().map(on_level).collect();
    values[0] = 1.0;
    data.examples = Matrix::dense(9, values).unwrap();
    let kernel = mercer_kernel::parse("intersection").unwrap();
    let exact = exact_objective(&data, &kernel, 2.0, 1.0);
    let training = by("additive(bins=uniform)").tolerance(1e-4);
    let trained = learn(&data, "intersection", "c_svc(C=2)", &training);
    let report = &trained.report;
    assert!(report.converged, "{report:?}");
    assert!((report.objective / exact - 1.0).abs() < 1e-5, "{} {exact}", report.objective);
    assert!(report.gap.abs() < 1e-3 * exact.abs(), "{}", report.gap);
    let table = report.linear.as_ref().unwrap();
    assert_eq!((table.rank, table.factor.relative_error), (255, 0.0));
    assert!(trained.machine.bins().unwrap().is_one_hot());
    // Every loss, bins finer near zero and of ranks, and several questions go the same way.
    let four = four_kinds(200);
    for text in ["squared_hinge(C=0.5)", "logistic(C=0.5)", "c_svc(C=0.5)"] {
        for bins in ["power", "quantile"] {
            let training = by(&format!("additive(bins={bins})")).tolerance(1e-3);
            let report = learn(&four, "intersection", text, &training).report;
            let size = report.objective.abs();
            assert!(report.gap > -1e-5 * size && report.gap < 5e-3 * size, "{text} {report:?}");
        }
    }
}

#[test]
fn every_loss_closes_its_gap() {
    let mut data = histograms(300, 10, 3);
    for text in ["c_svc(C=0.5)", "squared_hinge(C=0.5)", "logistic(C=0.5)", "epsilon_svr(C=0.5)"] {
        if text.starts_with("epsilon") {
            let sums = data.examples.iter().map(|row| row.nonzeros().map(|(_, x)| x.sqrt()).sum());
            data.targets = Targets::Numbers(sums.collect());
        }
        for kernel in ["chi2", "intersection", "linear"] {
            let loose = learn(&data, kernel, text, &by("additive(rank=8)").tolerance(0.3));
            let tight = learn(&data, kernel, text, &by("additive(rank=8)").tolerance(1e-3));
            let (size, report) = (tight.report.objective.abs(), &tight.report);
            assert!(report.converged, "{text} {kernel} {report:?}");
            // f32 leaves a relative error of about 1e-6 in the gap.
            assert!(
                report.gap > -1e-5 * size && report.gap < 3e-3 * size,
                "{text} {kernel} {report:?}"
            );
            assert!(loose.report.gap >= tight.report.gap - 1e-5 * size, "{text} {kernel}");
        }
    }
}

#[test]
fn the_linear_solver_gives_a_plain_linear_machine() {
    let data = histograms(200, 8, 5);
    let kernel = mercer_kernel::parse("linear").unwrap();
    // Columns may be negative, and values need not be short.
    let values = data.examples.as_dense().unwrap().iter().map(|x| x / 0.3 - 0.5).collect();
    let shifted = Dataset { examples: Matrix::dense(8, values).unwrap(), ..data.clone() };
    for (data, bins, allowed) in [(&data, "uniform", 3e-3), (&shifted, "signed", 1e-2)] {
        let exact = exact_objective(data, &kernel, 1.0, 1.0);
        let trained = learn(data, "linear", "c_svc(C=1)", &by("linear").tolerance(1e-5));
        let report = &trained.report;
        assert!(matches!(trained.machine.scores(), [Score::Linear { .. }]));
        assert_eq!(report.linear.as_ref().unwrap().bins, "off");
        assert!((report.objective / exact - 1.0).abs() < 1e-7, "{} {exact}", report.objective);
        assert!(report.gap.abs() < 1e-6 * exact.abs(), "{}", report.gap);
        // The score is the sum that was minimised: the cost of the weights is the objective.
        let Targets::Numbers(y) = &data.targets else { panic!("numbers") };
        let [Score::Linear { weights, offset }] = trained.machine.scores() else { panic!("one") };
        let slack =
            |(row, y): (Row<'_>, &f64)| (1.0 - y * score(&trained.machine, 0, row)).max(0.0);
        let cost: f64 = data.examples.iter().zip(y).map(slack).sum();
        let primal = 0.5 * (weights.iter().map(|w| w * w).sum::<f64>() + offset * offset) + cost;
        assert!((primal + exact).abs() < 1e-6 * exact.abs(), "{primal} {exact}");
        // On bins the machine is another one.
        let rounded = learn(data, "linear", "c_svc(C=1)", &by("linear(bins=auto)").tolerance(1e-3));
        assert_eq!(rounded.report.linear.as_ref().unwrap().bins, bins);
        assert!((rounded.report.objective / exact - 1.0).abs() < allowed, "{exact}");
    }
}

#[test]
fn linear_machines_close_their_gap_for_every_loss_and_scale() {
    let data = histograms(150, 6, 13);
    let dense = data.examples.as_dense().unwrap();
    for scale in [1e-6, 1.0, 1e6] {
        let values = dense.iter().map(|x| x * scale).collect();
        let examples = Matrix::dense(6, values).unwrap();
        let c = 0.5 / (scale * scale);
        for text in ["c_svc", "squared_hinge", "logistic", "epsilon_svr"] {
            let mut data = Dataset { examples: examples.clone(), ..data.clone() };
            if text == "epsilon_svr" {
                let sums = dense.chunks(6).map(|row| row.iter().sum());
                data.targets = Targets::Numbers(sums.collect());
            }
            let training = by(&format!("linear(bias={scale})")).tolerance(1e-4);
            let trained = learn(&data, "linear", &format!("{text}(C={c:e})"), &training);
            let report = &trained.report;
            assert!(report.converged, "{text} {scale} {report:?}");
            let size = report.objective.abs();
            assert!(report.gap.abs() < 1e-3 * size, "{text} {scale} {report:?}");
        }
    }
    for text in ["squared_hinge(C=2)", "logistic(C=2)"] {
        let primal = learn(&data, "linear", text, &by("linear(space=primal)").tolerance(1e-9));
        let dual = learn(&data, "linear", text, &by("linear").tolerance(1e-6));
        assert!(primal.report.converged && dual.report.converged, "{text} {:?}", primal.report);
        let size = dual.report.objective.abs();
        assert!((primal.report.objective - dual.report.objective).abs() < 1e-7 * size, "{text}");
        assert!(primal.report.gap.abs() < 1e-7 * size, "{text} {:?}", primal.report);
        assert_eq!(primal.report.supports, dual.report.supports, "{text}");
    }
    let refused = attempt(&data, "linear", "c_svc", &by("linear(space=primal)")).unwrap_err();
    assert!(refused.to_string().contains("squared_hinge or logistic"), "{refused}");
    let hard = by("linear(passes=3)").tolerance(1e-9);
    let given_up = learn(&data, "linear", "c_svc(C=1000)", &hard);
    assert!(!given_up.report.converged && given_up.report.iterations <= 3 * 150);
}

#[test]
fn weights_are_copies_and_classes_have_their_own() {
    let data = histograms(120, 6, 9);
    let rows: Vec<usize> = (0..120).chain((0..120).step_by(3)).collect();
    let Targets::Numbers(targets) = &data.targets else { panic!("numbers") };
    let copied = Dataset {
        examples: data.examples.select(rows.iter().copied()),
        targets: Targets::Numbers(rows.iter().map(|row| targets[*row]).collect()),
        names: None,
    };
    let weights: Vec<f64> = (0..120).map(|row| if row % 3 == 0 { 2.0 } else { 1.0 }).collect();
    let training = by("additive(rank=8, bins=uniform)").tolerance(1e-4);
    for text in ["c_svc(C=0.3)", "logistic(C=0.3)", "squared_hinge(C=0.3)"] {
        let one = learn(&copied, "chi2", text, &training);
        let other =
            learn(&data, "chi2", text, &training.clone().weights(Some(Vec::clone(&weights))));
        let relative = one.report.objective / other.report.objective - 1.0;
        assert!(relative.abs() < 1e-3, "{text} {relative}");
    }
    let heavy = training.class_weights(vec![(ClassName::Number(1.0), 50.0)]);
    let trained = learn(&data, "chi2", "c_svc(C=0.01)", &heavy);
    let ones = data.examples.iter().filter(|row| score(&trained.machine, 0, *row) > 0.0).count();
    assert!(ones > 80, "{ones}");
}

fn four_kinds(rows: usize) -> Dataset {
    let mut data = histograms(rows, 9, 21);
    let kind = |row: usize| ((row / 2) % 2 * 2 + row % 2) as f64;
    data.targets = Targets::Numbers((0..rows).map(kind).collect());
    data
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let data = four_kinds(400);
    let run = |threads: usize, scheme: Scheme| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let training = by("additive").scheme(scheme).tolerance(1e-2);
        pool.install(|| learn(&data, "chi2", "c_svc(C=1)", &training))
    };
    for scheme in [Scheme::OneVsRest, Scheme::OneVsOne] {
        let (one, three) = (run(1, scheme), run(3, scheme));
        assert_eq!(one.machine.scores(), three.machine.scores());
        assert_eq!(one.report.iterations, three.report.iterations);
        assert_eq!(one.report.subproblems, three.report.subproblems);
    }
}

#[test]
fn coefficients_carry_over_to_another_c() {
    let data = histograms(400, 10, 2);
    for (before, after) in [("c_svc(C=1)", "c_svc(C=1.3)"), ("logistic(C=1)", "logistic(C=1.3)")] {
        let training = by("additive(rank=8)").tolerance(1e-2);
        let first = learn(&data, "chi2", before, &training.clone().keep_duals());
        let cold = learn(&data, "chi2", after, &training);
        let warm = learn(&data, "chi2", after, &training.clone().continue_from(first.duals));
        let relative = warm.report.objective / cold.report.objective - 1.0;
        assert!(relative.abs() < 1e-3, "{after} {relative}");
        assert!(warm.report.iterations < cold.report.iterations, "{after}");
    }
    let other = learn(&histograms(50, 10, 2), "chi2", "c_svc", &by("additive").keep_duals());
    let refused = attempt(&data, "chi2", "c_svc", &by("additive").continue_from(other.duals));
    assert!(matches!(refused, Err(TrainError::WarmStart { .. })));
}

/// Folds over shared packed rows find what trainings without each fold find; C values warm-start.
#[test]
fn folds_share_the_packed_rows() {
    let data = four_kinds(200);
    let folds = Folds::new(&data, true, 4, 1).unwrap();
    let kernel = mercer_kernel::parse("chi2").unwrap();
    let penalties =
        ["c_svc(C=0.1)", "c_svc(C=1)", "logistic(C=1)"].map(|text| formulation(text).unwrap());
    // With a gap of G, scores are within sqrt(2 G k(x, x)) of the best; the gap is at most 150 C tolerance.
    let training = by("additive(rank=8, bins=uniform)").tolerance(1e-4);
    let found = cross_validate(&data, &kernel, &penalties, &folds, &training, &mut |_| {}).unwrap();
    for (number, (validation, text)) in found.iter().zip(&penalties).enumerate() {
        let validation = validation.as_ref().unwrap();
        assert!(validation.converged && validation.quality > 0.25, "{}", validation.quality);
        for fold in 0..4 {
            let kept: Vec<usize> = (0..200).filter(|row| folds.of()[*row] != fold).collect();
            let part = data.select(&kept);
            let trained = train(&part, &kernel, text, &training, &mut |_| {}).unwrap();
            for row in (0..200).filter(|row| folds.of()[*row] == fold) {
                for question in 0..4u8 {
                    // Classes stand in the order in which they first appear.
                    let name = ClassName::Number(f64::from(question));
                    let place = trained.machine.classes().iter().position(|class| *class == name);
                    let alone = score(&trained.machine, place.unwrap(), data.examples.row(row));
                    let shared = validation.scores[row][question as usize];
                    // Bins differ where a fold holds the largest value.
                    assert!((alone - shared).abs() < 0.06, "{number} {row}: {alone} {shared}");
                }
            }
        }
    }
    // Near the last C little is left to do.
    let near = ["c_svc(C=1)", "c_svc(C=1.001)"].map(|text| formulation(text).unwrap());
    let run = |penalties: &[_]| {
        cross_validate(&data, &kernel, penalties, &folds, &training, &mut |_| {}).unwrap()
    };
    let iterations = |found: &Result<Validation, TrainError>| found.as_ref().unwrap().iterations;
    assert!(iterations(&run(&near)[1]) < iterations(&run(&near[1..])[0]));
    let unsuited = [formulation("nu_svc(nu=0.1)").unwrap()];
    let refused =
        cross_validate(&data, &kernel, &unsuited, &folds, &training, &mut |_| {}).unwrap();
    assert!(refused[0].as_ref().unwrap_err().to_string().contains("not nu_svc"));
}

#[test]
fn odd_data_end_in_a_machine() {
    let sparse = |columns: usize, rows: &[&[(u32, f64)]], targets: &[f64]| {
        let mut starts = vec![0];
        let (mut indices, mut values) = (Vec::new(), Vec::new());
        for row in rows {
            indices.extend(row.iter().map(|(c, _)| *c));
            values.extend(row.iter().map(|(_, x)| *x));
            starts.push(indices.len());
        }
        let examples = Matrix::sparse(columns, &starts, &indices, &values).unwrap();
        Dataset { examples, targets: Targets::Numbers(targets.to_vec()), names: None }
    };
    let cases = [
        sparse(3, &[&[], &[], &[(0, 1.0)], &[]], &[1.0, -1.0, 1.0, -1.0]),
        sparse(3, &[&[], &[]], &[1.0, -1.0]),
        sparse(1, &[&[(0, 1.0)], &[(0, 2.0)], &[(0, 3.0)]], &[1.0, 1.0, -1.0]),
        sparse(5, &[&[(2, 1e-9)], &[(2, 1.0)]], &[1.0, -1.0]),
        sparse(70_000, &[&[(69_999, 1.0)], &[(3, 0.5), (65_536, 2.0)]], &[1.0, -1.0]),
        sparse(2, &[&[(0, 7.0)], &[(0, 7.0)]], &[1.0, -1.0]),
        // Columns 0, 2 and 3 are zero in every row.
        sparse(4, &[&[(1, 1.0)], &[(1, 3.0)], &[(1, 2.0)]], &[1.0, -1.0, -1.0]),
    ];
    for data in &cases {
        for text in ["c_svc(C=1)", "squared_hinge", "logistic", "epsilon_svr"] {
            for bins in ["auto", "uniform", "power", "quantile"] {
                for (kernel, bias) in [("chi2", 0), ("chi2", 1), ("intersection", 1)] {
                    let training = by(&format!("additive(bins={bins}, bias={bias})"));
                    let trained = learn(data, kernel, text, &training);
                    assert!(trained.report.converged, "{text} {bins} {:?}", trained.report);
                    let first = score(&trained.machine, 0, data.examples.row(0));
                    assert!(first.is_finite());
                }
            }
        }
    }
    let wide = learn(&cases[4], "chi2", "c_svc(C=10)", &by("additive"));
    assert!(score(&wide.machine, 0, cases[4].examples.row(0)) > 0.0);
    assert!(score(&wide.machine, 0, cases[4].examples.row(1)) < 0.0);
    let one_row = sparse(2, &[&[(1, 0.25)]], &[3.0]);
    let trained = learn(&one_row, "chi2", "epsilon_svr(C=100)", &by("additive").tolerance(1e-3));
    assert!((score(&trained.machine, 0, one_row.examples.row(0)) - 3.0).abs() < 0.11);
    let same = sparse(1, &[&[(0, 1.0)], &[(0, 2.0)]], &[5.0, 5.0]);
    assert!(matches!(
        attempt(&same, "chi2", "c_svc", &by("additive")),
        Err(TrainError::OneClass { .. })
    ));
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let data = histograms(20, 3, 1);
    let message = |kernel: &str, text: &str, training: &Training| {
        attempt(&data, kernel, text, training).unwrap_err().to_string()
    };
    let plain = by("additive");
    assert!(message("rbf(gamma=1)", "c_svc", &plain).contains("not additive"));
    assert!(message("exponential(chi2, gamma=1)", "c_svc", &plain).contains("not a plain sum"));
    assert!(message("power_mean(p=1)", "c_svc", &plain).contains("vanish at zero"));
    assert!(message("chi2", "nu_svc", &plain).contains("not nu_svc"));
    assert!(message("chi2", "c_svc", &by("linear")).contains("--kernel linear"));
    let refused = message("chi2", "logistic", &Training::default());
    assert!(refused.contains("needs a linear or additive solver"), "{refused}");
    let values = data.examples.as_dense().unwrap().iter().map(|x| x - 0.1).collect();
    let negative = Dataset { examples: Matrix::dense(3, values).unwrap(), ..data.clone() };
    let refused = attempt(&negative, "chi2", "c_svc", &plain).unwrap_err().to_string();
    assert!(refused.contains("bins=quantile") && refused.contains("split"), "{refused}");
    let ranks = by("additive(bins=quantile)");
    assert!(attempt(&negative, "intersection", "c_svc", &ranks).is_ok());
    let huge = data.examples.as_dense().unwrap().iter().map(|x| x * 1e150).collect();
    let huge = Dataset { examples: Matrix::dense(3, huge).unwrap(), ..data.clone() };
    let refused = attempt(&huge, "chi2", "c_svc", &plain).unwrap_err().to_string();
    assert!(refused.contains("scale the data"), "{refused}");
}

#[test]
fn limits_and_the_cancel_token_end_it_with_a_machine() {
    let data = four_kinds(600);
    let hard = by("additive(rank=16)").tolerance(1e-9);
    let limited = learn(&data, "chi2", "c_svc(C=1000)", &hard.clone().max_iterations(Some(2000)));
    assert_eq!(limited.report.stop, Some(Stop::IterationLimit));
    assert!(!limited.report.converged);
    let cancel = Cancel::new();
    cancel.cancel();
    let cancelled = learn(&data, "chi2", "c_svc(C=1000)", &hard.cancel(cancel));
    assert_eq!(cancelled.report.stop, Some(Stop::Cancelled));
    assert_eq!(cancelled.machine.scores().len(), 4);
}
