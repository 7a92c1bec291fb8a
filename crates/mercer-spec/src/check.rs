//! Checks the arguments of a component text against the declared parameters. Parsing is in `parse.rs`.

use crate::{Kind, Parameter, Spec, SpecError, Value};

/// Arguments that fit their parameters: every parameter has a value of its kind within its range.
#[derive(Debug)]
pub struct Checked<'a> {
    text: &'a Spec,
    values: Vec<(&'static str, Value)>,
    rest: &'a [Value],
}

impl<'a> Checked<'a> {
    /// Checks a text against parameters. Positional arguments follow their order; if the first parameter is
    /// [`Kind::Increasing`], it takes all of them and the others are given by name.
    ///
    /// # Errors
    /// If an argument is unknown, given twice, missing, of the wrong kind or outside its range.
    pub fn new(spec: &'a Spec, parameters: &[Parameter]) -> Result<Self, SpecError> {
        match parameters {
            [list, others @ ..] if matches!(list.kind, Kind::Increasing { .. }) => {
                check_list(spec, list)?;
                let values = fill(spec, others, &[])?;
                Ok(Self { text: spec, values, rest: spec.positional() })
            }
            _ => Self::of_entry(spec, parameters, false),
        }
    }

    pub(crate) fn of_entry(
        spec: &'a Spec,
        parameters: &[Parameter],
        variadic: bool,
    ) -> Result<Self, SpecError> {
        let (component, given) = (spec.name(), spec.positional());
        if given.len() > parameters.len() && !variadic {
            let (limit, given) = (parameters.len(), given.len());
            return Err(SpecError::TooMany { component: component.to_owned(), limit, given });
        }
        let values = fill(spec, parameters, given)?;
        Ok(Self { text: spec, values, rest: given.get(parameters.len()..).unwrap_or(&[]) })
    }

    /// The text that was checked.
    pub fn text(&self) -> &'a Spec {
        self.text
    }

    /// The component being built, for its own error messages.
    pub fn component(&self) -> &str {
        self.text.name()
    }

    /// An error with the reason of the component.
    pub fn refuse(&self, reason: impl Into<String>) -> SpecError {
        SpecError::Refused { component: self.component().to_owned(), reason: reason.into() }
    }

    /// Positional arguments beyond the named parameters.
    pub fn rest(&self) -> &'a [Value] {
        self.rest
    }

    /// The value of a declared parameter.
    ///
    /// # Panics
    /// If the entry does not declare the parameter: a mistake in the entry, not in the input.
    pub fn value(&self, name: &str) -> &Value {
        let found = self.values.iter().find(|(key, _)| *key == name);
        &found.unwrap_or_else(|| panic!("{} does not declare '{name}'", self.component())).1
    }

    /// The number given; NaN for a word (`auto`), which only entries that allow words can meet.
    pub fn number(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Number(number) => *number,
            Value::Spec(_) => f64::NAN,
        }
    }

    /// The whole number given.
    pub fn integer(&self, name: &str) -> i64 {
        self.number(name) as i64
    }

    /// The numbers of a list of whole numbers ([`Kind::Increasing`]).
    pub fn integers(&self) -> Vec<usize> {
        let number = |value: &Value| match value {
            Value::Number(number) => Some(*number as usize),
            Value::Spec(_) => None,
        };
        self.rest.iter().filter_map(number).collect()
    }

    /// The word given; empty for a number or a component with arguments of its own.
    pub fn word(&self, name: &str) -> &str {
        self.spec(name).map_or("", Spec::name)
    }

    /// The integer given, or nothing if the word was given ([`Kind::IntegerOr`]).
    pub fn integer_or_word(&self, name: &str) -> Option<usize> {
        match self.value(name) {
            Value::Number(number) => Some(*number as usize),
            Value::Spec(_) => None,
        }
    }

    /// The component or word given.
    pub fn spec(&self, name: &str) -> Option<&Spec> {
        match self.value(name) {
            Value::Spec(spec) => Some(spec),
            Value::Number(_) => None,
        }
    }
}

/// A value for every parameter: by position, by name, or its default.
fn fill(
    spec: &Spec,
    parameters: &[Parameter],
    given: &[Value],
) -> Result<Vec<(&'static str, Value)>, SpecError> {
    let component = spec.name();
    for (name, _) in spec.named() {
        check_known(component, name, parameters, given.len())?;
    }
    let mut values = Vec::with_capacity(parameters.len());
    for (position, parameter) in parameters.iter().enumerate() {
        let default = || parameter.default.map(parse_default);
        let value = given.get(position).cloned();
        let value = value.or_else(|| spec.get(parameter.name).cloned()).or_else(default);
        let Some(value) = value else { return Err(missing(component, parameter)) };
        check_kind(component, parameter, &value)?;
        values.push((parameter.name, value));
    }
    Ok(values)
}

