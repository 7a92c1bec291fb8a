//! Additive kernels: a sum over columns of a function of two non-negative numbers.

use std::ops::Range;

use crate::isa::Isa;
use crate::maths::{exp1, expm1_negative, ln_1p, ln1};
use crate::panels::Panels64;
use crate::vector::{SimdBackend, Task};

/// What one column adds to an additive kernel; arguments are finite and not negative.
///
/// Each is symmetric in its arguments, bit for bit.
#[derive(Copy, Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Term {
    /// `min(x, y)`: histogram intersection.
    Min,
    /// `2xy / (x + y)`, 0 if both are 0.
    Chi2,
    /// `√(xy)`.
    Hellinger,
    /// `|x − y|`, for Laplacian kernels; any finite arguments.
    AbsDifference,
    /// `x/2 log₂((x + y)/x) + y/2 log₂((x + y)/y)`, 0 if either is 0.
    JensenShannon,
    /// `((x^p + y^p) / 2)^(1/p)` for any `p` but NaN; if `p ≤ 0` it is 0 where either is 0, and it
    /// is `√(xy)` at `p = 0` (and where `|p|` is below [`LEAST_POWER`]), the lesser number at −∞ and the greater
    /// one at +∞.
    PowerMean(f64),
}

/// Power means with an exponent below it are geometric means: with `a = |ln(x/y)| < 1455` their logarithms
/// differ by at most `|p| a²/8 < 3e-20`, and the exponents `p ln(x/y)` would underflow.
pub const LEAST_POWER: f64 = 1e-25;

impl Term {
    /// The term of one pair of numbers, with the same bits as over panels.
    pub fn at(self, x: f64, y: f64) -> f64 {
        struct At(f64, f64);
        impl Visit for At {
            type Output = f64;
            #[inline(always)]
            fn visit<P: TermFunction>(self, function: P) -> f64 {
                function.at(self.0, self.1)
            }
        }
        self.choose(At(x, y))
    }

    /// Whether a zero on one side makes the term zero, so that zero columns may be skipped.
    pub fn vanishes_at_zero(self) -> bool {
        match self {
            Term::AbsDifference => false,
            Term::PowerMean(p) => p <= 0.0,
            _ => true,
        }
    }

    /// `acc[l] += term(x, column[l])`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add(self, isa: Isa, x: f64, column: &[f64], acc: &mut [f64]) {
        assert_eq!(column.len(), acc.len(), "one sum per lane");
        self.choose(AddColumn { isa, x, column, acc });
    }

    /// Calls the visitor with the function that this term names.
    fn choose<V: Visit>(self, visitor: V) -> V::Output {
        match self {
            Term::Min | Term::PowerMean(f64::NEG_INFINITY) => visitor.visit(Min),
            Term::Chi2 | Term::PowerMean(-1.0) => visitor.visit(Chi2),
            Term::Hellinger => visitor.visit(Hellinger),
            Term::PowerMean(p) if p.abs() < LEAST_POWER => visitor.visit(Hellinger),
            Term::AbsDifference => visitor.visit(AbsDifference),
            Term::JensenShannon => visitor.visit(JensenShannon),
            Term::PowerMean(f64::INFINITY) => visitor.visit(Max),
            Term::PowerMean(p) => visitor.visit(PowerMean(p)),
        }
    }
}

/// Something to do with the function of a term.
trait Visit {
    type Output;
    fn visit<P: TermFunction>(self, function: P) -> Self::Output;
}

/// The function of a term.
trait TermFunction: Copy {
    fn at(self, x: f64, y: f64) -> f64;
}

#[inline(always)]
fn order(x: f64, y: f64) -> (f64, f64) {
    if x < y { (x, y) } else { (y, x) }
}

macro_rules! function {
    ($name:ident, |$x:ident, $y:ident| $body:expr) => {
        #[derive(Copy, Clone)]
        struct $name;

        impl TermFunction for $name {
            #[inline(always)]
            fn at(self, $x: f64, $y: f64) -> f64 {
                $body
            }
        }
    };
}

