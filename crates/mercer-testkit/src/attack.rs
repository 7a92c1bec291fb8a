//! Machines and queries of every scale that a file can hold, made to break certificates, with their true scores.
//! A seed and a number determine a machine; what answers it is given by the caller (`check.rs` judges).

mod attributions;
mod check;
mod kernels;
mod queries;
mod sets;
mod truth;

use mercer_data::Matrix;
use mercer_data::synthetic::normal;
use mercer_kernel::{Domain, KERNELS, KernelRef};
use mercer_machine::{Bins, ClassName, Machine, Output, Scheme, Score, Spacing};
use mercer_spec::Spec;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;

use crate::real::Real;
use crate::{Wide, generate, reference};

pub use attributions::ATTRIBUTIONS;
pub use check::{AttackCounts, StageCount, Violation};
pub use sets::SETS;
pub use truth::{REFERENCE_BITS, TrueScore};

/// How large rows, parameters and coefficients of a machine are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// All within a few powers of ten of one.
    Ordinary,
    /// Two clouds of more rows and columns, as training leaves them.
    Trained,
    /// `1e-30` to `1e30`.
    WideRange,
    /// Rows of `1e-300` to `1e-30`.
    SmallRows,
    /// Rows of `1e30` to `1e300`.
    LargeRows,
    /// Each value of a row of its own size, `1e-300` to `1e300`.
    MixedRows,
    /// Rows of subnormal numbers.
    Subnormal,
    /// Scores of `1e-323` to `1e-200`.
    SmallScores,
    /// Scores of `1e200` to `1e307`.
    LargeScores,
    /// Rows of `1e-150` to `1e150`, and parameters that undo their size.
    Undone,
    /// Powers up to 100 whose values lie near `1e-308` or `1e308`.
    HighPowers,
}

impl Scale {
    /// Every scale.
    pub const ALL: [Self; 11] = [
        Self::Ordinary,
        Self::Trained,
        Self::WideRange,
        Self::SmallRows,
        Self::LargeRows,
        Self::MixedRows,
        Self::Subnormal,
        Self::SmallScores,
        Self::LargeScores,
        Self::Undone,
        Self::HighPowers,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::Trained => "trained",
            Self::WideRange => "wide",
            Self::SmallRows => "small rows",
            Self::LargeRows => "large rows",
            Self::MixedRows => "mixed rows",
            Self::Subnormal => "subnormal",
            Self::SmallScores => "small scores",
            Self::LargeScores => "large scores",
            Self::Undone => "undone",
            Self::HighPowers => "high powers",
        }
    }

    /// Whether all numbers lie within a few powers of ten of one.
    fn is_ordinary(self) -> bool {
        matches!(self, Self::Ordinary | Self::Trained)
    }
}

/// Machines whose kernels have a logarithm in every column get fewer rounds by this factor: their references are slow.
const SLOW_ROUNDS: usize = 16;

/// A machine and queries to it.
#[derive(Debug)]
pub struct AttackCase {
    /// Of the whole run.
    pub seed: u64,
    /// Of the machine within the run.
    pub number: u64,
    /// How large its numbers are.
    pub scale: Scale,
    /// The machine.
    pub machine: Machine,
    /// The queries.
    pub queries: Matrix,
    /// Queries of the first round.
    first_round: usize,
    /// The kernel's text and the supports as vectors, for references.
    spec: Spec,
    supports: Vec<Vec<f64>>,
    /// Of seed and number.
    mixed_seed: u64,
}

/// What is drawn before the rows.
struct Draw {
    rng: Xoshiro256PlusPlus,
    scale: Scale,
    columns: usize,
    /// Decimal exponent of the values of rows.
    row: f64,
    /// Degree of polynomials.
    degree: u32,
    /// Whether values are multiples of 1/16, for products of integers.
    is_on_grid: bool,
}

