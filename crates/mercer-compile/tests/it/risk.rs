//! Risk calibration: calibrated answers keep their promise, and break it no more often than delta.

use mercer_compile::risk::{
    LabelEffect, LevelDecision, Target, choose_threshold, count_disagreements, thresholds,
    upper_bound,
};
use mercer_compile::{CompileError, Compiler, compile};
use mercer_data::{Dataset, Matrix, Targets, read, synthetic};
use mercer_machine::{Machine, Model, Output, Score, file};
use mercer_query::{Certainty, Plan, PlanTrust, QueryOptions, Record, Require};
use mercer_spec::Spec;
use mercer_testkit::{generate, machines};
use rand::RngExt;

/// Queries whose levels are wrong the less the stronger they are.
fn simulated(count: usize, rng: &mut impl RngExt) -> Vec<Vec<LevelDecision>> {
    let one = |rng: &mut _| {
        let truth = 4.0 * synthetic::normal(rng);
        [1.5, 0.7]
            .map(|noise: f64| {
                let estimate = truth + noise * synthetic::normal(rng);
                let agrees = (estimate > 0.0) == (truth > 0.0);
                LevelDecision { margin: estimate.abs() / noise, agrees, effect: LabelEffect::None }
            })
            .to_vec()
    };
    (0..count).map(|_| one(rng)).collect()
}

/// What a careless calibration does: the boldest threshold whose share on the test part is within the risk.
fn naive(queries: &[Vec<LevelDecision>], target: &Target) -> f64 {
    let share = |threshold: &f64| {
        count_disagreements(queries, *threshold).disagreements as f64 / queries.len() as f64
    };
    thresholds()
        .take_while(|threshold| share(threshold) <= target.risk)
        .last()
        .unwrap_or(f64::INFINITY)
}

/// Draws many test parts from a pool of queries: the share of calibrations whose true rate is beyond the risk is at
/// most delta, up to sampling error, and that of careless ones is not.
fn check_validity(pool: &[Vec<LevelDecision>], target: &Target, size: usize, seed: u64) {
    let mut rng = generate::rng(seed);
    let truth = |threshold: f64| {
        count_disagreements(pool, threshold).disagreements as f64 / pool.len() as f64
    };
    let (mut broken, mut careless) = (0, 0);
    let rounds = 300;
    for _ in 0..rounds {
        let test: Vec<Vec<LevelDecision>> =
            (0..size).map(|_| pool[rng.random_range(0..pool.len())].clone()).collect();
        if let Ok(choice) = choose_threshold(&test, target) {
            broken += u32::from(truth(choice.threshold) > target.risk);
        }
        careless += u32::from(truth(naive(&test, target)) > target.risk);
    }
    // Three standard deviations of a share of 300 draws.
    let rounds = f64::from(rounds);
    let allowed = target.delta + 3.0 * (target.delta * (1.0 - target.delta) / rounds).sqrt();
    assert!(f64::from(broken) / rounds <= allowed, "{broken} of {rounds} promises were broken");
    assert!(f64::from(careless) / rounds > allowed, "{careless}: this test could not fail");
}

#[test]
fn promises_are_broken_no_more_often_than_delta_and_careless_ones_are() {
    let pool = simulated(100_000, &mut generate::rng(5));
    let target = Target { risk: 0.005, delta: 0.1, ..Target::default() };
    check_validity(&pool, &target, 1500, 6);
}

