//! Registries: named components with declared parameters, their ranges and defaults.

use crate::{Checked, Spec, SpecError};

/// What a parameter may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A real number `low < x < high`, or `low <= x <= high` if `closed`; infinite limits never bind.
    Number {
        /// Lower limit.
        low: f64,
        /// Upper limit.
        high: f64,
        /// Whether the limits themselves are allowed.
        closed: bool,
    },
    /// A whole number `low..=high`.
    Integer {
        /// Smallest value.
        low: i64,
        /// Largest value.
        high: i64,
    },
    /// An integer `low..=high`, or a word instead of one.
    IntegerOr {
        /// Smallest value.
        low: i64,
        /// Largest value.
        high: i64,
        /// The word.
        word: &'static str,
    },
    /// One or more whole numbers `low..=high` by position, each larger than the one before; only as the first
    /// parameter, and the others are then given by name.
    Increasing {
        /// Smallest value.
        low: i64,
        /// Largest value.
        high: i64,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// Another component.
    Component,
}

impl Parameter {
    /// What it takes, as a list of options shows it: `auto | greedy`, `1 to 64`, `above 0`.
    pub fn range(&self) -> String {
        match self.kind {
            Kind::Number { low, high, closed } => crate::check::number_range(low, high, closed),
            Kind::Integer { low, high } => format!("{low} to {high}"),
            Kind::IntegerOr { low, high, word } => format!("{word} | {low} to {high}"),
            Kind::Increasing { low, high } => format!("{low} to {high}, increasing"),
            Kind::Word(words) => words.join(" | "),
            Kind::Component => "a component".to_owned(),
        }
    }
}

impl Kind {
    /// Any real number.
    pub const REAL: Self =
        Self::Number { low: f64::NEG_INFINITY, high: f64::INFINITY, closed: false };
    /// A real number above zero.
    pub const POSITIVE: Self = Self::Number { low: 0.0, high: f64::INFINITY, closed: false };
}

/// One parameter of a component.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name in texts.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Text of the value used when it is not given; `None` makes it required.
    pub default: Option<&'static str>,
    /// One clause that says what it means.
    pub help: &'static str,
}

/// One component of a registry: how it is called, what it takes, how it is built.
#[derive(Debug)]
pub struct Entry<T: 'static> {
    /// Its name in texts.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Its parameters; positional arguments follow this order.
    pub parameters: &'static [Parameter],
    /// Whether any number of further positional arguments is allowed.
    pub variadic: bool,
    /// Makes the component from checked parameters.
    pub build: fn(&Checked<'_>) -> Result<T, SpecError>,
}

/// All components of one kind.
#[derive(Debug)]
pub struct Registry<T: 'static> {
    /// What the components are: "kernel", "stage", ...
    pub noun: &'static str,
    /// The components, in the order in which `mercer list` shows them.
    pub entries: &'static [&'static Entry<T>],
}

impl<T> Registry<T> {
    /// The entry of that name.
    pub fn entry(&self, name: &str) -> Result<&'static Entry<T>, SpecError> {
        self.entries.iter().copied().find(|entry| entry.name == name).ok_or_else(|| {
            let known: Vec<_> = self.entries.iter().map(|entry| entry.name).collect();
            let nearest = crate::suggestion(name, known.iter().copied());
            let (noun, name) = (self.noun, name.to_owned());
            SpecError::Unknown { noun, name, nearest, known: known.join(", ") }
        })
    }

    /// Checks the arguments and builds the component.
    pub fn build(&self, spec: &Spec) -> Result<T, SpecError> {
        let entry = self.entry(spec.name())?;
        (entry.build)(&Checked::of_entry(spec, entry.parameters, entry.variadic)?)
    }

    /// Parses and builds.
    pub fn parse(&self, text: &str) -> Result<T, SpecError> {
        self.build(&text.parse()?)
    }
}

impl<T> Entry<T> {
    /// The signature as `mercer list` prints it: `polynomial(degree=3, gamma, coef0=0)`.
    pub fn signature(&self) -> String {
        signature(self.name, self.parameters, self.variadic)
    }
}

/// A name with its parameters and their defaults: `polynomial(degree=3, gamma, coef0=0)`.
pub fn signature(name: &str, parameters: &[Parameter], variadic: bool) -> String {
    let print = |p: &Parameter| match (p.default, p.kind) {
        (Some(default), _) => format!("{}={default}", p.name),
        (None, Kind::Increasing { .. }) => format!("{}, ...", p.name),
        (None, _) => p.name.to_owned(),
    };
    let mut parts: Vec<String> = parameters.iter().map(print).collect();
    if variadic {
        parts.push("...".to_owned());
    }
    if parts.is_empty() { name.to_owned() } else { format!("{name}({})", parts.join(", ")) }
}
