//! LIBLINEAR model text: linear scores of all its solvers (grammar: `docs/format.md`).

mod read;
mod write;

use super::Format;

pub(super) static FORMAT: Format = Format {
    name: "liblinear",
    summary: "LIBLINEAR model text: linear scores",
    recognise: |bytes| bytes.trim_ascii_start().starts_with(b"solver_type"),
    read: read::read,
    write: write::write,
};

/// What the solvers answer.
const SOLVERS: [(&str, Task); 12] = [
    ("L2R_LR", Task::Logistic),
    ("L2R_L2LOSS_SVC_DUAL", Task::Classes),
    ("L2R_L2LOSS_SVC", Task::Classes),
    ("L2R_L1LOSS_SVC_DUAL", Task::Classes),
    ("MCSVM_CS", Task::AllClasses),
    ("L1R_L2LOSS_SVC", Task::Classes),
    ("L1R_LR", Task::Logistic),
    ("L2R_LR_DUAL", Task::Logistic),
    ("L2R_L2LOSS_SVR", Task::Value),
    ("L2R_L2LOSS_SVR_DUAL", Task::Value),
    ("L2R_L1LOSS_SVR_DUAL", Task::Value),
    ("ONECLASS_SVM", Task::Novelty),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// One score for two classes, one per class otherwise.
    Classes,
    /// As `Classes`, and scores are log-odds.
    Logistic,
    /// One score per class, even for two.
    AllClasses,
    Value,
    Novelty,
}

#[cfg(test)]
mod tests;
