//! LIBSVM model text, all five types (grammar: `docs/format.md`).

mod read;
pub(super) mod write;

use super::Format;

pub(super) static FORMAT: Format = Format {
    name: "libsvm",
    summary: "LIBSVM model text, 17 digits so that LIBSVM decides the same",
    recognise: |bytes| {
        let head = &bytes[..bytes.len().min(4096)];
        let first = head.split(u8::is_ascii_whitespace).find(|token| !token.is_empty());
        first.is_some_and(|token| read::KEYS.iter().any(|key| key.as_bytes() == token))
    },
    read: read::read,
    write: write::write,
};

/// The five types and what they answer.
const TYPES: [(&str, LibsvmTask); 5] = [
    ("c_svc", LibsvmTask::Classes),
    ("nu_svc", LibsvmTask::Classes),
    ("one_class", LibsvmTask::Novelty),
    ("epsilon_svr", LibsvmTask::Value),
    ("nu_svr", LibsvmTask::Value),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LibsvmTask {
    Classes,
    Novelty,
    Value,
}

/// Position of the coefficient of pair `(first, second)` in the line of a vector of class `own`: vectors
/// of the first class use column `second - 1`, those of the second column `first`.
pub(in crate::file) fn column_of(first: usize, second: usize, own: usize) -> usize {
    if own == first { second - 1 } else { first }
}

#[cfg(test)]
mod tests;
