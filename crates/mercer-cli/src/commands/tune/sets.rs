//! Prediction sets beside a tuned plan: a part of the sample that the plan never sees calibrates them.

use std::borrow::Cow;

use anyhow::Context;
use mercer::compile::{CompileError, ConformalFit, conformal_split, conformalize};
use mercer::data::Matrix;
use mercer::machine::{Answer, Conformal, Model};
use mercer_report::svg::Series;
use mercer_report::{Drawing, Page};
use serde_json::{Value, json};

/// A calibration, and the rows of the sample that are left for the plan.
pub(in crate::commands) struct Sets {
    pub(in crate::commands) fit: ConformalFit,
    rest: Vec<usize>,
    is_regression: bool,
}

/// What is stored of a calibration, as JSON.
pub(in crate::commands) fn object(conformal: &Conformal) -> Value {
    json!({
        "coverage": conformal.coverage(), "rows": conformal.rows(), "quantile": conformal.quantile(),
    })
}

/// The rows and labels that tune the plan: all of them without prediction sets.
pub(super) fn rest<'a>(
    sets: Option<&Sets>,
    sample: &'a Matrix,
    labels: Option<&'a [Option<Answer>]>,
) -> (Cow<'a, Matrix>, Option<Cow<'a, [Option<Answer>]>>) {
    let Some(sets) = sets else {
        return (Cow::Borrowed(sample), labels.map(Cow::Borrowed));
    };
    let own =
        |labels: &[Option<Answer>]| Cow::Owned(sets.rest.iter().map(|row| labels[*row]).collect());
    (Cow::Owned(sample.select(sets.rest.iter().copied())), labels.map(own))
}

impl Sets {
    /// None without a coverage.
    pub(super) fn fit(
        model: &Model,
        sample: &Matrix,
        labels: Option<&[Option<Answer>]>,
        coverage: Option<f64>,
        seed: u64,
    ) -> anyhow::Result<Option<Self>> {
        let Some(coverage) = coverage else { return Ok(None) };
        let place = || "--coverage".to_owned();
        let labels =
            labels.context("--coverage needs a sample with targets, and this one has none")?;
        if let Some(row) = labels.iter().position(Option::is_none) {
            let row = row + 1;
            return Err(CompileError::UnknownTarget { row }).with_context(place);
        }
        let (own, rest) = conformal_split(sample.rows(), coverage, seed).with_context(place)?;
        let targets: Vec<Option<Answer>> = own.iter().map(|row| labels[*row]).collect();
        let rows = sample.select(own.iter().copied());
        let fit = conformalize(&model.machine, &rows, &targets, coverage).with_context(place)?;
        let is_regression = model.machine.classes().is_empty();
        Ok(Some(Self { fit, rest, is_regression }))
    }

    pub(super) fn object(&self) -> Value {
        let mut object = object(&self.fit.conformal);
        object["mean_size"] = json!(self.fit.mean_size);
        object
    }

    pub(super) fn sentence(&self) -> String {
        let (conformal, size) = (&self.fit.conformal, self.fit.mean_size);
        let what = if self.is_regression {
            format!("intervals of length {size:.4}")
        } else {
            format!("sets of {size:.2} labels on average")
        };
        format!(
            "{what} hold the true target of at least {:.4} of rows drawn like the sample (calibrated on {} rows that the plan \
             never saw)",
            conformal.coverage(),
            conformal.rows(),
        )
    }

    /// The section of the report: what is promised, and what other coverages would take.
    pub(super) fn add_to(&self, page: &mut Page) {
        page.heading("Prediction sets");
        page.text(&format!("In this model, {}.", self.sentence()));
        let sorted = &self.fit.nonconformities;
        let count = sorted.len() as f64;
        let points =
            sorted.iter().zip(1..).map(|(found, rank)| (f64::from(rank) / (count + 1.0), *found));
        let name = if self.is_regression {
            "half length of the interval"
        } else {
            "quantile of minus the margin"
        };
        let line = Series::line("sample", points.collect());
        page.drawings(&[Drawing::plot("What a coverage takes", "coverage", name, &[line])]);
    }
}
