//! The laws of certificates, over every certifying stage, on sane, trained-like and hostile machines.

mod common;

use mercer_compile::{CompileError, FITTERS, Fitter, compile};
use mercer_data::Matrix;
use mercer_kernel::{Domain, parse};
use mercer_machine::Array::{F64, U32};
use mercer_machine::{Answer, ClassName, Machine, Output, Scheme, Score};
use mercer_query::{Asking, Certainty, Plan};
use mercer_testkit::laws::certify::{CertifyLaw, Tally};
use mercer_testkit::{generate, machines};
use rayon::prelude::*;

const SPECTRAL: &str = "cascade(spectral, exact)";
const SINGLE: &str = "cascade(low_precision, exact)";
const PROJECTED: &str = "cascade(projected, exact)";
const MONOMIALS: &str = "cascade(monomials, exact)";
const TAYLOR: &str = "cascade(taylor, exact)";

/// Kernels of degree 2, which `spectral` takes.
const QUADRATIC: [&str; 6] = [
    "polynomial(degree=2, gamma=1, coef0=1)",
    "polynomial(degree=2, gamma=0.5, coef0=0)",
    "polynomial(degree=2, gamma=1e-9, coef0=1)",
    "polynomial(degree=2, gamma=1e9, coef0=1)",
    "normalized(polynomial(degree=2, gamma=0.5, coef0=1))",
    "normalized(polynomial(degree=2, gamma=1, coef0=0))",
];

/// Kernels that `monomials` takes.
const POWERS: [&str; 8] = [
    "linear",
    "polynomial(degree=1, gamma=2, coef0=1)",
    "polynomial(degree=2, gamma=1, coef0=0)",
    "polynomial(degree=3, gamma=0.5, coef0=1)",
    "polynomial(degree=3, gamma=1e-9, coef0=1)",
    "polynomial(degree=3, gamma=1e9, coef0=-1)",
    "polynomial(degree=5, gamma=0.3, coef0=-1)",
    "polynomial(degree=9, gamma=0.1, coef0=2)",
];

/// Kernels that `low_precision` takes.
const SINGLES: [&str; 10] = [
    "rbf(gamma=0.05)",
    "rbf(gamma=1)",
    "rbf(gamma=1e-9)",
    "rbf(gamma=1e9)",
    "linear",
    "polynomial(degree=2, gamma=1, coef0=1)",
    "polynomial(degree=9, gamma=0.1, coef0=2)",
    "polynomial(degree=5, gamma=0.3, coef0=-1)",
    "normalized(polynomial(degree=3, gamma=0.5, coef0=1))",
    "normalized(linear)",
];

/// Kernels that `projected` takes.
const PRODUCTS: [&str; 10] = [
    "rbf(gamma=0.05)",
    "rbf(gamma=1)",
    "rbf(gamma=1e-9)",
    "rbf(gamma=1e9)",
    "linear",
    "polynomial(degree=2, gamma=1, coef0=1)",
    "polynomial(degree=9, gamma=0.1, coef0=2)",
    "polynomial(degree=5, gamma=0.3, coef0=-1)",
    "normalized(polynomial(degree=3, gamma=0.5, coef0=1))",
    "normalized(linear)",
];

/// Kernels that `taylor` takes where the rows are short enough.
const SMOOTH: [&str; 5] = [
    "rbf(gamma=0.05)",
    "rbf(gamma=0.01)",
    "rbf(gamma=0.001)",
    "rbf(gamma=1e-6)",
    "rbf(gamma=1e-9)",
];

/// A few of the kernels that `anytime` takes.
const SEMIDEFINITE: [&str; 3] =
    ["rbf(gamma=0.05)", "polynomial(degree=2, gamma=1, coef0=1)", "rbf(gamma=1e-9)"];

