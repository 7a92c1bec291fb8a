//! What `svm-train -b 1` fits besides sigmoids: the spread of a regression's errors, and the marks of a one-class machine.

use mercer::machine::Probabilities;

/// The mean error, without errors beyond five deviations.
pub(super) fn laplace(errors: &[f64]) -> f64 {
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let limit = 5.0 * (2.0 * mean * mean).sqrt();
    let kept = errors.iter().filter(|error| **error <= limit);
    kept.clone().sum::<f64>() / kept.count() as f64
}

/// Ten marks between eleven quantiles of the scores, five of them below zero.
pub(super) fn marks(mut scores: Vec<f64>) -> Option<Probabilities> {
    const MARKS: usize = 10;
    const HALF: usize = MARKS / 2;
    scores.sort_by(f64::total_cmp);
    let below = scores.partition_point(|score| *score < 0.0);
    let above = scores.len() - below;
    if below < HALF || above < HALF {
        eprintln!(
            "WARNING: number of positive or negative decision values <{HALF}; too few to do a \
             probability estimation."
        );
        return None;
    }
    let quantile = |at: usize| match at.cmp(&HALF) {
        std::cmp::Ordering::Less => scores[at * below / HALF],
        std::cmp::Ordering::Equal => 0.0,
        std::cmp::Ordering::Greater => scores[below - 1 + (at - HALF) * above / HALF],
    };
    let mark = |at: usize| f64::midpoint(quantile(at), quantile(at + 1));
    Some(Probabilities::Marks((0..MARKS).map(mark).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_rise_through_zero_and_few_scores_give_none() {
        let scores: Vec<f64> = (-50..100).map(f64::from).collect();
        let Some(Probabilities::Marks(marks)) = marks(scores) else { panic!("marks") };
        assert_eq!(marks.len(), 10);
        assert!(marks.is_sorted() && marks[4] < 0.0 && marks[5] > 0.0);
        assert_eq!(super::marks(vec![1.0, 2.0, -1.0]), None);
    }
}
