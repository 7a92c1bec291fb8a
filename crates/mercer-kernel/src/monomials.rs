//! All products of at most a few columns: a polynomial kernel is a plain product of such lists.
//! For the stage `monomials` of a plan; elsewhere polynomial kernels are computed by their form.

use mercer_simd::Factor;

use crate::{Form, Kernel, Profile};

/// Higher degrees have too many products to be worth a list.
pub const MOST_DEGREE: u32 = 12;

/// `(scale s + shift)^degree` of the product `s`, which is what the kernel is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    /// Factor of the base.
    pub scale: f64,
    /// Added constant.
    pub shift: f64,
    /// Exponent, from 1 to [`MOST_DEGREE`].
    pub degree: u32,
}

impl Power {
    /// What the kernel is, if it is one.
    pub fn of(kernel: &dyn Kernel) -> Option<Self> {
        let Form::Dot(finish) = kernel.form() else { return None };
        match finish.profile() {
            Profile::Identity => Some(Self { scale: 1.0, shift: 0.0, degree: 1 }),
            Profile::Power { scale, shift, degree } if (1..=MOST_DEGREE).contains(&degree) => {
                Some(Self { scale, shift, degree })
            }
            _ => None,
        }
    }
}

/// How many products of at most `degree` of so many columns there are, the empty one included: `C(d + p, p)`.
/// None if that is beyond counting.
pub fn count(columns: usize, degree: u32) -> Option<usize> {
    // Every quotient on the way is itself such a number.
    (1..=degree as usize)
        .try_fold(1usize, |count, k| Some(count.checked_mul(columns.checked_add(k)?)? / k))
}

/// The products of at most `degree` columns after the empty one, lower degrees first, and how often the
/// product of a power's bases meets each: `p! / (α! (p - |α|)!)`.
#[derive(Debug, Clone)]
pub struct Monomials {
    /// How each comes from an earlier one.
    pub factors: Vec<Factor>,
    /// The degree of each product, the empty one included.
    pub degrees: Vec<u32>,
    /// How often each appears, the empty one included.
    pub multiplicities: Vec<f64>,
}

impl Monomials {
    /// All of them.
    ///
    /// # Panics
    /// If the degree exceeds [`MOST_DEGREE`], or there are more than fit 32 bits.
    pub fn new(columns: usize, degree: u32) -> Self {
        assert!(degree <= MOST_DEGREE, "a degree that is too high");
        let all = count(columns, degree).filter(|count| u32::try_from(*count).is_ok());
        let all = all.expect("too many products");
        let mut list =
            Self { factors: Vec::with_capacity(all), degrees: vec![0], multiplicities: vec![1.0] };
        // Last column of each product, and how often it has been taken.
        let mut last = vec![(0u32, 0u32)];
        let mut earlier = 0..1;
        for taken in 1..=degree {
            for of in earlier.clone() {
                let (least, times) = last[of];
                for column in least..columns as u32 {
                    let times = if column == least { times + 1 } else { 1 };
                    list.factors.push(Factor { of: of as u32, column });
                    list.degrees.push(taken);
                    // One more column to choose among those left, in any order with its equals.
                    let choices = f64::from(degree - taken + 1) / f64::from(times);
                    list.multiplicities.push(list.multiplicities[of] * choices);
                    last.push((column, times));
                }
            }
            earlier = earlier.end..last.len();
        }
        list.multiplicities.iter_mut().for_each(|times| *times = times.round());
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_binomials() {
        assert_eq!(count(3, 3), Some(20));
        assert_eq!(count(60, 2), Some(1891));
        assert_eq!(count(usize::MAX / 2, 12), None);
        for (columns, degree) in [(1, 1), (3, 3), (5, 4), (2, 12), (0, 3)] {
            let list = Monomials::new(columns, degree);
            assert_eq!(list.degrees.len(), count(columns, degree).unwrap());
        }
    }

    #[test]
    fn multiplicities_add_up_to_the_power_of_a_sum() {
        // With every column 1 the power of the sum of all columns and 1.
        for (columns, degree) in [(1, 5), (3, 3), (4, 6), (2, 12)] {
            let sum: f64 = Monomials::new(columns, degree).multiplicities.iter().sum();
            assert_eq!(sum as u64, (columns as u64 + 1).pow(degree));
        }
    }
}
