//! Multiple precision numbers: as many binary digits as wanted, and an exponent of 64 bits.
//! They check the double-double numbers, with which they share nothing; they are slower by far.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::{Add, Div, Mul, Neg, Sub};

use dashu_float::round::mode::HalfEven;
use dashu_float::{Context, FBig, Repr};

use crate::real::Real;

type Float = FBig<HalfEven, 2>;

/// A number of `BITS` binary digits. Sums, products, quotients and roots are those of `dashu-float`, which rounds each
/// correctly. Exponentials and logarithms are computed from them with 64 digits more, by a Taylor series and by
/// Halley's method, and are right to a few units of the last of `BITS` digits; tests compare them with those of
/// `dashu-float`, which take ten times as long.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub struct Precise<const BITS: usize>(Float);

/// Exponentials stop at `2^50`: far outside the range of f64, far inside that of the exponent.
const EXP_LIMIT: f64 = 1125899906842624.0;

/// Halvings of the argument of an exponential before its series is summed.
const HALVINGS: u32 = 12;

thread_local! {
    /// The natural logarithm of 2 by its number of digits.
    static LN_2: RefCell<HashMap<usize, Float>> = RefCell::new(HashMap::new());
}

/// The natural logarithm of 2.
fn ln_2(bits: usize) -> Float {
    let compute = || Float::from_repr(Repr::new(2.into(), 0), Context::new(bits)).ln();
    LN_2.with_borrow_mut(|known| known.entry(bits).or_insert_with(compute).clone())
}

/// A whole number.
fn whole(number: i64, bits: usize) -> Float {
    Float::from_repr(Repr::new(number.into(), 0), Context::new(bits))
}

/// About `log2 |x|`.
fn log2_size(x: &Float) -> isize {
    x.repr().exponent() + x.repr().digits() as isize
}

/// `e^x = (1 + m) 2^k` as `(m, k)`, `|ln(1 + m)| <= 0.35`; `m` is right to a few units of its last digit.
fn reduced_exp(x: &Float, bits: usize) -> (Float, i64) {
    let k = (x.to_f64().value() / std::f64::consts::LN_2).round() as i64;
    // k has at most 51 digits.
    let r = if k == 0 { x.clone() } else { x.clone() - ln_2(bits + 64) * whole(k, bits + 64) };
    let r = r.with_precision(bits).value() >> HALVINGS as isize;
    // |r| < 2^-13 and 1/n! together: each term of the series adds 16 digits on average from the twelfth on.
    let mut sum = whole(0, bits);
    for n in (1..=bits as i64 / 16 + 1).rev() {
        sum = (sum + whole(1, bits)) * r.clone() / whole(n, bits);
    }
    for _ in 0..HALVINGS {
        sum = (sum.clone() << 1) + sum.clone() * sum;
    }
    (sum, k)
}

impl<const BITS: usize> Precise<BITS> {
    const CONTEXT: Context<HalfEven> = Context::new(BITS);
    /// Digits of intermediate results.
    const WORK: usize = BITS + 64;

    /// The number with room for more digits.
    fn work(&self) -> Float {
        self.0.clone().with_precision(Self::WORK).value()
    }

    fn rounded(number: Float) -> Self {
        Self(number.with_precision(BITS).value())
    }

    /// Which of this number and an f64 is larger; infinities are beyond all numbers.
    ///
    /// # Panics
    /// If `other` is NaN.
    pub fn compare(&self, other: f64) -> Ordering {
        assert!(!other.is_nan(), "NaN is not in the order of numbers");
        if other == f64::INFINITY {
            Ordering::Less
        } else if other == f64::NEG_INFINITY {
            Ordering::Greater
        } else {
            self.partial_cmp(&Self::from(other)).expect("numbers are ordered")
        }
    }

    /// The nearest f64; infinite or zero where that cannot hold it.
    pub fn to_f64(&self) -> f64 {
        self.0.to_f64().value()
    }

    /// The number if it is within `limit` of zero, else that bound with its sign.
    fn clamped(self, limit: f64) -> Self {
        let bound = Self::from(limit);
        if self > bound {
            bound
        } else if self < -bound.clone() {
            -bound
        } else {
            self
        }
    }

    /// Whether it is so small that a series ends after its first term.
    fn is_tiny(&self) -> bool {
        self.is_zero() || log2_size(&self.0) < -(BITS as isize)
    }

