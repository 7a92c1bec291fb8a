//! The properties of certificates for `low_precision` in integers: machines on a grid; queries on it, near it,
//! off it and beyond it.

use mercer_compile::{CompileError, compile};
use mercer_data::Matrix;
use mercer_kernel::parse;
use mercer_machine::{Array, ClassName, Machine, Output, PlanSections, Scheme, Score};
use mercer_query::Plan;
use mercer_testkit::properties::certify::{CertifyProperty, Tally};
use mercer_testkit::{generate, machines};

const PLAN: &str = "cascade(low_precision, exact)";

const KERNELS: [&str; 13] = [
    "rbf(gamma=0.02)",
    "rbf(gamma=1)",
    "rbf(gamma=1e-9)",
    "rbf(gamma=1e9)",
    "linear",
    "polynomial(degree=2, gamma=0.1, coef0=1)",
    "polynomial(degree=9, gamma=0.1, coef0=2)",
    "polynomial(degree=5, gamma=0.3, coef0=-1)",
    "normalized(polynomial(degree=3, gamma=0.5, coef0=1))",
    "normalized(linear)",
    "sigmoid(gamma=0.05, coef0=0.1)",
    "sigmoid(gamma=-3, coef0=0)",
    "sigmoid(gamma=1e9, coef0=-1)",
];

/// Where the values of a case lie.
#[derive(Debug, Clone, Copy)]
struct Points {
    name: &'static str,
    step: f64,
    base: f64,
}

const POINTS: [Points; 6] = [
    Points { name: "pixels", step: 1.0 / 255.0, base: 0.0 },
    Points { name: "counts", step: 1.0, base: 0.0 },
    Points { name: "shifted", step: 2.0 / 255.0, base: -1.0 },
    Points { name: "far from zero", step: 0.5, base: 1e6 },
    Points { name: "tiny", step: 1e-9, base: 0.0 },
    Points { name: "huge", step: 1e9, base: -1e10 },
];

/// Codes with many zeros, in two groups by row.
fn codes(rows: usize, columns: usize, seed: u64) -> Vec<u8> {
    let noise = generate::values(&generate::dense(rows, columns, seed));
    let code = |(at, x): (usize, f64)| {
        let (row, column) = (at / columns, at % columns);
        let level = if row % 2 == column % 2 { 60.0 } else { 20.0 };
        if x < -0.2 { 0 } else { (level + 90.0 * x).clamp(0.0, 255.0) as u8 }
    };
    noise.into_iter().enumerate().map(code).collect()
}

fn on(points: Points, codes: &[u8]) -> Vec<f64> {
    codes.iter().map(|code| points.base + points.step * f64::from(*code)).collect()
}

/// As text with a few digits leaves them.
fn rounded(values: Vec<f64>, step: f64) -> Vec<f64> {
    values.into_iter().map(|x| (x / step * 1e5).round() / 1e5 * step).collect()
}

/// A third on the grid, a third near it, a third off it or beyond it.
fn mixed(points: Points, rows: usize, columns: usize, seed: u64) -> Matrix {
    let mut values = on(points, &codes(rows, columns, seed));
    for (row, values) in values.chunks_mut(columns).enumerate() {
        match row % 6 {
            0 | 1 => {}
            2 | 3 => values.iter_mut().for_each(|x| *x += 3e-5 * points.step),
            4 => values[row % columns] += 0.4 * points.step,
            _ => values[row % columns] = points.base - 7.0 * points.step,
        }
    }
    Matrix::dense(columns, values).unwrap()
}

fn sections(machine: &Machine) -> Option<PlanSections> {
    match compile(machine, &PLAN.parse().unwrap(), None) {
        Ok(sections) => Some(sections),
        Err(CompileError::Unfit { .. } | CompileError::Load(_)) => None,
        Err(other) => panic!("{other}"),
    }
}

fn check(name: &str, machine: &Machine, queries: &Matrix, tally: &mut Tally) {
    let Some(sections) = sections(machine) else { return };
    let array = sections.sections[0].array("grid");
    assert!(array.is_some(), "{name}: no grid was found");
    let name = format!("{} on {name}", machine.kernel().spec());
    let property = CertifyProperty { name, machine, sections: &sections, queries };
    property.ranges_contain_the_score(tally).unwrap();
    property.answers_are_exact_and_alike(tally).unwrap();
    property.budgets_are_kept().unwrap();
    property.thresholds_are_decided().unwrap();
}

