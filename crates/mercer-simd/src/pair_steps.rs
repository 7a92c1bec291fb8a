//! Pair steps of sequential minimal optimisation over dense arrays: which variables violate most, the best partner of one, and
//! the gradient after a step. How far a pair moves, and when to stop, is decided by the solver.

#![expect(clippy::float_cmp, reason = "the first of equal numbers is looked for")]

use crate::isa::Isa;
use crate::vector::{SimdBackend, Task};

const LANES: usize = 8;

/// Variables with box constraints, and the gradient.
#[derive(Debug, Clone, Copy)]
pub struct BoxVariables<'a> {
    /// Derivative of the objective by each variable.
    pub gradient: &'a [f64],
    /// The variables.
    pub beta: &'a [f64],
    /// Their lower bounds.
    pub lower: &'a [f64],
    /// Their upper bounds.
    pub upper: &'a [f64],
}

/// The largest violation of the optimality conditions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extremes {
    /// The first variable that may grow with the smallest gradient; `None` if none may.
    pub up: Option<usize>,
    /// Its gradient, or ∞.
    pub least: f64,
    /// The largest gradient of a variable that may fall, or -∞.
    pub most: f64,
}

impl Task for BoxVariables<'_> {
    type Output = Extremes;

    #[inline(always)]
    fn run<B: SimdBackend>(self) -> Extremes {
        let Self { gradient, beta, lower, upper } = self;
        let ends = |gradient: f64, beta: f64, lower: f64, upper: f64| {
            let up = if beta < upper { gradient } else { f64::INFINITY };
            (up, if beta > lower { gradient } else { f64::NEG_INFINITY })
        };
        let (mut least, mut most) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
        let whole = gradient.len() - gradient.len() % LANES;
        for first in (0..whole).step_by(LANES) {
            let part = first..first + LANES;
            let (gradient, beta) = (&gradient[part.clone()], &beta[part.clone()]);
            let (lower, upper) = (&lower[part.clone()], &upper[part]);
            for lane in 0..LANES {
                let (up, low) = ends(gradient[lane], beta[lane], lower[lane], upper[lane]);
                least[lane] = if up < least[lane] { up } else { least[lane] };
                most[lane] = if low > most[lane] { low } else { most[lane] };
            }
        }
        for at in whole..gradient.len() {
            let (up, low) = ends(gradient[at], beta[at], lower[at], upper[at]);
            least[0] = if up < least[0] { up } else { least[0] };
            most[0] = if low > most[0] { low } else { most[0] };
        }
        let least = least.into_iter().fold(f64::INFINITY, |a, b| if b < a { b } else { a });
        let most = most.into_iter().fold(f64::NEG_INFINITY, |a, b| if b > a { b } else { a });
        // The position is looked for afterwards: the loop above is then a few vector instructions.
        let mut places = gradient.iter().zip(beta).zip(upper);
        let up = if least < f64::INFINITY {
            places.position(|((gradient, beta), upper)| *gradient == least && beta < upper)
        } else {
            None
        };
        Extremes { up, least, most }
    }
}

impl BoxVariables<'_> {
    /// Which variable may grow with most gain, and the gradients at both ends.
    ///
    /// # Panics
    /// If there are fewer bounds than variables.
    pub fn extremes(self, isa: Isa) -> Extremes {
        let size = self.gradient.len();
        let (beta, lower, upper) = (&self.beta[..size], &self.lower[..size], &self.upper[..size]);
        isa.run(Self { gradient: self.gradient, beta, lower, upper })
    }
}

/// What the gain of a pair depends on, beside the variables.
#[derive(Debug, Clone, Copy)]
pub struct PairCurvature<'a> {
    /// `K_ii` of the variable that grows.
    pub own: f64,
    /// `K_tt` of each variable.
    pub diagonal: &'a [f64],
    /// `K_it` of each variable.
    pub row: &'a [f64],
    /// Smaller curvatures count as this one.
    pub least: f64,
}

struct BestPartner<'a> {
    gradient: f64,
    variables: BoxVariables<'a>,
    curvature: PairCurvature<'a>,
}

impl BestPartner<'_> {
    /// `(F_t - F_i)² / (K_ii + K_tt - 2 K_it)`, zero where the variable may not fall.
    #[inline(always)]
    fn gain(&self, gradient: f64, beta: f64, lower: f64, diagonal: f64, value: f64) -> f64 {
        let difference = gradient - self.gradient;
        let curvature = self.curvature.own + diagonal - 2.0 * value;
        let curvature =
            if curvature > self.curvature.least { curvature } else { self.curvature.least };
        let gain = difference * difference / curvature;
        if beta > lower && difference > 0.0 { gain } else { 0.0 }
    }
}

impl Task for BestPartner<'_> {
    type Output = Option<(usize, f64)>;

    #[inline(always)]
    fn run<B: SimdBackend>(self) -> Option<(usize, f64)> {
        let BoxVariables { gradient, beta, lower, .. } = self.variables;
        let PairCurvature { diagonal, row, .. } = self.curvature;
        let mut best = [0.0f64; LANES];
        let mut at = [0u64; LANES];
        let whole = gradient.len() - gradient.len() % LANES;
        for first in (0..whole).step_by(LANES) {
            let part = first..first + LANES;
            let (gradient, beta) = (&gradient[part.clone()], &beta[part.clone()]);
            let (lower, diagonal) = (&lower[part.clone()], &diagonal[part.clone()]);
            let row = &row[part];
            for lane in 0..LANES {
                let gain =
                    self.gain(gradient[lane], beta[lane], lower[lane], diagonal[lane], row[lane]);
                let is_better = gain > best[lane];
                best[lane] = if is_better { gain } else { best[lane] };
                at[lane] = if is_better { first as u64 } else { at[lane] };
            }
        }
        let mut found: Option<(usize, f64)> = None;
        for lane in 0..LANES {
            let (index, gain) = (at[lane] as usize + lane, best[lane]);
            let is_better =
                |(first, most): (usize, f64)| gain > most || (gain == most && index < first);
            if gain > 0.0 && found.is_none_or(is_better) {
                found = Some((index, gain));
            }
        }
        for at in whole..gradient.len() {
            let gain = self.gain(gradient[at], beta[at], lower[at], diagonal[at], row[at]);
            if gain > found.map_or(0.0, |(_, most)| most) {
                found = Some((at, gain));
            }
        }
        found
    }
}

