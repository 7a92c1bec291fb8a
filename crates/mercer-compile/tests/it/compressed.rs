//! The stage `compressed`: certificates under every kernel, for every size and method, on adversarial machines.

use crate::common;
use mercer_compile::compile;
use mercer_data::{Matrix, synthetic};
use mercer_kernel::parse;
use mercer_machine::Array::{F64, U32};
use mercer_machine::{Machine, Output, Score};
use mercer_query::{Plan, QueryOptions};
use mercer_testkit::properties::certify::Tally;
use mercer_testkit::{generate, machines};

/// All properties of a machine under the stage, unless it refuses the machine, which it may.
fn check(stage: &str, name: &str, machine: &Machine, queries: &Matrix, tally: &mut Tally) {
    let plan = format!("cascade({stage}, exact)").parse().unwrap();
    common::hold(
        compile(machine, &plan, None),
        common::TestNames { plan: stage, case: name },
        machine,
        queries,
        tally,
    );
}

#[test]
fn certificates_hold_under_every_kernel_and_for_every_output() {
    let mut tally = Tally::default();
    for text in generate::kernel_specs() {
        let kernel = parse(text).unwrap();
        for (name, output) in machines::outputs() {
            let rows = |count, seed| {
                generate::within(kernel.domain(), &generate::sparse(count, 12, 0.6, seed))
            };
            let machine = machines::random(&kernel, &rows(16, 3), &output, 4);
            check("compressed(12, greedy)", name, &machine, &rows(8, 5), &mut tally);
        }
    }
    println!("kernels: {tally:?}");
    assert!(tally.pairs > 2000 && tally.certified > 30, "{tally:?}");
}

#[test]
fn certificates_hold_for_every_size_and_method() {
    let data = synthetic::ripley(60, 1);
    let mercer_data::Targets::Numbers(signs) = &data.targets else { panic!("numbers") };
    let queries = synthetic::ripley(30, 2).examples;
    for text in ["rbf(gamma=2)", "normalized(polynomial(degree=3, gamma=1, coef0=1))"] {
        let mut certified = Vec::new();
        for stage in [
            "compressed(1, greedy)",
            "compressed(6, greedy)",
            "compressed(6, moved)",
            "compressed(25, greedy)",
            "compressed(60, greedy)",
            "compressed",
        ] {
            let kernel = parse(text).unwrap();
            let scores = vec![Score::expansion(signs, 0.1)];
            let machine =
                Machine::new(kernel, data.examples.clone(), scores, Output::Novelty).unwrap();
            let mut tally = Tally::default();
            check(stage, "ripley", &machine, &queries, &mut tally);
            certified.push(tally.certified);
        }
        println!("{text}: {certified:?}");
        assert!(certified[3] >= certified[0] && certified[3] > 20, "{text}: {certified:?}");
        assert!(certified[2] > 5, "{text}: {certified:?}");
    }
}

#[test]
fn certificates_hold_on_adversarial_machines() {
    let mut tally = Tally::default();
    for text in [
        "rbf(gamma=1)",
        "rbf(gamma=1e-9)",
        "rbf(gamma=1e9)",
        "linear",
        "polynomial(degree=2, gamma=1, coef0=0)",
        "polynomial(degree=9, gamma=0.1, coef0=2)",
        "normalized(polynomial(degree=3, gamma=0.5, coef0=1))",
    ] {
        let kernel = parse(text).unwrap();
        let mut cases = generate::ordinary(kernel.domain(), 5);
        cases.extend(generate::adversarial(kernel.domain(), 6));
        for case in &cases {
            let machine = machines::random(&kernel, &case.rows, &Output::Novelty, 7);
            let supports = generate::dense(20, case.rows.columns(), 8);
            let ordinary = machines::random(&kernel, &supports, &Output::Novelty, 9);
            for stage in ["compressed(5)", "compressed(40, greedy)"] {
                check(stage, case.name, &machine, &case.rows, &mut tally);
                // Ordinary supports, strange queries.
                check(stage, case.name, &ordinary, &case.rows, &mut tally);
            }
        }
    }
    println!("adversarial: {tally:?}");
    assert!(tally.pairs > 2000 && tally.certified > 300, "{tally:?}");
}

