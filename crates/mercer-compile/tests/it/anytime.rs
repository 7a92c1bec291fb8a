//! The stage `anytime`: certificates over every kernel and order, and the traps of the paper's formulas.

use crate::common;
use crate::common::clouds::{clouds, trained};
use mercer_compile::{CompileError, FittingData, Watch, compile, compile_with};
use mercer_data::Matrix;
use mercer_kernel::parse;
use mercer_machine::Array::{F64, U32};
use mercer_machine::{Answer, ClassName, Machine, Output, PlanSections, Scheme, Score};
use mercer_query::{Certainty, LoadError, Plan, PlanTrust, QueryOptions};
use mercer_testkit::properties::certify::{CertifyProperty, Tally};
use mercer_testkit::{generate, machines};

const ORDERS: [&str; 11] = [
    "auto",
    "given",
    "sgma",
    "min_wz",
    "min_wz_n",
    "mean_lh",
    "hybrid",
    "log_gap",
    "stop_count",
    "moved",
    "moved_mean_lh",
];

fn two_classes() -> Output {
    let names = vec![ClassName::Number(1.0), ClassName::Number(-1.0)];
    Output::Classes { names, scheme: Scheme::OneVsOne }
}

fn fit(
    machine: &Machine,
    stage: &str,
    rows: Option<&Matrix>,
) -> Result<PlanSections, CompileError> {
    let plan = format!("cascade({stage}, exact)").parse().unwrap();
    let fitting_data = FittingData { sample: rows, training: rows, ..FittingData::default() };
    compile_with(machine, &plan, fitting_data, Watch::NOBODY)
}

/// All properties of a machine under a stage, unless the stage refuses it, which it may.
fn check(stage: &str, name: &str, machine: &Machine, queries: &Matrix, tally: &mut Tally) {
    common::hold(
        fit(machine, stage, Some(queries)),
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
            let stage = "anytime(order=min_wz, stop=never)";
            check(stage, name, &machine, &rows(8, 5), &mut tally);
        }
    }
    println!("kernels: {tally:?}");
    assert!(tally.pairs > 20_000 && tally.certified > 300, "{tally:?}");
}

#[test]
fn certificates_hold_for_every_order() {
    let mut tally = Tally::default();
    for text in ["rbf(gamma=0.05)", "normalized(polynomial(degree=2, gamma=0.5, coef0=1))"] {
        for order in ORDERS {
            let queries = clouds(24, 6, 11);
            let machine = trained(text, 6, 40, two_classes(), 10);
            for rest in ["", ", stop=never", ", chunk=1", ", clusters=3", ", steps=3"] {
                if rest.contains("clusters") && !["mean_lh", "stop_count"].contains(&order) {
                    continue;
                }
                let stage = format!("anytime(order={order}{rest})");
                let before = tally.certified;
                check(&stage, "clouds", &machine, &queries, &mut tally);
                assert!(tally.certified > before, "{stage} settles nothing");
            }
        }
    }
    println!("orders: {tally:?}");
}

