//! Tuned plans keep their contract on queries that the search never saw.
//!
//! Times come from a simulated clock, so that the whole search runs the same everywhere and no test waits. The real
//! clock is used by the tests of `mercer tune` and of the Python package.

use std::time::Duration;

use mercer_compile::risk::{Target, upper_bound};
use mercer_compile::tune::{
    Aim, Clock, Contract, SimulatedClock, SimulatedCosts, TimedQueries, Tuned, Tuner,
};
use mercer_compile::{CompileError, Compiler, Progress, Watch};
use mercer_data::{Matrix, synthetic};
use mercer_machine::{
    Answer, Budget, Machine, Model, Output, PlanSections, Score, Tuning, Verification, file,
};
use mercer_query::{Certainty, Plan, PlanTrust, QueryOptions};
use mercer_testkit::{generate, machines};

/// A machine with queries of the same kind: a sample, and others that `tune` never sees.
struct Case {
    name: &'static str,
    machine: Machine,
    sample: Matrix,
    unseen: Matrix,
    tolerance: Option<f64>,
}

fn case(name: &'static str, kernel: &str, rows: &dyn Fn(usize, u64) -> Matrix, m: usize) -> Case {
    outputs(name, kernel, rows, m, &Output::Novelty)
}

fn outputs(
    name: &'static str,
    kernel: &str,
    rows: &dyn Fn(usize, u64) -> Matrix,
    m: usize,
    output: &Output,
) -> Case {
    let kernel = mercer_kernel::parse(kernel).unwrap();
    let within = |count, seed| generate::within(kernel.domain(), &rows(count, seed));
    let machine = machines::random(&kernel, &within(m, 1), output, 3);
    let tolerance = matches!(output, Output::Value).then_some(0.05);
    Case { name, machine, sample: within(240, 10), unseen: within(300, 11), tolerance }
}

fn cases() -> Vec<Case> {
    let outputs_of = |name: &str| {
        let all = machines::outputs();
        all.into_iter().find(|(other, _)| *other == name).expect("there is one").1
    };
    let dense = |columns: usize| move |rows, seed| generate::dense(rows, columns, seed);
    let sparse = |columns: usize, density: f64| {
        move |rows, seed| generate::sparse(rows, columns, density, seed)
    };
    let pixels = |rows, seed| {
        generate::map(&generate::dense(rows, 36, seed), |x| {
            ((x.abs() * 60.0).min(255.0)).round() / 255.0
        })
    };
    vec![
        case("two supports in two columns", "rbf(gamma=1)", &dense(2), 2),
        case("few columns", "rbf(gamma=0.5)", &dense(3), 150),
        case("pixels", "rbf(gamma=0.1)", &pixels, 120),
        case("degree 2", "polynomial(degree=2, gamma=0.1, coef0=1)", &dense(30), 90),
        case("linear", "linear", &dense(12), 40),
        case("sigmoid", "sigmoid(gamma=0.01, coef0=-0.2)", &dense(12), 40),
        case("wide and sparse", "rbf(gamma=0.01)", &sparse(50_000, 0.0004), 60),
        case("additive", "chi2", &dense(20), 50),
        outputs("pairwise", "rbf(gamma=0.05)", &dense(20), 90, &outputs_of("one-vs-one")),
        outputs("rest", "rbf(gamma=0.05)", &dense(20), 90, &outputs_of("one-vs-rest")),
        outputs("two classes", "rbf(gamma=0.05)", &dense(24), 90, &outputs_of("two classes")),
        outputs("regression", "rbf(gamma=0.05)", &dense(6), 120, &Output::Value),
    ]
}

