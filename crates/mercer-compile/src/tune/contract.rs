//! What answers must be, and what is to be fast: the task that `tune` is given. How a plan is found for it is in the
//! phases.

use std::fmt;
use std::str::FromStr;

use mercer_spec::{Entry, Kind, Parameter, Registry, Spec, SpecError};

use crate::risk::Target;

/// What answers must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Contract {
    /// Every answer is the specified f64 evaluation, its score included.
    Exact,
    /// Every label is the exact one, proved; values of a regression lie within the tolerance.
    Certified,
    /// With confidence `1 - delta`, at most the share `risk` of queries like the sample's disagree with exact.
    Calibrated(Target),
}

const SHARE: Kind = Kind::Number { low: 0.0, high: 1.0, closed: false };

static EXACT: Entry<Contract> = Entry {
    name: "exact",
    summary: "every answer is the specified evaluation in f64",
    parameters: &[],
    variadic: false,
    build: |_| Ok(Contract::Exact),
};

static CERTIFIED: Entry<Contract> = Entry {
    name: "certified",
    summary: "the same labels as exact, proved, rounding included",
    parameters: &[],
    variadic: false,
    build: |_| Ok(Contract::Certified),
};

static CALIBRATED: Entry<Contract> = Entry {
    name: "calibrated",
    summary: "at most a share eps of queries disagrees with exact, with confidence 1 - delta",
    parameters: &[
        Parameter {
            name: "eps",
            kind: SHARE,
            default: Some("1e-3"),
            help: "share of queries that may get a label other than the exact one",
        },
        Parameter {
            name: "delta",
            kind: SHARE,
            default: Some("0.05"),
            help: "probability that the promise does not hold because the sample misled",
        },
    ],
    variadic: false,
    build: |checked| {
        let (risk, delta) = (checked.number("eps"), checked.number("delta"));
        Ok(Contract::Calibrated(Target { risk, delta, ..Target::default() }))
    },
};

/// All contracts, from the strictest to the loosest.
pub static CONTRACTS: Registry<Contract> =
    Registry { noun: "contract", entries: &[&EXACT, &CERTIFIED, &CALIBRATED] };

impl FromStr for Contract {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        CONTRACTS.parse(text)
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::Certified => f.write_str("certified"),
            Self::Calibrated(Target { risk, delta, .. }) => {
                Spec::new("calibrated").set("eps", *risk).set("delta", *delta).fmt(f)
            }
        }
    }
}

/// What is to be fast.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Aim {
    /// One query at a time, on one thread.
    Latency,
    /// Batches, on all threads.
    #[default]
    Throughput,
}

impl Aim {
    /// Its name in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_are_read_as_they_are_written() {
        for text in ["exact", "certified", "calibrated(eps=0.001, delta=0.05)"] {
            assert_eq!(text.parse::<Contract>().unwrap().to_string(), text);
        }
        let short: Contract = "calibrated(1e-2)".parse().unwrap();
        assert_eq!(
            short,
            Contract::Calibrated(Target { risk: 0.01, delta: 0.05, ..Target::default() })
        );
        let wrong = "calibrated(eps=2)".parse::<Contract>().unwrap_err().to_string();
        assert!(wrong.contains("eps"), "{wrong}");
        let unknown = "certain".parse::<Contract>().unwrap_err().to_string();
        assert!(unknown.contains("certified"), "{unknown}");
    }
}
