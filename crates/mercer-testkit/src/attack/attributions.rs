//! Attributions of an attacked machine against Shapley values in multiple precision. The values are computed from the definition:
//! subset by subset, or, for products, by the number of columns of a subset; nothing is shared with `mercer-query`.

use mercer_data::Matrix;
use mercer_machine::Score;
use mercer_query::{Attribution, Attributor, Interval, QueryError, ScoreChoice};
use mercer_spec::{Spec, Value};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::check::{AttackCounts, ENOUGH, Violation};
use super::truth::{is_rational, table_part};
use super::{AttackCase, TrueScore, matrix};
use crate::real::Real;
use crate::{generate, reference};

/// The name under which attributions are counted.
pub const ATTRIBUTIONS: &str = "attributions";

/// Background rows of each attribution.
const BACKGROUND: usize = 2;
/// Columns in which rows differ from the background: more of them at times where the game is a sum or a product.
const DIFFERENT: usize = 8;
/// So many different columns at most are computed in multiple precision at first.
const PRECISE: usize = 6;
/// One row in so many of kernels whose logarithms are slow in multiple precision.
const SLOW_SHARE: usize = 4;

/// A row that is attributed, and its background.
struct Query {
    row: Vec<f64>,
    background: Vec<Vec<f64>>,
    is_precise: bool,
}

/// What a subset of columns makes of its numbers, one for each column.
enum Game {
    Sum,
    Product,
    /// `(shift + Σ)^degree`
    Power {
        shift: f64,
        degree: u32,
    },
}

impl AttackCase {
    /// Attributes `count` rows and compares the range of each column with its Shapley value.
    pub fn check_attributions(&self, count: usize, counts: &mut AttackCounts) -> Vec<Violation> {
        let mut rng = self.plan_rng(ATTRIBUTIONS, 0);
        let (mut found, mut machines) = (Vec::new(), 0);
        for number in 0..count {
            let query = self.query(&mut rng, number);
            let answer = match self.attributed(&query) {
                Ok(answer) => answer,
                Err(QueryError::NotAttributable { .. }) => return found,
                Err(QueryError::NotFinite { .. }) => {
                    counts.refused += 1;
                    continue;
                }
                Err(other) => panic!("{other}; {}", self.replay()),
            };
            machines = 1;
            self.count_attribution(&query, &answer, counts);
            let truth = if query.is_precise {
                self.true_attribution(&query, &answer, TrueScore::Precise)
            } else {
                self.true_attribution(&query, &answer, TrueScore::DoubleDouble)
            };
            if wrong(&answer, &truth).is_none() {
                continue;
            }
            let confirmed = self.true_attribution(&query, &answer, TrueScore::Confirmed);
            if let Some(what) = wrong(&answer, &confirmed) {
                let Query { row, background, .. } = &query;
                let what = format!("attribution {number}, {what}; {row:?} against {background:?}");
                found.push(self.violation(ATTRIBUTIONS, what));
                if found.len() == ENOUGH {
                    break;
                }
            }
        }
        counts.by_stage.entry((ATTRIBUTIONS, self.scale)).or_default().machines += machines;
        found
    }

    /// Two queries as background, and a third one that agrees with them in most columns if there are many.
    fn query(&self, rng: &mut Xoshiro256PlusPlus, number: usize) -> Query {
        let mut draw = || generate::row(&self.queries, rng.random_range(0..self.queries.rows()));
        let (mut row, mut background) =
            (draw(), (0..BACKGROUND).map(|_| draw()).collect::<Vec<_>>());
        let columns = row.len();
        let keeps_all = columns <= DIFFERENT && rng.random_range(0..3) > 0;
        let is_power = matches!(game(&self.spec), Some(Game::Power { .. }));
        let keeps_more = !is_power && rng.random_range(0..8) == 0;
        let mut different = columns;
        if !keeps_all && !keeps_more {
            different = rng.random_range(1..=DIFFERENT.min(columns));
            let first = rng.random_range(0..columns);
            for step in different..columns {
                let column = (first + step) % columns;
                let shared = background[0][column];
                row[column] = shared;
                background.iter_mut().for_each(|z| z[column] = shared);
            }
        }
        let is_slow = !is_rational(&self.spec) && !number.is_multiple_of(SLOW_SHARE);
        Query { row, background, is_precise: different <= PRECISE && !is_slow }
    }

    fn attributed(&self, query: &Query) -> Result<Attribution, QueryError> {
        let fit = |rows: &[Vec<f64>]| -> Matrix {
            let rows = matrix(query.row.len(), rows);
            if self.queries.is_sparse() { rows.to_sparse() } else { rows }
        };
        let attributor = Attributor::new(&self.machine, &fit(&query.background))?;
        let row = fit(std::slice::from_ref(&query.row));
        let mut found = attributor.attribute(&row, ScoreChoice::Deciding)?;
        Ok(found.swap_remove(0))
    }

