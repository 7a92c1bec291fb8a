//! The properties of exact answers, over every registry entry and every kind of output.

#[path = "exact/attributions.rs"]
mod attributions;
#[path = "exact/c_tables.rs"]
mod c_tables;

use mercer_data::Matrix;
use mercer_kernel::{Domain, KernelRef, parse};
use mercer_machine::{Answer, Input, Machine, Model, Output, Provenance, Score, file};
use mercer_query::{Certainty, Exact, Plan, QueryError};
use mercer_simd::Isa;
use mercer_testkit::{generate, machines, reference};

fn registered() -> impl Iterator<Item = KernelRef> {
    generate::kernel_specs().iter().map(|text| parse(text).expect("the list holds valid texts"))
}

fn rows(domain: Domain, count: usize, columns: usize, density: f64, seed: u64) -> Matrix {
    generate::within(domain, &generate::sparse(count, columns, density, seed))
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn alone(exact: &Exact, queries: &Matrix) -> Vec<u64> {
    let mut scratch = exact.scratch();
    let mut out = vec![0.0; exact.machine().scores().len()];
    let one = |row: usize| {
        exact.scores(std::iter::once(queries.row(row)), &mut scratch, &mut out);
        bits(&out)
    };
    (0..queries.rows()).flat_map(one).collect()
}

#[test]
fn scores_depend_on_machine_and_row_alone() {
    for kernel in registered() {
        for (columns, density) in [(12, 0.8), (70, 0.05)] {
            let supports = rows(kernel.domain(), 101, columns, density, 1);
            let queries = rows(kernel.domain(), 70, columns + 2, density, 2);
            for (name, output) in machines::outputs() {
                let machine = machines::random(&kernel, &supports, &output, 3);
                let what = format!("{} {name}", kernel.spec());
                let plan = Plan::exact(&machine);
                let batch = bits(&plan.scores(&queries).unwrap());
                assert_eq!(batch, bits(&plan.scores(&queries.to_dense()).unwrap()), "{what}");
                for isa in Isa::available() {
                    let exact = Exact::with_isa(&machine, *isa);
                    assert_eq!(batch, alone(&exact, &queries), "{what} on {isa}");
                }
                for threads in [1, 3] {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                    let scores = pool.unwrap().install(|| plan.scores(&queries)).unwrap();
                    assert_eq!(batch, bits(&scores), "{what} on {threads} threads");
                }
            }
        }
    }
}

/// The range of an exact decision contains the score in double-double arithmetic.
#[test]
fn ranges_contain_the_true_score() {
    let mut finite = 0;
    for kernel in registered() {
        let mut cases = generate::ordinary(kernel.domain(), 5);
        cases.extend(generate::adversarial(kernel.domain(), 6));
        for case in cases {
            let machine = machines::random(&kernel, &case.rows, &Output::Value, 7);
            let supports: Vec<Vec<f64>> = (0..machine.supports().rows())
                .map(|row| generate::row(machine.supports(), row))
                .collect();
            let Score::Expansion { supports: named, coefficients, offset } = &machine.scores()[0]
            else {
                panic!("random machines are expansions")
            };
            let mut betas = vec![0.0; supports.len()];
            for (support, beta) in named.iter().zip(coefficients) {
                betas[*support as usize] = *beta;
            }
            let decisions = match Plan::exact(&machine).decide(&case.rows) {
                Ok(decisions) => decisions,
                Err(QueryError::NotFinite { .. }) => continue,
                Err(other) => panic!("{}: {other}", kernel.spec()),
            };
            for (row, decision) in decisions.iter().enumerate() {
                let x = generate::row(&case.rows, row);
                let truth = reference::expansion(&kernel.spec(), &supports, &betas, *offset, &x);
                let range = decision.range;
                let inside = truth.hi >= range.low && truth.hi <= range.high;
                let what = format!("{} on {}, row {row}", kernel.spec(), case.name);
                assert!(inside, "{what}: {:e} outside {range:?}", truth.hi);
                assert_eq!(decision.certainty, Certainty::Exact);
                finite += usize::from(range.high - range.low < 1e-6);
            }
        }
    }
    // A test of ranges that are all infinite would prove nothing.
    assert!(finite > 1000, "only {finite} narrow ranges");
}

#[test]
fn a_saved_machine_has_the_same_bits() {
    let own = file::format("mercer").unwrap();
    for kernel in registered() {
        let supports = rows(kernel.domain(), 40, 9, 0.7, 8);
        let queries = rows(kernel.domain(), 20, 9, 0.7, 9);
        for (name, output) in machines::outputs() {
            let machine = machines::random(&kernel, &supports, &output, 10);
            let before = Plan::exact(&machine).scores(&queries).unwrap();
            let model = wrap(machine);
            let again = file::from_bytes(&file::to_bytes(&model, own).unwrap()).unwrap();
            let after = Plan::exact(&again.machine).scores(&queries).unwrap();
            assert_eq!(bits(&before), bits(&after), "{} {name}", kernel.spec());
        }
    }
}

/// LIBSVM text keeps every label of every machine that it can express, shifted data included.
#[test]
fn libsvm_text_keeps_every_label() {
    let text = file::format("libsvm").unwrap();
    let mut kept = 0;
    for kernel in registered() {
        for shift in [0.0, 1e3, 1e6] {
            let near = generate::within(kernel.domain(), &generate::dense(60, 6, 11));
            let supports = generate::map(&near, |x| x + shift);
            let queries = generate::map(&generate::dense(50, 6, 12), |x| x.abs() + shift);
            for (name, output) in machines::outputs() {
                let machine = machines::random(&kernel, &supports, &output, 13);
                let model = wrap(machine.clone());
                let Ok(bytes) = file::to_bytes(&model, text) else { continue };
                let again = file::from_bytes(&bytes).unwrap();
                let decide = |machine: &Machine| match Plan::exact(machine).decide(&queries) {
                    Ok(decisions) => decisions,
                    Err(QueryError::NotFinite { .. }) => Vec::new(),
                    Err(other) => panic!("{}: {other}", kernel.spec()),
                };
                let (before, after) = (decide(&machine), decide(&again.machine));
                assert_eq!(before.len(), after.len());
                for (a, b) in before.iter().zip(&after) {
                    // Supports may come back in another order, so the bits of a value may change, but
                    // both ranges contain the one true score.
                    let same = match (a.answer, b.answer) {
                        (Answer::Value(_), Answer::Value(_)) => {
                            a.range.low <= b.range.high && b.range.low <= a.range.high
                        }
                        (a, b) => a == b,
                    };
                    assert!(same, "{} {name} shifted by {shift}: {a:?} {b:?}", kernel.spec());
                    kept += 1;
                }
            }
        }
    }
    assert!(kept > 1000, "only {kept} labels compared");
}

fn wrap(machine: Machine) -> Model {
    let (input, provenance) = (Input::default(), Provenance::default());
    Model { input, provenance, ..Model::from(machine) }
}

#[test]
fn overflow_and_negative_histograms_are_errors_that_name_the_row() {
    let kernel = parse("polynomial(degree=9, gamma=1, coef0=1)").unwrap();
    let machine = machines::random(&kernel, &generate::dense(5, 3, 1), &Output::Novelty, 2);
    let queries = Matrix::dense(3, vec![1.0, 0.0, 0.0, 1e50, 1e50, 1e50]).unwrap();
    let error = Plan::exact(&machine).decide(&queries).unwrap_err();
    assert!(matches!(error, QueryError::NotFinite { row: 2, .. }), "{error}");
    let chi2 = parse("chi2").unwrap();
    let supports = generate::within(Domain::NonNegative, &generate::dense(5, 3, 1));
    let machine = machines::random(&chi2, &supports, &Output::Novelty, 2);
    let queries = Matrix::dense(3, vec![1.0, 0.0, 0.0, 1.0, -2.0, 0.0]).unwrap();
    let error = Plan::exact(&machine).decide(&queries).unwrap_err();
    assert_eq!(error.to_string(), "row 2 holds -2 in column 2; chi2 needs values of at least 0");
}

#[test]
fn machines_without_supports_answer_with_their_offset() {
    let kernel = parse("rbf(gamma=1)").unwrap();
    let supports = Matrix::dense(2, vec![]).unwrap();
    let scores = vec![Score::expansion(&[], 0.5)];
    let machine = Machine::new(kernel, supports, scores, Output::Value).unwrap();
    let decisions = Plan::exact(&machine).decide(&generate::dense(3, 2, 1)).unwrap();
    assert!(decisions.iter().all(|decision| decision.answer == Answer::Value(-0.5)));
}

/// A machine of tables: scores by the definition, the same for dense and sparse rows, and whether the
/// tables fit in memory unfolded or not.
#[test]
fn tables_are_read_as_they_are_defined() {
    use mercer_machine::{Bins, ClassName, Scheme, Spacing};
    use std::sync::Arc;
    let wave = |n: usize| ((n * 37 % 101) as f32 / 50.0 - 1.0) / 3.0;
    for (columns, rank) in [(5usize, 4usize), (40_000, 1)] {
        let mut factors: Vec<f32> = (0..256 * rank).map(wave).collect();
        factors[..rank].fill(0.0);
        let scale = Spacing::Power { top: 2.0, exponent: 2 };
        let grid = Arc::new(Bins::new(scale, rank, factors).unwrap());
        let table = |k: usize| Score::Additive {
            weights: (0..columns * rank).map(|n| wave(n + k)).collect(),
            offset: k as f64 / 7.0,
        };
        let names = (0..3).map(|n| ClassName::Number(f64::from(n))).collect();
        let output = Output::Classes { names, scheme: Scheme::OneVsRest };
        let kernel = mercer_kernel::parse("chi2").unwrap();
        let scores = (0..3).map(table).collect();
        let machine = Machine::additive(kernel, columns, grid.clone(), scores, output).unwrap();
        let width = columns.min(50);
        let values: Vec<f64> =
            (0..20 * width).map(|n| if n % 3 == 0 { 0.0 } else { (n % 17) as f64 / 7.0 }).collect();
        let dense = Matrix::dense(width, values).unwrap();
        let plan = Plan::exact(&machine);
        let scores = plan.scores(&dense).unwrap();
        assert_eq!(scores, plan.scores(&dense.to_sparse()).unwrap());
        for (row, scores) in dense.iter().zip(scores.chunks_exact(3)) {
            for (number, score) in scores.iter().enumerate() {
                let Score::Additive { weights, offset } = &machine.scores()[number] else {
                    panic!()
                };
                let entry = |(column, x): (u32, f64)| {
                    let at = column as usize * rank;
                    grid.dot(&weights[at..at + rank], grid.bin(column as usize, x))
                };
                let naive = row.nonzeros().map(entry).sum::<f64>() - offset;
                assert!((naive - score).abs() < 1e-12, "{naive} {score}");
            }
        }
        let decisions = plan.decide(&dense).unwrap();
        assert!(decisions.iter().all(|decision| decision.certainty == Certainty::Exact));
        assert!(machine.clamped(&dense) > 0);
        let negative = Matrix::dense(width, vec![-1.0; width]).unwrap();
        assert!(plan.decide(&negative).is_err());
    }
}
