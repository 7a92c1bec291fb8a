//! \[DM03\] as the paper has it: what it stores, what its answers may be called, what it costs.

use mercer_compile::risk::{Risk, Target, upper_bound};
use mercer_compile::{CompileError, Compiled, Compiler, FittingData, compile};
use mercer_data::{Matrix, synthetic};
use mercer_machine::{Answer, ClassName, Counts, Machine, Output, Scheme, Score};
use mercer_query::{Certainty, Plan, PlanTrust, QueryOptions, Require};
use mercer_spec::Spec;
use mercer_testkit::{generate, machines};

/// A two-class machine on crescents and rows like its own.
fn crescents(rows: usize, seed: u64) -> (Machine, Matrix) {
    let supports = synthetic::banana(60, seed).examples;
    let signs: Vec<f64> = (0..60).map(|row| if row % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let kernel = mercer_kernel::parse("rbf(gamma=2)").unwrap();
    let scores = vec![Score::expansion(&signs, 0.05)];
    let machine = Machine::new(kernel, supports, scores, Output::Novelty).unwrap();
    (machine, synthetic::banana(rows, seed + 1).examples)
}

fn paper() -> Spec {
    "nearest(paper)".parse().unwrap()
}

#[test]
fn a_plan_without_a_width_carries_the_eps_that_its_test_shows() {
    let (machine, rows) = crescents(4000, 3);
    let (training, sample) = (rows.select(0..1000), rows.select(1000..3000));
    let fitting_data =
        FittingData { sample: Some(&sample), training: Some(&training), ..FittingData::default() };
    let compiled = Compiler::new(&machine).fitting_data(fitting_data).run(&paper()).unwrap();
    assert_eq!(
        compiled.parts,
        [1000, 0, 2000],
        "thresholds from training rows, all else is tested"
    );
    let known = compiled.sections.calibration.clone().unwrap();
    assert_eq!(known.risk, upper_bound(known.disagreements, 2000, 0.05));
    assert_eq!((known.risk, known.counts), (known.bound, Counts::Disagreements));
    let plan = Plan::fitted(&machine, &compiled.sections).unwrap();
    let queries = rows.select(3000..4000);
    let exact = Plan::exact(&machine).decide(&queries).unwrap();
    let found = plan.decide(&queries).unwrap();
    let other = found.iter().zip(&exact).filter(|(a, b)| a.answer != b.answer).count();
    assert!(found.iter().all(|decision| decision.certainty == Certainty::Calibrated));
    assert!(other as f64 <= 1000.0 * (known.risk + 3.0 * (known.risk / 1000.0).sqrt()), "{other}");
    let steps = plan.records(&queries).unwrap();
    let mean = steps.iter().map(|one| one[0].progress).sum::<usize>() as f64 / 1000.0;
    assert!(mean < 45.0, "{mean} of 60 supports");
    let options = QueryOptions { require: Require::Certified, ..QueryOptions::default() };
    let strict = plan.decide_with(&queries, &options).unwrap().decisions;
    assert!(strict.iter().all(|decision| decision.certainty == Certainty::Exact));
}

#[test]
fn without_a_sample_what_it_stops_is_unsettled() {
    let (machine, rows) = crescents(1000, 5);
    let fitting_data = FittingData { training: Some(&rows), ..FittingData::default() };
    let compiled = Compiler::new(&machine).fitting_data(fitting_data).run(&paper()).unwrap();
    assert_eq!((compiled.parts, &compiled.sections.calibration), ([0; 3], &None));
    let plan = Plan::fitted(&machine, &compiled.sections).unwrap();
    assert!(plan.stops_untested());
    let found = plan.decide(&synthetic::banana(300, 9).examples).unwrap();
    assert!(found.iter().all(|decision| decision.certainty == Certainty::Unsettled));
    let error = compile(&machine, &paper(), None).unwrap_err();
    assert_eq!(error, CompileError::NoRows { stage: "nearest" });
}

/// With a threshold that nothing passes every support is met: the walk is the machine itself.
#[test]
fn walks_to_the_end_are_exact_for_every_kernel_and_row() {
    for kernel in ["rbf(gamma=0.2)", "polynomial(degree=3, gamma=0.2, coef0=1)", "linear"] {
        let kernel = mercer_kernel::parse(kernel).unwrap();
        let supports = generate::dense(30, 8, 4);
        let machine = machines::random(&kernel, &supports, &Output::Novelty, 9);
        let sample = generate::dense(400, 8, 5);
        for ordering in ["pca", "kernel_pca", "fastmap"] {
            let plan = with_endless_walks(&machine, &sample, ordering);
            let queries = generate::sparse(70, 8, 0.7, 6);
            let exact = Plan::exact(&machine).scores(&queries).unwrap();
            for (decision, exact) in plan.decide(&queries).unwrap().iter().zip(exact) {
                let size = 1e-9 * (1.0 + exact.abs());
                assert!((decision.range.low - exact).abs() < size, "{ordering}: {decision:?}");
            }
        }
    }
}

/// The stage without a filter, and with thresholds that no score passes.
fn with_endless_walks(machine: &Machine, sample: &Matrix, ordering: &str) -> Plan {
    let text = format!(
        "nearest(paper, filter=no, dimensions=3, smoothing=1000, tug_of_war=yes, ordering={ordering})"
    );
    let compiled = Compiler::new(machine).sample(sample).run(&text.parse().unwrap());
    let mut compiled = compiled.unwrap();
    for (name, array) in &mut compiled.sections.sections[0].arrays {
        if let mercer_machine::Array::F64(ends) = array
            && ["low", "high"].contains(&name.as_str())
        {
            ends.fill(if name == "low" { f64::NEG_INFINITY } else { f64::INFINITY });
        }
    }
    Plan::fitted(machine, &compiled.sections).unwrap()
}

/// Five classes on a circle, one-vs-one: each pair tells its two clouds apart.
fn wheel(rows: usize, seed: u64) -> (Machine, Matrix) {
    let cloud = |count: usize, seed: u64| {
        let mut rng = generate::rng(seed);
        let mut values = Vec::new();
        for row in 0..count {
            let angle = (row % 5) as f64 * std::f64::consts::TAU / 5.0;
            values.push(angle.cos() + 0.35 * synthetic::normal(&mut rng));
            values.push(angle.sin() + 0.35 * synthetic::normal(&mut rng));
        }
        Matrix::dense(2, values).unwrap()
    };
    let names: Vec<ClassName> = (0..5).map(|class| ClassName::Number(f64::from(class))).collect();
    let score = |(a, b): (usize, usize)| {
        let of = |row: usize| f64::from(u8::from(row % 5 == a)) - f64::from(u8::from(row % 5 == b));
        Score::expansion(&(0..100).map(of).collect::<Vec<f64>>(), 0.0)
    };
    let scores = mercer_machine::pairs(5).map(score).collect();
    let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
    let output = Output::Classes { names, scheme: Scheme::OneVsOne };
    let machine = Machine::new(kernel, cloud(100, seed), scores, output).unwrap();
    (machine, cloud(rows, seed + 1))
}

#[test]
fn several_classes_are_answered_by_the_vote_of_pairs() {
    let (machine, rows) = wheel(6000, 21);
    let (training, sample, queries) =
        (rows.select(0..3000), rows.select(3000..5000), rows.select(5000..6000));
    let exact = Plan::exact(&machine);
    let expected = exact.decide(&queries).unwrap();
    for ordering in ["pca", "kernel_pca", "fastmap"] {
        // Walks without an end and without a filter: the vote of exact scores.
        let plan = with_endless_walks(&machine, &sample, ordering);
        let found = plan.decide(&queries).unwrap();
        assert!(found.iter().zip(&expected).all(|(a, b)| a.answer == b.answer), "{ordering}");
        let text = format!("nearest(paper, dimensions=2, tug_of_war=yes, ordering={ordering})");
        let fitting_data = FittingData {
            sample: Some(&sample),
            training: Some(&training),
            ..FittingData::default()
        };
        let compiler = Compiler::new(&machine).fitting_data(fitting_data);
        let compiled = compiler.run(&text.parse().unwrap()).unwrap();
        let known = compiled.sections.calibration.clone().unwrap();
        assert_eq!(known.risk, upper_bound(known.disagreements, 2000, 0.05));
        let plan = Plan::fitted(&machine, &compiled.sections).unwrap();
        let found = plan.decide(&queries).unwrap();
        assert!(found.iter().all(|decision| decision.certainty == Certainty::Calibrated));
        let other = found.iter().zip(&expected).filter(|(a, b)| a.answer != b.answer).count();
        let most = 1000.0 * (known.risk + 3.0 * (known.risk / 1000.0).sqrt());
        assert!(other as f64 <= most, "{ordering}: {other} of at most {most}");
        let records = plan.records(&queries).unwrap();
        let mean = records.iter().map(|one| one[0].progress).sum::<usize>() as f64 / 1000.0;
        assert!(mean < 80.0, "{ordering}: {mean} of 100 supports");
        let mut worker = plan.worker();
        for row in 0..50 {
            let alone = worker.decide(&queries, row..row + 1, &QueryOptions::default()).unwrap();
            assert_eq!(alone[0], found[row], "{ordering}, row {row}");
        }
        for isa in mercer_simd::Isa::available() {
            let sections = &compiled.sections;
            let plan = Plan::with_isa(&machine, sections, PlanTrust::Everything, *isa).unwrap();
            assert_eq!(found, plan.decide(&queries).unwrap(), "{ordering}, {}", isa.name());
        }
    }
    let output = Output::Classes { names: machine.classes().to_vec(), scheme: Scheme::OneVsRest };
    let (kernel, supports) = (machine.kernel().clone(), (**machine.supports()).clone());
    let scores = machine.scores()[..5].to_vec();
    let rest = Machine::new(kernel, supports, scores, output).unwrap();
    let error = Compiler::new(&rest).sample(&sample).run(&paper()).unwrap_err().to_string();
    assert!(error.contains("one-vs-rest the largest score decides"), "{error}");
}

/// Section 5.2: generated rows widen thresholds and are never tested on; plans that cannot use them say so.
#[test]
fn rows_made_up_across_the_boundary_give_thresholds_too() {
    let (machine, rows) = crescents(4000, 3);
    let (training, sample) = (rows.select(0..1000), rows.select(1000..4000));
    let fitting_data =
        FittingData { sample: Some(&sample), training: Some(&training), ..FittingData::default() };
    let text = "nearest(paper, dimensions=2, smoothing=0, tug_of_war=yes, filter=no)";
    let run = |boundary: usize, text: &str| {
        let compiler = Compiler::new(&machine).fitting_data(fitting_data).boundary(boundary);
        compiler.run(&text.parse().unwrap())
    };
    let (without, with) = (run(0, text).unwrap(), run(500, text).unwrap());
    let ends = |compiled: &Compiled, name: &str| -> Vec<f64> {
        compiled.sections.sections[0].f64s(name).unwrap().to_vec()
    };
    for (name, is_low) in [("low", true), ("high", false)] {
        let (a, b) = (ends(&without, name), ends(&with, name));
        assert!(a.iter().zip(&b).all(|(a, b)| if is_low { b <= a } else { b >= a }));
        assert_ne!(a, b, "{name}: generated rows change nothing");
    }
    let tested = |compiled: &Compiled| compiled.sections.calibration.clone().unwrap();
    assert_eq!((tested(&with).queries, with.parts), (3000, without.parts));
    assert!(tested(&with).disagreements <= tested(&without).disagreements);
    let error = run(500, "cascade(anytime, exact)").unwrap_err();
    assert_eq!(error, CompileError::NoUseOfBoundary { rows: 500 });
    assert!(error.to_string().contains("no stage uses them"), "{error}");
}

#[test]
fn thresholds_come_from_the_rows_that_the_text_names() {
    let (machine, rows) = crescents(3000, 13);
    let (training, sample) = (rows.select(0..1000), rows.select(1000..3000));
    let fitting_data =
        FittingData { sample: Some(&sample), training: Some(&training), ..FittingData::default() };
    let parts = |from: &str| {
        let text = format!("nearest(paper, dimensions=2, smoothing=5, tug_of_war=no, rows={from})");
        let compiler = Compiler::new(&machine).fitting_data(fitting_data);
        compiler.run(&text.parse().unwrap()).unwrap().parts
    };
    assert_eq!(parts("auto"), [1000, 0, 2000]);
    assert_eq!(parts("training"), [1000, 0, 2000]);
    assert_eq!(parts("sample"), [2000, 0, 1000], "half of the sample, beside training rows");
    assert_eq!(parts("both"), [2000, 0, 1000]);
    let only = Compiler::new(&machine).sample(&sample);
    let error = only.run(&"nearest(paper, rows=training)".parse().unwrap()).unwrap_err();
    assert_eq!(error, CompileError::NoRows { stage: "nearest" });
}

/// Section 5.3: what the reduced set does not stop is answered exactly.
#[test]
fn a_reduced_set_stops_queries_or_leaves_them_to_the_exact_stage() {
    let (machine, rows) = crescents(4000, 17);
    let (sample, queries) = (rows.select(0..3000), rows.select(3000..4000));
    for reduction in ["greedy", "moved"] {
        let text = format!(
            "cascade(nearest(paper, reduced=20, reduction={reduction}, filter=no, dimensions=2), exact)"
        );
        let compiled = Compiler::new(&machine).sample(&sample).run(&text.parse().unwrap());
        let compiled = compiled.unwrap();
        let known = compiled.sections.calibration.clone().unwrap();
        let plan = Plan::fitted(&machine, &compiled.sections).unwrap();
        let found = plan.decide(&queries).unwrap();
        let exact = Plan::exact(&machine).decide(&queries).unwrap();
        let other = found.iter().zip(&exact).filter(|(a, b)| a.answer != b.answer).count();
        let most = 1000.0 * (known.risk + 3.0 * (known.risk / 1000.0).sqrt());
        assert!(other as f64 <= most, "{reduction}: {other} of at most {most}");
        for (decision, exact) in found.iter().zip(&exact) {
            let is_exact = decision.certainty == Certainty::Exact;
            assert!(is_exact || decision.certainty == Certainty::Calibrated);
            assert!(!is_exact || decision.answer == exact.answer);
        }
        let records = plan.records(&queries).unwrap();
        assert!(records.iter().flatten().all(|record| record.progress <= 20));
    }
    let error = Compiler::new(&machine).sample(&sample);
    let error = error.run(&"nearest(paper, reduced=60)".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("not smaller than 60 supports"), "{error}");
}

/// Same answer, range and cost: alone, in a batch, on other threads, dense and sparse, on any machine.
#[test]
fn answers_do_not_depend_on_the_batch() {
    let kernel = mercer_kernel::parse("polynomial(degree=3, gamma=0.2, coef0=1)").unwrap();
    let machine = machines::random(&kernel, &generate::dense(30, 8, 4), &Output::Novelty, 9);
    let sample = generate::dense(600, 8, 5);
    let compiled = Compiler::new(&machine).sample(&sample).run(&paper()).unwrap();
    assert_eq!(compiled.parts, [300, 0, 300], "half for thresholds, half for the test");
    let plan = Plan::fitted(&machine, &compiled.sections).unwrap();
    let queries = generate::sparse(70, 8, 0.7, 6);
    let batch = plan.decide(&queries).unwrap();
    assert_eq!(batch, plan.decide(&queries.to_dense()).unwrap());
    let mut worker = plan.worker();
    for row in 0..queries.rows() {
        let alone = worker.decide(&queries, row..row + 1, &QueryOptions::default()).unwrap();
        assert_eq!(alone[0], batch[row], "row {row}");
    }
    for isa in mercer_simd::Isa::available() {
        let plan =
            Plan::with_isa(&machine, &compiled.sections, PlanTrust::Everything, *isa).unwrap();
        assert_eq!(batch, plan.decide(&queries).unwrap(), "{}", isa.name());
    }
    let options = QueryOptions { budget: Some(200), ..QueryOptions::default() };
    let cheap = plan.decide_with(&queries, &options).unwrap().decisions;
    assert!(cheap.iter().all(|decision| decision.cost.multiply_adds <= 200));
}

#[test]
fn adversarial_rows_and_machines_end_in_exact_answers_or_clear_errors() {
    let (machine, rows) = crescents(600, 7);
    let compiled = Compiler::new(&machine).sample(&rows).run(&paper()).unwrap();
    let plan = Plan::fitted(&machine, &compiled.sections).unwrap();
    let adversarial =
        Matrix::dense(2, vec![1e300, -1e300, 1e150, 1e150, 0.0, 0.0, 1e-300, 0.0]).unwrap();
    for decision in plan.decide(&adversarial).unwrap() {
        assert!(decision.range.low.is_finite() && decision.range.high.is_finite());
    }
    // A machine that says the same of everything, and one whose score is 0 everywhere.
    for coefficient in [1.0, 0.0] {
        let scores = vec![Score::expansion(&[coefficient; 60], 0.0)];
        let supports = (**machine.supports()).clone();
        let flat =
            Machine::new(machine.kernel().clone(), supports, scores, Output::Novelty).unwrap();
        let compiled = Compiler::new(&flat).sample(&rows).run(&paper()).unwrap();
        let plan = Plan::fitted(&flat, &compiled.sections).unwrap();
        let (found, exact) =
            (plan.decide(&rows).unwrap(), Plan::exact(&flat).decide(&rows).unwrap());
        assert!(found.iter().zip(&exact).all(|(a, b)| a.answer == b.answer), "{coefficient}");
    }
    let kernel = mercer_kernel::parse("rbf(gamma=0.2)").unwrap();
    let value = machines::random(&kernel, &generate::dense(30, 2, 4), &Output::Value, 9);
    let error = Compiler::new(&value).sample(&rows).run(&paper()).unwrap_err().to_string();
    assert!(error.contains("classes or novelty"), "{error}");
}

/// Labels that the machine gets wrong half of the time near the boundary: disagreements are as often better
/// as worse, and the width may be bolder.
#[test]
fn excess_errors_allow_more_disagreements_than_agreement_does() {
    let (machine, sample) = crescents(6000, 11);
    let scores = Plan::exact(&machine).scores(&sample).unwrap();
    let mut rng = generate::rng(4);
    let labels: Vec<Option<Answer>> = scores
        .iter()
        .map(|score| score + 2.0 * synthetic::normal(&mut rng) > 0.0)
        .map(|inlier| Some(Answer::Inlier(inlier)))
        .collect();
    let plan: Spec = "cascade(linear, student(2), exact)".parse().unwrap();
    let run = |of: Risk, labels| {
        let target = Target { risk: 0.02, delta: 0.05, of };
        let fitting_data =
            FittingData { sample: Some(&sample), sample_labels: labels, ..FittingData::default() };
        let compiled = Compiler::new(&machine).fitting_data(fitting_data).target(target).run(&plan);
        compiled.map(|compiled| compiled.sections.calibration.unwrap())
    };
    let (labels, strict) = (labels.as_slice(), run(Risk::Disagreements, None).unwrap());
    let excess = run(Risk::ExcessErrors, Some(labels)).unwrap();
    let Counts::ExcessErrors { worse, better } = excess.counts else { panic!("{excess:?}") };
    assert!(worse + better == excess.disagreements && excess.bound <= 0.02);
    assert!(excess.threshold < strict.threshold, "{} and {}", excess.threshold, strict.threshold);
    assert_eq!(run(Risk::ExcessErrors, None), Err(CompileError::NoLabels));
}