/// The first variable that may fall with the largest gain `(F_t - F_i)² / (K_ii + K_tt - 2 K_it)` beside one that grows, whose
/// gradient is `gradient` (\[FCL05\] WSS 2), and that gain; `None` if none has a gain.
///
/// # Panics
/// If there are fewer bounds or kernel values than variables.
pub fn best_partner(
    isa: Isa,
    gradient: f64,
    variables: BoxVariables<'_>,
    curvature: PairCurvature<'_>,
) -> Option<(usize, f64)> {
    let size = variables.gradient.len();
    let variables = BoxVariables {
        beta: &variables.beta[..size],
        lower: &variables.lower[..size],
        ..variables
    };
    let curvature = PairCurvature {
        diagonal: &curvature.diagonal[..size],
        row: &curvature.row[..size],
        ..curvature
    };
    isa.run(BestPartner { gradient, variables, curvature })
}

struct AddDifference<'a>(f64, &'a [f64], &'a [f64], &'a mut [f64]);

impl Task for AddDifference<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        let Self(factor, a, b, out) = self;
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out += factor * (a - b);
        }
    }
}

/// `out += factor (a - b)`, each operation rounded.
///
/// # Panics
/// If the lengths differ.
pub fn add_difference(isa: Isa, factor: f64, a: &[f64], b: &[f64], out: &mut [f64]) {
    assert_eq!((a.len(), b.len()), (out.len(), out.len()), "one number each");
    isa.run(AddDifference(factor, a, b, out));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few distinct values, so that there are ties, and variables at both bounds.
    fn numbers(size: usize, seed: u64, kinds: u64) -> Vec<f64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 40) % kinds) as f64 / 4.0 - 1.0
        };
        (0..size).map(|_| next()).collect()
    }

    #[test]
    fn extremes_and_partners_are_the_first_of_the_plain_loops() {
        for size in [0, 1, 7, 8, 9, 30, 64, 101] {
            for seed in 0..20 {
                let gradient = numbers(size, seed, 7);
                let beta = numbers(size, seed + 100, 3);
                let (lower, upper) = (vec![-1.0; size], vec![-0.5; size]);
                let (diagonal, row) = (numbers(size, seed + 200, 9), numbers(size, seed + 300, 9));
                let variables =
                    BoxVariables { gradient: &gradient, beta: &beta, lower: &lower, upper: &upper };
                let mut plain =
                    Extremes { up: None, least: f64::INFINITY, most: f64::NEG_INFINITY };
                for v in 0..size {
                    if beta[v] < upper[v] && gradient[v] < plain.least {
                        (plain.up, plain.least) = (Some(v), gradient[v]);
                    }
                    if beta[v] > lower[v] && gradient[v] > plain.most {
                        plain.most = gradient[v];
                    }
                }
                let curvature =
                    PairCurvature { own: 0.5, diagonal: &diagonal, row: &row, least: 1e-12 };
                let mut partner = None;
                let mut most = 0.0;
                for v in 0..size {
                    let difference = gradient[v] - -0.75;
                    if beta[v] > lower[v] && difference > 0.0 {
                        let curvature = (0.5 + diagonal[v] - 2.0 * row[v]).max(1e-12);
                        let gain: f64 = difference * difference / curvature;
                        if gain > most {
                            (partner, most) = (Some((v, gain)), gain);
                        }
                    }
                }
                for isa in Isa::available() {
                    assert_eq!(variables.extremes(*isa), plain);
                    assert_eq!(best_partner(*isa, -0.75, variables, curvature), partner);
                }
            }
        }
    }

    #[test]
    fn numbers_that_are_none_are_never_chosen() {
        let gradient = [f64::NAN; 11];
        let (beta, lower, upper) = ([0.0; 11], [-1.0; 11], [1.0; 11]);
        let variables =
            BoxVariables { gradient: &gradient, beta: &beta, lower: &lower, upper: &upper };
        let curvature = PairCurvature { own: 1.0, diagonal: &upper, row: &beta, least: 1e-12 };
        for isa in Isa::available() {
            assert_eq!(variables.extremes(*isa).up, None);
            assert_eq!(best_partner(*isa, 0.0, variables, curvature), None);
        }
    }

    #[test]
    fn differences_are_added_with_the_same_bits_on_every_processor() {
        let (a, b) = (numbers(37, 1, 1000), numbers(37, 2, 1000));
        let start = numbers(37, 3, 1000);
        let mut plain = start.clone();
        plain.iter_mut().zip(&a).zip(&b).for_each(|((out, a), b)| *out += 0.3 * (a - b));
        for isa in Isa::available() {
            let mut out = start.clone();
            add_difference(*isa, 0.3, &a, &b, &mut out);
            assert_eq!(out, plain);
        }
    }
}