/// Every certifying stage of the registry with the kernels it takes: a new stage has no laws until it is here.
fn stages() -> Vec<(String, &'static [&'static str])> {
    let kernels = |name: &str| -> &'static [&'static str] {
        match name {
            // Their own laws, over orders, sizes and kernels, are in `anytime.rs` and `compressed.rs`.
            "anytime" | "compressed" => &SEMIDEFINITE,
            "low_precision" => &SINGLES,
            "projected" => &PRODUCTS,
            "spectral" => &QUADRATIC,
            "taylor" => &SMOOTH,
            "monomials" => &POWERS,
            other => panic!("say which kernels '{other}' takes"),
        }
    };
    let plan = |fitter: &&Fitter| {
        let name = fitter.name;
        (format!("cascade({name}, exact)"), kernels(name))
    };
    // Stages that estimate prove nothing; their laws are in `calibrate.rs`.
    // Additive kernels want values of at least zero; the laws of `table` are in `table.rs`.
    let is_here = |fitter: &&&Fitter| !fitter.estimates && !fitter.stops && fitter.name != "table";
    FITTERS.iter().filter(is_here).map(plan).collect()
}

fn two_classes() -> Output {
    let names = vec![ClassName::Number(1.0), ClassName::Number(-1.0)];
    Output::Classes { names, scheme: Scheme::OneVsOne }
}

/// Two clouds, one for each sign of the coefficients, as training leaves them.
fn trained(kernel: &str, columns: usize, count: usize, output: Output, seed: u64) -> Machine {
    let supports = clouds(count, columns, seed);
    let betas: Vec<f64> =
        (0..count).map(|row| if row % 2 == 0 { 1.0 } else { -1.0 } / count as f64).collect();
    let scores = (0..output.scores()).map(|_| Score::expansion(&betas, 0.01)).collect();
    Machine::new(parse(kernel).unwrap(), supports, scores, output).unwrap()
}

fn clouds(count: usize, columns: usize, seed: u64) -> Matrix {
    let noise = generate::values(&generate::dense(count, columns, seed));
    let push = |(at, x): (usize, f64)| {
        let (row, column) = (at / columns, at % columns);
        let centre = if row % 2 == 0 { (column % 3) as f64 } else { (column % 2) as f64 - 0.5 };
        centre + 0.5 * x
    };
    Matrix::dense(columns, noise.into_iter().enumerate().map(push).collect()).unwrap()
}

/// The same machine with `b = 0`, behind which no absolute error can hide.
fn without_offset(machine: &Machine) -> Machine {
    let scores = machine.scores().iter().map(|score| match score.clone() {
        Score::Expansion { supports, coefficients, .. } => {
            Score::Expansion { supports, coefficients, offset: 0.0 }
        }
        other => other,
    });
    let (kernel, supports) = (machine.kernel().clone(), machine.supports().as_ref().clone());
    Machine::new(kernel, supports, scores.collect(), machine.output().clone()).unwrap()
}

/// A plan for a machine, or nothing if the stage refuses it, which it may.
fn check(plan: &str, name: &str, machine: &Machine, queries: &Matrix, tally: &mut Tally) {
    let sections = compile(machine, &plan.parse().unwrap(), None);
    common::hold(sections, (plan, name), machine, queries, tally);
}

#[test]
fn certificates_hold_on_sane_machines() {
    let mut tally = Tally::default();
    for (plan, kernels) in stages() {
        let mut own = Tally::default();
        for kernel in kernels {
            let queries = clouds(60, 24, 11);
            let machine = trained(kernel, 24, 50, two_classes(), 10);
            check(&plan, "clouds", &machine, &queries, &mut own);
            for (name, output) in machines::outputs() {
                let kernel = parse(kernel).unwrap();
                let supports = generate::sparse(40, 20, 0.5, 3);
                let machine = machines::random(&kernel, &supports, &output, 4);
                let queries = generate::sparse(30, 22, 0.5, 5);
                check(&plan, name, &machine, &queries, &mut own);
            }
        }
        println!("{plan}: {own:?}");
        assert!(own.certified * 3 > own.asked, "{plan}: {own:?}");
        tally.pairs += own.pairs;
    }
    assert!(tally.pairs > 20_000, "{tally:?}");
}