/// The same on real queries: even digits against odd ones, and what the levels of a plan make of digits that
/// neither machine nor students nor scales have seen.
#[test]
fn promises_hold_on_handwritten_digits_and_careless_ones_do_not() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("datasets/digits/digits.csv.gz");
    let data = read::dataset(&path, &read::Options::default()).unwrap();
    let Targets::Numbers(digits) = &data.targets else { panic!("digits are numbers") };
    let parity: Vec<f64> = digits.iter().map(|digit| digit % 2.0).collect();
    let rows = data.examples.rows();
    let (learned, sample, pool) = (0..300, 300..800, 800..rows);
    let examples = data.examples.select(learned.clone());
    let targets = Targets::Numbers(parity[learned].to_vec());
    let few = Dataset { examples, targets, names: None };
    let kernel = mercer_kernel::parse("rbf(gamma=0.001)").unwrap();
    let c_svc = mercer_train::formulation("c_svc(C=10)").unwrap();
    let training = mercer_train::Training::default();
    let machine =
        mercer_train::train(&few, &kernel, &c_svc, &training, &mut |_| {}).unwrap().machine;
    let sample = data.examples.select(sample);
    let target = Target { risk: 0.02, delta: 0.1, ..Target::default() };
    let text =
        "cascade(linear, student(2, 4, directions=fitted), pca(8, 16), exact)".parse().unwrap();
    let compiled = Compiler::new(&machine).sample(&sample).target(target).run(&text).unwrap();
    let scales = compiled.sections.calibration.clone().unwrap().scales;
    let plan = Plan::fitted(&machine, &compiled.sections).unwrap();
    let pool = data.examples.select(pool);
    let scores = plan.scores(&pool).unwrap();
    let decision = |record: &Record, score: f64| {
        let (value, margin) = record.estimate.scaled(&scales[record.level.unwrap()]);
        LevelDecision { margin, agrees: (value > 0.0) == (score > 0.0), effect: LabelEffect::None }
    };
    let records = plan.records(&pool).unwrap();
    let decisions: Vec<Vec<LevelDecision>> = records
        .iter()
        .zip(&scores)
        .map(|(records, score)| records.iter().map(|record| decision(record, *score)).collect())
        .collect();
    check_validity(&decisions, &target, 400, 7);
}

/// A two-class machine on crescents and queries of the same kind.
fn crescents(queries: usize, seed: u64) -> (Machine, Matrix) {
    let supports = synthetic::banana(60, seed).examples;
    let targets = (0..60).map(|row| if row % 2 == 0 { 1.0 } else { -1.0 });
    let coefficients: Vec<f64> = targets.collect();
    let kernel = mercer_kernel::parse("rbf(gamma=2)").unwrap();
    let scores = vec![Score::expansion(&coefficients, 0.05)];
    let machine = Machine::new(kernel, supports, scores, Output::Novelty).unwrap();
    (machine, synthetic::banana(queries, seed + 1).examples)
}

fn plan() -> Spec {
    "cascade(linear, student(2), pca(1, 2), exact)".parse().unwrap()
}

#[test]
fn whole_calibrations_break_their_promise_no_more_often_than_delta() {
    let (machine, pool) = crescents(6000, 11);
    let target = Target { risk: 0.02, delta: 0.1, ..Target::default() };
    let exact = Plan::exact(&machine).decide(&pool).unwrap();
    let (mut broken, mut stopped, rounds) = (0, 0, 40);
    for seed in 0..rounds {
        let rows: Vec<usize> = (0..600).map(|n| (n * 7 + 601 * seed as usize) % 6000).collect();
        let sample = pool.select(rows);
        let compiled =
            Compiler::new(&machine).sample(&sample).target(target).seed(seed).run(&plan());
        let plan = Plan::fitted(&machine, &compiled.unwrap().sections).unwrap();
        let found = plan.decide(&pool).unwrap();
        let other = found.iter().zip(&exact).filter(|(a, b)| a.answer != b.answer).count();
        broken += u32::from(other as f64 > target.risk * 6000.0);
        stopped += found.iter().filter(|d| d.certainty == Certainty::Calibrated).count();
    }
    let rounds = rounds as f64;
    let allowed = target.delta + 3.0 * (target.delta * (1.0 - target.delta) / rounds).sqrt();
    assert!(f64::from(broken) / rounds <= allowed, "{broken} promises were broken");
    assert!(stopped as f64 > 0.2 * rounds * 6000.0, "only {stopped} queries were stopped");
}

