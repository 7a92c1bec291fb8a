//! The same W from fewer vectors: a basis of the supports by pivoted Cholesky, and the coefficients of the others folded
//! into those of the basis. Which vectors are preferred is decided by the caller.

use mercer_kernel::factor::{Compensated, Factor, GramColumns, Pivots};

/// A vector whose squared distance from the span of the basis is below this share of `K(x, x)` depends on the basis.
/// Rounding of kernel values hides smaller distances.
const DEPENDENT: f64 = 1e-14;
/// Preferred rows enter the basis before others only down to this share, where coefficients are still small.
const CLEAR: f64 = 1e-12;
/// Refinements of the coefficients.
const REFINEMENTS: usize = 2;

/// Some rows and their coefficients.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseExpansion {
    /// Rows, ascending.
    pub rows: Vec<usize>,
    /// Their coefficients, score after score.
    pub coefficients: Vec<Vec<f64>>,
}

/// Rows by preference; of equal ones that which takes most of W with it if it is left out: the largest product of
/// coefficient and distance.
struct Preferred {
    /// Rows by preference, best first.
    classes: Vec<Vec<usize>>,
    /// All rows: what the classes left out because it is too near to the basis.
    rest: Vec<usize>,
    /// Size of the coefficient of each row.
    sizes: Vec<f64>,
    /// `K(x, x)` of each row.
    diagonal: Vec<f64>,
}

impl<C: GramColumns> Pivots<C> for Preferred {
    fn propose(&mut self, factor: &mut Factor<C>, out: &mut Vec<usize>) {
        let Self { classes, rest, sizes, diagonal } = self;
        let is_clear = |row: &usize| factor.distances()[*row] > CLEAR * diagonal[*row];
        classes
            .iter_mut()
            .for_each(|class| class.retain(|row| factor.is_open(*row) && is_clear(row)));
        let class = classes.iter().find(|class| !class.is_empty()).unwrap_or(rest);
        let loss = |row: &usize| sizes[*row].powi(2) * factor.distances()[*row];
        let open = class.iter().filter(|row| factor.is_open(**row));
        out.extend(open.max_by(|a, b| loss(a).total_cmp(&loss(b)).then(b.cmp(a))));
    }
}

/// The same `W = Σ β_i Φ_i` from a basis of the rows.
///
/// `preferences` gives each row a number, and rows of smaller numbers enter the basis first; `sizes` the size of the
/// coefficient by which rows of one number are compared. A row outside the basis is a combination of the basis up to
/// rounding, and its coefficients are added to those of the basis in this combination.
///
/// Returns none if `go_on`, which gets the number of vectors, stopped it.
///
/// # Panics
/// If the lists differ in length.
pub fn same_hyperplane<C: GramColumns>(
    columns: C,
    betas: &[Vec<f64>],
    preferences: &[usize],
    sizes: Vec<f64>,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Option<SparseExpansion> {
    let count = columns.diagonal().len();
    assert!(preferences.len() == count && sizes.len() == count, "one number per row");
    let most = preferences.iter().max().map_or(0, |most| most + 1);
    let mut classes = vec![Vec::new(); most];
    (0..count).for_each(|row| classes[preferences[row]].push(row));
    let diagonal = columns.diagonal().to_vec();
    let mut factor = Factor::new(columns, DEPENDENT);
    let mut rule = Preferred { classes, rest: (0..count).collect(), sizes, diagonal };
    if !factor.grow(&mut rule, count, &mut |factor| go_on(factor.rank())) {
        return None;
    }
    let order: Vec<usize> = factor.pivots().iter().filter_map(|pivot| pivot.row).collect();
    let changes = folded(&mut factor, &order, betas);
    let mut places: Vec<usize> = (0..order.len()).collect();
    places.sort_unstable_by_key(|place| order[*place]);
    let rows: Vec<usize> = places.iter().map(|place| order[*place]).collect();
    let coefficients = betas.iter().zip(&changes).map(|(beta, change)| {
        places.iter().map(|place| beta[order[*place]] + change[*place]).collect()
    });
    Some(SparseExpansion { coefficients: coefficients.collect(), rows })
}

/// `K_ZZ^-1 K_ZN β_N`: what the rows N outside the basis add to the coefficients of the basis Z.
fn folded<C: GramColumns>(
    factor: &mut Factor<C>,
    basis: &[usize],
    betas: &[Vec<f64>],
) -> Vec<Vec<f64>> {
    let count = factor.rows();
    let mut is_basis = vec![false; count];
    basis.iter().for_each(|row| is_basis[*row] = true);
    let outside: Vec<usize> = (0..count).filter(|row| !is_basis[*row]).collect();
    let mut changes = vec![vec![0.0; basis.len()]; betas.len()];
    if outside.is_empty() {
        return changes;
    }
    let mut column = vec![0.0; count];
    for _ in 0..=REFINEMENTS {
        let mut residuals = vec![vec![0.0; basis.len()]; betas.len()];
        for (place, row) in basis.iter().enumerate() {
            factor.columns().column(*row, &mut column);
            for ((residual, beta), change) in residuals.iter_mut().zip(betas).zip(&changes) {
                let mut sum = Compensated::default();
                outside.iter().for_each(|row| sum.add_product(beta[*row], column[*row]));
                let pairs = basis.iter().zip(change);
                pairs.for_each(|(row, change)| sum.subtract_product(*change, column[*row]));
                residual[place] = sum.value();
            }
        }
        for (change, residual) in changes.iter_mut().zip(&residuals) {
            let step = factor.solve(residual);
            if step.iter().all(|value| value.is_finite()) {
                change.iter_mut().zip(step).for_each(|(place, value)| *place += value);
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use mercer_data::Matrix;
    use mercer_kernel::factor::KernelColumns;

    use super::*;

    fn columns(kernel: &str, width: usize, values: Vec<f64>) -> KernelColumns {
        let rows = Matrix::dense(width, values).unwrap();
        KernelColumns::new(mercer_kernel::parse(kernel).unwrap(), rows, None, 1 << 20)
    }

    /// Five points of the plane: two carry W, and preferred ones do it.
    #[test]
    fn a_plane_needs_two_vectors_the_preferred_ones() {
        let values = vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, -1.0];
        let betas = [vec![1.0, 2.0, -1.0, 0.5, 3.0]];
        let found = same_hyperplane(
            columns("linear", 2, values.clone()),
            &betas,
            &[1, 1, 0, 0, 1],
            vec![1.0; 5],
            &mut |_| true,
        );
        let found = found.unwrap();
        assert_eq!(found.rows, [2, 3]);
        let sum = |rows: &[usize], betas: &[f64], column: usize| -> f64 {
            rows.iter().zip(betas).map(|(row, beta)| beta * values[2 * row + column]).sum()
        };
        for column in [0, 1] {
            let (before, after) = (
                sum(&[0, 1, 2, 3, 4], &betas[0], column),
                sum(&found.rows, &found.coefficients[0], column),
            );
            assert!((before - after).abs() < 1e-14, "{before} {after}");
        }
    }

    #[test]
    fn independent_vectors_keep_their_coefficients() {
        let betas = [vec![0.3, -0.7, 0.4]];
        let columns = columns("rbf(gamma=1)", 1, vec![0.0, 3.0, 9.0]);
        let found = same_hyperplane(columns, &betas, &[0; 3], vec![1.0; 3], &mut |_| true);
        let found = found.unwrap();
        assert_eq!((found.rows, found.coefficients), (vec![0, 1, 2], betas.to_vec()));
    }
}
