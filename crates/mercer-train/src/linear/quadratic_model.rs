//! The second-order model of a cost around some weights, with the L1 penalty.
//! When the model is made, and the line search along its solution, are in `lasso`.

use super::products::Products;
use super::subproblem::next_below;
use super::transposed::Transposed;

/// Violations of the optimality conditions in a pass.
#[derive(Debug, Default)]
pub(super) struct Violations {
    pub(super) sum: f64,
    pub(super) most: f64,
}

impl Violations {
    /// Adds the violation of a weight; whether it is at zero and further than `rest` from leaving.
    #[inline]
    fn add(&mut self, weight: f64, slope: f64, rest: f64) -> bool {
        let violation = if weight > 0.0 {
            (slope + 1.0).abs()
        } else if weight < 0.0 {
            (slope - 1.0).abs()
        } else {
            (slope.abs() - 1.0).max(0.0)
        };
        self.sum += violation;
        self.most = self.most.max(violation);
        weight == 0.0 && slope.abs() + rest < 1.0
    }
}

/// First and second derivatives of every row's cost in its score, and slopes of columns that they made.
///
/// A slope is known to within how far the derivatives went since it was made, so a column that was far from
/// leaving zero need not be checked again for a while.
#[derive(Debug, Default)]
pub(super) struct LossDerivatives {
    rows: Vec<[f64; 2]>,
    /// How far the first derivatives went in all: by the length of the changes, and by the largest of each.
    path: [f64; 2],
    /// The largest first derivative so far.
    largest: f64,
    /// Slope and curvature of every column, and the path when they were made.
    columns: Vec<([f64; 2], [f64; 2])>,
}

impl LossDerivatives {
    /// Becomes these derivatives, row by row.
    pub(super) fn renew(&mut self, rows: impl ExactSizeIterator<Item = [f64; 2]>) {
        if self.rows.len() != rows.len() {
            self.rows = rows.collect();
            self.largest = self.rows.iter().fold(0.0, |most, [first, _]| first.abs().max(most));
            return;
        }
        let (mut squares, mut most) = (0.0, 0.0f64);
        for (old, new) in self.rows.iter_mut().zip(rows) {
            let by = (new[0] - old[0]).abs();
            squares += by * by;
            most = if by > most { by } else { most };
            *old = new;
        }
        self.path[0] += f64::sqrt(squares);
        self.path[1] += most;
        self.largest += most;
    }

    /// Slope and curvature of every column; columns at zero that stay there are left out of `active`.
    pub(super) fn scan(
        &mut self,
        columns: &Transposed,
        weights: &[f64],
        Shrinking { least, rest }: Shrinking,
        active: &mut Vec<u32>,
    ) -> Violations {
        let mut violations = Violations::default();
        active.clear();
        let is_first = self.columns.len() != weights.len();
        self.columns.resize(weights.len(), ([0.0; 2], [0.0; 2]));
        // Rounding of sums of so many numbers, some of them path lengths.
        let rounding = 64.0 * f64::EPSILON * self.rows.len() as f64 * self.largest;
        for (column, weight) in weights.iter().enumerate() {
            let (norms, (made, at)) = (columns.norms(column), &mut self.columns[column]);
            if *weight == 0.0 && !is_first {
                let far = (self.path[0] - at[0]) * norms.squares.sqrt();
                let moved = far.min((self.path[1] - at[1]) * norms.sizes);
                if made[0].abs() + moved + rounding * norms.sizes + rest < 1.0 {
                    continue;
                }
            }
            let ridge = (least * norms.squares).max(f64::MIN_POSITIVE);
            let [slope, curve] = columns.sum(column, |row, x| {
                let [first, second] = self.rows[row];
                [first * x, second * (x * x)]
            });
            (*made, *at) = ([slope, curve + ridge], self.path);
            if !violations.add(*weight, slope, rest) {
                active.push(column as u32);
            }
        }
        violations
    }

    /// The slope of a column that is active.
    pub(super) fn slope(&self, column: usize) -> f64 {
        self.columns[column].0[0]
    }
}

/// When a column at zero is left out, and the least curvature of a column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shrinking {
    /// Least curvature, as a share of the squares of a column.
    pub(super) least: f64,
    /// A column at zero is shrunk if its gradient is further than this from leaving.
    pub(super) rest: f64,
}

