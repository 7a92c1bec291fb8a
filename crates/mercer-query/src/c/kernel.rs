//! The kernel of a plan's C file: its value and the bounds of it, function by function as in `mercer_kernel`.

mod normalized;

use mercer_kernel::{Form, Kernel, KernelRef, bound};
use mercer_machine::MachineError;
use mercer_spec::{Spec, Value};

use super::file::{CFile, inexpressible, number};

/// Parts of mathematics that a kernel needs.
const EXP: &str = include_str!("text/exp.c");
const TANH: &str = include_str!("text/tanh.c");
const LN: &str = include_str!("text/ln.c");

/// Writes the functions of the kernel of a machine of `columns` columns.
pub(super) fn write(
    file: &mut CFile<'_>,
    kernel: &KernelRef,
    columns: usize,
    is_shifted: bool,
) -> Result<(), MachineError> {
    let form = kernel.form();
    let Some(finish) = form.finish() else { return Err(unknown(kernel.as_ref())) };
    let relative = bound::base_error(&form, columns, is_shifted);
    let (base, term) = match form {
        Form::Additive(..) => (include_str!("text/prepare_additive.c"), Some(term(kernel)?)),
        _ => (include_str!("text/prepare.c"), None),
    };
    for piece in pieces(&kernel.spec()) {
        file.piece(piece)?;
    }
    let relative_error = finish.relative_error(relative);
    file.define("KERNEL_IS_SEMIDEFINITE", u8::from(kernel.is_positive_semidefinite()))?;
    file.define(
        "KERNEL_IS_NON_NEGATIVE",
        u8::from(kernel.domain() != mercer_kernel::Domain::Real),
    )?;
    file.define("KERNEL_HAS_RELATIVE_ERROR", u8::from(relative_error.is_some()))?;
    file.define("KERNEL_RELATIVE_ERROR", number(relative_error.unwrap_or(0.0)))?;
    file.define("KERNEL_BASE_ERROR", number(relative))?;
    // Only of the Laplacian kernel squared norms say nothing.
    let is_laplacian = kernel.spec().name() == "laplacian";
    file.define(
        "KERNEL_MAGNITUDE",
        if is_laplacian { "uu + vv + INFINITY" } else { "sqrt(uu) * sqrt(vv)" },
    )?;
    let mut text = String::new();
    functions("finish_", kernel, relative, &mut text)?;
    file.text(&text)?;
    if let Some(term) = term {
        file.text(&term)?;
    }
    file.text(base)?;
    file.text(include_str!("text/kernel_values.c"))
}

fn unknown(kernel: &dyn Kernel) -> MachineError {
    inexpressible(format!("the kernel {} in a plan", kernel.spec()))
}

/// The mathematics that a kernel and those inside it need.
fn pieces(spec: &Spec) -> Vec<&'static str> {
    let mut own = match spec.name() {
        "rbf" | "laplacian" | "exponential" => vec![EXP],
        "sigmoid" => vec![EXP, TANH],
        "jensen_shannon" => vec![LN],
        "normalized" => vec![normalized::PIECE],
        _ => Vec::new(),
    };
    if let Some(Value::Spec(inner)) = spec.positional().first() {
        own.extend(pieces(inner));
    }
    own
}

/// The term of an additive kernel, which is zero where either number is.
fn term(kernel: &KernelRef) -> Result<String, MachineError> {
    let spec = kernel.spec();
    if let Some(Value::Spec(_)) = spec.positional().first() {
        return term(&inner(kernel.as_ref())?);
    }
    let body = match spec.name() {
        "intersection" => "return x < y ? x : y;",
        "hellinger" => "return sqrt(x) * sqrt(y);",
        "laplacian" => "return fabs(x - y);",
        "chi2" => {
            "const double low = x < y ? x : y, high = x < y ? y : x, whole = low + high;\n    \
             const int fits = whole < INFINITY;\n    \
             const double mean = (fits ? 2.0 * low : low) * (high / (fits ? whole : 0.5 * low + 0.5 * high));\n    \
             return low > 0 ? mean : 0.0;"
        }
        "jensen_shannon" => {
            "const double low = x < y ? x : y, high = x < y ? y : x, ratio = low / high;\n    \
             if (!(ratio > 0)) return 0.0;\n    \
             return fma(low + high, ln_1p_of(ratio), -low * ln_of(ratio))\n        \
             * (0.5 * 1.44269504088896340735992468100189214);"
        }
        _ => return Err(unknown(kernel.as_ref())),
    };
    Ok(format!("PART double term(double x, double y) {{\n    {body}\n}}\n\n"))
}

