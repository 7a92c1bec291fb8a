//! Plans as C files: what the compiled program answers has the bits of what the plan answers.

mod harness;

use std::process::Command;

use mercer_compile::Compiler;
use mercer_compile::risk::Target;
use mercer_data::Matrix;
use mercer_kernel::parse;
use mercer_machine::{Calibration, ClassName, Machine, Model, Output, Scale, Scheme};
use mercer_query::{Plan, QueryOptions, stages_without_c, write_c};
use mercer_testkit::{generate, machines, names};

use crate::common::clouds::{clouds, trained};
use crate::common::stages::{PRODUCTS, QUADRATIC};
use harness::{ALL_LEVELS, Case, Folder, ONE_LEVEL, agree, case, has_compiler, queries};

fn two_classes() -> Output {
    let names = vec![ClassName::Number(1.0), ClassName::Number(-1.0)];
    Output::Classes { names, scheme: Scheme::OneVsOne }
}

/// Machines of one kernel with every kind of output, clouds and sparse supports.
fn machines_of(kernel: &str) -> Vec<(String, Machine)> {
    let mut all = Vec::new();
    for (name, output) in machines::outputs() {
        let domain = parse(kernel).unwrap().domain();
        let supports = generate::within(domain, &generate::sparse(53, 13, 0.5, 3));
        all.push((
            name.to_owned(),
            machines::random(&parse(kernel).unwrap(), &supports, &output, 4),
        ));
    }
    all
}

#[test]
fn exact_answers_of_every_kernel_have_the_same_bits() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("c-exact");
    let mut compared = 0;
    for kernel in generate::kernel_specs() {
        for (number, (name, machine)) in machines_of(kernel).iter().enumerate() {
            // Every kernel with one kind of output; every kind with one kernel.
            if number != 3 && !kernel.starts_with("rbf") {
                continue;
            }
            let queries = queries(machine, 30, 5);
            let plan = Plan::exact(machine);
            let model = machine.clone().into();
            let name = format!("{name} {kernel}");
            let case = Case { name, model, plan, options: QueryOptions::default(), queries };
            let mut text = Vec::new();
            match write_c(&case.model, &case.plan, &case.options, &mut text) {
                Ok(()) => {
                    agree(&case, &folder, ONE_LEVEL);
                    compared += 1;
                }
                Err(error) => {
                    let said = error.to_string();
                    let is_named =
                        ["power_mean", "precomputed"].iter().any(|name| said.contains(name));
                    assert!(is_named && said.contains("C cannot express the kernel"), "{said}");
                }
            }
        }
    }
    assert!(compared > 12, "{compared}");
}

#[test]
fn linear_stages_estimate_alike() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("c-linear");
    let mut calibrated = 0;
    for (name, machine) in machines_of("rbf(gamma=0.2)") {
        let Some(mut case) = with_sample(&name, &machine, "cascade(linear, exact)") else {
            continue;
        };
        agree(&case, &folder, ONE_LEVEL);
        let scale = Scale { slope: 1.25, shift: 0.01, residual_rms: 0.3 };
        let calibration = Calibration {
            threshold: 1.5,
            risk: 0.01,
            delta: 0.05,
            queries: 100,
            disagreements: 0,
            counts: mercer_machine::Counts::Disagreements,
            bound: 0.01,
            scales: vec![scale],
        };
        case.plan = case.plan.calibrated(calibration).unwrap();
        calibrated += agree(&case, &folder, ONE_LEVEL)[1];
        // The budget ends before, between and after the stages.
        let linear =
            13 * if machine.scores().len() == 1 { 1 } else { machine.classes().len() as u64 };
        for budget in [linear - 1, linear, linear + 53 * 13] {
            case.options.budget = Some(budget);
            agree(&case, &folder, ONE_LEVEL);
        }
    }
    assert!(calibrated > 20, "{calibrated}");
}

/// A plan that is fitted to a sample, and its queries.
fn with_sample(name: &str, machine: &Machine, plan: &str) -> Option<Case> {
    with_sample_of(name, machine, plan, &Matrix::clone)
}

fn with_sample_of(
    name: &str,
    machine: &Machine,
    plan: &str,
    moved: &dyn Fn(&Matrix) -> Matrix,
) -> Option<Case> {
    let sample = moved(&generate::sparse(600, machine.columns(), 0.5, 17));
    let target = Target { risk: 0.05, delta: 0.1, ..Target::default() };
    let compiler = Compiler::new(machine).sample(&sample).target(target);
    let sections = compiler.run(&plan.parse().unwrap()).ok()?.sections;
    let plan = Plan::fitted(machine, &sections).unwrap();
    let model = Model { plan: Some(sections), ..machine.clone().into() };
    let name = format!("{name}: {}", plan.spec());
    let queries = queries(machine, 60, 6);
    Some(Case { name, model, plan, options: QueryOptions::default(), queries })
}

