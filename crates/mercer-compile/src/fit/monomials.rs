//! Fits the stage `monomials`: the weights of all products of columns, with bounds on their errors. How they become
//! proved ranges is in `certify/powers.rs` of `mercer_query`.

use mercer_kernel::monomials::{Power, count};
use mercer_machine::{Array, Section};
use mercer_query::entries;
use mercer_query::verify::monomials::MonomialWeights;
use mercer_spec::{Checked, Spec};

use super::{Fitter, has_only_expansions};
use crate::{CompileError, Task};

pub(super) static FITTER: Fitter =
    Fitter { stage: &entries::MONOMIALS, estimates: false, stops: false, propose, fit };

/// More products than this are never faster than the supports they replace; columns themselves always are.
const MOST: usize = 20_000;
/// Weights of all scores that are kept at most.
const MOST_WEIGHTS: usize = 1 << 26;

/// What `tune` tries: wherever there are fewer products than an answer costs multiply-adds.
fn propose(task: &Task<'_>) -> Vec<Spec> {
    let products = has_only_expansions(task).then(|| products(task).ok()).flatten();
    let pays = products.is_some_and(|(_, count)| {
        count.saturating_mul(1 + task.exact.machine().scores().len())
            <= task.exact.cost().multiply_adds as usize
    });
    if pays { vec![Spec::new("monomials")] } else { Vec::new() }
}

/// The kernel, and how many products it has in the live columns.
fn products(task: &Task<'_>) -> Result<(Power, usize), CompileError> {
    let kernel = task.exact.machine().kernel();
    let power = Power::of(kernel.as_ref());
    let power = power.ok_or_else(|| unfit(format!("{} is not a power", kernel.spec())))?;
    let columns = task.exact.packed().live_columns();
    let scores = task.exact.machine().scores().len();
    let most = if power.degree == 1 { MOST_WEIGHTS / scores.max(1) } else { MOST };
    let count = count(columns, power.degree).filter(|count| *count <= most).ok_or_else(|| {
        let degree = power.degree;
        unfit(format!("{columns} columns have over {most} products of degree {degree} or less"))
    })?;
    Ok((power, count))
}

fn unfit(reason: impl Into<String>) -> CompileError {
    CompileError::Unfit { stage: "monomials", reason: reason.into() }
}

fn fit(_: &Checked<'_>, task: &Task<'_>) -> Result<Section, CompileError> {
    let (power, _) = products(task)?;
    if !has_only_expansions(task) {
        return Err(unfit("a linear score is one product already"));
    }
    let found = MonomialWeights::of(task.exact, power, &task.watch);
    let MonomialWeights { weights, errors } =
        found.map_err(CompileError::measuring("monomials"))?;
    Ok(Section::new("monomials")
        .with("weights", Array::F64(weights))
        .with("errors", Array::F64(errors)))
}