#[test]
fn certificates_hold_on_hostile_machines() {
    let mut tally = Tally::default();
    for (plan, kernels) in stages() {
        for text in kernels {
            let kernel = parse(text).unwrap();
            let mut cases = generate::sane(Domain::Real, 5);
            cases.extend(generate::hostile(Domain::Real, 6));
            for case in &cases {
                let machine = machines::random(&kernel, &case.rows, &Output::Novelty, 7);
                check(&plan, case.name, &machine, &case.rows, &mut tally);
                check(&plan, case.name, &without_offset(&machine), &case.rows, &mut tally);
                // Ordinary supports, strange queries.
                let supports = generate::dense(20, case.rows.columns(), 8);
                let machine = machines::random(&kernel, &supports, &Output::Novelty, 9);
                check(&plan, case.name, &machine, &case.rows, &mut tally);
                check(&plan, case.name, &without_offset(&machine), &case.rows, &mut tally);
            }
        }
    }
    println!("hostile: {tally:?}");
    assert!(tally.pairs > 5_000 && tally.certified > 1000, "{tally:?}");
}

/// `f = 0` everywhere: nothing may be certified, whatever noise the stages see.
#[test]
fn scores_that_cancel_are_never_certified() {
    for (plan, text) in [
        (SPECTRAL, "polynomial(degree=2, gamma=1, coef0=0)"),
        (SPECTRAL, "normalized(polynomial(degree=2, gamma=1, coef0=0))"),
        (SINGLE, "polynomial(degree=2, gamma=1, coef0=0)"),
        (SINGLE, "polynomial(degree=4, gamma=1, coef0=0)"),
        (PROJECTED, "polynomial(degree=2, gamma=1, coef0=0)"),
        (PROJECTED, "polynomial(degree=4, gamma=1, coef0=0)"),
        (MONOMIALS, "polynomial(degree=2, gamma=1, coef0=0)"),
        (MONOMIALS, "polynomial(degree=4, gamma=1, coef0=0)"),
        (TAYLOR, "rbf(gamma=0.01)"),
        (TAYLOR, "rbf(gamma=1e-6)"),
    ] {
        // An even kernel does not tell z from -z; no kernel tells z from z.
        let half = generate::dense(15, 9, 21);
        let mut values = generate::values(&half);
        let sign = if plan == TAYLOR { 1.0 } else { -1.0 };
        values.extend(generate::values(&half).iter().map(|x| sign * x));
        let supports = Matrix::dense(9, values).unwrap();
        for size in [1.0, 1e6] {
            let betas: Vec<f64> = (0..30).map(|row| if row < 15 { size } else { -size }).collect();
            let scores = vec![Score::expansion(&betas, 0.0)];
            let kernel = parse(text).unwrap();
            let machine = Machine::new(kernel, supports.clone(), scores, two_classes()).unwrap();
            let sections = compile(&machine, &plan.parse().unwrap(), None).unwrap();
            let queries = generate::dense(50, 9, 22);
            let law = CertifyLaw {
                name: text.into(),
                machine: &machine,
                sections: &sections,
                queries: &queries,
            };
            let mut tally = Tally::default();
            law.ranges_contain_the_score(&mut tally).unwrap();
            law.answers_are_exact_and_alike(&mut tally).unwrap();
            assert_eq!(tally.certified, 0, "{plan} {text}");
        }
    }
}