fn tune(case: &Case, contract: Contract, aim: Aim) -> Tuned {
    let clock = SimulatedClock::default();
    let tuned = Tuner::new(&case.machine, &case.sample)
        .contract(contract)
        .aim(aim)
        .tolerance(case.tolerance)
        .clock(&clock)
        .run();
    tuned.unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

/// The plan as it comes back from a file.
fn reloaded(machine: &Machine, tuned: &Tuned) -> Plan {
    let model = Model { plan: Some(tuned.sections.clone()), ..Model::from(machine.clone()) };
    let format = file::format("mercer").unwrap();
    let again = file::from_bytes(&file::to_bytes(&model, format).unwrap()).unwrap();
    assert_eq!(again.plan, model.plan);
    Plan::fitted(&again.machine, again.plan.as_ref().unwrap()).unwrap()
}

fn differs(given: Answer, truth: Answer, tolerance: f64) -> bool {
    match (given, truth) {
        (Answer::Value(a), Answer::Value(b)) => (a - b).abs() > tolerance * (1.0 + 1e-9),
        (a, b) => a != b,
    }
}

#[test]
fn certified_plans_give_the_exact_labels_to_queries_never_seen() {
    for (number, case) in cases().iter().enumerate() {
        let aim = if number % 2 == 0 { Aim::Throughput } else { Aim::Latency };
        let tuned = tune(case, Contract::Certified, aim);
        let tuning = tuned.tuning();
        assert_eq!(tuning.verification.disagreements, 0, "{}", case.name);
        assert_eq!(tuning.verification.queries, 80, "{}", case.name);
        let plan = reloaded(&case.machine, &tuned);
        let options = QueryOptions { tolerance: case.tolerance, ..QueryOptions::default() };
        let answers = plan.decide_with(&case.unseen, &options).unwrap();
        let truths = Plan::exact(&case.machine).decide(&case.unseen).unwrap();
        for (decision, truth) in answers.decisions.iter().zip(&truths) {
            assert!(decision.certainty >= Certainty::Certified, "{}", case.name);
            let tolerance = case.tolerance.unwrap_or(0.0);
            assert!(!differs(decision.answer, truth.answer, tolerance), "{}", case.name);
        }
    }
}

#[test]
fn the_exact_contract_leaves_every_answer_exact() {
    for case in &cases()[..3] {
        let tuned = tune(case, Contract::Exact, Aim::Latency);
        assert_eq!(tuned.sections.spec, "exact");
        assert!(tuned.tuning().tried.is_empty());
        assert!(tuned.tuning().reason.contains("what the contract asks for"));
        let decisions = reloaded(&case.machine, &tuned).decide(&case.unseen).unwrap();
        assert!(decisions.iter().all(|decision| decision.certainty == Certainty::Exact));
    }
}

/// Crescents: any number of queries like the sample.
fn crescents(rows: usize, seed: u64) -> Matrix {
    synthetic::banana(rows, seed).examples
}

fn crescent_machine() -> Machine {
    let weights: Vec<f64> = (0..200).map(|n| if n % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let kernel = mercer_kernel::parse("rbf(gamma=2)").unwrap();
    let scores = vec![Score::expansion(&weights, 0.05)];
    Machine::new(kernel, crescents(200, 1), scores, Output::Novelty).unwrap()
}

#[test]
fn calibrated_plans_keep_their_risk_on_queries_never_seen() {
    let machine = crescent_machine();
    let (sample, unseen) = (crescents(3000, 2), crescents(6000, 3));
    let target = Target { risk: 0.02, delta: 0.05, ..Target::default() };
    let tuned = Tuner::new(&machine, &sample)
        .contract(Contract::Calibrated(target))
        .clock(&SimulatedClock::default())
        .run()
        .unwrap();
    let tuning = tuned.tuning();
    let parts = &tuning.sample;
    assert_eq!(parts.fitted + parts.measured + parts.verified, parts.rows);
    assert!(parts.fitted > 0 && parts.measured > 0 && parts.verified >= target.needed());
    let plan = reloaded(&machine, &tuned);
    let (decisions, truths) =
        (plan.decide(&unseen).unwrap(), Plan::exact(&machine).decide(&unseen).unwrap());
    let wrong = decisions.iter().zip(&truths).filter(|(a, b)| a.answer != b.answer).count();
    // Three standard deviations beyond the promise, which itself fails one time in twenty.
    let most = 6000.0 * target.risk + 3.0 * (6000.0 * target.risk).sqrt();
    assert!((wrong as f64) < most, "{wrong} of 6000 by {}", tuned.sections.spec);
    let Some(calibration) = &tuned.sections.calibration else {
        assert_eq!(wrong, 0, "a plan without calibration is proved");
        return;
    };
    // Plans that were validated together share delta, and the file says the whole of it.
    let said = " candidate plans were validated together";
    let said = tuning.reason.split("; ").find_map(|note| note.split_once(said));
    let plans: f64 = said.map_or(1.0, |(plans, _)| plans.parse().unwrap());
    let (disagreements, queries) = (calibration.disagreements, calibration.queries);
    let shares = [1.0 - 0.05 * (plans - 1.0), 0.05].map(|share| share * target.delta);
    let bounds = shares.map(|share| upper_bound(disagreements, queries, share));
    let is_said = |bound: &f64| (bound - calibration.bound).abs() < 1e-12;
    assert!(bounds.iter().any(is_said), "{bounds:?}: {}", calibration.bound);
    assert_eq!((calibration.delta, calibration.risk), (target.delta, target.risk));
    assert!(calibration.bound <= target.risk);
}

#[test]
fn a_sample_too_small_for_the_risk_is_told_the_number_and_gets_a_certified_plan() {
    let machine = crescent_machine();
    let tuned = Tuner::new(&machine, &crescents(500, 2))
        .contract(Contract::Calibrated(Target::default()))
        .clock(&SimulatedClock::default())
        .run()
        .unwrap();
    assert!(tuned.sections.calibration.is_none());
    let reason = &tuned.tuning().reason;
    assert!(reason.contains("the sample has 500 rows, ") && reason.contains("needed"), "{reason}");
    assert_eq!(tuned.tuning().verification.disagreements, 0);
}

#[test]
fn samples_that_are_too_small_and_numbers_out_of_range_are_refused() {
    let machine = crescent_machine();
    let few = crescents(10, 2);
    let error = Tuner::new(&machine, &few).run().unwrap_err();
    assert_eq!(error, CompileError::FewQueries { found: 10, needed: 30 });
    let sample = crescents(100, 2);
    let error = Tuner::new(&machine, &sample).tolerance(Some(-1.0)).run().unwrap_err();
    assert_eq!(error.to_string(), "the tolerance is -1; it must be positive");
    let error = Tuner::new(&machine, &sample).budget_us(Some(f64::NAN)).run().unwrap_err();
    assert!(error.to_string().starts_with("the budget is NaN"), "{error}");
    // A sample of supports cannot calibrate anything.
    let target = Target { risk: 0.3, delta: 0.3, ..Target::default() };
    let supports = machine.supports().as_ref().clone();
    let error =
        Tuner::new(&machine, &supports).contract(Contract::Calibrated(target)).run().unwrap_err();
    assert!(matches!(error, CompileError::TrainingRows { .. }), "{error}");
}

/// However long a search would take, it ends within a tenth of its limit. A limit shorter than 25 runs of the exact plan, of
/// 0.2 s here, cannot be held: the plans that are kept must be timed.
#[test]
fn a_search_ends_within_a_tenth_of_its_time_limit() {
    let machine = crescent_machine();
    let sample = crescents(3000, 2);
    let target = Target { risk: 0.05, ..Target::default() };
    for contract in [Contract::Certified, Contract::Calibrated(target)] {
        let seconds = |limit: Duration| {
            let clock = SimulatedClock::default();
            let tuner = Tuner::new(&machine, &sample).contract(contract).clock(&clock);
            let tuned = tuner.time_limit(limit).run().unwrap();
            (clock.now().as_secs_f64(), tuned.tuning().stopped)
        };
        let (whole, is_stopped) = seconds(Duration::from_secs(100_000));
        assert!(!is_stopped);
        let limits = [1.2, 0.9, 0.6, 0.3, 0.15].map(|share| (share, share * whole));
        assert!(limits[2].1 > 5.0, "{contract}: whole {whole:.2} s");
        for (share, limit) in limits.into_iter().filter(|(_, limit)| *limit > 5.0) {
            let (spent, is_stopped) = seconds(Duration::from_secs_f64(limit));
            assert!(
                spent <= 1.1 * limit,
                "{contract}: {spent:.2} s of {limit:.2} s, whole {whole:.2} s"
            );
            assert!(is_stopped || share > 0.6, "{contract}: {share}");
        }
    }
}

#[test]
fn the_caller_can_interrupt_every_step() {
    let machine = crescent_machine();
    let sample = crescents(300, 2);
    for last in ["scoring the sample", "fitting stages", "measuring plans"] {
        let ask = |progress: Progress| progress.what != last;
        let clock = SimulatedClock::default();
        let tuner = Tuner::new(&machine, &sample).watch(Watch::new(&ask)).clock(&clock);
        let error = tuner.run().unwrap_err();
        assert_eq!(error, CompileError::Interrupted, "{last}");
    }
}

#[test]
fn a_budget_is_never_exceeded_and_what_it_leaves_open_says_so() {
    let (machine, sample, unseen) = (crescent_machine(), crescents(1500, 2), crescents(500, 3));
    let clock = SimulatedClock::default();
    let tuner = Tuner::new(&machine, &sample).aim(Aim::Latency).clock(&clock);
    let free = tuner.run().unwrap();
    let times = &free.tuning().times;
    assert!(times.len() > 2, "{times:?}");
    let middle = times[times.len() / 2].microseconds;
    let tuned = tuner.budget_us(Some(middle)).unsettled(1.0).run().unwrap();
    let budget = tuned.tuning().budget.unwrap();
    assert_eq!(budget.microseconds, middle);
    let model = Model { plan: Some(tuned.sections.clone()), ..Model::from(machine.clone()) };
    let plan = reloaded(&machine, &tuned);
    let options = QueryOptions::of(&model, &plan);
    assert_eq!(options.budget, Some(budget.multiply_adds));
    let answers = plan.decide_with(&unseen, &options).unwrap();
    let share = answers.unsettled as f64 / unseen.rows() as f64;
    assert!(share > 0.0 && share < 1.0, "{share}");
    let costs = answers.decisions.iter().map(|decision| decision.cost.multiply_adds);
    assert!(costs.max() <= Some(budget.multiply_adds));
    // Each query takes no longer than asked for, on the clock that measured.
    for row in 0..unseen.rows() {
        let rows = unseen.select([row]);
        let queries =
            TimedQueries { plan: &plan, options: &options, rows: &rows, aim: Aim::Latency };
        let spent = 1e6 * clock.stopwatch(queries).unwrap().seconds(1).unwrap();
        assert!(spent <= 1.05 * middle, "row {row}: {spent} us of {middle} us");
    }
}

#[test]
fn a_budget_that_cannot_be_met_is_an_error_that_says_what_can() {
    let (machine, sample) = (crescent_machine(), crescents(1500, 2));
    let clock = SimulatedClock::default();
    let tuner = Tuner::new(&machine, &sample).aim(Aim::Latency).clock(&clock);
    let CompileError::BudgetNotMet { settled, asked, most, all, .. } =
        tuner.budget_us(Some(1e-3)).run().unwrap_err()
    else {
        panic!("a nanosecond is not enough");
    };
    assert_eq!((settled, asked), (0.0, 99.0));
    assert!(most > 10.0 && most <= all, "{most} {all}");
    // The budgets it names are met.
    for (budget, unsettled) in [(1.02 * most, 0.015), (1.02 * all, 0.0)] {
        let tuned = tuner.budget_us(Some(budget)).unsettled(unsettled).run();
        let found = tuned.map(|tuned| tuned.tuning().verification.unsettled);
        assert!(found.is_ok(), "{budget} us: {found:?}");
    }
    let share = tuner.budget_us(Some(1.0)).unsettled(1.5).run().unwrap_err();
    assert!(matches!(share, CompileError::NotAShare { .. }), "{share}");
}

#[test]
fn a_plan_that_settles_more_within_the_budget_is_kept() {
    // Exact takes longer than the budget: it settles nothing, and is the fastest by refusing everything.
    let (machine, sample) = (crescent_machine(), crescents(1500, 2));
    let clock = SimulatedClock::default();
    let tuner = Tuner::new(&machine, &sample).aim(Aim::Latency).clock(&clock);
    let exact = tuner.contract(Contract::Exact).run().unwrap().tuning().exact.single_us;
    let tuned = tuner.budget_us(Some(0.8 * exact)).unsettled(1.0).run().unwrap();
    assert_ne!(tuned.sections.spec, "exact", "{}", tuned.tuning().reason);
    let Verification { queries, unsettled, .. } = tuned.tuning().verification;
    assert!(unsettled < queries / 2, "{unsettled} of {queries}");
}

#[test]
fn machines_that_no_stage_fits_stay_exact_and_say_why() {
    let kernel = mercer_kernel::parse("linear").unwrap();
    let nothing = Matrix::dense(3, Vec::new()).unwrap();
    let scores = vec![Score::Linear { weights: vec![1.0, -2.0, 0.5], offset: 0.1 }];
    let machine = Machine::new(kernel, nothing, scores, Output::Novelty).unwrap();
    let sample = generate::dense(60, 3, 1);
    let clock = SimulatedClock::default();
    let tuned = Tuner::new(&machine, &sample).clock(&clock).run().unwrap();
    assert_eq!(tuned.sections.spec, "exact");
    assert!(tuned.tuning().reason.contains("no stage fits"), "{}", tuned.tuning().reason);
    // Values of a regression without a tolerance are never settled early.
    let case = &cases()[11];
    let tuned = Tuner::new(&case.machine, &case.sample).clock(&clock).run().unwrap();
    assert_eq!(tuned.sections.spec, "exact");
    assert!(tuned.tuning().reason.contains("tolerance"), "{}", tuned.tuning().reason);
}

/// A calibrated contract on crescents, on a given clock.
fn tune_crescents(clock: &SimulatedClock, limit: Duration) -> Tuned {
    let target = Target { risk: 0.02, delta: 0.05, ..Target::default() };
    Tuner::new(&crescent_machine(), &crescents(1500, 2))
        .contract(Contract::Calibrated(target))
        .time_limit(limit)
        .clock(clock)
        .run()
        .unwrap()
}

#[test]
fn the_same_times_lead_to_the_same_plan() {
    let limit = Duration::from_secs(120);
    let first = tune_crescents(&SimulatedClock::default(), limit);
    let second = tune_crescents(&SimulatedClock::default(), limit);
    assert_eq!(first, second);
    let tuning = first.tuning();
    assert!(!tuning.stopped && tuning.tried.len() > 5, "{tuning:?}");
    assert_ne!(first.sections.spec, "exact", "{}", tuning.reason);
    assert!(tuning.plan.batch_us < tuning.exact.batch_us, "{tuning:?}");
}

#[test]
fn a_clock_on_which_multiply_adds_cost_nothing_keeps_exact() {
    // Only stages cost time, and exact has the fewest.
    let clock =
        SimulatedClock::new(SimulatedCosts { multiply_add: 0.0, ..SimulatedCosts::default() });
    let tuned = tune_crescents(&clock, Duration::from_secs(120));
    assert_eq!(tuned.sections.spec, "exact");
    assert!(tuned.tuning().reason.contains("exact is kept"), "{}", tuned.tuning().reason);
}

#[test]
fn the_time_limit_ends_the_search_with_the_best_plan_so_far() {
    let limit = Duration::from_secs(120);
    let all = tune_crescents(&SimulatedClock::default(), limit);
    for limit in [Duration::ZERO, limit / 100, limit / 10] {
        let tuned = tune_crescents(&SimulatedClock::default(), limit);
        let tuning = tuned.tuning();
        assert!(tuning.stopped || tuning.tried.len() == all.tuning().tried.len(), "{limit:?}");
        assert!(tuning.tried.len() <= all.tuning().tried.len());
        if limit.is_zero() {
            assert!(tuning.stopped && tuning.tried.is_empty());
            assert_eq!(tuned.sections.spec, "exact");
        }
    }
    // Fits that take longer than their share of the limit are given up.
    let clock =
        SimulatedClock::new(SimulatedCosts { fit_progress: 1e3, ..SimulatedCosts::default() });
    let tuned = tune_crescents(&clock, limit);
    let refused = &tuned.tuning().refused;
    assert!(
        refused.iter().any(|refusal| refusal.reason.contains("longer than 18.00 s")),
        "{refused:?}"
    );
}

#[test]
fn a_stored_budget_holds_for_the_whole_plan_or_not_at_all() {
    let (machine, sample, unseen) = (crescent_machine(), crescents(1500, 2), crescents(300, 3));
    let clock = SimulatedClock::default();
    let tuned = Tuner::new(&machine, &sample).clock(&clock).run().unwrap();
    let target = Target { risk: 0.05, delta: 0.05, ..Target::default() };
    let compiler = Compiler::new(&machine).sample(&sample).target(target);
    let estimating = "cascade(pca(1, 2), low_precision, exact)";
    for text in [estimating, "cascade(low_precision, exact)"] {
        let compiled = compiler.run(&text.parse().unwrap()).unwrap();
        let fitted = Plan::fitted(&machine, &compiled.sections).unwrap();
        let costs = fitted.decide(&unseen).unwrap();
        let mut costs: Vec<u64> = costs.iter().map(|found| found.cost.multiply_adds).collect();
        costs.sort_unstable();
        // Half of the queries are settled by the whole plan for less.
        let multiply_adds = costs[costs.len() / 2];
        let stored = Budget { microseconds: 4.0, rate: None, multiply_adds };
        for (trust, budget) in [PlanTrust::Nothing, PlanTrust::Constants, PlanTrust::Everything]
            .into_iter()
            .flat_map(|trust| [(trust, None), (trust, Some(stored))])
        {
            let tuning = Box::new(Tuning { budget, ..tuned.tuning().clone() });
            let sections = PlanSections { tuning: Some(tuning), ..compiled.sections.clone() };
            let plan = Plan::load(&machine, &sections, trust).unwrap();
            let model = Model { plan: Some(sections), ..Model::from(machine.clone()) };
            let is_whole = text != estimating || trust == PlanTrust::Everything;
            assert_eq!(plan.tuning(&model).is_some(), is_whole, "{text} {trust:?}");
            let options = QueryOptions::of(&model, &plan);
            let in_force = budget.filter(|_| is_whole).map(|budget| budget.multiply_adds);
            assert_eq!(options.budget, in_force, "{text} {trust:?} {budget:?}");
            let answers = plan.decide_with(&unseen, &options).unwrap();
            if in_force.is_none() {
                assert_eq!(answers.unsettled, 0, "{text} {trust:?} {budget:?}");
            }
            assert!(answers.unsettled <= 150, "{text} {trust:?} {budget:?}: {answers:?}");
            let said = plan.budget_left_out(&model);
            assert_eq!(said.is_some(), budget.is_some() && !is_whole, "{said:?}");
            // A file of C holds the stages that can be written in C alone.
            let (part, without) = plan.in_c();
            let options = QueryOptions::of(&model, &part);
            let in_force = in_force.filter(|_| without.is_empty());
            assert_eq!(options.budget, in_force, "{text} {trust:?} {budget:?}");
        }
    }
}
