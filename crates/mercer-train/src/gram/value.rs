/// A stored kernel value: single or double.
pub(crate) trait Value: Copy + Default + Send + Sync + 'static {
    fn of_single(value: f32) -> Self;
    fn of_double(value: f64) -> Self;
    fn to_f64(self) -> f64;
}

impl Value for f32 {
    #[inline(always)]
    fn of_single(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn of_double(value: f64) -> Self {
        value as f32
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Value for f64 {
    #[inline(always)]
    fn of_single(value: f32) -> Self {
        f64::from(value)
    }

    #[inline(always)]
    fn of_double(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
}
