use std::sync::Arc;

use mercer_spec::{Entry, Spec};

use super::{Method, Solver, SolverRef};

/// `low_rank` where there are many examples and the measured spectrum of the kernel decays, else `smo`.
pub(super) static ENTRY: Entry<SolverRef> = Entry {
    name: "auto",
    summary: "low_rank where examples are many and the kernel's spectrum decays, else smo",
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