impl AttackCase {
    /// The machine of that number: kernels follow one another, and so do scales. Each of the `rounds` draws queries of
    /// every kind; more rounds leave the machine and the queries of the first ones as they are.
    ///
    /// # Panics
    /// If a kernel of the registry is not known here.
    pub fn new(seed: u64, number: u64, rounds: usize) -> Self {
        let kernels = KERNELS.entries.len() as u64;
        let name = KERNELS.entries[(number % kernels) as usize].name;
        let scale = Scale::ALL[(number / kernels % Scale::ALL.len() as u64) as usize];
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number);
        let mut draw = Draw::new(generate::rng(mixed), scale);
        let machine = draw.machine(name);
        let spec = machine.kernel().spec();
        let rows = 0..machine.supports().rows();
        let supports = rows.map(|at| generate::row(machine.supports(), at)).collect();
        let rounds = if kernels::is_slow(&spec) { rounds.div_ceil(SLOW_ROUNDS) } else { rounds };
        let (queries, first_round) = queries::draw(&mut draw, &machine, rounds);
        let mixed_seed = mixed;
        Self { seed, number, scale, machine, queries, first_round, spec, supports, mixed_seed }
    }

    /// One of the [plans](Self::plans), drawn.
    pub fn plan(&self, stage: &str) -> Spec {
        let mut plans = self.plans(stage);
        let chosen = self.plan_rng(stage, 1).random_range(0..plans.len());
        plans.swap_remove(chosen)
    }

    /// Does not depend on how many queries were drawn, nor on other stages.
    fn plan_rng(&self, stage: &str, part: u64) -> Xoshiro256PlusPlus {
        let name = stage.bytes().fold(part, |sum, byte| sum.wrapping_mul(257) + u64::from(byte));
        generate::rng(self.mixed_seed ^ name.wrapping_mul(0x5851_f42d_4c95_7f2d))
    }

    /// Plans to attack: the stage with its defaults, and with arguments that change what it proves.
    pub fn plans(&self, stage: &str) -> Vec<Spec> {
        let mut rng = self.plan_rng(stage, 0);
        let columns = self.machine.columns().max(1);
        let variants: Vec<String> = match stage {
            "anytime" => {
                let variants = [
                    "",
                    "(stop=never)",
                    "(stop=never, chunk=1)",
                    "(stop=never, clusters=2, chunk=2)",
                    "(stop=never, depth=2, chunk=2)",
                    "(stop=never, order=moved_mean_lh)",
                ];
                variants.map(str::to_owned).to_vec()
            }
            "compressed" => ["", "(1)", "(2)", "(3)"].map(str::to_owned).to_vec(),
            "projected" => {
                let dimensions = rng.random_range(1..=columns);
                vec![
                    String::new(),
                    format!("(dimensions={dimensions})"),
                    format!("(dimensions={dimensions}, directions=0)"),
                    format!("(dimensions={dimensions}, look_ahead=0)"),
                ]
            }
            "taylor" => vec![String::new(), format!("(rounds={})", rng.random_range(1..=8))],
            "low_precision" => vec![String::new(), "(integers=quantised)".to_owned()],
            _ => vec![String::new()],
        };
        let texts = variants.iter().map(|arguments| format!("cascade({stage}{arguments}, exact)"));
        texts.map(|text| text.parse().expect("the text of a plan")).collect()
    }

    /// The command that runs this machine again.
    pub fn replay(&self) -> String {
        format!("cargo xtask bench soak --seed {} --machine {}", self.seed, self.number)
    }
}

impl Draw {
    fn new(mut rng: Xoshiro256PlusPlus, scale: Scale) -> Self {
        let is_large = rng.random_range(0..6) == 0;
        let columns = match scale {
            Scale::Trained => rng.random_range(5..=40),
            _ if is_large => rng.random_range(5..=12),
            _ => rng.random_range(1..=4),
        };
        let most: f64 = match scale {
            Scale::Ordinary | Scale::Trained | Scale::SmallScores | Scale::LargeScores => 9.0,
            Scale::WideRange => 20.0,
            _ => 100.0,
        };
        let degree = most.powf(rng.random::<f64>()).round() as u32;
        let is_on_grid = scale.is_ordinary() && rng.random_range(0..3) == 0;
        let mut within = |low: f64, high: f64| low + (high - low) * rng.random::<f64>();
        let row = match scale {
            Scale::Ordinary if is_on_grid => 0.0,
            Scale::Ordinary => within(-1.0, 1.0),
            Scale::WideRange => within(-30.0, 30.0),
            Scale::SmallRows => within(-300.0, -30.0),
            Scale::LargeRows => within(30.0, 300.0),
            Scale::Subnormal => -310.0,
            Scale::Trained | Scale::MixedRows => 0.0,
            Scale::SmallScores | Scale::LargeScores => within(-2.0, 2.0),
            Scale::Undone => within(-150.0, 150.0),
            Scale::HighPowers => {
                let target = within(250.0, 330.0) / f64::from(2 * degree.max(1));
                if within(0.0, 1.0) < 0.5 { target } else { -target }
            }
        };
        Self { rng, scale, columns, row, degree, is_on_grid }
    }