/// All cases of a plan over some kernels: one machine of clouds under all flags, one of each kind of output under one.
/// Returns how many answers were certified and how many exact.
fn certified(folder: &Folder, plan: &str, kernels: &[&str]) -> [usize; 2] {
    let mut tally = [0; 2];
    let mut add = |counts: [usize; 4]| {
        tally[0] += counts[2];
        tally[1] += counts[3];
    };
    for (number, kernel) in kernels.iter().enumerate() {
        let machine = trained(kernel, 24, 120, two_classes(), 10);
        if let Some(case) = case("clouds", &machine, plan, queries(&machine, 60, 11)) {
            add(agree(&case, folder, if number == 0 { ALL_LEVELS } else { ONE_LEVEL }));
        }
        for (at, (name, machine)) in machines_of(kernel).iter().enumerate() {
            if number == 0 || number % 5 == at {
                let Some(mut case) = case(name, machine, plan, queries(machine, 40, 12)) else {
                    continue;
                };
                add(agree(&case, folder, ONE_LEVEL));
                if number == 0 {
                    case.options.tolerance = Some(0.05);
                    case.options.budget = Some(700);
                    agree(&case, folder, ONE_LEVEL);
                }
            }
        }
    }
    tally
}

#[test]
fn low_precision_stages_prove_the_same_ranges() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("c-low-precision");
    let kernels = [&PRODUCTS[..], &["sigmoid(gamma=0.05, coef0=-0.2)"]].concat();
    let found = certified(&folder, "cascade(low_precision, exact)", &kernels);
    assert!(found[0] > 300 && found[1] > 30, "{found:?}");
}

#[test]
fn integers_on_a_grid_prove_the_same_ranges() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("c-integers");
    let mut certified = 0;
    for plan in
        ["cascade(low_precision, exact)", "cascade(low_precision(integers=quantised), exact)"]
    {
        for kernel in ["rbf(gamma=0.003)", "polynomial(degree=3, gamma=0.01, coef0=1)", "linear"] {
            // Column 3 is always zero in the supports, and not always in the queries.
            let whole = |count: usize, seed: u64, keeps: bool| {
                let rows = generate::values(&clouds(count, 19, seed));
                let code = |(at, x): (usize, f64)| {
                    if at % 19 == 3 && !keeps {
                        0.0
                    } else {
                        (4.0 * x + 6.0).round().clamp(0.0, 16.0)
                    }
                };
                Matrix::dense(19, rows.into_iter().enumerate().map(code).collect()).unwrap()
            };
            let supports = whole(100, 3, false);
            let machine = machines::random(&parse(kernel).unwrap(), &supports, &two_classes(), 5);
            let mut rows = generate::values(&whole(80, 9, true));
            // Queries beside the grid and beyond its ends.
            rows.extend(generate::values(&clouds(20, 19, 8)));
            rows.extend(generate::values(&whole(10, 10, false)).iter().map(|x| x + 1e-9));
            rows.extend(generate::values(&whole(10, 13, false)).iter().map(|x| x * 300.0));
            let queries = Matrix::dense(19, rows).unwrap();
            let Some(case) = case("grid", &machine, plan, queries) else { continue };
            certified += agree(&case, &folder, &[&["-O2"], &["-O3", "-march=native"]])[2];
        }
    }
    assert!(certified > 200, "{certified}");
}

#[test]
fn spectral_stages_prove_the_same_ranges() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("c-spectral");
    let found = certified(&folder, "cascade(spectral, exact)", &QUADRATIC);
    assert!(found[0] > 200 && found[1] > 20, "{found:?}");
}

#[test]
fn tables_prove_the_same_ranges() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("c-table");
    let mut tally = [0; 4];
    for kernel in ["intersection", "chi2", "jensen_shannon", "hellinger"] {
        for (name, machine) in machines_of(kernel) {
            let Some(case) =
                case(&name, &machine, "cascade(table, exact)", queries(&machine, 60, 7))
            else {
                continue;
            };
            let counts = agree(&case, &folder, ONE_LEVEL);
            tally.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        }
    }
    assert!(tally[2] > 300 && tally[3] > 20, "{tally:?}");
}

#[test]
fn compressed_stages_prove_the_same_ranges() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("c-compressed");
    let kernels = [
        "rbf(gamma=0.01)",
        "rbf(gamma=0.05)",
        "polynomial(degree=2, gamma=1, coef0=1)",
        "normalized(linear)",
    ];
    let found = certified(&folder, "cascade(compressed(20), exact)", &kernels);
    assert!(found[0] > 30 && found[1] > 30, "{found:?}");
}

#[test]
fn projections_step_by_step_prove_the_same_ranges() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("c-anytime");
    let kernels = ["rbf(gamma=0.01)", "polynomial(degree=2, gamma=1, coef0=1)"];
    let found = certified(&folder, "cascade(anytime(steps=60), exact)", &kernels);
    assert!(found[0] > 30 && found[1] > 30, "{found:?}");
}