/// Nearly equal supports with large opposite coefficients; rows far from zero; all queries equal.
#[test]
fn certificates_hold_where_much_cancels() {
    let mut tally = Tally::default();
    for (plan, kernels) in stages() {
        for text in kernels {
            let base = generate::values(&generate::dense(12, 8, 31));
            let near: Vec<f64> = base.iter().map(|x| x * (1.0 + 1e-13)).collect();
            for shift in [0.0, 1e3, 1e6] {
                let values = base.iter().chain(&near).map(|x| x + shift).collect();
                let supports = Matrix::dense(8, values).unwrap();
                let betas: Vec<f64> =
                    (0..24).map(|row| if row < 12 { 1e6 } else { -1e6 }).collect();
                let scores = vec![Score::expansion(&betas, 1e-3)];
                let kernel = parse(text).unwrap();
                let machine = Machine::new(kernel, supports, scores, Output::Novelty).unwrap();
                let queries = generate::map(&generate::dense(20, 8, 32), |x| x + shift);
                check(&plan, "near duplicates", &machine, &queries, &mut tally);
                check(&plan, "equal queries", &machine, &queries.select([3; 20]), &mut tally);
            }
        }
    }
    println!("cancelling: {tally:?}");
}

/// A million ranges; a regression without tolerance settles nothing, so every step is seen.
#[test]
fn a_million_ranges_contain_the_score() {
    let mut tally = Tally::default();
    for (number, kernel) in (0u64..).zip(&QUADRATIC[..4]) {
        let machine = trained(kernel, 40, 30, Output::Value, 40 + number);
        let queries = clouds(8600, 40, 50 + number);
        let sections = compile(&machine, &SPECTRAL.parse().unwrap(), None).unwrap();
        let name = (*kernel).to_owned();
        let law = CertifyLaw { name, machine: &machine, sections: &sections, queries: &queries };
        law.ranges_contain_the_score(&mut tally).unwrap();
    }
    println!("ordinary: {tally:?}");
    assert!(tally.pairs >= 1_000_000, "{tally:?}");
}

/// As long as wanted: `cargo xtask bench soak --pairs 1e9`. Machines and queries come from seeds, stage after
/// stage of the registry, kernel after kernel; all cores work.
#[test]
#[ignore = "runs for MERCER_SOAK ranges, a hundred million by default"]
fn soak() {
    let wanted = std::env::var("MERCER_SOAK").ok().and_then(|text| text.parse().ok());
    let wanted: f64 = wanted.unwrap_or(1e8);
    let (start, mut pairs, mut shown) = (std::time::Instant::now(), 0, 0.0);
    let at_once = 2 * rayon::current_num_threads().max(1) as u64;
    let mut seed = 1000;
    while (pairs as f64) < wanted {
        let found = (seed..seed + at_once).into_par_iter().map(soak_one).sum::<u64>();
        (pairs, seed) = (pairs + found, seed + at_once);
        let share = pairs as f64 / wanted;
        if share >= shown + 0.01 || share >= 1.0 {
            shown = share;
            let seconds = start.elapsed().as_secs_f64();
            println!("soak: {pairs} ranges hold, {:.0} %, {seconds:.0} s", 100.0 * share.min(1.0));
        }
    }
}

/// All stages once; returns how many ranges were looked at.
fn soak_one(seed: u64) -> u64 {
    let mut tally = Tally::default();
    for (plan, kernels) in stages() {
        let kernel = kernels[seed as usize % kernels.len()];
        let columns = 5 + (seed % 60) as usize;
        let machine = trained(kernel, columns, 30, Output::Value, seed);
        let queries = clouds(2000, columns, seed + 1);
        // Each dimension of a projection is a stage of its own, so that every depth is seen.
        let depths = if plan == PROJECTED { 1..=columns.min(24) } else { 0..=0 };
        let text = match depths {
            depths if *depths.start() == 0 => plan,
            depths => {
                depths.fold("cascade(".to_owned(), |text, depth| {
                    format!("{text}projected(dimensions={depth}), ")
                }) + "exact)"
            }
        };
        let sections = match compile(&machine, &text.parse().unwrap(), None) {
            Ok(sections) => sections,
            Err(CompileError::Unfit { .. } | CompileError::Load(_)) => continue,
            Err(other) => panic!("{other}"),
        };
        let name = format!("{text} for {kernel}, seed {seed}");
        let law = CertifyLaw { name, machine: &machine, sections: &sections, queries: &queries };
        law.ranges_contain_the_score(&mut tally).unwrap();
    }
    tally.pairs
}

