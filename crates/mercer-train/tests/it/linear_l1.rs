//! `linear(penalty=l1)` against its optimality conditions, closed forms and a slow proximal gradient.

use mercer_data::{Dataset, Matrix, Targets};
use mercer_machine::{ClassName, Score};
use mercer_train::{
    Cancel, Folds, Stop, TrainError, Trained, Training, cross_validate, formulation, solver, train,
};

const LOSSES: [&str; 2] = ["squared_hinge", "logistic"];

fn chance(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    }
}

/// Rows of which a third of the values are not zero, of both signs; three columns tell the class, roughly.
fn noisy(rows: usize, columns: usize, seed: u64) -> Dataset {
    let mut next = chance(seed);
    let (mut values, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let first = values.len();
        for _ in 0..columns {
            let value = 2.0 * next() - 1.0;
            values.push(if next() < 0.35 { value } else { 0.0 });
        }
        let told = values[first] - 0.7 * values[first + 1] + 0.5 * values[first + 2];
        targets.push(if told + 0.4 * (next() - 0.45) > 0.0 { 1.0 } else { -1.0 });
    }
    dense(columns, values, targets)
}

fn dense(columns: usize, values: Vec<f64>, targets: Vec<f64>) -> Dataset {
    let examples = Matrix::dense(columns, values).unwrap();
    Dataset { examples, targets: Targets::Numbers(targets), names: None }
}

fn l1(bias: f64) -> Training {
    Training::default().solver(solver(&format!("linear(penalty=l1, bias={bias})")).unwrap())
}

fn attempt(data: &Dataset, text: &str, training: &Training) -> Result<Trained, TrainError> {
    let (kernel, text) = (mercer_kernel::parse("linear").unwrap(), formulation(text).unwrap());
    train(data, &kernel, &text, training, &mut |_| {})
}

fn learn(data: &Dataset, text: &str, training: &Training) -> Trained {
    attempt(data, text, training).unwrap()
}

/// Weights of a question; with a bias of 1 its weight comes last.
fn weights(trained: &Trained, number: usize) -> Vec<f64> {
    let Score::Linear { weights, offset } = &trained.machine.scores()[number] else {
        panic!("a linear machine");
    };
    weights.iter().copied().chain([-offset]).collect()
}

/// A problem by its definition: rows with the bias last, targets and C of each row.
struct Plain {
    rows: Vec<Vec<f64>>,
    y: Vec<f64>,
    c: Vec<f64>,
    is_logistic: bool,
}

impl Plain {
    fn new(data: &Dataset, text: &str, c: f64, bias: f64) -> Self {
        let Targets::Numbers(y) = &data.targets else { panic!("numbers") };
        let (columns, values) = (data.examples.columns(), data.examples.as_dense().unwrap());
        let row = |row: &[f64]| row.iter().copied().chain([bias]).collect();
        let rows = values.chunks(columns).map(row).collect();
        let c = vec![c; y.len()];
        Self { rows, y: y.clone(), c, is_logistic: text == "logistic" }
    }

    fn margins<'a>(&'a self, w: &'a [f64]) -> impl Iterator<Item = (usize, f64)> + 'a {
        let score = move |row: &[f64]| row.iter().zip(w).map(|(x, w)| x * w).sum::<f64>();
        self.rows.iter().enumerate().map(move |(i, row)| (i, self.y[i] * score(row)))
    }

    fn cost(&self, w: &[f64]) -> f64 {
        let one =
            |m: f64| if self.is_logistic { (-m).exp().ln_1p() } else { (1.0 - m).max(0.0).powi(2) };
        self.margins(w).map(|(i, m)| self.c[i] * one(m)).sum()
    }

    fn objective(&self, w: &[f64]) -> f64 {
        w.iter().map(|w| w.abs()).sum::<f64>() + self.cost(w)
    }

    fn slope(&self, w: &[f64]) -> Vec<f64> {
        let mut slope = vec![0.0; w.len()];
        for (i, m) in self.margins(w) {
            let by =
                if self.is_logistic { 1.0 / (1.0 + m.exp()) } else { 2.0 * (1.0 - m).max(0.0) };
            let by = -self.c[i] * self.y[i] * by;
            slope.iter_mut().zip(&self.rows[i]).for_each(|(s, x)| *s += by * x);
        }
        slope
    }