/// Leaves go on from the basis of their parents: the same properties, and constants that are verified.
#[test]
fn certificates_hold_in_every_leaf_of_a_tree() {
    let mut tally = Tally::default();
    let queries = clouds(240, 6, 111);
    for text in ["rbf(gamma=0.3)", "normalized(polynomial(degree=2, gamma=0.5, coef0=1))"] {
        for order in ["given", "min_wz", "min_wz_n", "hybrid", "log_gap"] {
            let machine = trained(text, 6, 40, two_classes(), 110);
            let stage = format!("anytime(order={order}, depth=2, stop=never, chunk=3)");
            let sections = fit(&machine, &stage, Some(&queries)).unwrap();
            let section = &sections.sections[0];
            let parents = section.u32s("parents").unwrap_or_default();
            assert!(parents.len() >= 3, "{stage} under {text} does not split: {parents:?}");
            let few = queries.select(0..40);
            common::hold(
                Ok(sections.clone()),
                common::TestNames { plan: &stage, case: text },
                &machine,
                &few,
                &mut tally,
            );
            let plan = Plan::fitted(&machine, &sections).unwrap();
            let (batch, exact) =
                (plan.decide(&queries).unwrap(), Plan::exact(&machine).decide(&queries).unwrap());
            let mut worker = plan.worker();
            for row in 0..queries.rows() {
                assert_eq!(batch[row].answer, exact[row].answer, "{stage}, row {row}");
                let alone = worker.decide(&queries, row..row + 1, &QueryOptions::default());
                assert_eq!(alone.unwrap()[0], batch[row], "{stage}, row {row}");
            }
            // A bound of the last leaf is as little believed as one of the root.
            for name in ["residual_norms", "defects"] {
                let mut forged = sections.clone();
                let arrays = &mut forged.sections[0].arrays;
                let array = arrays.iter_mut().find(|(other, _)| other == name).unwrap();
                let F64(values) = &mut array.1 else { panic!("{name}") };
                let last = values.iter_mut().rfind(|value| **value > 0.0).unwrap();
                *last *= 0.5;
                let refused = Plan::load(&machine, &forged, PlanTrust::Nothing);
                assert!(matches!(refused, Err(LoadError::NotProved { .. })), "{stage}: {name}");
            }
        }
    }
    println!("trees: {tally:?}");
    assert!(tally.certified > 100, "{tally:?}");
    let machine = trained("rbf(gamma=0.3)", 6, 40, two_classes(), 110);
    let refused = |stage: &str, rows| fit(&machine, stage, rows).unwrap_err().to_string();
    assert!(refused("anytime(depth=2)", None).contains("a tree needs a sample"));
    let both = refused("anytime(depth=2, clusters=3)", Some(&queries));
    assert!(both.contains("neither clusters nor moved"), "{both}");
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
        "polynomial(degree=3, gamma=1e9, coef0=1)",
        "normalized(polynomial(degree=3, gamma=0.5, coef0=1))",
        "normalized(linear)",
        "laplacian(gamma=0.5)",
        "chi2",
        "exponential(intersection, gamma=2)",
    ] {
        let kernel = parse(text).unwrap();
        let mut cases = generate::ordinary(kernel.domain(), 5);
        cases.extend(generate::adversarial(kernel.domain(), 6));
        for case in &cases {
            // The bounds do not know who chose the basis: all orders on some kernels are enough.
            let orders: &[&str] = if text.starts_with("rbf(gamma=1)") || text.starts_with("poly") {
                &["min_wz", "log_gap", "moved", "moved_mean_lh"]
            } else {
                &["min_wz"]
            };
            for order in orders {
                let stage = format!("anytime(order={order}, stop=never)");
                let machine = machines::random(&kernel, &case.rows, &Output::Novelty, 7);
                check(&stage, case.name, &machine, &case.rows, &mut tally);
                // Ordinary supports, strange queries, and no offset behind which errors could hide.
                let supports = generate::dense(12, case.rows.columns(), 8);
                let supports = generate::within(kernel.domain(), &supports);
                let machine =
                    without_offset(&machines::random(&kernel, &supports, &Output::Novelty, 9));
                check(&stage, case.name, &machine, &case.rows, &mut tally);
            }
        }
    }
    println!("adversarial: {tally:?}");
    assert!(tally.pairs > 10_000 && tally.certified > 500, "{tally:?}");
}

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

