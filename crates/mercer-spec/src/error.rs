//! The error type of this crate: why a component text was refused.

/// Why a component text was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The text does not follow the grammar.
    #[error("'{text}': {expected} expected at character {position}")]
    Syntax {
        /// The whole text.
        text: String,
        /// What would have been right there.
        expected: &'static str,
        /// Character position, from 1.
        position: usize,
    },
    /// Parentheses nest deeper than any sensible component.
    #[error("'{text}' nests more than {limit} components")]
    TooDeep {
        /// The beginning of the text.
        text: String,
        /// The limit.
        limit: usize,
    },
    /// No such component.
    #[error("unknown {noun} '{name}'{nearest}; known are {known}")]
    Unknown {
        /// What kind of component was looked for.
        noun: &'static str,
        /// The name given.
        name: String,
        /// What was probably meant ([`crate::suggestion`]).
        nearest: String,
        /// All registered names.
        known: String,
    },
    /// The component has no such parameter.
    #[error("{component} has no parameter '{parameter}'{nearest}; it takes {known}")]
    UnknownParameter {
        /// The component.
        component: String,
        /// The name given.
        parameter: String,
        /// What was probably meant ([`crate::suggestion`]).
        nearest: String,
        /// Its parameters.
        known: String,
    },
    /// The same parameter twice.
    #[error("{component}: parameter '{parameter}' is given twice")]
    Repeated {
        /// The component.
        component: String,
        /// The parameter.
        parameter: String,
    },
    /// More positional arguments than parameters.
    #[error("{component} takes at most {limit} arguments, {given} were given")]
    TooMany {
        /// The component.
        component: String,
        /// How many it takes.
        limit: usize,
        /// How many were given.
        given: usize,
    },
    /// A parameter without default was not given.
    #[error("{component} needs the parameter '{parameter}' ({help})")]
    Missing {
        /// The component.
        component: String,
        /// The parameter.
        parameter: String,
        /// What it means.
        help: &'static str,
    },
    /// The value has the wrong kind.
    #[error("{component}: '{parameter}' must be {expected}, not '{value}'")]
    WrongKind {
        /// The component.
        component: String,
        /// The parameter.
        parameter: String,
        /// What it must be.
        expected: String,
        /// What was given.
        value: String,
    },
    /// The value lies outside its range.
    #[error("{component}: '{parameter}' must be {range}, not {value}")]
    OutOfRange {
        /// The component.
        component: String,
        /// The parameter.
        parameter: String,
        /// The range in words.
        range: String,
        /// What was given.
        value: f64,
    },
    /// A combination of arguments that the component does not accept, with its reason.
    #[error("{component}: {reason}")]
    Refused {
        /// The component.
        component: String,
        /// Why.
        reason: String,
    },
}
