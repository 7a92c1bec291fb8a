//! Tests of both factors against Gram matrices computed from the definition.

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
        let point = Point { rows: &all, pivots: &chosen, squared_norm: 1.0, targets: &targets };
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

/// Kernel values straight from the definition.
struct Plain {
    kernel: crate::KernelRef,
    rows: Matrix,
    diagonal: Vec<f64>,
}

impl Plain {
    fn new(kernel: &str, rows: &Matrix) -> Self {
        let kernel = parse(kernel).unwrap();
        let diagonal = rows.iter().map(|row| kernel.value(row, row)).collect();
        Self { kernel, rows: rows.clone(), diagonal }
    }
}

impl<T: mercer_simd::Real> Tiles<T> for Plain {
    type Ready = Vec<u32>;

    fn diagonal(&self) -> &[f64] {
        &self.diagonal
    }

    fn ready(&self, pivots: &[u32]) -> Vec<u32> {
        pivots.to_vec()
    }

    fn values(&self, ready: &Vec<u32>, rows: &[u32], out: &mut [T]) {
        for (out, row) in out.chunks_mut(ready.len()).zip(rows) {
            for (place, pivot) in out.iter_mut().zip(ready) {
                let (a, b) = (self.rows.row(*row as usize), self.rows.row(*pivot as usize));
                *place = T::from_f64(self.kernel.value(a, b));
            }
        }
    }
}

fn worst<T: mercer_simd::Real>(factor: &Blocked<T>, gram: &[Vec<f64>]) -> f64 {
    let all: Vec<u32> = (0..gram.len() as u32).collect();
    let (rank, rows) = (factor.rank(), factor.store().gather(&all));
    let row = |at: usize| &rows[at * rank..(at + 1) * rank];
    let mut worst = 0.0f64;
    for a in 0..gram.len() {
        let own: f64 = row(a).iter().map(|x| x.to_f64() * x.to_f64()).sum();
        worst = worst.max((gram[a][a] - own - factor.distances()[a]).abs());
        for b in factor.pivots() {
            let b = *b as usize;
            let product: f64 =
                row(a).iter().zip(row(b)).map(|(x, y)| x.to_f64() * y.to_f64()).sum();
            worst = worst.max((gram[a][b] - product).abs());
        }
    }
    worst
}

#[test]
fn blocks_of_pivots_explain_the_columns_they_stand_for() {
    let rows = generate::dense(300, 5, 7);
    let source = Plain::new("rbf(gamma=0.1)", &rows);
    let gram = gram("rbf(gamma=0.1)", &rows);
    for draw in [Draw::Greedy, Draw::Random, Draw::Weighted(&vec![0.5; 300])] {
        let mut in_f64 = Blocked::<f64>::new(&source.diagonal, 10, 1e-12, 1, None);
        assert!(in_f64.grow(
            &source,
            draw,
            GrowthLimit { rank: 100, trace_share: 0.0 },
            &mut |_| true
        ));
        assert_eq!(in_f64.rank(), 100);
        assert!(worst(&in_f64, &gram) < 1e-11, "{draw:?} {}", worst(&in_f64, &gram));
        let mut in_f32 = Blocked::<f32>::new(&source.diagonal, 100, 1e-5, 1, None);
        assert!(in_f32.grow(
            &source,
            draw,
            GrowthLimit { rank: 60, trace_share: 0.0 },
            &mut |_| true
        ));
        assert!(worst(&in_f32, &gram) < 1e-4, "{draw:?} {}", worst(&in_f32, &gram));
    }
}

#[test]
fn greedy_blocks_choose_what_the_greedy_rule_chooses() {
    let rows = generate::dense(80, 4, 9);
    let source = Plain::new("rbf(gamma=0.5)", &rows);
    let mut blocked = Blocked::<f64>::new(&source.diagonal, 20, 1e-12, 1, None);
    blocked.grow(&source, Draw::Greedy, GrowthLimit { rank: 20, trace_share: 0.0 }, &mut |_| true);
    let mut factor = Factor::new(columns("rbf(gamma=0.5)", &rows), 1e-12);
    factor.grow(&mut Greedy, 20, &mut |_| true);
    let chosen: Vec<u32> = factor.pivots().iter().map(|pivot| pivot.row.unwrap() as u32).collect();
    assert_eq!(blocked.pivots(), chosen);
    assert!((blocked.trace() - factor.trace()).abs() < 1e-12);
}

