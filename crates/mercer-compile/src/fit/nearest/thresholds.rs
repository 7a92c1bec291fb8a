//! Thresholds of partial scores: beyond them no row of the sample changes its sign any more.

/// `L_k` and `H_k`: scores after k supports beyond which no query of the sample changed its sign.
///
/// `L_k = min { g_k(x) : f(x) > 0, g_k(x) < 0 }` and `H_k = max { g_k(x) : f(x) <= 0, g_k(x) > 0 }`, and 0
/// for an empty set: the Simple thresholds of \[DM03\]. An empty set then stops everything, as the paper
/// has it; that is why such a plan promises only what a test of it shows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Thresholds {
    pub low: Vec<f64>,
    pub high: Vec<f64>,
}

impl Thresholds {
    pub(super) fn new(supports: usize) -> Self {
        Self { low: vec![0.0; supports], high: vec![0.0; supports] }
    }

    /// Takes note of one query: its exact score, and its score after each support.
    pub(super) fn add(&mut self, truth: f64, trace: &[f64]) {
        if truth > 0.0 {
            self.low.iter_mut().zip(trace).for_each(|(low, g)| *low = low.min(*g));
        } else {
            self.high.iter_mut().zip(trace).for_each(|(high, g)| *high = high.max(*g));
        }
    }

    /// Those of each score from all folds but one, smoothed.
    pub(super) fn without(folds: &[Vec<Self>], out: usize, smoothing: usize) -> Vec<Self> {
        let mut all: Vec<Self> = folds[0].iter().map(|ends| Self::new(ends.low.len())).collect();
        for (_, fold) in folds.iter().enumerate().filter(|(number, _)| *number != out) {
            for (all, ends) in all.iter_mut().zip(fold) {
                all.low.iter_mut().zip(&ends.low).for_each(|(low, x)| *low = low.min(*x));
                all.high.iter_mut().zip(&ends.high).for_each(|(high, x)| *high = high.max(*x));
            }
        }
        all.iter().map(|ends| ends.smoothed(smoothing)).collect()
    }

    /// MaxSmoothed: the widest within `half` steps on either side, cut at the ends.
    pub(super) fn smoothed(&self, half: usize) -> Self {
        let count = self.low.len();
        let window = |k: usize| k.saturating_sub(half)..(k + half + 1).min(count);
        let low = (0..count).map(|k| self.low[window(k)].iter().copied().fold(0.0, f64::min));
        let high = (0..count).map(|k| self.high[window(k)].iter().copied().fold(0.0, f64::max));
        Self { low: low.collect(), high: high.collect() }
    }

    /// The score at which a query stops, and after how many supports; none if it passes no threshold.
    pub(super) fn stop(&self, trace: &[f32]) -> Option<(f64, usize)> {
        let ends = self.low.iter().zip(&self.high);
        let mut steps = trace.iter().map(|g| f64::from(*g)).zip(ends).enumerate();
        let crossing = steps.find(|(_, (g, (low, high)))| g < *low || g > *high);
        crossing.map(|(k, (g, _))| (g, k + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_the_extremes_of_queries_that_change_their_sign() {
        let mut thresholds = Thresholds::new(3);
        thresholds.add(1.0, &[-0.5, 0.2, 0.9]);
        thresholds.add(2.0, &[-0.7, -0.1, 2.0]);
        thresholds.add(-1.0, &[0.3, -0.4, -1.0]);
        assert_eq!(thresholds.low, [-0.7, -0.1, 0.0]);
        assert_eq!(thresholds.high, [0.3, 0.0, 0.0]);
        let wide = thresholds.smoothed(1);
        assert_eq!((wide.low, wide.high), (vec![-0.7, -0.7, -0.1], vec![0.3, 0.3, 0.0]));
        assert_eq!(thresholds.stop(&[0.25, -0.2, -1.0]), Some((f64::from(-0.2f32), 2)));
        assert_eq!(thresholds.stop(&[0.0, 0.0, 0.0]), None, "zero stops nothing");
        let folds = [vec![thresholds.clone()], vec![Thresholds::new(3)]];
        assert_eq!(Thresholds::without(&folds, 1, 0), [thresholds]);
    }
}
