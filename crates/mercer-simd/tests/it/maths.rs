//! Elementary functions: the same bits everywhere, and errors within the documented constants.

use crate::common::{Noise, bits};
use mercer_simd::{
    EXP_RELATIVE_ERROR, Isa, LN_RELATIVE_ERROR, TANH_RELATIVE_ERROR, Term, distance1, distances,
    exp, exp1, fold8, gaussian, gaussian1, ln, ln1, logistic, polynomial, polynomial1, powi1,
    scattered_sums, sqrt, tanh, tanh1, weighted_sums,
};

/// An unevaluated sum of two f64, good to about `2^-100`.
#[derive(Copy, Clone)]
struct DoubleDouble(f64, f64);

impl DoubleDouble {
    fn sum(a: f64, b: f64) -> Self {
        let s = a + b;
        let t = s - a;
        DoubleDouble(s, (a - (s - t)) + (b - t))
    }

    fn add(self, other: Self) -> Self {
        let s = DoubleDouble::sum(self.0, other.0);
        DoubleDouble::sum(s.0, s.1 + self.1 + other.1)
    }

    fn mul(self, other: Self) -> Self {
        let p = self.0 * other.0;
        let e = self.0.mul_add(other.0, -p);
        DoubleDouble::sum(p, e + self.0 * other.1 + self.1 * other.0)
    }

    fn recip_of(n: f64) -> Self {
        let q = 1.0 / n;
        DoubleDouble::sum(q, q.mul_add(-n, 1.0) / n)
    }

    fn scaled(self, factor: f64) -> Self {
        DoubleDouble(self.0 * factor, self.1 * factor)
    }
}

const LN2: DoubleDouble = DoubleDouble(std::f64::consts::LN_2, 2.319_046_813_846_299_6e-17);

/// `e^x` scaled by `2^-k`, and `k`: Taylor series of `x/256` reduced, squared eight times.
fn exp_double_double(x: DoubleDouble) -> (DoubleDouble, i32) {
    let k = (x.0 / LN2.0).round();
    let r = x.add(LN2.mul(DoubleDouble(-k, 0.0))).scaled(1.0 / 256.0);
    let mut sum = DoubleDouble(1.0, 0.0);
    for n in (1..=14).rev() {
        sum = sum.mul(r).mul(DoubleDouble::recip_of(f64::from(n))).add(DoubleDouble(1.0, 0.0));
    }
    for _ in 0..8 {
        sum = sum.mul(sum);
    }
    (sum, k as i32)
}

/// `|value / exact − 1|` for an exact `reference · 2^k`.
fn relative_error(value: f64, reference: DoubleDouble, k: i32) -> f64 {
    let scaled = value * 2.0_f64.powi(-(k / 2)) * 2.0_f64.powi(-(k - k / 2));
    ((scaled - reference.0) - reference.1).abs() / reference.0.abs()
}

fn arguments(low: f64, high: f64) -> Vec<f64> {
    let mut noise = Noise::new(11);
    (0..40_000).map(|_| noise.between(low, high)).collect()
}

#[test]
fn exp_is_within_its_error() {
    let mut worst: f64 = 0.0;
    let near_zero = arguments(-0.4, 0.4);
    for x in arguments(-708.0, 709.78).into_iter().chain(near_zero) {
        let (reference, k) = exp_double_double(DoubleDouble(x, 0.0));
        worst = worst.max(relative_error(exp1(x), reference, k));
    }
    println!("exp: {:.3} units of 2^-53", worst * 2.0_f64.powi(53));
    assert!(worst <= EXP_RELATIVE_ERROR);
}

