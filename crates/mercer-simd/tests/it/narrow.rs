//! Properties of the low-precision types: exact byte products, functions in f32.

use crate::common::Noise;
use mercer_simd::{
    BytePanels, EXP2_32_RELATIVE_ERROR, EXP32_RELATIVE_ERROR, Isa, add_rows, codes, distance1_32,
    distances32, exp1_32, exp2_1_32, exp32, gaussian_steps32, gaussian1_32, gaussian32, polynomial,
    weighted_sum, weighted_sums32,
};

#[test]
fn products_of_bytes_are_exact() {
    let mut noise = Noise::new(51);
    let shapes = [
        [0, 3, 2],
        [1, 1, 1],
        [3, 0, 2],
        [15, 4, 3],
        [16, 5, 4],
        [17, 7, 5],
        [64, 31, 8],
        [80, 64, 9],
        [100, 65, 13],
        [130, 784, 2],
        [300, 66, 3],
    ];
    for [rows, columns, queries] in shapes {
        let mut byte = || match noise.below(6) {
            0 => 255,
            1 => 128,
            2 | 3 => 0,
            _ => noise.bits() as u8,
        };
        let mut table = |count: usize| -> Vec<Vec<u8>> {
            (0..count).map(|_| (0..columns).map(|_| byte()).collect()).collect()
        };
        let (supports, queried) = (table(rows), table(queries));
        for &isa in Isa::available() {
            let panels = BytePanels::pack(isa, rows, columns, |row, buffer| {
                buffer.copy_from_slice(&supports[row]);
            });
            let mut block = panels.queries();
            for x in &queried {
                block.push(x);
            }
            let lanes = panels.lanes(0..panels.panels()).len();
            let stride = lanes + 1;
            let mut out = vec![i32::MIN; stride * queries];
            panels.dots(&block, 0..block.len(), 0..panels.panels(), &mut out, stride);
            for (q, x) in queried.iter().enumerate() {
                for (row, z) in supports.iter().enumerate() {
                    let exact: i32 =
                        x.iter().zip(z).map(|(&x, &z)| i32::from(x) * i32::from(z)).sum();
                    assert_eq!(out[q * stride + row], exact, "{isa} {rows} {columns}");
                }
                assert_eq!(out[q * stride + lanes], i32::MIN, "the gap stays");
            }
            let width = panels.panel_rows();
            if panels.panels() > 2 {
                let mut part = vec![0; width * queries];
                panels.dots(&block, 0..block.len(), 1..2, &mut part, width);
                for q in 0..queries {
                    assert_eq!(part[q * width..][..width], out[q * stride + width..][..width]);
                }
            }
        }
    }
}

#[test]
fn the_largest_products_of_bytes_do_not_overflow() {
    let columns = BytePanels::MOST_COLUMNS;
    for &isa in Isa::available() {
        let panels = BytePanels::pack(isa, 40, columns, |_, row| row.fill(255));
        let mut block = panels.queries();
        block.push(&vec![255; columns]);
        let lanes = panels.lanes(0..panels.panels()).len();
        let mut out = vec![0; lanes];
        panels.dots(&block, 0..block.len(), 0..panels.panels(), &mut out, lanes);
        assert!(out[..40].iter().all(|sum| *sum == 255 * 255 * 33_000), "{isa}");
    }
}

#[test]
fn short_f32_sums_have_the_bits_of_their_definition() {
    let mut noise = Noise::new(53);
    for length in [0, 1, 15, 16, 17, 40, 192] {
        let mut row =
            || -> Vec<f32> { (0..200).map(|_| noise.between(-1.0, 1.0) as f32).collect() };
        let values = row()[..length].to_vec();
        let rows: Vec<f32> = (0..11).flat_map(|_| row()).collect();
        let expected = |s: usize| {
            let mut partials = [0.0f32; 16];
            for (i, value) in values.iter().enumerate() {
                partials[i % 16] = value.mul_add(rows[200 * s + i], partials[i % 16]);
            }
            let half: [f64; 8] =
                std::array::from_fn(|l| f64::from(partials[l]) + f64::from(partials[l + 8]));
            1.0 + mercer_simd::fold8(&half)
        };
        for &isa in Isa::available() {
            for count in 0..=11 {
                let mut sums = vec![1.0; count];
                weighted_sums32(isa, &values, &rows, 200, &mut sums);
                for (s, sum) in sums.iter().enumerate() {
                    assert_eq!(sum.to_bits(), expected(s).to_bits(), "{isa} {length}");
                }
            }
        }
    }
}

