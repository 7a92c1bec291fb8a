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
const SOLVERS: [(&str, LiblinearTask); 12] = [
    ("L2R_LR", LiblinearTask::Logistic),
    ("L2R_L2LOSS_SVC_DUAL", LiblinearTask::Classes),
    ("L2R_L2LOSS_SVC", LiblinearTask::Classes),
    ("L2R_L1LOSS_SVC_DUAL", LiblinearTask::Classes),
    ("MCSVM_CS", LiblinearTask::AllClasses),
    ("L1R_L2LOSS_SVC", LiblinearTask::Classes),
    ("L1R_LR", LiblinearTask::Logistic),
    ("L2R_LR_DUAL", LiblinearTask::Logistic),
    ("L2R_L2LOSS_SVR", LiblinearTask::Value),
    ("L2R_L2LOSS_SVR_DUAL", LiblinearTask::Value),
    ("L2R_L1LOSS_SVR_DUAL", LiblinearTask::Value),
    ("ONECLASS_SVM", LiblinearTask::Novelty),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LiblinearTask {
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