/// Memory of an earlier model, to use again.
#[derive(Debug)]
pub(super) struct Buffers {
    /// Columns that are active.
    pub(super) active: Vec<u32>,
    /// Overwritten.
    pub(super) moves: Vec<[f64; 2]>,
}

/// The model around some weights.
#[derive(Debug)]
pub(super) struct QuadraticModel<'m> {
    pub(super) columns: &'m Transposed,
    pub(super) terms: &'m LossDerivatives,
    pub(super) from: Vec<f64>,
    pub(super) to: Vec<f64>,
    /// Least curvature, as a share of the squares of a column.
    pub(super) least: f64,
    /// Second derivative of every row's cost, and the change of its score so far.
    pub(super) moves: Vec<[f64; 2]>,
    /// Columns that are not shrunk.
    pub(super) active: Vec<u32>,
}

/// Passes over the columns in one step.
const MOST_PASSES: u64 = 1000;
/// Passes after which products of few columns are made.
const PASSES_BEFORE_PRODUCTS: u64 = 4;
/// Passes over products.
const MOST_ON_PRODUCTS: usize = 300;
/// The share of the violations wanted that passes over products leave: they cost little.
const FINER: f64 = 0.1;

impl<'m> QuadraticModel<'m> {
    /// At the weights `from`.
    pub(super) fn new(
        columns: &'m Transposed,
        terms: &'m LossDerivatives,
        from: Vec<f64>,
        least: f64,
        buffers: Buffers,
    ) -> Self {
        let Buffers { active, mut moves } = buffers;
        moves.clear();
        moves.extend(terms.rows.iter().map(|[_, second]| [*second, 0.0]));
        let to = from.clone();
        Self { columns, terms, from, to, least, moves, active }
    }

    /// Coordinate descent until the violations sum to `wanted`, columns in random order; reports the
    /// updates of every pass, and ends where `go_on` is false.
    pub(super) fn descend(
        &mut self,
        wanted: f64,
        random: &mut u64,
        mut go_on: impl FnMut(u64) -> bool,
    ) {
        let (mut active, mut rest) = (self.active.len(), f64::INFINITY);
        for pass in 1..=MOST_PASSES {
            shuffle(&mut self.active[..active], random);
            let (mut violations, mut at, updates) = (Violations::default(), 0, active as u64);
            while at < active {
                if self.update(self.active[at] as usize, rest, &mut violations) {
                    at += 1;
                } else {
                    active -= 1;
                    self.active.swap(at, active);
                }
            }
            if !go_on(updates) {
                return;
            }
            rest = violations.most / self.moves.len() as f64;
            if violations.sum <= wanted {
                if active == self.active.len() {
                    return;
                }
                (active, rest) = (self.active.len(), f64::INFINITY);
            } else if pass == PASSES_BEFORE_PRODUCTS && self.settle(FINER * wanted, random) {
                return;
            }
        }
    }

    /// The best point of the model in one weight.
    #[inline]
    fn best(weight: f64, slope: f64, curve: f64) -> f64 {
        let at = curve * weight;
        if slope + 1.0 < at {
            weight - (slope + 1.0) / curve
        } else if slope - 1.0 > at {
            weight - (slope - 1.0) / curve
        } else {
            0.0
        }
    }

    /// Moves a weight to the optimum of the model in it; false where the column was shrunk.
    #[inline]
    fn update(&mut self, column: usize, rest: f64, violations: &mut Violations) -> bool {
        let ([first, curve], weight) = (self.terms.columns[column].0, self.to[column]);
        let moves = self.moves.as_mut_slice();
        let [pulled] = self.columns.sum(column, |row, x| [moves[row][0] * moves[row][1] * x]);
        let slope = first + pulled + self.ridge(column) * (weight - self.from[column]);
        if violations.add(weight, slope, rest) {
            return false;
        }
        self.go(column, Self::best(weight, slope, curve));
        true
    }

    fn ridge(&self, column: usize) -> f64 {
        self.least * self.columns.norms(column).squares
    }

    fn go(&mut self, column: usize, new: f64) {
        let change = new - self.to[column];
        if change != 0.0 && change.is_finite() {
            self.to[column] = new;
            let moves = self.moves.as_mut_slice();
            self.columns.each(column, |row, x| moves[row][1] += change * x);
        }
    }

