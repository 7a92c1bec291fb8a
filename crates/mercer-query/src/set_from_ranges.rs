//! Prediction sets from ranges of scores: which classes belong to the set of a row whatever its scores within the ranges are, and
//! which scores can still change that. What a set is, is in `sets.rs`; labels from ranges are in `label_from_ranges.rs`.

use mercer_machine::{Output, Scheme, pairs};

use crate::Interval;
use crate::label_from_ranges::ScoreRanges;

/// Which classes belong to a set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SetRule {
    /// Those whose margin is at least minus this.
    pub quantile: f64,
    /// The label, whatever its margin is.
    pub with_label: bool,
}

impl ScoreRanges<'_> {
    /// The classes of the set, if no scores within the ranges change it.
    pub(crate) fn members(&self, rule: SetRule) -> Option<Vec<usize>> {
        let margins = self.computed_margins();
        let belongs = |margin: &Interval| is_member(*margin, rule.quantile);
        let mut is_in = margins.iter().map(belongs).collect::<Option<Vec<bool>>>()?;
        if self.label_counts(rule) {
            let votes = self.votes(is_in.len());
            match votes.winner() {
                Some(winner) => is_in[winner] = true,
                None if (0..is_in.len()).all(|class| is_in[class] || !votes.may_win(class)) => {}
                None => return None,
            }
        }
        Some((0..is_in.len()).filter(|class| is_in[*class]).collect())
    }

    /// Lists the scores that can still change the set.
    pub(crate) fn undecided_of_set(&self, rule: SetRule, out: &mut Vec<u32>) {
        out.clear();
        let states: Vec<Option<bool>> = self
            .computed_margins()
            .iter()
            .map(|margin| is_member(*margin, rule.quantile))
            .collect();
        let Output::Classes { names, scheme: Scheme::OneVsOne } = self.machine.output() else {
            // A score is the largest other one of many classes.
            out.extend(0..self.ranges.len() as u32);
            return;
        };
        let votes = self.label_counts(rule).then(|| self.votes(names.len()));
        let may_join = |class: usize| match &votes {
            Some(votes) => states[class] != Some(true) && votes.may_win(class),
            None => false,
        };
        for (score, (a, b)) in (0u32..).zip(pairs(names.len())) {
            let range = self.computed(score as usize);
            let matters = |class: usize, range: Interval| {
                states[class].is_none() && is_member(range, rule.quantile).is_none()
            };
            let decides = matters(a, range) || matters(b, negated(range));
            let votes_matter = || self.is_positive(score as usize).is_none();
            if decides || ((may_join(a) || may_join(b)) && votes_matter()) {
                out.push(score);
            }
        }
    }

    /// Whether the label may have a margin that is too small: only votes choose such a class.
    fn label_counts(&self, rule: SetRule) -> bool {
        let scheme = match self.machine.output() {
            Output::Classes { scheme, .. } => *scheme,
            _ => return false,
        };
        rule.with_label && (scheme == Scheme::OneVsOne || rule.quantile < 0.0)
    }

    /// The range of a score as `exact` computes it.
    fn computed(&self, score: usize) -> Interval {
        let (range, bound) = (self.ranges[score], self.rounding_bounds[score]);
        Interval { low: (range.low - bound).next_down(), high: (range.high + bound).next_up() }
    }

    /// The range of the margin of each class as it is computed from exact scores ([`Output::margin`]). A rounded difference grows
    /// with its first number and falls with its second, so that the differences of ends are ends.
    fn computed_margins(&self) -> Vec<Interval> {
        match self.machine.output() {
            Output::Classes { names, scheme: Scheme::OneVsOne } => {
                let most = Interval { low: f64::INFINITY, high: f64::INFINITY };
                let mut margins = vec![most; names.len()];
                for (score, (a, b)) in pairs(names.len()).enumerate() {
                    let range = self.computed(score);
                    for (class, range) in [(a, range), (b, negated(range))] {
                        let Interval { low, high } = margins[class];
                        margins[class] =
                            Interval { low: low.min(range.low), high: high.min(range.high) };
                    }
                }
                margins
            }
            _ => {
                let ranges: Vec<Interval> =
                    (0..self.ranges.len()).map(|at| self.computed(at)).collect();
                let lows = largest_others(ranges.iter().map(|range| range.low));
                let highs = largest_others(ranges.iter().map(|range| range.high));
                let others = lows.into_iter().zip(highs);
                let each = ranges.iter().zip(others);
                each.map(|(own, (low, high))| Interval {
                    low: own.low - high,
                    high: own.high - low,
                })
                .collect()
            }
        }
    }
}

fn negated(range: Interval) -> Interval {
    Interval { low: -range.high, high: -range.low }
}

/// Whether a margin within the range is at least `-quantile`, if all are or none is.
fn is_member(margin: Interval, quantile: f64) -> Option<bool> {
    if margin.low >= -quantile {
        Some(true)
    } else if margin.high < -quantile {
        Some(false)
    } else {
        None
    }
}