/// Nearly equal supports with large opposite coefficients; rows far from zero; a tiny gamma with huge
/// coefficients; an unnormalised ninth power: where naive bounds fail.
#[test]
fn certificates_hold_where_much_cancels() {
    let mut tally = Tally::default();
    for text in [
        "rbf(gamma=1)",
        "rbf(gamma=1e-6)",
        "polynomial(degree=2, gamma=1, coef0=1)",
        "polynomial(degree=9, gamma=1, coef0=1)",
        "normalized(polynomial(degree=3, gamma=1, coef0=1))",
    ] {
        let base = generate::values(&generate::dense(12, 8, 31));
        let near: Vec<f64> = base.iter().map(|x| x * (1.0 + 1e-13)).collect();
        for shift in [0.0, 1e3, 1e6] {
            let values = base.iter().chain(&near).map(|x| x + shift).collect();
            let supports = Matrix::dense(8, values).unwrap();
            let betas: Vec<f64> = (0..24).map(|row| if row < 12 { 1e6 } else { -1e6 }).collect();
            let scores = vec![Score::expansion(&betas, 1e-3)];
            let machine =
                Machine::new(parse(text).unwrap(), supports, scores, Output::Novelty).unwrap();
            let queries = generate::map(&generate::dense(20, 8, 32), |x| x + shift);
            for pivot in ["1e-6", "1e-10", "1e-15"] {
                let stage = format!("anytime(order=min_wz, stop=never, pivot={pivot})");
                check(&stage, "near duplicates", &machine, &queries, &mut tally);
                check(&stage, "equal queries", &machine, &queries.select([3; 5]), &mut tally);
            }
        }
    }
    println!("cancelling: {tally:?}");
    assert!(tally.pairs > 5_000, "{tally:?}");
}

/// A machine with `f = 0` everywhere, written so that merging equal supports does not remove it: an even
/// kernel does not tell z from -z.
fn vanishing(columns: usize, half: usize) -> Machine {
    let rows = generate::dense(half, columns, 21);
    let mut values = generate::values(&rows);
    values.extend(generate::values(&rows).iter().map(|x| -x));
    let supports = Matrix::dense(columns, values).unwrap();
    let betas: Vec<f64> = (0..2 * half).map(|row| if row < half { 1.0 } else { -1.0 }).collect();
    let kernel = parse("normalized(polynomial(degree=2, gamma=1, coef0=0))").unwrap();
    Machine::new(kernel, supports, vec![Score::expansion(&betas, 0.0)], two_classes()).unwrap()
}

#[test]
fn scores_that_cancel_are_never_certified() {
    let machine = vanishing(60, 104);
    let queries = generate::dense(208, 60, 22);
    for order in ["given", "min_wz", "moved"] {
        let sections = fit(&machine, &format!("anytime(order={order})"), None);
        let Ok(sections) = sections else { continue };
        let plan = Plan::fitted(&machine, &sections).unwrap();
        let decisions = plan.decide(&queries).unwrap();
        let certified = |d: &&mercer_query::Decision| d.certainty == Certainty::Certified;
        assert_eq!(decisions.iter().filter(certified).count(), 0, "{order}");
    }
}

/// The formulas as printed (eq. 11, 16, 17, 19 to 23, without the jitter of footnote 2): residuals that
/// fall below zero by rounding are taken for zero, and noise is certified.
#[test]
fn the_formulas_as_printed_certify_a_sign_for_all_208_queries_of_a_machine_that_is_zero() {
    let machine = vanishing(60, 104);
    let queries = generate::dense(208, 60, 22);
    let wrong = printed(&machine, &queries);
    assert_eq!(wrong, 208);
}

