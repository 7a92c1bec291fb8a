//! What is proved: the only place where proved ranges are made.
//!
//! A stage computes; the bounds below turn what it computed into a range that contains the score of the
//! machine as stored, in real arithmetic, whatever was rounded on the way. Each derivation is in the file of its
//! bound.

pub(crate) mod curves;
pub(crate) mod integer_codes;
pub(crate) mod nearby;
pub(crate) mod powers;
pub(crate) mod projection;
pub(crate) mod quadratic;
pub(crate) mod quadrature;
pub(crate) mod shapley;
pub(crate) mod single_precision;
pub(crate) mod tail;
pub(crate) mod taylor;

use crate::Interval;

/// Relative error of a product of a query with a row of a strip of f32 values, in units of both norms:
/// `γ'_(n/4 + 12)`, `n` being the live columns. It covers both roundings to f32, four chains of at most `n/4 + 1`
/// fused multiply-adds, two additions, and seven units to spare. Infinite where it has no meaning.
fn strip_error(columns: usize) -> f64 {
    let units = (columns as f64 / 4.0 + 12.0) * f64::from(f32::EPSILON) / 2.0;
    if units < 0.5 { units / (1.0 - units) } else { f64::INFINITY }
}

/// A range that provably contains a score. Only the bounds of this module make one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proved {
    low: f64,
    high: f64,
}

impl Proved {
    /// The range, unless an overflow left nothing to claim.
    fn between(low: f64, high: f64) -> Option<Self> {
        (low.is_finite() && high.is_finite() && low <= high).then_some(Self { low, high })
    }

    /// As an interval.
    pub fn interval(self) -> Interval {
        Interval { low: self.low, high: self.high }
    }
}

/// What the tests of all bounds share.
#[cfg(test)]
pub(crate) mod inject {
    use mercer_testkit::Wide;

    use super::Proved;

    /// Puts NaN and infinity in place of each number in turn: nothing may be proved. `names` are for messages.
    pub(crate) fn nothing_is_proved<const N: usize>(
        names: [&str; N],
        ordinary: [f64; N],
        range: impl Fn([f64; N]) -> Option<Proved>,
    ) {
        assert!(range(ordinary).is_some(), "ordinary numbers prove something");
        for at in 0..N {
            for poison in [f64::NAN, f64::INFINITY] {
                let mut numbers = ordinary;
                numbers[at] = poison;
                let found = range(numbers);
                assert!(found.is_none(), "{} = {poison}: {found:?}", names[at]);
            }
        }
    }

    /// Puts zero and subnormal numbers in place of each number in turn, and of every two. `truth` computes the range that
    /// the formulas of the file give in real arithmetic, without rounding or underflow. Where a negative number stands for a
    /// size, the formulas give no range, and nothing is compared.
    pub(crate) fn subnormals_keep_the_truth<const N: usize>(
        ordinary: [f64; N],
        range: impl Fn([f64; N]) -> Option<Proved>,
        truth: impl Fn(&[Wide; N]) -> [Wide; 2],
    ) {
        let tiny = [0.0, f64::from_bits(1), 1e-310, -1e-310];
        truth_is_kept(ordinary, |_| tiny, range, truth);
    }

    /// Multiplies each number in turn, and every two, by powers of ten, so that each term of the bound is the largest one
    /// somewhere: a constant that is smaller than the formulas say is noticed.
    pub(crate) fn every_term_counts<const N: usize>(
        ordinary: [f64; N],
        range: impl Fn([f64; N]) -> Option<Proved>,
        truth: impl Fn(&[Wide; N]) -> [Wide; 2],
    ) {
        let scales = [1.0, 1e-6, 1e-3, 1e3, 1e6];
        truth_is_kept(ordinary, |number| scales.map(|scale| scale * number), range, truth);
    }

    /// A range that is proved contains the one that the formulas give.
    fn truth_is_kept<const N: usize, const CHANGES: usize>(
        ordinary: [f64; N],
        changed: impl Fn(f64) -> [f64; CHANGES],
        range: impl Fn([f64; N]) -> Option<Proved>,
        truth: impl Fn(&[Wide; N]) -> [Wide; 2],
    ) {
        let (mut compared, pairs) = (0, (0..N).flat_map(|at| (0..N).map(move |other| [at, other])));
        for [at, other] in pairs {
            let seconds = changed(ordinary[other]);
            let both = changed(ordinary[at]).into_iter().flat_map(|a| seconds.map(|b| (a, b)));
            for (first, second) in both {
                let mut numbers = ordinary;
                numbers[at] = first;
                numbers[other] = second;
                let Some(found) = range(numbers) else { continue };
                let [low, high] = truth(&numbers.map(Wide::from));
                if low <= high {
                    let found = found.interval();
                    let is_within = Wide::from(found.low) <= low && high <= Wide::from(found.high);
                    let [low, high] = [low, high].map(|end| end.to_dd().to_f64());
                    assert!(is_within, "{numbers:?}: {found:?} lacks [{low:e}, {high:e}]");
                    compared += 1;
                }
            }
        }
        assert!(compared > N, "{compared} ranges were compared");
    }

    /// A number, or zero if it is negative.
    pub(crate) fn at_least_zero(number: Wide) -> Wide {
        if number < Wide::ZERO { Wide::ZERO } else { number }
    }

    /// The smaller of two numbers.
    pub(crate) fn least(a: Wide, b: Wide) -> Wide {
        if a < b { a } else { b }
    }

    /// `n v / (1 - n v)` for the unit roundoff `v`.
    pub(crate) fn gamma(n: f64, unit: f64) -> Wide {
        let nv = Wide::from(n) * Wide::from(unit);
        nv / (Wide::ONE - nv)
    }

    /// A range around its middle.
    pub(crate) fn around(middle: Wide, half: Wide) -> [Wide; 2] {
        [middle - half, middle + half]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_are_no_numbers_are_not_proved() {
        for (low, high) in [(f64::NAN, 1.0), (0.0, f64::NAN), (f64::NEG_INFINITY, 1.0), (2.0, 1.0)]
        {
            assert_eq!(Proved::between(low, high), None);
        }
    }

    /// `f64::max` and `f64::min` ignore NaN, so that a bound would vanish where something overflows; those of
    /// `mercer_kernel::bound` make it infinite.
    #[test]
    fn no_bound_is_decided_by_a_maximum_that_ignores_nan() {
        let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let of = |name: &str| std::fs::read_dir(source.join(name)).unwrap();
        let folders = ["certify", "verify", "attribute"].into_iter().flat_map(of);
        let mut files: Vec<_> = folders.map(|entry| entry.unwrap().path()).collect();
        // Folders hold tests.
        files.retain(|path| path.is_file());
        let others =
            ["certify.rs", "verify.rs", "attribute.rs", "rounding.rs", "exact.rs", "sets.rs"];
        files.extend(others.map(|name| source.join(name)));
        assert!(files.len() > 30, "{} files", files.len());
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for (number, line) in code.lines().enumerate() {
                let raw = [".max(", ".min(", "f64::max", "f64::min"];
                // Those of iterators of integers have no argument.
                let line = line.replace(".max()", "").replace(".min()", "");
                let is_code = !line.trim_start().starts_with("//");
                let is_raw = is_code && raw.iter().any(|name| line.contains(name));
                assert!(!is_raw, "{}:{}: {line}", file.display(), number + 1);
            }
        }
    }
}
