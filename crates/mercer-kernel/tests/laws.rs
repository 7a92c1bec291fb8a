//! The laws of kernels, over every registry entry.

use mercer_data::Matrix;
use mercer_kernel::{Domain, Form, KernelRef, parse};
use mercer_simd::Isa;
use mercer_testkit::generate::{self, Case};
use mercer_testkit::laws::block::{BlockLaw, SIZES};
use mercer_testkit::laws::kernels::{self, Accuracy, Verdict};

fn registered() -> impl Iterator<Item = KernelRef> {
    generate::kernel_specs()
        .iter()
        .map(|text| parse(text).expect("the list holds valid texts"))
}

fn cases(domain: Domain) -> Vec<Case> {
    let mut cases = generate::sane(domain, 11);
    cases.extend(generate::hostile(domain, 12));
    cases
}

/// Collects every failure, so that one run shows them all.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    fn note(&mut self, case: &str, verdict: Verdict) {
        if let Err(what) = verdict {
            self.0.push(format!("[{case}] {what}"));
        }
    }

    fn report(self) {
        assert!(
            self.0.is_empty(),
            "{} failures:\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}

fn everywhere(law: impl Fn(&KernelRef, &Matrix) -> Verdict) {
    let mut failures = Failures::default();
    for kernel in registered() {
        for case in cases(kernel.domain()) {
            failures.note(case.name, law(&kernel, &case.rows));
        }
    }
    failures.report();
}

#[test]
fn values_are_symmetric() {
    everywhere(kernels::symmetry);
}

#[test]
fn dense_and_sparse_rows_have_the_same_bits() {
    everywhere(kernels::storage);
}

#[test]
fn printed_kernels_are_the_same_kernels() {
    everywhere(kernels::round_trip);
}

#[test]
fn gram_matrices_are_semidefinite_where_claimed() {
    everywhere(kernels::semidefinite);
    let mut failures = Failures::default();
    for kernel in registered() {
        let rows = generate::within(kernel.domain(), &generate::dense(30, 4, 21));
        failures.note("30 rows", kernels::semidefinite(&kernel, &rows));
    }
    failures.report();
}

#[test]
fn values_lie_within_their_bounds() {
    let mut failures = Failures::default();
    for kernel in registered() {
        let mut summary = Accuracy::default();
        for case in cases(kernel.domain()) {
            match kernels::accuracy(&kernel, &case.rows, None) {
                Ok(seen) => summary = summary.join(seen),
                Err(what) => failures.note(case.name, Err(what)),
            }
        }
        println!("{}: {summary:?}", kernel.spec());
    }
    failures.report();
}
