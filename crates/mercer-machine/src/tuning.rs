use serde::{Deserialize, Serialize};

/// How a plan was found: what was asked for, what was tried, what was measured, and what the test on
/// queries that nobody had looked at before said. Kept with the plan, so that whoever holds the model can
/// tell why it answers as it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// What was asked for: `exact`, `certified` or `calibrated(eps=0.001, delta=0.05)`.
    pub contract: String,
    /// What was to be fast: `latency` (one query at a time) or `throughput` (batches).
    pub aim: String,
    /// Decided how the sample was cut, and everything drawn.
    pub seed: u64,
    /// Instruction set on which times were taken.
    pub instruction_set: String,
    /// Threads on which batches were timed.
    pub threads: usize,
    /// Most that one query may cost, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Half-width at which the value of a regression is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// How the sample was cut.
    pub sample: SampleParts,
    /// Exact answers.
    pub exact: Speed,
    /// Answers of the plan that was kept.
    pub plan: Speed,
    /// All plans that were measured, in the order in which they were tried.
    pub tried: Vec<Trial>,
    /// Stages that do not fit the machine, and why.
    pub refused: Vec<Refusal>,
    /// Whether the time limit ended the search.
    pub stopped: bool,
    /// What the plan made of the part of the sample that had not been looked at.
    pub verification: Verification,
    /// Why this plan, in one sentence.
    pub reason: String,
}

/// A time that became a number of multiply-adds: counting them keeps answers the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// What was asked for.
    pub microseconds: f64,
    /// Multiply-adds in a microsecond, as measured and rounded.
    pub rate: f64,
    /// Their product.
    pub multiply_adds: u64,
}

/// Rows of a sample and what they were for; none is in two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleParts {
    /// Rows in all.
    pub rows: usize,
    /// Rows that stages were fitted to.
    pub fitted: usize,
    /// Rows that gave the scales of estimates and served for nothing else: only files of earlier builds have some.
    pub scaled: usize,
    /// Rows on which plans were compared, and that gave the scales of estimates.
    pub measured: usize,
    /// Rows that were kept for the test.
    pub verified: usize,
    /// Rows that are supports of the machine.
    pub repeated: usize,
}

/// How fast a plan answers, and what it keeps in memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    /// Microseconds a query, one at a time on one thread.
    pub single_us: f64,
    /// Microseconds a query in batches on all threads.
    pub batch_us: f64,
    /// Bytes of the packed supports and of what the stages keep beside them.
    pub bytes: u64,
}

/// A plan that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// Its text.
    pub plan: String,
    /// Microseconds a query, for what was to be fast.
    pub us: f64,
    /// Mean cost of a query in multiply-adds.
    pub mean_cost: f64,
    /// Share of queries that were settled before the exact stage.
    pub settled: f64,
    /// Whether it was dropped before all timings were taken, being far behind.
    pub dropped: bool,
}

/// A stage that was not tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// Its text.
    pub stage: String,
    /// Why.
    pub reason: String,
}

/// What a plan made of queries that nobody had looked at before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verification {
    /// Queries.
    pub queries: u64,
    /// Settled answers unlike the exact ones (or further from them than the tolerance).
    pub differences: u64,
    /// Queries whose budget ended first.
    pub unsettled: u64,
    /// Queries that each stage settled, the exact one last.
    pub stages: Vec<Settled>,
    /// Mean cost of a query in multiply-adds.
    pub mean_cost: f64,
    /// Cost of an exact answer in multiply-adds.
    pub exact_cost: u64,
    /// Costs of the queries in increasing order, at 21 evenly spaced places from the least to the most.
    pub costs: Vec<u64>,
}

/// Queries that a stage settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settled {
    /// The stage's text.
    pub stage: String,
    /// How many.
    pub queries: u64,
}

impl Tuning {
    /// Whether its numbers can be what they claim to be; files are not trusted.
    pub fn is_sane(&self) -> bool {
        let is_time = |value: f64| value.is_finite() && value >= 0.0;
        let is_speed = |speed: &Speed| is_time(speed.single_us) && is_time(speed.batch_us);
        let is_budget = |budget: &Budget| is_time(budget.microseconds) && is_time(budget.rate);
        let is_trial = |trial: &Trial| {
            is_time(trial.us) && is_time(trial.mean_cost) && (0.0..=1.0).contains(&trial.settled)
        };
        is_speed(&self.exact)
            && is_speed(&self.plan)
            && self.budget.iter().all(is_budget)
            && self.tolerance.iter().all(|tolerance| tolerance.is_finite() && *tolerance > 0.0)
            && self.tried.iter().all(is_trial)
            && is_time(self.verification.mean_cost)
            && self.verification.costs.is_sorted()
    }
}
