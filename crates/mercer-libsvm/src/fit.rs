//! Training as LIBSVM does it, on Mercer's solver: pairs of classes, probabilities by folds that are drawn with `rand()` in
//! LIBSVM's order, cross-validation. The structures of the interface are filled in `train.rs`.

use std::sync::Arc;

use mercer::data::{Dataset, Matrix, Targets};
use mercer::machine::{ClassName, pairs};
use mercer::query::Plan;
use mercer::svm_train::{self, TrainingLines};
use mercer::train::{Expansion, Trained, Training, formulation, train};

use crate::direct;
use crate::examples::{Examples, Groups};
use crate::layout::{MARKS, svm_parameter, svm_type};
use crate::print::info;
use crate::sigmoid;
use crate::{partial, predict};

/// Folds for probabilities.
const FOLDS: usize = 5;
/// Least memory for training; LIBSVM's cache is only a part of its memory.
const LEAST_MEMORY: usize = 64 << 20;

/// A trained model before it becomes a structure.
#[derive(Debug)]
pub(crate) struct Fit {
    /// Labels of the classes, empty for other types.
    pub(crate) labels: Vec<i32>,
    /// The score of each pair of classes, or the only one.
    pub(crate) scores: Vec<FittedScore>,
    pub(crate) probabilities: Option<FittedProbabilities>,
    pub(crate) machine: Option<FittedMachine>,
}

/// A decision function over the rows of the training.
#[derive(Debug, Clone)]
pub(crate) struct FittedScore {
    /// Rows with a coefficient, and the coefficient.
    pub(crate) terms: Vec<(usize, f64)>,
    pub(crate) rho: f64,
}

/// Parameters of probabilities.
#[derive(Debug, Clone)]
pub(crate) enum FittedProbabilities {
    /// A and B of each pair.
    Sigmoids(Vec<f64>, Vec<f64>),
    /// The scale of a Laplace distribution.
    Laplace(f64),
    /// Marks of a one-class model.
    Marks(Vec<f64>),
}

/// Where one of LIBSVM's scores comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ScoreAt {
    /// Place among the machine's scores, and sign.
    Machine(usize, f64),
    /// The same for all rows.
    Constant(f64),
}

impl ScoreAt {
    /// With another sign.
    pub(crate) fn times(self, sign: f64) -> Self {
        match self {
            Self::Machine(place, own) => Self::Machine(place, sign * own),
            Self::Constant(value) => Self::Constant(sign * value),
        }
    }
}

/// Mercer's machine, if there is one, with the origin of each of LIBSVM's scores.
#[derive(Debug)]
pub(crate) struct FittedMachine {
    pub(crate) plan: Option<Arc<Plan>>,
    pub(crate) order: Vec<ScoreAt>,
}

impl FittedMachine {
    /// Decision values of rows in LIBSVM's order, row after row.
    fn values(&self, rows: &Matrix) -> Result<Vec<Vec<f64>>, String> {
        let (mut scores, mut count) = (Vec::new(), 0);
        if let Some(plan) = &self.plan {
            scores = plan.scores(rows).map_err(|error| error.to_string())?;
            count = plan.exact_stage().machine().scores().len();
        }
        let of_row = |row: usize| {
            let scores = &scores[row * count..(row + 1) * count];
            let value = |at: &ScoreAt| match at {
                ScoreAt::Machine(place, sign) => sign * scores[*place],
                ScoreAt::Constant(value) => *value,
            };
            self.order.iter().map(value).collect::<Vec<f64>>()
        };
        Ok((0..rows.rows()).map(of_row).collect())
    }
}

impl Fit {
    /// Scores without rows, as many as the type has.
    pub(crate) fn nothing(labels: Vec<i32>, param: &svm_parameter) -> Self {
        let count = if param.is_classification() { pairs(labels.len()).count() } else { 1 };
        let scores = vec![FittedScore { terms: Vec::new(), rho: 0.0 }; count];
        Self { labels, scores, probabilities: None, machine: None }
    }

