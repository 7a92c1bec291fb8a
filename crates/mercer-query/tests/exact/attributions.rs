//! Attributions: ranges contain the Shapley values that the definition gives, subset by subset, in double-double arithmetic.

use mercer_data::Matrix;
use mercer_kernel::parse;
use mercer_machine::{Bins, Machine, Output, Score, Spacing};
use mercer_query::{Attribution, Attributor, Plan, QueryError, ScoreChoice};
use mercer_testkit::{Real, Wide, generate, machines, reference};

/// Shapley values of the mean over background rows, from the definition: a weighted sum over all subsets of columns. Also a
/// bound on what the sum itself may be wrong by.
fn enumerated(
    value: impl Fn(&[f64]) -> Wide,
    x: &[f64],
    background: &[Vec<f64>],
) -> Vec<[Wide; 2]> {
    let columns = x.len();
    let rows = Wide::from(background.len() as f64);
    let of_subset = |subset: usize| {
        let mixed = |z: &Vec<f64>| -> Vec<f64> {
            (0..columns).map(|j| if (subset >> j) & 1 == 1 { x[j] } else { z[j] }).collect()
        };
        let sum = background.iter().map(|z| value(&mixed(z))).fold(Wide::ZERO, |sum, v| sum + v);
        sum / rows
    };
    let values: Vec<Wide> = (0..1usize << columns).map(of_subset).collect();
    let factorial = |n: usize| (1..=n).fold(Wide::ONE, |product, k| product * Wide::from(k as f64));
    let largest =
        values.iter().fold(Wide::ZERO, |most, v| if v.abs() > most { v.abs() } else { most });
    (0..columns)
        .map(|j| {
            let without = (0..1usize << columns).filter(|subset| (subset >> j) & 1 == 0);
            let sum = without.fold(Wide::ZERO, |sum, subset| {
                let size = subset.count_ones() as usize;
                let weight = factorial(size) * factorial(columns - size - 1) / factorial(columns);
                sum + weight * (values[subset | (1 << j)] - values[subset])
            });
            [sum, largest * Wide::from(1e-25)]
        })
        .collect()
}

fn check(name: &str, found: &Attribution, truth: &[[Wide; 2]]) {
    for (column, (range, [truth, slack])) in found.ranges.iter().zip(truth).enumerate() {
        let [low, high] = [range.low, range.high].map(|end| {
            let is_open = end.is_infinite();
            if is_open {
                Wide::from(1e300) * Wide::from(1e300) * Wide::from(end.signum())
            } else {
                Wide::from(end)
            }
        });
        let is_inside = low - *slack <= *truth && *truth <= high + *slack;
        let truth = truth.to_dd().to_f64();
        assert!(is_inside, "{name}, column {column}: {truth:e} is outside {range:?}");
        assert!(range.contains(found.values[column]), "{name}: {range:?}");
    }
}

/// Whether a kernel has attributions, by its text.
fn is_attributable(text: &str) -> bool {
    let refused = ["sigmoid", "normalized"];
    let exponential_of_others = text.starts_with("exponential(") && {
        let inner = &text["exponential(".len()..];
        !["linear", "chi2", "intersection", "jensen", "hellinger", "power_mean"]
            .iter()
            .any(|sum| inner.starts_with(sum))
    };
    !refused.iter().any(|name| text.starts_with(name)) && !exponential_of_others
}

