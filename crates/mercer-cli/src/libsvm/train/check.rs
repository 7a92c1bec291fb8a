//! LIBSVM's own check of the parameters of `svm-train`, in its order and words; and the data that it trains without a machine.

use std::collections::BTreeMap;

use mercer::data::Targets;

use super::super::Refused;
use super::super::single_class::{SingleClass, WARNING};
use super::SvmTrainOptions;
use crate::output::save_text;
use mercer::printf::g;

impl SvmTrainOptions {
    /// LIBSVM's `svm_check_parameter`.
    pub(super) fn check(&self, targets: &Targets) -> Result<(), Refused> {
        let (has_gamma, is_polynomial) = (matches!(self.kernel, 1..=3), self.kernel == 1);
        let (has_cost, has_nu) = (matches!(self.kind, 0 | 3 | 4), matches!(self.kind, 1 | 2 | 4));
        let checks = [
            (!(0..=4).contains(&self.kind), "unknown svm type"),
            (!(0..=4).contains(&self.kernel), "unknown kernel type"),
            (has_gamma && self.gamma.is_some_and(|gamma| gamma < 0.0), "gamma < 0"),
            (is_polynomial && self.degree < 0, "degree of polynomial kernel < 0"),
            (self.megabytes <= 0.0, "cache_size <= 0"),
            (self.tolerance <= 0.0, "eps <= 0"),
            (has_cost && self.cost <= 0.0, "C <= 0"),
            (has_nu && (self.nu <= 0.0 || self.nu > 1.0), "nu <= 0 or nu > 1"),
            (self.kind == 3 && self.tube < 0.0, "p < 0"),
            (!matches!(self.shrinking, 0 | 1), "shrinking != 0 and shrinking != 1"),
            (!matches!(self.probability, 0 | 1), "probability != 0 and probability != 1"),
            (self.kind == 1 && self.is_infeasible(targets), "specified nu is infeasible"),
        ];
        match checks.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, text)) => Err(Refused(text)),
            None => Ok(()),
        }
    }

    /// Whether nu asks more of a pair of classes than its smaller class can give.
    fn is_infeasible(&self, targets: &Targets) -> bool {
        let Targets::Numbers(labels) = targets else { return false };
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        labels.iter().for_each(|label| *counts.entry(label.to_bits()).or_default() += 1);
        let counts: Vec<f64> = counts.into_values().map(|count| count as f64).collect();
        mercer::machine::pairs(counts.len()).any(|(first, second)| {
            let (one, other) = (counts[first], counts[second]);
            self.nu * (one + other) / 2.0 > one.min(other)
        })
    }

    /// The model of a classification whose rows all have one label.
    pub(super) fn single_class(&self, targets: &Targets) -> Option<SingleClass> {
        let is_classification = matches!(self.kind, 0 | 1);
        SingleClass::of(targets, self.probability != 0).filter(|_| is_classification)
    }

    /// What LIBSVM does with one class: a warning, and a model without vectors.
    pub(super) fn run_single(&self, single: SingleClass, columns: usize) -> anyhow::Result<()> {
        let runs = self.folds.unwrap_or(1);
        if !self.is_quiet {
            for _ in 0..runs {
                println!("{WARNING}");
                print!("{}", mercer::svm_train::total(0));
            }
        }
        if self.folds.is_some() {
            println!("Cross Validation Accuracy = 100%");
            return Ok(());
        }
        save_text(&self.model, &single.text(&self.head(columns)))
    }

    /// Type and kernel, as the first lines of a model.
    fn head(&self, columns: usize) -> String {
        let gamma = g(self.gamma(columns), 17);
        let (degree, coef0) = (self.degree, g(self.coef0, 17));
        let kernel = match self.kernel {
            0 => "linear\n".to_owned(),
            1 => format!("polynomial\ndegree {degree}\ngamma {gamma}\ncoef0 {coef0}\n"),
            2 => format!("rbf\ngamma {gamma}\n"),
            3 => format!("sigmoid\ngamma {gamma}\ncoef0 {coef0}\n"),
            _ => "precomputed\n".to_owned(),
        };
        let kind = if self.kind == 1 { "nu_svc" } else { "c_svc" };
        format!("svm_type {kind}\nkernel_type {kernel}")
    }
}
