//! The attractors of \[OG98\]: which coefficients of an expansion a small penalty draws to zero.
//! How the penalised problem is solved is in `descent`.

/// Which coefficients are drawn to zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attractor {
    /// All: a sparse expansion.
    L1,
    /// Those of points that do not meet `y f = 1` exactly: the expansion uses points on the margin.
    Margin,
    /// Those of misclassified points, `y f < 0`.
    Errors,
}

/// Where a point stands, by its score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointStatus {
    /// `y f = 1`, or for novelty detection `f = 0`, or for a regression the edge of the tube.
    pub is_on_margin: bool,
    /// `y f < 0`.
    pub is_error: bool,
}

/// Penalty of a coefficient that is not drawn to zero, beside 1 for those that are: of expansions that are equal to the
/// attractor, a sparse one is chosen.
const PREFERRED: f64 = 0.01;
/// A point whose `y f` differs from 1 by less than this is on the margin: as exact as machines are usually trained.
const NEAR: f64 = 1e-3;

impl Attractor {
    /// Names, for parameters.
    pub const WORDS: &'static [&'static str] = &["l1", "margin", "errors"];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// The attractor of that name; `L1` for any other name.
    pub fn named(name: &str) -> Self {
        match name {
            "margin" => Self::Margin,
            "errors" => Self::Errors,
            _ => Self::L1,
        }
    }

    /// Why it does not suit a machine whose answers are numbers, if it does not.
    pub fn regression_refusal(self) -> Option<&'static str> {
        let reason = "penalty=errors needs classes, a regression has no misclassified points; use l1 or margin";
        (self == Self::Errors).then_some(reason)
    }

    /// Whether the coefficient of a point is drawn to zero.
    pub fn draws(self, status: PointStatus) -> bool {
        match self {
            Self::L1 => true,
            Self::Margin => !status.is_on_margin,
            Self::Errors => status.is_error,
        }
    }

    /// Weight of a coefficient in the penalty, given whether it is drawn to zero.
    pub fn weight(is_drawn: bool) -> f64 {
        if is_drawn { 1.0 } else { PREFERRED }
    }
}

impl PointStatus {
    /// Of a point of a classifier, from `y f`, which is 1 on the margin. A coefficient strictly between its bounds
    /// (`is_free`) is that of a point on the margin, as far as the training converged.
    pub fn of_classifier(score: f64, is_free: bool) -> Self {
        Self { is_on_margin: is_free || (score - 1.0).abs() <= NEAR, is_error: score < 0.0 }
    }

    /// Of a point of a novelty detector, whose margin is at zero.
    pub fn of_novelty(score: f64, is_free: bool) -> Self {
        Self { is_on_margin: is_free || score.abs() <= NEAR, is_error: score < -NEAR }
    }

    /// Of a point of a regression: on the edge of the tube if its coefficient is strictly between its bounds.
    pub fn of_regression(is_free: bool) -> Self {
        Self { is_on_margin: is_free, is_error: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bounded point outside the margin, one inside it, a misclassified one, and one on the margin.
    #[test]
    fn the_three_attractors_draw_different_points() {
        let points = [(1.4, false), (0.6, false), (-0.3, false), (1.0, true)];
        let drawn = |attractor: Attractor| {
            points
                .map(|(score, is_free)| attractor.draws(PointStatus::of_classifier(score, is_free)))
        };
        assert_eq!(drawn(Attractor::L1), [true; 4]);
        assert_eq!(drawn(Attractor::Margin), [true, true, true, false]);
        assert_eq!(drawn(Attractor::Errors), [false, false, true, false]);
        assert!(Attractor::WORDS.iter().all(|word| Attractor::named(word).name() == *word));
    }
}