    /// A number between the two.
    fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.rng.random::<f64>()
    }

    /// Whether something of this probability happens.
    fn chance(&mut self, probability: f64) -> bool {
        self.rng.random::<f64>() < probability
    }

    /// `10^exponent`, kept within the range of f64.
    fn power(exponent: f64) -> f64 {
        10f64.powf(exponent.clamp(-323.0, 307.0))
    }

    /// One value of a row; zero at times.
    fn value(&mut self) -> f64 {
        if self.chance(0.1) {
            return 0.0;
        }
        let size = normal(&mut self.rng);
        let x = match self.scale {
            Scale::MixedRows => {
                let most = if self.chance(0.5) { 150.0 } else { 300.0 };
                size * Self::power(self.within(-most, most))
            }
            Scale::Subnormal => f64::from_bits(self.rng.random_range(1..1 << 52)).copysign(size),
            _ if self.is_on_grid => to_grid(size),
            _ => size * Self::power(self.row),
        };
        x.clamp(-f64::MAX, f64::MAX)
    }

    fn row(&mut self) -> Vec<f64> {
        if self.scale != Scale::Trained {
            return (0..self.columns).map(|_| self.value()).collect();
        }
        // One of two clouds.
        let is_first = self.chance(0.5);
        let mut value = |column: usize| {
            let centre = if is_first { (column % 3) as f64 } else { (column % 2) as f64 - 0.5 };
            let x = centre + 0.5 * normal(&mut self.rng);
            if self.is_on_grid { to_grid(x) } else { x }
        };
        (0..self.columns).map(&mut value).collect()
    }

    fn machine(&mut self, kernel: &str) -> Machine {
        let mut supports = self.supports();
        let spec = kernels::draw(self, kernel, &supports);
        let kernel = KERNELS.build(&spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
        if kernel.domain() == Domain::NonNegative {
            supports.iter_mut().flatten().for_each(|x| *x = x.abs());
            if self.chance(0.15) {
                return self.table(&kernel, &supports);
            }
        }
        let output = self.output();
        let scores = (0..output.scores()).map(|_| self.score(&spec, &supports)).collect();
        let rows = matrix(self.columns, &supports);
        let rows = if self.chance(0.3) { rows.to_sparse() } else { rows };
        Machine::new(kernel, rows, scores, output).expect("parts that fit")
    }

    /// Few supports; some of them nearly equal, and more than eight at times, so that partial sums are joined.
    fn supports(&mut self) -> Vec<Vec<f64>> {
        if self.scale == Scale::Trained {
            return (0..30).map(|_| self.row()).collect();
        }
        let many = self.chance(0.15);
        let count = if many { self.rng.random_range(9..=20) } else { self.rng.random_range(1..=6) };
        let mut rows: Vec<Vec<f64>> = Vec::new();
        while rows.len() < count {
            if self.chance(0.1) && !rows.is_empty() {
                let near = queries::nearly(self, &rows[rows.len() - 1].clone());
                rows.push(near);
            } else {
                rows.push(self.row());
            }
        }
        rows
    }

    fn output(&mut self) -> Output {
        let names = |count: u32| (0..count).map(|n| ClassName::Number(f64::from(n))).collect();
        match self.rng.random_range(0..20) {
            // A regression without tolerance settles nothing, so that every step is seen.
            0..8 => Output::Value,
            8..15 => Output::Classes { names: names(2), scheme: Scheme::OneVsOne },
            15..17 => Output::Novelty,
            17 => Output::Classes { names: names(3), scheme: Scheme::OneVsOne },
            _ => Output::Classes { names: names(3), scheme: Scheme::OneVsRest },
        }
    }

    /// Coefficients that bring scores to the size that is wanted, and an offset that puts the border among the rows.
    fn score(&mut self, spec: &Spec, supports: &[Vec<f64>]) -> Score {
        let exponent = self.coefficient_exponent(spec, supports);
        if spec.name() == "linear" && self.chance(0.3) {
            let mut weight =
                || (normal(&mut self.rng) * Self::power(exponent)).clamp(-1e307, 1e307);
            let weights = (0..self.columns).map(|_| weight()).collect();
            let offset = if self.chance(0.5) { 0.0 } else { Self::power(exponent + self.row) };
            return Score::Linear { weights, offset };
        }
        let coefficients: Vec<f64> = (0..supports.len())
            .map(|_| match self.rng.random_range(0..10) {
                0 => 0.0,
                1 => normal(&mut self.rng) * Self::power(exponent + self.within(-20.0, 0.0)),
                _ => normal(&mut self.rng) * Self::power(exponent),
            })
            .map(|beta: f64| beta.clamp(-1e307, 1e307))
            .collect();
        let offset = match self.rng.random_range(0..10) {
            0..4 => 0.0,
            4 => normal(&mut self.rng) * Self::power(self.within(-320.0, 306.0)),
            _ => {
                let x = self.row();
                let terms = supports.iter().map(Vec::as_slice).zip(coefficients.iter().copied());
                let at = domain_row(spec, x);
                let score = reference::weighted_sum::<Wide>(spec, terms, 0.0, &at);
                score.to_dd().to_f64().clamp(-1e307, 1e307)
            }
        };
        Score::expansion(&coefficients, offset)
    }

    /// The decimal exponent of coefficients: mostly one that undoes the size of kernel values.
    fn coefficient_exponent(&mut self, spec: &Spec, supports: &[Vec<f64>]) -> f64 {
        let at = domain_row(spec, supports[0].clone());
        let own = reference::kernel::<Wide>(spec, &at, &at);
        let size = if own.is_zero() { 0.0 } else { own.log2_size() * std::f64::consts::LOG10_2 };
        let balanced = (-size).clamp(-300.0, 300.0);
        match self.scale {
            Scale::Ordinary | Scale::Trained => self.within(-1.0, 1.0),
            Scale::SmallScores => balanced + self.within(-323.0, -200.0),
            Scale::LargeScores => balanced + self.within(200.0, 307.0),
            _ => match self.rng.random_range(0..5) {
                0 => 0.0,
                1 => self.within(-320.0, 306.0),
                _ => balanced + self.within(-2.0, 2.0),
            },
        }
    }

    /// An additive machine of bins, which keeps no supports.
    fn table(&mut self, kernel: &KernelRef, supports: &[Vec<f64>]) -> Machine {
        let positive = |x: &&f64| **x > 0.0;
        let top = supports.iter().flatten().filter(positive).copied().fold(0.0, f64::max);
        let top = if top > 0.0 { top } else { 1.0 };
        let spacing = if self.chance(0.5) {
            Spacing::Power { top, exponent: self.rng.random_range(1..=2) }
        } else {
            let mut cuts: Vec<f64> = supports.iter().flatten().copied().collect();
            cuts.extend([0.0, top]);
            cuts.sort_by(f64::total_cmp);
            let starts = (0..=self.columns).map(|column| column * cuts.len()).collect();
            Spacing::Quantile { starts, cuts: cuts.repeat(self.columns) }
        };
        let (count, rank) = (self.rng.random_range(2..=40), self.rng.random_range(1..=3usize));
        let exponent = self.within(-30.0, 30.0);
        let mut number = |exponent: f64| (normal(&mut self.rng) * Self::power(exponent)) as f32;
        let mut encoding: Vec<f32> = (0..count * rank).map(|_| number(-exponent)).collect();
        encoding[..rank].fill(0.0);
        let weights = (0..self.columns * rank).map(|_| number(exponent)).collect();
        let bins = Bins::new(spacing, rank, encoding).expect("bins that are sound");
        let offset = if self.chance(0.5) { 0.0 } else { normal(&mut self.rng) };
        let scores = vec![Score::Additive { weights, offset }];
        Machine::additive(kernel.clone(), self.columns, Arc::new(bins), scores, Output::Novelty)
            .expect("parts that fit")
    }
}