#[test]
fn a_hundred_thousand_ranges_of_singles_contain_the_score() {
    let mut tally = Tally::default();
    let kernels = ["rbf(gamma=0.05)", "rbf(gamma=3)", "polynomial(degree=3, gamma=0.2, coef0=1)"];
    for (number, kernel) in (0u64..).zip(kernels) {
        let machine = trained(kernel, 20, 20, Output::Value, 90 + number);
        let queries = clouds(17_000, 20, 95 + number);
        let sections = compile(&machine, &SINGLE.parse().unwrap(), None).unwrap();
        let name = kernel.to_owned();
        let law = CertifyLaw { name, machine: &machine, sections: &sections, queries: &queries };
        law.ranges_contain_the_score(&mut tally).unwrap();
    }
    println!("singles: {tally:?}");
    assert!(tally.pairs >= 100_000, "{tally:?}");
}

/// Projections on every number of dimensions, with and without look-ahead and corrections.
#[test]
fn a_hundred_thousand_ranges_of_projections_contain_the_score() {
    let mut tally = Tally::default();
    let kernels = [
        "rbf(gamma=0.02)",
        "rbf(gamma=1)",
        "polynomial(degree=2, gamma=0.2, coef0=1)",
        "polynomial(degree=3, gamma=0.2, coef0=-1)",
        "normalized(polynomial(degree=4, gamma=0.3, coef0=1))",
    ];
    for (number, kernel) in (0u64..).zip(kernels) {
        let machine = trained(kernel, 20, 40, Output::Value, 190 + number);
        let (queries, sample) = (clouds(700, 20, 195 + number), clouds(60, 20, 200 + number));
        let both = |depth: usize| {
            let plain = format!("projected(dimensions={depth}, look_ahead={depth}, directions=0)");
            format!("{plain}, projected(dimensions={depth}, directions={}), ", depth % 7)
        };
        let text = format!("cascade({}exact)", (1..=20).map(both).collect::<String>());
        let sections = compile(&machine, &text.parse().unwrap(), Some(&sample)).unwrap();
        let name = kernel.to_owned();
        let law = CertifyLaw { name, machine: &machine, sections: &sections, queries: &queries };
        law.ranges_contain_the_score(&mut tally).unwrap();
    }
    println!("projections: {tally:?}");
    assert!(tally.pairs >= 100_000, "{tally:?}");
}

/// Quadratic forms of Gaussians after every round, near and far from the supports, centred and not.
#[test]
fn a_hundred_thousand_ranges_of_expanded_gaussians_contain_the_score() {
    let mut tally = Tally::default();
    let kernels = ["rbf(gamma=0.02)", "rbf(gamma=0.004)", "rbf(gamma=1e-7)"];
    for (number, kernel) in (0u64..).zip(kernels) {
        for shift in [0.0, 40.0] {
            let machine = trained(kernel, 40, 60, Output::Value, 290 + number);
            let supports = generate::map(machine.supports(), |x| x + shift);
            let scores = machine.scores().to_vec();
            let kernel = machine.kernel().clone();
            let machine = Machine::new(kernel, supports, scores, Output::Value).unwrap();
            let sections = compile(&machine, &TAYLOR.parse().unwrap(), None).unwrap();
            // Up to a fifth further from the middle than the cloud itself.
            let queries = clouds(4500, 40, 295 + number);
            let stretched = generate::values(&queries).into_iter().enumerate();
            let stretched =
                stretched.map(|(at, x)| x * (0.2 + (at / 40 % 11) as f64 / 10.0) + shift);
            let queries = Matrix::dense(40, stretched.collect()).unwrap();
            let name = format!("{number} {shift}");
            let law =
                CertifyLaw { name, machine: &machine, sections: &sections, queries: &queries };
            law.ranges_contain_the_score(&mut tally).unwrap();
        }
    }
    println!("expanded: {tally:?}");
    assert!(tally.pairs >= 100_000, "{tally:?}");
}