/// For each value the largest of the others.
fn largest_others(values: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let (mut first, mut second, mut place) = (f64::NEG_INFINITY, f64::NEG_INFINITY, 0);
    for (at, value) in values.clone().enumerate() {
        if value > first {
            (first, second, place) = (value, first, at);
        } else {
            second = second.max(value);
        }
    }
    let others = values.enumerate();
    others.map(|(at, _)| if at == place { second } else { first }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_data::Matrix;
    use mercer_machine::{ClassName, Machine, Score};

    const BOUND: f64 = 1e-3;

    fn machine(scheme: Scheme) -> Machine {
        let kernel = mercer_kernel::parse("linear").expect("a kernel without parameters");
        let names = (0..3).map(|n| ClassName::Number(f64::from(n))).collect();
        let scores = (0..3).map(|_| Score::expansion(&[1.0], 0.0)).collect();
        let supports = Matrix::dense(1, vec![1.0]).expect("one row");
        Machine::new(kernel, supports, scores, Output::Classes { names, scheme })
            .expect("parts fit")
    }

    /// Members if they are decided, and the scores that are not.
    fn of(
        scheme: Scheme,
        ranges: [(f64, f64); 3],
        rule: SetRule,
    ) -> (Option<Vec<usize>>, Vec<u32>) {
        let machine = machine(scheme);
        let ranges = ranges.map(|(low, high)| Interval { low, high });
        let ranges = ScoreRanges {
            machine: &machine,
            ranges: &ranges,
            rounding_bounds: &[BOUND; 3],
            border: 0.0,
        };
        let mut undecided = Vec::new();
        ranges.undecided_of_set(rule, &mut undecided);
        (ranges.members(rule), undecided)
    }

    #[test]
    fn a_class_is_out_once_one_pair_says_so_and_in_once_all_do() {
        let rule = SetRule { quantile: 0.5, with_label: true };
        // 0 against 1, 0 against 2, 1 against 2: class 2 loses both, 0 and 1 are close.
        let (members, undecided) =
            of(Scheme::OneVsOne, [(0.1, 0.2), (2.0, 9.0), (-9.0, 9.0)], rule);
        assert_eq!((members, undecided), (None, vec![2]), "1 may lose to 2, which is out");
        let (members, undecided) = of(Scheme::OneVsOne, [(0.1, 0.2), (2.0, 9.0), (0.0, 9.0)], rule);
        assert_eq!((members, undecided), (Some(vec![0, 1]), vec![]));
        let (members, undecided) =
            of(Scheme::OneVsOne, [(0.6, 9.0), (0.4, 9.0), (-9.0, 9.0)], rule);
        assert_eq!((members, undecided), (None, vec![1, 2]));
    }

    #[test]
    fn the_rounding_of_exact_scores_is_part_of_what_is_proved() {
        let rule = SetRule { quantile: 0.5, with_label: false };
        let near = |low: f64| of(Scheme::OneVsOne, [(low, low), (5.0, 5.0), (5.0, 5.0)], rule).0;
        assert_eq!(near(0.5 - 2.0 * BOUND), Some(vec![0, 1]));
        assert_eq!(near(0.5 + 2.0 * BOUND), Some(vec![0]));
        assert_eq!(near(0.5), None);
        let rest =
            |high: f64| of(Scheme::OneVsRest, [(2.0, 2.0), (high, high), (0.0, 0.0)], rule).0;
        assert_eq!([rest(1.5 - 3.0 * BOUND), rest(1.5)], [Some(vec![0]), None]);
        assert_eq!(rest(1.5 + 3.0 * BOUND), Some(vec![0, 1]));
    }

    #[test]
    fn labels_that_lose_a_pair_by_much_belong_to_their_sets_where_that_is_asked() {
        // 0 beats 1, 2 beats 0, 1 beats 2, all clearly: one vote each, the label is 0, and no margin is enough.
        let ranges = [(5.0, 6.0), (-6.0, -5.0), (5.0, 6.0)];
        let with_label = SetRule { quantile: 1.0, with_label: true };
        assert_eq!(of(Scheme::OneVsOne, ranges, with_label).0, Some(vec![0]));
        let without = SetRule { with_label: false, ..with_label };
        assert_eq!(of(Scheme::OneVsOne, ranges, without).0, Some(vec![]));
        // Whether 1 beats 2 decides the label.
        let open = [(-6.0, -5.0), (5.0, 6.0), (-1e-4, 1e-4)];
        let (members, undecided) =
            of(Scheme::OneVsOne, open, SetRule { quantile: -1.0, with_label: true });
        assert_eq!((members, undecided), (None, vec![2]));
    }

    #[test]
    fn sets_without_the_label_may_be_empty() {
        let rule = SetRule { quantile: -0.5, with_label: false };
        let ranges = [(1.0, 1.1), (0.9, 0.95), (-5.0, 5.0)];
        assert_eq!(
            of(Scheme::OneVsRest, [ranges[0], ranges[1], (-5.0, -4.0)], rule).0,
            Some(vec![])
        );
        assert_eq!(of(Scheme::OneVsRest, ranges, rule).0, None);
    }
}
