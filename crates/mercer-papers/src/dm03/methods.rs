//! The paper's method and its variants, each with the rows that its thresholds come from. Nothing is computed here.

/// Which rows thresholds come from: the paper says "the entire training set", which may be read in three ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThresholdSource {
    /// The digits that the machine was trained on.
    Training,
    /// The digits of the pair that it was not trained on.
    HeldOut,
    /// All of them.
    Both,
}

/// One way to run the paper's method.
#[derive(Debug)]
pub(super) struct PaperMethod {
    pub name: &'static str,
    pub stage: &'static str,
    pub source: ThresholdSource,
    /// Rows generated across the boundary.
    pub generated: usize,
    /// Whether it works on a reduced set of [`REDUCED`] vectors.
    pub is_reduced: bool,
    /// Whether it is run on all 45 pairs, or on those of Table 1 only.
    pub is_for_all: bool,
    /// Whether the paper's numbers are about it.
    pub is_printed: bool,
}

/// Vectors of the reduced set; it must be smaller than the machine.
pub(super) const REDUCED: usize = 200;

/// With the paper's settings: PCA(20), MaxSmoothed with w = 10, tug of war, linear filter.
const PRINTED: &str = "nearest(paper, dimensions=20, smoothing=10, tug_of_war=yes)";
const NO_FILTER: &str = "nearest(paper, dimensions=20, smoothing=10, tug_of_war=yes, filter=no)";

const REDUCED_SET: &str = "cascade(nearest(paper, dimensions=20, smoothing=10, tug_of_war=yes, filter=no, reduced=200), exact)";

const fn method(
    name: &'static str,
    stage: &'static str,
    source: ThresholdSource,
    is_for_all: bool,
) -> PaperMethod {
    let is_reduced = false;
    PaperMethod {
        name,
        stage,
        source,
        generated: 0,
        is_reduced,
        is_for_all,
        is_printed: is_for_all,
    }
}

use ThresholdSource::{Both, HeldOut, Training};

pub(super) static METHODS: [PaperMethod; 15] = [
    method("as printed", PRINTED, Training, true),
    method("held-out rows", PRINTED, HeldOut, true),
    method("both", PRINTED, Both, true),
    method("as printed, no filter", NO_FILTER, Training, false),
    method("held-out rows, no filter", NO_FILTER, HeldOut, false),
    method("cross-validated", "nearest(paper)", Training, false),
    method(
        "Simple, no filter",
        "nearest(paper, dimensions=20, smoothing=0, tug_of_war=yes, filter=no)",
        Training,
        false,
    ),
    method(
        "no tug of war, no filter",
        "nearest(paper, dimensions=20, smoothing=10, tug_of_war=no, filter=no)",
        Training,
        false,
    ),
    method(
        "kernel PCA, no filter",
        "nearest(paper, dimensions=20, smoothing=10, tug_of_war=yes, filter=no, ordering=kernel_pca)",
        Training,
        false,
    ),
    method(
        "FastMAP, no filter",
        "nearest(paper, dimensions=20, smoothing=10, tug_of_war=yes, filter=no, ordering=fastmap)",
        Training,
        false,
    ),
    PaperMethod {
        is_reduced: true,
        ..method("reduced set of 200, no filter", REDUCED_SET, Training, false)
    },
    PaperMethod {
        is_reduced: true,
        ..method("reduced set of 200, held-out", REDUCED_SET, HeldOut, false)
    },
    PaperMethod { generated: 4000, ..method("4,000 generated rows", PRINTED, Training, false) },
    PaperMethod {
        generated: 4000,
        ..method("4,000 generated rows, no filter", NO_FILTER, Training, false)
    },
    PaperMethod {
        generated: 4000,
        ..method("held-out and 4,000 generated", PRINTED, HeldOut, false)
    },
];
