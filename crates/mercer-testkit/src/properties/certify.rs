//! Properties of certificates: ranges contain the score, certified answers are the exact ones.

use mercer_data::Matrix;
use mercer_kernel::{Form, Profile};
use mercer_machine::{Machine, Output, PlanSections, Score};
use mercer_query::{Certainty, Decision, Plan, PlanTrust, QueryError, QueryOptions, Require};
use mercer_simd::Isa;

use super::kernels::Verdict;
use crate::{Dd, generate, reference};

/// How many cases the properties checked; tests assert that it is not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ranges compared with the score in double-double arithmetic.
    pub pairs: u64,
    /// Decisions compared with the exact ones.
    pub asked: u64,
    /// Those that were certified.
    pub certified: u64,
}

/// A machine with a plan, and queries.
#[derive(Debug)]
pub struct CertifyProperty<'a> {
    /// What the case is called.
    pub name: String,
    /// The machine.
    pub machine: &'a Machine,
    /// Its plan.
    pub sections: &'a PlanSections,
    /// The rows.
    pub queries: &'a Matrix,
}

impl CertifyProperty<'_> {
    /// Every range at every step contains the score in double-double arithmetic; no proof widens what was
    /// proved before; the final range of a single score contains it too.
    pub fn ranges_contain_the_score(&self, tally: &mut Tally) -> Verdict {
        self.ranges_contain(&Truth::new(self.machine).scores(self.queries), tally)
    }

    /// The same, where [`Truth::scores`] of these rows are known.
    pub fn ranges_contain(&self, truth: &[Vec<Dd>], tally: &mut Tally) -> Verdict {
        let plan = self.plan()?;
        let failed = |error: QueryError| format!("{}: {error}", self.name);
        plan.check(self.queries).map_err(failed)?;
        let (mut worker, options, mut steps) = (plan.worker(), QueryOptions::default(), Vec::new());
        let mut proved = Vec::new();
        for (row, scores) in truth.iter().enumerate() {
            match worker.explain(self.queries, row, &options, &mut steps) {
                Ok(_) => {}
                Err(QueryError::NotFinite { .. }) => continue,
                Err(other) => return Err(failed(other)),
            }
            proved.clear();
            proved.resize(scores.len(), (f64::NEG_INFINITY, f64::INFINITY));
            // Estimates are not proved.
            for step in steps.iter().filter(|step| !step.is_estimate) {
                let (range, score) = (step.range, scores[step.score]);
                let inside = score >= Dd::from(range.low) && score <= Dd::from(range.high);
                if !inside {
                    let what = format!("{}, row {row}, {step:?}", self.name);
                    return Err(format!("{what}: {score:?} is outside"));
                }
                let (low, high) = &mut proved[step.score];
                if !step.is_between {
                    if range.low < *low || range.high > *high {
                        return Err(format!("{}, row {row}: {step:?} widens", self.name));
                    }
                    (*low, *high) = (range.low, range.high);
                }
                tally.pairs += 1;
            }
        }
        Ok(())
    }

    /// A certified answer is the exact one, and no answer depends on the batch, the threads or the
    /// instruction set.
    pub fn answers_are_exact_and_alike(&self, tally: &mut Tally) -> Verdict {
        let plan = self.plan()?;
        let Ok(truth) = Plan::exact(self.machine).decide(self.queries) else { return Ok(()) };
        let batch = plan.decide(self.queries).map_err(|error| format!("{}: {error}", self.name))?;
        for (row, (found, exact)) in batch.iter().zip(&truth).enumerate() {
            let is_value = matches!(exact.answer, mercer_machine::Answer::Value(_));
            if found.answer != exact.answer && !is_value {
                return Err(format!("{}, row {row}: {found:?}, exactly {exact:?}", self.name));
            }
            tally.asked += 1;
            tally.certified += u64::from(found.certainty == Certainty::Certified);
        }
        self.same("alone", &batch, &self.alone(&plan)?)?;
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.map_err(|error| error.to_string())?;
            let found = pool.install(|| plan.decide(self.queries));
            self.same("on other threads", &batch, &found.map_err(|error| error.to_string())?)?;
        }
        let dense = plan.decide(&self.queries.to_dense()).map_err(|error| error.to_string())?;
        self.same("from dense rows", &batch, &dense)?;
        for isa in Isa::available() {
            let plan = Plan::with_isa(self.machine, self.sections, PlanTrust::Everything, *isa);
            let plan = plan.map_err(|error| format!("{}: {error}", self.name))?;
            let found = plan.decide(self.queries).map_err(|error| error.to_string())?;
            self.same(isa.name(), &batch, &found)?;
        }
        Ok(())
    }

    /// No query costs more than its budget, and with proof required every answer is the exact one.
    pub fn budgets_are_kept(&self) -> Verdict {
        let plan = self.plan()?;
        let Ok(truth) = Plan::exact(self.machine).decide(self.queries) else { return Ok(()) };
        let (width, whole) =
            (self.machine.columns() as u64, plan.exact_stage().cost().multiply_adds);
        for budget in [0, width, 8 * width, 20 * width, whole / 2, whole, 2 * whole, 9 * whole] {
            let options = QueryOptions { budget: Some(budget), ..QueryOptions::default() };
            let answers = plan.decide_with(self.queries, &options).map_err(|e| e.to_string())?;
            for (row, (found, exact)) in answers.decisions.iter().zip(&truth).enumerate() {
                let what = || format!("{}, row {row}, budget {budget}: {found:?}", self.name);
                if found.cost.multiply_adds > budget {
                    return Err(format!("{} costs too much", what()));
                }
                let is_settled = found.certainty >= Certainty::Certified;
                if is_settled && found.answer != exact.answer {
                    return Err(format!("{}, exactly {exact:?}", what()));
                }
            }
            let options = QueryOptions { require: Require::Certified, ..options };
            let answers = plan.decide_with(self.queries, &options).map_err(|e| e.to_string())?;
            for (found, exact) in answers.decisions.iter().zip(&truth) {
                if found.certainty == Certainty::Unsettled || found.answer != exact.answer {
                    return Err(format!("{}: {found:?}, exactly {exact:?}", self.name));
                }
            }
        }
        Ok(())
    }

    /// Against any threshold, every answer says on which side of it the exact score lies; other machines refuse one.
    pub fn thresholds_are_decided(&self) -> Verdict {
        let plan = self.plan()?;
        let at =
            |threshold: f64| QueryOptions { threshold: Some(threshold), ..QueryOptions::default() };
        if self.machine.scores().len() != 1 || *self.machine.output() == Output::Value {
            return match plan.decide_with(self.queries, &at(0.5)) {
                Err(QueryError::NoThreshold) => Ok(()),
                other => Err(format!("{}: {other:?} in place of a refusal", self.name)),
            };
        }
        let Ok(scores) = plan.scores(self.queries) else { return Ok(()) };
        let mut sorted = scores.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        // A tie, its neighbours, and scores of any size.
        for threshold in
            [0.0, middle, middle.next_up(), middle.next_down(), -middle, 1e-300, 1e300, -1e300]
        {
            let answers = plan.decide_with(self.queries, &at(threshold));
            let answers = answers.map_err(|error| format!("{}: {error}", self.name))?;
            for (row, (found, score)) in answers.decisions.iter().zip(&scores).enumerate() {
                let expected = self.machine.output().answer_at(*score, threshold);
                if found.answer != expected || found.certainty < Certainty::Certified {
                    let what = format!("{}, row {row}, threshold {threshold:e}", self.name);
                    return Err(format!("{what}: {found:?}, the score is {score:e}"));
                }
            }
        }
        Ok(())
    }

    fn plan(&self) -> Result<Plan, String> {
        Plan::fitted(self.machine, self.sections).map_err(|error| format!("{}: {error}", self.name))
    }

    fn alone(&self, plan: &Plan) -> Result<Vec<Decision>, String> {
        let mut worker = plan.worker();
        let mut all = Vec::new();
        for row in 0..self.queries.rows() {
            let found = worker.decide(self.queries, row..row + 1, &QueryOptions::default());
            all.extend_from_slice(found.map_err(|error| error.to_string())?);
        }
        Ok(all)
    }

    fn same(&self, how: &str, expected: &[Decision], found: &[Decision]) -> Verdict {
        let bits = |decision: &Decision| {
            let range = decision.range;
            (range.low.to_bits(), range.high.to_bits(), decision.certainty, decision.cost)
        };
        for (row, (a, b)) in expected.iter().zip(found).enumerate() {
            if a.answer != b.answer || bits(a) != bits(b) {
                return Err(format!("{}, row {row}: {a:?}, but {b:?} {how}", self.name));
            }
        }
        if expected.len() == found.len() { Ok(()) } else { Err(format!("{}: {how}", self.name)) }
    }
}