/// Queries for which the formulas as printed claim a strict sign within all steps.
fn printed(machine: &Machine, queries: &Matrix) -> usize {
    let kernel = machine.kernel();
    let value = |a, b| kernel.value(a, b);
    let supports = machine.supports();
    let Score::Expansion { coefficients: beta, supports: named, offset } = &machine.scores()[0]
    else {
        panic!("an expansion")
    };
    let rows: Vec<_> = named.iter().map(|support| supports.row(*support as usize)).collect();
    let sum = |x| rows.iter().zip(beta).map(|(row, beta)| beta * value(*row, x)).sum::<f64>();
    let (mut basis, mut v): (Vec<usize>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
    let (mut weights, mut rests) = (Vec::new(), Vec::new());
    let mut left: f64 = rows.iter().zip(beta).map(|(row, beta)| beta * sum(*row)).sum();
    let embed = |x, basis: &[usize], v: &[Vec<f64>]| {
        let mut y: Vec<f64> = Vec::new();
        for (z, row) in basis.iter().zip(v) {
            let before: f64 = row.iter().zip(&y).map(|(v, y)| v * y).sum();
            y.push((value(rows[*z], x) - before) / row[y.len()]);
        }
        y
    };
    for at in 0..rows.len() {
        let mut own = embed(rows[at], &basis, &v);
        let pivot = value(rows[at], rows[at]) - own.iter().map(|y| y * y).sum::<f64>();
        if pivot <= 1e-8 {
            continue;
        }
        let before: f64 = own.iter().zip(&weights).map(|(y, w): (&f64, &f64)| y * w).sum();
        let w = (sum(rows[at]) - before) / pivot.sqrt();
        left -= w * w;
        own.push(pivot.sqrt());
        basis.push(at);
        v.push(own);
        weights.push(w);
        rests.push(left.max(0.0).sqrt());
    }
    let claims = |x| {
        let y = embed(x, &basis, &v);
        let (mut f, mut square) = (-offset, value(x, x));
        y.iter().zip(&weights).zip(&rests).any(|((y, w), rest)| {
            f += w * y;
            square -= y * y;
            f64::abs(f) > square.max(0.0).sqrt() * rest
        })
    };
    queries.iter().filter(|x| claims(*x)).count()
}

/// A regression without tolerance settles nothing, so every step is seen.
#[test]
fn a_hundred_thousand_ranges_contain_the_score() {
    let mut tally = Tally::default();
    for (number, kernel) in (0u64..).zip([
        "rbf(gamma=0.05)",
        "rbf(gamma=0.5)",
        "polynomial(degree=3, gamma=0.2, coef0=1)",
        "normalized(polynomial(degree=2, gamma=1, coef0=1))",
    ]) {
        let machine = trained(kernel, 8, 40, Output::Value, 40 + number);
        let queries = clouds(900, 8, 50 + number);
        let sections = fit(&machine, "anytime(order=min_wz, stop=never)", None).unwrap();
        let name = kernel.to_owned();
        let property =
            CertifyProperty { name, machine: &machine, sections: &sections, queries: &queries };
        property.ranges_contain_the_score(&mut tally).unwrap();
    }
    println!("ranges: {tally:?}");
    assert!(tally.pairs >= 100_000, "{tally:?}");
}

#[test]
fn regressions_settle_at_their_tolerance() {
    let machine = trained("rbf(gamma=0.02)", 3, 60, Output::Value, 60);
    let queries = clouds(100, 3, 61);
    let sections = fit(&machine, "anytime", None).unwrap();
    let plan = Plan::fitted(&machine, &sections).unwrap();
    let exact = Plan::exact(&machine).scores(&queries).unwrap();
    let options = QueryOptions { tolerance: Some(0.05), ..QueryOptions::default() };
    let answers = plan.decide_with(&queries, &options).unwrap();
    for (decision, score) in answers.decisions.iter().zip(exact) {
        let Answer::Value(value) = decision.answer else { panic!("a value") };
        assert!((value - score).abs() <= 0.05 * (1.0 + 1e-9), "{decision:?}, exactly {score}");
    }
    assert!(answers.settled_by_stage[0] > 50, "{:?}", answers.settled_by_stage);
}

/// Several classes share one basis, and the label is certified without settling every pairwise classifier.
#[test]
fn several_classes_settle_before_all_their_scores_do() {
    for scheme in [Scheme::OneVsOne, Scheme::OneVsRest] {
        let names = (0..5).map(|n| ClassName::Number(f64::from(n))).collect();
        let output = Output::Classes { names, scheme };
        let kernel = parse("rbf(gamma=0.02)").unwrap();
        let machine = machines::random(&kernel, &clouds(60, 3, 100), &output, 101);
        let mut tally = Tally::default();
        check("anytime", "five classes", &machine, &clouds(60, 3, 102), &mut tally);
        assert!(tally.certified * 2 > tally.asked, "{tally:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_a_sentence() {
    let message = |kernel: &str, stage: &str, rows: Option<&Matrix>| {
        let machine = trained(kernel, 5, 10, two_classes(), 70);
        fit(&machine, stage, rows).unwrap_err().to_string()
    };
    let sigmoid = message("sigmoid(gamma=0.1, coef0=0)", "anytime", None);
    assert!(sigmoid.contains("not known to be positive semidefinite"), "{sigmoid}");
    let negative = message("polynomial(degree=3, gamma=1, coef0=-1)", "anytime", None);
    assert!(negative.contains("not known to be positive semidefinite"), "{negative}");
    assert!(message("rbf(gamma=1)", "anytime(order=hybrid)", None).contains("--sample"));
    assert!(message("rbf(gamma=1)", "anytime(clusters=2)", None).contains("--sample"));
    assert!(message("rbf(gamma=1)", "anytime(order=min_wz_n)", None).contains("--training"));
    assert!(message("rbf(gamma=1)", "anytime(order=best)", None).contains("one of auto"));
    assert!(
        message("laplacian(gamma=1)", "anytime(order=moved)", None).contains("cannot be moved")
    );
    let machine = trained("rbf(gamma=1)", 5, 10, two_classes(), 70);
    let plan = "cascade(anytime, exact)".parse().unwrap();
    let ended =
        compile_with(&machine, &plan, FittingData::default(), Watch::new(&|_| false)).unwrap_err();
    assert_eq!(ended, CompileError::Interrupted);
}

/// A plan survives its file; a damaged section is refused, not trusted.
#[test]
fn plans_come_back_from_files() {
    let own = mercer_machine::file::format("mercer").unwrap();
    let machine = trained("rbf(gamma=0.05)", 4, 30, two_classes(), 80);
    let queries = clouds(40, 4, 81);
    let sections =
        compile(&machine, &"cascade(anytime(clusters=2), exact)".parse().unwrap(), Some(&queries));
    let sections = sections.unwrap();
    let mut model = mercer_machine::Model::from(machine);
    model.plan = Some(sections.clone());
    let bytes = mercer_machine::file::to_bytes(&model, own).unwrap();
    let again = mercer_machine::file::from_bytes(&bytes).unwrap();
    let (before, after) = (Plan::of(&model).unwrap(), Plan::of(&again).unwrap());
    let decisions = before.decide(&queries).unwrap();
    assert_eq!(decisions, after.decide(&queries).unwrap());
    assert!(decisions.iter().any(|decision| decision.certainty == Certainty::Certified));
    for name in sections.sections[0].arrays.iter().map(|(name, _)| name) {
        for damage in 0..3 {
            let mut sections = sections.clone();
            let arrays = &mut sections.sections[0].arrays;
            let array = arrays.iter_mut().find(|(other, _)| other == name).unwrap();
            match (&mut array.1, damage) {
                (F64(values), 0) => values[0] = f64::NAN,
                (F64(values), 1) => drop(values.pop()),
                (U32(values), 0) => values[0] = u32::MAX,
                (U32(values), 1) => drop(values.pop()),
                (array, _) => *array = F64(Vec::new()),
            }
            assert!(Plan::fitted(&again.machine, &sections).is_err(), "{name}, damage {damage}");
        }
    }
}

#[test]
fn the_seed_decides_the_plan() {
    let machine = trained("rbf(gamma=0.1)", 5, 40, two_classes(), 90);
    let rows = clouds(80, 5, 91);
    let make = |seed: u32| fit(&machine, &format!("anytime(order=sgma, seed={seed})"), Some(&rows));
    assert_eq!(make(1).unwrap(), make(1).unwrap());
    assert_ne!(make(1).unwrap().sections[0].arrays, make(2).unwrap().sections[0].arrays);
}
