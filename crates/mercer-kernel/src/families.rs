//! The kernels: one file each, one line in the registry.

mod additive;
mod exponential;
mod laplacian;
mod linear;
mod normalized;
mod polynomial;
mod precomputed;
mod rbf;
mod sigmoid;

mod chi2;
mod hellinger;
mod intersection;
mod jensen_shannon;
mod power_mean;

use mercer_spec::{Checked, Registry, Spec, SpecError, Value};

use crate::{Finish, Form, KernelRef};

/// Every kernel.
pub static KERNELS: Registry<KernelRef> = Registry {
    noun: "kernel",
    entries: &[
        &linear::ENTRY,
        &polynomial::ENTRY,
        &rbf::ENTRY,
        &laplacian::ENTRY,
        &sigmoid::ENTRY,
        &normalized::ENTRY,
        &intersection::ENTRY,
        &chi2::ENTRY,
        &exponential::ENTRY,
        &power_mean::ENTRY,
        &jensen_shannon::ENTRY,
        &hellinger::ENTRY,
        &precomputed::ENTRY,
    ],
};

/// Kernels inside each other at most: the work for an error bound grows threefold with each.
const MAX_NESTED: usize = 4;

/// The kernel inside another one.
fn inner(checked: &Checked<'_>) -> Result<KernelRef, SpecError> {
    let spec = checked.spec("inner").expect("the entry declares a component");
    let found = nested(spec) + 1;
    if found > MAX_NESTED {
        let reason =
            format!("{found} kernels are inside each other; at most {MAX_NESTED} are accepted");
        return Err(checked.refuse(reason));
    }
    KERNELS.build(spec)
}

/// How many texts are inside each other.
fn nested(spec: &Spec) -> usize {
    let named = spec.named().iter().map(|(_, value)| value);
    let inside = spec.positional().iter().chain(named).map(|value| match value {
        Value::Spec(inner) => nested(inner),
        Value::Number(_) => 0,
    });
    1 + inside.max().unwrap_or(0)
}

/// The function of the kernel inside another one.
fn finish_of(inner: &KernelRef) -> &dyn Finish {
    match inner.form() {
        Form::Dot(finish) | Form::Shift(finish) | Form::Additive(_, finish) => finish,
        Form::Opaque => unreachable!("no registered kernel is opaque"),
    }
}

/// The form of a kernel that puts its own function in place of the inner one's.
fn form_over<'a>(inner: &'a KernelRef, finish: &'a dyn Finish) -> Form<'a> {
    match inner.form() {
        Form::Dot(_) => Form::Dot(finish),
        Form::Shift(_) => Form::Shift(finish),
        Form::Additive(term, _) => Form::Additive(term, finish),
        Form::Opaque => Form::Opaque,
    }
}
