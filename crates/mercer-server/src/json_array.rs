//! The `data` of a tensor in JSON: numbers, truth values or texts in an array, nested or flat. A reader of its own, because
//! a batch of rows is nearly all of a request: numbers go straight into one list. The rest of a request is read by serde
//! (`http/wire.rs`), without these arrays (`json_apart.rs`).

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

/// Reads a JSON array; `tensor` is its name in messages. At most `most` elements.
///
/// # Errors
/// If it is no JSON, holds anything but numbers or only texts, is nested too deeply, or has too many elements.
pub fn parse(bytes: &[u8], tensor: &str, most: usize) -> Result<Elements, Failure> {
    let mut reader = Reader { bytes, at: 0, tensor, most };
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    if bytes.iter().find(|byte| !is_space(byte)) != Some(&b'[') {
        return Err(Failure::invalid(format!("input '{tensor}': its data are not an array")));
    }
    let first = bytes.iter().find(|byte| !is_space(byte) && **byte != b'[');
    if first == Some(&b'"') { reader.texts() } else { reader.numbers() }
}

/// What may come next in an array, beside spaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MayCome {
    Value,
    ValueOrEnd,
    CommaOrEnd,
    Nothing,
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
        // Few texts have more than a number in four bytes.
        let mut numbers = Vec::with_capacity((self.bytes.len() / 4).min(self.most));
        let (mut depth, mut next) = (0, MayCome::Value);
        while let Some(byte) = self.peek() {
            let is_value = matches!(next, MayCome::Value | MayCome::ValueOrEnd);
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                b',' if next == MayCome::CommaOrEnd => {
                    next = MayCome::Value;
                    self.at += 1;
                }
                b'[' if is_value => {
                    (depth, next) = (depth + 1, MayCome::ValueOrEnd);
                    self.at += 1;
                    self.check(depth, numbers.len())?;
                }
                b']' if matches!(next, MayCome::CommaOrEnd | MayCome::ValueOrEnd) => {
                    depth -= 1;
                    next = if depth == 0 { MayCome::Nothing } else { MayCome::CommaOrEnd };
                    self.at += 1;
                }
                b'"' => return Err(self.wrong("is a text among numbers", numbers.len())),
                _ if is_value => {
                    numbers.push(self.number(byte, numbers.len())?);
                    next = MayCome::CommaOrEnd;
                    self.check(depth, numbers.len())?;
                }
                _ => return Err(self.wrong("is not where it may be", numbers.len())),
            }
        }
        if next != MayCome::Nothing {
            return Err(self.wrong("is missing: the array breaks off", numbers.len()));
        }
        Ok(Elements::Numbers(numbers))
    }

    /// A number or a truth value that begins with this byte.
    fn number(&mut self, byte: u8, element: usize) -> Result<f64, Failure> {
        let rest = &self.bytes[self.at..];
        let found = match byte {
            b't' if rest.starts_with(b"true") => Some((1.0, 4)),
            b'f' if rest.starts_with(b"false") => Some((0.0, 5)),
            _ => short_number(rest).or_else(|| any_number(rest)),
        };
        let (value, used) = found.ok_or_else(|| self.wrong("is not a number", element))?;
        if !value.is_finite() {
            return Err(self.wrong("is too large for a number", element));
        }
        self.at += used;
        Ok(value)
    }

    /// Texts are few: serde reads them.
    fn texts(&self) -> Result<Elements, Failure> {
        let value: serde_json::Value = serde_json::from_slice(self.bytes)
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

/// The value of eight digits, if these bytes are digits: all of them at once within one word.
fn eight_digits(bytes: [u8; 8]) -> Option<u64> {
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    let word = u64::from_le_bytes(bytes);
    let is_digits = word & HIGH == 0x3030_3030_3030_3030
        && word.wrapping_add(0x0606_0606_0606_0606) & HIGH == 0x3030_3030_3030_3030;
    if !is_digits {
        return None;
    }
    // Pairs, then fours, then all: the first byte is the highest digit.
    let word = word & 0x0f0f_0f0f_0f0f_0f0f;
    let word = word.wrapping_mul(10).wrapping_add(word >> 8) & 0x00ff_00ff_00ff_00ff;
    let word = word.wrapping_mul(100).wrapping_add(word >> 16) & 0x0000_ffff_0000_ffff;
    Some(word.wrapping_mul(10_000).wrapping_add(word >> 32) & 0xffff_ffff)
}

/// Adds the digits from `at` on to a number; returns it and where they end. More than 19 digits may wrap.
fn digits(bytes: &[u8], mut at: usize, mut number: u64) -> (u64, usize) {
    while let Some(eight) = bytes[at..].first_chunk().and_then(|chunk| eight_digits(*chunk)) {
        number = number.wrapping_mul(100_000_000).wrapping_add(eight);
        at += 8;
    }
    while let Some(digit) = bytes.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|d| *d < 10) {
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (number, at)
}

/// A number without an exponent, and its bytes, if one division of two numbers that are not rounded gives it: at most 19 digits,
/// worth at most 2^53, at most 22 of them behind the point. Most numbers of a request are such, and this is the
/// shortest way to their nearest number of 64 bits.
fn short_number(bytes: &[u8]) -> Option<(f64, usize)> {
    let is_negative = bytes.first() == Some(&b'-');
    let first = usize::from(is_negative);
    let (mut number, mut at) = digits(bytes, first, 0);
    let (mut count, mut behind) = (at - first, 0);
    if count == 0 || (count > 1 && bytes[first] == b'0') {
        return None;
    }
    if bytes.get(at) == Some(&b'.') {
        let point = at + 1;
        (number, at) = digits(bytes, point, number);
        behind = at - point;
        count += behind;
        if behind == 0 {
            return None;
        }
    }
    let has_exponent = matches!(bytes.get(at), Some(b'e' | b'E'));
    if has_exponent || count > 19 || number > 1 << 53 {
        return None;
    }
    let value = number as f64 / POWERS.get(behind)?;
    Some((if is_negative { -value } else { value }, at))
}

/// Any number as JSON writes it, and its bytes.
fn any_number(bytes: &[u8]) -> Option<(f64, usize)> {
    let first = usize::from(bytes.first() == Some(&b'-'));
    let some_digits = |at: usize| {
        let count = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then_some(at + count)
    };
    let mut end = some_digits(first)?;
    if end > first + 1 && bytes[first] == b'0' {
        return None;
    }
    if bytes.get(end) == Some(&b'.') {
        end = some_digits(end + 1)?;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let has_sign = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
        end = some_digits(end + 1 + usize::from(has_sign))?;
    }
    Some((fast_float2::parse(&bytes[..end]).ok()?, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Result<Vec<f64>, String> {
        match parse(text.as_bytes(), "x", 10) {
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
            "01",
            "1.",
            ".5",
        ] {
            assert_eq!(short_number(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_is_read_is_what_serde_reads() {
        let texts = [
            "[1,2.5,-0.25e2]",
            "[[1, 2] , [3]]",
            "[]",
            "[ [ ] ]",
            "[1e-7,12345678.5,123456789012345678901]",
            "[00]",
            "[01]",
            "[1.]",
            "[.5]",
            "[-]",
            "[+1]",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1",
            "[[1]",
            "[1]]",
            "[1],[2]",
            "[1e]",
            "[1e+]",
            "[0x10]",
            "[nan]",
            "[Infinity]",
            "[tru]",
            "[true1]",
            "[1.2.3]",
            "[--1]",
            "[1[2]]",
            "[[1]2]",
        ];
        for text in texts {
            let by_serde: Result<serde_json::Value, _> = serde_json::from_str(text);
            let mut expected = Vec::new();
            let mut waiting: Vec<serde_json::Value> =
                by_serde.as_ref().ok().cloned().into_iter().collect();
            while let Some(value) = waiting.pop() {
                match value {
                    serde_json::Value::Array(values) => waiting.extend(values.into_iter().rev()),
                    other => expected.push(other.as_f64().unwrap()),
                }
            }
            assert_eq!(numbers(text).ok(), by_serde.is_ok().then_some(expected), "{text}");
        }
    }

    #[test]
    fn texts_are_kept_as_bytes() {
        let found = parse("[\"1:2 \\u00e9\", [\"b\"]]".as_bytes(), "x", 10).unwrap();
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
        assert!(parse(b"[\"a\",1]", "x", 9).unwrap_err().message.contains("element 2"));
    }
}
