//! The parser of component texts. What the arguments may be is checked in `check.rs`.

use std::str::FromStr;

use crate::{Spec, SpecError, Value};

/// Deeper nesting than this is refused; the deepest sensible text nests four.
const MAX_DEPTH: usize = 16;

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut parser = Parser { text, at: 0 };
        let spec = parser.spec(0)?;
        parser.skip_space();
        if parser.at < text.len() {
            return Err(parser.error("the end of the text"));
        }
        Ok(spec)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn error(&self, expected: &'static str) -> SpecError {
        let position = self.text[..self.at].chars().count() + 1;
        SpecError::Syntax { text: self.text.to_owned(), expected, position }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_space(&mut self) {
        while let Some(c) = self.peek().filter(|c| c.is_whitespace()) {
            self.at += c.len_utf8();
        }
    }

    /// Consumes `wanted` after optional space.
    fn take(&mut self, wanted: char) -> bool {
        self.skip_space();
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn word(&mut self) -> Option<&str> {
        self.skip_space();
        let start = self.at;
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        while let Some(c) = self.peek() {
            let fits =
                if self.at == start { is_first(c) } else { is_first(c) || c.is_ascii_digit() };
            if !fits {
                break;
            }
            self.at += c.len_utf8();
        }
        (self.at > start).then(|| &self.text[start..self.at])
    }

    fn spec(&mut self, depth: usize) -> Result<Spec, SpecError> {
        if depth > MAX_DEPTH {
            let text = self.text.chars().take(40).collect();
            return Err(SpecError::TooDeep { text, limit: MAX_DEPTH });
        }
        let Some(name) = self.word() else {
            return Err(self.error("a name"));
        };
        let spec = Spec::new(name);
        if self.take('(') { self.arguments(spec, depth) } else { Ok(spec) }
    }

    fn arguments(&mut self, mut spec: Spec, depth: usize) -> Result<Spec, SpecError> {
        if self.take(')') {
            return Ok(spec);
        }
        loop {
            let start = self.at;
            let key = self.word().map(str::to_owned);
            match key {
                Some(key) if self.take('=') => {
                    if spec.get(&key).is_some() {
                        let component = spec.name().to_owned();
                        return Err(SpecError::Repeated { component, parameter: key });
                    }
                    let value = self.value(depth)?;
                    spec = spec.set(&key, value);
                }
                _ if !spec.named().is_empty() => return Err(self.error("'name='")),
                _ => {
                    self.at = start;
                    let value = self.value(depth)?;
                    spec = spec.with(value);
                }
            }
            if self.take(')') {
                return Ok(spec);
            }
            if !self.take(',') {
                return Err(self.error("',' or ')'"));
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, SpecError> {
        self.skip_space();
        let rest = &self.text[self.at..];
        let is_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let length = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
        if let Ok(number) = rest[..length].parse::<f64>()
            && !number.is_nan()
        {
            self.at += length;
            return Ok(Value::Number(number));
        }
        self.spec(depth + 1).map(Value::Spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_print_as_they_were_read() {
        for text in [
            "exact",
            "rbf(gamma=0.5)",
            "cascade(low_precision, pca(32, 64), exact)",
            "power_mean(p=-inf)",
            "exponential(chi2, gamma=1e-9)",
            "low_rank(rank=auto, tolerance=0.01)",
        ] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn every_finite_number_survives_printing() {
        for number in [5e-324, 1e300, 0.1, -2.5, 1.0 / 3.0, f64::MAX] {
            let spec = Spec::new("x").set("y", number);
            assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec);
        }
    }

    #[test]
    fn malformed_texts_name_the_place() {
        for (text, position) in
            [("", 1), ("rbf(", 5), ("rbf(gamma=)", 11), ("rbf)", 4), ("a(b=1, 2)", 8)]
        {
            match text.parse::<Spec>() {
                Err(SpecError::Syntax { position: at, .. }) => assert_eq!(at, position, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(matches!("a(".repeat(99).parse::<Spec>(), Err(SpecError::TooDeep { .. })));
        assert!(
            "x(y=nan)".parse::<Spec>().is_ok_and(|s| matches!(s.get("y"), Some(Value::Spec(_))))
        );
    }
}
