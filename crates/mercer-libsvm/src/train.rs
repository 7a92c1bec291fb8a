//! `svm_train` and `svm_cross_validation`: the caller's structures in, LIBSVM's structures out. How it is trained is in
//! `fit.rs`.

use std::ffi::c_int;

use mercer::data::caught;

use crate::examples::{Examples, Groups};
use crate::fit::{Fit, FittedProbabilities, Task};
use crate::layout::{Fields, svm_node, svm_parameter, svm_problem};
use crate::memory;

/// A problem of the caller as slices.
pub(crate) struct Problem<'a> {
    pub(crate) targets: &'a [f64],
    pointers: &'a [*mut svm_node],
    rows: Vec<&'a [svm_node]>,
    weights: Vec<(i32, f64)>,
    param: &'a svm_parameter,
}

impl<'a> Problem<'a> {
    /// `None` if something that is needed is null.
    ///
    /// # Safety
    /// The pointers are null or point to as much as LIBSVM's README says; every row has an end.
    pub(crate) unsafe fn new(
        problem: *const svm_problem,
        param: *const svm_parameter,
    ) -> Option<Self> {
        // SAFETY: as the caller of this function promises.
        unsafe {
            let (problem, param) = (problem.as_ref()?, param.as_ref()?);
            let targets = memory::slice(problem.y, problem.l);
            let pointers = memory::slice(problem.x, problem.l);
            let labels = memory::slice(param.weight_label, param.nr_weight);
            let factors = memory::slice(param.weight, param.nr_weight);
            if targets.len() != pointers.len() || targets.is_empty() {
                return None;
            }
            let rows = pointers.iter().map(|row| memory::nodes(*row)).collect();
            let weights = labels.iter().copied().zip(factors.iter().copied()).collect();
            Some(Self { targets, pointers, rows, weights, param })
        }
    }

