//! The groups in which `mercer VERB --help` shows its options. Options that most users never need are left out of `-h`.

pub(super) const DATA: &str = "Data";
pub(super) const KERNEL: &str = "Kernel and formulation";
pub(super) const SOLVER: &str = "Solver";
pub(super) const UPDATE: &str = "Updates";
pub(super) const VALIDATION: &str = "Validation and probabilities";
pub(super) const PLAN: &str = "Plan and certainty";
pub(super) const METHOD: &str = "Method and goal";
pub(super) const CHOICE: &str = "What is computed";
pub(super) const ATTRIBUTION: &str = "Contributions of columns";
pub(super) const MODELS: &str = "Models";
pub(super) const NETWORK: &str = "Network and access";
pub(super) const SERVER: &str = "Another server";
pub(super) const LIMITS: &str = "Limits";
pub(super) const OUTPUT: &str = "Output";
pub(super) const GENERAL: &str = "General";