/// Panels have other shapes on other instruction sets and for other widths; sums must not know it. Several tiles of
/// rows, and more queries than a tile holds.
#[test]
fn wide_machines_answer_alike_on_every_instruction_set() {
    for columns in [480, 560, 700] {
        for output in [Output::Novelty, ten_classes()] {
            let points = POINTS[0];
            let supports = Matrix::dense(columns, on(points, &codes(1100, columns, 41))).unwrap();
            let kernel = parse("rbf(gamma=0.02)").unwrap();
            let machine = machines::random(&kernel, &supports, &output, 42);
            let queries = Matrix::dense(columns, on(points, &codes(70, columns, 43))).unwrap();
            let (sections, mut tally) = (sections(&machine).unwrap(), Tally::default());
            let name = format!("{columns} columns");
            let property =
                CertifyProperty { name, machine: &machine, sections: &sections, queries: &queries };
            property.answers_are_exact_and_alike(&mut tally).unwrap();
            assert!(tally.certified * 2 > tally.asked, "{tally:?}");
        }
    }
}

fn ten_classes() -> Output {
    let names = (0..10).map(|n| ClassName::Number(f64::from(n))).collect();
    Output::Classes { names, scheme: Scheme::OneVsOne }
}

#[test]
fn certificates_hold_on_and_off_the_grid() {
    let mut tally = Tally::default();
    for kernel in KERNELS {
        let kernel = parse(kernel).unwrap();
        for points in POINTS {
            let supports = Matrix::dense(15, on(points, &codes(70, 15, 1))).unwrap();
            let machine = machines::random(&kernel, &supports, &Output::Novelty, 2);
            check(points.name, &machine, &mixed(points, 36, 15, 3), &mut tally);
        }
        let points = POINTS[0];
        let text = rounded(on(points, &codes(70, 15, 1)), points.step);
        let supports = Matrix::dense(15, text).unwrap();
        let machine = machines::random(&kernel, &supports, &Output::Novelty, 4);
        check("text", &machine, &mixed(points, 36, 15, 5), &mut tally);
        // Queries wider than the machine, and narrower.
        check("wide", &machine, &mixed(points, 12, 19, 6), &mut tally);
        check("narrow", &machine, &mixed(points, 12, 7, 7), &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.pairs > 3000 && tally.certified * 2 > tally.asked, "{tally:?}");
}

#[test]
fn certificates_hold_for_sparse_rows_and_several_classes() {
    let mut tally = Tally::default();
    for kernel in KERNELS {
        let kernel = parse(kernel).unwrap();
        for (name, output) in machines::outputs() {
            let whole = |x: f64| (x.abs() * 60.0).min(255.0).round() / 16.0;
            let supports = generate::map(&generate::sparse(230, 24, 0.4, 8), whole);
            let queries = generate::map(&generate::sparse(20, 27, 0.4, 9), whole);
            let machine = machines::random(&kernel, &supports, &output, 10);
            check(name, &machine, &queries, &mut tally);
            // Zeros in the middle of the grid.
            let signed = |x: f64| (x * 40.0).clamp(-120.0, 120.0).round() / 8.0;
            let supports = generate::map(&generate::sparse(50, 24, 0.4, 11), signed);
            let queries = generate::map(&generate::sparse(12, 27, 0.4, 12), signed);
            let machine = machines::random(&kernel, &supports, &output, 13);
            check(name, &machine, &queries, &mut tally);
        }
    }
    println!("{tally:?}");
    assert!(tally.certified * 3 > tally.asked, "{tally:?}");
}

/// `f = 0` everywhere, from supports that differ and values that do not.
#[test]
fn scores_that_cancel_are_never_certified() {
    for text in
        ["polynomial(degree=2, gamma=0.1, coef0=0)", "polynomial(degree=4, gamma=0.1, coef0=0)"]
    {
        let half: Vec<f64> = codes(15, 9, 21).iter().map(|code| f64::from(code % 100)).collect();
        let values = half.iter().copied().chain(half.iter().map(|x| -x)).collect();
        let supports = Matrix::dense(9, values).unwrap();
        let betas: Vec<f64> = (0..30).map(|row| if row < 15 { 1e3 } else { -1e3 }).collect();
        let names = vec![ClassName::Number(1.0), ClassName::Number(-1.0)];
        let output = Output::Classes { names, scheme: Scheme::OneVsOne };
        let scores = vec![Score::expansion(&betas, 0.0)];
        let machine = Machine::new(parse(text).unwrap(), supports, scores, output).unwrap();
        let queries: Vec<f64> = codes(40, 9, 22).iter().map(|code| f64::from(code % 90)).collect();
        let mut tally = Tally::default();
        check("cancelling", &machine, &Matrix::dense(9, queries).unwrap(), &mut tally);
        assert_eq!(tally.certified, 0, "{text}");
    }
}

/// Opposite coefficients on supports one step apart, and coefficients of very different sizes.
#[test]
fn certificates_hold_where_much_cancels() {
    let mut tally = Tally::default();
    for kernel in KERNELS {
        for size in [1e-200, 1.0, 1e12, 1e200] {
            let base = codes(20, 8, 31);
            let near = base.iter().map(|code| code.saturating_add(1));
            let all: Vec<u8> = base.iter().copied().chain(near).collect();
            let supports = Matrix::dense(8, on(POINTS[0], &all)).unwrap();
            let beta = |row: usize| match row {
                0..20 => size,
                20..39 => -size,
                _ => size * 1e-30,
            };
            let betas: Vec<f64> = (0..40).map(beta).collect();
            let scores = vec![Score::expansion(&betas, size * 1e-3)];
            let kernel = parse(kernel).unwrap();
            let machine = Machine::new(kernel, supports, scores, Output::Novelty).unwrap();
            check("near duplicates", &machine, &mixed(POINTS[0], 12, 8, 32), &mut tally);
        }
    }
    println!("{tally:?}");
}

#[test]
fn a_hundred_thousand_ranges_of_integers_contain_the_score() {
    let mut tally = Tally::default();
    let kernels = ["rbf(gamma=0.05)", "rbf(gamma=3)", "polynomial(degree=3, gamma=0.2, coef0=1)"];
    for (number, kernel) in (0u64..).zip(kernels) {
        let supports = Matrix::dense(20, on(POINTS[0], &codes(20, 20, 90 + number))).unwrap();
        let machine = machines::random(&parse(kernel).unwrap(), &supports, &Output::Value, 91);
        let queries = mixed(POINTS[0], 40_000, 20, 95 + number);
        let sections = sections(&machine).expect("a kernel that the stage takes");
        let name = kernel.to_owned();
        let property =
            CertifyProperty { name, machine: &machine, sections: &sections, queries: &queries };
        property.ranges_contain_the_score(&mut tally).unwrap();
    }
    assert!(tally.pairs >= 100_000, "{tally:?}");
}

#[test]
fn grids_in_files_are_checked() {
    let supports = Matrix::dense(15, on(POINTS[0], &codes(20, 15, 41))).unwrap();
    let kernel = parse("rbf(gamma=1)").unwrap();
    let machine = machines::random(&kernel, &supports, &Output::Novelty, 42);
    let good = sections(&machine).expect("a kernel that the stage takes");
    assert!(Plan::fitted(&machine, &good).is_ok());
    let arrays = [
        vec![0.1, 0.0],
        vec![1.0 / 255.0, 1e300],
        vec![f64::NAN, 0.0],
        vec![0.0, 0.0],
        vec![1.0 / 255.0],
        vec![],
    ];
    for array in arrays {
        let mut bad = good.clone();
        bad.sections[0].arrays[0].1 = Array::F64(array.clone());
        let error = Plan::fitted(&machine, &bad).unwrap_err().to_string();
        assert!(error.contains("grid"), "{array:?}: {error}");
    }
}

/// Values on no grid, rounded to bytes when that is asked for: ranges hold, and some labels are proved.
#[test]
fn quantised_integers_hold_off_the_grid() {
    let mut tally = Tally::default();
    for kernel in KERNELS {
        for (name, output) in machines::outputs() {
            for (columns, size) in [(3, 1.0), (9, 1e-3), (20, 50.0)] {
                let kernel = parse(kernel).unwrap();
                let supports = generate::map(&generate::sparse(30, columns, 0.8, 71), |x| size * x);
                let machine = machines::random(&kernel, &supports, &output, 72);
                let plan = "cascade(low_precision(integers=quantised), exact)".parse().unwrap();
                let sections = match compile(&machine, &plan, None) {
                    Ok(sections) => sections,
                    Err(CompileError::Unfit { .. } | CompileError::Load(_)) => continue,
                    Err(other) => panic!("{other}"),
                };
                // Some lie beyond the ends of the bytes.
                let queries = generate::sparse(40, columns + 1, 0.8, 73);
                let queries = generate::map(&queries, |x| size * x);
                let name = format!("{name}, {columns} columns");
                let (machine, sections) = (&machine, &sections);
                let property = CertifyProperty { name, machine, sections, queries: &queries };
                property.ranges_contain_the_score(&mut tally).unwrap();
                property.answers_are_exact_and_alike(&mut tally).unwrap();
                property.budgets_are_kept().unwrap();
                property.thresholds_are_decided().unwrap();
            }
        }
    }
    println!("quantised: {tally:?}");
    assert!(tally.certified * 10 > tally.asked && tally.pairs > 10_000, "{tally:?}");
}

#[test]
fn low_precision_has_one_parameter() {
    let kernel = parse("rbf(gamma=1)").unwrap();
    let machine = machines::random(&kernel, &generate::dense(10, 3, 1), &Output::Novelty, 2);
    let wrong_words = [("low_precision(3)", "not '3'"), ("low_precision(integers=no)", "not 'no'")];
    let expected = wrong_words.map(|(text, given)| {
        (text, format!("low_precision: 'integers' must be one of on_grid, quantised, {given}"))
    });
    let unknown = "low_precision has no parameter 'bits'; it takes integers".to_owned();
    for (text, message) in expected.into_iter().chain([("low_precision(bits=4)", unknown)]) {
        let plan = format!("cascade({text}, exact)").parse().unwrap();
        let error = compile(&machine, &plan, None).unwrap_err().to_string();
        assert!(error.contains(&message), "{error}");
    }
}
