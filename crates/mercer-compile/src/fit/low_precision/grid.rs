//! Whether all values of some rows lie on evenly spaced points.

use std::collections::HashSet;

use mercer_data::{Matrix, Row};
use mercer_kernel::block::Grid;

/// Text and binary spellings of 256 points; with more distinct values there is no grid.
const MOST_VALUES: usize = 2048;
/// How far from its point a value may lie, in steps: text with few digits is rounded.
const NEAR: f64 = 2e-4;
/// Spellings of one point, at most: values that only look alike from afar are not a grid.
const MOST_SPELLINGS: usize = 4;

/// The coarsest grid of at most 256 points that holds all values, with 0 where that is possible.
pub(super) fn find(rows: &[&Matrix]) -> Option<Grid> {
    let mut values = HashSet::new();
    let mut has_zeros = false;
    for matrix in rows {
        for row in matrix.iter() {
            has_zeros |=
                matches!(row, Row::Sparse { values, .. } if values.len() < matrix.columns());
            for (_, value) in row.nonzeros() {
                values.insert(value.to_bits());
            }
            if let Row::Dense(all) = row {
                has_zeros |= all.contains(&0.0);
            }
            if values.len() > MOST_VALUES {
                return None;
            }
        }
    }
    let mut values: Vec<f64> = values.into_iter().map(f64::from_bits).collect();
    values.sort_unstable_by(f64::total_cmp);
    let zero = values.partition_point(|value| *value < 0.0);
    values.insert(zero, 0.0);
    let with_zero = spacing(&values);
    if with_zero.is_none() && !has_zeros {
        values.remove(zero);
        return spacing(&values);
    }
    with_zero
}

/// 256 points over the range of all values, with 0 where rows have zeros.
pub(super) fn over(rows: &Matrix) -> Option<Grid> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for row in rows.iter() {
        let mut count = 0;
        for (_, value) in row.nonzeros() {
            (low, high) = (low.min(value), high.max(value));
            count += 1;
        }
        if count < rows.columns() {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
    }
    Grid::new((high - low) / 255.0, low)
}

/// The coarsest grid through increasing values; the first one is its base.
fn spacing(values: &[f64]) -> Option<Grid> {
    let (base, last) = (*values.first()?, *values.last()?);
    let span = last - base;
    let fits = |step: &f64| {
        values.iter().all(|value| {
            let code = (value - base) / step;
            (code - code.round()).abs() <= NEAR
        })
    };
    let step = (1..=255).map(|count| span / f64::from(count)).find(fits)?;
    let mut codes: Vec<f64> = values.iter().map(|value| ((value - base) / step).round()).collect();
    codes.dedup();
    if MOST_SPELLINGS * codes.len() < values.len() {
        return None;
    }
    Grid::new(step, base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid_of(values: Vec<f64>) -> Option<[f64; 2]> {
        let rows = Matrix::dense(1, values).unwrap();
        find(&[&rows]).map(|grid| [grid.step(), grid.base()])
    }

    #[test]
    fn pixels_counts_and_signs_are_found() {
        let pixels: Vec<f64> = (0..=255).map(|p| f64::from(p) / 255.0).collect();
        assert_eq!(grid_of(pixels.clone()), Some([1.0 / 255.0, 0.0]));
        let text: Vec<f64> = pixels.iter().map(|p| (p * 1e8).round() / 1e8).collect();
        let [step, base] = grid_of(text).unwrap();
        assert!((step * 255.0 - 1.0).abs() < 1e-8 && base == 0.0);
        assert_eq!(grid_of(vec![3.0, 0.0, 7.0, 200.0]), Some([1.0, 0.0]));
        assert_eq!(grid_of(vec![-1.0, 1.0, 1.0]), Some([1.0, -1.0]));
        // Evenly spaced around, but not on, zero.
        let base = -(3f64.sqrt()) / 20.0;
        assert_eq!(
            grid_of(vec![base, base + 2.0, base + 4.0]).unwrap()[1].to_bits(),
            base.to_bits()
        );
    }

    #[test]
    fn other_values_are_not() {
        assert_eq!(grid_of((1..400).map(|n| f64::from(n).sqrt()).collect()), None);
        assert_eq!(grid_of((0..300).map(f64::from).collect()), None);
        assert_eq!(grid_of(vec![0.0, 1.0, 2f64.sqrt()]), None);
        assert_eq!(grid_of(vec![0.0, 0.0]), None);
        // With zero two points would do, but not for the differences.
        let far = (0..200).map(|n| 1e6 + 0.5 * f64::from(n)).collect();
        assert_eq!(grid_of(far), Some([0.5, 1e6]));
    }
}
