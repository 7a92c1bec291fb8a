//! Table 3 (nodes), Figures 3 and 4 (degrees) and section 5.2 (bins), and the ranks of our factors.

use serde_json::{Value, json};

use super::methods::{HEAD, Learner, measure};
use super::sets::{Set, SetRows};
use crate::Session;

/// The solvers, all with chi2 at the C of the set.
const TRIED: [(&str, &[&str]); 4] = [
    ("nodes", &["pmsvm_lut(nodes=chebyshev)", "pmsvm_lut(nodes=ad_hoc)"]),
    (
        "degree",
        &[
            "pmsvm_lut(degree=1)",
            "pmsvm_lut(degree=2)",
            "pmsvm_lut(degree=3)",
            "pmsvm_lut(degree=4)",
            "pmsvm_lut(degree=5)",
        ],
    ),
    (
        "bins",
        &[
            "pmsvm_lut(bins=10)",
            "pmsvm_lut(bins=100)",
            "pmsvm_lut(bins=1000)",
            "pmsvm_lut(bins=10000)",
        ],
    ),
    ("rank", &["additive(rank=1)", "additive(rank=4)", "additive(rank=8)", "additive(rank=16)"]),
];

pub(super) fn run(session: &Session<'_>, set: &Set, rows: &SetRows) -> anyhow::Result<Value> {
    session.line(&format!("\n{}: chi2, C = {}\n{:28} {HEAD}", set.name, set.c, ""));
    let mut parts = serde_json::Map::new();
    for (name, solvers) in TRIED {
        let mut lines = Vec::new();
        for text in solvers {
            let found = measure(session, rows, Learner { kernel: "chi2", solver: text }, set.c)?;
            session.line(&format!("{text:28} {}", found.line()));
            let mut object = found.object();
            object["solver"] = json!(text);
            lines.push(object);
        }
        parts.insert(name.to_owned(), json!(lines));
    }
    Ok(Value::Object(parts))
}