    /// Counts the ranges of columns that differ; as certified those that prove a sign.
    fn count_attribution(&self, query: &Query, answer: &Attribution, counts: &mut AttackCounts) {
        let count = counts.by_stage.entry((ATTRIBUTIONS, self.scale)).or_default();
        for (column, range) in answer.ranges.iter().enumerate() {
            let own = query.row.get(column);
            if query.background.iter().all(|z| z.get(column) == own) {
                continue;
            }
            count.pairs += 1;
            count.precise += u64::from(query.is_precise);
            count.certified += u64::from(range.low > 0.0 || range.high < 0.0);
            counts.references += u64::from(query.is_precise);
        }
    }

    fn true_attribution<T: Real>(
        &self,
        query: &Query,
        answer: &Attribution,
        wrap: impl Fn(T) -> TrueScore,
    ) -> Vec<TrueScore> {
        let score = &self.machine.scores()[answer.explained.position];
        let Query { row, background, .. } = query;
        let mut sums = vec![T::from(0.0); row.len()];
        for z in background {
            let parts = self.shapley::<T>(score, row, z);
            sums = sums.into_iter().zip(parts).map(|(sum, part)| sum + part).collect();
        }
        let rows = T::from(background.len() as f64);
        let sign = T::from(if answer.explained.is_negated { -1.0 } else { 1.0 });
        sums.into_iter().map(|sum| wrap(sign.clone() * sum / rows.clone())).collect()
    }

    /// Shapley values of a score for one background row.
    fn shapley<T: Real>(&self, score: &Score, x: &[f64], z: &[f64]) -> Vec<T> {
        let zeros = vec![T::from(0.0); x.len()];
        match score {
            Score::Linear { weights, .. } => {
                let weight = |column: usize| weights.get(column).copied().unwrap_or(0.0);
                let part =
                    |row: &[f64], column: usize| T::from(weight(column)) * T::from(row[column]);
                (0..x.len()).map(|column| part(x, column) - part(z, column)).collect()
            }
            Score::Additive { weights, .. } => {
                let bins = self.machine.bins().expect("additive machines have bins");
                let part =
                    |row: &[f64], column| table_part::<T>(bins, weights, column, row[column]);
                (0..x.len()).map(|column| part(x, column) - part(z, column)).collect()
            }
            Score::Expansion { supports, coefficients, .. } => {
                let game = game(&self.spec).expect("the game of a kernel that is attributed");
                let terms = supports.iter().zip(coefficients);
                terms.fold(zeros, |sums, (support, beta)| {
                    let parts = game.values(&self.spec, &self.supports[*support as usize], x, z);
                    let parts = parts.into_iter().map(|part: T| T::from(*beta) * part);
                    sums.into_iter().zip(parts).map(|(sum, part)| sum + part).collect()
                })
            }
        }
    }
}

/// The game that a kernel plays with one support; none if it is no such kernel.
fn game(spec: &Spec) -> Option<Game> {
    let is_sum = |name: &str| {
        let sums = ["intersection", "chi2", "hellinger", "jensen_shannon", "power_mean"];
        sums.contains(&name) || name == "linear" || name == "precomputed"
    };
    match spec.name() {
        name if is_sum(name) => Some(Game::Sum),
        "rbf" | "laplacian" => Some(Game::Product),
        "exponential" => match spec.positional().first() {
            Some(Value::Spec(inner)) if is_sum(inner.name()) => Some(Game::Product),
            _ => None,
        },
        "polynomial" => {
            let [_, shift] = reference::affine_parameters(spec);
            Some(Game::Power { shift, degree: reference::degree(spec) })
        }
        _ => None,
    }
}

impl Game {
    /// Shapley values of `x` against `z`, for one support.
    fn values<T: Real>(&self, spec: &Spec, support: &[f64], x: &[f64], z: &[f64]) -> Vec<T> {
        let number = |row: &[f64], column: usize| {
            let s = support.get(column).copied().unwrap_or(0.0);
            match self {
                Self::Power { .. } => {
                    let [scale, _] = reference::affine_parameters(spec);
                    T::from(scale) * T::from(row[column]) * T::from(s)
                }
                // Sums and products over columns are kernels of a single column too.
                _ => reference::kernel::<T>(spec, &[s], &[row[column]]),
            }
        };
        let differs = |column: &usize| x[*column] != z[*column];
        let different: Vec<usize> = (0..x.len()).filter(differs).collect();
        let pairs: Vec<[T; 2]> =
            different.iter().map(|column| [number(x, *column), number(z, *column)]).collect();
        let shared = (0..x.len()).filter(|column| !differs(column)).map(|column| number(x, column));
        let found = match self {
            Self::Sum => pairs.into_iter().map(|[a, b]| a - b).collect(),
            Self::Product => of_products(&pairs, shared.fold(T::from(1.0), |all, one| all * one)),
            Self::Power { shift, degree } => {
                of_powers(&pairs, shared.fold(T::from(*shift), |all, one| all + one), *degree)
            }
        };
        let mut values = vec![T::from(0.0); x.len()];
        for (column, value) in different.into_iter().zip(found) {
            values[column] = value;
        }
        values
    }
}

