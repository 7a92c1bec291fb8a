//! The initial point of the interior point method.
//! It starts from nothing: earlier solutions help coordinate descent only.

use crate::Qp;
use crate::low_rank::duality_gap::wanted;

/// A point well inside the box with the right sums, and which variables are fixed: those with equal bounds, and groups
/// whose sum allows only one point.
pub(super) fn start(qp: &Qp) -> (Vec<f64>, Vec<bool>) {
    let mut fixed: Vec<bool> = (0..qp.len()).map(|v| qp.upper[v] <= qp.lower[v]).collect();
    let mut beta: Vec<f64> =
        qp.lower.iter().zip(&qp.upper).map(|(l, u)| f64::midpoint(*l, *u)).collect();
    for (group, wanted) in wanted(qp).into_iter().enumerate() {
        let members: Vec<usize> =
            (0..qp.len()).filter(|v| usize::from(qp.groups[*v]) == group).collect();
        let fixed_sum: f64 = members.iter().filter(|v| fixed[**v]).map(|v| beta[*v]).sum();
        let wanted = wanted - fixed_sum;
        let free: Vec<usize> = members.into_iter().filter(|v| !fixed[*v]).collect();
        let (low, high): (f64, f64) =
            (free.iter().map(|v| qp.lower[*v]).sum(), free.iter().map(|v| qp.upper[*v]).sum());
        let slack = 1e-9 * (high - low);
        if wanted >= high - slack || wanted <= low + slack {
            for v in free {
                fixed[v] = true;
                beta[v] = if wanted >= high - slack { qp.upper[v] } else { qp.lower[v] };
            }
            continue;
        }
        // Start with sum zero: half of what the smaller side allows, and as much on the other side. Then move towards
        // the required sum.
        let plus: f64 = free.iter().map(|v| qp.upper[*v].max(0.0)).sum();
        let minus: f64 = free.iter().map(|v| -qp.lower[*v].min(0.0)).sum();
        let smaller = if plus > 0.0 && minus > 0.0 { 0.5 * plus.min(minus) } else { 0.0 };
        for v in &free {
            let bound = if qp.upper[*v] > 0.0 { qp.upper[*v] } else { qp.lower[*v] };
            let side = if qp.upper[*v] > 0.0 { plus } else { minus };
            let spans_zero = qp.upper[*v] > 0.0 && qp.lower[*v] < 0.0;
            beta[*v] = if spans_zero { 0.0 } else { bound * (smaller / side) };
        }
        let sum: f64 = free.iter().map(|v| beta[*v]).sum();
        let missing = wanted - sum;
        let slack_sum: f64 = free
            .iter()
            .map(|v| if missing > 0.0 { qp.upper[*v] - beta[*v] } else { beta[*v] - qp.lower[*v] })
            .sum();
        if missing.abs() > 1e-15 * (high - low) && slack_sum > 0.0 {
            let share = missing / slack_sum;
            for v in &free {
                beta[*v] += if missing > 0.0 {
                    share * (qp.upper[*v] - beta[*v])
                } else {
                    share * (beta[*v] - qp.lower[*v])
                };
            }
        }
    }
    (beta, fixed)
}
