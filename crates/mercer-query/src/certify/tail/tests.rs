//! Tests of the bound of `projected`: every term of the header, numbers that are not finite, and subnormal ones.

use mercer_testkit::{Real, Wide};

use super::super::inject;
use super::*;

fn tail(profile: Profile, numbers: [f64; 5]) -> Tail {
    let [tail, drift, leak, reach_rest, weighted] = numbers;
    Tail {
        profile,
        values: vec![0.25],
        rest: 0.125,
        head: 1,
        terms: 9.0,
        head_terms: 4.0,
        absolute_norm: 1.5,
        weighted_head: weighted,
        weighted_rows: 1.5,
        weight: 1.0,
        tail,
        defect: 1e-9,
        drift,
        skew: 1e-9,
        leak,
        reach_rest,
        excess: 1e-8,
        reach: 1.5,
        longest: 2.0,
        corrections: 0.5,
        tiles: 1.0,
        columns: 5,
    }
}

fn range(profile: Profile, numbers: [f64; 17]) -> Option<Proved> {
    let [
        own_tail,
        drift,
        leak,
        reach_rest,
        weighted,
        squared_norm,
        used,
        slopes,
        peak,
        steepest,
        offset,
        value,
        size,
        squares,
        most,
        least,
        along,
    ] = numbers;
    let bound = tail(profile, [own_tail, drift, leak, reach_rest, weighted]);
    let known = bound.query(squared_norm, &[0.5, 0.25])?;
    let weights = TailWeights { used, original: 1.0, slopes, peak, steepest, offset };
    let (along, corrections) = ([along], [0.25]);
    let corrections = &corrections;
    let sums = TailSums { value, size, squares, most, least, along: &along, corrections };
    bound.range(&known, &weights, &sums)
}

const NAMES: [&str; 17] = [
    "tail",
    "drift",
    "leak",
    "rest of a support",
    "weighted head",
    "squared norm",
    "used",
    "slopes",
    "peak",
    "steepest",
    "offset",
    "value",
    "size",
    "squares",
    "most",
    "least",
    "along",
];
const ORDINARY: [f64; 17] = [
    1e-9, 1e-9, 1e-9, 0.125, 1.5, 3.0, 1.0, 1.0, 0.5, 1.0, 0.25, 0.75, 0.5, 0.25, 0.5, -0.25, 0.25,
];
const GAUSSIAN: Profile = Profile::Gaussian { gamma: 0.01 };
const POWER: Profile = Profile::Power { scale: 0.5, shift: 1.0, degree: 3 };

/// `E`, `τ` and `ê` of the header for the numbers of [`tail`].
fn errors(profile: Profile, numbers: [Wide; 5]) -> [Wide; 3] {
    let [tail, leak, reach_rest, weighted, squared_norm] = numbers;
    let (number, two, length) = (Wide::from, Wide::from(2.0), squared_norm.sqrt());
    let eta = inject::gamma(12.0, SINGLE) * number(1.5);
    let product = inject::gamma(5.0, SINGLE);
    let (head, spent) = (number(0.5), number(0.3125));
    let epsilon = eta * length;
    let (slip, centring) = (epsilon + product * head, number(3.0 * UNIT) * length);
    let clamp = if profile == GAUSSIAN {
        let beyond = number(1.0 + 1e-8) * (number(1.0 + 1e-9) + eta) * (Wide::ONE + product);
        number(0.5) * (beyond - Wide::ONE) * (squared_norm + number(4.0))
    } else {
        Wide::ZERO
    };
    let noise = weighted * slip + number(1.5) * centring + clamp;
    let rest = number(1.0 + 1e-9) * squared_norm - spent + two * spent.sqrt() * epsilon;
    let ahead = number(0.125) + number(0.5) * epsilon;
    let square = ahead * ahead + number(0.125) * inject::at_least_zero(rest) + tail * squared_norm;
    let away = inject::at_least_zero(squared_norm - head * head + two * head * epsilon);
    let each = reach_rest * away.sqrt()
        + number(1.01) * leak * length
        + number(1.5) * slip
        + two * centring
        + clamp;
    [inject::at_least_zero(square).sqrt() + noise, noise, each]
}

