//! Scores become probabilities.

use crate::{Machine, Output, Probabilities, Scheme, pairs};

/// No duel is quite certain: LIBSVM's limit.
const LEAST: f64 = 1e-7;
/// Rounds of the coupling; LIBSVM's limit for few classes.
const ROUNDS: usize = 100;

impl Probabilities {
    /// The probability of each class, if these are probabilities of classes.
    ///
    /// Two classes: that of the first is `1 / (1 + exp(A f + B))`. One-vs-one: pairwise coupling,
    /// \[WLW04\] algorithm 2 as in LIBSVM. One-vs-rest: each class on its own, then scaled to sum to 1.
    ///
    /// # Panics
    /// If there are fewer scores than the machine has.
    pub fn of_classes(&self, machine: &Machine, scores: &[f64]) -> Option<Vec<f64>> {
        let (Self::Sigmoid { a, b }, Output::Classes { names, scheme }) = (self, machine.output())
        else {
            return None;
        };
        let count = machine.scores().len();
        if a.len() != count || b.len() != count {
            return None;
        }
        let each: Vec<f64> =
            (0..count).map(|number| sigmoid(a[number] * scores[number] + b[number])).collect();
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

/// `1 / (1 + exp(z))` without overflow.
fn sigmoid(z: f64) -> f64 {
    if z >= 0.0 {
        let e = (-z).exp();
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + z.exp())
    }
}

/// Probabilities `p` that fit those of the duels best: minimises `Σ (r_ji p_i - r_ij p_j)²`.
fn couple(classes: usize, duels: &[f64]) -> Vec<f64> {
    let mut r = vec![0.0; classes * classes];
    for ((first, second), p) in pairs(classes).zip(duels) {
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
    for _ in 0..ROUNDS.max(classes) {
        let mut qp: Vec<f64> = q
            .chunks_exact(classes)
            .map(|row| row.iter().zip(&p).map(|(q, p)| q * p).sum())
            .collect();
        let mut pqp: f64 = p.iter().zip(&qp).map(|(p, qp)| p * qp).sum();
        if qp.iter().all(|value| (value - pqp).abs() < enough) {
            break;
        }
        for t in 0..classes {
            let own = q[t * classes + t];
            let diff = (pqp - qp[t]) / own;
            p[t] += diff;
            pqp = (pqp + diff * (diff * own + 2.0 * qp[t])) / ((1.0 + diff) * (1.0 + diff));
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
    fn duels_that_agree_are_met() {
        // p = (0.5, 0.3, 0.2), and each duel is p_i / (p_i + p_j).
        let p = couple(3, &[0.5 / 0.8, 0.5 / 0.7, 0.3 / 0.5]);
        for (found, expected) in p.iter().zip([0.5, 0.3, 0.2]) {
            assert!((found - expected).abs() < 5e-3, "{p:?}");
        }
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_sigmoid_neither_overflows_nor_leaves_its_range() {
        assert_eq!(sigmoid(1e300), 0.0);
        assert_eq!(sigmoid(-1e300), 1.0);
        assert_eq!(sigmoid(0.0), 0.5);
    }
}
