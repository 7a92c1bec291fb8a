//! Embeddings of feature space that order supports: kernel PCA on a few of them, and FastMAP (Faloutsos and Lin 1995),
//! which \[DM03\] names in section 4.3. Both are affine in the kernel values of a query with a few supports, the
//! landmarks, so that they cost as much: two kernel values for each dimension.

use mercer_data::draw;
use mercer_kernel::eigen::symmetric;
use mercer_kernel::factor::{GramColumns, KernelColumns};

use super::settings::NearnessOrder;

/// Rounds of the search for two supports that are far apart, as in the paper of FastMAP.
const ROUNDS: usize = 5;
/// Kernel values for each dimension.
const PER_DIMENSION: usize = 2;
/// Directions below this share of the largest are noise.
const NOISE: f64 = 1e-10;

/// Coordinates `y = M k + s` from kernel values `k` with the landmarks, and those of the supports.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FittedEmbedding {
    pub landmarks: Vec<u32>,
    /// `M`, row after row.
    pub map: Vec<f64>,
    pub shift: Vec<f64>,
    /// Coordinates of the supports, row after row.
    pub coordinates: Vec<f64>,
    /// What is added to the product of coordinates.
    pub constants: Vec<f64>,
}

impl FittedEmbedding {
    /// An embedding of the rows in at most so many dimensions; none if the rows do not differ.
    pub(super) fn new(
        ordering: NearnessOrder,
        columns: &mut KernelColumns,
        dimensions: usize,
    ) -> Option<Self> {
        match ordering {
            NearnessOrder::FastMap => fast_map(columns, dimensions),
            _ => kernel_pca(columns, dimensions),
        }
    }

    /// How near the supports are to a query with these kernel values with all of them: kernel values, up to a constant.
    pub(super) fn values(&self, kernels: &[f64], out: &mut [f64]) {
        let known: Vec<f64> = self.landmarks.iter().map(|at| kernels[*at as usize]).collect();
        let rows = self.map.chunks_exact(known.len()).zip(&self.shift);
        let y: Vec<f64> = rows
            .map(|(row, shift)| row.iter().zip(&known).map(|(m, k)| m * k).sum::<f64>() + shift)
            .collect();
        let supports = self.coordinates.chunks_exact(y.len()).zip(&self.constants);
        for (place, (row, constant)) in out.iter_mut().zip(supports) {
            *place = row.iter().zip(&y).map(|(a, b)| a * b).sum::<f64>() + constant;
        }
    }

    /// Coordinates of all rows from their kernel values with the landmarks, landmark after landmark.
    fn of_rows(&self, values: &[Vec<f64>], rows: usize) -> Vec<f64> {
        let (count, size) = (self.landmarks.len(), self.shift.len());
        let mut out = Vec::with_capacity(rows * size);
        for row in 0..rows {
            for (weights, shift) in self.map.chunks_exact(count).zip(&self.shift) {
                let sum: f64 = weights.iter().zip(values).map(|(m, k)| m * k[row]).sum();
                out.push(sum + shift);
            }
        }
        out
    }
}

fn column(columns: &mut KernelColumns, row: usize) -> Vec<f64> {
    let mut out = vec![0.0; columns.diagonal().len()];
    columns.column(row, &mut out);
    out
}

/// Principal directions in feature space of some supports, drawn at random (Nyström).
fn kernel_pca(columns: &mut KernelColumns, dimensions: usize) -> Option<FittedEmbedding> {
    let rows = columns.diagonal().len();
    let mut chosen = draw(rows, PER_DIMENSION * dimensions, 1);
    chosen.sort_unstable();
    let values: Vec<Vec<f64>> = chosen.iter().map(|row| column(columns, *row)).collect();
    let count = chosen.len();
    let gram = values.iter().flat_map(|own| chosen.iter().map(|row| own[*row])).collect();
    let (eigenvalues, vectors) = symmetric(gram, count)?;
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| eigenvalues[*b].total_cmp(&eigenvalues[*a]));
    let most = eigenvalues[*order.first()?];
    order.retain(|at| eigenvalues[*at] > NOISE * most);
    order.truncate(dimensions);
    let direction = |at: &usize| {
        let root = eigenvalues[*at].sqrt();
        vectors[at * count..(at + 1) * count].iter().map(move |v| v / root)
    };
    let mut found = FittedEmbedding {
        landmarks: chosen.iter().map(|row| *row as u32).collect(),
        map: order.iter().flat_map(direction).collect(),
        shift: vec![0.0; order.len()],
        coordinates: Vec::new(),
        constants: vec![0.0; rows],
    };
    found.coordinates = found.of_rows(&values, rows);
    (!order.is_empty()).then_some(found)
}

