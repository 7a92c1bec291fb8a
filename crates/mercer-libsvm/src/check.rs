//! `svm_check_parameter`: LIBSVM's checks, in its order and words.

use std::ffi::CStr;

use crate::layout::{kernel_type, svm_parameter, svm_type};

/// The first thing that is wrong. `targets` are those of the problem; `has_marks` is the layout from 3.31 on, whose one-class
/// machines know probabilities.
pub(crate) fn parameter(
    param: &svm_parameter,
    targets: &[f64],
    has_marks: bool,
) -> Option<&'static CStr> {
    let svm_parameter { svm_type: kind, kernel_type: kernel, gamma, degree, .. } = *param;
    let has_gamma = matches!(kernel, kernel_type::POLY | kernel_type::RBF | kernel_type::SIGMOID);
    let has_cost = matches!(kind, svm_type::C_SVC | svm_type::EPSILON_SVR | svm_type::NU_SVR);
    let has_nu = matches!(kind, svm_type::NU_SVC | svm_type::ONE_CLASS | svm_type::NU_SVR);
    let checks = [
        (!(0..=4).contains(&kind), c"unknown svm type"),
        (!(0..=4).contains(&kernel), c"unknown kernel type"),
        (has_gamma && gamma < 0.0, c"gamma < 0"),
        (kernel == kernel_type::POLY && degree < 0, c"degree of polynomial kernel < 0"),
        (param.cache_size <= 0.0, c"cache_size <= 0"),
        (param.eps <= 0.0, c"eps <= 0"),
        (has_cost && param.C <= 0.0, c"C <= 0"),
        (has_nu && (param.nu <= 0.0 || param.nu > 1.0), c"nu <= 0 or nu > 1"),
        (kind == svm_type::EPSILON_SVR && param.p < 0.0, c"p < 0"),
        (!matches!(param.shrinking, 0 | 1), c"shrinking != 0 and shrinking != 1"),
        (!matches!(param.probability, 0 | 1), c"probability != 0 and probability != 1"),
        (
            !has_marks && kind == svm_type::ONE_CLASS && param.probability == 1,
            c"one-class SVM probability output not supported yet",
        ),
        (
            kind == svm_type::NU_SVC && is_infeasible(param.nu, targets),
            c"specified nu is infeasible",
        ),
    ];
    checks.into_iter().find(|(is_wrong, _)| *is_wrong).map(|(_, text)| text)
}

/// Whether nu asks more of a pair of classes than its smaller class can give.
fn is_infeasible(nu: f64, targets: &[f64]) -> bool {
    let mut counts: Vec<(i32, f64)> = Vec::new();
    for target in targets {
        match counts.iter_mut().find(|(label, _)| *label == *target as i32) {
            Some((_, count)) => *count += 1.0,
            None => counts.push((*target as i32, 1.0)),
        }
    }
    mercer::machine::pairs(counts.len()).any(|(first, second)| {
        let (one, other) = (counts[first].1, counts[second].1);
        nu * (one + other) / 2.0 > one.min(other)
    })
}
