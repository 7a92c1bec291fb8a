//! Stored plans with damaged numbers are refused or asked without a panic: what a file says is never trusted
//! to be of the right length, inside its bounds, or a number.

use mercer_compile::risk::Target;
use mercer_compile::{Compiler, FITTERS};
use mercer_data::{Matrix, synthetic};
use mercer_machine::{Array, Machine, PlanSections};
use mercer_query::{Plan, QueryOptions};
use mercer_testkit::{generate, machines};
use rand::RngExt;

/// A plan that has the stage, and a kernel it fits.
pub fn plan_of(stage: &str) -> (&'static str, &'static str) {
    match stage {
        "linear" => ("cascade(linear, exact)", "rbf(gamma=0.5)"),
        "student" => ("cascade(student(3), exact)", "rbf(gamma=0.5)"),
        "pca" => ("cascade(pca(2, 4), exact)", "rbf(gamma=0.5)"),
        "landmarks" => ("cascade(landmarks(3, 8), exact)", "rbf(gamma=0.5)"),
        "nearest" => {
            ("nearest(paper, dimensions=3, smoothing=10, tug_of_war=yes)", "rbf(gamma=0.5)")
        }
        "anytime" => ("cascade(anytime, exact)", "rbf(gamma=0.5)"),
        "compressed" => ("cascade(compressed(12), exact)", "rbf(gamma=0.5)"),
        "projected" => ("cascade(projected, exact)", "rbf(gamma=0.5)"),
        "low_precision" => ("cascade(low_precision, exact)", "rbf(gamma=0.5)"),
        "spectral" => ("cascade(spectral, exact)", "polynomial(degree=2, gamma=0.5, coef0=1)"),
        "taylor" => ("cascade(taylor, exact)", "rbf(gamma=0.02)"),
        "monomials" => ("cascade(monomials, exact)", "polynomial(degree=3, gamma=0.5, coef0=1)"),
        "table" => ("cascade(table, exact)", "chi2"),
        other => panic!("no plan is known for the stage '{other}': add one here"),
    }
}

/// Other forms of some stages, which keep other arrays.
const VARIANTS: [&str; 4] = [
    "cascade(anytime(depth=2, order=min_wz), exact)",
    "nearest(paper, dimensions=3, smoothing=10, tug_of_war=no, ordering=kernel_pca)",
    "nearest(paper, dimensions=3, smoothing=10, tug_of_war=no, ordering=fastmap)",
    "cascade(nearest(paper, dimensions=3, smoothing=10, tug_of_war=no, reduced=10), exact)",
];

pub fn rows(count: usize, seed: u64) -> Matrix {
    let mut rng = generate::rng(seed);
    Matrix::dense(5, (0..5 * count).map(|_| synthetic::normal(&mut rng).abs()).collect()).unwrap()
}

/// One number, or the length, of one array of one stage is no longer what was fitted.
pub fn damage(sections: &PlanSections, rng: &mut impl RngExt) -> Option<PlanSections> {
    let mut damaged = sections.clone();
    let filled = damaged.sections.iter_mut().flat_map(|section| &mut section.arrays);
    let mut arrays: Vec<&mut (String, Array)> = filled.collect();
    if arrays.is_empty() {
        return None;
    }
    let which = rng.random_range(0..arrays.len());
    let large = [f64::NAN, f64::INFINITY, -1e300, 1e300, 0.0, -1.0, 1e-300, 4e9, 0.5];
    let number = large[rng.random_range(0..large.len())];
    let bits = rng.random::<u32>() >> rng.random_range(0..32);
    match &mut arrays[which].1 {
        Array::F64(values) => change(values, number, rng),
        Array::F32(values) => change(values, number as f32, rng),
        Array::U32(values) => change(values, bits, rng),
        Array::U8(values) => change(values, bits as u8, rng),
    }
    Some(damaged)
}

fn change<T: Copy>(values: &mut Vec<T>, other: T, rng: &mut impl RngExt) {
    let at = rng.random_range(0..=values.len());
    match rng.random_range(0..6) {
        0 => values.truncate(at),
        1 => values.insert(at, other),
        2 => values.clear(),
        _ if at < values.len() => values[at] = other,
        _ => values.push(other),
    }
}

/// How many damaged plans were refused, out of how many.
fn survive(machine: &Machine, sections: &PlanSections, seed: u64) -> (usize, usize) {
    let mut rng = generate::rng(seed);
    let queries = rows(3, 9);
    let (mut refused, mut count) = (0, 0);
    for _ in 0..400 {
        let Some(damaged) = damage(sections, &mut rng) else { break };
        count += 1;
        match Plan::fitted(machine, &damaged) {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
            Ok(plan) => {
                plan.decide(&queries).unwrap();
                plan.explain(&queries, 0, &QueryOptions::default()).unwrap();
            }
        }
    }
    (refused, count)
}

#[test]
fn damaged_plans_of_every_stage_are_refused_or_asked_without_a_panic() {
    let sample = rows(1500, 2);
    let target = Target { risk: 0.1, delta: 0.1, ..Target::default() };
    let variants = VARIANTS.iter().map(|plan| (*plan, "rbf(gamma=0.5)"));
    let plans = FITTERS.iter().map(|fitter| plan_of(fitter.stage.name)).chain(variants);
    for (seed, (plan, kernel)) in (0..).zip(plans) {
        let kernel = mercer_kernel::parse(kernel).unwrap();
        let mut whole = 0;
        for (name, output) in machines::outputs() {
            let machine = machines::random(&kernel, &rows(40, 1), &output, 3);
            let compiler = Compiler::new(&machine).sample(&sample).target(target);
            // A stage may refuse some kinds of answers; the count below sees that it takes one.
            let Ok(compiled) = compiler.run(&plan.parse().unwrap()) else { continue };
            let (refused, count) = survive(&machine, &compiled.sections, seed);
            println!("{plan} for {name}: {refused} of {count} refused");
            assert!(count == 0 || refused > count / 10, "{plan}: {refused} of {count} refused");
            whole += 1;
        }
        assert!(whole > 0, "{plan}: no kind of machine takes it");
    }
}
