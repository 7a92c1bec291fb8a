//! Kernel texts that leave a number to the data: `rbf(gamma=scale)`, `rbf(gamma=auto)`.
//! The kernels themselves take numbers only (`families`).

use mercer_data::Matrix;
use mercer_spec::{Spec, Value};

/// Replaces the words `scale` and `auto` by numbers that fit these rows, nested kernels included.
///
/// With d columns, `auto` is 1/d (LIBSVM's default) and `scale` is 1/(d var), where var is the variance
/// of all values, zeros included (scikit-learn's default); 1 where all values are equal.
pub fn fit_words(spec: &Spec, rows: &Matrix) -> Spec {
    let number = |value: &Value| match value {
        Value::Spec(word) if is_word(word, "auto") => Value::Number(auto(rows)),
        Value::Spec(word) if is_word(word, "scale") => Value::Number(scale(rows)),
        Value::Spec(inner) => Value::Spec(fit_words(inner, rows)),
        Value::Number(number) => Value::Number(*number),
    };
    let mut fitted = Spec::new(spec.name());
    for value in spec.positional() {
        fitted = fitted.with(number(value));
    }
    for (name, value) in spec.named() {
        fitted = fitted.set(name, number(value));
    }
    fitted
}

fn is_word(spec: &Spec, word: &str) -> bool {
    spec.name() == word && spec.positional().is_empty() && spec.named().is_empty()
}

fn auto(rows: &Matrix) -> f64 {
    1.0 / rows.columns().max(1) as f64
}

fn scale(rows: &Matrix) -> f64 {
    let count = (rows.rows() as f64 * rows.columns() as f64).max(1.0);
    let values = || rows.iter().flat_map(mercer_data::Row::nonzeros).map(|(_, value)| value);
    let mean = values().sum::<f64>() / count;
    let stored = values().map(|value| (value - mean).powi(2)).sum::<f64>();
    let zeros = count - rows.nonzeros() as f64;
    let variance = (stored + zeros * mean * mean) / count;
    let gamma = auto(rows) / variance;
    if gamma.is_finite() && gamma > 0.0 { gamma } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_numbers_of_the_data() {
        let rows = Matrix::dense(2, vec![0.0, 2.0, 4.0, 2.0]).unwrap();
        let fit = |text: &str| fit_words(&text.parse().unwrap(), &rows).to_string();
        assert_eq!(fit("rbf(gamma=auto)"), "rbf(gamma=0.5)");
        // Mean 2, variance (4 + 0 + 4 + 0) / 4 = 2, so 1 / (2 * 2).
        assert_eq!(fit("rbf(scale)"), "rbf(0.25)");
        assert_eq!(
            fit("normalized(polynomial(gamma=scale))"),
            "normalized(polynomial(gamma=0.25))"
        );
        assert_eq!(fit("rbf(gamma=3)"), "rbf(gamma=3)");
    }

    #[test]
    fn equal_values_fall_back_to_one() {
        let rows = Matrix::dense(1, vec![5.0, 5.0]).unwrap();
        assert_eq!(
            fit_words(&"rbf(gamma=scale)".parse().unwrap(), &rows).to_string(),
            "rbf(gamma=1)"
        );
    }
}
