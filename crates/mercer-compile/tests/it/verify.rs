//! Stored plans are verified before they are believed: every constant that a certificate rests on is recomputed, and what is
//! smaller than the machine gives is refused. That every fitted plan is accepted is tested in `common::hold`.

use crate::damaged::{damage, plan_of, rows};
use mercer_compile::risk::{Target, retest};
use mercer_compile::{Compiler, FITTERS, compile};
use mercer_machine::{Array, Machine, Output, PlanSections};
use mercer_query::verify::{Outcome, RestsOn, Watch, verify};
use mercer_query::{Certainty, LeftOutReason, LoadError, Plan, PlanTrust};
use mercer_testkit::{generate, machines};

fn machine(kernel: &str) -> Machine {
    machines::random(&mercer_kernel::parse(kernel).unwrap(), &rows(40, 1), &Output::Novelty, 3)
}

/// Every stage that keeps constants, with a machine and its plan.
fn with_constants() -> Vec<(&'static str, Machine, PlanSections)> {
    let stores =
        |stage: &&mercer_query::StageEntry| matches!(stage.rests_on, RestsOn::Constants { .. });
    let stages = FITTERS.iter().map(|fitter| fitter.stage).filter(stores);
    let plan = |stage: &'static mercer_query::StageEntry| {
        let (plan, kernel) = plan_of(stage.name);
        let machine = machine(kernel);
        let sections = compile(&machine, &plan.parse().unwrap(), None).unwrap();
        (stage.name, machine, sections)
    };
    stages.map(plan).collect()
}

/// The same plan with some numbers of an array of f64 multiplied.
fn scaled(sections: &PlanSections, name: &str, at: Option<usize>, factor: f64) -> PlanSections {
    let mut changed = sections.clone();
    let arrays = &mut changed.sections[0].arrays;
    let (_, array) = arrays.iter_mut().find(|(other, _)| other == name).unwrap();
    let Array::F64(values) = array else { panic!("{name} is not an array of f64") };
    match at {
        Some(at) => values[at] *= factor,
        None => values.iter_mut().for_each(|value| *value *= factor),
    }
    changed
}

fn is_refused(machine: &Machine, sections: &PlanSections) -> bool {
    let found = verify(machine, sections, &Watch::NOBODY);
    let loaded = Plan::load(machine, sections, PlanTrust::Nothing);
    assert_eq!(found.is_err(), loaded.is_err(), "both ways verify the same");
    matches!(found, Err(LoadError::NotProved { .. }))
}

#[test]
fn a_plan_without_trust_answers_as_the_fitted_one_once_it_is_verified() {
    for (stage, machine, sections) in with_constants() {
        let plan = Plan::load(&machine, &sections, PlanTrust::Nothing).unwrap();
        assert!(plan.left_out().is_empty(), "{stage}");
        let queries = rows(50, 5);
        let fitted = Plan::fitted(&machine, &sections).unwrap().decide(&queries).unwrap();
        assert_eq!(plan.decide(&queries).unwrap(), fitted, "{stage}");
    }
}

#[test]
fn every_bound_that_is_made_smaller_is_refused() {
    let mut changes = 0;
    for (stage, machine, sections) in with_constants() {
        let bounds: &[(&str, Option<usize>)] = match stage {
            "anytime" => {
                &[("defects", None), ("residual_norms", None), ("residuals_in_span", None)]
            }
            "compressed" => &[
                ("defects", None),
                ("residual_norms", None),
                ("residuals_in_span", None),
                ("difference_norms", None),
                ("difference_products", None),
            ],
            "monomials" => &[("errors", None), ("errors", Some(0)), ("errors", Some(3))],
            "table" => &[("cells", None), ("cells", Some(2))],
            "projected" => &[
                ("errors", Some(0)),
                ("errors", Some(1)),
                ("errors", Some(2)),
                ("errors", Some(3)),
                ("errors", Some(4)),
                ("errors", Some(5)),
                ("errors", Some(7)),
            ],
            "spectral" => &[("errors", Some(0)), ("errors", Some(1))],
            "taylor" => &[("bounds", Some(1)), ("bounds", Some(2)), ("values", None)],
            other => panic!("say which numbers of '{other}' are bounds"),
        };
        assert!(!is_refused(&machine, &sections), "{stage}");
        for (name, at) in bounds {
            let smaller = scaled(&sections, name, *at, 0.01);
            assert!(is_refused(&machine, &smaller), "{stage}: {name} {at:?}");
            changes += 1;
        }
    }
    assert!(changes > 20);
}

#[test]
fn approximations_that_are_changed_are_refused_with_the_bounds_of_others() {
    for (stage, machine, sections) in with_constants() {
        let names: &[&str] = match stage {
            "anytime" => &["weights", "triangle", "basis_values"],
            "compressed" => &["weights", "coefficients", "basis_values"],
            "monomials" => &["weights"],
            "table" => &["nodes"],
            "projected" => &["basis", "weights"],
            "spectral" => &["values", "vectors"],
            "taylor" => &["values", "shifts"],
            other => panic!("say which numbers of '{other}' are approximations"),
        };
        for name in names {
            let changed = scaled(&sections, name, None, 0.7);
            assert!(is_refused(&machine, &changed), "{stage}: {name}");
        }
    }
}