#[test]
fn gaussians_of_integer_rows_are_those_of_their_distances() {
    let mut noise = Noise::new(55);
    for length in [0, 1, 7, 8, 33] {
        let draw = |noise: &mut Noise| (noise.bits() % 1_000_000) as i32;
        let dots: Vec<i32> = (0..length).map(|_| draw(&mut noise)).collect();
        // Sums of norms may pass 2^31; the distances do not.
        let norms: Vec<i32> = dots.iter().map(|dot| dot + draw(&mut noise)).collect();
        let (query_norm, scale, shift) = (1_000_000, 1e-6, 0.5);
        for &isa in Isa::available() {
            let mut out = vec![0.0; length];
            gaussian_steps32(isa, &dots, query_norm, &norms, scale, shift, &mut out);
            for ((value, dot), norm) in out.iter().zip(&dots).zip(&norms) {
                let distance = (query_norm + norm - 2 * dot) as f32;
                let expected = exp2_1_32(distance.mul_add(-1e-6, -0.5));
                assert_eq!(value.to_bits(), expected.to_bits(), "{isa}");
            }
        }
    }
}

#[test]
fn single_exp_is_within_its_error() {
    let mut noise = Noise::new(61);
    let mut worst: f64 = 0.0;
    for _ in 0..200_000 {
        let x = noise.between(-87.0, 88.72) as f32;
        let exact = f64::from(x).exp();
        worst = worst.max((f64::from(exp1_32(x)) / exact - 1.0).abs());
    }
    println!("exp32: {:.3} units of 2^-24", worst * 2.0_f64.powi(24));
    assert!(worst <= f64::from(EXP32_RELATIVE_ERROR));
    assert_eq!(exp1_32(0.0).to_bits(), 1.0_f32.to_bits());
    assert_eq!(exp1_32(-87.01).to_bits(), 0);
    assert_eq!(exp1_32(88.73).to_bits(), f32::INFINITY.to_bits());
    assert!(exp1_32(88.722_83).is_finite() && exp1_32(f32::NAN).is_nan());
}

/// Every remainder of size 1/4 and more, which are the worst: arguments below −1.5 only repeat those of
/// [−1.5, −0.5].
#[test]
fn single_powers_of_two_are_within_their_error() {
    let mut worst: f64 = 0.0;
    for bits in (-0.25f32).to_bits()..=(-1.5f32).to_bits() {
        let x = f32::from_bits(bits);
        let exact = f64::from(x).exp2();
        worst = worst.max((f64::from(exp2_1_32(x)) / exact - 1.0).abs());
    }
    println!("exp2_32: {worst:e}");
    assert!(worst <= f64::from(EXP2_32_RELATIVE_ERROR));
    let mut noise = Noise::new(63);
    for _ in 0..100_000 {
        let x = noise.between(-126.0, 0.0) as f32;
        let error = f64::from(exp2_1_32(x)) / f64::from(x).exp2() - 1.0;
        assert!(error.abs() <= f64::from(EXP2_32_RELATIVE_ERROR), "{x}");
    }
    assert_eq!(exp2_1_32(0.0).to_bits(), 1.0f32.to_bits());
    for x in [-126.0, -127.0, -1e30, f32::NEG_INFINITY, f32::NAN] {
        assert_eq!(exp2_1_32(x).to_bits(), f32::MIN_POSITIVE.to_bits());
    }
    for x in [-1e-3, -1e-20, -1e-45] {
        assert!((exp2_1_32(x) - 1.0 - x * std::f32::consts::LN_2).abs() <= 3e-7);
    }
}

