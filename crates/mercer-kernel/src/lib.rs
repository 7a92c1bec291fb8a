//! How alike two examples are: kernels, their registry and block evaluation
