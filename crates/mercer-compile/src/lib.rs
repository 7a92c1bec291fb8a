//! How a plan is fitted to a machine: stages, calibration, and the search for the fastest plan. How a plan answers queries
//! is in `mercer_query`.
//!
//! ```
//! use mercer_data::Matrix;
//! use mercer_machine::{Machine, Output, Score};
//! let kernel = mercer_kernel::parse("polynomial(degree=2, gamma=1, coef0=1)")?;
//! let supports = Matrix::dense(2, vec![0.0, 1.0, 2.0, -1.0, 1.0, 1.0])?;
//! let scores = vec![Score::expansion(&[1.0, -0.5, 0.25], 0.5)];
//! let machine = Machine::new(kernel, supports, scores, Output::Novelty)?;
//! let text = "cascade(low_precision, spectral, exact)".parse()?;
//! let sections = mercer_compile::compile(&machine, &text, None)?;
//! let plan = mercer_query::Plan::fitted(&machine, &sections)?;
//! assert_eq!(plan.spec(), text);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod basis;
mod boundary;
mod compiler;
pub mod compress;
mod conformal;
mod distillation_set;
mod error;
mod fit;
mod kernel_gradient;
mod minimize;
mod repeats;
mod ridge;
pub mod risk;
pub mod tune;
mod verification;

pub use compiler::{Compiled, Compiler, Task};
pub use compress::{COMPRESSORS, Compressed, Compression, CompressionReport, Goal, compressor};
pub use conformal::{
    ConformalFit, ConformalRetest, conformal_split, conformalize, retest_conformal,
};
pub use error::CompileError;
pub use fit::{FITTERS, Fitter};
pub use mercer_query::verify::{Progress, Watch};
pub use repeats::{LabelAgreement, Repeats};
pub use risk::Target;
pub use verification::PlanVerification;

use mercer_data::Matrix;
use mercer_machine::{Answer, Machine, PlanSections};
use mercer_spec::{Spec, Value};

/// Rows that a fit may use beside the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct FittingData<'a> {
    /// Queries such as will be asked, none of them a training row.
    pub sample: Option<&'a Matrix>,
    /// Rows the machine was trained on: stages may choose among them or learn from them; nothing is
    /// calibrated on them.
    pub training: Option<&'a Matrix>,
    /// What is known to be right for each row of the sample, as far as it is an answer of the machine.
    pub sample_labels: Option<&'a [Option<Answer>]>,
    /// The same for the training rows.
    pub training_labels: Option<&'a [Option<Answer>]>,
}

/// Fits the stages of a plan to a machine: `exact`, `cascade(stage, ..., exact)`, or a single stage. Plans that estimate
/// are calibrated on the sample with the usual [`Target`]; [`Compiler`] has more to choose.
///
/// # Errors
/// If the text is not a plan, a stage does not fit the machine, or the sample does not allow the promise.
pub fn compile(
    machine: &Machine,
    plan: &Spec,
    sample: Option<&Matrix>,
) -> Result<PlanSections, CompileError> {
    compile_with(machine, plan, FittingData { sample, ..FittingData::default() }, Watch::NOBODY)
}

/// As [`compile`], with all rows there are, and a progress callback.
///
/// # Errors
/// As [`compile`], or if the callback ends it.
pub fn compile_with(
    machine: &Machine,
    plan: &Spec,
    fitting_data: FittingData<'_>,
    watch: Watch<'_>,
) -> Result<PlanSections, CompileError> {
    Ok(Compiler::new(machine).fitting_data(fitting_data).watch(watch).run(plan)?.sections)
}

/// Whether a name is probably a slip for that of a stage.
fn is_near_a_stage(name: &str) -> bool {
    mercer_spec::nearest(name, FITTERS.iter().map(|fitter| fitter.stage.name)).is_some()
}

/// The stages before the exact one.
fn stages(plan: &Spec) -> Result<Vec<Spec>, CompileError> {
    if plan == &Spec::new("exact") {
        return Ok(Vec::new());
    }
    let not_a_plan = |reason| Err(CompileError::NotAPlan { text: plan.to_string(), reason });
    if Fitter::named(plan.name()).is_some() {
        return Ok(vec![plan.clone()]);
    }
    if plan.name() != "cascade" && is_near_a_stage(plan.name()) {
        return Err(CompileError::unknown(plan.name()));
    }
    if plan.name() != "cascade" || !plan.named().is_empty() {
        return not_a_plan("a plan is exact, cascade(stage, ..., exact), or a single stage");
    }
    let mut stages = Vec::new();
    for value in plan.positional() {
        match value {
            Value::Spec(stage) => stages.push(stage.clone()),
            Value::Number(_) => return not_a_plan("a number is not a stage"),
        }
    }
    if stages.pop() != Some(Spec::new("exact")) {
        return not_a_plan("the last stage must be exact: it settles what the others leave open");
    }
    Ok(stages)
}
