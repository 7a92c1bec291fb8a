//! Which pairwise classifier is asked next, and when the vote is decided. How votes are counted is in `mercer_machine`.

use mercer_machine::{Machine, VoteBounds, pairs, pairs_with};

use crate::Estimate;

/// The scores of a query that are known by now; a machine with one score is decided by it alone.
#[derive(Debug)]
pub(super) struct KnownScores<'a> {
    pub machine: &'a Machine,
    pub scores: &'a mut [Option<f64>],
}

impl KnownScores<'_> {
    fn bounds(&self) -> VoteBounds {
        let signs = self.scores.iter().map(|score| score.map(|score| score > 0.0));
        VoteBounds::new(self.machine.classes().len(), signs)
    }

    /// The answer, if the unknown scores cannot change it.
    pub(super) fn decided(&self) -> Option<Estimate> {
        if let [score] = &*self.scores {
            return score.map(Estimate::Score);
        }
        let class = self.bounds().winner()?;
        let known = pairs_with(self.machine.classes().len(), class);
        let signed = known.filter_map(|(pair, is_first)| {
            self.scores[pair].map(|score| if is_first { score } else { -score })
        });
        Some(Estimate::Class { class, margin: signed.fold(f64::INFINITY, f64::min) })
    }

    /// The unknown score to ask for: of two classes that may both win, and of those with most votes so far. A class
    /// that wins its pairs stays in; the others drop out early.
    pub(super) fn next(&self, is_skipped: impl Fn(usize) -> bool) -> Option<usize> {
        if let [score] = &*self.scores {
            return (score.is_none() && !is_skipped(0)).then_some(0);
        }
        let classes = self.machine.classes().len();
        let bounds = self.bounds();
        let may_win: Vec<bool> = (0..classes).map(|class| bounds.may_win(class)).collect();
        let mut votes = vec![0u32; classes];
        for ((first, second), score) in pairs(classes).zip(&*self.scores) {
            if let Some(score) = score {
                votes[if *score > 0.0 { first } else { second }] += 1;
            }
        }
        let open = pairs(classes).enumerate().filter(|(pair, (first, second))| {
            self.scores[*pair].is_none()
                && !is_skipped(*pair)
                && (may_win[*first] || may_win[*second])
        });
        let value = |first: usize, second: usize| {
            (may_win[first] && may_win[second], votes[first] + votes[second])
        };
        let mut best: Option<(usize, (bool, u32))> = None;
        for (pair, (first, second)) in open {
            let value = value(first, second);
            if best.is_none_or(|(_, most)| value > most) {
                best = Some((pair, value));
            }
        }
        best.map(|(pair, _)| pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_data::Matrix;
    use mercer_machine::{ClassName, Output, Scheme, Score};

    fn machine(classes: u32) -> Machine {
        let names: Vec<ClassName> =
            (0..classes).map(|class| ClassName::Number(f64::from(class))).collect();
        let count = names.len() * (names.len() - 1) / 2;
        let scores = vec![Score::expansion(&[1.0, -1.0], 0.0); count];
        let output = Output::Classes { names, scheme: Scheme::OneVsOne };
        let kernel = mercer_kernel::parse("linear").unwrap();
        let supports = Matrix::dense(1, vec![1.0, 2.0]).unwrap();
        Machine::new(kernel, supports, scores, output).unwrap()
    }

    /// Class 2 wins all its pairs; how many of all 10 must be asked?
    #[test]
    fn classes_that_lose_drop_out_and_the_vote_is_that_of_all_scores() {
        let machine = machine(5);
        let signs: Vec<f64> =
            pairs(5).map(|(a, b)| if a == 2 || (b != 2 && a == 0) { 1.0 } else { -1.0 }).collect();
        let mut scores = vec![None; 10];
        let mut asked = 0;
        let decided = loop {
            let known = KnownScores { machine: &machine, scores: &mut scores };
            if let Some(decided) = known.decided() {
                break decided;
            }
            let pair = known.next(|_| false).expect("not decided");
            assert!(known.scores[pair].is_none());
            known.scores[pair] = Some(signs[pair]);
            asked += 1;
        };
        assert_eq!(decided, Estimate::Class { class: 2, margin: 1.0 });
        assert!(asked < 10, "{asked}");
        let mut none = vec![None; 10];
        let known = KnownScores { machine: &machine, scores: &mut none };
        assert_eq!(known.next(|_| true), None);
        assert_eq!(known.decided(), None);
    }

    #[test]
    fn one_score_decides_alone() {
        let machine = machine(2);
        let mut scores = vec![None];
        let known = KnownScores { machine: &machine, scores: &mut scores };
        assert_eq!((known.next(|_| false), known.decided()), (Some(0), None));
        scores[0] = Some(-0.5);
        let known = KnownScores { machine: &machine, scores: &mut scores };
        assert_eq!((known.next(|_| false), known.decided()), (None, Some(Estimate::Score(-0.5))));
    }
}
