//! C-SVC with classes of weight 0 or less, as LIBSVM answers it: such a class has no multiplier above 0, so a pair with it is
//! decided by an infinite rho, for the class that has weight. Other pairs are trained as always.

use mercer::machine::pairs;
use mercer::svm_train;

use crate::examples::Groups;
use crate::fit::{Fit, FittedMachine, FittedScore, ScoreAt, Task};
use crate::print::info;

/// Whether LIBSVM trains nothing for a class of this weight; what is no number is refused by the training.
pub(crate) fn is_without(factor: f64) -> bool {
    factor <= 0.0
}

/// The rho of a pair in which a class has no weight.
fn rho(first: f64, second: f64) -> f64 {
    match (is_without(first), is_without(second)) {
        (true, false) => f64::INFINITY,
        (false, true) => f64::NEG_INFINITY,
        _ => 0.0,
    }
}

/// `svm_train` where some class has no weight; `factors` are those of the classes.
pub(crate) fn fit(task: &Task<'_>, groups: &Groups, factors: &[f64]) -> Result<Fit, String> {
    if task.is_whole && task.param.probability != 0 {
        return Err("probabilities need class weights above 0".to_owned());
    }
    let kept: Vec<usize> =
        (0..groups.classes()).filter(|class| !is_without(factors[*class])).collect();
    let rows: Vec<usize> = kept.iter().flat_map(|class| groups.rows(*class)).copied().collect();
    let part = if kept.len() < 2 {
        Fit::nothing(Vec::new(), task.param)
    } else {
        let examples = task.examples.select(&rows);
        let targets: Vec<f64> = rows.iter().map(|row| task.targets[*row]).collect();
        Task { examples: &examples, targets: &targets, is_whole: false, ..*task }.fit()?
    };
    let plan = part.machine.as_ref().and_then(|machine| machine.plan.clone());
    // The part may have its classes in another order.
    let place_of =
        |class: usize| part.labels.iter().position(|label| *label == groups.labels[class]);
    let trained = |first: usize, second: usize| {
        let (first, second) = (place_of(first)?, place_of(second)?);
        let (low, high) = (first.min(second), first.max(second));
        let at = pairs(part.labels.len()).position(|pair| pair == (low, high))?;
        Some((at, if first < second { 1.0 } else { -1.0 }))
    };
    let (mut scores, mut order) = (Vec::new(), Vec::new());
    for (first, second) in pairs(groups.classes()) {
        let Some((at, sign)) = trained(first, second) else {
            let rho = rho(factors[first], factors[second]);
            scores.push(FittedScore { terms: Vec::new(), rho });
            order.push(ScoreAt::Constant(-rho));
            continue;
        };
        let FittedScore { terms, rho } = &part.scores[at];
        let terms = terms.iter().map(|(row, beta)| (rows[*row], sign * beta)).collect();
        scores.push(FittedScore { terms, rho: sign * rho });
        order.extend(part.machine.as_ref().map(|machine| machine.order[at].times(sign)));
    }
    if task.is_whole {
        let mut is_used = vec![false; task.targets.len()];
        scores.iter().flat_map(|score| &score.terms).for_each(|(row, _)| is_used[*row] = true);
        info(&svm_train::total(is_used.into_iter().filter(|used| *used).count()));
    }
    let machine = Some(FittedMachine { plan, order });
    Ok(Fit { labels: groups.labels.clone(), scores, probabilities: None, machine })
}