#[test]
fn a_trace_that_is_small_enough_ends_it_and_duplicates_are_chosen_once() {
    let base = generate::dense(30, 3, 4);
    let rows = base.select((0..300).map(|row| row % 30));
    let source = Plain::new("rbf(gamma=0.5)", &rows);
    let mut factor = Blocked::<f64>::new(&source.diagonal, 0, 1e-10, 3, None);
    assert!(factor.grow(
        &source,
        Draw::Random,
        GrowthLimit { rank: 300, trace_share: 0.0 },
        &mut |_| true
    ));
    assert!(factor.rank() <= 30 && factor.trace_share() < 1e-9, "{}", factor.rank());
    let mut short = Blocked::<f64>::new(&source.diagonal, 0, 1e-10, 3, None);
    assert!(short.grow(
        &source,
        Draw::Greedy,
        GrowthLimit { rank: 300, trace_share: 0.2 },
        &mut |_| true
    ));
    assert!(short.rank() < 30 && short.trace_share() <= 0.2);
}

#[test]
fn a_factor_in_a_file_is_the_factor_in_memory() {
    let rows = generate::dense(2500, 4, 5);
    let source = Plain::new("rbf(gamma=0.2)", &rows);
    let path = std::env::temp_dir().join(format!("mercer-factor-{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    let mut there = Blocked::<f32>::new(&source.diagonal, 10, 1e-5, 1, Some(file));
    let mut here = Blocked::<f32>::new(&source.diagonal, 70, 1e-5, 1, None);
    for factor in [&mut there, &mut here] {
        factor
            .grow(&source, Draw::Random, GrowthLimit { rank: 70, trace_share: 0.0 }, &mut |_| true);
    }
    std::fs::remove_file(&path).unwrap();
    assert!(there.store().failure().is_none() && there.store().is_on_disk());
    assert_eq!(there.pivots(), here.pivots());
    let some: Vec<u32> = (0..2500).step_by(37).collect();
    assert_eq!(there.store().gather(&some), here.store().gather(&some));
    let z: Vec<f64> = (0..here.rank()).map(|at| (at as f64).sin()).collect();
    assert_eq!(there.store().times(&z), here.store().times(&z));
    let chosen = here.store().select(&some, None);
    assert_eq!(chosen.gather(&[1, 0]), here.store().gather(&[37, 0]));
}

#[test]
fn coefficients_of_pivots_give_the_scores_of_all_rows() {
    let rows = generate::dense(200, 3, 6);
    let source = Plain::new("rbf(gamma=0.3)", &rows);
    let gram = gram("rbf(gamma=0.3)", &rows);
    let mut factor = Blocked::<f64>::new(&source.diagonal, 40, 1e-10, 2, None);
    factor.grow(&source, Draw::Random, GrowthLimit { rank: 40, trace_share: 0.0 }, &mut |_| true);
    let w: Vec<f64> = (0..factor.rank()).map(|at| (at as f64 * 0.7).cos()).collect();
    let beta = factor.coefficients(&w);
    let scores = factor.store().times(&w);
    for row in 0..200 {
        let pairs = factor.pivots().iter().zip(&beta);
        let sum: f64 = pairs.map(|(pivot, beta)| beta * gram[row][*pivot as usize]).sum();
        assert!((sum - scores[row]).abs() < 1e-6, "{row}");
    }
    let squares = factor.store().weighted_square(&vec![2.0; 200]);
    let rank = factor.rank();
    let twice: f64 = factor
        .store()
        .gather(&(0..200).collect::<Vec<u32>>())
        .chunks(rank)
        .map(|row| 2.0 * row[3] * row[1])
        .sum();
    assert!((squares[3 * rank + 1] - twice).abs() < 1e-10);
    let back = factor.store().transposed_times(&vec![1.0; 200]);
    assert_eq!(back.len(), rank);
}

#[test]
fn looking_ahead_changes_no_choice() {
    let rows = generate::dense(300, 3, 9);
    let gram = gram("rbf(gamma=0.5)", &rows);
    let products = |s: usize| -> Vec<f64> {
        let beta = |i: usize| f64::from(((i * (s + 5)) % 7) as u32) - 3.0;
        gram.iter().map(|row| row.iter().enumerate().map(|(i, k)| k * beta(i)).sum()).collect()
    };
    let grown = |most: usize, is_given: bool| {
        let factor = Factor::new(columns("rbf(gamma=0.5)", &rows), 1e-12).with_prefetch(most);
        let factor = factor.with_target(&products(0), 100.0).with_target(&products(1), 100.0);
        let mut factor = factor;
        if is_given {
            factor.grow(&mut Given::new((0..90).rev()), 80, &mut |_| true);
        } else {
            factor.grow(&mut Gain::new((0..300).collect()), 80, &mut |_| true);
        }
        factor
    };
    for is_given in [false, true] {
        let plain = grown(0, is_given);
        for most in [2, 7, 32] {
            let ahead = grown(most, is_given);
            assert_eq!(plain.rank(), ahead.rank());
            for (a, b) in plain.pivots().iter().zip(ahead.pivots()) {
                assert_eq!(a.row, b.row, "{most} ahead");
                let pairs = a.coordinates.iter().zip(&b.coordinates);
                assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-9));
            }
        }
    }
}
