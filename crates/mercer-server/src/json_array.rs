//! The `data` of a tensor in JSON: numbers, truth values or texts in an array, nested or flat. A reader of its own, because
//! a batch of rows is nearly all of a request: numbers go straight into one list. The rest of a request is read by serde.

use crate::failure::Failure;

/// Arrays within arrays, at most.
const DEPTH: usize = 8;

/// Elements in the order of the text.
#[derive(Debug, Clone, PartialEq)]
pub enum Elements {
    /// Numbers; true is 1 and false is 0.
    Numbers(Vec<f64>),
    /// Texts.
    Texts(Vec<Vec<u8>>),
}

impl Elements {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts(texts) => texts.len(),
        }
    }
}

/// Reads a JSON array, which serde has found to be well formed; `tensor` is its name in messages. At most `most` elements.
///
/// # Errors
/// If it holds anything but numbers or only texts, is nested too deeply, or has too many elements.
pub fn parse(text: &str, tensor: &str, most: usize) -> Result<Elements, Failure> {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0, tensor, most };
    reader.skip_space();
    if reader.peek() != Some(b'[') {
        return Err(Failure::invalid(format!("input '{tensor}': its data are not an array")));
    }
    let first = text.bytes().find(|byte| !matches!(byte, b'[' | b' ' | b'\t' | b'\n' | b'\r'));
    if first == Some(b'"') { reader.texts(text) } else { reader.numbers() }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    tensor: &'a str,
    most: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn wrong(&self, what: &str, element: usize) -> Failure {
        Failure::invalid(format!("input '{}': element {} {what}", self.tensor, element + 1))
    }

    fn check(&self, depth: usize, count: usize) -> Result<(), Failure> {
        if depth > DEPTH {
            let text = format!("input '{}': arrays are nested more than {DEPTH} deep", self.tensor);
            return Err(Failure::invalid(text));
        }
        if count > self.most {
            let text = format!("input '{}' has more than {} elements", self.tensor, self.most);
            return Err(Failure::new(crate::failure::Kind::TooLarge, text));
        }
        Ok(())
    }

    fn numbers(&mut self) -> Result<Elements, Failure> {
        // A number and its comma take two bytes at least.
        let mut numbers = Vec::with_capacity((self.bytes.len() / 6).min(self.most));
        let mut depth = 0;
        while let Some(byte) = self.peek() {
            match byte {
                b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' | b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                b't' | b'f' => {
                    numbers.push(f64::from(u8::from(byte == b't')));
                    self.at += if byte == b't' { 4 } else { 5 };
                }
                b'-' | b'0'..=b'9' => {
                    let rest = &self.bytes[self.at..];
                    let (value, used) = fast_float2::parse_partial::<f64, _>(rest)
                        .map_err(|_| self.wrong("is not a number", numbers.len()))?;
                    if !value.is_finite() {
                        return Err(self.wrong("is too large for a number", numbers.len()));
                    }
                    numbers.push(value);
                    self.at += used;
                }
                b'"' => return Err(self.wrong("is a text among numbers", numbers.len())),
                _ => return Err(self.wrong("is not a number", numbers.len())),
            }
            self.check(depth, numbers.len())?;
        }
        Ok(Elements::Numbers(numbers))
    }

    /// Texts are few: serde reads them.
    fn texts(&self, text: &str) -> Result<Elements, Failure> {
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| Failure::invalid(format!("input '{}': {error}", self.tensor)))?;
        let mut texts = Vec::new();
        self.flatten(value, 0, &mut texts)?;
        Ok(Elements::Texts(texts))
    }

    fn flatten(
        &self,
        value: serde_json::Value,
        depth: usize,
        texts: &mut Vec<Vec<u8>>,
    ) -> Result<(), Failure> {
        self.check(depth, texts.len())?;
        match value {
            serde_json::Value::Array(values) => {
                values.into_iter().try_for_each(|value| self.flatten(value, depth + 1, texts))
            }
            serde_json::Value::String(text) => {
                texts.push(text.into_bytes());
                Ok(())
            }
            _ => Err(self.wrong("is not a text, as those before it", texts.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Result<Vec<f64>, String> {
        match parse(text, "x", 10) {
            Ok(Elements::Numbers(numbers)) => Ok(numbers),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => Err(failure.message),
        }
    }

    #[test]
    fn nested_and_flat_arrays_are_the_same() {
        let flat = numbers("[1, -2.5e-3,0.1 ,true, false]").unwrap();
        assert_eq!(flat, [1.0, -2.5e-3, 0.1, 1.0, 0.0]);
        assert_eq!(numbers(" [ [1,-2.5e-3], [0.1,true],[false] ]").unwrap(), flat);
        assert_eq!(numbers("[]").unwrap(), Vec::<f64>::new());
        // To the last bit.
        let text = "0.1000000000000000055511151231257827";
        assert_eq!(numbers(&format!("[{text}]")).unwrap()[0].to_bits(), 0.1f64.to_bits());
    }

    #[test]
    fn texts_are_kept_as_bytes() {
        let found = parse("[\"1:2 \\u00e9\", [\"b\"]]", "x", 10).unwrap();
        assert_eq!(found, Elements::Texts(vec!["1:2 é".into(), "b".into()]));
    }

    #[test]
    fn other_elements_are_named() {
        assert_eq!(numbers("[1,null]").unwrap_err(), "input 'x': element 2 is not a number");
        assert_eq!(
            numbers("[1,\"a\"]").unwrap_err(),
            "input 'x': element 2 is a text among numbers"
        );
        assert_eq!(
            numbers("[1e999]").unwrap_err(),
            "input 'x': element 1 is too large for a number"
        );
        assert_eq!(numbers("{}").unwrap_err(), "input 'x': its data are not an array");
        assert!(numbers("[[[[[[[[[1]]]]]]]]]").unwrap_err().contains("nested more than 8"));
        assert!(numbers("[1,1,1,1,1,1,1,1,1,1,1]").unwrap_err().contains("more than 10"));
        assert!(parse("[\"a\",1]", "x", 9).unwrap_err().message.contains("element 2"));
    }
}
