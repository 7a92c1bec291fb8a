//! The functions of a normalised kernel in C; those of the kernel inside it begin with `INNER_`.

use mercer_kernel::{KernelRef, Profile, bound};

use super::{Bodies, relative_of};
use crate::c::file::number;

/// What the functions share.
pub(super) const PIECE: &str = include_str!("../text/normalized.c");

/// The largest error of a quotient that is known to lie within -1 and 1.
const WIDEST: f64 = 2.0 + 1e-6;

const VALUE: &str = "\
    return normalized_quotient(INNER_value(sum, uu, vv), sqrt(INNER_self_value(uu)) * sqrt(INNER_self_value(vv)));";

const SELF_VALUE: &str = "const double value = INNER_self_value(vv), root = sqrt(value);
    return normalized_quotient(value, root * root);";

const ERROR: &str = "if (INNER_is_ordinary(uu) && INNER_is_ordinary(vv)) return RELATIVE;
    return is_finite(INNER_bound(uu, uu, uu)) && is_finite(INNER_bound(vv, vv, vv)) ? WIDEST : INFINITY;";

const VALUE_OF_POWER: &str = "\
    const double query_root = sqrt(INNER_self_value(uu)), root = sqrt(INNER_self_value(vv));
    if (!(suits_power(query_root, uu, ALLOWS_ZERO) && suits_power(root, vv, ALLOWS_ZERO)))
        return normalized_power(fma(sum, SCALE, SHIFT), fma(uu, SCALE, SHIFT), fma(vv, SCALE, SHIFT), DEGREE);
    return normalized_quotient(INNER_value(sum, uu, vv), query_root * root);";

const SELF_VALUE_OF_POWER: &str = "const double value = INNER_self_value(vv), root = sqrt(value);
    const double inside = fma(vv, SCALE, SHIFT);
    if (!suits_power(root, vv, ALLOWS_ZERO)) return normalized_power(inside, inside, inside, DEGREE);
    return normalized_quotient(value, root * root);";

const ERROR_OF_POWER: &str = "const double a = fma(uu, SCALE, SHIFT), b = fma(vv, SCALE, SHIFT);
    if (INNER_is_ordinary(uu) && INNER_is_ordinary(vv)) return RELATIVE;
    if (!is_finite(a) || !is_finite(b)) return INFINITY;
    return is_known_power(uu, a, SCALE) && is_known_power(vv, b, SCALE) ? KNOWN : WIDEST;";

/// The functions of `kernel`, whose inner kernel's functions begin with `name`.
pub(super) fn bodies(name: &str, inner: &KernelRef, kernel: &KernelRef, relative: f64) -> Bodies {
    let relative_error = relative_of(kernel, relative).map_or("INFINITY".to_owned(), number);
    let power = inner_power(inner);
    let (scale, shift, degree) = power.unwrap_or((1.0, 0.0, 1));
    let p = f64::from(degree);
    let known = if p * (relative + bound::UNIT) < 1e-2 {
        bound::capped(2.2 * p * (relative + 4.0 * bound::UNIT) + 6.0 * bound::UNIT, WIDEST)
    } else {
        WIDEST
    };
    let fill = |text: &str| {
        text.replace("INNER_", name)
            .replace("RELATIVE", &relative_error)
            .replace("SCALE", &number(scale))
            .replace("SHIFT", &number(shift))
            .replace("DEGREE", &degree.to_string())
            .replace("ALLOWS_ZERO", if shift == 0.0 { "1" } else { "0" })
            .replace("KNOWN", &number(known))
            .replace("WIDEST", &number(WIDEST))
    };
    let texts = match power {
        Some(_) => [VALUE_OF_POWER, SELF_VALUE_OF_POWER, ERROR_OF_POWER],
        None => [VALUE, SELF_VALUE, ERROR],
    };
    let [value, self_value, error] = texts.map(fill);
    Bodies {
        value,
        self_value,
        bound: "return 1.0 + 1e-6;".into(),
        error,
        self_bound: "return 1.0;".into(),
        is_ordinary: format!("return {name}is_ordinary(vv);"),
    }
}

/// The parameters of an inner kernel that is a power.
fn inner_power(inner: &KernelRef) -> Option<(f64, f64, u32)> {
    match inner.form().finish()?.profile() {
        Profile::Identity => Some((1.0, 0.0, 1)),
        Profile::Power { scale, shift, degree } => Some((scale, shift, degree)),
        _ => None,
    }
}
