//! One compensated sum; `mercer_simd::CompensatedSums` has many side by side.

/// A compensated sum: as accurate as one in twice the precision, rounded at the end.
///
/// After `n` terms of total size `A` its value is off by at most `u |value| + 3 n² u² A`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Compensated {
    sum: f64,
    error: f64,
}

impl Compensated {
    /// Adds a number.
    pub fn add(&mut self, x: f64) {
        let sum = self.sum + x;
        let part = sum - self.sum;
        self.error += (self.sum - (sum - part)) + (x - part);
        self.sum = sum;
    }

    /// Adds a product, without rounding.
    pub fn add_product(&mut self, a: f64, b: f64) {
        let product = a * b;
        self.add(product);
        self.error += a.mul_add(b, -product);
    }

    /// Takes a product away, without rounding.
    pub fn subtract_product(&mut self, a: f64, b: f64) {
        self.add_product(-a, b);
    }

    /// The sum so far, rounded once.
    pub fn value(&self) -> f64 {
        self.sum + self.error
    }
}

impl From<f64> for Compensated {
    fn from(x: f64) -> Self {
        Self { sum: x, error: 0.0 }
    }
}
