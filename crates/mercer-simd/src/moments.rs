//! Sums and extremes of kernel values that first- and second-order bounds need, in one pass.

use crate::isa::Isa;
use crate::sums::fold8;
use crate::vector::{SimdBackend, Task};

/// Sums and extremes of one chunk; see [`moments`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// `Σ a_i v_i²`.
    pub squares: f64,
    /// The largest `c_i w_i`, at least 0.
    pub most: f64,
    /// The smallest `c_i w_i`, at most 0.
    pub least: f64,
}

struct MomentsTask<'a> {
    slopes: &'a [f64],
    squares: &'a [f64],
    curves: &'a [f64],
    peaks: &'a [f64],
}

impl Task for MomentsTask<'_> {
    type Output = Moments;

    #[inline(always)]
    fn run<B: SimdBackend>(self) -> Moments {
        let (mut sums, mut most, mut least) = ([0.0f64; 8], [0.0f64; 8], [0.0f64; 8]);
        let mut step = |slopes: &[f64], squares: &[f64], curves: &[f64], peaks: &[f64]| {
            for lane in 0..slopes.len().min(8) {
                let slope = slopes[lane];
                sums[lane] = (slope * slope).mul_add(squares[lane], sums[lane]);
                let peak = curves[lane] * peaks[lane];
                most[lane] = if peak > most[lane] { peak } else { most[lane] };
                least[lane] = if peak < least[lane] { peak } else { least[lane] };
            }
        };
        let (slopes, slopes_rest) = self.slopes.as_chunks::<8>();
        let (squares, squares_rest) = self.squares.as_chunks::<8>();
        let (curves, curves_rest) = self.curves.as_chunks::<8>();
        let (peaks, peaks_rest) = self.peaks.as_chunks::<8>();
        for at in 0..slopes.len() {
            step(&slopes[at], &squares[at], &curves[at], &peaks[at]);
        }
        step(slopes_rest, squares_rest, curves_rest, peaks_rest);
        let most = most.iter().fold(0.0, |most: f64, x| if *x > most { *x } else { most });
        let least = least.iter().fold(0.0, |least: f64, x| if *x < least { *x } else { least });
        Moments { squares: fold8(&sums), most, least }
    }
}

/// `Σ squares_i slopes_i²` in eight partial sums by index, and the extremes of `peaks_i curves_i` and 0.
///
/// # Panics
/// If the lengths differ.
pub fn moments(
    isa: Isa,
    slopes: &[f64],
    squares: &[f64],
    curves: &[f64],
    peaks: &[f64],
) -> Moments {
    let length = slopes.len();
    assert!(
        squares.len() == length && curves.len() == length && peaks.len() == length,
        "four slices of one length"
    );
    isa.run(MomentsTask { slopes, squares, curves, peaks })
}