fn inner(kernel: &dyn Kernel) -> Result<KernelRef, MachineError> {
    match kernel.spec().positional().first() {
        Some(Value::Spec(inner)) => {
            mercer_kernel::parse(&inner.to_string()).map_err(|_| unknown(kernel))
        }
        _ => Err(unknown(kernel)),
    }
}

/// The bodies of the functions of one kernel.
struct Bodies {
    value: String,
    self_value: String,
    bound: String,
    error: String,
    self_bound: String,
    is_ordinary: String,
}

impl Bodies {
    /// Those of a kernel of size 1 at most, whose rows are always ordinary.
    fn of_exponential(value: String, self_value: String, error: String) -> Self {
        Self {
            value,
            self_value,
            bound: "return 1.0 + 1e-10;".into(),
            error,
            self_bound: "return 1.0;".into(),
            is_ordinary: "return 1;".into(),
        }
    }
}

/// Writes the functions of a kernel, those of the kernel inside it first; all names begin with `prefix`.
fn functions(
    prefix: &str,
    kernel: &KernelRef,
    relative: f64,
    out: &mut String,
) -> Result<(), MachineError> {
    let spec = kernel.spec();
    let parameter = |name: &str| match spec.get(name) {
        Some(Value::Number(value)) => Ok(*value),
        _ => Err(unknown(kernel.as_ref())),
    };
    let bodies = match spec.name() {
        "linear" | "intersection" | "hellinger" | "chi2" | "jensen_shannon" => identity(),
        "polynomial" => {
            let degree = parameter("degree")? as u32;
            polynomial(degree, parameter("gamma")?, parameter("coef0")?, kernel, relative)
        }
        "rbf" => rbf(parameter("gamma")?),
        "sigmoid" => sigmoid(parameter("gamma")?, parameter("coef0")?),
        "laplacian" => laplacian(parameter("gamma")?, kernel, relative),
        "normalized" => {
            functions(&format!("{prefix}inner_"), &inner(kernel.as_ref())?, relative, out)?;
            let name = format!("{prefix}inner_");
            normalized::bodies(&name, &inner(kernel.as_ref())?, kernel, relative)
        }
        "exponential" => {
            functions(&format!("{prefix}inner_"), &inner(kernel.as_ref())?, relative, out)?;
            exponential(&format!("{prefix}inner_"), parameter("gamma")?)
        }
        _ => return Err(unknown(kernel.as_ref())),
    };
    let three = "double sum, double uu, double vv";
    let unused = "(void)uu; (void)vv;";
    let parts = [
        ("double", "value", three, format!("{unused}\n    {}", bodies.value)),
        ("double", "self_value", "double vv", format!("(void)vv;\n    {}", bodies.self_value)),
        (
            "double",
            "bound",
            "double uu, double vv, double magnitude",
            format!("{unused} (void)magnitude;\n    {}", bodies.bound),
        ),
        (
            "double",
            "error",
            "double uu, double vv, double magnitude",
            format!("{unused} (void)magnitude;\n    {}", bodies.error),
        ),
        ("double", "self_bound", "double vv", format!("(void)vv;\n    {}", bodies.self_bound)),
        ("int", "is_ordinary", "double vv", format!("(void)vv;\n    {}", bodies.is_ordinary)),
    ];
    for (kind, name, arguments, body) in parts {
        let body = body.replace("SELF_", prefix);
        let head = ["PART ", kind, " ", prefix, name, "(", arguments, ") {\n    "];
        out.extend(head.into_iter().chain([body.as_str(), "\n}\n\n"]));
    }
    Ok(())
}

/// `h(s) = s`
fn identity() -> Bodies {
    Bodies {
        value: "return sum;".into(),
        self_value: "return vv;".into(),
        bound: "return magnitude;".into(),
        error: "return KERNEL_BASE_ERROR * magnitude;".into(),
        self_bound: "return vv;".into(),
        is_ordinary: "return vv >= 1e-200 && vv <= 1e200;".into(),
    }
}

fn relative_of(kernel: &KernelRef, relative: f64) -> Option<f64> {
    kernel.form().finish().and_then(|finish| finish.relative_error(relative))
}

