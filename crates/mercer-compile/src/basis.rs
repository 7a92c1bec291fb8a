//! The leading directions of a machine's supports. Directions that are fitted to scores are in
//! `fit/student/directions.rs`.

use mercer_data::synthetic::normal;
use mercer_machine::Machine;
use mercer_simd::gemm_nt;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use mercer_kernel::eigen::symmetric;

/// Most directions that any stage may ask for.
pub(crate) const MOST: usize = 256;
/// Supports that are looked at; more change the leading directions little.
const MOST_ROWS: usize = 4096;
/// Wider machines would need gigabytes.
const MOST_COLUMNS: usize = 16384;
/// Rounds of the subspace iteration; nobody relies on their number, since estimates are calibrated.
const ROUNDS: usize = 6;

/// Orthonormal directions in the live columns, of decreasing weight in the supports: the uncentred
/// principal components, since products are cut, not differences.
#[derive(Debug)]
pub(crate) struct PrincipalBasis {
    pub columns: usize,
    pub rows: usize,
    /// Row after row.
    pub values: Vec<f64>,
}

/// Writes a row as the machine sees it: live columns, centred where the machine is.
pub(crate) fn live_row(
    machine: &Machine,
    live: &[u32],
    row: mercer_data::Row<'_>,
    out: &mut [f64],
) {
    let centre = machine.centre().unwrap_or(&[]);
    for (place, column) in out.iter_mut().zip(live) {
        *place = -centre.get(*column as usize).copied().unwrap_or(0.0);
    }
    for (column, value) in row.nonzeros() {
        if let Ok(at) = live.binary_search(&column) {
            out[at] += value;
        }
    }
}

impl PrincipalBasis {
    /// Subspace iteration on `Z'Z`, then the eigenvectors within the subspace.
    pub(crate) fn new(machine: &Machine, live: &[u32]) -> Result<Self, String> {
        let supports = machine.supports();
        let columns = live.len();
        if columns > MOST_COLUMNS {
            return Err(format!("{columns} columns are more than {MOST_COLUMNS}"));
        }
        if supports.rows() == 0 || columns == 0 {
            return Err("the machine has no supports".to_owned());
        }
        let step = supports.rows().div_ceil(MOST_ROWS);
        let rows = supports.rows().div_ceil(step);
        let mut table = vec![0.0; rows * columns];
        for (place, row) in table.chunks_exact_mut(columns).zip((0..).step_by(step)) {
            live_row(machine, live, supports.row(row), place);
        }
        let largest = table.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        if largest == 0.0 || !largest.is_finite() {
            return Err("its supports are zero".to_owned());
        }
        table.iter_mut().for_each(|x| *x /= largest);
        let mut turned = vec![0.0; table.len()];
        for row in 0..rows {
            for column in 0..columns {
                turned[column * rows + row] = table[row * columns + column];
            }
        }
        let wanted = (MOST + 8).min(columns).min(rows);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut space: Vec<f64> = (0..wanted * columns).map(|_| normal(&mut rng)).collect();
        let mut count = orthonormal(&mut space, columns);
        for _ in 0..ROUNDS {
            let mut image = vec![0.0; count * rows];
            gemm_nt(count, rows, columns, &space, &table, &mut image);
            gemm_nt(count, columns, rows, &image, &turned, &mut space);
            count = orthonormal(&mut space, columns);
        }
        let mut image = vec![0.0; count * rows];
        gemm_nt(count, rows, columns, &space, &table, &mut image);
        let mut small = vec![0.0; count * count];
        gemm_nt(count, count, rows, &image, &image, &mut small);
        let (values, vectors) =
            symmetric(small, count).ok_or("its principal directions could not be found")?;
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
        let most = values[order[0]];
        order.retain(|at| values[*at] > 1e-12 * most);
        order.truncate(MOST);
        let mut out = vec![0.0; order.len() * columns];
        for (place, at) in out.chunks_exact_mut(columns).zip(&order) {
            let weights = &vectors[at * count..(at + 1) * count];
            for (weight, direction) in weights.iter().zip(space.chunks_exact(columns)) {
                place.iter_mut().zip(direction).for_each(|(out, x)| *out += weight * x);
            }
        }
        Ok(Self { columns, rows: order.len(), values: out })
    }

    /// The first directions as f32, as model files keep them.
    pub(crate) fn to_f32(&self, count: usize) -> Vec<f32> {
        self.values[..count * self.columns].iter().map(|value| *value as f32).collect()
    }
}

/// Makes rows orthonormal, drops those that depend on earlier ones, and returns how many are left.
fn orthonormal(rows: &mut Vec<f64>, columns: usize) -> usize {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let count = rows.len() / columns;
    let mut kept = 0;
    for number in 0..count {
        rows.copy_within(number * columns..(number + 1) * columns, kept * columns);
        let (before, row) = rows.split_at_mut(kept * columns);
        let row = &mut row[..columns];
        let length = dot(row, row).sqrt();
        // Twice is enough.
        for _ in 0..2 {
            for other in before.chunks_exact(columns) {
                let share = dot(row, other);
                row.iter_mut().zip(other).for_each(|(x, o)| *x -= share * o);
            }
        }
        let left = dot(row, row).sqrt();
        if left > 1e-10 * length && left.is_normal() {
            row.iter_mut().for_each(|x| *x /= left);
            kept += 1;
        }
    }
    rows.truncate(kept * columns);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_data::Matrix;
    use mercer_machine::{Output, Score};

    #[test]
    fn directions_are_orthonormal_and_the_heaviest_comes_first() {
        // Two directions carry everything: (1, 1, 0)/√2 heavily, (0, 0, 1) lightly.
        let values = vec![3.0, 3.0, 0.1, -2.0, -2.0, 0.2, 1.0, 1.0, -0.3, 4.0, 4.0, 0.1];
        let supports = Matrix::dense(3, values).unwrap();
        let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
        let scores = vec![Score::expansion(&[1.0, -1.0, 0.5, 1.0], 0.0)];
        let machine = Machine::new(kernel, supports, scores, Output::Novelty).unwrap();
        let basis = PrincipalBasis::new(&machine, &[0, 1, 2]).unwrap();
        assert_eq!(basis.rows, 2);
        let first = &basis.values[..3];
        assert!((first[0].abs() - 0.5f64.sqrt()).abs() < 1e-2, "{first:?}");
        for a in 0..2 {
            for b in 0..2 {
                let (a_row, b_row) =
                    (&basis.values[3 * a..3 * a + 3], &basis.values[3 * b..3 * b + 3]);
                let dot: f64 = a_row.iter().zip(b_row).map(|(x, y)| x * y).sum();
                assert!((dot - f64::from(u8::from(a == b))).abs() < 1e-9);
            }
        }
    }
}