    /// Trains in a pool of threads of its own, which ends with the call: programs that fork find none. A mistake of ours is an
    /// error like others: callers expect a result.
    pub(crate) fn run<T: Send>(
        &self,
        body: impl FnOnce(&Task<'_>) -> Result<T, String> + Send,
    ) -> Result<T, String> {
        let mistake = |said| Err(format!("a mistake in mercer, please report it: {said}"));
        caught(|| self.run_in_pool(body)).unwrap_or_else(mistake)
    }

    fn run_in_pool<T: Send>(
        &self,
        body: impl FnOnce(&Task<'_>) -> Result<T, String> + Send,
    ) -> Result<T, String> {
        let examples = Examples::new(&self.rows, self.param)?;
        if let Some(row) = self.targets.iter().position(|target| !target.is_finite()) {
            return Err(format!("row {}: the target {} is not finite", row + 1, self.targets[row]));
        }
        let task = Task {
            examples: &examples,
            targets: self.targets,
            param: self.param,
            weights: &self.weights,
            is_whole: true,
        };
        let pool = mercer::threads::pool(None).map_err(|error| error.to_string())?;
        let sent = Sent(task);
        pool.install(move || {
            let whole = sent;
            body(&whole.0)
        })
    }

    /// The members of the model that `svm_train` returns; a model without support vectors if training failed, because
    /// callers of LIBSVM expect a model.
    pub(crate) fn model(&self, has_marks: bool) -> Fields {
        let trained = self.run(|task| task.fit());
        match trained {
            Ok(fit) => self.fields(&fit, has_marks),
            Err(sentence) => {
                eprintln!("mercer: svm_train: {sentence}; the model has no support vectors");
                self.fields(&self.nothing(), has_marks)
            }
        }
    }

    /// A model of the right shape that always gives one answer.
    fn nothing(&self) -> Fit {
        let is_classification = self.param.is_classification();
        let labels = if is_classification { Groups::new(self.targets).labels } else { Vec::new() };
        Fit::nothing(labels, self.param)
    }

    /// The members of a model, in memory of their own; rows are those of the problem.
    fn fields(&self, fit: &Fit, has_marks: bool) -> Fields {
        let groups = self.param.is_classification().then(|| Groups::new(self.targets));
        let mut is_used = vec![false; self.targets.len()];
        fit.scores.iter().flat_map(|score| &score.terms).for_each(|(row, _)| is_used[*row] = true);
        // By class, then by row.
        let order: Vec<usize> = match &groups {
            Some(groups) => groups.order.clone(),
            None => (0..self.targets.len()).collect(),
        };
        let supports: Vec<usize> = order.into_iter().filter(|row| is_used[*row]).collect();
        let mut place_of = vec![usize::MAX; self.targets.len()];
        supports.iter().enumerate().for_each(|(place, row)| place_of[*row] = place);
        let arrays = coefficients(fit, groups.as_ref(), &place_of, supports.len());
        let arrays: Vec<*mut f64> = arrays.iter().map(|array| memory::copied(array)).collect();
        let rows: Vec<*mut svm_node> = supports.iter().map(|row| self.pointers[*row]).collect();
        let indices: Vec<c_int> = supports.iter().map(|row| *row as c_int + 1).collect();
        let rho: Vec<f64> = fit.scores.iter().map(|score| score.rho).collect();
        let per_class = groups.as_ref().map(|groups| {
            let used =
                |class: usize| groups.rows(class).iter().filter(|row| is_used[**row]).count();
            (0..groups.classes()).map(|class| used(class) as c_int).collect::<Vec<_>>()
        });
        let (mut a, mut b, mut marks) = (None, None, None);
        match &fit.probabilities {
            Some(FittedProbabilities::Sigmoids(first, second)) => {
                (a, b) = (Some(first.as_slice()), Some(second.as_slice()));
            }
            Some(FittedProbabilities::Laplace(sigma)) => a = Some(std::slice::from_ref(sigma)),
            Some(FittedProbabilities::Marks(known)) if has_marks => marks = Some(known.as_slice()),
            _ => {}
        }
        Fields {
            param: *self.param,
            classes: groups.as_ref().map_or(2, Groups::classes) as c_int,
            count: supports.len() as c_int,
            supports: memory::copied(&rows),
            coefficients: memory::copied(&arrays),
            rho: memory::copied(&rho),
            prob_a: memory::copied_if(a),
            prob_b: memory::copied_if(b),
            marks: memory::copied_if(marks),
            indices: memory::copied(&indices),
            labels: memory::copied_if(groups.is_some().then_some(fit.labels.as_slice())),
            per_class: memory::copied_if(per_class.as_deref()),
            frees_supports: 0,
        }
    }
}

/// A task that another thread works on while the caller waits.
struct Sent<'t>(Task<'t>);

// SAFETY: a task holds references to rows, targets and parameters; its only pointers are those of the weights of the parameters,
// which were copied before and are not read again.
unsafe impl Send for Sent<'_> {}

/// LIBSVM's `sv_coef`: the coefficients of pair (i, j) are in array j - 1 for vectors of class i, in array i for those of
/// class j.
fn coefficients(
    fit: &Fit,
    groups: Option<&Groups>,
    place_of: &[usize],
    count: usize,
) -> Vec<Vec<f64>> {
    let Some(groups) = groups else {
        let mut only = vec![0.0; count];
        fit.scores[0].terms.iter().for_each(|(row, beta)| only[place_of[*row]] = *beta);
        return vec![only];
    };
    let mut class_of = vec![0; place_of.len()];
    for class in 0..groups.classes() {
        groups.rows(class).iter().for_each(|row| class_of[*row] = class);
    }
    let mut arrays = vec![vec![0.0; count]; groups.classes().saturating_sub(1)];
    for ((i, j), score) in mercer::machine::pairs(groups.classes()).zip(&fit.scores) {
        for (row, beta) in &score.terms {
            let array = if class_of[*row] == i { j - 1 } else { i };
            arrays[array][place_of[*row]] = *beta;
        }
    }
    arrays
}
