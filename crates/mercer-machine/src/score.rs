//! Scores: the real functions of a machine, one per binary subproblem, and the names of classes.
//! How they are evaluated is in `mercer-query`.

use std::fmt;

/// The real function of one binary subproblem.
#[derive(Debug, Clone, PartialEq)]
pub enum Score {
    /// `f(x) = Σ β_i K(z_i, x) − b` over the supports named, which increase.
    Expansion {
        /// Positions of the supports with a non-zero coefficient.
        supports: Vec<u32>,
        /// Their coefficients β.
        coefficients: Vec<f64>,
        /// b.
        offset: f64,
    },
    /// `f(x) = w·x − b`.
    Linear {
        /// One weight per column.
        weights: Vec<f64>,
        /// b.
        offset: f64,
    },
    /// `f(x) = Σ_j W_j · Φ(bin of x_j) − b` over the columns where x is not zero; the [`crate::Bins`] of the
    /// machine define the bins and their encoding Φ.
    Additive {
        /// As many numbers per column as the rank of the encoding, column after column.
        weights: Vec<f32>,
        /// b.
        offset: f64,
    },
}

impl Score {
    /// An expansion from one coefficient per support; zeros are left out.
    pub fn expansion(coefficients: &[f64], offset: f64) -> Self {
        let kept = (0u32..).zip(coefficients).filter(|(_, beta)| **beta != 0.0);
        let (supports, coefficients) = kept.map(|(support, beta)| (support, *beta)).unzip();
        Self::Expansion { supports, coefficients, offset }
    }

    /// One coefficient for each of the machine's supports; none of a score that is not an expansion.
    pub fn dense(&self, supports: usize) -> Vec<f64> {
        let mut out = vec![0.0; supports];
        if let Self::Expansion { supports, coefficients, .. } = self {
            for (support, beta) in supports.iter().zip(coefficients) {
                out[*support as usize] = *beta;
            }
        }
        out
    }

    /// b.
    pub fn offset(&self) -> f64 {
        match self {
            Self::Expansion { offset, .. }
            | Self::Linear { offset, .. }
            | Self::Additive { offset, .. } => *offset,
        }
    }
}

/// The name of a class.
#[derive(Debug, Clone, PartialEq)]
pub enum ClassName {
    /// A number, as in LIBSVM files.
    Number(f64),
    /// A word.
    Text(String),
}

impl fmt::Display for ClassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}
