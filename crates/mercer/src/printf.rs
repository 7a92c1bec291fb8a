//! Numbers as C's printf writes them: LIBSVM's texts are written so.

/// `%.<digits>g`.
pub fn g(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let text = format!("{:.*e}", digits - 1, value);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| {
        let is_whole = !text.contains('.');
        let short = text.trim_end_matches('0').trim_end_matches('.');
        if is_whole { text.to_owned() } else { short.to_owned() }
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
    } else {
        let places = (digits as i32 - 1 - exponent).max(0) as usize;
        trimmed(&format!("{value:.places$}"))
    }
}

#[cfg(test)]
mod tests {
    use super::g;

    /// What C's printf gave for the same numbers.
    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (value, digits, text) in [
            (0.0, 6, "0"),
            (1.0, 6, "1"),
            (-1.0, 17, "-1"),
            (86.66666666666667, 6, "86.6667"),
            (100.0, 6, "100"),
            (1e6, 6, "1e+06"),
            (123456.7, 6, "123457"),
            (0.0001, 6, "0.0001"),
            (0.00001234567, 6, "1.23457e-05"),
            (0.1, 17, "0.10000000000000001"),
            (0.1, 16, "0.1"),
            (1e-300, 6, "1e-300"),
            (999999.5, 6, "1e+06"),
            (f64::INFINITY, 6, "inf"),
        ] {
            assert_eq!(g(value, digits), text);
        }
    }
}