#[test]
fn codes_and_residuals_give_back_the_values() {
    let values: Vec<f64> = (0..29).map(|n| -2.0 + 0.5 * f64::from(n * 9 % 256) + 1e-6).collect();
    for &isa in Isa::available() {
        let mut out = vec![7; values.len()];
        let worst = codes(isa, &values, 0.5, -2.0, &mut out);
        for (n, code) in out.iter().enumerate() {
            assert_eq!(usize::from(*code), n * 9 % 256);
        }
        assert!((worst - 1e-6).abs() < 1e-12, "{isa}");
        let mut out = [0; 4];
        let far = [1e3, -1e300, f64::MAX, 0.3];
        assert!(codes(isa, &far[..1], 0.5, -2.0, &mut out[..1]) > 100.0);
        assert_eq!(codes(isa, &far, 0.5, -2.0, &mut out).to_bits(), f64::MAX.to_bits());
    }
}

#[test]
fn single_slices_have_the_bits_of_single_numbers() {
    let mut noise = Noise::new(71);
    for length in 0..70 {
        let values: Vec<f32> = (0..length).map(|_| noise.between(-100.0, 100.0) as f32).collect();
        let norms: Vec<f32> = values.iter().map(|x| 0.4 * x.abs()).collect();
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let pairs = || values.iter().zip(&norms);
        let exps: Vec<f32> = values.iter().map(|&x| exp1_32(x)).collect();
        let squared: Vec<f32> = pairs().map(|(&s, &n)| distance1_32(s, 1.5, n)).collect();
        let kernels: Vec<f32> = pairs().map(|(&s, &n)| gaussian1_32(s, 1.5, n, 0.3)).collect();
        // x (x x), the lowest bit of the degree first.
        let cube = |&s: &f32| {
            let x = s.mul_add(0.03, -0.7);
            x * (x * x)
        };
        let cubes: Vec<f32> = values.iter().map(cube).collect();
        for &isa in Isa::available() {
            let mut out = values.clone();
            exp32(isa, &mut out);
            assert_eq!(bits(&out), bits(&exps));
            let mut out = values.clone();
            distances32(isa, &mut out, 1.5, &norms);
            assert_eq!(bits(&out), bits(&squared));
            let mut out = values.clone();
            gaussian32(isa, &mut out, 1.5, &norms, 0.3);
            assert_eq!(bits(&out), bits(&kernels));
            let mut out = values.clone();
            polynomial(isa, &mut out, 0.03, -0.7, 3);
            assert_eq!(bits(&out), bits(&cubes));
        }
    }
}

#[test]
fn sums_over_kernel_rows_have_the_same_bits_on_every_instruction_set() {
    let mut noise = Noise::new(54);
    for (rows, length) in [(0, 5), (1, 1), (3, 17), (4, 16), (7, 100), (9, 385)] {
        let values: Vec<Vec<f32>> = (0..rows)
            .map(|_| (0..length).map(|_| noise.between(-1.0, 1.0) as f32).collect())
            .collect();
        let weights: Vec<f64> = (0..rows).map(|_| noise.between(-1.0, 1.0)).collect();
        let exact: Vec<f64> = (0..length)
            .map(|at| (0..rows).map(|row| weights[row] * f64::from(values[row][at])).sum())
            .collect();
        let views: Vec<&[f32]> = values.iter().map(Vec::as_slice).collect();
        let added = |isa| {
            let mut sums = vec![0.5; length];
            add_rows(isa, &views, &weights, &mut sums);
            sums
        };
        let specified = added(Isa::SCALAR);
        let terms: Vec<f64> = (0..length).map(|_| noise.between(-1.0, 1.0)).collect();
        for &isa in Isa::available() {
            assert_eq!(added(isa), specified, "{isa}");
            for row in &views {
                let sum = weighted_sum(isa, row, &terms);
                assert_eq!(
                    sum.to_bits(),
                    weighted_sum(Isa::SCALAR, row, &terms).to_bits(),
                    "{isa}"
                );
                let plain: f64 = row.iter().zip(&terms).map(|(v, w)| f64::from(*v) * w).sum();
                assert!((sum - plain).abs() < 1e-12 * length as f64);
            }
        }
        assert!(specified.iter().zip(&exact).all(|(a, b)| (a - 0.5 - b).abs() < 1e-12));
    }
}