#[test]
fn students_estimate_alike() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("c-student");
    let mut calibrated = 0;
    for (name, machine) in machines_of("rbf(gamma=0.05)") {
        let plan = "cascade(student(2, 5), student(5, 12), exact)";
        let Some(case) = with_sample(&name, &machine, plan) else { continue };
        calibrated += agree(&case, &folder, ONE_LEVEL)[1];
    }
    assert!(calibrated > 20, "{calibrated}");
}

#[test]
fn centred_and_very_sparse_machines_agree() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("c-centred");
    let (kernel, moved) = (parse("rbf(gamma=0.05)").unwrap(), |x: f64| x + 1e6);
    let far = generate::map(&generate::dense(50, 9, 3), moved);
    let machine = machines::random(&kernel, &far, &two_classes(), 4);
    let plan = "cascade(student(4), compressed(8), anytime(steps=12), low_precision, exact)";
    let move_rows = |rows: &Matrix| generate::map(rows, moved);
    let mut case = with_sample_of("centred", &machine, plan, &move_rows).unwrap();
    assert!(case.plan.exact_stage().packed().is_shifted());
    case.queries = move_rows(&generate::dense(80, 9, 6));
    agree(&case, &folder, ONE_LEVEL);
    // So few values that the supports are kept by column.
    let supports = generate::sparse(70, 90, 0.05, 8);
    let machine = machines::random(&kernel, &supports, &two_classes(), 9);
    for plan in ["cascade(low_precision, exact)", "cascade(compressed(10), exact)"] {
        let queries = generate::sparse(60, 90, 0.1, 10);
        let case = harness::case("very sparse", &machine, plan, queries).unwrap();
        agree(&case, &folder, ONE_LEVEL);
    }
}

#[test]
fn cascades_of_several_stages_agree() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("c-cascades");
    let (_, machine) = machines_of("polynomial(degree=2, gamma=1, coef0=1)").swap_remove(3);
    let plan = "cascade(linear, student(3), compressed(6), spectral, anytime(steps=20), low_precision, exact)";
    let case = with_sample("several", &machine, plan).unwrap();
    let counts = agree(&case, &folder, ALL_LEVELS);
    assert!(counts[2] + counts[1] > 20, "{counts:?}");
}

#[test]
fn scaled_rows_and_adversarial_names_survive() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("c-names");
    let names: Vec<ClassName> = names::ADVERSARIAL
        .iter()
        .filter(|name| !name.contains('\0'))
        .map(|name| ClassName::Text((*name).to_owned()))
        .collect();
    let output = Output::Classes { names, scheme: Scheme::OneVsRest };
    let kernel = parse("rbf(gamma=0.1)").unwrap();
    let machine = machines::random(&kernel, &generate::dense(40, 6, 3), &output, 4);
    let mut case =
        case("names", &machine, "cascade(low_precision, exact)", generate::dense(60, 6, 5))
            .unwrap();
    for scaling in ["standard", "unit_norm", "quantile"] {
        let fitted =
            mercer_data::scale::parse(scaling).unwrap().fit(&generate::dense(50, 6, 8)).unwrap();
        case.model.input.scaling = Some(fitted);
        agree(&case, &folder, ONE_LEVEL);
    }
}

#[test]
fn fast_math_is_refused_by_the_file_itself() {
    if !has_compiler() {
        return;
    }
    let folder = Folder::new("c-fast-math");
    let machine = trained("rbf(gamma=0.1)", 6, 20, two_classes(), 3);
    let mut text = Vec::new();
    let plan = Plan::exact(&machine);
    write_c(&machine.clone().into(), &plan, &QueryOptions::default(), &mut text).unwrap();
    std::fs::write(folder.0.join("model.c"), text).unwrap();
    for flag in [
        "-ffast-math",
        "-ffinite-math-only",
        "-fassociative-math -fno-signed-zeros -fno-trapping-math",
    ] {
        let flags = flag.split(' ');
        let mut compiler = Command::new("cc");
        let made =
            compiler.current_dir(&folder.0).args(flags).args(["-c", "model.c"]).output().unwrap();
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(!made.status.success() && said.contains("#error"), "{flag}: {said}");
    }
}

#[test]
fn stages_without_c_are_refused_by_name() {
    let machine = trained("rbf(gamma=0.1)", 6, 40, two_classes(), 3);
    let case =
        case("refused", &machine, "cascade(projected, exact)", generate::dense(1, 6, 5)).unwrap();
    assert_eq!(stages_without_c(&case.plan).len(), 1);
    let said =
        write_c(&case.model, &case.plan, &case.options, &mut Vec::new()).unwrap_err().to_string();
    assert!(said.starts_with("C cannot express the stage projected"), "{said}");
}
