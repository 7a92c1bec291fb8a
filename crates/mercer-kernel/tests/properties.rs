//! Properties of every registered kernel; the properties themselves are in `mercer-testkit`.

use mercer_data::Matrix;
use mercer_kernel::{Domain, Form, KernelRef, bound, parse};
use mercer_simd::Isa;
use mercer_testkit::generate::{self, Case};
use mercer_testkit::properties::block::{BlockProperty, SIZES};
use mercer_testkit::properties::kernels::{self, Accuracy, Verdict};
use mercer_testkit::{Real, Wide, reference};

fn registered() -> impl Iterator<Item = KernelRef> {
    generate::kernel_specs().iter().map(|text| parse(text).expect("the list holds valid texts"))
}

fn cases(domain: Domain) -> Vec<Case> {
    let mut cases = generate::ordinary(domain, 11);
    cases.extend(generate::adversarial(domain, 12));
    cases
}

/// Collects every failure, so that one run shows them all.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    fn note(&mut self, case: &str, verdict: Verdict) {
        if let Err(what) = verdict {
            self.0.push(format!("[{case}] {what}"));
        }
    }

    fn report(self) {
        assert!(self.0.is_empty(), "{} failures:\n{}", self.0.len(), self.0.join("\n"));
    }
}

fn everywhere(property: impl Fn(&KernelRef, &Matrix) -> Verdict) {
    let mut failures = Failures::default();
    for kernel in registered() {
        for case in cases(kernel.domain()) {
            failures.note(case.name, property(&kernel, &case.rows));
        }
    }
    failures.report();
}

#[test]
fn values_are_symmetric() {
    everywhere(kernels::symmetry);
}

#[test]
fn dense_and_sparse_rows_have_the_same_bits() {
    everywhere(kernels::storage);
}

#[test]
fn printed_kernels_are_the_same_kernels() {
    everywhere(kernels::round_trip);
}

#[test]
fn gram_matrices_are_semidefinite_where_claimed() {
    everywhere(kernels::semidefinite);
    let mut failures = Failures::default();
    for kernel in registered() {
        let rows = generate::within(kernel.domain(), &generate::dense(30, 4, 21));
        failures.note("30 rows", kernels::semidefinite(&kernel, &rows));
    }
    failures.report();
}

#[test]
fn values_lie_within_their_bounds() {
    let mut failures = Failures::default();
    for kernel in registered() {
        let mut summary = Accuracy::default();
        for case in cases(kernel.domain()) {
            match kernels::accuracy(&kernel, &case.rows, None) {
                Ok(seen) => summary = summary.join(seen),
                Err(what) => failures.note(case.name, Err(what)),
            }
        }
        println!("{}: {summary:?}", kernel.spec());
    }
    failures.report();
}

#[test]
fn centred_values_lie_within_their_bounds() {
    let mut failures = Failures::default();
    for kernel in registered().filter(is_shift) {
        for case in cases(kernel.domain()) {
            let centre = kernels::mean(&case.rows);
            let seen = kernels::accuracy(&kernel, &case.rows, Some(&centre));
            failures.note(case.name, seen.map(|_| ()));
        }
    }
    failures.report();
}

#[test]
fn normalized_values_of_subnormal_squares_lie_within_their_bounds() {
    let kernel = parse("normalized(linear)").expect("a valid text");
    for seed in 0..100 {
        let rows = generate::map(&generate::dense(6, 3, seed), |x| x * 2e-162);
        kernels::accuracy(&kernel, &rows, None).unwrap();
    }
}