fn missing(component: &str, parameter: &Parameter) -> SpecError {
    let (component, name) = (component.to_owned(), parameter.name.to_owned());
    SpecError::Missing { component, parameter: name, help: parameter.help }
}

/// All positional arguments are whole numbers within the range, each larger than the one before.
fn check_list(spec: &Spec, list: &Parameter) -> Result<(), SpecError> {
    let given = spec.positional();
    if given.is_empty() {
        return Err(missing(spec.name(), list));
    }
    given.iter().try_for_each(|value| check_kind(spec.name(), list, value))?;
    let number = |value: &Value| if let Value::Number(x) = value { *x } else { f64::NAN };
    if given.windows(2).any(|pair| number(&pair[0]) >= number(&pair[1])) {
        let reason = format!("its {} must increase", list.name);
        return Err(SpecError::Refused { component: spec.name().to_owned(), reason });
    }
    Ok(())
}

fn parse_default(text: &str) -> Value {
    match text.parse::<f64>() {
        Ok(number) => Value::Number(number),
        Err(_) => Value::Spec(text.parse().expect("defaults are written by the entry's author")),
    }
}

fn check_known(
    component: &str,
    name: &str,
    parameters: &[Parameter],
    given: usize,
) -> Result<(), SpecError> {
    let (component, parameter) = (component.to_owned(), name.to_owned());
    match parameters.iter().position(|p| p.name.eq_ignore_ascii_case(name)) {
        Some(position) if position < given => Err(SpecError::Repeated { component, parameter }),
        Some(_) => Ok(()),
        None => {
            let names: Vec<_> = parameters.iter().map(|p| p.name).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let nearest = crate::suggestion(&parameter, names);
            Err(SpecError::UnknownParameter { component, parameter, nearest, known })
        }
    }
}

fn check_kind(component: &str, parameter: &Parameter, value: &Value) -> Result<(), SpecError> {
    let wrong = |expected: String| SpecError::WrongKind {
        component: component.to_owned(),
        parameter: parameter.name.to_owned(),
        expected,
        value: value.to_string(),
    };
    let outside = |range: String, number: f64| SpecError::OutOfRange {
        component: component.to_owned(),
        parameter: parameter.name.to_owned(),
        range,
        value: number,
    };
    match (parameter.kind, value) {
        (Kind::Number { low, high, closed }, Value::Number(x)) => {
            let fits = if closed { low <= *x && *x <= high } else { low < *x && *x < high };
            if fits { Ok(()) } else { Err(outside(number_range(low, high, closed), *x)) }
        }
        (Kind::IntegerOr { word, .. }, Value::Spec(spec)) if spec.name() == word => Ok(()),
        (Kind::IntegerOr { word, .. }, Value::Spec(_)) => {
            Err(wrong(format!("a whole number or {word}")))
        }
        (
            Kind::Integer { low, high }
            | Kind::IntegerOr { low, high, .. }
            | Kind::Increasing { low, high },
            Value::Number(x),
        ) => {
            if x.fract() != 0.0 || !x.is_finite() {
                Err(wrong("a whole number".to_owned()))
            } else if *x < low as f64 || *x > high as f64 {
                Err(outside(format!("between {low} and {high}"), *x))
            } else {
                Ok(())
            }
        }
        (Kind::Word(words), Value::Spec(spec))
            if words.contains(&spec.name())
                && spec.positional().is_empty()
                && spec.named().is_empty() =>
        {
            Ok(())
        }
        (Kind::Component, Value::Spec(_)) => Ok(()),
        (Kind::Number { .. }, _) => Err(wrong("a number".to_owned())),
        (Kind::Integer { .. } | Kind::Increasing { .. }, _) => {
            Err(wrong("a whole number".to_owned()))
        }
        (Kind::Word(words), _) => Err(wrong(format!("one of {}", words.join(", ")))),
        (Kind::Component, _) => Err(wrong("a component".to_owned())),
    }
}