/// The weight of a subset of `size` columns out of `columns`, without the one that joins it: `size! (columns - size - 1)! / columns!`.
fn weight<T: Real>(size: usize, columns: usize) -> T {
    // 1 / (columns binomial(columns - 1, size)), whose binomial is a product of whole quotients.
    let binomial = (0..size).fold(T::from(1.0), |sum, step| {
        sum * T::from((columns - 1 - step) as f64) / T::from((step + 1) as f64)
    });
    T::from(1.0) / (T::from(columns as f64) * binomial)
}

/// `common (a_j - b_j) Σ_k weight(k) e_k`: `e_k` is the sum of the products in which k of the other columns take a and the rest b.
fn of_products<T: Real>(pairs: &[[T; 2]], common: T) -> Vec<T> {
    let each = |own: usize| {
        let mut sums = vec![T::from(1.0)];
        for (_, [a, b]) in pairs.iter().enumerate().filter(|(other, _)| *other != own) {
            let mut next: Vec<T> = sums.iter().map(|sum| sum.clone() * b.clone()).collect();
            next.push(T::from(0.0));
            for (at, sum) in sums.into_iter().enumerate() {
                next[at + 1] = next[at + 1].clone() + sum * a.clone();
            }
            sums = next;
        }
        let weighted = sums.into_iter().enumerate();
        let weighted = weighted.map(|(size, sum)| weight::<T>(size, pairs.len()) * sum);
        let [a, b] = pairs[own].clone();
        common.clone() * (a - b) * weighted.fold(T::from(0.0), |all, one| all + one)
    };
    (0..pairs.len()).map(each).collect()
}

/// Over all subsets of the other columns, `(T + a)^p - (T + b)^p = (a - b) Σ_i (T + a)^i (T + b)^(p-1-i)`.
fn of_powers<T: Real>(pairs: &[[T; 2]], shared: T, degree: u32) -> Vec<T> {
    let count = pairs.len();
    let each = |own: usize| {
        let subsets = (0..1usize << count).filter(|subset| (subset >> own) & 1 == 0);
        let sum = subsets.fold(T::from(0.0), |sum, subset| {
            let others = (0..count).filter(|other| *other != own);
            let taken = |other: usize| pairs[other][1 - ((subset >> other) & 1)].clone();
            let rest = others.fold(shared.clone(), |rest, other| rest + taken(other));
            let [a, b] = pairs[own].clone().map(|number| rest.clone() + number);
            // Horner's rule for the quotient of the difference by a - b.
            let (mut quotient, mut power) = (T::from(0.0), T::from(1.0));
            for _ in 0..degree {
                quotient = quotient * a.clone() + power.clone();
                power = power * b.clone();
            }
            sum + weight::<T>(subset.count_ones() as usize, count) * quotient
        });
        let [a, b] = pairs[own].clone();
        (a - b) * sum
    };
    (0..count).map(each).collect()
}

/// The first column whose range is wrong. Ends at the largest numbers say that nothing is known.
fn wrong(answer: &Attribution, truth: &[TrueScore]) -> Option<String> {
    for (column, (range, truth)) in answer.ranges.iter().zip(truth).enumerate() {
        let open = Interval {
            low: if range.low == f64::MIN { f64::NEG_INFINITY } else { range.low },
            high: if range.high == f64::MAX { f64::INFINITY } else { range.high },
        };
        let Interval { low, high } = range;
        if !truth.is_within(open) || !range.contains(answer.values[column]) {
            let (value, truth) = (answer.values[column], truth.to_f64());
            return Some(format!(
                "column {column}: the Shapley value {truth:e} is not in [{low:e}, {high:e}] around {value:e}"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wide;

    /// Products and powers of three columns from the definition: all orders in which columns join.
    #[test]
    fn games_are_those_of_the_definition() {
        let pairs = [[0.3, 1.7], [2.0, -0.4], [1.1, 0.6]].map(|pair| pair.map(Wide::from));
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let mean = |value: &dyn Fn(&[bool; 3]) -> Wide| -> Vec<Wide> {
            let mut sums = vec![Wide::ZERO; 3];
            for order in orders {
                let mut joined = [false; 3];
                for column in order {
                    let before = value(&joined);
                    joined[column] = true;
                    sums[column] = sums[column] + value(&joined) - before;
                }
            }
            sums.into_iter().map(|sum| sum / Wide::from(6.0)).collect()
        };
        let taken = |joined: &[bool; 3], column: usize| pairs[column][usize::from(!joined[column])];
        let (common, shared) = (Wide::from(0.7), Wide::from(-1.3));
        let product =
            |joined: &[bool; 3]| (0..3).fold(common, |all, column| all * taken(joined, column));
        let power = |joined: &[bool; 3]| {
            (0..3).fold(shared, |all, column| all + taken(joined, column)).powi(5)
        };
        let close = |found: Vec<Wide>, truth: Vec<Wide>| {
            let pairs = found.into_iter().zip(truth);
            pairs.into_iter().all(|(found, truth)| (found - truth).abs() < Wide::from(1e-28))
        };
        assert!(close(of_products(&pairs, common), mean(&product)));
        assert!(close(of_powers(&pairs, shared, 5), mean(&power)));
    }
}
