//! Numbers to test with.

/// A small generator with a fixed seed.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() >> 33) as usize % limit
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Mostly ordinary numbers of both signs; sometimes zeros, huge, tiny and subnormal ones.
    pub fn wild(&mut self) -> f64 {
        let ordinary = self.between(-1.0, 1.0);
        match self.below(12) {
            0 | 1 => 0.0,
            2 => -0.0,
            3 => ordinary * 1e150,
            4 => ordinary * 1e-160,
            5 => ordinary * 1e-310,
            _ => ordinary,
        }
    }

    pub fn wilds(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.wild()).collect()
    }
}

/// The bits of each number, so that −0 and +0 differ and failures print what differs.
pub fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Columns and values that are not zero.
pub fn sparse(row: &[f64]) -> (Vec<u32>, Vec<f64>) {
    (0..row.len()).filter(|&c| row[c] != 0.0).map(|c| (c as u32, row[c])).unzip()
}
