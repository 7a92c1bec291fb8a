//! Kernel machines that answer fast, with the same decisions
