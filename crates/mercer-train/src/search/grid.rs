//! Texts with several values: `rbf(gamma={0.1, 1, 10})`, `c_svc(C={2^-5..2^15; 11})`.
//! A text without braces is itself; kernels and formulations are parsed by their registries.

/// Why a text with several values cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GridError {
    /// A brace without its partner.
    #[error("'{0}': a brace is open; several values are written {{0.1, 1, 10}} or {{0.1..10; 3}}")]
    Brace(String),
    /// Something that is not a number.
    #[error("'{0}' is not a number")]
    Number(String),
    /// A range that is none.
    #[error(
        "'{0}': a range is written {{low..high; count}}, with 0 < low < high and at least 2 values"
    )]
    Range(String),
    /// More candidates than anyone can want.
    #[error("'{0}' has more than 10000 combinations")]
    TooMany(String),
}

const MOST: usize = 10_000;

/// All texts that a text with several values stands for; the last braces vary fastest. `{a..b; n}` are `n`
/// values from a to b whose ratios are equal; numbers may be powers: `2^-5`.
///
/// # Errors
/// If braces, numbers or ranges are wrong.
pub fn expand(text: &str) -> Result<Vec<String>, GridError> {
    let mut texts = vec![String::new()];
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((inside, after)) = behind.split_once('}') else {
            return Err(GridError::Brace(text.to_owned()));
        };
        let values = values(inside)?;
        if texts.len() * values.len() > MOST {
            return Err(GridError::TooMany(text.to_owned()));
        }
        texts = texts
            .iter()
            .flat_map(|start| values.iter().map(move |value| format!("{start}{before}{value}")))
            .collect();
        rest = after;
    }
    if rest.contains('}') {
        return Err(GridError::Brace(text.to_owned()));
    }
    texts.iter_mut().for_each(|start| start.push_str(rest));
    Ok(texts)
}

/// Values as texts; words stay as they are.
fn values(inside: &str) -> Result<Vec<String>, GridError> {
    if let Some((low, high)) = inside.split_once("..") {
        let bad = || GridError::Range(inside.to_owned());
        let (high, count) = high.split_once(';').ok_or_else(bad)?;
        let (low, high) = (number(low)?, number(high)?);
        let count: usize = count.trim().parse().map_err(|_| bad())?;
        if !(low > 0.0 && low < high && high.is_finite() && (2..=MOST).contains(&count)) {
            return Err(bad());
        }
        let step = |at: usize| {
            if at + 1 == count {
                return high;
            }
            let share = at as f64 / (count - 1) as f64;
            // Twelve digits: 0.1 rather than 0.10000000000000002.
            let value = (low.ln() + share * (high / low).ln()).exp();
            format!("{value:.11e}").parse().unwrap_or(value)
        };
        return Ok((0..count).map(|at| if at == 0 { low } else { step(at) }.to_string()).collect());
    }
    let checked = |word: &str| {
        let word = word.trim();
        match number(word) {
            Ok(value) => Ok(value.to_string()),
            Err(_) if word.starts_with(char::is_alphabetic) => Ok(word.to_owned()),
            Err(error) => Err(error),
        }
    };
    inside.split(',').map(checked).collect()
}

/// `0.5`, `1e-3` or `2^-5`.
fn number(text: &str) -> Result<f64, GridError> {
    let text = text.trim();
    let plain = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
    let value = match text.split_once('^') {
        Some((base, exponent)) => plain(base).zip(plain(exponent)).map(|(b, e)| b.powf(e)),
        None => plain(text),
    };
    value.filter(|value| value.is_finite()).ok_or_else(|| GridError::Number(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_become_all_their_combinations() {
        let texts = |text: &str| expand(text).unwrap();
        assert_eq!(texts("rbf(gamma=1)"), ["rbf(gamma=1)"]);
        assert_eq!(texts("rbf(gamma={0.1, 2^-2})"), ["rbf(gamma=0.1)", "rbf(gamma=0.25)"]);
        assert_eq!(
            texts("c_svc(C={0.01..100; 3})"),
            ["c_svc(C=0.01)", "c_svc(C=1)", "c_svc(C=100)"]
        );
        assert_eq!(texts("rbf(gamma={scale, auto})"), ["rbf(gamma=scale)", "rbf(gamma=auto)"]);
        assert_eq!(texts("p(a={1,2}, b={3,4})").len(), 4);
        assert_eq!(texts("c({2^-5..2^15; 11})")[1], "c(0.125)");
    }

    #[test]
    fn what_is_no_grid_is_refused() {
        for text in
            ["a({1", "a(1})", "a({})", "a({1..2})", "a({0..2;3})", "a({2..1;3})", "a({1,-})"]
        {
            assert!(expand(text).is_err(), "{text}");
        }
    }
}
