//! The reduction of a training problem to binary subproblems: which classes each one separates, and targets and
//! weights of its examples. This is the only place that builds them: trainings ([`Reduction`]), folds
//! ([`crate::validate`]) and packed rows ([`crate::linear`]) take them from here.
//! What a subproblem minimises is in [`crate::formulations`].

use mercer_machine::{Output, Scheme, pairs};

use crate::Subproblem;
use crate::problem::Problem;

/// The binary subproblems of a training, over shared sets of examples.
///
/// One-vs-one: a subproblem for each pair of classes in LIBSVM's order; kernel rows of a class serve all pairs of
/// that class. One-vs-rest: each class against all others, over the same examples; two classes need one subproblem.
/// Regression and novelty detection: one subproblem over all examples.
pub(crate) struct Reduction<'p> {
    problem: &'p Problem<'p>,
    example_sets: Vec<Vec<u32>>,
}

impl<'p> Reduction<'p> {
    pub(crate) fn new(problem: &'p Problem<'p>) -> Self {
        let example_sets = if has_sets_by_class(&problem.output) {
            let members = problem.labels.members(&problem.weights);
            if members.len() == 2 { vec![members.concat()] } else { members }
        } else {
            vec![problem.weighted_examples()]
        };
        Self { problem, example_sets }
    }

    /// Disjoint sets of examples of weight above zero; a subproblem reads one or two of them.
    pub(crate) fn example_sets(&self) -> &[Vec<u32>] {
        &self.example_sets
    }

    /// Number of subproblems.
    pub(crate) fn count(&self) -> usize {
        self.problem.subproblem_count()
    }

    /// The name of one subproblem: `3 against 8`, `8 against the rest`, `all examples`.
    pub(crate) fn name(&self, number: usize) -> String {
        let names = &self.problem.labels.names;
        match (&self.problem.output, self.classes(number)) {
            (Output::Classes { .. }, ClassPair { plus, minus: Some(minus) }) => {
                format!("{} against {}", names[plus as usize], names[minus as usize])
            }
            (Output::Classes { .. }, ClassPair { plus, minus: None }) => {
                format!("{} against the rest", names[plus as usize])
            }
            _ => "all examples".to_owned(),
        }
    }

    /// Which classes one subproblem separates.
    pub(crate) fn classes(&self, number: usize) -> ClassPair {
        ClassPair::of(&self.problem.output, number)
    }

    /// One subproblem with the targets and weights of its examples.
    pub(crate) fn subproblem(&self, number: usize) -> BinarySubproblem {
        let classes = self.classes(number);
        let sets = match classes.minus {
            Some(minus) if self.example_sets.len() > 1 => {
                vec![classes.plus as usize, minus as usize]
            }
            _ => vec![0],
        };
        BinarySubproblem::new(self.problem, self.name(number), classes, sets, &self.example_sets)
    }

    /// Whether several subproblems read the same set of examples.
    pub(crate) fn shares_example_sets(&self) -> bool {
        self.count() > 1
    }
}

/// Whether each class has sets of examples of its own: a subproblem then reads those of two classes.
pub(crate) fn has_sets_by_class(output: &Output) -> bool {
    matches!(output, Output::Classes { scheme: Scheme::OneVsOne, .. })
}

/// The classes that a subproblem separates, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClassPair {
    /// The class whose target is +1.
    pub(crate) plus: u32,
    /// The class whose target is -1; `None` for all others.
    pub(crate) minus: Option<u32>,
}

impl ClassPair {
    /// Those of one subproblem. All examples without classes count as class 0.
    pub(crate) fn of(output: &Output, number: usize) -> Self {
        match output {
            Output::Classes { names, scheme: Scheme::OneVsOne } => {
                let pair = pairs(names.len()).nth(number);
                let (first, second) = pair.expect("there is a pair for each subproblem");
                Self { plus: first as u32, minus: Some(second as u32) }
            }
            Output::Classes { scheme: Scheme::OneVsRest, .. } => {
                Self { plus: number as u32, minus: None }
            }
            _ => Self { plus: 0, minus: None },
        }
    }

    /// Whether examples of this class belong to the subproblem.
    pub(crate) fn contains(self, class: u32) -> bool {
        self.minus.is_none_or(|minus| class == minus || class == self.plus)
    }

    /// The target of examples of this class: +1 or -1.
    pub(crate) fn target(self, class: u32) -> f64 {
        if class == self.plus { 1.0 } else { -1.0 }
    }
}

/// One subproblem: which sets of examples it reads, and targets and weights of their examples in the same order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BinarySubproblem {
    pub(crate) name: String,
    /// Numbers of its sets of examples.
    pub(crate) sets: Vec<usize>,
    pub(crate) targets: Vec<f64>,
    pub(crate) weights: Vec<f64>,
}

impl BinarySubproblem {
    /// A subproblem over some of the sets of examples. Targets are +1 and -1 by class, the values of a regression,
    /// or 1 for novelty detection.
    pub(crate) fn new(
        problem: &Problem<'_>,
        name: String,
        classes: ClassPair,
        sets: Vec<usize>,
        example_sets: &[Vec<u32>],
    ) -> Self {
        let has_classes = matches!(problem.output, Output::Classes { .. });
        let target = |example: &u32| {
            let example = *example as usize;
            if has_classes {
                classes.target(problem.labels.class_of[example])
            } else {
                problem.values.get(example).copied().unwrap_or(1.0)
            }
        };
        let examples = sets.iter().flat_map(|set| &example_sets[*set]);
        let targets = examples.clone().map(target).collect();
        let weights = examples.map(|example| problem.weights[*example as usize]).collect();
        Self { name, sets, targets, weights }
    }

    /// As formulations see it.
    pub(crate) fn view(&self) -> Subproblem<'_> {
        Subproblem { name: &self.name, targets: &self.targets, weights: &self.weights }
    }

    /// Its examples, given all sets of examples.
    pub(crate) fn examples(&self, example_sets: &[Vec<u32>]) -> Vec<u32> {
        self.sets.iter().flat_map(|set| example_sets[*set].iter().copied()).collect()
    }

    /// Whether a kernel matrix over both is the same, weights included.
    pub(crate) fn shares_examples(&self, other: &Self) -> bool {
        self.sets == other.sets && self.weights == other.weights
    }
}

/// Number of subproblems of so many classes; two classes are one subproblem in either scheme.
pub(crate) fn subproblem_count(classes: usize, scheme: Scheme) -> usize {
    match scheme {
        Scheme::OneVsOne => classes * (classes - 1) / 2,
        Scheme::OneVsRest if classes == 2 => 1,
        Scheme::OneVsRest => classes,
    }
}