    /// The answers of `svm_predict`, or of `svm_predict_probability` where there are probabilities of classes.
    fn answers(&self, rows: &Matrix, param: &svm_parameter) -> Result<Vec<f64>, String> {
        let Some(machine) = &self.machine else {
            let only = self.labels.first().map_or(0.0, |label| f64::from(*label));
            return Ok(vec![only; rows.rows()]);
        };
        let answer = |values: Vec<f64>| {
            if let Some(FittedProbabilities::Sigmoids(a, b)) = &self.probabilities {
                let each =
                    predict::of_classes(self.labels.len(), &predict::pairwise(&values, a, b));
                return f64::from(self.labels[predict::largest(&each)]);
            }
            match param.svm_type {
                svm_type::ONE_CLASS => {
                    if values[0] > 0.0 {
                        1.0
                    } else {
                        -1.0
                    }
                }
                _ if param.is_classification() => {
                    f64::from(self.labels[direct::vote(self.labels.len(), &values)])
                }
                _ => values[0],
            }
        };
        Ok(machine.values(rows)?.into_iter().map(answer).collect())
    }
}

/// What is trained: rows, targets and parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) examples: &'a Examples,
    pub(crate) targets: &'a [f64],
    pub(crate) param: &'a svm_parameter,
    /// Labels and factors of C.
    pub(crate) weights: &'a [(i32, f64)],
    /// Whether the lines of a training are printed and probabilities are fitted: not inside of folds for probabilities.
    pub(crate) is_whole: bool,
}

