//! Decision values in LIBSVM's own way: kernel values of two lists of entries, sums in its order, nothing allocated for a
//! small model. For models that are too small to be packed, or that no machine can be made of.

use crate::layout::{Fields, kernel_type, svm_node, svm_parameter};
use crate::memory::{self, Content};

/// Kernel values of as many supports lie on the stack.
const ON_STACK: usize = 64;

/// What a null pointer in the place of a row means.
static EMPTY: svm_node = svm_node { index: -1, value: 0.0 };

/// `u · v` of two rows whose indices increase.
///
/// # Safety
/// `v` points to entries of which one has the index -1.
unsafe fn dot(mut u: &[svm_node], mut v: *const svm_node) -> f64 {
    let mut sum = 0.0;
    while let [a, u_left @ ..] = u {
        // SAFETY: no entry before has the index -1, so this one is there.
        let b = unsafe { *v };
        if a.index == b.index {
            sum += a.value * b.value;
            (u, v) = (u_left, v.wrapping_add(1));
        } else if b.index == -1 {
            break;
        } else if a.index < b.index {
            u = u_left;
        } else {
            v = v.wrapping_add(1);
        }
    }
    sum
}

/// `|u - v|²` of two rows whose indices increase.
///
/// # Safety
/// As [`dot`].
unsafe fn squared_distance(mut u: &[svm_node], mut v: *const svm_node) -> f64 {
    let mut sum = 0.0;
    while let [a, u_left @ ..] = u {
        // SAFETY: no entry before has the index -1, so this one is there.
        let b = unsafe { *v };
        if a.index == b.index {
            sum += (a.value - b.value) * (a.value - b.value);
            (u, v) = (u_left, v.wrapping_add(1));
        } else if a.index < b.index || b.index == -1 {
            sum += a.value * a.value;
            u = u_left;
        } else {
            sum += b.value * b.value;
            v = v.wrapping_add(1);
        }
    }
    // SAFETY: as above.
    while let b = unsafe { *v }
        && b.index != -1
    {
        sum += b.value * b.value;
        v = v.wrapping_add(1);
    }
    sum
}

/// `base^times` by squaring.
fn power(base: f64, times: i32) -> f64 {
    let (mut square, mut result, mut left) = (base, 1.0, times);
    while left > 0 {
        if left % 2 == 1 {
            result *= square;
        }
        square *= square;
        left /= 2;
    }
    result
}

/// LIBSVM's `k_function` of a query and a support.
///
/// # Safety
/// As [`dot`], or the support is null.
unsafe fn kernel_value(param: &svm_parameter, query: &[svm_node], support: *const svm_node) -> f64 {
    let support = if support.is_null() { &raw const EMPTY } else { support };
    let svm_parameter { gamma, coef0, degree, .. } = *param;
    // SAFETY: as the caller of this function promises.
    unsafe {
        match param.kernel_type {
            kernel_type::LINEAR => dot(query, support),
            kernel_type::POLY => power(gamma * dot(query, support) + coef0, degree),
            kernel_type::RBF => (-gamma * squared_distance(query, support)).exp(),
            kernel_type::SIGMOID => (gamma * dot(query, support) + coef0).tanh(),
            kernel_type::PRECOMPUTED => {
                // A place in the list, not an index.
                let first = *support;
                let place = if first.index == -1 { -1.0 } else { first.value };
                let is_place = place >= 0.0 && place < query.len() as f64;
                if is_place { query[place as usize].value } else { 0.0 }
            }
            _ => 0.0,
        }
    }
}