/// Several classes certify the label without settling every duel.
#[test]
fn several_classes_settle_before_all_their_scores_do() {
    // All dimensions: with sixty supports fewer are cheaper and settle little.
    let whole = "cascade(projected(dimensions=30), exact)";
    for scheme in [Scheme::OneVsOne, Scheme::OneVsRest] {
        let names = (0..5).map(|n| ClassName::Number(f64::from(n))).collect();
        let output = Output::Classes { names, scheme };
        for (plan, kernel) in
            [(SPECTRAL, QUADRATIC[0]), (SINGLE, "rbf(gamma=0.1)"), (whole, "rbf(gamma=0.1)")]
        {
            let kernel = parse(kernel).unwrap();
            let machine = machines::random(&kernel, &clouds(60, 30, 100), &output, 101);
            let queries = clouds(200, 30, 102);
            let mut tally = Tally::default();
            check(plan, "five classes", &machine, &queries, &mut tally);
            assert!(tally.certified * 10 > tally.asked * 9, "{plan}: {tally:?}");
            let sections = compile(&machine, &plan.parse().unwrap(), None).unwrap();
            let plan = Plan::load(&machine, &sections).unwrap();
            let answers = plan.decide_with(&queries, &Asking::default()).unwrap();
            let all = 31.0 * 30.0 * machine.scores().len() as f64;
            // Sixty supports are too few for a projection to be cheaper.
            let is_small = plan.stages()[0].spec().name() == "projected";
            assert!(
                is_small || answers.mean_cost() < 0.9 * all,
                "{} of {all}",
                answers.mean_cost()
            );
        }
    }
}

/// A query of several classes that only the exact stage closes shows the range of every score.
#[test]
fn the_exact_stage_explains_every_score_it_closes() {
    for scheme in [Scheme::OneVsOne, Scheme::OneVsRest] {
        let names = (0..4).map(|n| ClassName::Number(f64::from(n))).collect();
        let kernel = parse("rbf(gamma=0.1)").unwrap();
        let output = Output::Classes { names, scheme };
        let machine = machines::random(&kernel, &clouds(40, 6, 110), &output, 111);
        let (queries, plan) = (clouds(5, 6, 112), Plan::exact(&machine));
        let scores = plan.scores(&queries).unwrap();
        let count = machine.scores().len();
        for row in 0..5 {
            let explained = plan.explain(&queries, row, &Asking::default()).unwrap();
            assert_eq!(explained.steps.len(), count);
            for (step, score) in explained.steps.iter().zip(&scores[row * count..]) {
                assert!(step.range.contains(*score) && step.stage == 0, "{step:?} {score}");
            }
        }
    }
}

/// With no budget at all the offset alone decides, and nothing is claimed.
#[test]
fn without_a_budget_the_offset_decides() {
    for offset in [0.5, -0.5] {
        let kernel = parse("rbf(gamma=1)").unwrap();
        let scores = vec![Score::expansion(&[1.0, -1.0], offset)];
        let supports = Matrix::dense(1, vec![0.0, 1.0]).unwrap();
        let machine = Machine::new(kernel, supports, scores, two_classes()).unwrap();
        let sections = compile(&machine, &SINGLE.parse().unwrap(), None).unwrap();
        let plan = Plan::load(&machine, &sections).unwrap();
        let asking = Asking { budget: Some(0), ..Asking::default() };
        let answers = plan.decide_with(&generate::dense(3, 1, 1), &asking).unwrap();
        assert_eq!(answers.unsettled, 3);
        for decision in answers.decisions {
            assert_eq!(decision.answer, Answer::Class(usize::from(offset > 0.0)));
            assert_eq!(decision.certainty, Certainty::Unsettled);
            assert_eq!(decision.score.low, f64::NEG_INFINITY);
        }
    }
}