#[test]
fn normalized_powers_lie_within_their_bounds_where_inner_values_leave_the_range_of_numbers() {
    for (text, scale) in [
        ("normalized(polynomial(degree=20, gamma=1, coef0=0))", 1e-8),
        ("normalized(polynomial(degree=100, gamma=1, coef0=0))", 0.01),
        ("normalized(polynomial(degree=100, gamma=1, coef0=0))", 1e60),
        ("normalized(polynomial(degree=2, gamma=1e-160, coef0=0))", 1.0),
        ("normalized(polynomial(degree=2, gamma=1e160, coef0=1e10))", 1.0),
        ("normalized(polynomial(degree=30, gamma=1, coef0=1e-20))", 1e-7),
        ("normalized(linear)", 1e-110),
        ("normalized(normalized(polynomial(degree=20, gamma=1, coef0=0)))", 1e-8),
    ] {
        let kernel = parse(text).expect("a valid text");
        for seed in 0..10 {
            let rows = generate::map(&generate::dense(6, 3, seed), |x| x * scale);
            let seen = kernels::accuracy(&kernel, &rows, None).unwrap();
            assert_eq!(seen.unbounded, 0, "{text}");
            kernels::symmetry(&kernel, &rows).unwrap();
            kernels::storage(&kernel, &rows).unwrap();
            // Of one level the error is small, not only bounded.
            let (u, v) = (rows.row(0), rows.row(1));
            let error = kernels::error_bound(&kernel, u, v, rows.columns(), false);
            assert!(error < 1e-11 || text.starts_with("normalized(norm"), "{text}: {error:e}");
        }
    }
}

#[test]
fn terms_at_the_ends_of_the_range_of_numbers_lie_within_their_bounds() {
    let ends = [5e-324, 1e-310, 1e-300, 1e-160, 1.0, 1e160, 1e307];
    let values: Vec<f64> = ends.iter().flat_map(|a| ends.map(|b| [*a, b])).flatten().collect();
    let rows = Matrix::dense(2, values).expect("finite values");
    for text in [
        "chi2",
        "hellinger",
        "jensen_shannon",
        "intersection",
        "power_mean(p=-0.01)",
        "power_mean(p=-2)",
    ] {
        kernels::accuracy(&parse(text).expect("a valid text"), &rows, None).unwrap();
    }
    // An exponent whose product with a logarithm underflows gives the limit, the geometric mean.
    let geometric = parse("hellinger").expect("a valid text");
    for text in ["power_mean(p=-5e-324)", "power_mean(p=5e-324)", "power_mean(p=-1e-26)"] {
        let kernel = parse(text).expect("a valid text");
        for (u, v) in rows.iter().zip(rows.iter().skip(1)) {
            assert_eq!(kernel.value(u, v), geometric.value(u, v), "{text}");
        }
    }
    // The sum of both is not finite, but their harmonic mean is.
    let chi2 = parse("chi2").expect("a valid text");
    let largest = Matrix::dense(1, vec![f64::MAX, f64::MAX]).expect("finite values");
    assert_eq!(chi2.value(largest.row(0), largest.row(1)), f64::MAX);
    // A distance that overflows is not a large one where gamma is small.
    let laplacian = parse("laplacian(gamma=1e-309)").expect("a valid text");
    let far = Matrix::dense(2, vec![1e308, 1e308, -1e308, 0.0]).expect("finite values");
    assert!(laplacian.value(far.row(0), far.row(1)).is_nan());
}

#[test]
fn power_means_of_far_numbers_lie_within_their_bounds() {
    let rows = Matrix::dense(1, vec![1e-175, 1e150]).expect("two finite values");
    for text in ["power_mean(p=-0.001)", "power_mean(p=-0.1)", "power_mean(p=0.01)"] {
        let kernel = parse(text).expect("a valid text");
        kernels::accuracy(&kernel, &rows, None).unwrap();
    }
}

/// Rows of one column, between 1 and 2.
fn single_numbers(count: usize) -> Matrix {
    generate::map(&generate::dense(count, 1, 51), |x| 1.0 + x.abs().fract())
}

#[test]
fn single_terms_and_exponentials_lie_within_their_bounds() {
    // One column: nothing but the roundings of the term, or of the exponential of a small number.
    for text in ["chi2", "hellinger", "jensen_shannon", "rbf(gamma=1e-3)", "laplacian(gamma=1e-3)"]
    {
        let kernel = parse(text).expect("a valid text");
        let seen = kernels::accuracy(&kernel, &single_numbers(120), None).unwrap();
        assert_eq!(seen.unbounded, 0, "{text}");
    }
}

