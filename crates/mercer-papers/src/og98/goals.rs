//! Every compressor on every goal: the vectors of the machine it finds, or the sentence that names the best it reaches.

use mercer::compile::Goal;

use super::CompressionTask;
use crate::Session;

/// All compressors, those of the paper with each of their variants.
const METHODS: [&str; 10] = [
    "regression(refit=no)",
    "regression",
    "primal(penalty=l1)",
    "primal(penalty=margin)",
    "primal(penalty=errors)",
    "exact_basis",
    "lasso",
    "greedy",
    "moved",
    "quadratic",
];

/// Goals, whether each has a sample, and what it is called.
const GOALS: [(Goal, bool, &str); 4] = [
    (Goal::Error(0.01), false, "vectors for error 0.01"),
    (Goal::Error(0.01), true, "the same with a sample"),
    (Goal::Disagreement(0.01), true, "vectors for disagr. 0.01"),
    (Goal::Certified(0.5), true, "vectors for certified 0.5"),
];

pub(super) fn run(trained: &CompressionTask, session: &Session<'_>) -> anyhow::Result<()> {
    for method in METHODS {
        for (goal, has_sample, measure) in GOALS {
            let sample = has_sample.then_some(&trained.queries);
            let row = trained.row(method, measure);
            session.compare(match trained.compress(method, goal, sample, session)? {
                Ok(made) => {
                    let note = format!("relative error {:.2e}", made.report.error.relative);
                    row.ours(made.report.after as f64).note(note)
                }
                Err(reason) => row.note(reason),
            });
        }
    }
    Ok(())
}