#[test]
fn regressions_settle_at_their_tolerance() {
    let machine = trained(QUADRATIC[0], 12, 40, Output::Value, 60);
    let queries = clouds(100, 12, 61);
    let sections = compile(&machine, &SPECTRAL.parse().unwrap(), None).unwrap();
    let plan = Plan::load(&machine, &sections).unwrap();
    let exact = Plan::exact(&machine).scores(&queries).unwrap();
    let asking = Asking { tolerance: Some(0.05), ..Asking::default() };
    let answers = plan.decide_with(&queries, &asking).unwrap();
    for (decision, score) in answers.decisions.iter().zip(exact) {
        let Answer::Value(value) = decision.answer else { panic!("a value") };
        assert!((value - score).abs() <= 0.05 * (1.0 + 1e-9), "{decision:?}, exactly {score}");
    }
    let certified = answers.settled_by_stage[0];
    assert!(certified > 50, "{certified}");
}

#[test]
fn what_does_not_fit_is_refused_with_a_sentence() {
    let message = |kernel: &str, plan: &str| {
        let machine = trained(kernel, 5, 10, two_classes(), 70);
        compile(&machine, &plan.parse().unwrap(), None).unwrap_err().to_string()
    };
    assert_eq!(
        message("rbf(gamma=1)", SPECTRAL),
        "stage 'spectral' does not fit this machine: rbf(gamma=1) is not a polynomial of degree 2"
    );
    assert!(message("laplacian(gamma=1)", SINGLE).contains("no error bound"));
    assert!(message("rbf(gamma=1)", "cascade(low_precision)").contains("the last stage must be"));
    assert!(message("rbf(gamma=1)", "cascade(oracle, exact)").contains("no stage 'oracle'"));
    assert!(message("rbf(gamma=1)", "rbf(gamma=1)").contains("is not a plan"));
}

/// A plan survives its file; a damaged section is refused, not trusted.
#[test]
fn plans_come_back_from_files() {
    let own = mercer_machine::file::format("mercer").unwrap();
    let machine = trained(QUADRATIC[0], 9, 30, two_classes(), 80);
    let plan = "cascade(low_precision, spectral, projected, exact)";
    let sections = compile(&machine, &plan.parse().unwrap(), None).unwrap();
    let mut model = mercer_machine::Model::from(machine);
    model.plan = Some(sections.clone());
    let bytes = mercer_machine::file::to_bytes(&model, own).unwrap();
    let again = mercer_machine::file::from_bytes(&bytes).unwrap();
    let queries = clouds(40, 9, 81);
    let (before, after) = (Plan::of(&model).unwrap(), Plan::of(&again).unwrap());
    let decisions = before.decide(&queries).unwrap();
    assert_eq!(decisions, after.decide(&queries).unwrap());
    assert!(decisions.iter().any(|decision| decision.certainty == Certainty::Certified));
    let broken = |change: fn(&mut mercer_machine::Array)| {
        for stage in [1, 2] {
            let mut sections = sections.clone();
            for (_, array) in &mut sections.sections[stage].arrays {
                change(array);
            }
            let loaded = Plan::load(&again.machine, &sections);
            assert!(loaded.is_err() || sections == again.plan.clone().unwrap());
        }
    };
    broken(|array| {
        if let F64(values) = array {
            values[0] = f64::NAN;
        }
    });
    broken(|array| {
        if let F64(values) = array {
            values.truncate(1);
        }
    });
    broken(|array| {
        if let F64(values) = array {
            values.iter_mut().for_each(|x| *x -= 1.0);
        }
    });
    broken(|array| {
        if let U32(values) = array {
            values[0] = u32::MAX;
        }
    });
    broken(|array| *array = F64(Vec::new()));
}