/// `f = 0` everywhere: nothing may be certified, whatever noise the stage sees.
#[test]
fn scores_that_cancel_are_never_certified() {
    for text in ["polynomial(degree=2, gamma=1, coef0=0)", "polynomial(degree=4, gamma=1, coef0=0)"]
    {
        let half = generate::dense(15, 9, 21);
        let mut values = generate::values(&half);
        values.extend(generate::values(&half).iter().map(|x| -x));
        let supports = Matrix::dense(9, values).unwrap();
        let betas: Vec<f64> = (0..30).map(|row| if row < 15 { 1e3 } else { -1e3 }).collect();
        let scores = vec![Score::expansion(&betas, 0.0)];
        let machine =
            Machine::new(parse(text).unwrap(), supports, scores, Output::Novelty).unwrap();
        let mut tally = Tally::default();
        check("compressed(20, greedy)", text, &machine, &generate::dense(40, 9, 22), &mut tally);
        assert_eq!(tally.certified, 0, "{text}");
    }
}

#[test]
fn damaged_sections_are_refused() {
    let kernel = parse("rbf(gamma=0.5)").unwrap();
    let machine = machines::random(&kernel, &generate::dense(30, 4, 1), &Output::Novelty, 2);
    let plan = "cascade(compressed(8), exact)".parse().unwrap();
    let sections = compile(&machine, &plan, None).unwrap();
    assert!(Plan::fitted(&machine, &sections).is_ok());
    for name in [
        "coefficients",
        "difference_norms",
        "difference_products",
        "weights",
        "counts",
        "basis_values",
    ] {
        for damage in 0..4 {
            let mut bad = sections.clone();
            let arrays = &mut bad.sections[0].arrays;
            let place = arrays.iter().position(|(other, _)| other == name).unwrap();
            match (&mut arrays[place].1, damage) {
                (_, 0) => drop(arrays.remove(place)),
                (F64(values), 1) => values.push(1.0),
                (F64(values), 2) => values[0] = f64::NAN,
                (F64(values), 3) if matches!(name, "difference_norms" | "difference_products") => {
                    values[0] = -1.0;
                }
                (U32(values), 1) => values.push(7),
                _ => continue,
            }
            assert!(Plan::fitted(&machine, &bad).is_err(), "{name}, damage {damage}");
        }
    }
}

#[test]
fn explained_steps_come_from_the_cheaper_bounds_first() {
    let data = synthetic::ripley(80, 1);
    let mercer_data::Targets::Numbers(signs) = &data.targets else { panic!("numbers") };
    let scores = vec![Score::expansion(signs, 0.1)];
    let kernel = parse("rbf(gamma=2)").unwrap();
    let machine = Machine::new(kernel, data.examples, scores, Output::Novelty).unwrap();
    let plan = "cascade(compressed(12), exact)".parse().unwrap();
    let plan = Plan::fitted(&machine, &compile(&machine, &plan, None).unwrap()).unwrap();
    let queries = synthetic::ripley(100, 2).examples;
    let mut seen = [0usize; 3];
    for row in 0..queries.rows() {
        let path = plan.explain(&queries, row, &QueryOptions::default()).unwrap();
        let progress: Vec<usize> =
            path.steps.iter().filter(|step| step.stage == 0).map(|step| step.progress).collect();
        assert!([1, 8, 12].starts_with(&progress), "{progress:?}");
        seen[progress.len() - 1] += 1;
    }
    println!("closed or left by the nearest, the 8 nearest, all: {seen:?}");
    assert!(seen[0] > 0, "{seen:?}");
}
