//! Conversion of scores to probabilities: sigmoids, isotonic curves and pairwise coupling. How their
//! parameters are fitted is in `mercer-train`.

use crate::{Curve, Machine, Output, Probabilities, Scheme, pairs};

/// The smallest pairwise probability: LIBSVM's limit.
const LEAST: f64 = 1e-7;
/// Iterations of the coupling; LIBSVM's limit for few classes.
const ITERATIONS: usize = 100;

impl Probabilities {
    /// The probability of each class, if these are probabilities of classes.
    ///
    /// Two classes: that of the first is the value of its sigmoid or curve. One-vs-one: pairwise coupling,
    /// \[WLW04\] algorithm 2 as in LIBSVM. One-vs-rest: the value of each class, then scaled to sum to 1.
    ///
    /// # Panics
    /// If there are fewer scores than the machine has.
    pub fn of_classes(&self, machine: &Machine, scores: &[f64]) -> Option<Vec<f64>> {
        let Output::Classes { names, scheme } = machine.output() else { return None };
        let count = machine.scores().len();
        let each: Vec<f64> = match self {
            Self::Sigmoid { a, b } if a.len() == count && b.len() == count => {
                (0..count).map(|at| sigmoid(a[at] * scores[at] + b[at])).collect()
            }
            Self::Curves(curves) if curves.len() == count => {
                curves.iter().zip(scores).map(|(curve, score)| curve.at(*score)).collect()
            }
            _ => return None,
        };
        Some(match scheme {
            _ if count == 1 => vec![each[0], 1.0 - each[0]],
            Scheme::OneVsOne => couple(names.len(), &each),
            Scheme::OneVsRest => {
                let sum: f64 = each.iter().sum();
                if sum > 0.0 {
                    each.iter().map(|p| p / sum).collect()
                } else {
                    vec![1.0 / count as f64; count]
                }
            }
        })
    }
}

impl Probabilities {
    /// Whether all parameters are numbers that give probabilities; files may hold any.
    pub(crate) fn is_sound(&self) -> bool {
        let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
        match self {
            Self::Sigmoid { a, b } => a.len() == b.len() && finite(a) && finite(b),
            Self::Laplace { sigma } => sigma.is_finite() && *sigma >= 0.0,
            Self::Marks(marks) => finite(marks) && marks.is_sorted(),
            Self::Curves(curves) => curves.iter().all(|curve| match curve {
                Curve::Sigmoid { a, b } => a.is_finite() && b.is_finite(),
                Curve::PiecewiseLinear { scores, values } => {
                    finite(scores)
                        && scores.is_sorted()
                        && values.is_sorted()
                        && values.iter().all(|value| (0.0..=1.0).contains(value))
                }
            }),
        }
    }

    /// A and B of each score, where all are sigmoids; without the clamp of [`Curve::at`].
    pub fn sigmoids(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        match self {
            Self::Sigmoid { a, b } => Some((a.clone(), b.clone())),
            Self::Curves(curves) => {
                let pair = |curve: &Curve| match curve {
                    Curve::Sigmoid { a, b } => Some((*a, *b)),
                    Curve::PiecewiseLinear { .. } => None,
                };
                curves
                    .iter()
                    .map(pair)
                    .collect::<Option<Vec<_>>>()
                    .map(|all| all.into_iter().unzip())
            }
            _ => None,
        }
    }

    /// The probability that a query is an inlier of a one-class machine: LIBSVM's tenths between its density
    /// marks.
    pub fn of_novelty(&self, score: f64) -> Option<f64> {
        let Self::Marks(marks) = self else { return None };
        let (first, last) = (marks.first()?, marks.last()?);
        let tenth = marks.iter().position(|mark| score < *mark).unwrap_or(marks.len());
        Some(match () {
            () if score < *first => 0.001,
            () if score > *last => 0.999,
            () => tenth as f64 / marks.len() as f64,
        })
    }
}

impl Curve {
    /// The probability of the first class; above one half exactly where the score is above zero.
    pub fn at(&self, score: f64) -> f64 {
        let unclamped = match self {
            Self::Sigmoid { a, b } => sigmoid(a * score + b),
            Self::PiecewiseLinear { scores, values } => interpolate(scores, values, score),
        };
        if score > 0.0 {
            unclamped.max(0.5 + f64::EPSILON)
        } else {
            unclamped.min(0.5 - f64::EPSILON)
        }
    }
}