/// The relative error of a kernel value, and a bound on the sum of their sizes.
fn rounding(profile: Profile, squared_norm: Wide, used: Wide, size: Wide) -> [Wide; 2] {
    let (number, length, longest) = (Wide::from, squared_norm.sqrt(), Wide::from(2.0));
    match profile {
        Profile::Gaussian { gamma } => {
            let (gamma, reach) = (number(gamma), length + longest);
            let most = inject::least(gamma * reach * reach, number(88.0));
            let squares = number(2.2 * SINGLE) * (squared_norm + longest * longest);
            let delta = gamma * squares + number(3.2 * SINGLE) * most;
            let exponential = number(f64::from(mercer_simd::EXP32_RELATIVE_ERROR));
            [delta.exp() / (Wide::ONE - exponential) - Wide::ONE, size]
        }
        Profile::Power { scale, shift, degree } => {
            let inside = number(scale) * length * longest + number(shift);
            let error = inject::gamma(3.0 * f64::from(degree) + 8.0, UNIT);
            [error, used * inside.powi(degree)]
        }
        _ => unreachable!("the tests have two profiles"),
    }
}

/// The three orders of the header, with rounding.
fn truth(profile: Profile, numbers: &[Wide; 17]) -> [Wide; 2] {
    let [
        own_tail,
        drift,
        leak,
        reach_rest,
        weighted,
        squared_norm,
        used,
        _,
        _,
        _,
        offset,
        value,
        size,
        squares,
        most,
        least,
        along,
    ] = *numbers;
    if squared_norm < Wide::ZERO {
        return inject::around(Wide::ZERO, -Wide::ONE);
    }
    let (number, two, length) = (Wide::from, Wide::from(2.0), squared_norm.sqrt());
    let [spectral, noise, each] =
        errors(profile, [own_tail, leak, reach_rest, weighted, squared_norm]);
    let [of_value, size] = rounding(profile, squared_norm, used, size);
    let relative = of_value + inject::gamma(41.0, UNIT);
    let is_gaussian = profile == GAUSSIAN;
    let floor = if is_gaussian { number(5e-38) * used } else { Wide::ZERO };
    let rounding = relative * size + floor;
    let slope = inject::at_least_zero(squares).sqrt() * (Wide::ONE + relative);
    let missed = two * along.abs() * relative * slope;
    let left = slope * slope - along * along + missed + number(1e-9) * along * along;
    let first = inject::at_least_zero(left).sqrt() * spectral;
    let products = inject::gamma(12.0, SINGLE) * number(0.5) * length;
    let slack = along.abs() * (drift * length + number(1.0 + 1e-9) * noise + products);
    let growth = if is_gaussian { (number(0.02) * each).exp() } else { Wide::ONE };
    let energy = spectral * spectral * growth * (Wide::ONE + relative);
    let (mut raise, mut lower) = (most * energy, -least * energy);
    if !is_gaussian {
        raise = -inject::least(-raise, -lower);
        lower = raise;
    }
    let either = rounding + first + slack;
    let middle = value + along * number(0.25) - offset;
    [middle - either - lower, middle + either + raise]
}

#[test]
fn nothing_is_proved_from_numbers_that_are_not_finite() {
    for profile in [GAUSSIAN, POWER] {
        let found = |numbers| range(profile, numbers);
        inject::subnormals_keep_the_truth(ORDINARY, found, |numbers| truth(profile, numbers));
        inject::every_term_counts(ORDINARY, found, |numbers| truth(profile, numbers));
        assert!(range(profile, ORDINARY).is_some(), "{profile:?}");
        for (at, name) in NAMES.iter().enumerate() {
            // Powers take a bound in place of the size.
            if *name == "size" && profile == POWER {
                continue;
            }
            // The least of all terms is never above zero.
            let infinity = if *name == "least" { f64::NEG_INFINITY } else { f64::INFINITY };
            for poison in [f64::NAN, infinity] {
                let mut numbers = ORDINARY;
                numbers[at] = poison;
                assert_eq!(range(profile, numbers), None, "{profile:?}: {name} = {poison}");
            }
        }
    }
}

#[test]
fn slopes_that_underflow_or_overflow_never_vanish() {
    let with = |at: usize, number: f64| {
        let mut numbers = ORDINARY;
        (numbers[13], numbers[16]) = (0.0, 0.0);
        numbers[at] = number;
        range(POWER, numbers)
    };
    // |c/w|² that was computed as 0 may be anything below 1e-100.
    let width = |range: Option<Proved>| {
        let range = range.expect("an ordinary range").interval();
        range.high - range.low
    };
    assert!(width(with(13, 0.0)) > 0.0);
    assert_eq!((with(13, 1e201), with(9, 1e101)), (None, None));
    let large = Profile::Power { scale: 1e12, shift: 1.0, degree: 9 };
    assert_eq!(range(large, ORDINARY), None);
}
