//! Exact (Clopper-Pearson) confidence bounds on a binomial share, one-sided.
//!
//! What they are used for is in `risk.rs`.

/// The upper Clopper-Pearson bound: the share `p` at which `count` or fewer of `total` have the probability
/// `delta`.
pub fn upper_bound(count: u64, total: u64, delta: f64) -> f64 {
    if count >= total {
        return 1.0;
    }
    let (mut low, mut high) = (count as f64 / total as f64, 1.0f64);
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if binomial_cdf(count, total, middle) > delta { low = middle } else { high = middle }
    }
    high
}

/// The lower Clopper-Pearson bound: the share `p` at which `count` or more of `total` have the probability
/// `delta`.
pub fn lower_bound(count: u64, total: u64, delta: f64) -> f64 {
    if count == 0 || total == 0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, count as f64 / total as f64);
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if binomial_cdf(count - 1, total, middle) > 1.0 - delta {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// `P(X <= count)` for a binomial X, from logarithms so that nothing underflows on the way.
pub(super) fn binomial_cdf(count: u64, total: u64, p: f64) -> f64 {
    let odds = p.ln() - (-p).ln_1p();
    let mut term = total as f64 * (-p).ln_1p();
    let (mut largest, mut sum) = (term, 1.0);
    for k in 0..count {
        term += ((total - k) as f64 / (k + 1) as f64).ln() + odds;
        if term > largest {
            sum = sum * (largest - term).exp() + 1.0;
            largest = term;
        } else {
            sum += (term - largest).exp();
        }
    }
    (largest + sum.ln()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_agrees_with_tables() {
        // Known values of the one-sided 95 % Clopper-Pearson bound.
        for (count, total, expected) in
            [(0, 2995, 0.000_999_9), (0, 10, 0.258_866), (1, 10, 0.394_163), (5, 100, 0.102_253)]
        {
            let found = upper_bound(count, total, 0.05);
            assert!((found - expected).abs() < 2e-5, "{count} of {total}: {found}");
        }
        assert_eq!(upper_bound(7, 7, 0.05), 1.0);
        for (count, total, expected) in
            [(1, 10, 0.005_116), (5, 100, 0.019_910), (10, 10, 0.741_134)]
        {
            let found = lower_bound(count, total, 0.05);
            assert!((found - expected).abs() < 2e-5, "{count} of {total}: {found}");
        }
        assert_eq!(lower_bound(0, 7, 0.05), 0.0);
    }
}