/// FastMAP in feature space: each dimension is the way between two supports that are far apart,
/// `x = (D²(a, i) + D²(a, b) - D²(b, i)) / (2 D(a, b))`, with distances less what earlier dimensions explain.
///
/// The squares of a query's earlier coordinates cancel between `D²(a, x)` and `D²(b, x)`, and so does `K(x, x)`: all
/// coordinates are affine in the kernel values. `K(x, i) = (K(x, x) + K(i, i) - D²(x, i)) / 2` with the distance in
/// the embedding gives `y·y_i + (K(i, i) - |y_i|²) / 2`, but for what all supports share.
fn fast_map(columns: &mut KernelColumns, dimensions: usize) -> Option<FittedEmbedding> {
    let diagonal = columns.diagonal().to_vec();
    let mut map = FastMap { diagonal, axes: Vec::new(), landmarks: Vec::new(), values: Vec::new() };
    let mut rows: Vec<(Vec<(usize, f64)>, f64)> = Vec::new();
    while map.axes.len() < dimensions {
        let Some((a, b)) = map.far_apart(columns) else { break };
        rows.push(map.add_axis(a, b, &rows));
    }
    if map.axes.is_empty() {
        return None;
    }
    let (count, size) = (map.landmarks.len(), map.axes.len());
    let mut found = FittedEmbedding {
        landmarks: map.landmarks.iter().map(|row| *row as u32).collect(),
        map: vec![0.0; size * count],
        shift: rows.iter().map(|(_, shift)| *shift).collect(),
        coordinates: Vec::new(),
        constants: Vec::new(),
    };
    for (place, (weights, _)) in found.map.chunks_exact_mut(count).zip(&rows) {
        weights.iter().for_each(|(landmark, weight)| place[*landmark] += weight);
    }
    let all = 0..map.diagonal.len();
    found.coordinates = all.clone().flat_map(|row| map.axes.iter().map(move |x| x[row])).collect();
    let constant = |row: usize| {
        let square: f64 = map.axes.iter().map(|axis| axis[row] * axis[row]).sum();
        (map.diagonal[row] - square) / 2.0
    };
    found.constants = all.map(constant).collect();
    Some(found)
}

/// The state of FastMAP.
struct FastMap {
    diagonal: Vec<f64>,
    /// Coordinate after coordinate, one value for each support.
    axes: Vec<Vec<f64>>,
    /// Supports at the ends of an axis, and their kernel values with all supports.
    landmarks: Vec<usize>,
    values: Vec<Vec<f64>>,
}

impl FastMap {
    /// The place of a landmark, which is added if it is new.
    fn landmark(&mut self, columns: &mut KernelColumns, row: usize) -> usize {
        if let Some(at) = self.landmarks.iter().position(|known| *known == row) {
            return at;
        }
        self.landmarks.push(row);
        self.values.push(column(columns, row));
        self.landmarks.len() - 1
    }

    /// Squared distances of all supports from one with these kernel values, less what the axes explain.
    fn distances(&self, from: usize, values: &[f64]) -> Vec<f64> {
        let own = self.diagonal[from];
        let mut out: Vec<f64> =
            self.diagonal.iter().zip(values).map(|(d, k)| (own + d - 2.0 * k).max(0.0)).collect();
        for axis in &self.axes {
            for (place, x) in out.iter_mut().zip(axis) {
                *place = (*place - (x - axis[from]).powi(2)).max(0.0);
            }
        }
        out
    }

    /// Places of two landmarks that are far apart.
    fn far_apart(&mut self, columns: &mut KernelColumns) -> Option<(usize, usize)> {
        let farthest = |distances: &[f64]| {
            let (mut best, mut most) = (0, 0.0);
            for (row, distance) in distances.iter().enumerate() {
                if *distance > most {
                    (best, most) = (row, *distance);
                }
            }
            (best, most)
        };
        let (mut a, mut b, mut most) = (0, self.axes.len() % self.diagonal.len().max(1), 0.0);
        for _ in 0..ROUNDS {
            let (next, distance) = farthest(&self.distances(b, &column(columns, b)));
            if distance <= most {
                break;
            }
            (a, b, most) = (b, next, distance);
        }
        let largest = self.diagonal.iter().copied().fold(0.0, f64::max);
        if most <= NOISE * largest || a == b {
            return None;
        }
        Some((self.landmark(columns, a), self.landmark(columns, b)))
    }