    /// Descends on the products of the active columns, if they are few; says whether it did.
    fn settle(&mut self, wanted: f64, random: &mut u64) -> bool {
        let weight = |row: usize| self.moves[row][0];
        let rows = self.moves.len();
        let Some(products) = Products::new(self.columns, &self.active, rows, weight) else {
            return false;
        };
        let columns = || self.active.iter().map(|column| *column as usize);
        let mut slopes: Vec<f64> = columns().map(|column| self.terms.slope(column)).collect();
        let change = |slopes: &mut [f64], place: usize, by: f64| {
            let along = slopes.iter_mut().zip(products.of(place));
            along.for_each(|(slope, product)| *slope += by * product);
            slopes[place] += by * self.ridge(self.active[place] as usize);
        };
        let mut to: Vec<f64> = columns().map(|column| self.to[column]).collect();
        for (place, column) in columns().enumerate().filter(|(_, c)| self.to[*c] != self.from[*c]) {
            change(&mut slopes, place, to[place] - self.from[column]);
        }
        let mut order: Vec<u32> = (0..to.len() as u32).collect();
        for _ in 0..MOST_ON_PRODUCTS {
            shuffle(&mut order, random);
            let mut violations = Violations::default();
            for place in order.iter().map(|place| *place as usize) {
                let (column, weight) = (self.active[place] as usize, to[place]);
                violations.add(weight, slopes[place], 0.0);
                let new = Self::best(weight, slopes[place], self.terms.columns[column].0[1]);
                let by = new - weight;
                if by != 0.0 && by.is_finite() {
                    to[place] = new;
                    change(&mut slopes, place, by);
                }
            }
            if violations.sum <= wanted {
                break;
            }
        }
        for (place, new) in to.into_iter().enumerate() {
            self.go(self.active[place] as usize, new);
        }
        true
    }
}

fn shuffle(columns: &mut [u32], random: &mut u64) {
    for at in (1..columns.len()).rev() {
        columns.swap(at, next_below(random, at as u32 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use mercer_data::Matrix;

    use super::{LossDerivatives, Shrinking, Transposed, next_below};
    use crate::packed::{ColumnOrder, RowsToPack};

    /// Bounds on the gradient save scans of columns that stay at zero, and never miss a column that leaves.
    #[test]
    fn columns_that_are_not_scanned_stay_at_zero() {
        let (rows, columns, mut random) = (60, 40, 5);
        let mut unit = || f64::from(next_below(&mut random, 1 << 20)) / f64::from(1 << 20);
        let mut value = |at: usize| {
            let size = if at.is_multiple_of(3) { 1.0 } else { 0.02 };
            if unit() < 0.3 { size * (2.0 * unit() - 1.0) } else { 0.0 }
        };
        let values = (0..rows * columns).map(&mut value).collect();
        let matrix = Matrix::dense(columns, values).unwrap();
        let numbers: Vec<u32> = (0..rows as u32).collect();
        let (kept, places) = ColumnOrder::new(&matrix, &numbers).unwrap();
        let (classes, columns_of) = (&[], &kept);
        let rows_to_pack = RowsToPack {
            source: &matrix,
            rows: &numbers,
            classes,
            columns: columns_of,
            places: &places,
        };
        let made = Transposed::new(rows_to_pack, 1.0, usize::MAX);
        let by_columns = made.unwrap().unwrap();
        let shrinking = Shrinking { least: 1e-12, rest: 0.01 };
        let (mut carried, mut spared) = (LossDerivatives::default(), 0);
        let mut weights = vec![0.0; columns + 1];
        weights[4] = 0.5;
        let mut firsts: Vec<f64> = (0..rows).map(|_| unit() - 0.5).collect();
        for step in 0..40 {
            let far = 0.4 * 0.8f64.powi(step);
            firsts.iter_mut().for_each(|first| *first += far * (unit() - 0.5));
            let terms = || firsts.iter().map(|first| [*first, 0.25]);
            let mut fresh = LossDerivatives::default();
            fresh.renew(terms());
            carried.renew(terms());
            let (mut all, mut some) = (Vec::new(), Vec::new());
            let violations = fresh.scan(&by_columns, &weights, shrinking, &mut all);
            let found = carried.scan(&by_columns, &weights, shrinking, &mut some);
            assert_eq!(
                (violations.sum, violations.most, all),
                (found.sum, found.most, some),
                "step {step}"
            );
            spared += carried.columns.iter().filter(|(_, at)| *at != carried.path).count();
        }
        assert!(spared > 20 * columns, "{spared}");
    }
}