    /// The largest violation of the optimality conditions.
    fn violation(&self, w: &[f64]) -> f64 {
        let slope = self.slope(w);
        let one = |(s, w): (&f64, &f64)| match w {
            w if *w > 0.0 => (s + 1.0).abs(),
            w if *w < 0.0 => (s - 1.0).abs(),
            _ => (s.abs() - 1.0).max(0.0),
        };
        slope.iter().zip(w).map(one).fold(0.0, f64::max)
    }

    /// The least objective, by accelerated proximal steps that begin anew where they would climb.
    fn least(&self) -> f64 {
        let mut curve = 1.0;
        let mut w = vec![0.0; self.rows[0].len()];
        let (mut ahead, mut pace, mut best) = (w.clone(), 1.0f64, self.objective(&w));
        for _ in 0..6000 {
            let (slope, cost) = (self.slope(&ahead), self.cost(&ahead));
            let new = loop {
                let to = |(w, s): (&f64, &f64)| {
                    let free = w - s / curve;
                    free.signum() * (free.abs() - 1.0 / curve).max(0.0)
                };
                let new: Vec<f64> = ahead.iter().zip(&slope).map(to).collect();
                let by = |i: usize| new[i] - ahead[i];
                let model = |i: usize| slope[i] * by(i) + 0.5 * curve * by(i) * by(i);
                if self.cost(&new) <= cost + (0..w.len()).map(model).sum::<f64>() + 1e-14 * cost {
                    break new;
                }
                curve *= 2.0;
            };
            let reached = self.objective(&new);
            let next = f64::midpoint(1.0, (1.0 + 4.0 * pace * pace).sqrt());
            let keep = if reached > best { 0.0 } else { (pace - 1.0) / next };
            ahead = new.iter().zip(&w).map(|(new, old)| new + keep * (new - old)).collect();
            pace = if reached > best { 1.0 } else { next };
            (w, best) = (new, best.min(reached));
        }
        best
    }
}

#[test]
fn random_problems_reach_the_least_objective_and_meet_every_condition() {
    for (number, text) in LOSSES.into_iter().cycle().take(8).enumerate() {
        let (c, bias) = ([0.05, 1.0, 30.0, 0.3][number / 2], [1.0, 0.0][number % 4 / 2]);
        let data = noisy(60 + 20 * number, 5 + 4 * number, number as u64 + 1);
        let trained = learn(&data, &format!("{text}(C={c})"), &l1(bias).tolerance(1e-9));
        let (report, plain) = (&trained.report, Plain::new(&data, text, c, bias));
        let w = weights(&trained, 0);
        assert!(report.converged, "{text} {c} {report:?}");
        assert!(plain.violation(&w) < 1e-6 * c.max(1.0), "{text} {c}");
        let (own, least) = (plain.objective(&w), plain.least());
        assert!((own - least).abs() < 1e-6 * least, "{text} {c}: {own} {least}");
        // The report's objective is the dual's, below the optimum, and its gap leads up to what was reached.
        assert!((report.gap - report.objective - own).abs() < 1e-9 * own, "{text} {report:?}");
        assert!(-report.objective <= own * (1.0 + 1e-12), "{text} {report:?}");
        assert!(report.gap < 1e-5 * own, "{text} {c} {report:?}");
        let kept = w[..w.len() - 1].iter().filter(|w| **w != 0.0).count();
        assert_eq!(report.linear.as_ref().unwrap().weights, Some(kept));
    }
}

