//! Split-conformal prediction: how far scores may be from a target, by the rank of a held-out sample. How a machine's scores
//! become sets is in `mercer-query`, how the sample is drawn in `mercer-compile`.

use crate::{Answer, MachineError, Output};

/// The calibration of prediction sets and intervals.
///
/// A target belongs to the set of a row if its [`nonconformity`] is at most `quantile`. Of a row that is drawn like those of
/// the sample, independently of the machine, the set holds the target with probability at least `coverage`, over the draw of the
/// sample and of the row (\[VGS05\]).
///
/// That holds for the sample that gave the quantile. Of numbers in a file nobody can see whether there was one, so they are
/// not believed until somebody says so: [`Conformal::is_believed`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conformal {
    coverage: f64,
    rows: u64,
    quantile: f64,
    source: Source,
}

/// Where a calibration comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A file of anybody.
    File,
    /// A file that the caller vouches for.
    Vouched,
    /// A sample of this user, who calibrated or tested it.
    User,
}

/// How little a target fits the scores of a row: of a class its margin with the other sign ([`Output::margin`]; with one score the
/// score itself), of a regression the absolute residual. `None` for novelty, and for a target of another kind.
///
/// # Panics
/// If there are fewer scores than the output needs.
pub fn nonconformity(output: &Output, scores: &[f64], target: Answer) -> Option<f64> {
    match (output, target) {
        (Output::Value, Answer::Value(value)) => Some((value - scores[0]).abs()),
        (Output::Classes { names, .. }, Answer::Class(class)) if class < names.len() => {
            Some(match scores {
                [score] if class == 0 => -score,
                [score] => *score,
                _ => -output.margin(scores, class),
            })
        }
        _ => None,
    }
}

impl Conformal {
    /// The fewest rows of a sample that can promise this coverage: `coverage / (1 - coverage)`, rounded up.
    ///
    /// # Errors
    /// If the coverage is not between 0 and 1.
    pub fn least_rows(coverage: f64) -> Result<u64, MachineError> {
        if !(coverage > 0.0 && coverage < 1.0) {
            return Err(MachineError::BadCoverage { coverage });
        }
        let mut rows = (coverage / (1.0 - coverage)).floor().max(1.0) as u64;
        while rank(rows, coverage) > rows {
            rows += 1;
        }
        Ok(rows)
    }

    /// The quantile of the nonconformities of a sample: the `ceil((n + 1) coverage)`-th smallest.
    ///
    /// # Errors
    /// If the coverage is not between 0 and 1, or the sample is too small for it.
    pub fn fit(mut nonconformities: Vec<f64>, coverage: f64) -> Result<Self, MachineError> {
        let rows = nonconformities.len() as u64;
        let rank = Self::needed_in(rows, coverage)?;
        nonconformities.sort_by(f64::total_cmp);
        let quantile = nonconformities[rank as usize - 1];
        Ok(Self::from_parts(coverage, rows, quantile)?.of_user())
    }

    /// How many rows of a sample the sets must cover to promise this coverage: `ceil((n + 1) coverage)`.
    ///
    /// # Errors
    /// If the coverage is not between 0 and 1, or the sample is too small for it.
    pub fn needed_in(rows: u64, coverage: f64) -> Result<u64, MachineError> {
        let needed = Self::least_rows(coverage)?;
        let rank = rank(rows, coverage);
        if rank > rows {
            return Err(MachineError::SmallConformalSample { rows, needed, coverage });
        }
        Ok(rank)
    }

    /// A calibration that a file stored: it is not believed.
    ///
    /// # Errors
    /// If the coverage is not between 0 and 1, or the quantile is no number.
    pub fn from_parts(coverage: f64, rows: u64, quantile: f64) -> Result<Self, MachineError> {
        if !(coverage > 0.0 && coverage < 1.0) {
            return Err(MachineError::BadCoverage { coverage });
        }
        if !quantile.is_finite() {
            return Err(MachineError::OutOfRange { what: "the quantile of its prediction sets" });
        }
        Ok(Self { coverage, rows, quantile, source: Source::File })
    }