#[test]
fn sums_whose_roundings_all_go_up_lie_within_their_bounds() {
    // A little more than half a unit is added to 1 a thousand times, and is rounded up to one each time.
    let little = 1.01 * bound::UNIT;
    let values = |first: f64| [vec![first], vec![little; 1000]].concat();
    let rows = [values(1.0), vec![0.0; 1001]].concat();
    let rows = Matrix::dense(1001, rows).expect("finite values");
    for text in ["laplacian(gamma=1)", "laplacian(gamma=0.5)"] {
        let seen = kernels::accuracy(&parse(text).expect("a valid text"), &rows, None).unwrap();
        assert!(seen.worst > 0.3, "{text}: {seen:?}");
    }
}

#[test]
fn values_of_rows_whose_squares_underflow_lie_within_their_bounds() {
    let mut values = generate::values(&generate::dense(8, 5, 52));
    values[..20].iter_mut().for_each(|x| *x *= 1e-170);
    values[20..].iter_mut().for_each(|x| *x *= 1e10);
    let rows = Matrix::dense(5, values).expect("finite values");
    for text in ["linear", "polynomial(degree=1, gamma=1, coef0=0)"] {
        kernels::accuracy(&parse(text).expect("a valid text"), &rows, None).unwrap();
    }
}

#[test]
fn values_below_the_normal_range_are_not_taken_as_exact() {
    // 1.875 2^-1074 is computed as 2^-1073.
    let kernel = parse(&format!("polynomial(degree=1, gamma={:e}, coef0=0)", 2f64.powi(-500)));
    let kernel = kernel.expect("a valid text");
    let rows = vec![1.5 * 2f64.powi(-300), 1.25 * 2f64.powi(-274)];
    let rows = Matrix::dense(1, rows).expect("finite values");
    let (u, v) = (rows.row(0), rows.row(1));
    assert_eq!(kernel.value(u, v), 2.0 * bound::LEAST);
    assert!(kernels::error_bound(&kernel, u, v, 1, false) >= bound::LEAST);
}

#[test]
fn relative_errors_hold_wherever_they_are_claimed() {
    let mut claimed = 0;
    for text in ["linear", "polynomial(degree=2, gamma=1, coef0=0)", "normalized(linear)"] {
        let kernel = parse(text).expect("a valid text");
        let spec = kernel.spec();
        for exponent in (-165..=150).step_by(5) {
            let scale = 10f64.powi(exponent);
            let rows = generate::map(&generate::dense(4, 3, 53), |x| x * scale);
            let norms = rows.iter().map(|row| kernel.form().base(row, row));
            let ends = norms
                .fold([f64::INFINITY, 0.0], |[low, high], norm| [norm.min(low), norm.max(high)]);
            let Some(relative) = bound::relative_error(kernel.as_ref(), 3, ends, false) else {
                continue;
            };
            let of = |i, j| {
                reference::kernel::<Wide>(&spec, &generate::row(&rows, i), &generate::row(&rows, j))
            };
            for (i, j) in (0..4).flat_map(|i| (0..4).map(move |j| (i, j))) {
                let found = Wide::from(kernel.value(rows.row(i), rows.row(j)));
                let limit = Wide::from(relative) * (of(i, i) * of(j, j)).sqrt();
                assert!((found - of(i, j)).abs() <= limit, "{text}: rows {i}, {j} at {scale:e}");
                claimed += 1;
            }
        }
    }
    assert!(claimed > 100, "{claimed}");
}

#[test]
fn bounds_are_finite_on_sane_rows() {
    for kernel in registered() {
        let mut summary = Accuracy::default();
        for case in generate::ordinary(kernel.domain(), 31) {
            let seen = kernels::accuracy(&kernel, &case.rows, None).expect("the property above");
            summary = summary.join(seen);
        }
        // No relative error is known of kernels that decay, so there is none of their quotients.
        let excused = kernel.spec().to_string().starts_with("normalized(rbf");
        assert_eq!(summary.unbounded > 0, excused, "{}", kernel.spec());
    }
}

