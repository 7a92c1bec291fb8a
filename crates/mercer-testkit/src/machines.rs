//! Random machines for property tests: any kernel and rows, every kind of output.

use mercer_data::Matrix;
use mercer_data::synthetic::normal;
use mercer_kernel::KernelRef;
use mercer_machine::{ClassName, Machine, Output, Scheme, Score};

use crate::generate;

/// Every kind of output a machine can have.
pub fn outputs() -> Vec<(&'static str, Output)> {
    let names = |count: u32| (0..count).map(|n| ClassName::Number(f64::from(n))).collect();
    let text = |names: &[&str]| names.iter().map(|n| ClassName::Text((*n).to_owned())).collect();
    vec![
        ("value", Output::Value),
        ("novelty", Output::Novelty),
        ("two classes", Output::Classes { names: names(2), scheme: Scheme::OneVsOne }),
        ("one-vs-one", Output::Classes { names: names(4), scheme: Scheme::OneVsOne }),
        (
            "one-vs-rest",
            Output::Classes { names: text(&["a", "b", "c"]), scheme: Scheme::OneVsRest },
        ),
    ]
}

/// A machine with these supports, normal coefficients (a third of them zero) and small offsets.
///
/// # Panics
/// If the supports lie outside the kernel's domain.
pub fn random(kernel: &KernelRef, supports: &Matrix, output: &Output, seed: u64) -> Machine {
    let mut rng = generate::rng(seed);
    let scores = (0..output.scores()).map(|score| {
        let coefficients: Vec<f64> = (0..supports.rows())
            .map(|row| if (row + score) % 3 == 0 { 0.0 } else { normal(&mut rng) })
            .collect();
        Score::expansion(&coefficients, 0.1 * normal(&mut rng))
    });
    let scores = scores.collect();
    Machine::new(kernel.clone(), supports.clone(), scores, output.clone())
        .expect("generated supports lie in the kernel's domain")
}
