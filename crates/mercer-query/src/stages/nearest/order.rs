//! The order in which the stage `nearest` visits supports. When to stop is decided in `nearest.rs`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Supports from the nearest to the farthest, as \[DM03\] visits them: by (approximate) kernel value, and by
/// turns from both sides if there is a tug of war. Nothing is sorted before it is needed.
#[derive(Debug, Default)]
pub struct NearestOrder {
    /// Kernel value as an ordered integer, then the support: lower numbers come first among equals.
    heads: [BinaryHeap<(i64, Reverse<u32>)>; 2],
    /// Sum of the coefficients visited so far.
    pull: f64,
}

impl NearestOrder {
    /// Begins with a query: its kernel values with all supports. With a tug of war supports of either sign
    /// wait in a line of their own.
    pub fn start(&mut self, values: &[f64], coefficients: &[f64], has_tug_of_war: bool) {
        let mut lines = self.heads.each_mut().map(|heap| {
            let mut line = std::mem::take(heap).into_vec();
            line.clear();
            line
        });
        for (support, (value, beta)) in (0u32..).zip(values.iter().zip(coefficients)) {
            let line = usize::from(has_tug_of_war && *beta <= 0.0);
            lines[line].push((ordered(*value), Reverse(support)));
        }
        self.heads = lines.map(BinaryHeap::from);
        self.pull = 0.0;
    }

    /// The next support: the nearest, or with a tug of war the head of that line which leaves the sum of the
    /// coefficients visited so far smallest.
    pub fn next(&mut self, coefficients: &[f64]) -> Option<u32> {
        let head = |line: usize| self.heads[line].peek().map(|(_, Reverse(support))| *support);
        let line = match (head(0), head(1)) {
            (Some(first), Some(second)) => {
                let left = |support: u32| (self.pull + coefficients[support as usize]).abs();
                usize::from(left(second) < left(first))
            }
            (None, _) => 1,
            (_, None) => 0,
        };
        let (_, Reverse(support)) = self.heads[line].pop()?;
        self.pull += coefficients[support as usize];
        Some(support)
    }
}

/// The order of `f64::total_cmp` as an integer.
fn ordered(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(values: &[f64], coefficients: &[f64], has_tug_of_war: bool) -> Vec<u32> {
        let mut nearest = NearestOrder::default();
        nearest.start(&[9.0, 9.0], &[1.0, -1.0], true);
        nearest.start(values, coefficients, has_tug_of_war);
        std::iter::from_fn(|| nearest.next(coefficients)).collect()
    }

    #[test]
    fn without_a_tug_of_war_the_nearest_comes_first_and_the_lower_of_equals() {
        let values = [0.1, -0.5, 0.9, 0.1, -2.0];
        assert_eq!(order(&values, &[1.0, -1.0, 1.0, -1.0, 2.0], false), [2, 0, 3, 1, 4]);
    }

    #[test]
    fn a_tug_of_war_keeps_the_sum_of_coefficients_small() {
        // Both lines from the nearest on: 0, 1, 2 pull up, 3, 4, 5 down.
        let values = [0.9, 0.8, 0.7, 0.3, 0.2, 0.1];
        let coefficients = [1.0, 1.0, 1.0, -2.0, -0.5, -0.5];
        // 1 or -2, 2 or -1, 0 or -1.5, 1 or -0.5, 0.5 or -1, then what is left.
        assert_eq!(order(&values, &coefficients, true), [0, 3, 1, 4, 2, 5]);
    }
}
