//! Decision values in LIBSVM's own way: kernel values of two lists of entries, sums in its order. For models that are too
//! small to be packed, or that no machine can be made of.

use crate::layout::{Fields, kernel_type, svm_node, svm_parameter};
use crate::memory::Content;

/// `u · v` of two rows whose indices increase.
fn dot(mut u: &[svm_node], mut v: &[svm_node]) -> f64 {
    let mut sum = 0.0;
    while let ([a, u_left @ ..], [b, v_left @ ..]) = (u, v) {
        if a.index == b.index {
            sum += a.value * b.value;
        }
        if a.index <= b.index {
            u = u_left;
        }
        if b.index <= a.index {
            v = v_left;
        }
    }
    sum
}

/// `|u - v|²` of two rows whose indices increase.
fn squared_distance(mut u: &[svm_node], mut v: &[svm_node]) -> f64 {
    let mut sum = 0.0;
    while let ([a, u_left @ ..], [b, v_left @ ..]) = (u, v) {
        let difference = match a.index.cmp(&b.index) {
            std::cmp::Ordering::Equal => a.value - b.value,
            std::cmp::Ordering::Less => a.value,
            std::cmp::Ordering::Greater => b.value,
        };
        sum += difference * difference;
        if a.index <= b.index {
            u = u_left;
        }
        if b.index <= a.index {
            v = v_left;
        }
    }
    u.iter().chain(v).for_each(|node| sum += node.value * node.value);
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
pub(crate) fn kernel_value(param: &svm_parameter, query: &[svm_node], support: &[svm_node]) -> f64 {
    match param.kernel_type {
        kernel_type::LINEAR => dot(query, support),
        kernel_type::POLY => power(param.gamma * dot(query, support) + param.coef0, param.degree),
        kernel_type::RBF => (-param.gamma * squared_distance(query, support)).exp(),
        kernel_type::SIGMOID => (param.gamma * dot(query, support) + param.coef0).tanh(),
        kernel_type::PRECOMPUTED => {
            // A place in the list, not an index.
            let place = support.first().map_or(-1.0, |node| node.value);
            let is_place = place >= 0.0 && place < query.len() as f64;
            if is_place { query[place as usize].value } else { 0.0 }
        }
        _ => 0.0,
    }
}

/// All decision values of a query, from a model that is whole.
pub(crate) fn decision_values(
    fields: &Fields,
    content: &Content<'_>,
    query: &[svm_node],
    out: &mut [f64],
) {
    let value = |support: &&[svm_node]| kernel_value(&fields.param, query, support);
    if !fields.param.is_classification() {
        let terms = content.supports.iter().zip(content.coefficients[0]);
        let sum: f64 = terms.map(|(support, beta)| beta * value(support)).sum();
        out[0] = sum - content.rho[0];
        return;
    }
    let values: Vec<f64> = content.supports.iter().map(value).collect();
    let starts = starts(content);
    for (at, (first, second)) in mercer::machine::pairs(fields.class_count()).enumerate() {
        let mut sum = 0.0;
        for (class, column) in [(first, second - 1), (second, first)] {
            let places = starts[class]..starts[class + 1];
            let betas = &content.coefficients[column][places.clone()];
            betas.iter().zip(&values[places]).for_each(|(beta, value)| sum += beta * value);
        }
        out[at] = sum - content.rho[at];
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
        entries.iter().map(|(index, value)| svm_node { index: *index, value: *value }).collect()
    }

    #[test]
    fn products_and_distances_go_over_the_indices_of_both() {
        let (u, v) = (row(&[(1, 2.0), (3, 1.0), (9, 5.0)]), row(&[(2, 7.0), (3, 4.0)]));
        assert_eq!(dot(&u, &v), 4.0);
        assert_eq!(squared_distance(&u, &v), 4.0 + 49.0 + 9.0 + 25.0);
        assert_eq!(squared_distance(&v, &u), squared_distance(&u, &v));
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
