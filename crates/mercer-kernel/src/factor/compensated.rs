/// A sum that carries its own rounding errors: as good as one in twice the digits, rounded at the end.
///
/// After `n` terms of total size `A` its value is off by at most `u |value| + 3 n² u² A`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Compensated {
    sum: f64,
    missed: f64,
}

impl Compensated {
    /// Adds a number.
    pub fn add(&mut self, x: f64) {
        let sum = self.sum + x;
        let part = sum - self.sum;
        self.missed += (self.sum - (sum - part)) + (x - part);
        self.sum = sum;
    }

    /// Adds a product, with all its digits.
    pub fn add_product(&mut self, a: f64, b: f64) {
        let product = a * b;
        self.add(product);
        self.missed += a.mul_add(b, -product);
    }

    /// Takes a product away, with all its digits.
    pub fn subtract_product(&mut self, a: f64, b: f64) {
        self.add_product(-a, b);
    }

    /// The sum so far, rounded once.
    pub fn value(&self) -> f64 {
        self.sum + self.missed
    }
}

impl From<f64> for Compensated {
    fn from(x: f64) -> Self {
        Self { sum: x, missed: 0.0 }
    }
}