#[test]
fn ranges_contain_the_shapley_values_of_the_definition_for_every_kernel_and_scale() {
    let mut compared = 0;
    for text in generate::kernel_specs() {
        let kernel = parse(text).expect("the list holds valid texts");
        let mut cases = generate::ordinary(kernel.domain(), 7);
        let ordinary = cases.len();
        cases.extend(generate::adversarial(kernel.domain(), 8));
        for (number, case) in cases.iter().enumerate() {
            let columns = case.rows.columns();
            if columns > 7 || case.rows.rows() < 8 {
                continue;
            }
            let name = format!("{text}, {}", case.name);
            let supports = case.rows.select(3..8);
            let machine = machines::random(&kernel, &supports, &Output::Value, 5);
            let background = case.rows.select([1, 2]);
            let attributor = Attributor::new(&machine, &background);
            let found = attributor
                .and_then(|all| all.attribute(&case.rows.select([0]), ScoreChoice::Deciding));
            let found = match found {
                Ok(found) if is_attributable(text) => found,
                Err(QueryError::NotFinite { .. }) => continue,
                Err(QueryError::NotAttributable { .. }) if !is_attributable(text) => continue,
                other => panic!("{name}: {other:?}"),
            };
            let Score::Expansion { supports, coefficients, offset } = &machine.scores()[0] else {
                panic!("an expansion")
            };
            let dense: Vec<Vec<f64>> = (0..machine.supports().rows())
                .map(|row| generate::row(machine.supports(), row))
                .collect();
            let value = |x: &[f64]| {
                let named = supports.iter().map(|support| dense[*support as usize].as_slice());
                let terms = named.zip(coefficients.iter().copied());
                reference::weighted_sum::<Wide>(&kernel.spec(), terms, *offset, x)
            };
            let others: Vec<Vec<f64>> = (0..2).map(|row| generate::row(&background, row)).collect();
            let truth = enumerated(value, &generate::row(&case.rows, 0), &others);
            check(&name, &found[0], &truth);
            if number < ordinary {
                let size: f64 = coefficients.iter().map(|beta| beta.abs()).sum();
                let scale = found[0].values.iter().fold(size, |most, value| most.max(value.abs()));
                let width =
                    |column: usize| found[0].ranges[column].high - found[0].ranges[column].low;
                let widest = (0..columns).map(width).fold(0.0, f64::max);
                assert!(widest < 1e-9 * scale, "{name}: ranges are as wide as {widest:e}");
            }
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared} machines were compared");
}

/// Products below the normal range lose digits; coefficients and factors of kernels bring the rest back to ordinary sizes.
#[test]
fn ranges_contain_the_shapley_values_where_products_underflow_and_factors_are_large() {
    let dense = |values: &[f64]| Matrix::dense(2, values.to_vec()).expect("whole rows");
    for (text, [support, x, z], beta) in [
        ("linear", [1e-160, 1.37e-163, 0.3e-163], 1e30),
        ("linear", [1.7e-200, 1e-123, -3e-124], 1e300),
        ("chi2", [7e-324, 3e-323, 1e-323], 1e200),
        ("hellinger", [5e-324, 1e-323, 5e-324], 1e300),
        ("jensen_shannon", [3e-320, 7e-323, 2e-323], 1e300),
        // The quotient of both values underflows, and their term does not.
        ("jensen_shannon", [1e-300, 1e100, 1e50], 1e290),
        ("jensen_shannon", [1e-200, 3.3e120, 1e50], 1e200),
        ("power_mean(p=-2.5)", [3e-320, 7e-323, 2e-323], 1e300),
        ("polynomial(degree=1, gamma=1e20)", [1e-160, 1.37e-163, 0.3e-163], 1e285),
        ("polynomial(degree=2, gamma=1e300, coef0=1)", [1e-160, 1.37e-163, 0.3e-163], 1.0),
        ("polynomial(degree=3, gamma=1e308, coef0=-0.5)", [1e-160, 1.37e-162, 0.3e-163], 1e9),
        ("rbf(gamma=1e300)", [1e-160, 1.37e-161, 0.3e-163], 1e300),
        ("rbf(gamma=1e308)", [3e-162, 1.37e-162, 0.3e-163], 1.0),
        ("laplacian(gamma=1e308)", [3e-320, 1e-320, 2e-323], 1e300),
        ("exponential(chi2, gamma=1e308)", [3e-320, 1e-320, 2e-323], 1.0),
        ("exponential(linear, gamma=1e300)", [1e-160, 1.37e-161, 0.3e-163], 1e300),
        ("exponential(jensen_shannon, gamma=1e308)", [3e-320, 1e-320, 2e-323], 1e300),
    ] {
        let kernel = parse(text).expect("a kernel");
        let supports = dense(&[support, support / 2.0]);
        let scores = vec![Score::expansion(&[beta], 0.0)];
        let machine =
            Machine::new(kernel.clone(), supports, scores, Output::Value).expect("it fits");
        let background = [vec![z, x / 2.0], vec![z / 3.0, x]];
        let attributor = Attributor::new(&machine, &dense(&background.concat())).expect("it fits");
        let row = [x, z];
        let found = attributor.attribute(&dense(&row), ScoreChoice::Deciding).expect("finite");
        let supports = [generate::row(machine.supports(), 0)];
        let value = |x: &[f64]| {
            let terms = supports.iter().map(Vec::as_slice).zip([beta]);
            reference::weighted_sum::<Wide>(&kernel.spec(), terms, 0.0, x)
        };
        check(text, &found[0], &enumerated(value, &row, &background));
    }
}

/// Enough columns that rules leave something out, and that rows share some columns.
#[test]
fn contributions_of_many_columns_add_up_to_the_difference_from_the_background() {
    for text in [
        "rbf(gamma=0.01)",
        "laplacian(gamma=0.02)",
        "exponential(chi2, gamma=0.05)",
        "polynomial(degree=3, gamma=0.01, coef0=1)",
        "chi2",
        "linear",
        "rbf(gamma=5)",
    ] {
        let kernel = parse(text).expect("a kernel");
        for (columns, density) in [(30, 1.0), (300, 1.0), (700, 0.1)] {
            let rows =
                generate::within(kernel.domain(), &generate::sparse(30, columns, density, 3));
            let machine = machines::random(&kernel, &rows.select(0..20), &Output::Novelty, 4);
            let background = rows.select(20..26);
            let attributor = Attributor::new(&machine, &background).expect("it can be attributed");
            let found =
                attributor.attribute(&rows.select(26..30), ScoreChoice::Deciding).expect("finite");
            let plan = Plan::exact(&machine);
            let scores = plan.scores(&background).expect("finite");
            let base = scores.iter().sum::<f64>() / 6.0;
            for (row, attribution) in found.iter().enumerate() {
                assert!((attribution.base - base).abs() < 1e-9 * (1.0 + base.abs()));
                let score = plan.scores(&rows.select([26 + row])).expect("finite")[0];
                assert_eq!(attribution.score, score);
                let sum: f64 = attribution.values.iter().sum();
                let width: f64 =
                    attribution.ranges.iter().map(|range| range.high - range.low).sum();
                // Scores and means are rounded too, by far less than 1e-10 of their terms.
                let (difference, rest) = (score - base, 1e-10 * (1.0 + score.abs() + base.abs()));
                assert!(
                    (sum - difference).abs() <= width + rest,
                    "{text} {columns}: {sum} {difference}"
                );
                assert!(width < 1e-7 * (1.0 + difference.abs()), "{text} {columns}: {width:e}");
            }
        }
    }
}

#[test]
fn linear_and_additive_machines_give_their_own_parts() {
    let kernel = parse("linear").expect("a kernel");
    let none = Matrix::sparse(3, &[0], &[], &[]).expect("no rows");
    let score = Score::Linear { weights: vec![2.0, -1.0, 0.5], offset: 3.0 };
    let machine = Machine::new(kernel.clone(), none, vec![score], Output::Value).expect("it fits");
    let background = Matrix::dense(3, vec![1.0, 1.0, 1.0, 3.0, 1.0, 1.0]).expect("two rows");
    let row = Matrix::dense(3, vec![4.0, 0.0, 1.0]).expect("a row");
    let found = Attributor::new(&machine, &background).expect("it fits");
    let found = &found.attribute(&row, ScoreChoice::Deciding).expect("finite")[0];
    assert_eq!(found.values, [4.0, 1.0, 0.0]);
    assert_eq!((found.score, found.base), (5.5, 0.5));

    let bins = Bins::one_hot(Spacing::Power { top: 2.0, exponent: 1 }, 3).expect("three bins");
    let score = Score::Additive { weights: vec![0.25, 1.0, -2.0, 8.0], offset: 0.0 };
    let machine =
        Machine::additive(kernel, 2, bins.into(), vec![score], Output::Value).expect("it fits");
    let background = Matrix::dense(2, vec![0.0, 1.0, 2.0, 1.0]).expect("two rows");
    let row = Matrix::dense(2, vec![1.0, 2.0]).expect("a row");
    let found = Attributor::new(&machine, &background).expect("it fits");
    let found = &found.attribute(&row, ScoreChoice::Deciding).expect("finite")[0];
    assert_eq!(found.values, [0.25 - 0.5, 8.0 + 2.0]);
}

#[test]
fn the_score_that_is_explained_is_that_of_the_winner_or_of_the_classes_asked_for() {
    let kernel = parse("rbf(gamma=0.3)").expect("a kernel");
    let rows = generate::dense(30, 4, 9);
    for (name, output) in machines::outputs() {
        let machine = machines::random(&kernel, &rows.select(0..20), &output, 4);
        let attributor = Attributor::new(&machine, &rows.select(20..24)).expect("it fits");
        let queries = rows.select(24..30);
        let found = attributor.attribute(&queries, ScoreChoice::Deciding).expect("finite");
        let scores = Plan::exact(&machine).scores(&queries).expect("finite");
        let count = machine.scores().len();
        for (own, scores) in found.iter().zip(scores.chunks_exact(count)) {
            let explained = own.explained;
            let sign = if explained.is_negated { -1.0 } else { 1.0 };
            assert_eq!(own.score, sign * scores[explained.position], "{name}");
            if count > 1 {
                let winner = machine.verdict(scores).answer;
                assert_eq!(
                    winner,
                    mercer_machine::Answer::Class(explained.class.expect("a class"))
                );
            }
        }
        let asked =
            |class, against| attributor.attribute(&queries, ScoreChoice::Class { class, against });
        match name {
            "one-vs-one" => {
                let (one, other) =
                    (asked(3, Some(1)).expect("a pair"), asked(1, Some(3)).expect("a pair"));
                for (one, other) in one.iter().zip(&other) {
                    assert_eq!(one.score, -other.score);
                    assert!(one.values.iter().zip(&other.values).all(|(a, b)| *a == -b));
                }
                assert_eq!(asked(1, None), Err(QueryError::NoScoreOfClass));
                assert_eq!(asked(1, Some(1)), Err(QueryError::NoScoreOfClass));
                assert_eq!(asked(4, Some(1)), Err(QueryError::NoScoreOfClass));
            }
            "one-vs-rest" => {
                assert_eq!(asked(2, None).expect("a class")[0].explained.position, 2);
                assert_eq!(asked(2, Some(1)), Err(QueryError::NoScoreOfClass));
            }
            "two classes" => assert!(asked(1, None).expect("a class")[0].explained.is_negated),
            _ => assert_eq!(asked(0, None), Err(QueryError::NoScoreOfClass)),
        }
    }
}

#[test]
fn attributions_have_the_same_bits_on_any_number_of_threads_and_in_any_batch() {
    let rows = generate::dense(60, 25, 2);
    for text in ["rbf(gamma=0.02)", "polynomial(degree=2)"] {
        let kernel = parse(text).expect("a kernel");
        let machine = machines::random(&kernel, &rows.select(0..40), &Output::Value, 4);
        let attributor = Attributor::new(&machine, &rows.select(40..45)).expect("it fits");
        let queries = rows.select(45..60);
        let on = |threads: usize| {
            let pool =
                rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| attributor.attribute(&queries, ScoreChoice::Deciding)).expect("finite")
        };
        let one = on(1);
        assert_eq!(one, on(3));
        for (row, alone) in one.iter().enumerate() {
            let found = attributor.attribute(&queries.select([row]), ScoreChoice::Deciding);
            assert_eq!(&found.expect("finite")[0], alone);
        }
    }
}

#[test]
fn bad_background_rows_and_kernels_get_a_sentence() {
    let rows = generate::dense(10, 4, 2);
    let kernel = parse("rbf(gamma=1)").expect("a kernel");
    let machine = machines::random(&kernel, &rows, &Output::Value, 4);
    let error = |background: &Matrix| Attributor::new(&machine, background).unwrap_err();
    assert_eq!(error(&rows.select([])), QueryError::NoBackground);
    let expected = QueryError::BackgroundWidth { found: 3, expected: 4 };
    assert_eq!(error(&generate::dense(2, 3, 1)), expected);
    let wide = Attributor::new(&machine, &rows).expect("it fits");
    let expected = QueryError::BackgroundWidth { found: 4, expected: 5 };
    assert_eq!(wide.attribute(&generate::dense(2, 5, 1), ScoreChoice::Deciding), Err(expected));
    for text in ["sigmoid(gamma=0.1)", "normalized(linear)", "polynomial(degree=17)"] {
        let machine = machines::random(&parse(text).expect("a kernel"), &rows, &Output::Value, 4);
        let refused = Attributor::new(&machine, &rows).unwrap_err();
        assert!(matches!(refused, QueryError::NotAttributable { .. }), "{text}: {refused}");
    }
}