function!(Min, |x, y| order(x, y).0);
function!(Max, |x, y| order(x, y).1);
// Two roots: the product of two tiny numbers would vanish.
function!(Hellinger, |x, y| x.sqrt() * y.sqrt());
function!(AbsDifference, |x, y| (x - y).abs());
// The quotient lies between 1/2 and 1, so nothing vanishes that should not; halves are added where the sum overflows.
function!(Chi2, |x, y| {
    let (low, high) = order(x, y);
    let (whole, half) = (low + high, 0.5 * low + 0.5 * high);
    let (twice, sum) = if whole < f64::INFINITY { (2.0 * low, whole) } else { (low, half) };
    let mean = twice * (high / sum);
    if low > 0.0 { mean } else { 0.0 }
});
// With t = low / high: ((low + high) ln(1 + t) − low ln t) / (2 ln 2), where nothing cancels.
function!(JensenShannon, |x, y| {
    let (low, high) = order(x, y);
    let ratio = low / high;
    let nats = (low + high).mul_add(ln_1p(ratio), -low * ln1(ratio));
    let bits = nats * (0.5 * std::f64::consts::LOG2_E);
    if ratio > 0.0 { bits } else { 0.0 }
});

#[derive(Copy, Clone)]
struct PowerMean(f64);

/// `2^512`.
const TWO_TO_512: f64 = f64::from_bits((1023 + 512) << 52);
/// `ln(2^1024)`.
const LN_TWO_TO_1024: f64 = 1024.0 * std::f64::consts::LN_2;

impl TermFunction for PowerMean {
    /// With the dominant number `d` (the lesser one if `p < 0`) and `t = low / high`:
    /// `d exp(ln(1 + (t^|p| − 1)/2) / p)`, where nothing cancels.
    #[inline(always)]
    fn at(self, x: f64, y: f64) -> f64 {
        let (low, high) = order(x, y);
        let dominant = if self.0 < 0.0 { low } else { high };
        // A quotient below the normal range is taken 2^1024 times larger.
        let is_tiny = low / high < f64::MIN_POSITIVE;
        let (scale, shift) = if is_tiny { (TWO_TO_512, LN_TWO_TO_1024) } else { (1.0, 0.0) };
        let exponent = self.0.abs() * (ln1((low * scale) / (high / scale)) - shift);
        let exponent = if exponent < -700.0 { -700.0 } else { exponent };
        let mean = ln_1p(0.5 * expm1_negative(exponent)) / self.0;
        if dominant == 0.0 { 0.0 } else { dominant * exp1(mean) }
    }
}

struct AddColumn<'a> {
    isa: Isa,
    x: f64,
    column: &'a [f64],
    acc: &'a mut [f64],
}

impl Visit for AddColumn<'_> {
    type Output = ();

    fn visit<P: TermFunction>(self, function: P) {
        self.isa.run(AddColumnWith { function, x: self.x, column: self.column, acc: self.acc });
    }
}

struct AddColumnWith<'a, P> {
    function: P,
    x: f64,
    column: &'a [f64],
    acc: &'a mut [f64],
}

impl<P: TermFunction> Task for AddColumnWith<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(self) {
        for (sum, &y) in self.acc.iter_mut().zip(self.column) {
            *sum += self.function.at(self.x, y);
        }
    }
}

/// Where the values of one query come from.
#[derive(Copy, Clone)]
enum QueryRow<'a> {
    Dense(&'a [f64], Zeros),
    Sparse(&'a [u32], &'a [f64]),
}

#[derive(Copy, Clone, PartialEq)]
enum Zeros {
    Skip,
    Keep,
}

struct AccumulateTerms<'a> {
    isa: Isa,
    panels: &'a Panels64,
    row: QueryRow<'a>,
    range: Range<usize>,
    out: &'a mut [f64],
}

