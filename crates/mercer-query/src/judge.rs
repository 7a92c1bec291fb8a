//! When ranges settle an answer: the vote of `mercer_machine`, on ranges instead of numbers.

use mercer_machine::{Answer, Machine, Output, Scheme, pairs};

use crate::Interval;

/// Ranges of all scores of one query, with the rounding bound of the exact evaluation of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranges<'a> {
    pub machine: &'a Machine,
    pub ranges: &'a [Interval],
    pub errors: &'a [f64],
}

/// What a range says of the sign of the exact score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Positive,
    Negative,
    Open,
}

impl Ranges<'_> {
    /// The answer and the range of its score or margin, if no score within the ranges changes it.
    pub(crate) fn settled(&self, tolerance: Option<f64>) -> Option<(Answer, Interval)> {
        match self.machine.output() {
            Output::Value => {
                let range = self.ranges[0];
                let middle = range.low + (range.high - range.low) / 2.0;
                let half = (range.high - middle).max(middle - range.low).next_up();
                (half <= tolerance?).then_some((Answer::Value(middle), range))
            }
            Output::Novelty => self.two(Answer::Inlier(true), Answer::Inlier(false)),
            Output::Classes { .. } if self.ranges.len() == 1 => {
                self.two(Answer::Class(0), Answer::Class(1))
            }
            Output::Classes { names, scheme: Scheme::OneVsOne } => {
                let votes = self.votes(names.len());
                let winner = (0..names.len()).find(|class| votes.is_certain(*class))?;
                Some((Answer::Class(winner), self.weakest_duel(names.len(), winner)))
            }
            Output::Classes { scheme: Scheme::OneVsRest, .. } => {
                let ahead = |class: usize, other: usize| {
                    let gap = self.ranges[class].low - self.errors[class];
                    gap > self.ranges[other].high + self.errors[other]
                };
                let classes = 0..self.ranges.len();
                let wins = |class: &usize| {
                    classes.clone().all(|other| other == *class || ahead(*class, other))
                };
                let winner = classes.clone().find(wins)?;
                Some((Answer::Class(winner), self.lead(winner)))
            }
        }
    }

    /// Scores that can still change the answer.
    pub(crate) fn wanted(&self, out: &mut Vec<u32>) {
        out.clear();
        match self.machine.output() {
            Output::Classes { names, scheme: Scheme::OneVsOne } if self.ranges.len() > 1 => {
                let votes = self.votes(names.len());
                let alive: Vec<bool> =
                    (0..names.len()).map(|class| votes.is_alive(class)).collect();
                for (score, (a, b)) in (0u32..).zip(pairs(names.len())) {
                    if self.sign(score as usize) == Sign::Open && (alive[a] || alive[b]) {
                        out.push(score);
                    }
                }
            }
            Output::Classes { .. } if self.ranges.len() > 1 => {
                let best = self.ranges.iter().zip(self.errors).map(|(r, e)| r.low - e);
                let best = best.fold(f64::NEG_INFINITY, f64::max);
                let reaches = |score: &u32| {
                    let score = *score as usize;
                    self.ranges[score].high + self.errors[score] >= best
                };
                out.extend((0..self.ranges.len() as u32).filter(reaches));
            }
            _ => out.push(0),
        }
    }

    /// The best guess from the middles of the ranges; a score of which nothing is known is `-b` if it is
    /// the only one and has no vote otherwise.
    pub(crate) fn guess(&self) -> (Answer, Interval) {
        let middle = |range: &Interval| {
            let middle = range.low / 2.0 + range.high / 2.0;
            middle.is_finite().then_some(middle)
        };
        if self.ranges.len() == 1 {
            let nothing_run = -self.machine.scores()[0].offset();
            let score = middle(&self.ranges[0]).unwrap_or(nothing_run);
            return (self.machine.verdict(&[score]).answer, self.ranges[0]);
        }
        let middles: Vec<Option<f64>> = self.ranges.iter().map(middle).collect();
        let everything = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };
        let Output::Classes { names, scheme } = self.machine.output() else {
            return (Answer::Class(0), everything);
        };
        let mut tally = vec![0.0; names.len()];
        match scheme {
            Scheme::OneVsOne => {
                for ((a, b), middle) in pairs(names.len()).zip(&middles) {
                    if let Some(score) = middle {
                        tally[if *score > 0.0 { a } else { b }] += 1.0;
                    }
                }
            }
            Scheme::OneVsRest => {
                for (place, middle) in tally.iter_mut().zip(&middles) {
                    *place = middle.unwrap_or(f64::NEG_INFINITY);
                }
            }
        }
        let mut winner = 0;
        for class in 1..tally.len() {
            if tally[class] > tally[winner] {
                winner = class;
            }
        }
        let margin = match scheme {
            Scheme::OneVsOne => self.weakest_duel(names.len(), winner),
            Scheme::OneVsRest => self.lead(winner),
        };
        (Answer::Class(winner), margin)
    }

    fn two(&self, positive: Answer, negative: Answer) -> Option<(Answer, Interval)> {
        match self.sign(0) {
            Sign::Positive => Some((positive, self.ranges[0])),
            Sign::Negative => Some((negative, self.ranges[0])),
            Sign::Open => None,
        }
    }

    fn sign(&self, score: usize) -> Sign {
        let (range, error) = (self.ranges[score], self.errors[score]);
        if range.low > error {
            Sign::Positive
        } else if range.high < -error {
            Sign::Negative
        } else {
            Sign::Open
        }
    }

    fn votes(&self, classes: usize) -> Votes {
        let (mut least, mut most) = (vec![0u32; classes], vec![0u32; classes]);
        for (score, (a, b)) in pairs(classes).enumerate() {
            let sign = self.sign(score);
            least[a] += u32::from(sign == Sign::Positive);
            least[b] += u32::from(sign == Sign::Negative);
            most[a] += u32::from(sign != Sign::Negative);
            most[b] += u32::from(sign != Sign::Positive);
        }
        Votes { least, most }
    }

    fn weakest_duel(&self, classes: usize, winner: usize) -> Interval {
        let mut margin = Interval { low: f64::INFINITY, high: f64::INFINITY };
        for ((a, b), range) in pairs(classes).zip(self.ranges) {
            let (low, high) = match () {
                () if a == winner => (range.low, range.high),
                () if b == winner => (-range.high, -range.low),
                () => continue,
            };
            margin = Interval { low: margin.low.min(low), high: margin.high.min(high) };
        }
        margin
    }

    fn lead(&self, winner: usize) -> Interval {
        let others = self.ranges.iter().enumerate().filter(|(class, _)| *class != winner);
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for (_, range) in others {
            (low, high) = (low.max(range.low), high.max(range.high));
        }
        let own = self.ranges[winner];
        Interval { low: (own.low - high).next_down(), high: (own.high - low).next_up() }
    }
}

