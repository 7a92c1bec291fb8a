//! Eigenvectors of a symmetric matrix: Householder's tridiagonal form, then QL with implicit shifts.
//!
//! Accurate to a few units in the last place; callers that certify something measure the error themselves.

/// A reflection `I - factor v v'`; `v` starts at its column.
struct Reflection {
    vector: Vec<f64>,
    factor: f64,
}

/// QL steps per eigenvalue, at most; three are usual.
const MOST_STEPS: usize = 80;

/// Eigenvalues and, row by row, eigenvectors of the symmetric `n x n` matrix; `None` if QL does not converge.
///
/// # Panics
/// If the matrix has not `n * n` entries.
pub fn symmetric(mut matrix: Vec<f64>, n: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    assert_eq!(matrix.len(), n * n, "a square matrix");
    if n == 0 {
        return Some((Vec::new(), Vec::new()));
    }
    let (mut diagonal, mut off_diagonal) = (vec![0.0; n], vec![0.0; n]);
    let reflections = tridiagonal(&mut matrix, n, &mut diagonal, &mut off_diagonal);
    let mut vectors = accumulate(&reflections, n);
    ql(&mut diagonal, &mut off_diagonal, &mut vectors, n)?;
    Some((diagonal, vectors))
}

/// Reduces to tridiagonal form: `diagonal[k]` and, between `k` and `k + 1`, `off_diagonal[k]`.
fn tridiagonal(
    matrix: &mut [f64],
    n: usize,
    diagonal: &mut [f64],
    off_diagonal: &mut [f64],
) -> Vec<Reflection> {
    let mut reflections = Vec::new();
    for k in 0..n.saturating_sub(2) {
        let mut v: Vec<f64> = (k + 1..n).map(|row| matrix[row * n + k]).collect();
        let scale = v.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        if scale == 0.0 || !scale.is_finite() {
            off_diagonal[k] = 0.0;
            reflections.push(Reflection { vector: Vec::new(), factor: 0.0 });
            continue;
        }
        v.iter_mut().for_each(|x| *x /= scale);
        let length = dot(&v, &v).sqrt();
        let alpha = if v[0] > 0.0 { -length } else { length };
        v[0] -= alpha;
        let factor = 2.0 / dot(&v, &v);
        off_diagonal[k] = alpha * scale;
        let mut p: Vec<f64> =
            (k + 1..n).map(|row| factor * dot(&matrix[row * n + k + 1..][..v.len()], &v)).collect();
        let half = 0.5 * factor * dot(&p, &v);
        p.iter_mut().zip(&v).for_each(|(p, v)| *p -= half * v);
        for (at, row) in (k + 1..n).enumerate() {
            let (a, b) = (v[at], p[at]);
            let places = &mut matrix[row * n + k + 1..][..v.len()];
            for ((place, p), v) in places.iter_mut().zip(&p).zip(&v) {
                *place -= a * p + b * v;
            }
        }
        reflections.push(Reflection { vector: v, factor });
    }
    for k in 0..n {
        diagonal[k] = matrix[k * n + k];
    }
    if n >= 2 {
        off_diagonal[n - 2] = matrix[(n - 1) * n + n - 2];
    }
    reflections
}

/// The transposed product of the reflections, built from the last so that only corners change.
fn accumulate(reflections: &[Reflection], n: usize) -> Vec<f64> {
    let mut vectors = vec![0.0; n * n];
    (0..n).for_each(|k| vectors[k * n + k] = 1.0);
    for (k, Reflection { vector, factor }) in reflections.iter().enumerate().rev() {
        for row in k + 1..n {
            let places = &mut vectors[row * n + n - vector.len()..(row + 1) * n];
            let share = factor * dot(places, vector);
            places.iter_mut().zip(vector).for_each(|(place, v)| *place -= share * v);
        }
    }
    vectors
}

