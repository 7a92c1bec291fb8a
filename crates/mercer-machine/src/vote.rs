//! How scores become an answer: the vote, its ties and its margins, in one place. Ranges of scores instead of numbers
//! are compared by [`VoteBounds`]; nothing here computes a score.

use crate::{Machine, Output, Scheme};

/// What a machine answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// Position of the class among the machine's classes.
    Class(usize),
    /// A value of a regression.
    Value(f64),
    /// Whether the query looks like the training data (f > 0).
    Inlier(bool),
}

/// An answer and how clearly it won.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// The answer.
    pub answer: Answer,
    /// The score where there is one; with several classes the margin of the winner: [`Output::margin`].
    pub score: f64,
}

/// The pairwise classifiers of `classes` classes in LIBSVM's order: (0,1), (0,2), ..., (1,2), ...
pub fn pairs(classes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..classes).flat_map(move |first| (first + 1..classes).map(move |second| (first, second)))
}

/// The pairwise classifiers that a class takes part in: their positions in the order of [`pairs`], and whether the class
/// is the first of the pair, for which positive scores vote.
pub fn pairs_with(classes: usize, class: usize) -> impl Iterator<Item = (usize, bool)> {
    let mine =
        move |(_, (first, second)): &(usize, (usize, usize))| *first == class || *second == class;
    pairs(classes).enumerate().filter(mine).map(move |(at, (first, _))| (at, first == class))
}

impl Machine {
    /// The answer that these scores give: [`Output::verdict`].
    ///
    /// # Panics
    /// If there are fewer scores than the machine has.
    pub fn verdict(&self, scores: &[f64]) -> Verdict {
        self.output().verdict(&scores[..self.scores().len()])
    }
}

impl Output {
    /// The answer that these scores give.
    ///
    /// One-vs-one: f > 0 votes for the first class of the pair, otherwise (also f = 0) the second; most
    /// votes win, ties go to the lowest position. One-vs-rest: largest score, ties to the lowest position.
    ///
    /// # Panics
    /// If there are fewer scores than it needs.
    pub fn verdict(&self, scores: &[f64]) -> Verdict {
        let answer = self.answer(scores);
        let score = match answer {
            Answer::Class(class) => self.margin(scores, class),
            _ => scores[0],
        };
        Verdict { answer, score }
    }

    /// The answer of [`Output::verdict`] alone, without its margin.
    ///
    /// # Panics
    /// If there are fewer scores than it needs.
    pub fn answer(&self, scores: &[f64]) -> Answer {
        match self {
            Output::Value => Answer::Value(scores[0]),
            Output::Novelty => self.answer_at(scores[0], 0.0),
            Output::Classes { .. } if scores.len() == 1 => self.answer_at(scores[0], 0.0),
            Output::Classes { names, scheme } => Answer::Class(match scheme {
                Scheme::OneVsOne => one_vs_one(names.len(), scores.iter().copied().map(Some)),
                Scheme::OneVsRest => first_largest(scores),
            }),
        }
    }
}

impl Output {
    /// The answer of a machine of one score that is compared with `border`: above it the first class, or an inlier;
    /// otherwise, also on it, the second class, or an outlier. The value of a regression is its score.
    pub fn answer_at(&self, score: f64, border: f64) -> Answer {
        match self {
            Output::Value => Answer::Value(score),
            Output::Novelty => Answer::Inlier(score > border),
            Output::Classes { .. } => Answer::Class(usize::from(score <= border)),
        }
    }

    /// By how much a class wins (or loses, if negative), whichever class the vote chooses: its weakest pairwise score
    /// (one-vs-one), or its distance to the best other class (one-vs-rest). With one score it is that score.
    ///
    /// # Panics
    /// If there are fewer scores than it needs.
    pub fn margin(&self, scores: &[f64], class: usize) -> f64 {
        match self {
            Output::Classes { names, scheme: Scheme::OneVsOne } if scores.len() > 1 => {
                let own = pairs_with(names.len(), class);
                let own = own.map(|(at, is_first)| if is_first { scores[at] } else { -scores[at] });
                own.fold(f64::INFINITY, f64::min)
            }
            Output::Classes { scheme: Scheme::OneVsRest, .. } if scores.len() > 1 => {
                let others = scores.iter().enumerate().filter(|(other, _)| *other != class);
                scores[class] - others.map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max)
            }
            _ => scores[0],
        }
    }

    /// The class that scores vote for if only some are known. An unknown score has no vote (one-vs-one) or is lower than
    /// all known ones (one-vs-rest).
    pub fn vote_of_known(&self, scores: impl Iterator<Item = Option<f64>>) -> usize {
        let Output::Classes { names, scheme } = self else { return 0 };
        match scheme {
            Scheme::OneVsOne => one_vs_one(names.len(), scores),
            Scheme::OneVsRest => {
                let scores: Vec<f64> =
                    scores.map(|score| score.unwrap_or(f64::NEG_INFINITY)).collect();
                first_largest(&scores)
            }
        }
    }
}

/// The votes of so many classes are held without allocating: the vote of every query asks for them.
const FEW_CLASSES: usize = 16;

/// Fewest and most votes of one class.
#[derive(Debug, Clone, Copy, Default)]
struct ClassVotes {
    fewest: u32,
    most: u32,
}

/// Fewest and most votes that each class gets if some pairwise scores have an unknown sign.
#[derive(Debug)]
pub struct VoteBounds {
    classes: usize,
    few: [ClassVotes; FEW_CLASSES],
    /// In place of `few`, where there are more classes.
    many: Vec<ClassVotes>,
}

