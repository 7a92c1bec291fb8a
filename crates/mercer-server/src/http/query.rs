//! The query of an address: names and values, percent-encoded.

use crate::failure::Failure;

/// Names and values of a query, in order.
///
/// # Errors
/// If something is not encoded as it must be, or a name stands twice.
pub fn pairs(query: &str) -> Result<Vec<(String, String)>, Failure> {
    let mut found: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        if found.iter().any(|(known, _)| *known == name) {
            return Err(Failure::invalid(format!("the query has '{name}' twice")));
        }
        found.push((name, value));
    }
    Ok(found)
}

/// A whole number of a query.
///
/// # Errors
/// If it is none.
pub fn whole(name: &str, value: &str) -> Result<usize, Failure> {
    value.parse().map_err(|_| {
        Failure::invalid(format!("{name} is '{value}'; it must be a whole number of at least 0"))
    })
}

/// The refusal of a name that an address does not know.
pub fn unknown(name: &str, known: &[&str]) -> Failure {
    Failure::invalid(format!("there is no '{name}' in this query; known are {}", known.join(", ")))
}

fn decoded(text: &str) -> Result<String, Failure> {
    let wrong = || Failure::invalid(format!("'{text}' in the query is not percent-encoded UTF-8"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
                rest = after;
                let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(wrong);
                (16 * digit(digits[0])? + digit(digits[1])?) as u8
            }
            plain => *plain,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_and_checked() {
        let found = pairs("a=1&b=x%20y+z&&c").unwrap();
        let expected = [("a", "1"), ("b", "x y z"), ("c", "")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        for wrong in ["a=%2", "a=%zz", "a=%ff", "a=1&a=2", "a=%+1"] {
            assert!(pairs(wrong).is_err(), "{wrong}");
        }
        assert_eq!(whole("count", "12").unwrap(), 12);
        assert!(whole("count", "-1").unwrap_err().message.contains("count is '-1'"));
    }
}