/// Scores in double-double arithmetic: quickly where the scale allows it, else by the wide reference.
#[derive(Debug)]
pub struct Truth<'a> {
    machine: &'a Machine,
    supports: Vec<Vec<f64>>,
    profile: Profile,
    /// Roots of the supports' self-values, where kernel values are divided by them.
    norms: Vec<Dd>,
    is_quick: bool,
}

impl<'a> Truth<'a> {
    /// Of a machine of expansions.
    pub fn new(machine: &'a Machine) -> Self {
        let supports: Vec<Vec<f64>> = (0..machine.supports().rows())
            .map(|row| generate::row(machine.supports(), row))
            .collect();
        let profile = match machine.kernel().form() {
            Form::Dot(finish) | Form::Shift(finish) => finish.profile(),
            _ => Profile::Other,
        };
        let is_known = matches!(
            profile,
            Profile::Identity
                | Profile::Power { .. }
                | Profile::NormalizedPower { .. }
                | Profile::Gaussian { .. }
        );
        let norms: Vec<Dd> = supports.iter().map(|support| norm(profile, support)).collect();
        let is_quick = is_known
            && supports.iter().flatten().all(|x| is_sane(*x))
            && norms.iter().all(|norm| is_sane(norm.hi) && norm.hi > 0.0);
        Self { machine, supports, profile, norms, is_quick }
    }

