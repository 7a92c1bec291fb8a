//! What the text of the stage `nearest` says. Names, ranges and defaults are in the registry entry in `mercer_query`.

use mercer_spec::Checked;

use super::traces::NearestCandidate;

/// Dimensions of the ordering that are tried: the paper takes 20.
const DIMENSIONS: [usize; 3] = [10, 20, 40];
/// Half-widths of the smoothing that are tried: the paper takes 10; 0 is no smoothing.
const SMOOTHINGS: [usize; 5] = [0, 2, 5, 10, 20];

/// What the stage's text says; what it leaves open is cross-validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NearestSettings {
    dimensions: Option<usize>,
    smoothing: Option<usize>,
    has_tug_of_war: Option<bool>,
    pub has_filter: bool,
    pub ordering: NearnessOrder,
    pub rows: ThresholdRows,
    /// Vectors of a reduced set, and the compressor that finds it.
    pub reduced: Option<(usize, &'static str)>,
}

/// What orders the supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NearnessOrder {
    /// Dot products in principal coordinates.
    Pca,
    /// Coordinates along the principal directions in feature space of a few supports.
    KernelPca,
    /// Coordinates between pairs of supports that are far apart in feature space.
    FastMap,
}

impl NearnessOrder {
    /// Whether coordinates are those of the principal directions in input space.
    pub(super) fn is_principal(self) -> bool {
        self == Self::Pca
    }
}

/// Which rows give the thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThresholdRows {
    Auto,
    Training,
    Sample,
    Both,
}

impl NearestSettings {
    pub(super) fn new(arguments: &Checked<'_>) -> Self {
        let has_tug_of_war = match arguments.word("tug_of_war") {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        };
        let ordering = match arguments.word("ordering") {
            "kernel_pca" => NearnessOrder::KernelPca,
            "fastmap" => NearnessOrder::FastMap,
            _ => NearnessOrder::Pca,
        };
        let rows = match arguments.word("rows") {
            "training" => ThresholdRows::Training,
            "sample" => ThresholdRows::Sample,
            "both" => ThresholdRows::Both,
            _ => ThresholdRows::Auto,
        };
        let reduction = if arguments.word("reduction") == "moved" { "moved" } else { "greedy" };
        let count = arguments.integer("reduced") as usize;
        Self {
            dimensions: arguments.integer_or_word("dimensions"),
            smoothing: arguments.integer_or_word("smoothing"),
            has_tug_of_war,
            has_filter: arguments.word("filter") == "yes",
            ordering,
            rows,
            reduced: (count > 0).then_some((count, reduction)),
        }
    }

    /// All that the text allows; those that walk alike stand together.
    pub(super) fn candidates(&self, directions: usize) -> Vec<NearestCandidate> {
        let mut dimensions: Vec<usize> =
            self.dimensions.map_or(DIMENSIONS.to_vec(), |given| vec![given]);
        dimensions.iter_mut().for_each(|count| *count = (*count).min(directions));
        dimensions.dedup();
        let tugs = self.has_tug_of_war.map_or(vec![true, false], |given| vec![given]);
        let smoothings = self.smoothing.map_or(SMOOTHINGS.to_vec(), |given| vec![given]);
        let mut all = Vec::new();
        for dimensions in dimensions {
            for has_tug_of_war in tugs.iter().copied() {
                let with = |smoothing: &usize| NearestCandidate {
                    dimensions,
                    has_tug_of_war,
                    smoothing: *smoothing,
                };
                all.extend(smoothings.iter().map(with));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_not_cross_validated() {
        let read = |text: &str| {
            let spec = text.parse().unwrap();
            mercer_query::entries::NEAREST
                .check(&spec)
                .map(|arguments| NearestSettings::new(&arguments))
        };
        assert_eq!(read("nearest(paper)").unwrap().candidates(300).len(), 3 * 2 * 5);
        let text = "nearest(paper, dimensions=20, smoothing=10, tug_of_war=no, filter=no)";
        let settings = read(text).unwrap();
        let only = NearestCandidate { dimensions: 5, has_tug_of_war: false, smoothing: 10 };
        assert_eq!((settings.candidates(5), settings.has_filter), (vec![only], false));
        for (bad, message) in [
            ("nearest", "so write nearest(paper)"),
            ("nearest(20)", "nearest: 'rule' must be one of paper, not '20'"),
            ("nearest(paper, w=3)", "nearest has no parameter 'w'; it takes rule, dimensions"),
            ("nearest(paper, filter=2)", "nearest: 'filter' must be one of yes, no, not '2'"),
        ] {
            assert!(read(bad).unwrap_err().to_string().contains(message), "{bad}");
        }
    }
}
