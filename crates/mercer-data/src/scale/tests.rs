//! Tests of the scalings.

use super::*;
use crate::Matrix;

fn scaled(text: &str, columns: usize, values: &[f64]) -> Vec<f64> {
    let rows = Matrix::dense(columns, values.to_vec()).unwrap();
    let scaling = parse(text).unwrap().fit(&rows).unwrap();
    scaling.apply(&rows).unwrap().as_dense().unwrap().to_vec()
}

#[test]
fn each_scaling_does_what_its_sentence_says() {
    let values = [1.0, 7.0, 10.0, 3.0, 7.0, -30.0, 5.0, 7.0, 20.0];
    assert_eq!(scaled("min_max", 3, &values), [0.0, 0.0, 0.8, 0.5, 0.0, 0.0, 1.0, 0.0, 1.0]);
    assert_eq!(
        scaled("min_max(low=-1)", 3, &values),
        [-1.0, 0.0, 0.6, 0.0, 0.0, -1.0, 1.0, 0.0, 1.0]
    );
    let standard = scaled("standard", 3, &values);
    let third: Vec<f64> = standard.iter().skip(2).step_by(3).copied().collect();
    assert!(third.iter().sum::<f64>().abs() < 1e-15);
    assert!((third.iter().map(|x| x * x).sum::<f64>() - 3.0).abs() < 1e-14);
    assert_eq!(standard[1], 0.0, "a constant column is left out");
    assert_eq!(scaled("max_abs", 1, &[2.0, -4.0, 0.0]), [0.5, -1.0, 0.0]);
    assert_eq!(scaled("unit_norm", 2, &[3.0, 4.0, 0.0, 0.0]), [0.6, 0.8, 0.0, 0.0]);
    assert_eq!(scaled("unit_norm(norm=l1)", 2, &[3.0, -1.0]), [0.75, -0.25]);
    assert_eq!(scaled("unit_norm(norm=max)", 2, &[3.0, -6.0]), [0.5, -1.0]);
    assert_eq!(scaled("quantile", 1, &[5.0, 1.0, 2.0, 9.0, 2.0]), [0.75, 0.0, 0.375, 1.0, 0.375]);
}

#[test]
fn extreme_scales_end_in_finite_values() {
    for scale in [1e-300, 1e-150, 1e150, 8e307] {
        let values = [scale, -scale, 0.5 * scale, 0.0];
        for text in ["standard", "min_max", "min_max(low=-1)", "max_abs", "unit_norm", "quantile"] {
            let out = scaled(text, 2, &values);
            assert!(out.iter().all(|value| value.abs() <= 2.0), "{text} {scale}: {out:?}");
            assert!(out.iter().any(|value| value.abs() >= 0.4), "{text} {scale}: {out:?}");
        }
    }
}

#[test]
fn sparse_and_dense_rows_are_scaled_alike_and_zeros_are_kept_where_they_can_be() {
    let values = vec![0.0, 2.0, 0.0, 0.0, 4.0, 1.0, 0.0, 8.0, 0.0];
    let dense = Matrix::dense(3, values).unwrap();
    let sparse = dense.to_sparse();
    for (text, stays) in [
        ("standard", false),
        ("standard(centre=no)", true),
        ("min_max", false),
        ("max_abs", true),
        ("unit_norm", true),
        ("quantile", true),
    ] {
        let scaling = parse(text).unwrap().fit(&sparse).unwrap();
        assert_eq!(scaling, parse(text).unwrap().fit(&dense).unwrap(), "{text}");
        assert_eq!(scaling.keeps_zeros(), stays, "{text}");
        let (a, b) = (scaling.apply(&sparse).unwrap(), scaling.apply(&dense).unwrap());
        assert_eq!(a.is_sparse(), stays, "{text}");
        assert_eq!(a.to_dense(), b, "{text}");
    }
}

#[test]
fn wide_sparse_rows_that_would_lose_their_zeros_are_refused_with_advice() {
    let columns = 1_000_000;
    let starts: Vec<usize> = (0..=100).collect();
    let rows = Matrix::sparse(columns, &starts, &[columns as u32 - 1; 100], &[-2.0; 100]).unwrap();
    let said = parse("min_max").unwrap().fit(&rows);
    // A constant column moves no zero.
    assert!(said.is_ok());
    let values: Vec<f64> = (0..100).map(|row| f64::from(row) - 120.0).collect();
    let rows = Matrix::sparse(columns, &starts, &[columns as u32 - 1; 100], &values).unwrap();
    let said = parse("standard").unwrap().fit(&rows).unwrap_err().to_string();
    assert_eq!(
        said,
        "standard moves zeros: these sparse rows would take 0.7 GiB; max_abs, unit_norm and \
         standard(centre=no) keep zeros"
    );
    assert!(parse("standard(centre=no)").unwrap().fit(&rows).is_ok());
}

#[test]
fn columns_the_examples_did_not_have_are_left_out() {
    let rows = Matrix::dense(1, vec![1.0, 3.0]).unwrap();
    let scaling = parse("min_max").unwrap().fit(&rows).unwrap();
    let wide = Matrix::sparse(9, &[0, 2], &[0, 8], &[2.0, 5.0]).unwrap();
    assert_eq!(scaling.apply(&wide).unwrap().to_dense().as_dense().unwrap(), [0.5]);
}

#[test]
fn parts_that_contradict_each_other_are_refused() {
    let affine = |centres: Vec<f64>, factors: Vec<f64>| Map::Affine { centres, factors };
    assert!(Scaling::from_parts("standard", affine(vec![0.0], vec![1.0])).is_ok());
    assert!(Scaling::from_parts("standard", affine(vec![0.0], vec![])).is_err());
    assert!(Scaling::from_parts("standard", affine(vec![f64::NAN], vec![1.0])).is_err());
    assert!(Scaling::from_parts("unheard_of", affine(vec![0.0], vec![1.0])).is_err());
    let knots = |knots: Vec<f64>, count| Map::Quantiles { knots, count };
    assert!(Scaling::from_parts("quantile", knots(vec![0.0, 1.0], 2)).is_ok());
    assert!(Scaling::from_parts("quantile", knots(vec![1.0, 0.0], 2)).is_err());
    assert!(Scaling::from_parts("quantile", knots(vec![1.0, 0.0], 0)).is_err());
    assert!(parse("min_max(low=1,high=0)").is_err());
}
