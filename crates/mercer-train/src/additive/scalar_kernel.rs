//! The scalar kernel of an additive kernel: `K(x, z) = Σ_j κ(x_j, z_j)`.
//! How κ becomes look-up factors is in `maps`; kernels on whole rows are in `mercer-kernel`.

use mercer_kernel::{Form, Profile, Term};

use super::FeatureMap;
use crate::TrainError;
use crate::linear::Packing;

/// The scalar kernel: that of the kernel, or the product for linear machines.
pub(crate) enum ScalarKernel<'k> {
    Term(&'k dyn Term),
    Product(Product),
}

impl ScalarKernel<'_> {
    pub(super) fn as_term(&self) -> &dyn Term {
        match self {
            Self::Term(term) => *term,
            Self::Product(product) => product,
        }
    }
}

/// `κ(u, v) = u v`.
#[derive(Debug)]
pub(crate) struct Product;

impl Term for Product {
    fn term(&self, u: f64, v: f64) -> f64 {
        u * v
    }

    fn rounding(&self) -> f64 {
        1.0
    }
}

/// The scalar kernel that the solver works with.
///
/// # Errors
/// If the kernel is not linear or not a sum of scalar kernels that vanish at zero.
pub(crate) fn scalar_kernel<'p>(packing: &Packing<'p>) -> Result<ScalarKernel<'p>, TrainError> {
    let (kernel, unsuited) = (packing.problem.kernel, |reason| packing.unsuited(reason));
    let spec = kernel.spec();
    match kernel.form() {
        Form::Dot(finish) if finish.profile() == Profile::Identity => {
            Ok(ScalarKernel::Product(Product))
        }
        _ if packing.solver.map == FeatureMap::Value => {
            Err(unsuited(format!("it trains linear machines (--kernel linear), not {spec}")))
        }
        Form::Additive(term, finish)
            if finish.profile() == Profile::Identity && term.vanishes_at_zero() =>
        {
            Ok(ScalarKernel::Term(term))
        }
        Form::Additive(..) => Err(unsuited(format!(
            "{spec} is not a plain sum of scalar kernels that vanish at zero"
        ))),
        _ => Err(unsuited(format!(
            "{spec} is not additive; additive are linear, intersection, chi2, power_mean with p <= 0, \
             jensen_shannon and hellinger"
        ))),
    }
}
