//! Tests of the double-double arithmetic against exact identities.

use super::*;

const SAMPLES: [f64; 9] = [1e-150, 3e-20, 0.013, 0.7, 1.0 + 1e-9, 1.7, 42.5, 6e30, 1e150];

fn relative(found: Dd, expected: Dd) -> f64 {
    ((found - expected) / expected).abs().hi
}

#[test]
fn sums_and_products_are_exact() {
    assert_eq!(two_sum(1.0, 1e-30), (1.0, 1e-30));
    let x = 1.0 + f64::EPSILON;
    assert_eq!(two_prod(x, x), (1.0 + 2.0 * f64::EPSILON, 2f64.powi(-104)));
}

#[test]
fn division_undoes_multiplication() {
    for a in SAMPLES {
        for b in SAMPLES {
            let (a, b) = (Dd::from(a) / Dd::from(3.0), Dd::from(b) / Dd::from(7.0));
            // Quotients below 1e-290 lose their last bits to underflow.
            if (1e-290..1e290).contains(&(a.hi / b.hi)) {
                assert!(relative(a / b * b, a) < 1e-30, "{a:?} / {b:?}");
            }
        }
    }
}

#[test]
fn squared_roots_are_the_number() {
    for x in SAMPLES.into_iter().chain([5e-324, 1e-310, 1.7e308]) {
        let root = Dd::from(x).sqrt();
        let scaled = root.scale2(-exponent(root.hi));
        let expected = Dd::from(x).scale2(-exponent(root.hi)).scale2(-exponent(root.hi));
        assert!(relative(scaled * scaled, expected) < 1e-30, "{x}");
    }
}

#[test]
fn exponentials_of_logarithms_are_the_number() {
    for x in SAMPLES {
        let x = Dd::from(x) / Dd::from(3.0);
        // The logarithm is known to 2^-104 of itself, and that is a relative error of its exponential.
        let tolerance = 1e-30 * x.hi.ln().abs().max(1.0);
        assert!(relative(x.ln().exp(), x) < tolerance, "{x:?}");
    }
}

#[test]
fn exponentials_turn_sums_into_products() {
    for (a, b) in [(0.1, 0.2), (1.0, -2.5), (-30.0, 7.0), (1e-8, 3e-3)] {
        let (a, b) = (Dd::from(a), Dd::from(b));
        assert!(relative((a + b).exp(), a.exp() * b.exp()) < 1e-30);
    }
}

#[test]
fn known_constants_are_met() {
    // e and ln 10 to 40 digits, as two f64 each.
    let e = Dd { hi: std::f64::consts::E, lo: 1.445_646_891_729_250_2e-16 };
    let ln_10 = Dd { hi: std::f64::consts::LN_10, lo: -2.170_756_223_382_249_4e-16 };
    assert!(relative(Dd::ONE.exp(), e) < 1e-31);
    assert!(relative(Dd::from(10.0).ln(), ln_10) < 1e-31);
}

#[test]
fn small_arguments_keep_relative_accuracy() {
    for x in [1e-200, 1e-40, 1e-12, 1e-3] {
        let x = Dd::from(x);
        assert!(relative(x.exp_m1().ln_1p(), x) < 1e-29, "{x:?}");
    }
    let x = Dd::from(1e-20);
    assert!(relative(x.tanh(), x) < 1e-29);
}

#[test]
fn tanh_is_what_the_exponentials_say() {
    for x in [-3.0, -0.2, 0.01, 0.5, 12.0, 39.0] {
        let x = Dd::from(x);
        let (up, down) = (x.exp(), (-x).exp());
        assert!(relative(x.tanh(), (up - down) / (up + down)) < 1e-28);
    }
    assert_eq!(Dd::from(-1e9).tanh(), Dd::from(-1.0));
}

#[test]
fn powers_agree() {
    for x in [0.3, 1.9, 17.0] {
        let x = Dd::from(x);
        assert!(relative(x.powf(5.0), x.powi(5)) < 1e-29);
        assert!(relative(x.powi(2), x * x) < 1e-31);
        assert!(relative(x.powf(0.5), x.sqrt()) < 1e-30);
    }
}

#[test]
fn infinities_stay_clean() {
    let infinite = Dd::from(1e300) * Dd::from(1e300);
    assert_eq!(infinite, Dd::from(f64::INFINITY));
    assert_eq!((-infinite).exp(), Dd::ZERO);
    assert_eq!(Dd::ONE / infinite, Dd::ZERO);
    assert!(Dd::ONE < Dd::new(1.0, 1e-20));
}

#[test]
fn scaling_by_powers_of_two_is_exact_in_the_normal_range() {
    assert_eq!(scale2(3.0, 1500), f64::INFINITY);
    assert_eq!(scale2(5e-324, 1074), 1.0);
    assert_eq!(scale2(1.5, -1074), 1e-323);
    assert_eq!(scale2(scale2(0.7, -900), 900), 0.7);
    assert_eq!((exponent(5e-324), exponent(1.0), exponent(-9.0)), (-1074, 0, 3));
}
