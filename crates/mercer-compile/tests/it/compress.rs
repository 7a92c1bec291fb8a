//! Compression: reported errors are true, and a compressed machine behaves like the original.

use mercer_compile::{COMPRESSORS, CompileError, Compiler, Compression, Goal, Target, compressor};
use mercer_data::{Matrix, synthetic};
use mercer_kernel::parse;
use mercer_machine::{Machine, Output, Score};
use mercer_query::{Certainty, Decision, Plan};
use mercer_testkit::{Dd, generate, machines, reference};

/// `|W - W~|²` of two machines, all scores together, in double-double arithmetic.
fn distance(machine: &Machine, small: &Machine) -> (Dd, f64) {
    let spec = machine.kernel().spec();
    let (mut square, mut size) = (Dd::ZERO, 0.0);
    for (score, other) in machine.scores().iter().zip(small.scores()) {
        let mut terms: Vec<(f64, Vec<f64>)> = Vec::new();
        for (sign, machine, score) in [(1.0, machine, score), (-1.0, small, other)] {
            let Score::Expansion { supports, coefficients, .. } = score else { panic!() };
            for (support, beta) in supports.iter().zip(coefficients) {
                terms.push((sign * beta, generate::row(machine.supports(), *support as usize)));
            }
        }
        for (a, x) in &terms {
            for (b, y) in &terms {
                let value = reference::kernel_value(&spec, x, y);
                let term = Dd::from(*a) * Dd::from(*b) * value;
                square = square + term;
                size += term.abs().to_f64();
            }
        }
    }
    // A sum in double-double arithmetic has errors of 2^-100 of its terms.
    (square, size * 0.5f64.powi(100))
}

fn all() -> Vec<&'static str> {
    COMPRESSORS.entries.iter().map(|entry| entry.name).collect()
}

/// Runs a method; nothing if it refuses the machine, which it may.
fn run(machine: &Machine, method: &str, goal: Goal) -> Option<mercer_compile::Compressed> {
    let made =
        Compression::new(machine, compressor(method).unwrap()).goal(goal).keep_vectors(true).run();
    match made {
        Ok(made) => Some(made),
        Err(CompileError::Uncompressible { .. } | CompileError::Query(_)) => None,
        Err(other) => panic!("{method}: {other}"),
    }
}

