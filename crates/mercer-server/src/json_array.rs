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
                    let (value, used) = match short_number(rest) {
                        Some(found) => found,
                        None => fast_float2::parse_partial::<f64, _>(rest)
                            .map_err(|_| self.wrong("is not a number", numbers.len()))?,
                    };
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

/// Powers of ten that are numbers of 64 bits without rounding.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// A number without an exponent, and its bytes, if one division of two numbers that are not rounded gives it: at most 19 digits,
/// worth at most 2^53, at most 22 of them behind the point. Most numbers of a request are such, and this is the
/// shortest way to their nearest number of 64 bits.
fn short_number(bytes: &[u8]) -> Option<(f64, usize)> {
    let is_negative = bytes.first() == Some(&b'-');
    let first = usize::from(is_negative);
    let (mut digits, mut at) = (0u64, first);
    let mut digits_from = |mut at: usize| {
        while let Some(digit) =
            bytes.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|d| *d < 10)
        {
            // More than 19 digits may wrap; they are left to others below.
            digits = digits.wrapping_mul(10).wrapping_add(u64::from(digit));
            at += 1;
        }
        at
    };
    at = digits_from(at);
    let (mut count, mut behind) = (at - first, 0);
    if bytes.get(at) == Some(&b'.') {
        let point = at + 1;
        at = digits_from(point);
        behind = at - point;
        count += behind;
    }
    let has_exponent = matches!(bytes.get(at), Some(b'e' | b'E'));
    if has_exponent || count > 19 || count == 0 || digits > 1 << 53 {
        return None;
    }
    let value = digits as f64 / POWERS.get(behind)?;
    Some((if is_negative { -value } else { value }, at))
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
    fn short_numbers_are_the_nearest_ones() {
        let mut texts: Vec<String> = ["0", "-0", "0.0", "-0.0", "9007199254740992", "0.1", "-7.25"]
            .map(str::to_owned)
            .to_vec();
        texts.extend((0..=255).map(|pixel| format!("{}", f64::from(pixel) / 255.0)));
        let mut bits = 1u64;
        for _ in 0..2000 {
            bits = bits.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            texts.push(format!("{}", (bits >> 40) as f64 / 1024.0 - 4096.0));
            texts.push(format!("{}.{}", bits >> 50, bits >> 20));
        }
        let mut found = 0;
        for text in &texts {
            let expected: f64 = text.parse().unwrap();
            if let Some((value, used)) = short_number(format!("{text},").as_bytes()) {
                assert_eq!((value.to_bits(), used), (expected.to_bits(), text.len()), "{text}");
                found += 1;
            }
        }
        assert!(found > texts.len() / 2, "{found}");
        // Left to the general reader: exponents, too many digits, too large ones, nothing.
        for text in [
            "1e5",
            "1.5E-3",
            "9007199254740993",
            "0.00000000000000000000001",
            "18446744073709551617",
            "-",
            "x",
        ] {
            assert_eq!(short_number(text.as_bytes()), None, "{text}");
        }
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