/// Whatever is changed: a plan that is still accepted certifies no wrong label.
#[test]
fn no_change_of_a_file_makes_a_wrong_label_certified() {
    let queries = rows(40, 9);
    for (seed, (stage, machine, sections)) in (0..).zip(with_constants()) {
        let exact = Plan::exact(&machine).decide(&queries).unwrap();
        let mut rng = generate::rng(seed);
        let (mut accepted, mut certified) = (0, 0);
        for _ in 0..300 {
            let changed = damage(&sections, &mut rng).expect("it has arrays");
            let Ok(plan) = Plan::load(&machine, &changed, PlanTrust::Nothing) else { continue };
            accepted += 1;
            for (found, exact) in plan.decide(&queries).unwrap().iter().zip(&exact) {
                if found.certainty == Certainty::Certified {
                    assert_eq!(found.answer, exact.answer, "{stage}");
                    let ends = [found.range.low, found.range.high];
                    let is_inside = ends[0] <= exact.range.high && exact.range.low <= ends[1];
                    assert!(is_inside, "{stage}: {ends:?} and {:?}", exact.range);
                    certified += 1;
                }
            }
        }
        println!("{stage}: {accepted} of 300 changed plans accepted, {certified} certified labels");
    }
}

#[test]
fn the_text_of_a_plan_names_the_stages_that_run() {
    let (_, machine, sections) = with_constants().swap_remove(0);
    for text in ["exact", "cascade(exact)", "cascade(table, exact)", "", "cascade(", "2"] {
        let other = PlanSections { spec: text.to_owned(), ..sections.clone() };
        for trust in [PlanTrust::Nothing, PlanTrust::Everything] {
            let found = Plan::load(&machine, &other, trust);
            assert!(matches!(found, Err(LoadError::OtherStages { .. })), "{text}: {found:?}");
        }
    }
}

#[test]
fn stages_that_rest_on_a_calibration_are_left_out_unless_everything_is_trusted() {
    let machine = machine("rbf(gamma=0.5)");
    let sample = rows(1500, 2);
    let target = Target { risk: 0.1, delta: 0.1, ..Target::default() };
    let text = "cascade(pca(2, 4), low_precision, exact)".parse().unwrap();
    let compiled = Compiler::new(&machine).sample(&sample).target(target).run(&text).unwrap();
    let sections = compiled.sections;
    for trust in [PlanTrust::Nothing, PlanTrust::Constants] {
        let plan = Plan::load(&machine, &sections, trust).unwrap();
        assert_eq!(plan.left_out().len(), 1);
        assert_eq!(plan.left_out()[0].reason, LeftOutReason::Calibration);
        assert!(plan.calibration().is_none() && plan.stages().len() == 1);
        let queries = rows(200, 7);
        let exact = Plan::exact(&machine).decide(&queries).unwrap();
        for (found, exact) in plan.decide(&queries).unwrap().iter().zip(&exact) {
            assert_eq!(found.answer, exact.answer);
            assert_ne!(found.certainty, Certainty::Calibrated);
        }
    }
    let plan = Plan::load(&machine, &sections, PlanTrust::Everything).unwrap();
    assert!(plan.left_out().is_empty() && plan.calibration().is_some());
    let stages = verify(&machine, &sections, &Watch::NOBODY).unwrap();
    assert_eq!(stages[0].outcome, Outcome::Calibration);
    assert_eq!(stages[1].outcome, Outcome::Machine);
    // Other queries test the promise; one that is not kept is found out.
    assert!(retest(&plan, &rows(1500, 21), None).unwrap().holds());
    let mut false_promise = sections;
    let calibration = false_promise.calibration.as_mut().unwrap();
    calibration.threshold = 1e-9;
    calibration.scales.iter_mut().for_each(|scale| (scale.slope, scale.shift) = (-1.0, 0.0));
    let plan = Plan::fitted(&machine, &false_promise).unwrap();
    assert!(!retest(&plan, &rows(1500, 21), None).unwrap().holds());
    assert!(retest(&plan, &rows(5, 21), None).is_err(), "five queries prove nothing");
}

#[test]
fn a_verification_that_takes_long_is_left_to_the_user() {
    // 6,000 supports: 36 million pairs of 5 columns.
    let kernel = mercer_kernel::parse("rbf(gamma=0.5)").unwrap();
    let machine = machines::random(&kernel, &rows(6000, 1), &Output::Novelty, 3);
    let small = machines::random(&kernel, &rows(40, 1), &Output::Novelty, 3);
    let text = "cascade(anytime(steps=3), exact)".parse().unwrap();
    let mut sections = compile(&small, &text, None).unwrap();
    sections.machine = mercer_machine::file::digest(&machine);
    let plan = Plan::load(&machine, &sections, PlanTrust::Nothing).unwrap();
    let [left] = plan.left_out() else { panic!("{:?}", plan.left_out()) };
    assert!(matches!(left.reason, LeftOutReason::TooMuchWork { work } if work > 1e9), "{left:?}");
    assert!(plan.stages().is_empty());
    // The constants of another machine are found out all the same.
    let stopped = verify(&machine, &sections, &Watch::new(&|_| false));
    assert!(matches!(stopped, Err(LoadError::Interrupted)), "{stopped:?}");
}
