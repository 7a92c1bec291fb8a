use std::time::Instant;

/// The best of several timings of `work`, in microseconds per item, after one run to warm up.
pub(crate) fn best_us(repeats: u32, items: usize, mut work: impl FnMut()) -> f64 {
    work();
    let one = |()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    let best = std::iter::repeat_n((), repeats as usize).map(one).fold(f64::INFINITY, f64::min);
    best * 1e6 / items.max(1) as f64
}
