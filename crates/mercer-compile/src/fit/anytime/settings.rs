use mercer_spec::{Entry, Kind, Parameter, Registry, Spec};

use crate::CompileError;

/// What the stage's text says.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub order: Order,
    /// Most basis points of a sequence.
    pub steps: usize,
    /// Whether sequences end where going on costs more than exact answers.
    pub stops_at_break_even: bool,
    /// Relative pivot test.
    pub floor: f64,
    pub clusters: usize,
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
    /// The same among supports and 59 other training rows drawn at each step.
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
}

const WORDS: [(&str, Option<Order>); 10] = [
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
];

impl Order {
    /// Whether it looks at queries.
    pub(super) fn needs_sample(self) -> bool {
        matches!(self, Self::MeanLh | Self::Hybrid | Self::LogGap | Self::StopCount)
    }
}

static ENTRY: Entry<(Option<Order>, Settings)> = Entry {
    name: "anytime",
    summary: "projections onto basis points, one by one",
    parameters: &[
        Parameter {
            name: "order",
            kind: Kind::Word(&[
                "auto",
                "given",
                "sgma",
                "min_wz",
                "min_wz_n",
                "mean_lh",
                "hybrid",
                "log_gap",
                "stop_count",
                "moved",
            ]),
            default: Some("auto"),
            help: "how basis points are chosen; auto takes log_gap with a sample, else min_wz",
        },
        Parameter {
            name: "steps",
            kind: Kind::Integer { low: 1, high: 1 << 16 },
            default: Some("4096"),
            help: "most basis points of a sequence",
        },
        Parameter {
            name: "stop",
            kind: Kind::Word(&["break_even", "never"]),
            default: Some("break_even"),
            help: "where a sequence ends: where going on costs more than exact, or nowhere",
        },
        Parameter {
            name: "pivot",
            kind: Kind::Number { low: 1e-15, high: 0.1, closed: true },
            default: Some("1e-7"),
            help: "share of its own square that a basis point must add",
        },
        Parameter {
            name: "clusters",
            kind: Kind::Integer { low: 1, high: 64 },
            default: Some("1"),
            help: "parts of query space, each with a sequence of its own",
        },
        Parameter {
            name: "chunk",
            kind: Kind::Integer { low: 1, high: 1024 },
            default: Some("16"),
            help: "basis points computed at once in the beginning; 1 goes step by step",
        },
        Parameter {
            name: "seed",
            kind: Kind::Integer { low: 0, high: 1 << 53 },
            default: Some("1"),
            help: "seed of everything drawn",
        },
    ],
    variadic: false,
    build: |checked| {
        let word = checked.spec("order").map_or("auto", Spec::name);
        let order = WORDS.iter().find(|(name, _)| *name == word).and_then(|(_, order)| *order);
        let settings = Settings {
            order: Order::MinWz,
            steps: checked.integer("steps") as usize,
            stops_at_break_even: checked.spec("stop").map(Spec::name) == Some("break_even"),
            floor: checked.number("pivot"),
            clusters: checked.integer("clusters") as usize,
            chunk: checked.integer("chunk") as usize,
            seed: checked.integer("seed") as u64,
        };
        Ok((order, settings))
    },
};

static STAGE: Registry<(Option<Order>, Settings)> = Registry { noun: "stage", entries: &[&ENTRY] };

/// Checks the text; `has_signs` says that there are queries whose scores have a sign.
pub(super) fn parse(spec: &Spec, has_signs: bool) -> Result<Settings, CompileError> {
    let (order, settings) = STAGE
        .build(spec)
        .map_err(|error| CompileError::Unfit { stage: "anytime", reason: error.to_string() })?;
    let auto = if has_signs { Order::LogGap } else { Order::MinWz };
    Ok(Settings { order: order.unwrap_or(auto), ..settings })
}
