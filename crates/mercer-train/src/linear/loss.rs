//! Losses of linear and additive solvers: cost, dual gain and derivatives.
//! Which formulation has which loss is said in [`crate::formulations`].

use mercer_simd::Isa;

/// The loss of one example.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// `C max(0, 1 - y f)`
    Hinge {
        /// C.
        c: f64,
    },
    /// `C max(0, 1 - y f)²`
    SquaredHinge {
        /// C.
        c: f64,
    },
    /// `C ln(1 + e^(-y f))`
    Logistic {
        /// C.
        c: f64,
    },
    /// `C max(0, |f - y| - epsilon)`
    EpsilonInsensitive {
        /// C.
        c: f64,
        /// ε.
        epsilon: f64,
    },
}

impl Loss {
    pub(crate) fn c(self) -> f64 {
        match self {
            Self::Hinge { c }
            | Self::SquaredHinge { c }
            | Self::Logistic { c }
            | Self::EpsilonInsensitive { c, .. } => c,
        }
    }

    /// The cost of an example of target `y` (±1 for classes) and penalty `c` at the value `f`.
    pub(crate) fn cost(self, y: f64, c: f64, f: f64) -> f64 {
        match self {
            Self::Hinge { .. } => c * (1.0 - y * f).max(0.0),
            Self::SquaredHinge { .. } => c * (1.0 - y * f).max(0.0).powi(2),
            Self::Logistic { .. } => {
                let margin = y * f;
                c * if margin > 0.0 {
                    (-margin).exp().ln_1p()
                } else {
                    margin.exp().ln_1p() - margin
                }
            }
            Self::EpsilonInsensitive { epsilon, .. } => c * ((f - y).abs() - epsilon).max(0.0),
        }
    }

    /// The term of a coefficient in the dual objective, which is the sum of these less `½|w|²`.
    pub(crate) fn gain(self, y: f64, c: f64, alpha: f64) -> f64 {
        match self {
            Self::Hinge { .. } => alpha,
            Self::SquaredHinge { .. } => alpha - alpha * alpha / (4.0 * c),
            Self::Logistic { .. } => {
                let small = alpha.abs();
                let term = |z: f64| if z > 0.0 { z * (z / c).ln() } else { 0.0 };
                -(term(small) + (c - small) * (-small / c).ln_1p())
            }
            Self::EpsilonInsensitive { epsilon, .. } => y * alpha - epsilon * alpha.abs(),
        }
    }

    /// The coefficient β, sign included, of a stored number.
    pub(crate) fn beta(self, y: f64, c: f64, alpha: f64) -> f64 {
        match self {
            Self::EpsilonInsensitive { .. } => alpha,
            // Near C the distance to C is stored, with a minus, so that neither end loses digits.
            Self::Logistic { .. } if alpha < 0.0 => y * (c + alpha),
            _ => y * alpha,
        }
    }

    /// A share, at most 1, of a stored number, as it would be stored.
    pub(crate) fn shrunk(self, y: f64, c: f64, alpha: f64, share: f64) -> f64 {
        if share >= 1.0 {
            return alpha;
        }
        let less = self.beta(y, c, alpha).abs() * share;
        match self {
            // Short of C, where it would have no finite gain.
            Self::Logistic { .. } => less.min(c * (1.0 - f64::EPSILON)),
            _ => less,
        }
    }

    /// Whether the cost is differentiable everywhere.
    pub(crate) fn is_smooth(self) -> bool {
        matches!(self, Self::SquaredHinge { .. } | Self::Logistic { .. })
    }

    /// First and second derivative of the cost in the value, for smooth losses.
    pub(crate) fn derivatives(self, y: f64, c: f64, f: f64) -> (f64, f64) {
        let margin = y * f;
        match self {
            Self::SquaredHinge { .. } if margin < 1.0 => (-2.0 * c * y * (1.0 - margin), 2.0 * c),
            Self::Logistic { .. } => {
                // 1 / (1 + e^margin), whatever its sign.
                let wrong = if margin > 0.0 {
                    let small = (-margin).exp();
                    small / (1.0 + small)
                } else {
                    1.0 / (1.0 + margin.exp())
                };
                (-c * y * wrong, c * wrong * (1.0 - wrong))
            }
            _ => (0.0, 0.0),
        }
    }

    /// Cost and slope, without its sign, of every margin `y f` at C = 1, for smooth losses.
    pub(crate) fn at(self, isa: Isa, margins: &[f64], costs: &mut [f64], slopes: &mut [f64]) {
        if let Self::Logistic { .. } = self {
            return mercer_simd::logistic(isa, margins, costs, slopes);
        }
        for ((margin, cost), slope) in margins.iter().zip(costs).zip(slopes) {
            let slack = (1.0 - margin).max(0.0);
            (*cost, *slope) = (slack * slack, 2.0 * slack);
        }
    }

    /// The second derivative at C = 1 where the slope has this size, for smooth losses.
    #[inline]
    pub(crate) fn curve(self, slope: f64) -> f64 {
        match self {
            Self::Logistic { .. } => slope * (1.0 - slope),
            _ if slope > 0.0 => 2.0,
            _ => 0.0,
        }
    }

    /// The coefficient, as it is stored, that belongs to the value at the solution, for smooth losses.
    pub(crate) fn stored(self, y: f64, c: f64, f: f64) -> f64 {
        let alpha = -y * self.derivatives(y, c, f).0;
        match self {
            Self::Logistic { .. } if 2.0 * alpha > c => {
                // What is left of C is the slope of the other side.
                let rest = y * self.derivatives(-y, c, f).0;
                -rest.abs().max(f64::MIN_POSITIVE)
            }
            Self::Logistic { .. } => alpha.max(f64::MIN_POSITIVE),
            _ => alpha,
        }
    }
}