impl VoteBounds {
    /// The signs of the pairwise scores in the order of [`pairs`]: whether each is positive, where that is known.
    pub fn new(classes: usize, is_positive: impl Iterator<Item = Option<bool>>) -> Self {
        let (mut few, mut many) = ([ClassVotes::default(); FEW_CLASSES], Vec::new());
        let each = if classes <= FEW_CLASSES {
            &mut few[..]
        } else {
            many.resize(classes, ClassVotes::default());
            &mut many[..]
        };
        for ((first, second), sign) in pairs(classes).zip(is_positive) {
            each[first].fewest += u32::from(sign == Some(true));
            each[second].fewest += u32::from(sign == Some(false));
            each[first].most += u32::from(sign != Some(false));
            each[second].most += u32::from(sign != Some(true));
        }
        Self { classes, few, many }
    }

    fn of(&self, class: usize) -> ClassVotes {
        let each = if self.many.is_empty() { &self.few[..] } else { &self.many[..] };
        each[class]
    }

    /// Whether `class` ends before `other` whatever the unknown signs are; ties go to the lower.
    fn surely_beats(&self, class: usize, other: usize) -> bool {
        let (fewest, most) = (self.of(class).fewest, self.of(other).most);
        fewest > most || (fewest == most && class < other)
    }

    /// The class that wins whatever the unknown signs are.
    pub fn winner(&self) -> Option<usize> {
        let classes = 0..self.classes;
        let wins = |class: &usize| {
            classes.clone().all(|other| other == *class || self.surely_beats(*class, other))
        };
        classes.clone().find(wins)
    }

    /// Whether some unknown signs make the class win.
    pub fn may_win(&self, class: usize) -> bool {
        !(0..self.classes).any(|other| other != class && self.surely_beats(other, class))
    }
}

fn one_vs_one(classes: usize, scores: impl Iterator<Item = Option<f64>>) -> usize {
    let mut votes = vec![0u32; classes];
    for ((first, second), score) in pairs(classes).zip(scores) {
        if let Some(score) = score {
            votes[if score > 0.0 { first } else { second }] += 1;
        }
    }
    first_largest(&votes)
}

/// Position of the largest value; the first of equals.
fn first_largest<T: PartialOrd + Copy>(values: &[T]) -> usize {
    let mut best = 0;
    for (position, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = position;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_in_libsvm_order() {
        assert_eq!(pairs(3).collect::<Vec<_>>(), [(0, 1), (0, 2), (1, 2)]);
    }

    fn verdict(scheme: Scheme, scores: &[f64]) -> Verdict {
        let names = (0..3).map(|n| crate::ClassName::Number(f64::from(n))).collect();
        Output::Classes { names, scheme }.verdict(scores)
    }

    #[test]
    fn vote_ties_go_to_the_lowest_class() {
        // 0 beats 1, 2 beats 0, 1 beats 2: one vote each.
        let verdict = verdict(Scheme::OneVsOne, &[1.0, -0.5, 2.0]);
        assert_eq!(verdict, Verdict { answer: Answer::Class(0), score: -0.5 });
    }

    #[test]
    fn a_score_of_zero_votes_for_the_second_class() {
        assert_eq!(verdict(Scheme::OneVsOne, &[0.0, 0.0, 0.0]).answer, Answer::Class(2));
    }

    #[test]
    fn equal_scores_go_to_the_lowest_class() {
        let verdict = verdict(Scheme::OneVsRest, &[1.0, 3.0, 3.0]);
        assert_eq!(verdict, Verdict { answer: Answer::Class(1), score: 0.0 });
    }

    #[test]
    fn a_class_takes_part_in_one_pair_less_than_there_are_classes() {
        assert_eq!(pairs_with(4, 1).collect::<Vec<_>>(), [(0, false), (3, true), (4, true)]);
    }

    #[test]
    fn bounds_of_votes_know_the_winner_once_unknown_signs_do_not_matter() {
        // 0 beats both others; whether 1 beats 2 does not matter.
        let known = VoteBounds::new(3, [Some(true), Some(true), None].into_iter());
        assert_eq!((known.winner(), known.may_win(1)), (Some(0), false));
        let unknown = VoteBounds::new(3, [Some(true), None, None].into_iter());
        assert_eq!((unknown.winner(), unknown.may_win(2)), (None, true));
    }

    #[test]
    fn bounds_of_votes_hold_for_few_and_for_many_classes() {
        for classes in [2, FEW_CLASSES, FEW_CLASSES + 1, 40] {
            for winner in [0, classes / 2, classes - 1] {
                let signs = || {
                    pairs(classes).map(move |(a, b)| match (a == winner, b == winner) {
                        (false, false) => None,
                        (is_first, _) => Some(is_first),
                    })
                };
                let known = VoteBounds::new(classes, signs());
                // All pairs of the winner are known: nobody else has as many votes.
                assert_eq!(known.winner(), Some(winner), "{classes} classes");
                let others = (0..classes).filter(|class| *class != winner);
                assert!(others.clone().all(|class| !known.may_win(class)), "{classes} classes");
                // Without the first pair of the winner another may have as many.
                let mut is_open = true;
                let open = signs().map(|sign| sign.filter(|_| !std::mem::take(&mut is_open)));
                assert!(VoteBounds::new(classes, open).may_win(winner), "{classes} classes");
            }
        }
    }
}