    /// Halley's method for `e^y = 1 + x` from a first guess: two steps take 53 digits to more than 400.
    fn solve_ln_1p(x: &Float, guess: f64) -> Float {
        let mut y = Self::from(guess).work();
        let steps = if BITS > 400 { 3 } else { 2 };
        for _ in 0..steps {
            let e = match reduced_exp(&y, Self::WORK) {
                (m, 0) => m,
                (m, k) => ((m + whole(1, Self::WORK)) << k as isize) - whole(1, Self::WORK),
            };
            let below = x.clone() + e.clone() + whole(2, Self::WORK);
            y += ((x.clone() - e) << 1) / below;
        }
        y
    }
}

impl<const BITS: usize> From<f64> for Precise<BITS> {
    /// # Panics
    /// If the number is not finite.
    fn from(x: f64) -> Self {
        let repr = Repr::<2>::try_from(x).expect("a number");
        assert!(x.is_finite(), "{x} is not a number of the reference");
        Self(Float::from_repr(repr, Self::CONTEXT))
    }
}

impl<const BITS: usize> Real for Precise<BITS> {
    fn is_zero(&self) -> bool {
        self.0.repr().significand().is_zero()
    }

    fn log2_size(&self) -> f64 {
        log2_size(&self.0) as f64
    }

    fn abs(self) -> Self {
        if self < Self::from(0.0) { -self } else { self }
    }

    fn sqrt(self) -> Self {
        let root = Self::CONTEXT.sqrt(self.0.repr()).expect("a number that is not negative");
        Self::rounded(root.value())
    }

    fn exp(self) -> Self {
        let x = self.clamped(EXP_LIMIT);
        if x.is_tiny() {
            return Self::from(1.0);
        }
        let (m, k) = reduced_exp(&x.work(), Self::WORK);
        Self::rounded((m + whole(1, Self::WORK)) << k as isize)
    }

    fn exp_m1(self) -> Self {
        if self.is_tiny() {
            return self;
        }
        if self.log2_size() < -1.0 {
            // |x| < 1/4: nothing is reduced.
            return Self::rounded(reduced_exp(&self.work(), Self::WORK).0);
        }
        self.exp() - Self::from(1.0)
    }

    fn ln(self) -> Self {
        assert!(self > Self::from(0.0), "the logarithm of a positive number");
        let k = log2_size(&self.0);
        let m = self.work() >> k;
        // Between 1/2 and 1, minus 1.
        let guess = m.to_f64().value().ln();
        let y = Self::solve_ln_1p(&(m - whole(1, Self::WORK)), guess);
        Self::rounded(y + ln_2(Self::WORK) * whole(k as i64, Self::WORK))
    }

    fn ln_1p(self) -> Self {
        if self.is_tiny() {
            return self;
        }
        let size = self.log2_size();
        if size >= -1.0 {
            return (self + Self::from(1.0)).ln();
        }
        let x = self.work();
        if size < -200.0 {
            // x - x²/2 + x³/3: what follows is 2^-600 times smaller.
            let square = x.clone() * x.clone();
            let cube = square.clone() * x.clone() / whole(3, Self::WORK);
            return Self::rounded(x - (square >> 1) + cube);
        }
        Self::rounded(Self::solve_ln_1p(&x, self.to_f64().ln_1p()))
    }

    fn tanh(self) -> Self {
        if self.is_tiny() {
            // tanh x = x (1 - x²/3 + …)
            return self;
        }
        // 1 - tanh x < 2 e^(-2x).
        let m = (self.clamped(BITS as f64) * Self::from(2.0)).exp_m1();
        m.clone() / (m + Self::from(2.0))
    }

    fn ln_2() -> Self {
        Self(ln_2(BITS))
    }
}

impl<const BITS: usize> Neg for Precise<BITS> {
    type Output = Self;

    fn neg(self) -> Self {
        Self(-self.0)
    }
}

impl<const BITS: usize> Add for Precise<BITS> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        if self.is_zero() || other.is_zero() {
            return if self.is_zero() { other } else { self };
        }
        // The library would align numbers however far apart; beyond 4 BITS the smaller one changes nothing.
        let apart = self.log2_size() - other.log2_size();
        if apart.abs() > 4.0 * BITS as f64 {
            return if apart > 0.0 { self } else { other };
        }
        Self(self.0 + other.0)
    }
}

impl<const BITS: usize> Sub for Precise<BITS> {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl<const BITS: usize> Mul for Precise<BITS> {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self(self.0 * other.0)
    }
}

impl<const BITS: usize> Div for Precise<BITS> {
    type Output = Self;

