//! The logistic loss and its derivative over slices.

use crate::isa::Isa;
use crate::maths::{exp1, ln_1p};
use crate::vector::{SimdBackend, Task};

struct Logistic<'a>(&'a [f64], &'a mut [f64], &'a mut [f64]);

impl Task for Logistic<'_> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        for ((margin, cost), wrong) in self.0.iter().zip(self.1).zip(self.2) {
            let small = exp1(-margin.abs());
            let below = if *margin < 0.0 { -margin } else { 0.0 };
            *cost = ln_1p(small) + below;
            *wrong = if *margin > 0.0 { small } else { 1.0 } / (1.0 + small);
        }
    }
}

/// `ln(1 + e^-m)` and `1 / (1 + e^m)` of each margin `m`, of any size.
///
/// # Panics
/// If the lengths differ.
pub fn logistic(isa: Isa, margins: &[f64], costs: &mut [f64], wrongs: &mut [f64]) {
    assert_eq!((margins.len(), margins.len()), (costs.len(), wrongs.len()), "one of each");
    isa.run(Logistic(margins, costs, wrongs));
}