/// Piecewise linear interpolation.
fn interpolate(scores: &[f64], values: &[f64], score: f64) -> f64 {
    let after = scores.partition_point(|known| *known <= score);
    match (after.checked_sub(1), scores.get(after)) {
        (None, None) => 0.5,
        (None, Some(_)) => values[0],
        (Some(before), None) => values[before],
        (Some(before), Some(next)) => {
            let share = (score - scores[before]) / (next - scores[before]);
            values[before] + share * (values[after] - values[before])
        }
    }
}

/// `1 / (1 + exp(z))` without overflow.
fn sigmoid(z: f64) -> f64 {
    if z >= 0.0 {
        let e = (-z).exp();
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + z.exp())
    }
}

/// Pairwise coupling, \[WLW04\] algorithm 2 as in LIBSVM: the probabilities `p` that fit the pairwise ones `r` best. Minimises `Σ (r_ji p_i - r_ij p_j)²`.
pub fn couple(classes: usize, pairwise: &[f64]) -> Vec<f64> {
    let mut r = vec![0.0; classes * classes];
    for ((first, second), p) in pairs(classes).zip(pairwise) {
        let p = p.clamp(LEAST, 1.0 - LEAST);
        r[first * classes + second] = p;
        r[second * classes + first] = 1.0 - p;
    }
    let mut q = vec![0.0; classes * classes];
    for t in 0..classes {
        for j in (0..classes).filter(|j| *j != t) {
            q[t * classes + t] += r[j * classes + t] * r[j * classes + t];
            q[t * classes + j] = -r[j * classes + t] * r[t * classes + j];
        }
    }
    let mut p = vec![1.0 / classes as f64; classes];
    let enough = 0.005 / classes as f64;
    for _ in 0..ITERATIONS.max(classes) {
        let mut qp: Vec<f64> = q
            .chunks_exact(classes)
            .map(|row| row.iter().zip(&p).map(|(q, p)| q * p).sum())
            .collect();
        let mut pqp: f64 = p.iter().zip(&qp).map(|(p, qp)| p * qp).sum();
        if qp.iter().all(|value| (value - pqp).abs() < enough) {
            break;
        }
        for t in 0..classes {
            let diagonal = q[t * classes + t];
            let diff = (pqp - qp[t]) / diagonal;
            p[t] += diff;
            pqp = (pqp + diff * (diff * diagonal + 2.0 * qp[t])) / ((1.0 + diff) * (1.0 + diff));
            for j in 0..classes {
                qp[j] = (qp[j] + diff * q[t * classes + j]) / (1.0 + diff);
                p[j] /= 1.0 + diff;
            }
        }
    }
    p
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consistent_pairwise_probabilities_are_recovered() {
        // p = (0.5, 0.3, 0.2), and each pairwise probability is p_i / (p_i + p_j).
        let p = couple(3, &[0.5 / 0.8, 0.5 / 0.7, 0.3 / 0.5]);
        for (found, expected) in p.iter().zip([0.5, 0.3, 0.2]) {
            assert!((found - expected).abs() < 5e-3, "{p:?}");
        }
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn curves_increase_and_never_contradict_the_label() {
        let curves = [
            Curve::Sigmoid { a: -2.0, b: 0.7 },
            Curve::PiecewiseLinear { scores: vec![-1.0, 0.5, 2.0], values: vec![0.1, 0.3, 0.9] },
            Curve::PiecewiseLinear { scores: vec![], values: vec![] },
        ];
        for curve in curves {
            let mut last = 0.0;
            for at in -400..=400 {
                let score = f64::from(at) / 100.0;
                let p = curve.at(score);
                assert!(p >= last && (p > 0.5) == (score > 0.0), "{curve:?} at {score}: {p}");
                last = p;
            }
        }
        let lines = Curve::PiecewiseLinear { scores: vec![-1.0, 1.0], values: vec![0.2, 0.8] };
        assert!((lines.at(0.5) - 0.65).abs() < 1e-15);
    }

    #[test]
    fn marks_give_tenths() {
        let marks = Probabilities::Marks((0..10).map(f64::from).collect());
        assert_eq!(marks.of_novelty(-1.0), Some(0.001));
        assert_eq!(marks.of_novelty(0.5), Some(0.1));
        assert_eq!(marks.of_novelty(9.5), Some(0.999));
    }

    #[test]
    fn a_sigmoid_neither_overflows_nor_leaves_its_range() {
        assert_eq!(sigmoid(1e300), 0.0);
        assert_eq!(sigmoid(-1e300), 1.0);
        assert_eq!(sigmoid(0.0), 0.5);
    }
}