/// One of each group of columns is the same number, as in questionnaires: with the constant every group is bound to
/// every other, and coordinates alone would take long.
#[test]
fn groups_of_equal_values_meet_every_condition() {
    let (mut next, groups) = (chance(11), [2usize, 5, 9, 3, 7, 4]);
    let columns: usize = groups.iter().sum();
    for (value, text) in [(1.0, "logistic"), (0.5, "squared_hinge"), (-2.0, "logistic")] {
        let (mut values, mut targets) = (vec![0.0; 500 * columns], Vec::new());
        for row in values.chunks_mut(columns) {
            let (mut first, mut told) = (0, 0);
            for size in groups {
                let chosen = (next() * size as f64) as usize;
                row[first + chosen] = value;
                (first, told) = (first + size, told + chosen);
            }
            targets.push(if told as f64 + 6.0 * next() > 14.0 { 1.0 } else { -1.0 });
        }
        let data = dense(columns, values, targets);
        let trained = learn(&data, &format!("{text}(C=3)"), &l1(1.0).tolerance(1e-8));
        let (plain, w) = (Plain::new(&data, text, 3.0, 1.0), weights(&trained, 0));
        assert!(trained.report.converged, "{text} {value}");
        assert!(plain.violation(&w) < 1e-5, "{text} {value}: {}", plain.violation(&w));
        let sparse = Dataset { examples: data.examples.to_sparse(), ..data };
        let again = learn(&sparse, &format!("{text}(C=3)"), &l1(1.0).tolerance(1e-8));
        assert_eq!(weights(&again, 0), w, "{text} {value}: sparse rows are the same rows");
    }
}

/// A loose end is still between the dual's value and what the weights cost.
#[test]
fn the_gap_holds_at_any_tolerance_and_after_any_number_of_steps() {
    let data = noisy(200, 30, 5);
    for text in LOSSES {
        let least = Plain::new(&data, text, 2.0, 1.0).least();
        for tolerance in [1.0, 0.1, 0.01, 1e-4] {
            let training = l1(1.0).tolerance(tolerance);
            let report = learn(&data, &format!("{text}(C=2)"), &training).report;
            let (lower, upper) = (-report.objective, report.gap - report.objective);
            let slack = 1e-9 * least;
            assert!(lower <= least + slack && least <= upper + slack, "{text} {report:?} {least}");
        }
    }
}

/// One example per column: every weight is its own problem.
#[test]
fn orthogonal_columns_have_a_closed_form() {
    let sizes = [0.1f64, -0.4, 0.6, 1.0, -2.0, 7.0, 300.0];
    let count = sizes.len();
    let mut values = vec![0.0; count * count];
    (0..count).for_each(|i| values[i * count + i] = sizes[i]);
    let y: Vec<f64> = (0..count).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let data = dense(count, values, y.clone());
    let c = 1.5;
    for text in LOSSES {
        let trained = learn(&data, &format!("{text}(C={c})"), &l1(0.0).tolerance(1e-10));
        for (i, w) in weights(&trained, 0)[..count].iter().enumerate() {
            let size = c * sizes[i].abs();
            let margin = match text {
                "logistic" if size > 2.0 => (size - 1.0).ln(),
                "squared_hinge" if size > 0.5 => 1.0 - 0.5 / size,
                _ => 0.0,
            };
            let wanted = y[i] * margin / sizes[i];
            assert!((w - wanted).abs() < 1e-7, "{text} {i}: {w} {wanted}");
            assert!(margin > 0.0 || *w == 0.0, "{text} {i}: {w}");
        }
    }
}

/// Weights leave zero where a column's slope passes 1, no sooner.
#[test]
fn a_small_c_leaves_every_weight_at_zero() {
    let data = noisy(90, 12, 3);
    for text in LOSSES {
        let slope = Plain::new(&data, text, 1.0, 1.0).slope(&[0.0; 13]);
        let limit = 1.0 / slope.iter().map(|s| s.abs()).fold(0.0, f64::max);
        let run = |c: f64| learn(&data, &format!("{text}(C={c})"), &l1(1.0).tolerance(1e-6));
        let below = run(0.999 * limit);
        assert!(weights(&below, 0).iter().all(|w| *w == 0.0));
        assert!(below.report.converged && below.report.gap.abs() < 1e-9, "{:?}", below.report);
        assert_eq!(below.report.linear.as_ref().unwrap().weights, Some(0));
        assert!(weights(&run(1.01 * limit), 0).iter().any(|w| *w != 0.0));
    }
}