/// Fewest and most votes that each class can still get.
struct Votes {
    least: Vec<u32>,
    most: Vec<u32>,
}

impl Votes {
    /// Whether `class` has more votes than `other` however the open duels end; ties go to the lower.
    fn surely_beats(&self, class: usize, other: usize) -> bool {
        let (least, most) = (self.least[class], self.most[other]);
        least > most || (least == most && class < other)
    }

    fn is_certain(&self, class: usize) -> bool {
        (0..self.least.len()).all(|other| other == class || self.surely_beats(class, other))
    }

    fn is_alive(&self, class: usize) -> bool {
        !(0..self.least.len()).any(|other| other != class && self.surely_beats(other, class))
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

    fn settled(scheme: Scheme, ranges: [(f64, f64); 3], error: f64) -> (Option<Answer>, Vec<u32>) {
        let machine = machine(scheme);
        let ranges = ranges.map(|(low, high)| Interval { low, high });
        let ranges = Ranges { machine: &machine, ranges: &ranges, errors: &[error; 3] };
        let mut wanted = Vec::new();
        ranges.wanted(&mut wanted);
        (ranges.settled(None).map(|(answer, _)| answer), wanted)
    }

    #[test]
    fn a_class_wins_once_no_open_duel_can_change_it() {
        // 0 beats both others; whether 1 beats 2 does not matter.
        let ranges = [(1.0, 2.0), (0.5, 3.0), (-1.0, 1.0)];
        let (answer, wanted) = settled(Scheme::OneVsOne, ranges, 0.1);
        assert_eq!((answer, wanted.as_slice()), (Some(Answer::Class(0)), &[][..]));
    }

    #[test]
    fn a_range_that_touches_the_rounding_bound_is_open() {
        let ranges = [(0.1, 2.0), (0.5, 3.0), (-1.0, 1.0)];
        let (answer, wanted) = settled(Scheme::OneVsOne, ranges, 0.1);
        assert_eq!((answer, wanted.as_slice()), (None, &[0, 2][..]));
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
        let (answer, wanted) = settled(Scheme::OneVsRest, ranges, 0.04);
        assert_eq!((answer, wanted.as_slice()), (Some(Answer::Class(0)), &[0][..]));
        let (answer, wanted) = settled(Scheme::OneVsRest, ranges, 0.05);
        assert_eq!((answer, wanted.as_slice()), (None, &[0, 1][..]));
    }
}