#[test]
fn what_was_tested_is_stored_and_every_other_answer_is_exact() {
    let (machine, sample) = crescents(3000, 3);
    let target = Target { risk: 0.01, delta: 0.05, ..Target::default() };
    let compiled = Compiler::new(&machine).sample(&sample).target(target).run(&plan()).unwrap();
    assert_eq!(compiled.parts.iter().sum::<usize>(), 3000);
    let known = compiled.sections.calibration.clone().unwrap();
    assert_eq!((known.risk, known.delta, known.queries), (0.01, 0.05, compiled.parts[2] as u64));
    assert_eq!(known.bound, upper_bound(known.disagreements, known.queries, 0.05));
    assert!(known.bound <= 0.01 && known.scales.len() == 4);
    let model = Model { plan: Some(compiled.sections), ..Model::from(machine.clone()) };
    let bytes = file::to_bytes(&model, file::format("mercer").unwrap()).unwrap();
    let again = file::from_bytes(&bytes).unwrap();
    assert_eq!(again.plan, model.plan);
    let plan = Plan::fitted(&again.machine, again.plan.as_ref().unwrap()).unwrap();
    let queries = synthetic::banana(500, 77).examples;
    let exact = Plan::exact(&machine).decide(&queries).unwrap();
    for (found, exact) in plan.decide(&queries).unwrap().iter().zip(&exact) {
        match found.certainty {
            Certainty::Calibrated => assert!(found.range.low > 0.0 || found.range.high < 0.0),
            Certainty::Exact => {
                assert_eq!((found.answer, found.range), (exact.answer, exact.range));
            }
            other => panic!("{other:?} without a budget or a proof"),
        }
    }
    let options = QueryOptions { require: Require::Certified, ..QueryOptions::default() };
    let strict = plan.decide_with(&queries, &options).unwrap().decisions;
    assert!(strict.iter().all(|decision| decision.certainty == Certainty::Exact));
    let options = QueryOptions { budget: Some(3), ..QueryOptions::default() };
    let cheap = plan.decide_with(&queries, &options).unwrap().decisions;
    assert!(cheap.iter().all(|decision| decision.cost.multiply_adds <= 3));
    assert!(cheap.iter().any(|decision| decision.certainty == Certainty::Unsettled));
}

#[test]
fn bad_samples_are_refused_with_what_is_needed() {
    let (machine, sample) = crescents(3000, 3);
    let none = compile(&machine, &plan(), None).unwrap_err();
    assert_eq!(none, CompileError::NoSample { stage: "linear".to_owned() });
    let few = compile(&machine, &plan(), Some(&sample)).unwrap_err().to_string();
    let expected =
        "the sample has 3000 queries; 4606 are needed to promise eps 0.001 at delta 0.05";
    assert_eq!(few, expected);
    let target = Target { risk: 0.02, delta: 0.05, ..Target::default() };
    let rows = (0..600).map(|row| row % 60).collect::<Vec<_>>();
    let training = machine.supports().select(rows);
    let run = |trust| {
        Compiler::new(&machine).sample(&training).target(target).trust_sample(trust).run(&plan())
    };
    assert_eq!(run(false).unwrap_err(), CompileError::TrainingRows { found: 600, rows: 600 });
    assert_eq!(run(true).map(|compiled| compiled.repeated), Ok(600));
    let target = Target { risk: 1.5, delta: 0.05, ..Target::default() };
    let error = Compiler::new(&machine).sample(&sample).target(target).run(&plan()).unwrap_err();
    assert_eq!(error, CompileError::NotAShare { name: "eps", value: 1.5 });
}