/// The nearest multiple of 1/16.
fn to_grid(x: f64) -> f64 {
    (16.0 * x).round() / 16.0
}

fn matrix(columns: usize, rows: &[Vec<f64>]) -> Matrix {
    Matrix::dense(columns, rows.concat()).expect("whole rows of finite values")
}

/// The row as the kernel's domain allows it.
fn domain_row(spec: &Spec, mut row: Vec<f64>) -> Vec<f64> {
    let kernel = KERNELS.build(spec).expect("a kernel that was built before");
    if kernel.domain() == Domain::NonNegative {
        row.iter_mut().for_each(|x| *x = x.abs());
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_number_decide_the_machine() {
        for number in [0, 17, 140] {
            let (a, b) = (AttackCase::new(1, number, 1), AttackCase::new(1, number, 1));
            assert_eq!(a.queries, b.queries);
            assert_eq!(a.machine.scores(), b.machine.scores());
            assert_ne!(a.queries, AttackCase::new(2, number, 1).queries);
        }
    }

    #[test]
    fn more_rounds_only_add_queries() {
        for number in [0, 20, 41, 77, 110, 142] {
            let (one, many) = (AttackCase::new(4, number, 1), AttackCase::new(4, number, 33));
            assert!(many.queries.rows() > one.queries.rows());
            let first = many.queries.select(0..one.queries.rows());
            assert_eq!(first, one.queries, "machine {number}");
            assert_eq!(one.plan("anytime"), many.plan("anytime"));
        }
    }

    #[test]
    fn every_kernel_meets_every_scale() {
        let mut met = std::collections::BTreeSet::new();
        for number in 0..(KERNELS.entries.len() * Scale::ALL.len()) as u64 {
            let case = AttackCase::new(3, number, 1);
            met.insert((case.machine.kernel().spec().name().to_owned(), case.scale));
        }
        assert_eq!(met.len(), KERNELS.entries.len() * Scale::ALL.len());
    }
}
