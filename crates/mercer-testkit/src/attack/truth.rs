//! True scores of an attacked machine: in multiple precision, or, for the bulk, in double-double arithmetic, with an
//! exponent of its own where numbers are not of ordinary size.

use mercer_machine::{Bins, Output, Score, pairs_with};
use mercer_query::Interval;
use mercer_spec::{Spec, Value};
use std::cmp::Ordering;

use super::{AttackCase, Scale};
use crate::real::Real;
use crate::{Dd, Precise, Wide, generate, reference};

/// Binary digits of references in multiple precision.
pub const REFERENCE_BITS: usize = 256;

/// Binary digits with which a violation is confirmed.
const CONFIRMED_BITS: usize = 1024;

/// One query in so many is computed in multiple precision; fewer of kernels whose exponentials and logarithms are slow
/// there, and of trained machines; fewer still after the first round of queries.
const SHARE: usize = 2;
const SLOW_SHARE: usize = 32;
const LATER_SHARE: usize = 16;

/// A true score, or a difference of two.
#[derive(Debug, Clone)]
pub enum TrueScore {
    /// In double-double arithmetic: 2^-100 of the largest term is lost, and what looks wrong is confirmed.
    DoubleDouble(Wide),
    /// In multiple precision.
    Precise(Precise<REFERENCE_BITS>),
    /// With as many digits as settle any doubt.
    Confirmed(Precise<CONFIRMED_BITS>),
}

impl TrueScore {
    /// Whether a range contains it.
    pub fn is_within(&self, range: Interval) -> bool {
        self.compare(range.low) != Ordering::Less && self.compare(range.high) != Ordering::Greater
    }

    /// Whether it is above zero.
    pub fn is_positive(&self) -> bool {
        self.compare(0.0) == Ordering::Greater
    }

    /// Whether multiple precision computed it.
    pub fn is_precise(&self) -> bool {
        !matches!(self, Self::DoubleDouble(_))
    }

    /// The nearest f64, for messages.
    pub fn to_f64(&self) -> f64 {
        match self {
            Self::DoubleDouble(score) => score.to_dd().to_f64(),
            Self::Precise(score) => score.to_f64(),
            Self::Confirmed(score) => score.to_f64(),
        }
    }

    /// Which of it and an f64 is larger. A range with an end that is NaN contains nothing.
    fn compare(&self, other: f64) -> Ordering {
        match self {
            _ if other.is_nan() => Ordering::Less,
            Self::DoubleDouble(_) if other.is_infinite() => 0f64.total_cmp(&other),
            Self::DoubleDouble(score) => {
                score.partial_cmp(&Wide::from(other)).unwrap_or(Ordering::Less)
            }
            Self::Precise(score) => score.compare(other),
            Self::Confirmed(score) => score.compare(other),
        }
    }

    /// `self - other`; both from the same arithmetic.
    fn minus(&self, other: &Self) -> Self {
        match (self.clone(), other.clone()) {
            (Self::DoubleDouble(a), Self::DoubleDouble(b)) => Self::DoubleDouble(a - b),
            (Self::Precise(a), Self::Precise(b)) => Self::Precise(a - b),
            (Self::Confirmed(a), Self::Confirmed(b)) => Self::Confirmed(a - b),
            _ => unreachable!("the scores of a query come from one arithmetic"),
        }
    }

    fn negated(&self) -> Self {
        match self.clone() {
            Self::DoubleDouble(score) => Self::DoubleDouble(-score),
            Self::Precise(score) => Self::Precise(-score),
            Self::Confirmed(score) => Self::Confirmed(-score),
        }
    }
}

impl AttackCase {
    /// The true scores of a query, for the first look.
    pub fn true_scores(&self, query: usize) -> Vec<TrueScore> {
        let is_slow = self.scale == Scale::Trained || !is_rational(&self.spec);
        let share = if is_slow { SLOW_SHARE } else { SHARE };
        let share = if query < self.first_round { share } else { LATER_SHARE * share };
        if query.is_multiple_of(share) {
            self.scores(query).into_iter().map(TrueScore::Precise).collect()
        } else if self.scale.is_ordinary() {
            let scores = self.scores::<Dd>(query).into_iter();
            scores.map(|score| TrueScore::DoubleDouble(Wide::from(score))).collect()
        } else {
            self.scores(query).into_iter().map(TrueScore::DoubleDouble).collect()
        }
    }

    /// The same with so many digits that no doubt is left.
    pub fn confirmed_scores(&self, query: usize) -> Vec<TrueScore> {
        self.scores(query).into_iter().map(TrueScore::Confirmed).collect()
    }