impl Task<'_> {
    /// `svm_train`.
    pub(crate) fn fit(&self) -> Result<Fit, String> {
        let mut fit = if self.param.is_classification() {
            self.fit_classes(&Groups::new(self.targets))?
        } else {
            self.fit_one()?
        };
        let wants_probabilities = self.is_whole && self.param.probability != 0;
        if wants_probabilities && self.param.svm_type == svm_type::ONE_CLASS {
            fit.probabilities = self.marks(&fit)?.map(FittedProbabilities::Marks);
        }
        if wants_probabilities && self.param.is_regression() {
            fit.probabilities = Some(FittedProbabilities::Laplace(self.laplace()?));
        }
        Ok(fit)
    }

    fn fit_classes(&self, groups: &Groups) -> Result<Fit, String> {
        let classes = groups.classes();
        if classes < 2 {
            if self.is_whole {
                info("WARNING: training data in only one class. See README for details.\n");
                info(&svm_train::total(0));
            }
            let wants = self.is_whole && self.param.probability != 0;
            let probabilities =
                wants.then(|| FittedProbabilities::Sigmoids(Vec::new(), Vec::new()));
            let labels = groups.labels.clone();
            return Ok(Fit { labels, scores: Vec::new(), probabilities, machine: None });
        }
        let factors = self.class_factors(&groups.labels);
        if factors.iter().any(|factor| partial::is_without(*factor)) {
            return partial::fit(self, groups, &factors);
        }
        let mut probabilities = None;
        if self.is_whole && self.param.probability != 0 {
            // LIBSVM draws the folds of a pair before it trains it; training itself draws nothing.
            let each: Result<Vec<(f64, f64)>, String> =
                pairs(classes).map(|(i, j)| self.pair_sigmoid(groups, i, j)).collect();
            let (a, b) = each?.into_iter().unzip();
            probabilities = Some(FittedProbabilities::Sigmoids(a, b));
        }
        let mut places = vec![0.0; self.targets.len()];
        for class in 0..classes {
            groups.rows(class).iter().for_each(|row| places[*row] = class as f64);
        }
        let weights: Vec<(ClassName, f64)> = (0u32..)
            .zip(&factors)
            .filter(|(_, factor)| **factor != 1.0)
            .map(|(place, factor)| (ClassName::Number(f64::from(place)), *factor))
            .collect();
        let trained = self.trained(Targets::Numbers(places), &weights)?;
        let order = score_order(&trained, classes)?;
        let scores: Vec<FittedScore> = order
            .iter()
            .map(|(place, sign)| fitted_score(&trained.expansions[*place], *sign))
            .collect();
        if self.is_whole {
            for (at, (i, j)) in pairs(classes).enumerate() {
                let rows = groups.rows(i).len() + groups.rows(j).len();
                let is_even = factors[i] == factors[j];
                let cost = self.param.C * factors[i];
                let (place, rho) = (order[at].0, scores[at].rho);
                self.print_score(&trained, place, rho, rows, is_even.then_some(cost))?;
            }
            let mut is_used = vec![false; self.targets.len()];
            scores.iter().flat_map(|score| &score.terms).for_each(|(row, _)| is_used[*row] = true);
            let used = is_used.iter().filter(|used| **used).count();
            info(&svm_train::total(used));
        }
        let order = order.into_iter().map(|(place, sign)| ScoreAt::Machine(place, sign)).collect();
        let plan = Some(Arc::new(Plan::exact(&trained.machine)));
        let machine = Some(FittedMachine { plan, order });
        Ok(Fit { labels: groups.labels.clone(), scores, probabilities, machine })
    }

    /// One-class models and regressions.
    fn fit_one(&self) -> Result<Fit, String> {
        let targets = match self.param.svm_type {
            svm_type::ONE_CLASS => Targets::Absent,
            _ => Targets::Numbers(self.targets.to_vec()),
        };
        let trained = self.trained(targets, &[])?;
        let score = fitted_score(&trained.expansions[0], 1.0);
        if self.is_whole {
            let rows = self.targets.len();
            self.print_score(&trained, 0, score.rho, rows, Some(self.param.C))?;
        }
        let plan = Some(Arc::new(Plan::exact(&trained.machine)));
        let machine = FittedMachine { plan, order: vec![ScoreAt::Machine(0, 1.0)] };
        let (labels, probabilities) = (Vec::new(), None);
        Ok(Fit { labels, scores: vec![score], probabilities, machine: Some(machine) })
    }

    /// Mercer's training.
    fn trained(&self, targets: Targets, weights: &[(ClassName, f64)]) -> Result<Trained, String> {
        let svm_parameter { C: cost, nu, p, .. } = self.param;
        let text = match self.param.svm_type {
            svm_type::C_SVC => format!("c_svc(C={cost})"),
            svm_type::NU_SVC => format!("nu_svc(nu={nu})"),
            svm_type::ONE_CLASS => format!("one_class(nu={nu})"),
            svm_type::EPSILON_SVR => format!("epsilon_svr(C={cost}, epsilon={p})"),
            svm_type::NU_SVR => format!("nu_svr(nu={nu}, C={cost})"),
            _ => return Err("unknown svm type".to_owned()),
        };
        let formulation = formulation(&text).map_err(|error| error.to_string())?;
        let cache = (self.param.cache_size * f64::from(1 << 20)) as usize;
        let memory = self.examples.rows.bytes().saturating_add(cache.max(LEAST_MEMORY));
        let training = Training::default()
            .tolerance(self.param.eps)
            .memory(memory)
            .class_weights(weights.to_vec());
        let data = Dataset { examples: self.examples.rows.clone(), targets, names: None };
        train(&data, &self.examples.kernel, &formulation, &training, &mut |_| {})
            .map_err(|error| error.to_string())
    }

    /// The factor of C of each class, 1 unless given; LIBSVM warns of labels that no row has.
    fn class_factors(&self, labels: &[i32]) -> Vec<f64> {
        let mut factors = vec![1.0; labels.len()];
        for (label, weight) in self.weights {
            match labels.iter().position(|known| known == label) {
                Some(place) => factors[place] *= weight,
                None if self.is_whole => {
                    eprintln!("WARNING: class label {label} specified in weight is not found");
                }
                None => {}
            }
        }
        if self.param.svm_type != svm_type::C_SVC {
            factors.fill(1.0);
        }
        factors
    }

    /// The lines that LIBSVM prints for each score; `cost` is C where both classes have the same.
    fn print_score(
        &self,
        trained: &Trained,
        place: usize,
        rho: f64,
        rows: usize,
        cost: Option<f64>,
    ) -> Result<(), String> {
        let lines = TrainingLines {
            machine: &trained.machine,
            subproblems: &trained.report.subproblems,
            expansions: &trained.expansions,
            svm_type: i64::from(self.param.svm_type),
            nu: self.param.nu,
            cost: self.param.C,
            examples: &self.examples.rows,
            targets: self.targets,
        };
        let text = lines.subproblem(place, rho, rows, cost).map_err(|error| error.to_string())?;
        info(&text);
        Ok(())
    }

    /// A and B of a pair: `svm_binary_svc_probability`.
    fn pair_sigmoid(&self, groups: &Groups, i: usize, j: usize) -> Result<(f64, f64), String> {
        let own: Vec<usize> = groups.rows(i).iter().chain(groups.rows(j)).copied().collect();
        let (count, first) = (own.len(), groups.rows(i).len());
        let is_first: Vec<bool> = (0..count).map(|at| at < first).collect();
        let cost = |class: usize| {
            let own = self.weights.iter().filter(|(label, _)| *label == groups.labels[class]);
            own.map(|(_, factor)| factor).product::<f64>() * self.param.C
        };
        let weights = [(1, cost(i)), (-1, cost(j))];
        let param = svm_parameter { C: 1.0, ..*self.param };
        let order = shuffled(count);
        let mut values = vec![0.0; count];
        for fold in 0..FOLDS {
            let (begin, end) = (fold * count / FOLDS, (fold + 1) * count / FOLDS);
            let kept: Vec<usize> = order[..begin].iter().chain(&order[end..]).copied().collect();
            let test = &order[begin..end];
            let positive = kept.iter().filter(|at| is_first[**at]).count();
            if positive == 0 || positive == kept.len() {
                let value = match (positive, kept.len()) {
                    (_, 0) => 0.0,
                    (0, _) => -1.0,
                    _ => 1.0,
                };
                test.iter().for_each(|at| values[*at] = value);
                continue;
            }
            let rows_of = |places: &[usize]| places.iter().map(|at| own[*at]).collect::<Vec<_>>();
            let examples = self.examples.select(&rows_of(&kept));
            let targets: Vec<f64> =
                kept.iter().map(|at| if is_first[*at] { 1.0 } else { -1.0 }).collect();
            let task = Task {
                examples: &examples,
                targets: &targets,
                param: &param,
                weights: &weights,
                is_whole: false,
            };
            let fit = task.fit()?;
            let sign = f64::from(fit.labels[0]);
            let machine = fit.machine.ok_or("a pair of classes has a machine")?;
            let tested = machine.values(&self.examples.select(&rows_of(test)).rows)?;
            test.iter().zip(tested).for_each(|(at, value)| values[*at] = sign * value[0]);
        }
        Ok(sigmoid::fit(&values, &is_first))
    }

    /// The scale of the errors of a regression: `svm_svr_probability`.
    fn laplace(&self) -> Result<f64, String> {
        let param = svm_parameter { probability: 0, ..*self.param };
        let answers = Task { param: &param, ..*self }.cross_validation(FOLDS)?;
        let errors: Vec<f64> = answers
            .iter()
            .zip(self.targets)
            .map(|(answer, target)| (target - answer).abs())
            .collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let limit = 5.0 * (2.0 * mean * mean).sqrt();
        let kept = errors.iter().filter(|error| **error <= limit);
        let sigma = kept.clone().sum::<f64>() / kept.count() as f64;
        info(&format!(
            "Prob. model for test data: target value = predicted value + z,\nz: Laplace distribution \
             e^(-|z|/sigma)/(2sigma),sigma= {}\n",
            mercer::printf::g(sigma, 6)
        ));
        Ok(sigma)
    }

    /// Marks between quantiles of the scores, half of them below zero: `svm_one_class_probability`.
    fn marks(&self, fit: &Fit) -> Result<Option<Vec<f64>>, String> {
        const HALF: usize = MARKS / 2;
        let Some(machine) = &fit.machine else { return Ok(None) };
        let values = machine.values(&self.examples.rows)?;
        let mut values: Vec<f64> = values.into_iter().map(|values| values[0]).collect();
        values.sort_by(f64::total_cmp);
        let below = values.iter().position(|value| *value >= 0.0).unwrap_or(0);
        let above = values.len() - below;
        if below < HALF || above < HALF {
            eprintln!(
                "WARNING: number of positive or negative decision values <{HALF}; too few to do a \
                 probability estimation."
            );
            return Ok(None);
        }
        let quantile = |at: usize| match at.cmp(&HALF) {
            std::cmp::Ordering::Less => values[at * below / HALF],
            std::cmp::Ordering::Equal => 0.0,
            std::cmp::Ordering::Greater => values[below - 1 + (at - HALF) * above / HALF],
        };
        Ok(Some((0..MARKS).map(|at| f64::midpoint(quantile(at), quantile(at + 1))).collect()))
    }

    /// `svm_cross_validation`: the answer for each row by the model of the other folds.
    pub(crate) fn cross_validation(&self, folds: usize) -> Result<Vec<f64>, String> {
        let (order, starts) = self.folds(folds);
        let mut answers = vec![0.0; order.len()];
        for fold in starts.windows(2) {
            let kept: Vec<usize> =
                order[..fold[0]].iter().chain(&order[fold[1]..]).copied().collect();
            let test = &order[fold[0]..fold[1]];
            let examples = self.examples.select(&kept);
            let targets: Vec<f64> = kept.iter().map(|row| self.targets[*row]).collect();
            let fit = Task { examples: &examples, targets: &targets, ..*self }.fit()?;
            let found = fit.answers(&self.examples.select(test).rows, self.param)?;
            test.iter().zip(found).for_each(|(row, answer)| answers[*row] = answer);
        }
        Ok(answers)
    }

    /// Rows in the order of their folds, and where each fold begins: stratified for classes, where there are more rows
    /// than folds.
    fn folds(&self, folds: usize) -> (Vec<usize>, Vec<usize>) {
        let rows = self.targets.len();
        if !self.param.is_classification() || folds >= rows {
            let starts = (0..=folds).map(|fold| fold * rows / folds).collect();
            return (shuffled(rows), starts);
        }
        let groups = Groups::new(self.targets);
        let mut parts = vec![Vec::new(); folds];
        for class in 0..groups.classes() {
            let mut own = groups.rows(class).to_vec();
            shuffle(&mut own);
            let count = own.len();
            for (fold, part) in parts.iter_mut().enumerate() {
                part.extend_from_slice(&own[fold * count / folds..(fold + 1) * count / folds]);
            }
        }
        let mut starts = vec![0];
        parts.iter().for_each(|part| starts.push(starts[starts.len() - 1] + part.len()));
        (parts.concat(), starts)
    }
}

