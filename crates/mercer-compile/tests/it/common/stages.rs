//! Every certifying stage with the kernels it takes.

use mercer_compile::{FITTERS, Fitter};

/// Kernels of degree 2, which `spectral` takes.
pub const QUADRATIC: [&str; 6] = [
    "polynomial(degree=2, gamma=1, coef0=1)",
    "polynomial(degree=2, gamma=0.5, coef0=0)",
    "polynomial(degree=2, gamma=1e-9, coef0=1)",
    "polynomial(degree=2, gamma=1e9, coef0=1)",
    "normalized(polynomial(degree=2, gamma=0.5, coef0=1))",
    "normalized(polynomial(degree=2, gamma=1, coef0=0))",
];

/// Kernels that `monomials` takes.
pub const POWERS: [&str; 8] = [
    "linear",
    "polynomial(degree=1, gamma=2, coef0=1)",
    "polynomial(degree=2, gamma=1, coef0=0)",
    "polynomial(degree=3, gamma=0.5, coef0=1)",
    "polynomial(degree=3, gamma=1e-9, coef0=1)",
    "polynomial(degree=3, gamma=1e9, coef0=-1)",
    "polynomial(degree=5, gamma=0.3, coef0=-1)",
    "polynomial(degree=9, gamma=0.1, coef0=2)",
];

/// Kernels that `low_precision` and `projected` take.
pub const PRODUCTS: [&str; 10] = [
    "rbf(gamma=0.05)",
    "rbf(gamma=1)",
    "rbf(gamma=1e-9)",
    "rbf(gamma=1e9)",
    "linear",
    "polynomial(degree=2, gamma=1, coef0=1)",
    "polynomial(degree=9, gamma=0.1, coef0=2)",
    "polynomial(degree=5, gamma=0.3, coef0=-1)",
    "normalized(polynomial(degree=3, gamma=0.5, coef0=1))",
    "normalized(linear)",
];

/// Kernels that `taylor` takes where the rows are short enough.
pub const SMOOTH: [&str; 5] = [
    "rbf(gamma=0.05)",
    "rbf(gamma=0.01)",
    "rbf(gamma=0.001)",
    "rbf(gamma=1e-6)",
    "rbf(gamma=1e-9)",
];

/// A few of the kernels that `anytime` takes.
pub const SEMIDEFINITE: [&str; 3] =
    ["rbf(gamma=0.05)", "polynomial(degree=2, gamma=1, coef0=1)", "rbf(gamma=1e-9)"];

/// Every certifying stage of the registry with the kernels it takes: a new stage has no property tests until it is here.
pub fn stages() -> Vec<(String, &'static [&'static str])> {
    let kernels = |name: &str| -> &'static [&'static str] {
        match name {
            // Their own properties, over orders, sizes and kernels, are in `anytime.rs` and `compressed.rs`.
            "anytime" | "compressed" => &SEMIDEFINITE,
            "low_precision" | "projected" => &PRODUCTS,
            "spectral" => &QUADRATIC,
            "taylor" => &SMOOTH,
            "monomials" => &POWERS,
            other => panic!("say which kernels '{other}' takes"),
        }
    };
    let plan = |fitter: &&Fitter| {
        let name = fitter.stage.name;
        (format!("cascade({name}, exact)"), kernels(name))
    };
    // Stages that estimate prove nothing; their properties are in `risk.rs`.
    // Additive kernels want values of at least zero; the properties of `table` are in `table.rs`.
    let is_here =
        |fitter: &&&Fitter| !fitter.estimates && !fitter.stops && fitter.stage.name != "table";
    FITTERS.iter().filter(is_here).map(plan).collect()
}
