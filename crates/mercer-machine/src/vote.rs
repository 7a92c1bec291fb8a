//! How scores become an answer: the vote and its ties, in one place.

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
    /// The score where there is one; with several classes the winner's weakest duel (one-vs-one) or the
    /// distance to the second (one-vs-rest).
    pub score: f64,
}

/// The duels of `classes` classes in LIBSVM's order: (0,1), (0,2), ..., (1,2), ...
pub fn pairs(classes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..classes).flat_map(move |first| (first + 1..classes).map(move |second| (first, second)))
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
        match self {
            Output::Value => Verdict { answer: Answer::Value(scores[0]), score: scores[0] },
            Output::Novelty => {
                Verdict { answer: Answer::Inlier(scores[0] > 0.0), score: scores[0] }
            }
            Output::Classes { .. } if scores.len() == 1 => {
                let class = usize::from(scores[0] <= 0.0);
                Verdict { answer: Answer::Class(class), score: scores[0] }
            }
            Output::Classes { names, scheme: Scheme::OneVsOne } => one_vs_one(names.len(), scores),
            Output::Classes { scheme: Scheme::OneVsRest, .. } => one_vs_rest(scores),
        }
    }
}

fn one_vs_one(classes: usize, scores: &[f64]) -> Verdict {
    let mut votes = vec![0u32; classes];
    for ((first, second), score) in pairs(classes).zip(scores) {
        votes[if *score > 0.0 { first } else { second }] += 1;
    }
    let winner = first_largest(&votes);
    let duels = pairs(classes).zip(scores).filter_map(|((first, second), score)| {
        if first == winner {
            Some(*score)
        } else if second == winner {
            Some(-*score)
        } else {
            None
        }
    });
    Verdict { answer: Answer::Class(winner), score: duels.fold(f64::INFINITY, f64::min) }
}

fn one_vs_rest(scores: &[f64]) -> Verdict {
    let winner = first_largest(scores);
    let others = scores.iter().enumerate().filter(|(class, _)| *class != winner);
    let second = others.map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
    Verdict { answer: Answer::Class(winner), score: scores[winner] - second }
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

    #[test]
    fn vote_ties_go_to_the_lowest_class() {
        // 0 beats 1, 2 beats 0, 1 beats 2: one vote each.
        let verdict = one_vs_one(3, &[1.0, -0.5, 2.0]);
        assert_eq!(verdict, Verdict { answer: Answer::Class(0), score: -0.5 });
    }

    #[test]
    fn a_score_of_zero_votes_for_the_second_class() {
        assert_eq!(one_vs_one(3, &[0.0, 0.0, 0.0]).answer, Answer::Class(2));
    }

    #[test]
    fn equal_scores_go_to_the_lowest_class() {
        let verdict = one_vs_rest(&[1.0, 3.0, 3.0]);
        assert_eq!(verdict, Verdict { answer: Answer::Class(1), score: 0.0 });
    }
}
