//! LIBSVM's structures as they lie in memory, in both layouts. Functions work on [`Fields`], which fit both.

use std::ffi::c_int;

/// One entry of a row; rows end with an index of -1.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(non_camel_case_types, reason = "a name of LIBSVM's interface")]
pub struct svm_node {
    /// Column, from 1; 0 holds the serial number of a row of kernel values.
    pub index: c_int,
    /// Value.
    pub value: f64,
}

/// Rows with their targets.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types, reason = "a name of LIBSVM's interface")]
pub struct svm_problem {
    /// Number of rows.
    pub l: c_int,
    /// Target of each.
    pub y: *mut f64,
    /// The rows.
    pub x: *mut *mut svm_node,
}

/// Type, kernel and options of training.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types, non_snake_case, reason = "names of LIBSVM's interface")]
#[expect(missing_docs, reason = "LIBSVM's README describes them")]
pub struct svm_parameter {
    pub svm_type: c_int,
    pub kernel_type: c_int,
    pub degree: c_int,
    pub gamma: f64,
    pub coef0: f64,
    pub cache_size: f64,
    pub eps: f64,
    pub C: f64,
    pub nr_weight: c_int,
    pub weight_label: *mut c_int,
    pub weight: *mut f64,
    pub nu: f64,
    pub p: f64,
    pub shrinking: c_int,
    pub probability: c_int,
}

/// LIBSVM's numbers of `svm_type`.
pub(crate) mod svm_type {
    pub(crate) const C_SVC: i32 = 0;
    pub(crate) const NU_SVC: i32 = 1;
    pub(crate) const ONE_CLASS: i32 = 2;
    pub(crate) const EPSILON_SVR: i32 = 3;
    pub(crate) const NU_SVR: i32 = 4;
}

/// LIBSVM's numbers of `kernel_type`.
pub(crate) mod kernel_type {
    pub(crate) const LINEAR: i32 = 0;
    pub(crate) const POLY: i32 = 1;
    pub(crate) const RBF: i32 = 2;
    pub(crate) const SIGMOID: i32 = 3;
    pub(crate) const PRECOMPUTED: i32 = 4;
}

/// How many numbers `prob_density_marks` has.
pub(crate) const MARKS: usize = 10;

impl svm_parameter {
    /// Whether answers are classes.
    pub(crate) fn is_classification(&self) -> bool {
        matches!(self.svm_type, svm_type::C_SVC | svm_type::NU_SVC)
    }

    pub(crate) fn is_regression(&self) -> bool {
        matches!(self.svm_type, svm_type::EPSILON_SVR | svm_type::NU_SVR)
    }
}

/// The members of a model, in either layout.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "LIBSVM's README describes them")]
pub struct Fields {
    pub param: svm_parameter,
    pub classes: c_int,
    pub count: c_int,
    pub supports: *mut *mut svm_node,
    pub coefficients: *mut *mut f64,
    pub rho: *mut f64,
    pub prob_a: *mut f64,
    pub prob_b: *mut f64,
    /// Null in the layout that does not have it.
    pub marks: *mut f64,
    pub indices: *mut c_int,
    pub labels: *mut c_int,
    pub per_class: *mut c_int,
    pub frees_supports: c_int,
}

/// A layout of `svm_model`.
pub trait Layout: Copy {
    /// Whether it has `prob_density_marks`.
    const HAS_MARKS: bool;

    /// The members.
    fn fields(&self) -> Fields;

    /// A model with these members.
    fn of(fields: &Fields) -> Self;
}

macro_rules! model {
    ($(#[$about:meta])* $name:ident, $has_marks:literal $(, $marks:ident)?) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        #[allow(non_camel_case_types, non_snake_case, reason = "names of LIBSVM's interface")]
        #[expect(missing_docs, reason = "LIBSVM's README describes them")]
        pub struct $name {
            pub param: svm_parameter,
            pub nr_class: c_int,
            pub l: c_int,
            pub SV: *mut *mut svm_node,
            pub sv_coef: *mut *mut f64,
            pub rho: *mut f64,
            pub probA: *mut f64,
            pub probB: *mut f64,
            $(pub $marks: *mut f64,)?
            pub sv_indices: *mut c_int,
            pub label: *mut c_int,
            pub nSV: *mut c_int,
            pub free_sv: c_int,
        }

        impl Layout for $name {
            const HAS_MARKS: bool = $has_marks;

            fn fields(&self) -> Fields {
                #[allow(unused_mut, unused_assignments, reason = "one layout has no marks")]
                let mut marks = std::ptr::null_mut();
                $(marks = self.$marks;)?
                Fields {
                    param: self.param,
                    classes: self.nr_class,
                    count: self.l,
                    supports: self.SV,
                    coefficients: self.sv_coef,
                    rho: self.rho,
                    prob_a: self.probA,
                    prob_b: self.probB,
                    marks,
                    indices: self.sv_indices,
                    labels: self.label,
                    per_class: self.nSV,
                    frees_supports: self.free_sv,
                }
            }

            fn of(fields: &Fields) -> Self {
                Self {
                    param: fields.param,
                    nr_class: fields.classes,
                    l: fields.count,
                    SV: fields.supports,
                    sv_coef: fields.coefficients,
                    rho: fields.rho,
                    probA: fields.prob_a,
                    probB: fields.prob_b,
                    $($marks: fields.marks,)?
                    sv_indices: fields.indices,
                    label: fields.labels,
                    nSV: fields.per_class,
                    free_sv: fields.frees_supports,
                }
            }
        }
    };
}

model!(
    /// A model as LIBSVM lays it out up to 3.30.
    svm_model_3,
    false
);
model!(
    /// A model as LIBSVM lays it out from 3.31 on.
    svm_model_4,
    true,
    prob_density_marks
);

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// Offsets that a C compiler gives on a 64-bit system.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn structures_lie_as_in_c() {
        assert_eq!(size_of::<svm_node>(), 16);
        assert_eq!(size_of::<svm_problem>(), 24);
        assert_eq!(size_of::<svm_parameter>(), 104);
        assert_eq!(offset_of!(svm_parameter, gamma), 16);
        assert_eq!(offset_of!(svm_parameter, weight_label), 64);
        assert_eq!(offset_of!(svm_model_3, SV), 112);
        assert_eq!(offset_of!(svm_model_3, sv_indices), 152);
        assert_eq!(size_of::<svm_model_3>(), 184);
        assert_eq!(offset_of!(svm_model_4, prob_density_marks), 152);
        assert_eq!(size_of::<svm_model_4>(), 192);
    }
}
