//! `auto`: chooses `smo`, `decomposition`, `low_rank` or `direct` when the data are known. The rule is in `low_rank/choice.rs`.

use std::sync::Arc;

use mercer_spec::{Entry, Spec};

use super::{Method, Solver, SolverRef};

/// `low_rank` for many examples and a kernel matrix whose spectrum decays fast (measured on a sample), else
/// `decomposition` for many examples and supports at bound (counted on a sample), else `smo`.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "auto",
    summary: "for many examples low_rank if the spectrum of the kernel matrix decays fast, or decomposition if many supports are at bound; else smo",
    parameters: &[],
    variadic: false,
    build: |_| Ok(Arc::new(Auto)),
};

#[derive(Debug)]
struct Auto;

impl Solver for Auto {
    fn spec(&self) -> Spec {
        Spec::new("auto")
    }

    fn method(&self) -> Method<'_> {
        Method::Auto
    }
}
