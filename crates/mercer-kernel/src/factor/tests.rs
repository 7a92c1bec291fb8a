use mercer_data::Matrix;
use mercer_testkit::generate;

use super::*;
use crate::parse;

fn columns(kernel: &str, rows: &Matrix) -> KernelColumns {
    KernelColumns::new(parse(kernel).unwrap(), rows.clone(), None, 1 << 20)
}

fn gram(kernel: &str, rows: &Matrix) -> Vec<Vec<f64>> {
    let kernel = parse(kernel).unwrap();
    rows.iter().map(|a| rows.iter().map(|b| kernel.value(a, b)).collect()).collect()
}

#[test]
fn a_whole_factor_gives_the_gram_matrix_back() {
    let rows = generate::dense(20, 6, 1);
    for kernel in ["rbf(gamma=0.3)", "polynomial(degree=3, gamma=1, coef0=1)"] {
        let gram = gram(kernel, &rows);
        let mut factor = Factor::new(columns(kernel, &rows), 1e-12);
        assert!(factor.grow(&mut Greedy, 20, &mut |_| true));
        assert_eq!(factor.rank(), 20);
        for a in 0..20 {
            for b in 0..20 {
                let product: f64 =
                    factor.row(a).iter().zip(factor.row(b)).map(|(x, y)| x * y).sum();
                let scale = (gram[a][a] * gram[b][b]).sqrt();
                assert!((product - gram[a][b]).abs() < 1e-12 * scale, "{kernel} {a} {b}");
            }
        }
    }
}

#[test]
fn duplicates_and_dependent_rows_are_never_pivots() {
    let base = generate::dense(5, 3, 2);
    let rows = base.select([0, 1, 0, 2, 2, 3, 4, 1]);
    let mut factor = Factor::new(columns("linear", &rows), 1e-10);
    assert!(factor.grow(&mut Given::new(0..8), 8, &mut |_| true));
    // Three columns have three dimensions.
    assert_eq!(factor.rank(), 3);
    assert!(factor.trace() < 1e-12);
    assert!((0..8).all(|row| !factor.push(row)));
}

#[test]
fn targets_lose_what_the_pivots_explain() {
    let rows = generate::dense(15, 4, 3);
    let gram = gram("rbf(gamma=0.5)", &rows);
    let beta: Vec<f64> = (0..15).map(|i| if i % 2 == 0 { 1.0 } else { -0.5 }).collect();
    let products: Vec<f64> =
        gram.iter().map(|row| row.iter().zip(&beta).map(|(k, b)| k * b).sum()).collect();
    let square: f64 = products.iter().zip(&beta).map(|(p, b)| p * b).sum();
    let factor = Factor::new(columns("rbf(gamma=0.5)", &rows), 1e-12);
    let mut factor = factor.with_target(&products, square);
    let mut left = vec![square];
    factor.grow(&mut Gain::new((0..15).collect()), 15, &mut |factor| {
        left.push(factor.targets()[0].square());
        true
    });
    assert!(left.windows(2).all(|pair| pair[1] <= pair[0] + 1e-14));
    assert!(left[15].abs() < 1e-13 * square, "{left:?}");
    let length: f64 = factor.targets()[0].coordinates().iter().map(|w| w * w).sum();
    assert!((length - square).abs() < 1e-13 * square);
}

#[test]
fn a_row_given_from_outside_is_the_row() {
    let rows = generate::dense(12, 3, 4);
    let make = || {
        let products: Vec<f64> = (0..12).map(|i| f64::from(i).sin()).collect();
        Factor::new(columns("rbf(gamma=0.2)", &rows), 1e-12).with_target(&products, 5.0)
    };
    let (mut inside, mut outside) = (make(), make());
    let kernel = parse("rbf(gamma=0.2)").unwrap();
    for row in [3, 7, 1] {
        let all: Vec<f64> = rows.iter().map(|other| kernel.value(rows.row(row), other)).collect();
        let chosen: Vec<f64> =
            inside.pivots().iter().map(|pivot| all[pivot.row.unwrap()]).collect();
        let targets = [f64::from(row as u32).sin()];
        let point = Point { rows: &all, pivots: &chosen, own: 1.0, targets: &targets };
        assert!(inside.push(row) && outside.push_point(&point));
    }
    for row in 0..12 {
        for (a, b) in inside.row(row).iter().zip(outside.row(row)) {
            assert!((a - b).abs() < 1e-13, "row {row}");
        }
    }
    for (a, b) in inside.targets()[0].values().iter().zip(outside.targets()[0].values()) {
        assert!((a - b).abs() < 1e-13);
    }
}

#[test]
fn compensated_sums_keep_what_plain_ones_lose() {
    let mut sum = Compensated::from(1e16);
    (0..10).for_each(|_| sum.add(0.1));
    sum.add(-1e16);
    assert!((sum.value() - 1.0).abs() < 1e-15, "{}", sum.value());
    let mut square = Compensated::from(0.0);
    let small = 2f64.powi(-30);
    square.add_product(1.0 + small, 1.0 - small);
    square.add(-1.0);
    assert_eq!(square.value(), -small * small);
}