/// All decision values of a query; zeros for a model that is not whole.
///
/// # Safety
/// The members of the model are null or point to as much as LIBSVM's README says; every row has an end.
pub(crate) unsafe fn decision_values(fields: &Fields, query: &[svm_node], out: &mut [f64]) {
    // SAFETY: as the caller of this function promises.
    let (supports, rho) = unsafe { (memory::slice(fields.supports, fields.count), fields.rho()) };
    // SAFETY: as the caller of this function promises.
    if supports.len() != fields.vectors() || rho.len() != out.len() || !unsafe { fields.is_whole() }
    {
        out.fill(0.0);
        return;
    }
    // SAFETY: as the caller of this function promises.
    let value = |support: &*mut svm_node| unsafe { kernel_value(&fields.param, query, *support) };
    let (mut on_stack, mut on_heap) = ([0.0; ON_STACK], Vec::new());
    let values = if supports.len() <= ON_STACK {
        &mut on_stack[..supports.len()]
    } else {
        on_heap.resize(supports.len(), 0.0);
        &mut on_heap[..]
    };
    values.iter_mut().zip(supports).for_each(|(place, support)| *place = value(support));
    // SAFETY: the model is whole: as many arrays, each of one number for each support.
    let betas = |column: usize| unsafe { fields.coefficients_at(column) };
    let weighted = |betas: &[f64], values: &[f64], sum: &mut f64| {
        betas.iter().zip(values).for_each(|(beta, value)| *sum += beta * value);
    };
    if !fields.param.is_classification() {
        let mut sum = 0.0;
        weighted(betas(0), values, &mut sum);
        out[0] = sum - rho[0];
        return;
    }
    // SAFETY: as the caller of this function promises.
    let counts = unsafe { fields.per_class() };
    let (mut pair, mut start) = (0, 0);
    for (i, count) in counts.iter().enumerate() {
        let first = start..start + *count as usize;
        start = first.end;
        let mut other = start;
        for (j, count) in counts.iter().enumerate().skip(i + 1) {
            let second = other..other + *count as usize;
            other = second.end;
            let mut sum = 0.0;
            weighted(&betas(j - 1)[first.clone()], &values[first.clone()], &mut sum);
            weighted(&betas(i)[second.clone()], &values[second], &mut sum);
            out[pair] = sum - rho[pair];
            pair += 1;
        }
    }
}

/// Where the supports of each class begin, and the end.
pub(crate) fn starts(content: &Content<'_>) -> Vec<usize> {
    let mut starts = vec![0];
    for count in content.per_class {
        starts.push(starts[starts.len() - 1] + *count as usize);
    }
    starts
}

/// LIBSVM's vote: the class with most pairs, the first of equals.
pub(crate) fn vote(classes: usize, values: &[f64]) -> usize {
    if classes == 2 && values.len() == 1 {
        return usize::from(values[0] <= 0.0 || values[0].is_nan());
    }
    let mut votes = vec![0usize; classes];
    for ((first, second), value) in mercer::machine::pairs(classes).zip(values) {
        votes[if *value > 0.0 { first } else { second }] += 1;
    }
    let most = votes.iter().max().copied().unwrap_or(0);
    votes.iter().position(|count| *count == most).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(entries: &[(i32, f64)]) -> Vec<svm_node> {
        let nodes = entries.iter().map(|(index, value)| svm_node { index: *index, value: *value });
        nodes.chain([EMPTY]).collect()
    }

    #[test]
    fn products_and_distances_go_over_the_indices_of_both() {
        let (u, v) = (row(&[(1, 2.0), (3, 1.0), (9, 5.0)]), row(&[(2, 7.0), (3, 4.0)]));
        let of = |function: unsafe fn(&[svm_node], *const svm_node) -> f64,
                  u: &[svm_node],
                  v: &[svm_node]| {
            // SAFETY: rows of this test end with the index -1.
            unsafe { function(&u[..u.len() - 1], v.as_ptr()) }
        };
        assert_eq!(of(dot, &u, &v), 4.0);
        assert_eq!(of(dot, &v, &u), 4.0);
        assert_eq!(of(squared_distance, &u, &v), 4.0 + 49.0 + 9.0 + 25.0);
        assert_eq!(of(squared_distance, &v, &u), of(squared_distance, &u, &v));
        assert_eq!(of(squared_distance, &row(&[]), &u), 30.0);
        assert_eq!(of(squared_distance, &u, &row(&[])), 30.0);
        assert_eq!((power(3.0, 5), power(3.0, 0)), (243.0, 1.0));
    }

    #[test]
    fn ties_of_votes_go_to_the_first_class() {
        assert_eq!(vote(3, &[1.0, -1.0, 1.0]), 0);
        assert_eq!(vote(3, &[-1.0, -1.0, 1.0]), 1);
        assert_eq!(vote(2, &[0.0]), 1);
        assert_eq!(vote(1, &[]), 0);
    }
}