#[test]
fn empty_and_equal_columns_change_nothing() {
    let data = noisy(120, 6, 9);
    let (values, Targets::Numbers(y)) = (data.examples.as_dense().unwrap(), &data.targets) else {
        panic!("numbers")
    };
    // Column 0 twice, and one of zeros.
    let wide = |row: &[f64]| row.iter().copied().chain([row[0], 0.0]).collect::<Vec<_>>();
    let doubled = dense(8, values.chunks(6).flat_map(wide).collect(), y.clone());
    for text in LOSSES {
        let training = l1(1.0).tolerance(1e-9);
        let (one, two) = (learn(&data, text, &training), learn(&doubled, text, &training));
        let (w, v) = (weights(&one, 0), weights(&two, 0));
        assert!(two.report.converged, "{:?}", two.report);
        assert!((one.report.objective / two.report.objective - 1.0).abs() < 1e-7, "{text}");
        assert!((w[0] - v[0] - v[6]).abs() < 1e-5 && w[0] != 0.0, "{text} {w:?} {v:?}");
        assert!(v[7] == 0.0 && (w[6] - v[8]).abs() < 1e-5, "{text} {v:?}");
    }
}

/// A column in another unit has its weight in that unit, and a C that makes up for it.
#[test]
fn scales_far_from_one_converge() {
    // The rule is relative to the first slope: that of the last is a million times the penalty's.
    for (scale, c, tolerance) in [(1e-6, 1e7, 1e-6), (1e6, 1e-5, 1e-6), (1e3, 1e3, 1e-12)] {
        let data = noisy(80, 7, 4);
        let values = data.examples.as_dense().unwrap().iter().map(|x| x * scale).collect();
        let data = Dataset { examples: Matrix::dense(7, values).unwrap(), ..data };
        for text in LOSSES {
            let trained = learn(&data, &format!("{text}(C={c})"), &l1(0.0).tolerance(tolerance));
            let (report, w) = (&trained.report, weights(&trained, 0));
            assert!(report.converged, "{text} {scale} {report:?}");
            let upper = report.gap - report.objective;
            assert!(report.gap.abs() < 1e-3 * upper, "{text} {scale} {report:?}");
            assert!(w.iter().any(|w| *w != 0.0), "{text} {scale}");
        }
    }
}

#[test]
fn weights_are_copies_and_classes_have_their_own() {
    let data = noisy(70, 6, 8);
    let twice: Vec<usize> = (0..70).chain((0..70).filter(|row| row % 3 == 0)).collect();
    let copies: Vec<f64> = (0..70).map(|row| if row % 3 == 0 { 2.0 } else { 1.0 }).collect();
    let training = l1(1.0).tolerance(1e-9);
    for text in LOSSES {
        let copied = weights(&learn(&data.select(&twice), text, &training), 0);
        let weighed = training.clone().weights(Some(copies.clone()));
        let weighed = weights(&learn(&data, text, &weighed), 0);
        assert!(copied.iter().zip(&weighed).all(|(a, b)| (a - b).abs() < 1e-5), "{text}");
        let heavy = training.clone().class_weights(vec![(ClassName::Number(1.0), 40.0)]);
        let w = weights(&learn(&data, text, &heavy), 0);
        let mut plain = Plain::new(&data, text, 1.0, 1.0);
        plain.c = plain.y.iter().map(|y| if *y > 0.0 { 40.0 } else { 1.0 }).collect();
        assert!(plain.violation(&w) < 1e-4, "{text}");
    }
}

