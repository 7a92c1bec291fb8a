//! A parsed component text: name and arguments, and how they are printed.

use std::fmt;

/// A component by name with its arguments: `rbf(gamma=0.5)`, `cascade(low_precision, exact)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    name: String,
    positional: Vec<Value>,
    named: Vec<(String, Value)>,
}

/// An argument: a number, or a word or component (a bare word is a component without arguments).
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A finite or infinite number.
    Number(f64),
    /// A word such as `auto`, or a nested component.
    Spec(Spec),
}

impl Spec {
    /// A component without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), positional: Vec::new(), named: Vec::new() }
    }

    /// Adds a positional argument.
    pub fn with(mut self, value: impl Into<Value>) -> Self {
        self.positional.push(value.into());
        self
    }

    /// Adds a named argument.
    pub fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.named.push((name.to_owned(), value.into()));
        self
    }

    /// The component's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Arguments given by position.
    pub fn positional(&self) -> &[Value] {
        &self.positional
    }

    /// Arguments given by name, in the order written.
    pub fn named(&self) -> &[(String, Value)] {
        &self.named
    }

    /// The named argument, if given; names are read in either case (`c_svc(c=1)`).
    pub fn get(&self, name: &str) -> Option<&Value> {
        let found = self.named.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<Spec> for Value {
    fn from(spec: Spec) -> Self {
        Self::Spec(spec)
    }
}

impl From<&str> for Value {
    fn from(word: &str) -> Self {
        Self::Spec(Spec::new(word))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => f.write_str(&print_number(*number)),
            Self::Spec(spec) => spec.fmt(f),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.positional.is_empty() && self.named.is_empty() {
            return Ok(());
        }
        let mut separator = "(";
        for value in &self.positional {
            write!(f, "{separator}{value}")?;
            separator = ", ";
        }
        for (name, value) in &self.named {
            write!(f, "{separator}{name}={value}")?;
            separator = ", ";
        }
        f.write_str(")")
    }
}

/// The shortest text that reads back as the same bits; whole numbers without `.0`.
fn print_number(number: f64) -> String {
    let text = format!("{number:?}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