impl Visit for AccumulateTerms<'_> {
    type Output = ();

    fn visit<P: TermFunction>(self, function: P) {
        self.isa.run(AccumulateWith { function, what: self });
    }
}

struct AccumulateWith<'a, P> {
    function: P,
    what: AccumulateTerms<'a>,
}

impl<P: TermFunction> AccumulateWith<'_, P> {
    /// Walks the columns of `W` lanes of a panel, sums held in an array.
    #[inline(always)]
    fn strip<const W: usize>(&self, panel: &[f64], width: usize, lane: usize, out: &mut [f64]) {
        let out: &mut [f64; W] = out.try_into().expect("a strip has W lanes");
        let mut sums = *out;
        match self.what.row {
            QueryRow::Dense(values, zeros) => {
                for (lanes, &x) in panel.chunks_exact(width).zip(values) {
                    if zeros == Zeros::Keep || x != 0.0 {
                        self.column(x, &lanes[lane..][..W], &mut sums);
                    }
                }
            }
            QueryRow::Sparse(columns, values) => {
                for (&column, &x) in columns.iter().zip(values) {
                    let lanes = &panel[column as usize * width + lane..][..W];
                    self.column(x, lanes, &mut sums);
                }
            }
        }
        *out = sums;
    }

    #[inline(always)]
    fn column<const W: usize>(&self, x: f64, lanes: &[f64], sums: &mut [f64; W]) {
        for (sum, &y) in sums.iter_mut().zip(lanes) {
            *sum += self.function.at(x, y);
        }
    }
}

impl<P: TermFunction> Task for AccumulateWith<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<B: SimdBackend>(mut self) {
        let out = std::mem::take(&mut self.what.out);
        for (panel, out) in self.what.range.clone().zip(out.chunks_mut(Panels64::WIDTH)) {
            let values = self.what.panels.panel(panel);
            let width = self.what.panels.width(panel);
            if width == Panels64::WIDTH {
                self.strip::<48>(values, width, 0, out);
            } else {
                for (line, out) in out.chunks_exact_mut(8).enumerate() {
                    self.strip::<8>(values, width, 8 * line, out);
                }
            }
        }
    }
}

impl Panels64 {
    /// Adds to `out[lane − first lane]` the terms of query `x` with each row, in column order.
    ///
    /// Padding lanes are zero rows and get their terms too.
    ///
    /// # Panics
    /// If `x` has not one value per column, the panels do not exist, or `out` has not one place
    /// per lane of the panels.
    pub fn accumulate(
        &self,
        isa: Isa,
        term: Term,
        x: &[f64],
        panels: Range<usize>,
        out: &mut [f64],
    ) {
        assert_eq!(x.len(), self.columns(), "one value per column");
        assert_eq!(out.len(), self.lanes(panels.clone()).len(), "one element per lane");
        let zeros = if term.vanishes_at_zero() { Zeros::Skip } else { Zeros::Keep };
        let row = QueryRow::Dense(x, zeros);
        term.choose(AccumulateTerms { isa, panels: self, row, range: panels, out });
    }

    /// [`Panels64::accumulate`] for a sparse query, with the same bits.
    ///
    /// # Panics
    /// As there, and if the term does not vanish at zero, or a column does not exist.
    pub fn accumulate_sparse(
        &self,
        isa: Isa,
        term: Term,
        columns: &[u32],
        values: &[f64],
        panels: Range<usize>,
        out: &mut [f64],
    ) {
        assert!(term.vanishes_at_zero(), "{term:?} needs the zero columns too");
        assert_eq!(columns.len(), values.len(), "one value per column");
        assert!(columns.iter().all(|&c| (c as usize) < self.columns()), "no such column");
        assert_eq!(out.len(), self.lanes(panels.clone()).len(), "one element per lane");
        let row = QueryRow::Sparse(columns, values);
        term.choose(AccumulateTerms { isa, panels: self, row, range: panels, out });
    }
}