    /// All scores of each row.
    pub fn scores(&self, rows: &Matrix) -> Vec<Vec<Dd>> {
        let all = |row: usize| {
            let x = generate::row(rows, row);
            (0..self.machine.scores().len()).map(|score| self.score(score, &x)).collect()
        };
        (0..rows.rows()).map(all).collect()
    }

    fn score(&self, number: usize, x: &[f64]) -> Dd {
        let Score::Expansion { supports, coefficients, offset } = &self.machine.scores()[number]
        else {
            panic!("properties of certificates look at expansions")
        };
        let own = norm(self.profile, x);
        let named = supports.iter().map(|support| *support as usize);
        if !(self.is_quick && x.iter().all(|x| is_sane(*x)) && is_sane(own.hi) && own.hi > 0.0) {
            let supports: Vec<Vec<f64>> = named.map(|at| self.supports[at].clone()).collect();
            let spec = self.machine.kernel().spec();
            return reference::expansion(&spec, &supports, coefficients, *offset, x);
        }
        let value = |at: usize| value(self.profile, &self.supports[at], x) / self.norms[at];
        let values = named.zip(coefficients).map(|(at, beta)| Dd::from(*beta) * value(at));
        let sum = values.fold(Dd::ZERO, |sum, term| sum + term);
        sum / own - Dd::from(*offset)
    }
}

/// Neither too large nor too small for products of a few.
fn is_sane(x: f64) -> bool {
    x == 0.0 || (1e-40..1e40).contains(&x.abs())
}

/// `K(x, x)^(1/2)` of the power that is divided by it; 1 for kernels that are not.
fn norm(profile: Profile, x: &[f64]) -> Dd {
    match profile {
        Profile::NormalizedPower { .. } => value(profile, x, x).sqrt(),
        _ => Dd::ONE,
    }
}

/// The kernel before it is divided by norms.
fn value(profile: Profile, u: &[f64], v: &[f64]) -> Dd {
    let pairs = || u.iter().zip(v);
    let dot = || pairs().fold(Dd::ZERO, |sum, (a, b)| sum + Dd::product(*a, *b));
    match profile {
        Profile::Power { scale, shift, degree }
        | Profile::NormalizedPower { scale, shift, degree } => {
            (Dd::from(scale) * dot() + Dd::from(shift)).powi(degree)
        }
        Profile::Gaussian { gamma } => {
            // Queries may be wider than supports, or narrower.
            let shared = u.len().min(v.len());
            let wider = v[shared..].iter().map(|b| (0.0, *b));
            let narrower = u[shared..].iter().map(|a| (*a, 0.0));
            let all = pairs().map(|(a, b)| (*a, *b)).chain(wider).chain(narrower);
            let square = |sum: Dd, (a, b): (f64, f64)| {
                let gap = Dd::sum(a, -b);
                sum + gap * gap
            };
            (Dd::from(-gamma) * all.fold(Dd::ZERO, square)).exp()
        }
        _ => dot(),
    }
}
