//! The label from ranges of scores: when it can no longer change, which scores can still change it, and the best estimate
//! until then. The vote itself is in `mercer_machine`.

use mercer_machine::{Answer, Machine, Output, Scheme, VoteBounds, pairs, pairs_with};

use crate::Interval;

/// Ranges of all scores of one query, with the rounding bound of the exact evaluation of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScoreRanges<'a> {
    pub machine: &'a Machine,
    pub ranges: &'a [Interval],
    pub rounding_bounds: &'a [f64],
    /// What a score is compared with: 0, but for a machine of one score anything.
    pub border: f64,
}

impl ScoreRanges<'_> {
    /// The answer and the range of its score or margin, if no score within the ranges changes it.
    pub(crate) fn settled(&self, tolerance: Option<f64>) -> Option<(Answer, Interval)> {
        match self.machine.output() {
            Output::Value => {
                let range = self.ranges[0];
                let middle = range.low + (range.high - range.low) / 2.0;
                let half = (range.high - middle).max(middle - range.low).next_up();
                (half <= tolerance?).then_some((Answer::Value(middle), range))
            }
            Output::Novelty => Some((Answer::Inlier(self.is_positive(0)?), self.ranges[0])),
            Output::Classes { .. } if self.ranges.len() == 1 => {
                Some((Answer::Class(usize::from(!self.is_positive(0)?)), self.ranges[0]))
            }
            Output::Classes { names, scheme: Scheme::OneVsOne } => {
                let winner = self.votes(names.len()).winner()?;
                Some((Answer::Class(winner), self.margin(winner)))
            }
            Output::Classes { scheme: Scheme::OneVsRest, .. } => {
                let ahead = |class: usize, other: usize| {
                    let least = self.ranges[class].low - self.rounding_bounds[class];
                    least > self.ranges[other].high + self.rounding_bounds[other]
                };
                let classes = 0..self.ranges.len();
                let wins = |class: &usize| {
                    classes.clone().all(|other| other == *class || ahead(*class, other))
                };
                let winner = classes.clone().find(wins)?;
                Some((Answer::Class(winner), self.margin(winner)))
            }
        }
    }

    /// Lists the scores that can still change the answer.
    pub(crate) fn undecided(&self, out: &mut Vec<u32>) {
        out.clear();
        match self.machine.output() {
            Output::Classes { names, scheme: Scheme::OneVsOne } if self.ranges.len() > 1 => {
                let votes = self.votes(names.len());
                let may_win: Vec<bool> =
                    (0..names.len()).map(|class| votes.may_win(class)).collect();
                for (score, (a, b)) in (0u32..).zip(pairs(names.len())) {
                    if self.is_positive(score as usize).is_none() && (may_win[a] || may_win[b]) {
                        out.push(score);
                    }
                }
            }
            Output::Classes { .. } if self.ranges.len() > 1 => {
                let best = self.ranges.iter().zip(self.rounding_bounds);
                let best = best.map(|(range, bound)| range.low - bound);
                let best = best.fold(f64::NEG_INFINITY, f64::max);
                let reaches = |score: &u32| {
                    let score = *score as usize;
                    self.ranges[score].high + self.rounding_bounds[score] >= best
                };
                out.extend((0..self.ranges.len() as u32).filter(reaches));
            }
            _ => out.push(0),
        }
    }

    /// The best estimate, from the middles of the ranges; a score of which nothing is known has no vote. If
    /// nothing is known at all, every score is `-b`, which is what it is far from all supports of many kernels.
    pub(crate) fn best_estimate(&self) -> (Answer, Interval) {
        let middle = |range: &Interval| {
            let middle = range.low / 2.0 + range.high / 2.0;
            middle.is_finite().then_some(middle)
        };
        if self.ranges.len() == 1 {
            let nothing_run = -self.machine.scores()[0].offset();
            let score = middle(&self.ranges[0]).unwrap_or(nothing_run);
            return (self.machine.output().answer_at(score, self.border), self.ranges[0]);
        }
        let mut known: Vec<Option<f64>> = self.ranges.iter().map(middle).collect();
        if known.iter().all(Option::is_none) {
            let offsets = self.machine.scores().iter().map(|score| Some(-score.offset()));
            known = offsets.collect();
        }
        let winner = self.machine.output().vote_of_known(known.into_iter());
        (Answer::Class(winner), self.margin(winner))
    }

    /// Whether the exact score is above the border, if its range says so.
    pub(crate) fn is_positive(&self, score: usize) -> Option<bool> {
        let (range, rounding_bound) = (self.ranges[score], self.rounding_bounds[score]);
        let (below, above) = if self.border == 0.0 {
            (-rounding_bound, rounding_bound)
        } else {
            // Sums of two numbers, each rounded once.
            ((self.border - rounding_bound).next_down(), (self.border + rounding_bound).next_up())
        };
        if range.low > above {
            Some(true)
        } else if range.high < below {
            Some(false)
        } else {
            None
        }
    }

    pub(crate) fn votes(&self, classes: usize) -> VoteBounds {
        VoteBounds::new(classes, (0..self.ranges.len()).map(|score| self.is_positive(score)))
    }

    /// The range of the margin of a class: [`Output::margin`] on ranges.
    fn margin(&self, class: usize) -> Interval {
        match self.machine.output() {
            Output::Classes { names, scheme: Scheme::OneVsOne } => {
                let mut margin = Interval { low: f64::INFINITY, high: f64::INFINITY };
                for (score, is_first) in pairs_with(names.len(), class) {
                    let Interval { low, high } = self.ranges[score];
                    let (low, high) = if is_first { (low, high) } else { (-high, -low) };
                    margin = Interval { low: margin.low.min(low), high: margin.high.min(high) };
                }
                margin
            }
            _ => {
                let others = self.ranges.iter().enumerate().filter(|(other, _)| *other != class);
                let mut best_other = Interval { low: f64::NEG_INFINITY, high: f64::NEG_INFINITY };
                for (_, range) in others {
                    best_other.low = best_other.low.max(range.low);
                    best_other.high = best_other.high.max(range.high);
                }
                let Interval { low: class_low, high: class_high } = self.ranges[class];
                let (low, high) = (class_low - best_other.high, class_high - best_other.low);
                Interval { low: low.next_down(), high: high.next_up() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_data::Matrix;
    use mercer_machine::{ClassName, Score};

    fn machine(scheme: Scheme) -> Machine {
        let kernel = mercer_kernel::parse("linear").expect("a kernel without parameters");
        let names = (0..3).map(|n| ClassName::Number(f64::from(n))).collect();
        let scores = (0..3).map(|_| Score::expansion(&[1.0], 0.0)).collect();
        let supports = Matrix::dense(1, vec![1.0]).expect("one row");
        Machine::new(kernel, supports, scores, Output::Classes { names, scheme })
            .expect("parts fit")
    }

    fn settled(
        scheme: Scheme,
        ranges: [(f64, f64); 3],
        rounding_bound: f64,
    ) -> (Option<Answer>, Vec<u32>) {
        let machine = machine(scheme);
        let ranges = ranges.map(|(low, high)| Interval { low, high });
        let ranges = ScoreRanges {
            machine: &machine,
            ranges: &ranges,
            rounding_bounds: &[rounding_bound; 3],
            border: 0.0,
        };
        let mut undecided = Vec::new();
        ranges.undecided(&mut undecided);
        (ranges.settled(None).map(|(answer, _)| answer), undecided)
    }

    #[test]
    fn a_class_wins_once_no_open_pair_can_change_it() {
        // 0 beats both others; whether 1 beats 2 does not matter.
        let ranges = [(1.0, 2.0), (0.5, 3.0), (-1.0, 1.0)];
        let (answer, undecided) = settled(Scheme::OneVsOne, ranges, 0.1);
        assert_eq!((answer, undecided.as_slice()), (Some(Answer::Class(0)), &[][..]));
    }

    #[test]
    fn a_range_that_touches_the_rounding_bound_is_open() {
        let ranges = [(0.1, 2.0), (0.5, 3.0), (-1.0, 1.0)];
        let (answer, undecided) = settled(Scheme::OneVsOne, ranges, 0.1);
        assert_eq!((answer, undecided.as_slice()), (None, &[0, 2][..]));
    }

    #[test]
    fn sure_ties_go_to_the_lowest_class() {
        // 0 beats 1, 2 beats 0, 1 beats 2: one vote each.
        let ranges = [(1.0, 2.0), (-3.0, -2.0), (1.0, 2.0)];
        assert_eq!(settled(Scheme::OneVsOne, ranges, 0.1).0, Some(Answer::Class(0)));
    }

    #[test]
    fn one_vs_rest_needs_ranges_apart_by_both_bounds() {
        let ranges = [(1.0, 2.0), (0.0, 0.9), (-5.0, -4.0)];
        let (answer, undecided) = settled(Scheme::OneVsRest, ranges, 0.04);
        assert_eq!((answer, undecided.as_slice()), (Some(Answer::Class(0)), &[0][..]));
        let (answer, undecided) = settled(Scheme::OneVsRest, ranges, 0.05);
        assert_eq!((answer, undecided.as_slice()), (None, &[0, 1][..]));
    }
}