#[test]
fn error_bounds_peak_at_the_shortest_or_the_longest_row() {
    let mut failures = Failures::default();
    for kernel in registered() {
        for columns in [1, 100] {
            failures.note("ladder", kernels::bounds_peak_at_the_ends(&kernel, columns));
        }
    }
    failures.report();
}

#[test]
fn scalar_kernels_have_the_shape_they_claim() {
    let mut failures = Failures::default();
    for kernel in registered() {
        failures.note("curve", kernels::curves(&kernel));
    }
    failures.report();
}

fn is_shift(kernel: &KernelRef) -> bool {
    matches!(kernel.form(), Form::Shift(_))
}

/// Supports of which every fifth column is zero throughout.
fn supports(domain: Domain, count: usize, columns: usize, density: f64) -> Matrix {
    let rows = generate::within(domain, &generate::sparse(count, columns, density, 41));
    let mut values = generate::values(&rows);
    for (at, value) in values.iter_mut().enumerate() {
        if at % columns % 5 == 2 {
            *value = 0.0;
        }
    }
    Matrix::dense(columns, values).expect("whole rows of finite values")
}

fn queries(domain: Domain, count: usize, columns: usize, density: f64) -> Matrix {
    generate::within(domain, &generate::sparse(count, columns, density, 42))
}

#[test]
fn blocks_have_the_bits_of_single_values() {
    let mut failures = Failures::default();
    for kernel in registered() {
        let domain = kernel.domain();
        for (name, columns, density) in [("dense", 15, 0.9), ("sparse", 60, 0.04)] {
            let queries = queries(domain, 256, columns + 3, density);
            let (small, large) = SIZES.split_at(3);
            for (count, sizes) in [(130, small), (20, large)] {
                let supports = supports(domain, count, columns, density);
                let property = BlockProperty::new(kernel.clone(), &supports, &queries, None);
                failures.note(name, property.check(sizes, Isa::available()));
            }
        }
    }
    failures.report();
}

#[test]
fn blocks_against_any_number_of_supports_have_the_bits_of_single_values() {
    let mut failures = Failures::default();
    for kernel in registered() {
        let domain = kernel.domain();
        for count in [0, 1, 8, 9, 48, 49, 193, 300] {
            let supports = supports(domain, count, 15, 0.6);
            // 12 columns: as many as are live, and fewer than the supports have.
            for columns in [0, 5, 12, 15, 20] {
                let queries = queries(domain, 9, columns, 0.6);
                let property = BlockProperty::new(kernel.clone(), &supports, &queries, None);
                let name = format!("{count} supports, {columns} columns");
                failures.note(&name, property.check(&[1, 7], Isa::available()));
            }
        }
    }
    failures.report();
}

#[test]
fn blocks_of_adversarial_rows_have_the_bits_of_single_values() {
    let mut failures = Failures::default();
    for kernel in registered() {
        for case in cases(kernel.domain()) {
            let centre = kernels::mean(&case.rows);
            for centre in [None, Some(&centre[..])] {
                let property = BlockProperty::new(kernel.clone(), &case.rows, &case.rows, centre);
                failures.note(case.name, property.check(&[1, 7], Isa::available()));
            }
        }
    }
    failures.report();
}

#[test]
fn centred_blocks_have_the_bits_of_centred_values() {
    let mut failures = Failures::default();
    for kernel in registered().filter(is_shift) {
        for (name, columns, density) in [("dense", 15, 0.9), ("sparse", 60, 0.04)] {
            let supports = supports(Domain::Real, 300, columns, density);
            let queries = queries(Domain::Real, 70, columns + 3, density);
            let mean = kernels::mean(&supports);
            // A centre that is zero in some columns and equal to one support in others.
            let mut odd = generate::row(&supports, 3);
            odd[7] = -1.5;
            for centre in [&mean, &odd] {
                let property =
                    BlockProperty::new(kernel.clone(), &supports, &queries, Some(centre));
                failures.note(name, property.check(&[1, 7, 64], Isa::available()));
            }
        }
    }
    failures.report();
}