/// Same label, certainty, range and cost: alone, in a batch, on other threads, dense and sparse.
#[test]
fn calibrated_answers_do_not_depend_on_the_batch_for_any_output_and_kernel() {
    let target = Target { risk: 0.05, delta: 0.1, ..Target::default() };
    for (name, output) in machines::outputs() {
        if output == Output::Value {
            continue;
        }
        for text in ["rbf(gamma=0.2)", "polynomial(degree=3, gamma=0.2, coef0=1)"] {
            let kernel = mercer_kernel::parse(text).unwrap();
            let machine = machines::random(&kernel, &generate::dense(30, 8, 4), &output, 9);
            let sample = generate::dense(600, 8, 5);
            let text = if machine.scores().len() == 1 {
                "cascade(linear, student(4), student(1, 3, directions=fitted), landmarks(4, 20), pca(3, 6, arithmetic=int8), pca(2, 5, 8), exact)"
            } else {
                "cascade(linear, student(2, 4), student(1, 3, directions=fitted), landmarks(4, 20), pca(3, 6, arithmetic=int8), pca(2, 5, 8), exact)"
            }
            .parse().unwrap();
            let compiled = Compiler::new(&machine).sample(&sample).target(target).run(&text);
            let sections = compiled.unwrap_or_else(|error| panic!("{name}: {error}")).sections;
            let plan = Plan::fitted(&machine, &sections).unwrap();
            let queries = generate::sparse(70, 8, 0.7, 6);
            let batch = plan.decide(&queries).unwrap();
            assert_eq!(batch, plan.decide(&queries.to_dense()).unwrap(), "{name}: dense");
            let mut worker = plan.worker();
            for row in 0..queries.rows() {
                let alone =
                    worker.decide(&queries, row..row + 1, &QueryOptions::default()).unwrap();
                assert_eq!(alone[0], batch[row], "{name}, row {row}");
            }
            for isa in mercer_simd::Isa::available() {
                let plan =
                    Plan::with_isa(&machine, &sections, PlanTrust::Everything, *isa).unwrap();
                assert_eq!(batch, plan.decide(&queries).unwrap(), "{name}: {}", isa.name());
            }
            let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
            assert_eq!(batch, pool.install(|| plan.decide(&queries)).unwrap(), "{name}: threads");
        }
    }
}

/// Panels of bytes hold 48, 64 or 96 supports, by instruction set; the order of sums must not follow them.
#[test]
fn estimates_in_bytes_have_the_same_bits_on_every_instruction_set() {
    let kernel = mercer_kernel::parse("rbf(gamma=0.2)").unwrap();
    let machine = machines::random(&kernel, &generate::dense(500, 8, 4), &Output::Novelty, 9);
    let (sample, queries) = (generate::dense(600, 8, 5), generate::dense(40, 8, 6));
    let target = Target { risk: 0.05, delta: 0.1, ..Target::default() };
    let text = "cascade(pca(3, 6, arithmetic=int8), exact)".parse().unwrap();
    let compiled = Compiler::new(&machine).sample(&sample).target(target).run(&text).unwrap();
    let expected = Plan::fitted(&machine, &compiled.sections).unwrap().records(&queries).unwrap();
    assert!(expected.iter().all(|records| !records.is_empty()));
    for isa in mercer_simd::Isa::available() {
        let plan =
            Plan::with_isa(&machine, &compiled.sections, PlanTrust::Everything, *isa).unwrap();
        assert_eq!(expected, plan.records(&queries).unwrap(), "{}", isa.name());
    }
}

#[test]
fn adversarial_queries_never_stop_on_numbers_that_overflowed() {
    let (machine, sample) = crescents(1500, 3);
    let target = Target { risk: 0.02, delta: 0.05, ..Target::default() };
    let text = "cascade(linear, student(2), exact)".parse().unwrap();
    let compiled = Compiler::new(&machine).sample(&sample).target(target).run(&text).unwrap();
    let plan = Plan::fitted(&machine, &compiled.sections).unwrap();
    let rows = Matrix::dense(2, vec![1e300, -1e300, 1e150, 1e150, 0.0, 0.0, 1e-300, 0.0]).unwrap();
    for decision in plan.decide(&rows).unwrap() {
        assert!(decision.range.low.is_finite() && decision.range.high.is_finite());
    }
    // A machine whose score is 0 everywhere: nothing to learn, everything is exact.
    let scores = vec![Score::expansion(&[0.0; 60], 0.0)];
    let kernel = machine.kernel().clone();
    let supports = (**machine.supports()).clone();
    let zero = Machine::new(kernel, supports, scores, Output::Novelty).unwrap();
    let compiled = Compiler::new(&zero).sample(&sample).target(target).run(&text).unwrap();
    let plan = Plan::fitted(&zero, &compiled.sections).unwrap();
    let decisions = plan.decide(&sample).unwrap();
    assert!(decisions.iter().all(|decision| decision.certainty == Certainty::Exact));
}