#[test]
fn exp_at_its_ends() {
    let is = |x: f64, expected: f64| assert_eq!(exp1(x).to_bits(), expected.to_bits(), "{x}");
    is(0.0, 1.0);
    is(-0.0, 1.0);
    is(-708.000_000_1, 0.0);
    is(f64::NEG_INFINITY, 0.0);
    is(709.782_712_893_384_1, f64::INFINITY);
    is(f64::INFINITY, f64::INFINITY);
    is(f64::MAX, f64::INFINITY);
    is(f64::MIN, 0.0);
    assert!(exp1(709.782_712_893_383_9).is_finite());
    assert!(exp1(-708.0) >= f64::MIN_POSITIVE);
    assert!(exp1(f64::NAN).is_nan() && exp1(f64::from_bits(0x7ff0_0000_0000_0fff)).is_nan());
}

#[test]
fn ln_is_within_its_error() {
    let mut noise = Noise::new(5);
    let mut worst: f64 = 0.0;
    for _ in 0..40_000 {
        let near = noise.between(0.5, 2.0);
        let far = f64::from_bits(noise.bits() % f64::MAX.to_bits());
        for x in [near, far, 1.0 + noise.between(-1e-3, 1e-3)] {
            // One Newton step from the computed value: y + (x e^-y − 1) − (…)²/2 + …
            let y = ln1(x);
            let (power, k) = exp_double_double(DoubleDouble(-y, 0.0));
            let scaled = x * 2.0_f64.powi(k / 2) * 2.0_f64.powi(k - k / 2);
            let rest = power.mul(DoubleDouble(scaled, 0.0)).add(DoubleDouble(-1.0, 0.0));
            let error = rest.0 - 0.5 * rest.0 * rest.0;
            if y != 0.0 {
                worst = worst.max((error / y).abs());
            }
        }
    }
    println!("ln: {:.3} units of 2^-53", worst * 2.0_f64.powi(53));
    assert!(worst <= LN_RELATIVE_ERROR);
}

#[test]
fn ln_at_its_ends() {
    let is = |x: f64, expected: f64| assert_eq!(ln1(x).to_bits(), expected.to_bits(), "{x}");
    is(1.0, 0.0);
    is(0.0, f64::NEG_INFINITY);
    is(-0.0, f64::NEG_INFINITY);
    is(f64::INFINITY, f64::INFINITY);
    assert!(ln1(-1.0).is_nan() && ln1(f64::NAN).is_nan());
    let least = f64::from_bits(1);
    assert!((ln1(least) - -744.440_071_921_381_2).abs() <= 745.0 * LN_RELATIVE_ERROR);
}

#[test]
fn tanh_is_within_its_error() {
    let mut noise = Noise::new(6);
    let mut worst: f64 = 0.0;
    for _ in 0..40_000 {
        let tiny = 2.0_f64.powf(noise.between(-60.0, 0.0));
        for x in [noise.between(-22.0, 22.0), noise.between(-1.0, 1.0), tiny, -tiny] {
            let a = DoubleDouble(x.abs(), 0.0);
            // Below 0.1 by the series x − x³/3 + …, above by (1 − e) / (1 + e), e = e^-2|x|.
            let reference = if x.abs() < 0.1 {
                tanh_series(a)
            } else {
                let (e, k) = exp_double_double(a.scaled(-2.0));
                let e = e.scaled(2.0_f64.powi(k));
                let one = DoubleDouble(1.0, 0.0);
                divide(one.add(e.scaled(-1.0)), one.add(e))
            };
            let value = tanh1(x);
            assert_eq!(value.is_sign_negative(), x.is_sign_negative());
            worst = worst.max(relative_error(value.abs(), reference, 0));
        }
    }
    println!("tanh: {:.3} units of 2^-53", worst * 2.0_f64.powi(53));
    assert!(worst <= TANH_RELATIVE_ERROR);
    assert_eq!(tanh1(-0.0).to_bits(), (-0.0_f64).to_bits());
    assert_eq!(tanh1(f64::INFINITY).to_bits(), 1.0_f64.to_bits());
    assert!(tanh1(f64::NAN).is_nan());
}

