//! How the demo's answers compare with LIBSVM's: labels that its `svm-predict` gave to held-out digits with the model that its
//! trainer made.

use std::time::Instant;

use anyhow::Context;
use mercer::data::{Dataset, Matrix};
use mercer::machine::{Machine, Model, file};
use mercer::query::Plan;

use super::digits::{self, TRAINING_ROWS};
use super::train_on;
use crate::labels;

/// How the imported LIBSVM model and the machine trained here compare on held-out digits.
pub(super) struct LibsvmComparison {
    pub(super) supports: usize,
    /// Held-out digits.
    pub(super) queries: usize,
    /// Labels that change when the LIBSVM model is written as a mercer file.
    pub(super) changed_by_mercer: usize,
    /// Labels that change when it is written as LIBSVM text.
    pub(super) changed_by_libsvm: usize,
    pub(super) training_seconds: f64,
    /// Labels of the imported model, answered here, that differ from those of `svm-predict`.
    pub(super) imported: usize,
    /// Labels of the machine trained here that differ from those of `svm-predict`.
    pub(super) disagreements: usize,
}

/// Trains a machine on the digits that LIBSVM had, and compares both.
pub(super) fn compare(
    training: &Dataset,
    held_out: &Dataset,
) -> anyhow::Result<(Machine, LibsvmComparison)> {
    let imported = file::from_bytes(digits::LIBSVM_MODEL)?;
    let rows = &held_out.examples;
    let changed_by_mercer = changed(&imported, "mercer", rows)?;
    let changed_by_libsvm = changed(&imported, "libsvm", rows)?;
    let start = Instant::now();
    let machine = train_on(training, "rbf(gamma=0.001)", "c_svc(C=10)")?;
    let training_seconds = start.elapsed().as_secs_f64();
    let comparison = LibsvmComparison {
        supports: imported.machine.supports().rows(),
        queries: rows.rows(),
        changed_by_mercer,
        changed_by_libsvm,
        training_seconds,
        imported: unlike_svm_predict(&imported.machine, &Plan::exact(&imported.machine), rows)?,
        disagreements: unlike_svm_predict(&machine, &Plan::exact(&machine), rows)?,
    };
    Ok((machine, comparison))
}

impl LibsvmComparison {
    pub(super) fn print(&self) {
        let Self { supports, queries, changed_by_mercer, changed_by_libsvm, imported, .. } = self;
        println!(
            "A LIBSVM model of handwritten digits: {supports} support vectors, 10 classes, 45 one-vs-one \
             classifiers."
        );
        println!(
            "  {queries} new digits: {imported} labels differ from those of LIBSVM's svm-predict"
        );
        println!(
            "  labels that change when it is written as a mercer file: {changed_by_mercer}; as LIBSVM text: \
             {changed_by_libsvm}"
        );
        let seconds = self.training_seconds;
        println!("Trained here on the same {TRAINING_ROWS} digits in {seconds:.2} s:");
        if self.disagreements == 0 {
            println!("  {queries} new digits: identical labels to LIBSVM");
        } else {
            println!("  {queries} new digits: {} labels differ from LIBSVM's", self.disagreements);
        }
    }
}

/// The labels of a plan, as text.
pub(super) fn names(machine: &Machine, plan: &Plan, rows: &Matrix) -> anyhow::Result<Vec<String>> {
    let decisions = plan.decide(rows)?;
    Ok(decisions.iter().map(|decision| labels::text(machine.classes(), decision.answer)).collect())
}

/// On how many held-out digits a plan gives another label than `svm-predict`.
pub(super) fn unlike_svm_predict(
    machine: &Machine,
    plan: &Plan,
    held_out: &Matrix,
) -> anyhow::Result<usize> {
    let names = names(machine, plan, held_out)?;
    let theirs = digits::svm_predict_labels();
    anyhow::ensure!(names.len() == theirs.len(), "a label of svm-predict for each held-out digit");
    Ok(names.iter().zip(theirs).filter(|(ours, theirs)| ours != theirs).count())
}

/// How many labels change when the model is written in a format and read back.
fn changed(model: &Model, format: &str, queries: &Matrix) -> anyhow::Result<usize> {
    let format = file::format(format).with_context(|| format!("no format '{format}'"))?;
    let again = file::from_bytes(&file::to_bytes(model, format)?)?;
    // Both have the classes 0 to 9, maybe in another order.
    let of = |machine: &Machine| names(machine, &Plan::exact(machine), queries);
    let (before, after) = (of(&model.machine)?, of(&again.machine)?);
    Ok(before.iter().zip(&after).filter(|(a, b)| a != b).count())
}