/// Diagonalises a tridiagonal matrix, rotating the rows of `vectors` with it.
fn ql(diagonal: &mut [f64], off_diagonal: &mut [f64], vectors: &mut [f64], n: usize) -> Option<()> {
    // Off-diagonal entries are compared with the largest entries so far, as in EISPACK: in a matrix of low rank,
    // neighbouring entries are both rounding errors, and none would count as small against the other.
    let mut largest = 0.0;
    for low in 0..n {
        largest = f64::max(largest, diagonal[low].abs() + off_diagonal[low].abs());
        for step in 0.. {
            let small = |k: &usize| {
                let size = diagonal[*k].abs() + diagonal[*k + 1].abs();
                off_diagonal[*k].abs() <= f64::EPSILON * size.max(largest)
            };
            let high = (low..n - 1).find(small).unwrap_or(n - 1);
            if high == low {
                break;
            }
            if step == MOST_STEPS {
                return None;
            }
            sweep(low, high, diagonal, off_diagonal, vectors, n);
        }
    }
    Some(())
}

/// One implicit QL step on the block `low..=high`.
fn sweep(
    low: usize,
    high: usize,
    diagonal: &mut [f64],
    off_diagonal: &mut [f64],
    vectors: &mut [f64],
    n: usize,
) {
    let shift = (diagonal[low + 1] - diagonal[low]) / (2.0 * off_diagonal[low]);
    let root = shift.hypot(1.0).copysign(shift);
    let mut g = diagonal[high] - diagonal[low] + off_diagonal[low] / (shift + root);
    let (mut sine, mut cosine, mut p) = (1.0, 1.0, 0.0);
    for k in (low..high).rev() {
        let f = sine * off_diagonal[k];
        let b = cosine * off_diagonal[k];
        let r = f.hypot(g);
        off_diagonal[k + 1] = r;
        if r == 0.0 {
            diagonal[k + 1] -= p;
            off_diagonal[high] = 0.0;
            return;
        }
        sine = f / r;
        cosine = g / r;
        g = diagonal[k + 1] - p;
        let turned = (diagonal[k] - g) * sine + 2.0 * cosine * b;
        p = sine * turned;
        diagonal[k + 1] = g + p;
        g = cosine * turned - b;
        let (first, second) = vectors[k * n..(k + 2) * n].split_at_mut(n);
        for (a, b) in first.iter_mut().zip(second) {
            let old = *b;
            *b = sine * *a + cosine * old;
            *a = cosine * *a - sine * old;
        }
    }
    diagonal[low] -= p;
    off_diagonal[low] = g;
    off_diagonal[high] = 0.0;
}

/// Four partial sums; order does not matter here.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (left, right) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in left.zip(right) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    rest + sums.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::symmetric;

    #[test]
    fn the_matrix_comes_back_from_its_eigenvectors() {
        for n in [1usize, 2, 3, 10, 40] {
            let entry = |a: usize, b: usize| ((a * b + a + b) as f64).sin();
            let matrix: Vec<f64> = (0..n * n).map(|at| entry(at / n, at % n)).collect();
            let (values, vectors) = symmetric(matrix.clone(), n).unwrap();
            for a in 0..n {
                for b in 0..n {
                    let terms = (0..n).map(|j| values[j] * vectors[j * n + a] * vectors[j * n + b]);
                    let back: f64 = terms.sum();
                    assert!((back - matrix[a * n + b]).abs() < 1e-12 * n as f64, "{n}: {a} {b}");
                    let product: f64 =
                        (0..n).map(|c| vectors[a * n + c] * vectors[b * n + c]).sum();
                    let expected = f64::from(u8::from(a == b));
                    assert!((product - expected).abs() < 1e-13 * n as f64, "{n}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn matrices_of_low_rank_have_eigenvectors_too() {
        let n = 60;
        let row = |j: usize, a: usize| ((a * (j + 3)) as f64 * 0.7).sin();
        let entry = |a: usize, b: usize| (0..4).map(|j| row(j, a) * row(j, b)).sum::<f64>();
        let matrix: Vec<f64> = (0..n * n).map(|at| entry(at / n, at % n)).collect();
        let (values, _) = symmetric(matrix, n).unwrap();
        assert_eq!(values.iter().filter(|value| value.abs() > 1e-10).count(), 4);
    }

    #[test]
    fn zeros_and_diagonals_are_their_own_eigenvectors() {
        assert_eq!(symmetric(vec![0.0; 9], 3).unwrap().0, [0.0; 3]);
        let (mut values, _) = symmetric(vec![2.0, 0.0, 0.0, -1.0], 2).unwrap();
        values.sort_by(f64::total_cmp);
        assert_eq!(values, [-1.0, 2.0]);
    }
}