    /// # Panics
    /// If the divisor is zero.
    fn div(self, other: Self) -> Self {
        assert!(!other.is_zero(), "division by zero");
        Self(self.0 / other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_data::synthetic::normal;
    use rand::RngExt;

    type Number = Precise<256>;

    fn number(x: f64) -> Number {
        Number::from(x)
    }

    fn close(a: &Number, b: &Number) -> bool {
        (a.clone() - b.clone()).abs() <= b.clone().abs() * number(2f64.powi(-240))
    }

    #[test]
    fn functions_undo_each_other_at_any_scale() {
        for x in [5e-324, 3e-310, 1e-150, 0.3, 1.0, 7.0, 1e150, 1e308] {
            let x = number(x);
            assert!(close(&x.clone().sqrt().powi(2), &x));
            assert!(close(&(number(1.0) / x.clone() * x.clone()), &number(1.0)));
            let root = x.clone().powi(100).ln() / number(100.0);
            // Logarithms of up to 2^10 leave ten digits fewer.
            assert!(close(&root, &x.clone().ln()));
        }
        for x in [1e-300, 1e-20, 0.01, 1.0, 30.0] {
            let x = number(x);
            assert!(close(&x.clone().exp_m1().ln_1p(), &x));
            let half = (x.clone() / number(2.0)).exp_m1();
            // tanh(x / 2) = (e^x - 1) / (e^x + 1)
            let m = x.clone().exp_m1();
            assert!(close(&(x / number(2.0)).tanh(), &(m.clone() / (m + number(2.0)))));
            assert!(half > number(0.0));
        }
    }

    /// Our series against the library's functions, which are correctly rounded.
    #[test]
    fn functions_are_those_of_the_library() {
        let mut rng = crate::generate::rng(7);
        for round in 0..300 {
            let exponent = [-300.0, -60.0, -20.0, -2.0, 0.5][round % 5] * rng.random::<f64>();
            let x = number(normal(&mut rng) * 10f64.powf(exponent));
            let library =
                |of: &dyn Fn(&Float) -> Float| Precise::<256>(of(&x.0).with_precision(256).value());
            assert!(close(&x.clone().exp(), &library(&Float::exp)), "exp {x:?}");
            assert!(close(&x.clone().exp_m1(), &library(&Float::exp_m1)), "exp_m1 {x:?}");
            assert!(close(&x.clone().tanh(), &library(&Float::tanh)), "tanh {x:?}");
            let x = x.clone().abs();
            let library =
                |of: &dyn Fn(&Float) -> Float| Precise::<256>(of(&x.0).with_precision(256).value());
            assert!(close(&x.clone().ln_1p(), &library(&Float::ln_1p)), "ln_1p {x:?}");
            assert!(close(&x.clone().ln(), &library(&Float::ln)), "ln {x:?}");
        }
        let wide = |x: f64| Precise::<1024>::from(x);
        let off = wide(0.3).exp().ln() - wide(0.3);
        assert!(off.is_zero() || off.log2_size() < -1000.0, "{off:?}");
    }

    /// Digits of e, ln 2 and tanh 1 from tables: the library is not asked for them twice.
    #[test]
    fn constants_have_their_digits() {
        // Numbers written as 60 decimal digits, in pieces of 15.
        let written = |whole: f64, pieces: [f64; 4]| {
            let step = number(1e15);
            let pieces = pieces.iter().rev().map(|piece| number(*piece));
            pieces.fold(number(0.0), |rest, piece| (rest + piece) / step.clone()) + number(whole)
        };
        let near = |a: Number, b: Number| (a - b).abs() < number(1e-59);
        let e = [718281828459045.0, 235360287471352.0, 662497757247093.0, 699959574966967.0];
        assert!(near(number(1.0).exp(), written(2.0, e)));
        let ln_2 = [693147180559945.0, 309417232121458.0, 176568075500134.0, 360255254120680.0];
        assert!(near(Number::ln_2(), written(0.0, ln_2)));
        let tanh = [761594155955764.0, 888119458282604.0, 793590412768597.0, 257936551596810.0];
        assert!(near(number(1.0).tanh(), written(0.0, tanh)));
    }

    #[test]
    fn numbers_far_outside_f64_are_ordered() {
        let tiny = number(-1e300).exp();
        assert!(tiny > number(0.0) && tiny.compare(5e-324) == Ordering::Less);
        assert_eq!(tiny.to_f64(), 0.0);
        assert_eq!((number(1.0) + tiny).compare(1.0), Ordering::Equal);
        let huge = number(1e300).powi(100);
        assert_eq!(huge.compare(f64::MAX), Ordering::Greater);
        assert_eq!(huge.compare(f64::INFINITY), Ordering::Less);
        assert_eq!((-huge).compare(f64::NEG_INFINITY), Ordering::Greater);
        assert_eq!(number(5e-324).compare(5e-324), Ordering::Equal);
    }
}