/// Several classes, any number of threads, folds: the same questions as two classes ask.
#[test]
fn classes_against_the_rest_and_folds_are_single_questions() {
    let mut data = noisy(150, 8, 6);
    let Targets::Numbers(two) = data.targets.clone() else { panic!("numbers") };
    let kind = |(row, y): (usize, &f64)| if row % 3 == 0 { 2.0 } else { *y };
    data.targets = Targets::Numbers(two.iter().enumerate().map(kind).collect());
    let training = l1(1.0).tolerance(1e-8);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| learn(&data, "logistic(C=3)", &training))
    };
    let (all, again) = (run(1), run(3));
    assert_eq!(all.machine.scores(), again.machine.scores());
    assert_eq!(all.report.subproblems, again.report.subproblems);
    for (number, name) in all.machine.classes().iter().enumerate() {
        let Targets::Numbers(kinds) = &data.targets else { panic!("numbers") };
        let side = |kind: &f64| if ClassName::Number(*kind) == *name { 1.0 } else { -1.0 };
        let plain =
            Dataset { targets: Targets::Numbers(kinds.iter().map(side).collect()), ..data.clone() };
        let plain = Plain::new(&plain, "logistic", 3.0, 1.0);
        assert!(plain.violation(&weights(&all, number)) < 1e-5, "{name}");
    }
    data.targets = Targets::Numbers(two);
    let folds = Folds::new(&data, true, 3, 1).unwrap();
    let kernel = mercer_kernel::parse("linear").unwrap();
    let penalties =
        ["logistic(C=1)", "logistic(C=4)", "c_svc"].map(|text| formulation(text).unwrap());
    let found = cross_validate(&data, &kernel, &penalties, &folds, &training, &mut |_| {}).unwrap();
    for (text, validation) in penalties[..2].iter().zip(&found) {
        let validation = validation.as_ref().unwrap();
        assert!(validation.converged && validation.quality > 0.7, "{}", validation.quality);
        let kept: Vec<usize> = (0..150).filter(|row| folds.of()[*row] != 0).collect();
        let alone = train(&data.select(&kept), &kernel, text, &training, &mut |_| {}).unwrap();
        let (w, sign) = (
            weights(&alone, 0),
            if alone.machine.classes()[0] == ClassName::Number(validation_first(&data)) {
                1.0
            } else {
                -1.0
            },
        );
        for row in (0..150).filter(|row| folds.of()[*row] == 0) {
            let values = data.examples.row(row).nonzeros();
            let score = values.map(|(c, x)| w[c as usize] * x).sum::<f64>() + w[8];
            assert!((sign * score - validation.scores[row][0]).abs() < 1e-4, "{row}");
        }
    }
    assert!(found[2].as_ref().unwrap_err().to_string().contains("penalty=l1 minimises"));
}

/// The class of the first example, which is that of positive scores.
fn validation_first(data: &Dataset) -> f64 {
    let Targets::Numbers(y) = &data.targets else { panic!("numbers") };
    y[0]
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let data = noisy(40, 5, 2);
    let message =
        |text: &str, training: &Training| attempt(&data, text, training).unwrap_err().to_string();
    for text in ["c_svc", "epsilon_svr"] {
        let refused = message(text, &l1(1.0));
        assert!(
            refused.contains("squared_hinge or logistic") && refused.contains("l2"),
            "{refused}"
        );
    }
    let bins = solver("linear(penalty=l1, bins=uniform)").unwrap();
    assert!(message("logistic", &Training::default().solver(bins)).contains("bins=off"));
    let refused = message("logistic", &l1(1.0).memory(2000));
    assert!(refused.contains("by columns") && refused.contains("--memory"), "{refused}");
    let first = learn(&data, "logistic", &l1(1.0).keep_duals());
    let refused = message("logistic", &l1(1.0).continue_from(first.duals));
    assert!(refused.contains("penalty=l1"), "{refused}");
    let same = Dataset { targets: Targets::Numbers(vec![5.0; 40]), ..data.clone() };
    let refused = attempt(&same, "logistic", &l1(1.0));
    assert!(matches!(refused, Err(TrainError::OneClass { .. })));
    assert_eq!(
        solver("linear(penalty=l1)").unwrap().spec(),
        solver("linear(space=primal, penalty=l1)").unwrap().spec()
    );
}

#[test]
fn limits_and_the_cancel_token_end_it_with_a_machine() {
    let data = noisy(300, 40, 7);
    let hard = l1(1.0).tolerance(1e-13);
    let limited = learn(&data, "logistic(C=100)", &hard.clone().max_iterations(Some(100)));
    assert_eq!(limited.report.stop, Some(Stop::IterationLimit));
    assert!(!limited.report.converged && limited.report.iterations < 200, "{:?}", limited.report);
    let plain = Plain::new(&data, "logistic", 100.0, 1.0);
    assert!(plain.objective(&weights(&limited, 0)) < plain.objective(&[0.0; 41]));
    let cancel = Cancel::new();
    cancel.cancel();
    let cancelled = learn(&data, "logistic(C=100)", &hard.cancel(cancel));
    assert_eq!(cancelled.report.stop, Some(Stop::Cancelled));
    let gives_up = solver("linear(penalty=l1, passes=2)").unwrap();
    let given_up =
        learn(&data, "logistic(C=100)", &Training::default().solver(gives_up).tolerance(1e-9));
    assert_eq!(given_up.report.stop, Some(Stop::Stalled));
}