/// A permutation drawn as LIBSVM draws it.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    shuffle(&mut order);
    order
}

fn shuffle(values: &mut [usize]) {
    let count = values.len();
    for at in 0..count {
        // SAFETY: `rand` of the C library takes nothing; LIBSVM draws from it, and callers seed it by `srand`.
        let drawn = unsafe { libc::rand() } as usize;
        values.swap(at, at + drawn % (count - at));
    }
}

/// The coefficients of a score and its rho; the sign is that of LIBSVM's order of the two classes.
fn fitted_score(expansion: &Expansion, sign: f64) -> FittedScore {
    let terms = expansion.examples.iter().zip(&expansion.coefficients);
    let terms = terms.filter(|(_, beta)| **beta != 0.0);
    FittedScore {
        terms: terms.map(|(row, beta)| (*row as usize, sign * beta)).collect(),
        rho: sign * expansion.offset,
    }
}

/// Place and sign of the score of each of LIBSVM's pairs among those of the machine, whose classes may come in another
/// order.
fn score_order(trained: &Trained, classes: usize) -> Result<Vec<(usize, f64)>, String> {
    let names = trained.machine.classes();
    let place =
        |class: usize| names.iter().position(|name| *name == ClassName::Number(class as f64));
    let number =
        |first: usize, second: usize| pairs(classes).position(|pair| pair == (first, second));
    pairs(classes)
        .map(|(i, j)| {
            let (i, j) = (place(i)?, place(j)?);
            if i < j { Some((number(i, j)?, 1.0)) } else { Some((number(j, i)?, -1.0)) }
        })
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| "a class was lost in training".to_owned())
}