fn divide(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble {
    let q = a.0 / b.0;
    let rest = a.add(b.mul(DoubleDouble(-q, 0.0)));
    DoubleDouble::sum(q, rest.0 / b.0)
}

/// `tanh x = sinh x / cosh x` by their Taylor series.
fn tanh_series(x: DoubleDouble) -> DoubleDouble {
    let square = x.mul(x);
    let (mut sinh, mut cosh) = (DoubleDouble(1.0, 0.0), DoubleDouble(1.0, 0.0));
    for n in (1..=8).rev() {
        let n = f64::from(n);
        let one = DoubleDouble(1.0, 0.0);
        sinh = sinh.mul(square).mul(DoubleDouble::recip_of(2.0 * n * (2.0 * n + 1.0))).add(one);
        cosh = cosh.mul(square).mul(DoubleDouble::recip_of(2.0 * n * (2.0 * n - 1.0))).add(one);
    }
    divide(sinh.mul(x), cosh)
}

/// Ordinary and odd numbers in slices of many lengths.
fn slices() -> impl Iterator<Item = Vec<f64>> {
    let specials =
        [0.0, -0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, 5e-324, -708.5, 710.0, f64::MAX];
    (0..70).map(move |length| {
        let mut noise = Noise::new(1000 + length);
        let mut values: Vec<f64> = (0..length)
            .map(|_| if noise.below(2) == 0 { noise.wild() } else { noise.between(-800.0, 800.0) })
            .collect();
        for (at, special) in specials.into_iter().enumerate() {
            if let Some(place) = values.get_mut(at * 7) {
                *place = special;
            }
        }
        values
    })
}

/// NaN has many bit patterns; all count as one.
fn same(left: &[f64], right: &[f64]) {
    let canonical = |x: &f64| if x.is_nan() { f64::NAN } else { *x };
    let (left, right): (Vec<f64>, Vec<f64>) =
        (left.iter().map(canonical).collect(), right.iter().map(canonical).collect());
    assert_eq!(bits(&left), bits(&right), "{left:?} {right:?}");
}

#[test]
fn slices_have_the_bits_of_single_numbers() {
    type Pair = (fn(Isa, &mut [f64]), fn(f64) -> f64);
    let functions: [Pair; 4] = [(exp, exp1), (ln, ln1), (tanh, tanh1), (sqrt, f64::sqrt)];
    for values in slices() {
        for (over_slice, single) in functions {
            let expected: Vec<f64> = values.iter().map(|&x| single(x)).collect();
            for &isa in Isa::available() {
                let mut out = values.clone();
                over_slice(isa, &mut out);
                same(&out, &expected);
            }
        }
        for degree in [0, 1, 2, 3, 4, 7, 9, 30] {
            let expected: Vec<f64> =
                values.iter().map(|&x| polynomial1(x, 0.3, -0.7, degree)).collect();
            for &isa in Isa::available() {
                let mut out = values.clone();
                polynomial(isa, &mut out, 0.3, -0.7, degree);
                same(&out, &expected);
            }
        }
    }
}

#[test]
fn epilogues_have_the_bits_of_single_numbers() {
    for values in slices() {
        let norms: Vec<f64> = values.iter().rev().map(|x| x.abs().min(1e200)).collect();
        let pairs = || values.iter().zip(&norms);
        let squared: Vec<f64> = pairs().map(|(&s, &n)| distance1(s, 0.7, n)).collect();
        let kernels: Vec<f64> = pairs().map(|(&s, &n)| gaussian1(s, 0.7, n, 0.3)).collect();
        assert!(squared.iter().all(|d| d.is_nan() || d.to_bits() >> 63 == 0));
        for &isa in Isa::available() {
            let mut out = values.clone();
            distances(isa, &mut out, 0.7, &norms);
            same(&out, &squared);
            let mut out = values.clone();
            gaussian(isa, &mut out, 0.7, &norms, 0.3);
            same(&out, &kernels);
        }
    }
}

#[test]
fn a_distance_that_overflows_stays_not_a_number() {
    assert!(gaussian1(f64::INFINITY, f64::INFINITY, f64::INFINITY, 1.0).is_nan());
    assert_eq!(gaussian1(1.0, 1.0, 1.0, 5.0).to_bits(), 1.0_f64.to_bits());
}

#[test]
fn powers_are_products() {
    assert_eq!(powi1(3.0, 0).to_bits(), 1.0_f64.to_bits());
    assert_eq!(powi1(-3.0, 5).to_bits(), (-243.0_f64).to_bits());
    assert_eq!(powi1(2.0, 1023).to_bits(), 2.0_f64.powi(1023).to_bits());
}

#[test]
fn weighted_sums_are_eight_chains_however_the_values_are_cut() {
    let mut noise = Noise::new(21);
    for (length, scores) in [(0, 1), (1, 1), (7, 2), (8, 3), (9, 4), (63, 5), (200, 9)] {
        let values = noise.wilds(length);
        let rows: Vec<Vec<f64>> = (0..scores).map(|_| noise.wilds(length)).collect();
        let coefficients: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let mut expected = vec![[0.0_f64; 8]; scores];
        for (partial, row) in expected.iter_mut().zip(&rows) {
            for i in 0..length {
                partial[i % 8] = values[i].mul_add(row[i], partial[i % 8]);
            }
        }
        for &isa in Isa::available() {
            for cut in [8, 24, 512] {
                let mut partials = vec![[0.0; 8]; scores];
                for (at, piece) in values.chunks(cut).enumerate() {
                    weighted_sums(isa, piece, at * cut, &coefficients, &mut partials);
                }
                for (partial, expected) in partials.iter().zip(&expected) {
                    assert_eq!(bits(partial), bits(expected), "{isa} {length} {scores}");
                }
            }
            // The last score first, rows with a gap between them.
            let stride = length + 3;
            let apart: Vec<f64> =
                rows.iter().rev().flat_map(|row| [&row[..], &[f64::NAN; 3]].concat()).collect();
            let order: Vec<u32> = (0..scores as u32).rev().collect();
            let mut partials = vec![[0.0; 8]; scores];
            scattered_sums(isa, &values, &apart, stride, &order, &mut partials);
            for (partial, expected) in partials.iter().zip(&expected) {
                assert_eq!(bits(partial), bits(expected), "{isa} {length} {scores}, scattered");
            }
        }
    }
    let powers = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
    assert_eq!(fold8(&powers).to_bits(), 255.0_f64.to_bits());
}

const TERMS: [Term; 12] = [
    Term::Min,
    Term::Chi2,
    Term::Hellinger,
    Term::AbsDifference,
    Term::JensenShannon,
    Term::PowerMean(-1.0),
    Term::PowerMean(0.0),
    Term::PowerMean(-0.5),
    Term::PowerMean(-7.0),
    Term::PowerMean(2.0),
    Term::PowerMean(f64::NEG_INFINITY),
    Term::PowerMean(f64::INFINITY),
];

#[test]
fn terms_over_columns_and_panels_have_the_bits_of_single_pairs() {
    let mut noise = Noise::new(31);
    for (rows, columns) in [(1, 1), (7, 5), (48, 3), (61, 20), (110, 9)] {
        let mut wild = |count| noise.wilds(count).iter().map(|x| x.abs()).collect::<Vec<f64>>();
        let supports: Vec<Vec<f64>> = (0..rows).map(|_| wild(columns)).collect();
        let x = wild(columns);
        let panels = mercer_simd::Panels64::pack(rows, columns, |row, buffer| {
            buffer.copy_from_slice(&supports[row]);
        });
        for term in TERMS {
            let mut expected = vec![0.0; rows];
            for (sum, z) in expected.iter_mut().zip(&supports) {
                x.iter().zip(z).for_each(|(&x, &z)| *sum += term.at(x, z));
            }
            let all = 0..panels.panels();
            let lanes = panels.lanes(all.clone()).len();
            for &isa in Isa::available() {
                let mut out = vec![0.0; lanes];
                panels.accumulate(isa, term, &x, all.clone(), &mut out);
                assert_eq!(bits(&out[..rows]), bits(&expected), "{term:?} {isa}");
                if term.vanishes_at_zero() {
                    let (stored, values) = crate::common::sparse(&x);
                    out.fill(0.0);
                    panels.accumulate_sparse(isa, term, &stored, &values, all.clone(), &mut out);
                    assert_eq!(bits(&out[..rows]), bits(&expected), "{term:?} {isa}");
                }
                let mut column_sums = vec![0.0; rows];
                for (c, &value) in x.iter().enumerate() {
                    let column: Vec<f64> = supports.iter().map(|z| z[c]).collect();
                    term.add(isa, value, &column, &mut column_sums);
                }
                assert_eq!(bits(&column_sums), bits(&expected), "{term:?} {isa}");
            }
        }
    }
}

#[test]
fn terms_are_symmetric_and_agree_with_their_formulas() {
    let mut noise = Noise::new(41);
    for _ in 0..2000 {
        let (x, y) = (noise.unit() * 3.0, noise.unit() * 2.0f64.powf(noise.between(-30.0, 1.0)));
        for term in TERMS {
            assert_eq!(term.at(x, y).to_bits(), term.at(y, x).to_bits(), "{term:?}");
            assert_eq!(term.at(x, 0.0) == 0.0, term.vanishes_at_zero(), "{term:?}");
        }
        let s = x + y;
        let naive_js = x / 2.0 * (s / x).log2() + y / 2.0 * (s / y).log2();
        // The naive formula loses about x u in the first logarithm; ours does not.
        assert!((Term::JensenShannon.at(x, y) - naive_js).abs() <= 8.0 * f64::EPSILON * s);
        for p in [-3.0, -0.5, 2.0, 0.25] {
            let naive = f64::midpoint(x.powf(p), y.powf(p)).powf(1.0 / p);
            let computed = Term::PowerMean(p).at(x, y);
            // Naive powers lose about |ln| u each, magnified by 1/|p|; ln is below 25 here.
            assert!((computed / naive - 1.0).abs() <= 200.0 * f64::EPSILON, "{p} {x} {y}");
        }
    }
    assert_eq!(Term::JensenShannon.at(1.0, 1.0).to_bits(), 1.0_f64.to_bits());
}

#[test]
fn the_logistic_loss_is_near_its_definition_and_the_same_everywhere() {
    let mut margins = arguments(-40.0, 40.0);
    margins.extend(arguments(-1e-3, 1e-3));
    margins.extend([0.0, -0.0, 700.0, -700.0, 1e9, -1e9, f64::MAX, f64::MIN]);
    let (mut costs, mut wrongs) = (vec![0.0; margins.len()], vec![0.0; margins.len()]);
    logistic(Isa::SCALAR, &margins, &mut costs, &mut wrongs);
    for (m, (cost, wrong)) in margins.iter().zip(costs.iter().zip(&wrongs)) {
        let (size, small) = (m.abs(), (-m.abs()).exp());
        let defined = small.ln_1p() + if *m < 0.0 { size } else { 0.0 };
        assert!((cost - defined).abs() <= 8.0 * f64::EPSILON * defined, "{m}: {cost} {defined}");
        let defined = if *m > 0.0 { small } else { 1.0 } / (1.0 + small);
        assert!((wrong - defined).abs() <= 8.0 * f64::EPSILON * defined, "{m}: {wrong} {defined}");
    }
    for isa in Isa::available() {
        let (mut cost, mut wrong) = (vec![0.0; margins.len()], vec![0.0; margins.len()]);
        logistic(*isa, &margins, &mut cost, &mut wrong);
        assert_eq!((bits(&cost), bits(&wrong)), (bits(&costs), bits(&wrongs)), "{isa}");
    }
}