pub(crate) fn number_range(low: f64, high: f64, closed: bool) -> String {
    let (at_least, at_most) = if closed { ("at least", "at most") } else { ("above", "below") };
    match (low == f64::NEG_INFINITY, high == f64::INFINITY) {
        (true, true) => "a finite number".to_owned(),
        (false, true) if closed => format!("{at_least} {low}"),
        (false, true) => format!("{at_least} {low} and finite"),
        (true, false) => format!("{at_most} {high}"),
        (false, false) => format!("{at_least} {low} and {at_most} {high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, Registry};

    static ENTRY: Entry<(f64, i64)> = Entry {
        name: "polynomial",
        summary: "test",
        parameters: &[
            Parameter {
                name: "degree",
                kind: Kind::Integer { low: 1, high: 9 },
                default: Some("3"),
                help: "the power",
            },
            Parameter { name: "gamma", kind: Kind::POSITIVE, default: None, help: "the scale" },
        ],
        variadic: false,
        build: |checked| Ok((checked.number("gamma"), checked.integer("degree"))),
    };
    static REGISTRY: Registry<(f64, i64)> = Registry { noun: "kernel", entries: &[&ENTRY] };

    #[test]
    fn positions_names_and_defaults_fill_the_parameters() {
        assert_eq!(REGISTRY.parse("polynomial(2, 0.5)"), Ok((0.5, 2)));
        assert_eq!(REGISTRY.parse("polynomial(gamma=0.5)"), Ok((0.5, 3)));
        assert_eq!(REGISTRY.parse("polynomial(Gamma=0.5, DEGREE=2)"), Ok((0.5, 2)));
        assert_eq!(ENTRY.signature(), "polynomial(degree=3, gamma)");
    }

    #[test]
    fn a_list_takes_all_positional_arguments() {
        let list = [
            Parameter {
                name: "dimensions",
                kind: Kind::Increasing { low: 1, high: 64 },
                default: None,
                help: "dimensions of each level",
            },
            Parameter {
                name: "arithmetic",
                kind: Kind::Word(&["f32", "int8"]),
                default: Some("f32"),
                help: "what products are computed in",
            },
        ];
        let check = |text: &str| {
            let spec: Spec = text.parse().expect("the texts below are well formed");
            let checked = Checked::new(&spec, &list)?;
            Ok::<_, SpecError>((checked.integers(), checked.word("arithmetic").to_owned()))
        };
        assert_eq!(check("pca(4, 8)"), Ok((vec![4, 8], "f32".to_owned())));
        assert_eq!(check("pca(4, arithmetic=int8)"), Ok((vec![4], "int8".to_owned())));
        assert_eq!(crate::signature("pca", &list, false), "pca(dimensions, ..., arithmetic=f32)");
        for (text, message) in [
            ("pca", "pca needs the parameter 'dimensions' (dimensions of each level)"),
            ("pca(8, 4)", "pca: its dimensions must increase"),
            ("pca(8, 65)", "pca: 'dimensions' must be between 1 and 64, not 65"),
            ("pca(int8)", "pca: 'dimensions' must be a whole number, not 'int8'"),
            (
                "pca(8, arithmetic=int8(bits=4))",
                "pca: 'arithmetic' must be one of f32, int8, not 'int8(bits=4)'",
            ),
            ("pca(8, digits=3)", "pca has no parameter 'digits'; it takes arithmetic"),
        ] {
            assert_eq!(check(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn wrong_arguments_are_refused_by_name() {
        for (text, message) in [
            ("poly", "unknown kernel 'poly' (did you mean 'polynomial'?); known are polynomial"),
            ("rbf", "unknown kernel 'rbf'; known are polynomial"),
            ("polynomial", "polynomial needs the parameter 'gamma' (the scale)"),
            (
                "polynomial(gama=1)",
                "polynomial has no parameter 'gama' (did you mean 'gamma'?); it takes degree, gamma",
            ),
            ("polynomial(2, Degree=3)", "polynomial: parameter 'Degree' is given twice"),
            ("polynomial(gamma=1, GAMMA=2)", "polynomial: parameter 'GAMMA' is given twice"),
            ("polynomial(2, degree=3, gamma=1)", "polynomial: parameter 'degree' is given twice"),
            ("polynomial(1, 2, 3)", "polynomial takes at most 2 arguments, 3 were given"),
            ("polynomial(2.5, 1)", "polynomial: 'degree' must be a whole number, not '2.5'"),
            ("polynomial(2, 0)", "polynomial: 'gamma' must be above 0 and finite, not 0"),
            ("polynomial(2, inf)", "polynomial: 'gamma' must be above 0 and finite, not inf"),
            ("polynomial(12, 1)", "polynomial: 'degree' must be between 1 and 9, not 12"),
            ("polynomial(2, auto)", "polynomial: 'gamma' must be a number, not 'auto'"),
        ] {
            assert_eq!(REGISTRY.parse(text).unwrap_err().to_string(), message);
        }
    }
}
