//! What the tests of certifying stages share.
//! Machines are in `clouds`, stages with their kernels in `stages`.

pub mod clouds;
pub mod stages;

use mercer_compile::CompileError;
use mercer_data::Matrix;
use mercer_machine::{Machine, PlanSections};
use mercer_query::verify::{Watch, verify};
use mercer_testkit::properties::certify::{CertifyProperty, Tally};

/// The plan and the case that a failure names.
#[derive(Clone, Copy)]
pub struct TestNames<'a> {
    pub plan: &'a str,
    pub case: &'a str,
}

/// All properties of a machine under a plan; false if the stage refuses the machine, which it may.
pub fn hold(
    sections: Result<PlanSections, CompileError>,
    names: TestNames<'_>,
    machine: &Machine,
    queries: &Matrix,
    tally: &mut Tally,
) -> bool {
    let TestNames { plan, case } = names;
    let sections = match sections {
        Ok(sections) => sections,
        Err(CompileError::Unfit { .. } | CompileError::Load(_)) => return false,
        Err(other) => panic!("{case}: {other}"),
    };
    let name = format!("{plan} for {} on {case}", machine.kernel().spec());
    // What a fit stores, a verification accepts.
    let verified = verify(machine, &sections, &Watch::NOBODY);
    assert!(verified.is_ok(), "{name}: {verified:?}");
    let property = CertifyProperty { name, machine, sections: &sections, queries };
    property.ranges_contain_the_score(tally).unwrap();
    property.answers_are_exact_and_alike(tally).unwrap();
    property.budgets_are_kept().unwrap();
    property.thresholds_are_decided().unwrap();
    true
}
