//! What the text of the stage `anytime` says. Names, ranges and defaults are in the registry entry in `mercer_query`.

use mercer_spec::Checked;

/// What the stage's text says.
#[derive(Debug, Clone)]
pub(super) struct AnytimeSettings {
    pub order: Order,
    /// Most basis points of a sequence.
    pub steps: usize,
    /// Whether sequences end where going on costs more than exact answers.
    pub stops_at_break_even: bool,
    /// Relative pivot test.
    pub floor: f64,
    pub clusters: usize,
    /// Levels of a tree over query space; 0 for none.
    pub depth: usize,
    /// Steps taken at once in the beginning.
    pub chunk: usize,
    pub seed: u64,
}

/// How basis points are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Supports as they come.
    Given,
    /// What reduces the residual of the Gram matrix most, of 59 drawn ones.
    Sgma,
    /// What explains most of the machine, among supports.
    MinWz,
    /// The same among supports and up to 59 training rows that are no supports, drawn at each step.
    MinWzN,
    /// What moves the bounds of a sample of queries most towards their sign.
    MeanLh,
    /// `MeanLh` among candidates within 1 % of the best `MinWz`.
    Hybrid,
    /// What lowers the logarithm of the gap over the score most.
    LogGap,
    /// What settles most queries of the sample.
    StopCount,
    /// Points moved in input space until they explain most of the machine.
    Moved,
    /// Points moved in input space until the bounds of a sample are best (eq. 26).
    MovedMeanLh,
}

const WORDS: [(&str, Option<Order>); 11] = [
    ("auto", None),
    ("given", Some(Order::Given)),
    ("sgma", Some(Order::Sgma)),
    ("min_wz", Some(Order::MinWz)),
    ("min_wz_n", Some(Order::MinWzN)),
    ("mean_lh", Some(Order::MeanLh)),
    ("hybrid", Some(Order::Hybrid)),
    ("log_gap", Some(Order::LogGap)),
    ("stop_count", Some(Order::StopCount)),
    ("moved", Some(Order::Moved)),
    ("moved_mean_lh", Some(Order::MovedMeanLh)),
];

impl Order {
    /// Whether it looks at queries.
    pub(super) fn needs_sample(self) -> bool {
        matches!(
            self,
            Self::MeanLh | Self::Hybrid | Self::LogGap | Self::StopCount | Self::MovedMeanLh
        )
    }

    /// Whether basis points are moved, not chosen.
    pub(super) fn is_moved(self) -> bool {
        matches!(self, Self::Moved | Self::MovedMeanLh)
    }
}

impl AnytimeSettings {
    /// From checked arguments; `has_signs` says that there are queries whose scores have a sign.
    pub(super) fn new(arguments: &Checked<'_>, has_signs: bool) -> Self {
        let auto = if has_signs { Order::LogGap } else { Order::MinWz };
        let word = arguments.word("order");
        let order = WORDS.iter().find(|(name, _)| *name == word).and_then(|(_, order)| *order);
        Self {
            order: order.unwrap_or(auto),
            steps: arguments.integer("steps") as usize,
            stops_at_break_even: arguments.word("stop") == "break_even",
            floor: arguments.number("pivot"),
            clusters: arguments.integer("clusters") as usize,
            depth: arguments.integer("depth") as usize,
            chunk: arguments.integer("chunk") as usize,
            seed: arguments.integer("seed") as u64,
        }
    }
}
