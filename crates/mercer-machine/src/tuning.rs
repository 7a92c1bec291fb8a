//! The record of a `tune` run that a model file keeps with its plan. The search is in `mercer-compile`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How a plan was found: the request, the plans that were tried, the measurements and the test on held-out
/// queries. It is kept with the plan, so that a user of the model can see why the plan was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// The requested contract: `exact`, `certified` or `calibrated(eps=0.001, delta=0.05)`.
    pub contract: String,
    /// What is optimised: `latency` (one query at a time) or `throughput` (batches).
    pub aim: String,
    /// Seed of the split of the sample and of all other random numbers.
    pub seed: u64,
    /// Instruction set of the timings.
    pub instruction_set: String,
    /// Threads of the batch timings.
    pub threads: usize,
    /// Largest cost of one query, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// What queries of the chosen plan cost, and how long they take one at a time; both increase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<CostTime>,
    /// Half-width of the range at which the value of a regression is settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// How the sample was split.
    pub sample: SampleParts,
    /// Speed of exact answers.
    pub exact: Speed,
    /// Speed of the chosen plan.
    pub plan: Speed,
    /// All plans that were measured, in the order in which they were tried.
    pub tried: Vec<Trial>,
    /// Stages that do not fit the machine, and why.
    pub refused: Vec<Refusal>,
    /// Whether the time limit ended the search.
    pub stopped: bool,
    /// The test of the plan on the held-out part of the sample.
    pub verification: Verification,
    /// Why this plan, in one sentence.
    pub reason: String,
}

impl Tuning {
    /// The record as users see it, in the command's JSON and in Python. Keys of the file that mean something else in other reports
    /// have names of their own here.
    pub fn to_json(&self) -> Value {
        let mut object = json!(self);
        rename(&mut object, "exact", "exact_times");
        rename(&mut object, "plan", "plan_times");
        rename(&mut object, "verification", "final_test");
        rename(&mut object["final_test"], "stages", "settled_by_stage");
        rename(&mut object["sample"], "verified", "tested");
        object
    }
}

fn rename(object: &mut Value, old: &str, new: &str) {
    if let Some(map) = object.as_object_mut()
        && let Some(value) = map.remove(old)
    {
        map.insert(new.to_owned(), value);
    }
}

/// A time limit for one query, converted to a number of multiply-adds: counting them gives the same answers on every
/// computer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The requested limit.
    pub microseconds: f64,
    /// Files of earlier builds: multiply-adds in a microsecond. Nothing reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The limit of the cost.
    pub multiply_adds: u64,
}

/// How long a single query takes that costs so much, as it was measured with the plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostTime {
    /// The cost.
    pub multiply_adds: u64,
    /// The time.
    pub microseconds: f64,
}

/// Numbers of rows of the parts of a sample; the parts are disjoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleParts {
    /// Rows in all.
    pub rows: usize,
    /// Rows that stages were fitted to.
    pub fitted: usize,
    /// Rows on which plans were compared and the scales of estimates were fitted.
    pub measured: usize,
    /// Rows that were held out for the test.
    pub verified: usize,
    /// Rows that are supports of the machine.
    pub repeated: usize,
}

/// Time and memory of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    /// Microseconds per query, one at a time on one thread.
    pub single_us: f64,
    /// Microseconds per query in batches on all threads.
    pub batch_us: f64,
    /// Bytes of the packed supports and of the stages.
    pub bytes: u64,
}

/// A plan that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// Its text.
    pub plan: String,
    /// Microseconds per query, for what is optimised.
    pub us: f64,
    /// Mean cost of a query in multiply-adds.
    pub mean_cost: f64,
    /// Share of queries that were settled before the exact stage.
    pub settled: f64,
    /// Whether it was dropped before all timings were taken, because it was much slower.
    pub dropped: bool,
    /// Whether its time is that of the last comparison, in turns with exact and the chosen plan; the times of others are
    /// those of the search.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compared: bool,
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

/// The test of a plan on held-out queries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verification {
    /// Number of queries.
    pub queries: u64,
    /// Settled answers that disagree with exact (or differ by more than the tolerance).
    pub disagreements: u64,
    /// Queries that were not settled within the budget.
    pub unsettled: u64,
    /// Queries that each stage settled, the exact one last.
    pub stages: Vec<SettledByStage>,
    /// Mean cost of a query in multiply-adds.
    pub mean_cost: f64,
    /// Cost of an exact answer in multiply-adds.
    pub exact_cost: u64,
    /// Quantiles of the costs of the queries, at 21 evenly spaced points from the smallest to the largest.
    pub costs: Vec<u64>,
}

/// Queries that a stage settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettledByStage {
    /// The stage's text.
    pub stage: String,
    /// How many.
    pub queries: u64,
}

impl Tuning {
    /// Whether its numbers are valid; files are not trusted.
    pub fn is_sane(&self) -> bool {
        let is_time = |value: f64| value.is_finite() && value >= 0.0;
        let is_speed = |speed: &Speed| is_time(speed.single_us) && is_time(speed.batch_us);
        let is_budget = |budget: &Budget| is_time(budget.microseconds);
        let is_trial = |trial: &Trial| {
            is_time(trial.us) && is_time(trial.mean_cost) && (0.0..=1.0).contains(&trial.settled)
        };
        is_speed(&self.exact)
            && is_speed(&self.plan)
            && self.budget.iter().all(is_budget)
            && self.times.iter().all(|time| is_time(time.microseconds))
            && self.times.is_sorted_by(|a, b| {
                a.multiply_adds <= b.multiply_adds && a.microseconds <= b.microseconds
            })
            && self.tolerance.iter().all(|tolerance| tolerance.is_finite() && *tolerance > 0.0)
            && self.tried.iter().all(is_trial)
            && is_time(self.verification.mean_cost)
            && self.verification.costs.is_sorted()
    }
}
