//! The properties of certificates, over every certifying stage, on sane, trained-like and adversarial machines.

use crate::common;
use crate::common::clouds::{clouds, trained};
use crate::common::stages::{QUADRATIC, stages};
use mercer_compile::compile;
use mercer_data::Matrix;
use mercer_kernel::{Domain, parse};
use mercer_machine::Array::{F64, U32};
use mercer_machine::{Answer, ClassName, Machine, Output, Scheme, Score};
use mercer_query::{Certainty, Plan, QueryOptions};
use mercer_testkit::properties::certify::{CertifyProperty, Tally};
use mercer_testkit::{generate, machines};

const SPECTRAL: &str = "cascade(spectral, exact)";
const SINGLE: &str = "cascade(low_precision, exact)";
const PROJECTED: &str = "cascade(projected, exact)";
const MONOMIALS: &str = "cascade(monomials, exact)";
const TAYLOR: &str = "cascade(taylor, exact)";

fn two_classes() -> Output {
    let names = vec![ClassName::Number(1.0), ClassName::Number(-1.0)];
    Output::Classes { names, scheme: Scheme::OneVsOne }
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
    common::hold(sections, common::TestNames { plan, case: name }, machine, queries, tally);
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
fn certificates_hold_on_adversarial_machines() {
    let mut tally = Tally::default();
    for (plan, kernels) in stages() {
        for text in kernels {
            let kernel = parse(text).unwrap();
            let mut cases = generate::ordinary(Domain::Real, 5);
            cases.extend(generate::adversarial(Domain::Real, 6));
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
    println!("adversarial: {tally:?}");
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
            let property = CertifyProperty {
                name: text.into(),
                machine: &machine,
                sections: &sections,
                queries: &queries,
            };
            let mut tally = Tally::default();
            property.ranges_contain_the_score(&mut tally).unwrap();
            property.answers_are_exact_and_alike(&mut tally).unwrap();
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
        let property =
            CertifyProperty { name, machine: &machine, sections: &sections, queries: &queries };
        property.ranges_contain_the_score(&mut tally).unwrap();
    }
    println!("ordinary: {tally:?}");
    assert!(tally.pairs >= 1_000_000, "{tally:?}");
}

#[test]
fn a_hundred_thousand_ranges_in_f32_contain_the_score() {
    let mut tally = Tally::default();
    let kernels = ["rbf(gamma=0.05)", "rbf(gamma=3)", "polynomial(degree=3, gamma=0.2, coef0=1)"];
    for (number, kernel) in (0u64..).zip(kernels) {
        let machine = trained(kernel, 20, 20, Output::Value, 90 + number);
        let queries = clouds(17_000, 20, 95 + number);
        let sections = compile(&machine, &SINGLE.parse().unwrap(), None).unwrap();
        let name = kernel.to_owned();
        let property =
            CertifyProperty { name, machine: &machine, sections: &sections, queries: &queries };
        property.ranges_contain_the_score(&mut tally).unwrap();
    }
    println!("f32: {tally:?}");
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
        let property =
            CertifyProperty { name, machine: &machine, sections: &sections, queries: &queries };
        property.ranges_contain_the_score(&mut tally).unwrap();
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
            let property =
                CertifyProperty { name, machine: &machine, sections: &sections, queries: &queries };
            property.ranges_contain_the_score(&mut tally).unwrap();
        }
    }
    println!("expanded: {tally:?}");
    assert!(tally.pairs >= 100_000, "{tally:?}");
}

/// Several classes certify the label without settling every pairwise classifier.
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
            let plan = Plan::fitted(&machine, &sections).unwrap();
            let answers = plan.decide_with(&queries, &QueryOptions::default()).unwrap();
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
            let explained = plan.explain(&queries, row, &QueryOptions::default()).unwrap();
            assert_eq!(explained.steps.len(), count);
            for (step, score) in explained.steps.iter().zip(&scores[row * count..]) {
                assert!(step.range.contains(*score) && step.stage == 0, "{step:?} {score}");
            }
        }
    }
}

/// A plan whose exact stage packs its supports piece by piece for each query, and keeps none of them.
#[test]
fn a_plan_in_pieces_gives_the_same_answers_in_less_memory() {
    let kernel = parse("rbf(gamma=0.1)").unwrap();
    // More supports than a piece has.
    let (supports, queries) = (clouds(500, 20, 120), clouds(300, 20, 121));
    let machine = machines::random(&kernel, &supports, &two_classes(), 122);
    let sections = compile(&machine, &SINGLE.parse().unwrap(), None).unwrap();
    let whole = Plan::fitted(&machine, &sections).unwrap();
    let in_pieces = Plan::fitted_in_pieces(&machine, &sections).unwrap();
    assert!(in_pieces.bytes() + 500 * 20 * 8 <= whole.bytes());
    for _ in 0..2 {
        assert_eq!(whole.decide(&queries).unwrap(), in_pieces.decide(&queries).unwrap());
        let scores = (whole.scores(&queries).unwrap(), in_pieces.scores(&queries).unwrap());
        assert_eq!(scores.0, scores.1);
        assert_eq!(
            whole.exact_answers(&queries).unwrap(),
            in_pieces.exact_answers(&queries).unwrap()
        );
        in_pieces.exact_stage().pack();
        assert_eq!(in_pieces.bytes(), whole.bytes());
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
        let plan = Plan::fitted(&machine, &sections).unwrap();
        let options = QueryOptions { budget: Some(0), ..QueryOptions::default() };
        let answers = plan.decide_with(&generate::dense(3, 1, 1), &options).unwrap();
        assert_eq!(answers.unsettled, 3);
        for decision in answers.decisions {
            assert_eq!(decision.answer, Answer::Class(usize::from(offset > 0.0)));
            assert_eq!(decision.certainty, Certainty::Unsettled);
            assert_eq!(decision.range.low, f64::NEG_INFINITY);
        }
    }
}

#[test]
fn regressions_settle_at_their_tolerance() {
    let machine = trained(QUADRATIC[0], 12, 40, Output::Value, 60);
    let queries = clouds(100, 12, 61);
    let sections = compile(&machine, &SPECTRAL.parse().unwrap(), None).unwrap();
    let plan = Plan::fitted(&machine, &sections).unwrap();
    let exact = Plan::exact(&machine).scores(&queries).unwrap();
    let options = QueryOptions { tolerance: Some(0.05), ..QueryOptions::default() };
    let answers = plan.decide_with(&queries, &options).unwrap();
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
            let loaded = Plan::fitted(&again.machine, &sections);
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
