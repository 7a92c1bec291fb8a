/// What an error costs; `price` is C.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// `C max(0, 1 - y f)`
    Hinge {
        /// C.
        price: f64,
    },
    /// `C max(0, 1 - y f)²`
    SquaredHinge {
        /// C.
        price: f64,
    },
    /// `C ln(1 + e^(-y f))`
    Logistic {
        /// C.
        price: f64,
    },
    /// `C max(0, |f - y| - width)`
    Tube {
        /// C.
        price: f64,
        /// ε.
        width: f64,
    },
}

impl Loss {
    pub(crate) fn price(self) -> f64 {
        match self {
            Self::Hinge { price }
            | Self::SquaredHinge { price }
            | Self::Logistic { price }
            | Self::Tube { price, .. } => price,
        }
    }

    /// What an example of target `y` (±1 for classes) and price `c` costs at the value `f`.
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
            Self::Tube { width, .. } => c * ((f - y).abs() - width).max(0.0),
        }
    }

    /// What the dual gains from a coefficient: its objective is the sum of these less `½|w|²`.
    pub(crate) fn gain(self, y: f64, c: f64, alpha: f64) -> f64 {
        match self {
            Self::Hinge { .. } => alpha,
            Self::SquaredHinge { .. } => alpha - alpha * alpha / (4.0 * c),
            Self::Logistic { .. } => {
                let small = alpha.abs();
                let term = |z: f64| if z > 0.0 { z * (z / c).ln() } else { 0.0 };
                -(term(small) + (c - small) * (-small / c).ln_1p())
            }
            Self::Tube { width, .. } => y * alpha - width * alpha.abs(),
        }
    }

    /// The coefficient β, sign included, of a stored number.
    pub(crate) fn beta(self, y: f64, c: f64, alpha: f64) -> f64 {
        match self {
            Self::Tube { .. } => alpha,
            // Near C the distance to C is stored, with a minus, so that neither end loses digits.
            Self::Logistic { .. } if alpha < 0.0 => y * (c + alpha),
            _ => y * alpha,
        }
    }
}