fn polynomial(degree: u32, gamma: f64, coef0: f64, kernel: &KernelRef, relative: f64) -> Bodies {
    let power = |sum: &str| {
        format!("return power_of(fma({sum}, {}, {}), {degree});", number(gamma), number(coef0))
    };
    let inside = |m: &str| format!("({} * {m} + {})", number(gamma), number(coef0.abs()));
    let error = match relative_of(kernel, relative) {
        Some(r) => format!("return {} * SELF_bound(uu, vv, magnitude);", number(r)),
        None => "return INFINITY;".into(),
    };
    Bodies {
        value: power("sum"),
        self_value: power("vv"),
        bound: format!("return power_of({}, {degree}) * (1.0 + 1e-10);", inside("magnitude")),
        error,
        self_bound: format!(
            "return power_of({}, {degree}) * (1.0 + (4.0 * {degree}.0 + 8.0) * UNIT);",
            inside("vv")
        ),
        is_ordinary: format!(
            "return SELF_self_bound(vv) >= 1e-200 && SELF_self_bound(vv) <= 1e200\n        \
             && {} * HIDDEN <= 1e-20 * {};",
            number(gamma),
            inside("vv")
        ),
    }
}

/// The error of `exp(-gamma t)` where `t >= 0` is known to within `error`.
const EXPONENTIAL_ERROR: &str = "if (!is_finite(error)) return INFINITY;\n    \
    return capped(GAMMA * error * (1.0 + 4.0 * UNIT), 1.0) + UNIT + DBL_EPSILON * (1.0 + 1e-6) + DBL_MIN;";

fn rbf(gamma: f64) -> Bodies {
    let value = |sum: &str, uu: &str| {
        format!(
            "const double distance = fma({sum}, -2.0, {uu} + vv);\n    \
             return exp_of(-{} * (distance < 0 ? 0.0 : distance));",
            number(gamma)
        )
    };
    let error = "const double error = 2.0 * (KERNEL_BASE_ERROR + 3.0 * UNIT) * (uu + vv);";
    let error = format!("{error}\n    {}", EXPONENTIAL_ERROR.replace("GAMMA", &number(gamma)));
    Bodies::of_exponential(value("sum", "uu"), value("vv", "vv"), error)
}

fn laplacian(gamma: f64, kernel: &KernelRef, relative: f64) -> Bodies {
    let value =
        |sum: &str| format!("return exp_of({sum} < INFINITY ? {sum} * -{} : NAN);", number(gamma));
    let finish = kernel.form();
    let error = finish.finish().map_or(f64::INFINITY, |f| f.error(relative, 0.0, 0.0, 0.0));
    Bodies::of_exponential(value("sum"), value("vv"), format!("return {};", number(error)))
}

fn sigmoid(gamma: f64, coef0: f64) -> Bodies {
    let value =
        |sum: &str| format!("return tanh_of(fma({sum}, {}, {}));", number(gamma), number(coef0));
    let (scale, size) = (number(gamma.abs()), number(coef0.abs()));
    let error = format!(
        "const double inside = {scale} * KERNEL_BASE_ERROR * magnitude + UNIT * ({scale} * magnitude + {size});\n    \
         return capped(inside * (1.0 + 8.0 * UNIT), 2.0) + 4.0 * DBL_EPSILON;"
    );
    let mut bodies = Bodies::of_exponential(value("sum"), value("vv"), error);
    bodies.self_bound = "return 1.0 + 1e-10;".into();
    bodies
}

fn exponential(inner: &str, gamma: f64) -> Bodies {
    let exponent = |value: &str, query: &str, row: &str| {
        format!(
            "const double distance = fma(-2.0, {value}, {query} + {row});\n    \
             return exp_of(-({} * (distance < 0 ? 0.0 : distance)));",
            number(gamma)
        )
    };
    let value = exponent(
        &format!("{inner}value(sum, uu, vv)"),
        &format!("{inner}self_value(uu)"),
        &format!("{inner}self_value(vv)"),
    );
    let own = format!("{inner}self_value(vv)");
    let error = format!(
        "const double mu = uu * (1.0 + 1e-6), mv = vv * (1.0 + 1e-6);\n    \
         const double errors = {inner}error(uu, uu, mu) + {inner}error(vv, vv, mv)\n        \
         + 2.0 * {inner}error(uu, vv, magnitude);\n    \
         const double sizes = {inner}bound(uu, uu, mu) + {inner}bound(vv, vv, mv)\n        \
         + 2.0 * {inner}bound(uu, vv, magnitude);\n    \
         const double error = errors + 4.0 * UNIT * sizes + DBL_MIN;\n    {}",
        EXPONENTIAL_ERROR.replace("GAMMA", &number(gamma))
    );
    Bodies::of_exponential(value, exponent(&own, &own, &own), error)
}
