//! Laws of the narrow types: exact bytes, single-precision functions.

mod common;

use common::Noise;
use mercer_simd::{
    ByteQueries, EXP32_RELATIVE_ERROR, Isa, PanelsI8, distance1_32, distances32, exp1_32, exp32,
    gaussian1_32, gaussian32,
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
    ];
    for [rows, columns, queries] in shapes {
        let mut byte = || match noise.below(4) {
            0 => 255,
            1 => 128,
            _ => noise.bits() as u8,
        };
        let supports: Vec<Vec<i8>> =
            (0..rows).map(|_| (0..columns).map(|_| byte() as i8).collect()).collect();
        let asked: Vec<Vec<u8>> =
            (0..queries).map(|_| (0..columns).map(|_| byte()).collect()).collect();
        let panels =
            PanelsI8::pack(rows, columns, |row, buffer| buffer.copy_from_slice(&supports[row]));
        let mut block = ByteQueries::new(columns);
        for x in &asked {
            block.push(x);
        }
        let lanes = panels.lanes(0..panels.panels()).len();
        for &isa in Isa::available() {
            let stride = lanes + 1;
            let mut out = vec![i32::MIN; stride * queries];
            panels.dots(isa, &block, 0..panels.panels(), &mut out, stride);
            for (q, x) in asked.iter().enumerate() {
                for (row, z) in supports.iter().enumerate() {
                    let exact: i32 =
                        x.iter().zip(z).map(|(&x, &z)| i32::from(x) * i32::from(z)).sum();
                    assert_eq!(out[q * stride + row], exact, "{isa} {rows} {columns}");
                }
                if lanes > 0 {
                    assert_eq!(out[q * stride + lanes], i32::MIN, "the gap stays");
                }
            }
            if panels.panels() > 1 {
                let mut part = vec![0; 16 * queries];
                panels.dots(isa, &block, 1..2, &mut part, 16);
                for q in 0..queries {
                    assert_eq!(part[q * 16..][..16], out[q * stride + 16..][..16]);
                }
            }
        }
        let sums: Vec<i32> =
            supports.iter().map(|z| z.iter().map(|&z| i32::from(z)).sum()).collect();
        assert_eq!(panels.row_sums(), sums);
    }
}

#[test]
fn the_largest_products_of_bytes_do_not_overflow() {
    let columns = PanelsI8::MOST_COLUMNS;
    let panels = PanelsI8::pack(1, columns, |_, row| row.fill(-128));
    let mut block = ByteQueries::new(columns);
    block.push(&vec![255; columns]);
    for &isa in Isa::available() {
        let mut out = [0; 16];
        panels.dots(isa, &block, 0..1, &mut out, 16);
        assert_eq!(out[0], -128 * 255 * 65_536, "{isa}");
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
        }
    }
}