    /// The same for a caller who vouches for the file.
    #[must_use]
    pub fn vouched(self) -> Self {
        let source = if self.is_of_user() { Source::User } else { Source::Vouched };
        Self { source, ..self }
    }

    /// The same for a user who calibrated it, or tested it on a sample of his own.
    #[must_use]
    pub fn of_user(self) -> Self {
        Self { source: Source::User, ..self }
    }

    /// Whether sets may be made with it: this user calibrated or tested it, or the caller vouches for it.
    pub fn is_believed(&self) -> bool {
        self.source != Source::File
    }

    /// Whether this user calibrated or tested it.
    pub fn is_of_user(&self) -> bool {
        self.source == Source::User
    }

    /// The probability that is promised.
    pub fn coverage(&self) -> f64 {
        self.coverage
    }

    /// Rows of the sample.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The largest nonconformity of a target that belongs to a set.
    pub fn quantile(&self) -> f64 {
        self.quantile
    }
}

/// `ceil((n + 1) coverage)`, with a coverage such as 0.9 taken for the decimal number that it stands for.
fn rank(rows: u64, coverage: f64) -> u64 {
    let exact = (rows as f64 + 1.0) * coverage;
    let nearest = exact.round();
    // The product is rounded: what lies within that of a whole number is one.
    let is_whole = (exact - nearest).abs() <= 4.0 * f64::EPSILON * exact;
    (if is_whole { nearest } else { exact.ceil() }) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClassName, Scheme};

    #[test]
    fn the_quantile_has_the_rank_of_the_formula() {
        let scores = || (1..=99).map(f64::from).collect::<Vec<_>>();
        let fit = |coverage: f64| Conformal::fit(scores(), coverage).unwrap().quantile();
        assert_eq!(
            [fit(0.9), fit(0.95), fit(0.5), fit(0.99), fit(0.901)],
            [90.0, 95.0, 50.0, 99.0, 91.0]
        );
        assert!(matches!(
            Conformal::fit(scores(), 0.991),
            Err(MachineError::SmallConformalSample { rows: 99, needed: 111, .. })
        ));
    }

    #[test]
    fn samples_of_the_least_size_suffice_and_smaller_ones_do_not() {
        for coverage in [0.01, 0.3, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0 - 1e-6] {
            let rows = Conformal::least_rows(coverage).unwrap();
            assert!(Conformal::fit(vec![0.0; rows as usize], coverage).is_ok(), "{coverage}");
            assert!(rows == 1 || Conformal::fit(vec![0.0; rows as usize - 1], coverage).is_err());
        }
        assert_eq!([0.9, 0.95, 0.99].map(|c| Conformal::least_rows(c).unwrap()), [9, 19, 99]);
    }

    #[test]
    fn coverages_outside_zero_to_one_are_refused() {
        for coverage in [0.0, 1.0, -0.5, 1.5, f64::NAN] {
            let found = Conformal::fit(vec![0.0; 10], coverage);
            assert!(matches!(found, Err(MachineError::BadCoverage { .. })), "{coverage}");
        }
    }

    #[test]
    fn targets_fit_worse_the_smaller_their_margin_is() {
        let names = |count: u32| (0..count).map(|n| ClassName::Number(f64::from(n))).collect();
        let two = Output::Classes { names: names(2), scheme: Scheme::OneVsOne };
        assert_eq!(nonconformity(&two, &[0.5], Answer::Class(0)), Some(-0.5));
        assert_eq!(nonconformity(&two, &[0.5], Answer::Class(1)), Some(0.5));
        assert_eq!(nonconformity(&two, &[0.5], Answer::Class(2)), None);
        let three = Output::Classes { names: names(3), scheme: Scheme::OneVsRest };
        assert_eq!(nonconformity(&three, &[1.0, 3.0, 2.0], Answer::Class(0)), Some(2.0));
        assert_eq!(nonconformity(&Output::Value, &[1.0], Answer::Value(3.0)), Some(2.0));
        assert_eq!(nonconformity(&Output::Novelty, &[1.0], Answer::Inlier(true)), None);
    }
}
