//! All methods agree on well-conditioned systems, and the stable ones where D is small or infinite.

use mercer_kernel::factor::Store;

use super::*;

fn error(found: &[f64], right: &[f64]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut found.iter().zip(right).map(|(a, b)| a - b)) / norm(&mut right.iter().copied())
}

fn solved(systems: Systems, rows: &Store<f64>, d: &[f64], w: &[f64]) -> Vec<f64> {
    let factored = Factored::new(systems, rows, d).expect("it does not break down");
    factored.solve(rows, w, &vec![0.0; rows.rank()]).0
}

/// Example 1 of \[FS01\]: `D = diag(ε², 1)`, `V = (1, -1)'`. As it says there, the formula gives zero in place of
/// `2 w_1 + w_2` once ε² is below the rounding of 1, and the product form is right.
#[test]
fn example_1_keeps_all_digits_but_by_smw() {
    let rows = Store::of_rows(1, &[1.0, -1.0]);
    let w = [1.0, 0.7];
    for exponent in [8, 12, 16, 20] {
        let small = 10f64.powi(-exponent);
        let det = 1.0 + 2.0 * small;
        let right = [(2.0 * w[0] + w[1]) / det, (w[0] + (1.0 + small) * w[1]) / det];
        for systems in [Systems::Split, Systems::ProductForm, Systems::Qr] {
            let found = solved(systems, &rows, &[small, 1.0], &w);
            let off = error(&found, &right);
            assert!(off < 1e-14, "{} at 1e-{exponent}: {off:e}", systems.name());
        }
        if exponent >= 20 {
            let found = solved(Systems::Smw, &rows, &[small, 1.0], &w);
            assert!(found[0].abs() < 1e-12 && (found[1] - 1.7).abs() < 1e-12, "{found:?}");
        }
    }
}

/// Rows and D of a kind: numbers that repeat with the seed.
fn drawn(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        })
        .collect()
}

fn residual(rows: &Store<f64>, d: &[f64], w: &[f64], u: &[f64]) -> f64 {
    let product = rows.times(&rows.transposed_times(&folded(u, rows.rows())));
    let back: Vec<f64> = (0..d.len()).map(|v| d[v] * u[v] + product[v % rows.rows()]).collect();
    error(&back, w)
}

#[test]
fn stable_methods_agree_over_sixteen_orders_of_magnitude() {
    let (n, k) = (300, 30);
    let rows = Store::of_rows(k, &drawn(n * k, 1));
    let mut d: Vec<f64> = drawn(n, 2).iter().map(|x| 10f64.powf(16.0 * x)).collect();
    // 20 small ones, others above the squares of the rows.
    d.sort_by(f64::total_cmp);
    d[20..].iter_mut().for_each(|d| *d = d.max(0.1));
    let w = drawn(n, 3);
    let right = solved(Systems::ProductForm, &rows, &d, &w);
    for systems in [Systems::Split, Systems::Qr] {
        let off = error(&solved(systems, &rows, &d, &w), &right);
        assert!(off < 1e-12, "{} {off:e}", systems.name());
    }
}

#[test]
fn more_small_ones_than_columns_and_zeros_are_no_trouble() {
    let (n, k) = (60, 8);
    let rows = Store::of_rows(k, &drawn(n * k, 4));
    let mut d = vec![1e-9; n];
    d[40..].fill(10.0);
    let w = drawn(n, 5);
    for systems in [Systems::Split, Systems::ProductForm, Systems::Qr] {
        let u = solved(systems, &rows, &d, &w);
        // The solution is of size 1e9: its image has the rounding of that.
        assert!(residual(&rows, &d, &w, &u) < 1e-6, "{}", systems.name());
    }
    let mut d = vec![1.0; n];
    d[..5].fill(0.0);
    let right = solved(Systems::ProductForm, &rows, &d, &w);
    assert!(residual(&rows, &d, &w, &right) < 1e-12);
    assert!(error(&solved(Systems::Split, &rows, &d, &w), &right) < 1e-10);
}

#[test]
fn two_variables_of_a_row_and_fixed_ones_are_understood() {
    let (n, k) = (40, 5);
    let rows = Store::of_rows(k, &drawn(n * k, 6));
    let mut d: Vec<f64> = drawn(2 * n, 7).iter().map(|x| 10f64.powf(8.0 * x)).collect();
    d[3] = f64::INFINITY;
    d[50] = f64::INFINITY;
    let w = drawn(2 * n, 8);
    let right = solved(Systems::ProductForm, &rows, &d, &w);
    assert_eq!((right[3], right[50]), (0.0, 0.0));
    for systems in [Systems::Split, Systems::Qr] {
        let off = error(&solved(systems, &rows, &d, &w), &right);
        assert!(off < 1e-10, "{} {off:e}", systems.name());
    }
}

#[test]
fn both_equations_are_solved_by_every_method() {
    let (n, k) = (50, 6);
    let rows = Store::of_rows(k, &drawn(n * k, 9));
    let d: Vec<f64> = drawn(n, 10).iter().map(|x| 10f64.powf(4.0 * x)).collect();
    let (w, r) = (drawn(n, 11), drawn(k, 12));
    for systems in Systems::ALL {
        let factored = Factored::new(systems, &rows, &d).expect("it does not break down");
        let (u, p) = factored.solve(&rows, &w, &r);
        let along = rows.times(&p);
        let first: Vec<f64> = (0..n).map(|v| d[v] * u[v] + along[v]).collect();
        let second: Vec<f64> =
            rows.transposed_times(&u).iter().zip(&p).map(|(sum, p)| sum - p).collect();
        let off = error(&first, &w).max(error(&second, &r));
        assert!(off < 1e-9, "{} {off:e}", systems.name());
    }
}