    /// Adds the axis between two landmarks; returns its weights of kernel values and its shift.
    fn add_axis(
        &mut self,
        a: usize,
        b: usize,
        rows: &[(Vec<(usize, f64)>, f64)],
    ) -> (Vec<(usize, f64)>, f64) {
        let (first, second) = (self.landmarks[a], self.landmarks[b]);
        let square = self.distances(first, &self.values[a])[second];
        let length = square.sqrt();
        let (mut weights, mut shift) = (vec![(a, -1.0 / length), (b, 1.0 / length)], 0.0);
        let mut constant = self.diagonal[first] - self.diagonal[second] + square;
        for (axis, (earlier, earlier_shift)) in self.axes.iter().zip(rows) {
            constant -= axis[first].powi(2) - axis[second].powi(2);
            let share = (axis[first] - axis[second]) / length;
            weights.extend(earlier.iter().map(|(at, weight)| (*at, share * weight)));
            shift += share * earlier_shift;
        }
        shift += constant / (2.0 * length);
        // Merged, so that they do not double with every axis.
        let mut dense = vec![0.0; self.landmarks.len()];
        weights.iter().for_each(|(at, weight)| dense[*at] += weight);
        let coordinate = |row: usize| {
            dense.iter().zip(&self.values).map(|(weight, k)| weight * k[row]).sum::<f64>() + shift
        };
        let axis = (0..self.diagonal.len()).map(coordinate).collect();
        self.axes.push(axis);
        (dense.into_iter().enumerate().collect(), shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_data::Matrix;

    fn columns(kernel: &str, rows: usize) -> KernelColumns {
        let values: Vec<f64> =
            (0..3 * rows).map(|n| ((n * 7919 + 13) % 1000) as f64 / 500.0 - 1.0).collect();
        let kernel = mercer_kernel::parse(kernel).unwrap();
        KernelColumns::new(kernel, Matrix::dense(3, values).unwrap(), None, 0)
    }

    /// With as many dimensions as there are points the embedding is the kernel itself.
    #[test]
    fn full_embeddings_give_kernel_values_but_for_a_constant() {
        for ordering in [NearnessOrder::KernelPca, NearnessOrder::FastMap] {
            for kernel in ["rbf(gamma=0.7)", "polynomial(degree=2, gamma=0.5, coef0=1)"] {
                let mut columns = columns(kernel, 9);
                let found = FittedEmbedding::new(ordering, &mut columns, 9).unwrap();
                for row in 0..9 {
                    let kernels = column(&mut columns, row);
                    let mut values = vec![0.0; 9];
                    found.values(&kernels, &mut values);
                    let shift = kernels[0] - values[0];
                    for (value, kernel) in values.iter().zip(&kernels) {
                        assert!((value + shift - kernel).abs() < 1e-6, "{ordering:?}: {found:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_map_gives_the_coordinates_of_the_supports() {
        for ordering in [NearnessOrder::KernelPca, NearnessOrder::FastMap] {
            let mut columns = columns("rbf(gamma=0.7)", 40);
            let found = FittedEmbedding::new(ordering, &mut columns, 4).unwrap();
            assert_eq!((found.shift.len(), found.coordinates.len()), (4, 160));
            assert!(found.landmarks.len() <= 8);
            let values: Vec<Vec<f64>> = found
                .landmarks
                .iter()
                .map(|landmark| column(&mut columns, *landmark as usize))
                .collect();
            let again = found.of_rows(&values, 40);
            for (a, b) in again.iter().zip(&found.coordinates) {
                assert!((a - b).abs() < 1e-9, "{ordering:?}: {a} {b}");
            }
        }
    }

    #[test]
    fn equal_supports_have_no_axis() {
        let rows = Matrix::dense(2, vec![1.0; 8]).unwrap();
        let kernel = mercer_kernel::parse("rbf(gamma=1)").unwrap();
        let mut columns = KernelColumns::new(kernel, rows, None, 0);
        assert_eq!(FittedEmbedding::new(NearnessOrder::FastMap, &mut columns, 3), None);
        assert!(FittedEmbedding::new(NearnessOrder::KernelPca, &mut columns, 3).is_some());
    }
}