    fn scores<T: Real>(&self, query: usize) -> Vec<T> {
        let x = &generate::row(&self.queries, query);
        // Kernel values are computed once for all scores.
        let value = |support: &Vec<f64>| reference::kernel::<T>(&self.spec, support, x);
        let values: Vec<T> = self.supports.iter().map(value).collect();
        let score = |score: &Score| match score {
            Score::Expansion { supports, coefficients, offset } => {
                let named = supports.iter().map(|support| values[*support as usize].clone());
                let terms = named.zip(coefficients).map(|(value, beta)| T::from(*beta) * value);
                terms.fold(-T::from(*offset), |sum, term| sum + term)
            }
            Score::Linear { weights, offset } => {
                let terms = weights.iter().zip(x).map(|(w, x)| T::from(*w) * T::from(*x));
                terms.fold(-T::from(*offset), |sum, term| sum + term)
            }
            Score::Additive { weights, offset } => {
                let bins = self.machine.bins().expect("additive machines have bins");
                table_sum::<T>(bins, weights, x) - T::from(*offset)
            }
        };
        self.machine.scores().iter().map(score).collect()
    }
}

/// Whether values are sums, products and quotients of the numbers of the rows.
pub(super) fn is_rational(spec: &Spec) -> bool {
    let is_plain = |name: &str| {
        matches!(name, "linear" | "precomputed" | "polynomial" | "intersection" | "chi2")
    };
    let inner = spec.positional().iter().filter_map(|value| match value {
        Value::Spec(inner) => Some(inner.name()),
        Value::Number(_) => None,
    });
    // A root is not slow.
    is_plain(spec.name())
        || spec.name() == "hellinger"
        || (spec.name() == "normalized" && inner.into_iter().all(is_plain))
}

/// `Σ_j W_j · Φ(bin of x_j)`.
fn table_sum<T: Real>(bins: &Bins, weights: &[f32], x: &[f64]) -> T {
    let columns = 0..weights.len() / bins.rank();
    columns.fold(T::from(0.0), |sum, column| {
        sum + table_part(bins, weights, column, x.get(column).copied().unwrap_or(0.0))
    })
}

/// `W_j · Φ(bin of x_j)` of one column; which bin a value has is defined by the f64 operation itself.
pub(super) fn table_part<T: Real>(bins: &Bins, weights: &[f32], column: usize, value: f64) -> T {
    let rank = bins.rank();
    let Some(weights) = weights.chunks_exact(rank).nth(column).filter(|_| value != 0.0) else {
        return T::from(0.0);
    };
    let bin = bins.bin(column, value);
    let encoding = &bins.encoding()[bin * rank..(bin + 1) * rank];
    weights
        .iter()
        .zip(encoding)
        .fold(T::from(0.0), |sum, (w, phi)| sum + T::from(f64::from(*w)) * T::from(f64::from(*phi)))
}

/// The class that true scores choose: ties as `vote.rs` breaks them.
pub(super) fn class(output: &Output, scores: &[TrueScore]) -> usize {
    let stand_ins: Vec<f64> = match output {
        // One number for each, in the same order: largest scores and ties stay what they are.
        Output::Classes { scheme: mercer_machine::Scheme::OneVsRest, .. } if scores.len() > 1 => {
            let is_below = |a: &TrueScore, b: &TrueScore| b.minus(a).is_positive();
            let rank = |one: &TrueScore| scores.iter().filter(|other| is_below(other, one)).count();
            scores.iter().map(|one| rank(one) as f64).collect()
        }
        _ => scores.iter().map(|score| if score.is_positive() { 1.0 } else { -1.0 }).collect(),
    };
    match output.verdict(&stand_ins).answer {
        mercer_machine::Answer::Class(class) => class,
        mercer_machine::Answer::Inlier(is_inlier) => usize::from(!is_inlier),
        mercer_machine::Answer::Value(_) => 0,
    }
}

/// By how much a class wins: `Output::margin` on true scores.
pub(super) fn margin(output: &Output, scores: &[TrueScore], class: usize) -> TrueScore {
    let smaller = |a: TrueScore, b: TrueScore| if b.minus(&a).is_positive() { a } else { b };
    match output {
        Output::Classes { names, scheme: mercer_machine::Scheme::OneVsOne } if scores.len() > 1 => {
            let own = pairs_with(names.len(), class);
            let own = own
                .map(|(at, first)| if first { scores[at].clone() } else { scores[at].negated() });
            own.reduce(smaller).expect("a class meets another one")
        }
        Output::Classes { .. } if scores.len() > 1 => {
            let others = (0..scores.len()).filter(|other| *other != class);
            let gaps = others.map(|other| scores[class].minus(&scores[other]));
            gaps.reduce(smaller).expect("a class meets another one")
        }
        _ => scores[0].clone(),
    }
}