#[test]
fn the_reported_distance_is_that_in_double_double_arithmetic() {
    let mut seen = 0;
    for text in generate::kernel_specs() {
        let kernel = parse(text).unwrap();
        for (name, output) in machines::outputs() {
            let supports = generate::within(kernel.domain(), &generate::sparse(18, 6, 0.6, 3));
            let machine = machines::random(&kernel, &supports, &output, 4);
            for method in all() {
                let Some(made) = run(&machine, method, Goal::Size(6)) else { continue };
                let (truth, blur) = distance(&machine, &made.machine);
                let truth = truth.to_f64();
                let found = made.report.error;
                let gap = (found.absolute.powi(2) - truth.max(0.0)).abs();
                assert!(
                    gap <= found.rounding + blur + 1e-15 * truth.abs(),
                    "{method} for {text}, {name}: {found:?}, truly {truth}"
                );
                assert!(made.report.after <= 6, "{method}: {:?}", made.report.after);
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn a_full_basis_changes_no_label() {
    let mut total = 0;
    for text in generate::kernel_specs() {
        let kernel = parse(text).unwrap();
        for (name, output) in machines::outputs() {
            if output == Output::Value {
                continue;
            }
            // Twice as many supports as columns: linear machines have half the rank.
            let within = |rows| generate::within(kernel.domain(), &rows);
            let supports = within(generate::dense(24, 12, 3));
            let machine = machines::random(&kernel, &supports, &output, 4);
            let Some(made) = run(&machine, "exact_basis(tolerance=0)", Goal::ByParameters) else {
                continue;
            };
            let queries = within(generate::dense(60, 12, 5));
            let answers = |machine: &Machine| -> Vec<_> {
                let decisions = Plan::exact(machine).decide(&queries).unwrap();
                decisions.iter().map(|decision| decision.answer).collect()
            };
            assert_eq!(answers(&machine), answers(&made.machine), "{text}, {name}");
            total += 60;
            if *text == "linear" {
                assert_eq!(made.report.after, 12, "rank of 24 rows of 12 columns");
            }
        }
    }
    assert!(total > 1000, "{total}");
}

#[test]
fn duplicates_are_merged_before_anything_else() {
    let base = generate::values(&generate::dense(10, 3, 1));
    let supports = Matrix::dense(3, base.iter().chain(&base).copied().collect()).unwrap();
    let kernel = parse("rbf(gamma=0.5)").unwrap();
    let betas: Vec<f64> = (0..20).map(|n| f64::from(n % 7) - 3.2).collect();
    let scores = vec![Score::expansion(&betas, 0.0)];
    let machine = Machine::new(kernel, supports, scores, Output::Novelty).unwrap();
    let made = run(&machine, "exact_basis", Goal::ByParameters).unwrap();
    assert_eq!((made.report.before, made.report.after), (10, 10));
    assert!(made.report.error.absolute < 1e-12, "{:?}", made.report.error);
}

#[test]
fn linear_machines_become_their_weights() {
    let supports = generate::dense(30, 5, 2);
    for (name, output) in machines::outputs() {
        let kernel = parse("linear").unwrap();
        let machine = machines::random(&kernel, &supports, &output, 4);
        let made = Compression::new(&machine, compressor("greedy").unwrap()).run().unwrap();
        assert_eq!(made.machine.supports().rows(), 0, "{name}");
        assert!(made.report.error.relative < 1e-15, "{name}: {:?}", made.report.error);
        let queries = generate::dense(40, 5, 3);
        let scores = |machine| Plan::exact(machine).scores(&queries).unwrap();
        for (a, b) in scores(&machine).iter().zip(scores(&made.machine)) {
            assert!((a - b).abs() < 1e-12, "{name}: {a} {b}");
        }
    }
}

#[test]
fn machines_of_degree_two_need_one_vector_more_than_columns() {
    for text in [
        "polynomial(degree=2, gamma=0.5, coef0=1)",
        "polynomial(degree=2, gamma=2, coef0=0)",
        "normalized(polynomial(degree=2, gamma=0.7, coef0=1))",
    ] {
        let kernel = parse(text).unwrap();
        let machine = machines::random(&kernel, &generate::dense(60, 5, 2), &Output::Novelty, 4);
        let made = run(&machine, "quadratic", Goal::ByParameters).unwrap();
        let most = if text.contains("coef0=0") { 5 } else { 6 };
        assert!(made.report.after <= most, "{text}: {}", made.report.after);
        assert!(made.report.error.relative < 1e-7, "{text}: {:?}", made.report.error);
        // No other three vectors are nearer.
        let error = |method: &str| run(&machine, method, Goal::Size(3)).unwrap().report.error;
        let (quadratic, moved) = (error("quadratic").relative, error("moved").relative);
        assert!(quadratic <= moved * (1.0 + 1e-9), "{text}: {quadratic}, moved {moved}");
    }
    let rbf = machines::random(
        &parse("rbf(gamma=1)").unwrap(),
        &generate::dense(9, 2, 2),
        &Output::Novelty,
        4,
    );
    assert!(run(&rbf, "quadratic", Goal::ByParameters).is_none());
}

/// Ripley's clouds under smooth kernels, many coefficients at their bound.
fn overlapping(rows: usize) -> Machine {
    let data = synthetic::ripley(rows, 1);
    let mercer_data::Targets::Numbers(signs) = &data.targets else { panic!("numbers") };
    let kernel = parse("rbf(gamma=2)").unwrap();
    let scores = vec![Score::expansion(signs, 0.1)];
    Machine::new(kernel, data.examples, scores, Output::Novelty).unwrap()
}

#[test]
fn goals_are_met() {
    let machine = overlapping(150);
    let sample = synthetic::ripley(300, 2).examples;
    for method in ["greedy", "moved(iterations=30)"] {
        let with = |goal: Goal| {
            Compression::new(&machine, compressor(method).unwrap())
                .goal(goal)
                .fitting_data(mercer_compile::FittingData {
                    sample: Some(&sample),
                    ..Default::default()
                })
                .run()
                .unwrap()
                .report
        };
        let report = with(Goal::Error(0.01));
        assert!(report.error.relative <= 0.01 && report.after < 40, "{method}: {report:?}");
        let report = with(Goal::Disagreement(0.0));
        assert_eq!(report.agreement.unwrap().disagreements, 0, "{method}");
        let report = with(Goal::Certified(0.9));
        assert!(report.agreement.unwrap().certified_share().unwrap() >= 0.9, "{method}");
        assert!(report.curve.windows(2).all(|pair| pair[0].size < pair[1].size));
    }
}

/// \[DM03\], section 5.3: the nearest neighbours of a reduced set are evaluated like those of the whole machine;
/// a compressed machine takes plans, calibrated and certified, like any other.
#[test]
fn a_compressed_machine_takes_calibrated_plans() {
    let machine = overlapping(200);
    let made = run(&machine, "moved(iterations=20)", Goal::Size(12)).unwrap().machine;
    let (sample, queries) =
        (synthetic::ripley(4000, 2).examples, synthetic::ripley(500, 3).examples);
    let truth = Plan::exact(&made).decide(&queries).unwrap();
    for text in [
        "cascade(linear, student(2), exact)",
        "cascade(compressed(6), exact)",
        "cascade(compressed(6), student(2), exact)",
    ] {
        let target = Target { risk: 0.02, delta: 0.05, ..Target::default() };
        let compiled =
            Compiler::new(&made).sample(&sample).target(target).run(&text.parse().unwrap());
        let plan = Plan::fitted(&made, &compiled.unwrap().sections).unwrap();
        let found = plan.decide(&queries).unwrap();
        let differs = |(a, b): &(&Decision, &Decision)| a.answer != b.answer;
        let disagreements = found.iter().zip(&truth).filter(differs).count();
        let early = found.iter().filter(|decision| decision.certainty != Certainty::Exact).count();
        assert!(disagreements <= 20 && early > 100, "{text}: {disagreements}, {early} early");
    }
}

/// \[OG98\] learns the scores at the supports or at all training rows, as printed or re-fitted.
#[test]
fn regressions_learn_at_the_training_rows_too() {
    let machine = overlapping(120);
    let training = synthetic::ripley(250, 7).examples;
    let fitting_data =
        mercer_compile::FittingData { training: Some(&training), ..Default::default() };
    let with = |method: &str, fitting_data| {
        Compression::new(&machine, compressor(method).unwrap()).fitting_data(fitting_data).run()
    };
    let refitted = with("regression(eps=0.05, on=training)", fitting_data).unwrap();
    let printed = with("regression(eps=0.05, on=training, refit=no)", fitting_data).unwrap();
    assert!(refitted.report.after < 120, "{:?}", refitted.report);
    assert_eq!(refitted.report.after, printed.report.after);
    let (best, other) = (refitted.report.error.relative, printed.report.error.relative);
    assert!(best < 0.2 && best <= other, "{best} re-fitted, {other} as printed");
    // Vectors are training rows, none of which is a support.
    let rows = |rows: &Matrix| -> Vec<Vec<f64>> {
        (0..rows.rows()).map(|row| generate::row(rows, row)).collect()
    };
    let (all, supports) = (rows(&training), rows(machine.supports()));
    for row in rows(refitted.machine.supports()) {
        assert!(all.contains(&row) && !supports.contains(&row));
    }
    let error = with("regression(eps=0.05, on=training)", mercer_compile::FittingData::default());
    assert!(error.unwrap_err().to_string().contains("training"));
}

/// The nearest vectors of a reduced set, by the stage of the paper: thresholds from training rows, one test.
#[test]
fn a_compressed_machine_is_evaluated_from_the_nearest_vector_on() {
    let machine = overlapping(200);
    let made = run(&machine, "moved(iterations=20)", Goal::Size(16)).unwrap().machine;
    let rows = synthetic::ripley(4000, 2).examples;
    let (training, sample) = (rows.select(0..1000), rows.select(1000..3000));
    let queries = rows.select(3000..4000);
    let fitting_data = mercer_compile::FittingData {
        sample: Some(&sample),
        training: Some(&training),
        ..Default::default()
    };
    let plan = "nearest(paper)".parse().unwrap();
    let compiled = Compiler::new(&made).fitting_data(fitting_data).run(&plan).unwrap();
    let risk = compiled.sections.calibration.clone().unwrap().risk;
    let plan = Plan::fitted(&made, &compiled.sections).unwrap();
    let found = plan.decide(&queries).unwrap();
    let truth = Plan::exact(&made).decide(&queries).unwrap();
    let disagreements = found.iter().zip(&truth).filter(|(a, b)| a.answer != b.answer).count();
    assert!(found.iter().all(|decision| decision.certainty == Certainty::Calibrated));
    // What the test showed, and three standard deviations of a thousand queries.
    let allowed = 1000.0 * (risk + 3.0 * (risk / 1000.0).sqrt());
    assert!(disagreements as f64 <= allowed, "{disagreements}, {risk}");
    let steps = plan.records(&queries).unwrap();
    let mean = steps.iter().map(|one| one[0].progress).sum::<usize>() as f64 / 1000.0;
    assert!(mean < 16.0, "{mean} of 16 vectors");
}

/// A polynomial of degree p has as many monomials as `d + p` over p: no more vectors are needed for the same W.
#[test]
fn polynomials_of_small_maps_need_no_more_vectors_than_monomials() {
    for (degree, constant, columns, monomials) in
        [(3, 1, 2, 10), (3, 0, 3, 10), (4, 1, 2, 15), (5, 1, 2, 21), (3, 1, 3, 20)]
    {
        let text = format!("polynomial(degree={degree}, gamma=1, coef0={constant})");
        let rows = generate::dense(90, columns, 2);
        let machine = machines::random(&parse(&text).unwrap(), &rows, &Output::Novelty, 4);
        let made = run(&machine, "exact_basis", Goal::ByParameters).unwrap();
        assert!(made.report.after <= monomials, "{text}: {}", made.report.after);
        assert!(made.report.error.relative < 1e-6, "{text}: {:?}", made.report.error);
        let queries = generate::dense(200, columns, 5);
        let answers = |machine: &Machine| -> Vec<_> {
            let found = Plan::exact(machine).decide(&queries).unwrap();
            found.iter().map(|decision| decision.answer).collect()
        };
        assert_eq!(answers(&machine), answers(&made.machine), "{text}");
    }
}

#[test]
fn errors_name_what_a_goal_needs() {
    let machine = overlapping(40);
    let run = |method: &str, goal| {
        let made = Compression::new(&machine, compressor(method).unwrap()).goal(goal).run();
        made.unwrap_err().to_string()
    };
    assert!(run("greedy", Goal::ByParameters).contains("needs a goal"));
    assert!(run("greedy", Goal::Certified(0.5)).contains("--sample"));
    assert!(run("greedy", Goal::Disagreement(0.5)).contains("--sample"));
    let sigmoid = parse("sigmoid(gamma=1, coef0=0)").unwrap();
    let machine = machines::random(&sigmoid, &generate::dense(5, 2, 1), &Output::Novelty, 1);
    let made = Compression::new(&machine, compressor("greedy").unwrap()).goal(Goal::Size(2)).run();
    assert!(made.unwrap_err().to_string().contains("semidefinite"));
    let chi2 = parse("chi2").unwrap();
    let rows = generate::within(chi2.domain(), &generate::dense(5, 2, 1));
    let machine = machines::random(&chi2, &rows, &Output::Novelty, 1);
    let made = Compression::new(&machine, compressor("moved").unwrap()).goal(Goal::Size(2)).run();
    assert!(made.unwrap_err().to_string().contains("greedy can"));
}

#[test]
fn adversarial_machines_are_compressed_or_refused_in_a_sentence() {
    for text in [
        "rbf(gamma=1)",
        "rbf(gamma=1e-9)",
        "rbf(gamma=1e9)",
        "linear",
        "polynomial(degree=3, gamma=1, coef0=1)",
    ] {
        let kernel = parse(text).unwrap();
        for case in generate::adversarial(kernel.domain(), 6) {
            let machine = machines::random(&kernel, &case.rows, &Output::Novelty, 7);
            for method in all() {
                // The solver of regressions takes its time on such rows; one kernel is enough.
                if method == "regression" && *text != *"rbf(gamma=1)" {
                    continue;
                }
                let made = run(&machine, method, Goal::Size(3));
                if let Some(made) = made {
                    let error = made.report.error;
                    assert!(error.absolute.is_finite(), "{method}, {text}, {}", case.name);
                    // The best of any coefficients is no farther than none at all.
                    let whole = error.absolute / error.relative.max(1e-300);
                    let slack = error.rounding.sqrt() + 1e-6 * whole;
                    assert!(
                        error.absolute <= whole + slack,
                        "{method}, {text}, {}: {error:?}",
                        case.name
                    );
                }
            }
        }
    }
}
