//! The kernel function of the C file.

use std::io::Write;

use mercer_spec::{Spec, Value};

use super::{Real, inexpressible};
use crate::{Machine, MachineError};

/// A sum over columns of a term of `u` and `v`, and a function of that `sum`.
pub(super) struct Kernel {
    term: String,
    finish: String,
}

impl Kernel {
    pub(super) fn of(machine: &Machine, real: Real) -> Result<Self, MachineError> {
        let spec = machine.kernel().spec();
        let f = real.suffix();
        let number = |name: &str| match spec.get(name) {
            Some(Value::Number(value)) => real.parameter(*value),
            _ => real.literal(0.0),
        };
        let exponential = |gamma: String| format!("exp{f}(-{gamma} * sum)");
        let (term, finish) = match spec.name() {
            "linear" => ("u * v".to_owned(), "sum".to_owned()),
            "rbf" => ("(u - v) * (u - v)".to_owned(), exponential(number("gamma")?)),
            "laplacian" => (format!("fabs{f}(u - v)"), exponential(number("gamma")?)),
            "polynomial" => {
                let (gamma, coef0, degree) =
                    (number("gamma")?, number("coef0")?, number("degree")?);
                ("u * v".to_owned(), format!("pow{f}({gamma} * sum + {coef0}, {degree})"))
            }
            "sigmoid" => {
                let (gamma, coef0) = (number("gamma")?, number("coef0")?);
                ("u * v".to_owned(), format!("tanh{f}({gamma} * sum + {coef0})"))
            }
            "exponential" => {
                // The terms below are u where u = v, so the distance is u + v - 2 k(u, v).
                let inner = match spec.positional() {
                    [Value::Spec(inner)] => additive(inner, f),
                    _ => None,
                };
                let inner = inner.ok_or_else(|| inexpressible(format!("the kernel {spec}")))?;
                (format!("u + v - 2 * ({inner})"), exponential(number("gamma")?))
            }
            _ => match additive(&spec, f) {
                Some(term) => (term, "sum".to_owned()),
                None => return Err(inexpressible(format!("the kernel {spec}"))),
            },
        };
        Ok(Self { term, finish })
    }

    pub(super) fn write(&self, is_sparse: bool, out: &mut dyn Write) -> Result<(), MachineError> {
        let Self { term, finish } = self;
        writeln!(out, "static mercer_real kernel(const mercer_real *row, unsigned support) {{")?;
        writeln!(out, "    mercer_real sum = 0;\n    unsigned j;")?;
        let value = if is_sparse {
            writeln!(out, "    unsigned p = support_starts[support];")?;
            writeln!(out, "    const unsigned end = support_starts[support + 1];")?;
            "(p < end && support_columns[p] == j) ? support_values[p++] : 0"
        } else {
            let offset = "(unsigned long)support * MERCER_COLUMNS";
            writeln!(out, "    const mercer_real *z = support_values + {offset};")?;
            "z[j]"
        };
        writeln!(out, "    for (j = 0; j < MERCER_COLUMNS; j++) {{")?;
        writeln!(out, "        const mercer_real u = row[j], v = {value};")?;
        writeln!(out, "        sum += {term};\n    }}")?;
        writeln!(out, "    return {finish};\n}}\n")?;
        Ok(())
    }
}

/// Kernels that are a sum of means of `u` and `v`, both at least 0.
fn additive(spec: &Spec, f: &str) -> Option<String> {
    Some(match spec.name() {
        "intersection" => "u < v ? u : v".to_owned(),
        "chi2" => "u + v > 0 ? 2 * u * v / (u + v) : 0".to_owned(),
        "hellinger" => format!("sqrt{f}(u) * sqrt{f}(v)"),
        "jensen_shannon" => format!(
            "(u > 0 ? u / 2 * log2{f}((u + v) / u) : 0) + (v > 0 ? v / 2 * log2{f}((u + v) / v) : 0)"
        ),
        _ => return None,
    })
}
