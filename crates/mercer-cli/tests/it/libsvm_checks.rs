//! `svm-train` and `svm-predict` where LIBSVM has rules of its own: refused values, single classes, small nu, precomputed
//! kernels, one-class accuracy. Expected texts are those of LIBSVM 3.24 and 3.37.

use std::fmt::Write as _;
use std::fs;

use crate::common::{Folder, done, mercer, object};

/// Rows of three columns with labels by a line, as LIBSVM text.
fn rows(count: usize) -> Vec<(f64, [f64; 3])> {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    let row = |_| {
        let values = [next(), next(), next()];
        (if values[0] + values[1] > 0.1 { 1.0 } else { -1.0 }, values)
    };
    (0..count).map(row).collect()
}

fn text(rows: &[(f64, [f64; 3])]) -> String {
    let line = |(label, [a, b, c]): &(f64, [f64; 3])| format!("{label} 1:{a} 2:{b} 3:{c}\n");
    rows.iter().map(line).collect()
}

/// The same rows as linear kernel values, in the order given.
fn kernel_text(rows: &[(f64, [f64; 3])], order: &[usize]) -> String {
    let mut text = String::new();
    for at in order {
        let (label, own) = rows[*at];
        write!(text, "{label} 0:{}", at + 1).unwrap();
        for (column, (_, other)) in (1..).zip(rows) {
            let value: f64 = own.iter().zip(other).map(|(a, b)| a * b).sum();
            write!(text, " {column}:{value}").unwrap();
        }
        text.push('\n');
    }
    text
}

#[test]
fn refused_values_are_those_of_libsvm() {
    let folder = Folder::new();
    let (data, model) = (folder.write("d", &text(&rows(30))), folder.path("m"));
    for (flags, told) in [
        ("-c 0", "C <= 0"),
        ("-c -1 -s 3", "C <= 0"),
        ("-c 0 -s 4", "C <= 0"),
        ("-g -1", "gamma < 0"),
        ("-t 1 -d -1", "degree of polynomial kernel < 0"),
        ("-s 1 -n 0", "nu <= 0 or nu > 1"),
        ("-s 1 -n 1.5", "nu <= 0 or nu > 1"),
        ("-s 2 -n 0", "nu <= 0 or nu > 1"),
        ("-s 1 -n 1", "specified nu is infeasible"),
        ("-s 3 -p -1", "p < 0"),
        ("-e 0", "eps <= 0"),
        ("-m 0", "cache_size <= 0"),
        ("-h 2", "shrinking != 0 and shrinking != 1"),
        ("-b 2", "probability != 0 and probability != 1"),
        ("-t 5", "unknown kernel type"),
        ("-t -1", "unknown kernel type"),
        ("-s 5", "unknown svm type"),
    ] {
        let words: Vec<&str> = flags.split(' ').collect();
        let output = mercer(&[&["svm-train", "-q"], words.as_slice(), &[&data, &model]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{flags}");
        assert_eq!(said, format!("ERROR: {told}\n"), "{flags}");
    }
    // Values of parameters that are not used are not looked at.
    for flags in ["-d -1", "-t 0 -g -1", "-n 2", "-s 1 -c 0", "-p -1", "-s 3 -p 0", "-s 2 -n 1"] {
        let words: Vec<&str> = flags.split(' ').collect();
        done(&[&["svm-train", "-q"], words.as_slice(), &[&data, &model]].concat());
    }
}

#[test]
fn a_single_class_is_trained_and_predicted_as_libsvm_does() {
    let folder = Folder::new();
    let all: Vec<_> = rows(6).into_iter().map(|(_, values)| (3.0, values)).collect();
    let (data, model) = (folder.write("d", &text(&all)), folder.path("m"));
    let warning = "WARNING: training data in only one class. See README for details.\n";
    assert_eq!(done(&["svm-train", &data, &model]), format!("{warning}Total nSV = 0\n"));
    let saved = "svm_type c_svc\nkernel_type rbf\ngamma 0.33333333333333331\nnr_class 1\ntotal_sv 0\n\
                 rho\nlabel 3\nnr_sv 0\nSV\n";
    assert_eq!(fs::read_to_string(&model).unwrap(), saved);
    let out = folder.path("o");
    let said = done(&["svm-predict", &data, &model, &out]);
    assert_eq!(said, "Accuracy = 100% (6/6) (classification)\n");
    assert_eq!(fs::read_to_string(&out).unwrap(), "3\n".repeat(6));
    done(&["svm-train", "-q", "-b", "1", &data, &model]);
    done(&["svm-predict", "-b", "1", "-q", &data, &model, &out]);
    assert_eq!(fs::read_to_string(&out).unwrap(), format!("labels 3\n{}", "3 1\n".repeat(6)));
    let said = done(&["svm-train", "-q", "-v", "3", &data]);
    assert_eq!(said, "Cross Validation Accuracy = 100%\n");
}

#[test]
fn a_small_nu_is_trained_to_the_objective_of_libsvm() {
    let folder = Folder::new();
    let (data, model) = (folder.write("d", &text(&rows(30))), folder.path("m"));
    // What svm-train 3.24 prints with -e 1e-8. The gap of either solution is at most 1e-8 times the sum of the coefficients,
    // nu times 30 rows; nu-SVC is divided by rho^2 = 1 / 18746^2 in the end. Six decimals are printed.
    let of_nu_svc = 2.0 * 1e-8 * 0.0001 * 30.0 * 18746.0f64.powi(2);
    for (flags, objective, tolerance) in [
        (["-s", "1", "-n", "0.0001"], 28.119_042, of_nu_svc),
        (["-s", "2", "-n", "0.001"], 0.000_189, 1e-6),
        (["-s", "4", "-n", "1e-4"], -0.003, 1e-6),
    ] {
        let said = done(&[&["svm-train", "-e", "1e-8"], &flags[..], &[&data, &model]].concat());
        let found = said.split("obj = ").nth(1).and_then(|rest| rest.split(',').next());
        let found: f64 = found.expect("it prints the objective").parse().unwrap();
        assert!((found - objective).abs() <= tolerance, "{flags:?}: {found}, not {objective}");
    }
}

#[test]
fn precomputed_kernels_are_trained_and_give_the_answers_of_their_rows() {
    let folder = Folder::new();
    let all = rows(40);
    let plain = folder.write("plain", &text(&all));
    // Serial numbers say which column belongs to a row, in any order and for a part of the rows.
    let order: Vec<usize> = (0..40).rev().collect();
    let given = folder.write("given", &kernel_text(&all, &order));
    let some: Vec<usize> = (0..40).filter(|row| row % 3 != 0).collect();
    let part = folder.write("part", &kernel_text(&all, &some));
    let part_rows: Vec<_> = some.iter().map(|row| all[*row]).collect();
    let plain_part = folder.write("plain.part", &text(&part_rows));
    let in_order: Vec<usize> = (0..40).collect();
    let queries = folder.write("queries", &kernel_text(&all, &in_order));
    for (kind, rows, values) in [
        ("0", &plain, &given),
        ("0", &plain_part, &part),
        ("1", &plain, &given),
        ("3", &plain, &given),
    ] {
        let (one, two) = (folder.path("one"), folder.path("two"));
        done(&["svm-train", "-q", "-e", "1e-6", "-s", kind, "-t", "0", rows, &one]);
        done(&["svm-train", "-q", "-e", "1e-6", "-s", kind, "-t", "4", values, &two]);
        let model = fs::read_to_string(&two).unwrap();
        assert!(model.contains("kernel_type precomputed"), "{model}");
        assert!(model.lines().last().unwrap().contains(" 0:"), "{model}");
        let (first, second) = (folder.path("o1"), folder.path("o2"));
        done(&["svm-predict", "-q", &plain, &one, &first]);
        done(&["svm-predict", "-q", &queries, &two, &second]);
        let numbers = |path: &str| -> Vec<f64> {
            fs::read_to_string(path).unwrap().lines().map(|line| line.parse().unwrap()).collect()
        };
        let pairs: Vec<_> = numbers(&first).into_iter().zip(numbers(&second)).collect();
        assert_eq!(pairs.len(), 40);
        assert!(pairs.iter().all(|(a, b)| (a - b).abs() < 1e-4), "{kind}: {pairs:?}");
    }
    let wrong = folder.write("wrong", "1 0:3 1:1 2:0\n-1 0:2 1:0 2:1\n");
    let output = mercer(&["svm-train", "-t", "4", &wrong, &folder.path("m")]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("row 1: the serial number 3 is outside 1 to 2"), "{said}");
    let said = done(&["svm-train", "-q", "-t", "4", "-v", "4", &given]);
    assert!(said.starts_with("Cross Validation Accuracy = "), "{said}");
}

/// The answer is 1 or -1; a target of 0 or 2 is never right.
#[test]
fn one_class_accuracy_is_counted_as_svm_predict_counts_it() {
    let folder = Folder::new();
    let all = rows(40);
    let (data, model) = (folder.write("d", &text(&all)), folder.path("m"));
    done(&["svm-train", "-q", "-s", "2", "-n", "0.5", &data, &model]);
    let targets = [1.0, -1.0, 0.0, 2.0];
    let other: Vec<_> = (0..40).map(|row| (targets[row % 4], all[row].1)).collect();
    let (test, out) = (folder.write("t", &text(&other)), folder.path("o"));
    let said = done(&["svm-predict", &test, &model, &out]);
    let answers = fs::read_to_string(&out).unwrap();
    let is_right = |(row, answer): &(usize, &str)| answer.parse() == Ok(targets[row % 4]);
    let right = answers.lines().enumerate().filter(is_right).count();
    assert!(said.contains(&format!("({right}/40)")), "{said}");
    let report = object(&["predict", &model, &test, "--json"]);
    assert_eq!(report["accuracy"], right as f64 / 40.0);
}

/// LIBSVM takes an index 0 as one more column: in data, in models, and where the model has none.
#[test]
fn an_index_0_is_a_column_of_its_own() {
    let folder = Folder::new();
    let shifted = |line: &str| line.replace("1:", "0:").replace("2:", "1:").replace("3:", "2:");
    let plain = text(&rows(30));
    let (data, model, out) =
        (folder.write("d", &shifted(&plain)), folder.path("m"), folder.path("o"));
    // LIBSVM's default gamma is one over the largest index, which is 2 here.
    done(&["svm-train", "-q", &data, &model]);
    assert!(fs::read_to_string(&model).unwrap().contains("gamma 0.5\n"));
    done(&["svm-predict", "-q", &data, &model, &out]);
    let (usual, usual_out) = (folder.path("um"), folder.path("uo"));
    let plain = folder.write("p", &plain);
    done(&["svm-train", "-q", "-g", "0.5", &plain, &usual]);
    done(&["svm-predict", "-q", &plain, &usual, &usual_out]);
    assert_eq!(fs::read_to_string(&out).unwrap(), fs::read_to_string(&usual_out).unwrap());
    // A distance has one term more where only the query has the column.
    let query = folder.write("q", "1 0:100 1:0.1\n");
    done(&["svm-predict", "-q", &query, &usual, &out]);
    let scaled = done(&["svm-scale", &data]);
    assert!(scaled.lines().next().unwrap().contains(" 0:"), "{scaled}");
}

/// The answers of a training with these flags on its own rows.
fn answers(folder: &Folder, data: &str, flags: &str) -> Vec<f64> {
    let words: Vec<&str> = flags.split_whitespace().collect();
    let (model, out) = (folder.path("m"), folder.path("o"));
    done(&[&["svm-train", "-q"], words.as_slice(), &[data, &model]].concat());
    done(&["svm-predict", "-q", data, &model, &out]);
    fs::read_to_string(&out).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

/// LIBSVM takes `-g 0` for "not given", and `-d 0` as the constant 1, with which the larger class of a pair wins.
#[test]
fn gamma_0_is_the_default_and_degree_0_a_constant_kernel() {
    let folder = Folder::new();
    let mut all = rows(40);
    let data = folder.write("d", &text(&all));
    for kernel in ["-t 1", "-t 2", "-t 3"] {
        let with_zero = answers(&folder, &data, &format!("{kernel} -g 0"));
        let saved = fs::read_to_string(folder.path("m")).unwrap();
        assert!(saved.contains("\ngamma 0.333333333333333"), "{saved}");
        assert_eq!(with_zero, answers(&folder, &data, kernel));
    }
    for (larger, smaller) in [(1.0, -1.0), (-1.0, 1.0)] {
        for (row, (label, _)) in all.iter_mut().enumerate() {
            *label = if row < 25 { larger } else { smaller };
        }
        let data = folder.write("d", &text(&all));
        assert_eq!(answers(&folder, &data, "-t 1 -d 0"), [larger; 40]);
        let saved = fs::read_to_string(folder.path("m")).unwrap();
        assert!(saved.contains("kernel_type polynomial\ndegree 0\n"), "{saved}");
        assert!(saved.contains(&format!("rho {}\n", -larger)), "{saved}");
    }
}

/// With LIBSVM a class of weight 0 or less is never answered, and all classes without weight answer the last.
#[test]
fn weights_of_0_and_below_leave_a_class_out_as_libsvm_does() {
    let folder = Folder::new();
    let mut all = rows(60);
    for (label, values) in &mut all {
        *label = if values[0] > 0.3 { 1.0 } else { 2.0 + f64::from(u8::from(values[1] < 0.0)) };
    }
    let data = folder.write("d", &text(&all));
    let others: Vec<_> = all.iter().filter(|(label, _)| *label != 2.0).copied().collect();
    let alone = folder.write("others", &text(&others));
    let words = ["svm-train", "-q", &alone, &folder.path("m")];
    done(&words);
    done(&["svm-predict", "-q", &data, &folder.path("m"), &folder.path("o")]);
    let expected: Vec<f64> = fs::read_to_string(folder.path("o"))
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    for flags in ["-w2 0", "-w2 -1", "-w2 3 -w2 0"] {
        assert_eq!(answers(&folder, &data, flags), expected, "{flags}");
    }
    assert_eq!(answers(&folder, &data, "-w1 0 -w2 0"), [3.0; 60]);
    // Classes come in the order of their first row.
    let mut classes: Vec<f64> = Vec::new();
    all.iter().for_each(|(label, _)| {
        if !classes.contains(label) {
            classes.push(*label);
        }
    });
    assert_eq!(answers(&folder, &data, "-w1 0 -w2 -3 -w3 0"), [classes[2]; 60]);
    // Weights of one class multiply.
    let twice = answers(&folder, &data, "-w1 2 -w1 3");
    let saved = fs::read_to_string(folder.path("m")).unwrap();
    assert_eq!(twice, answers(&folder, &data, "-w1 6"));
    assert_eq!(saved, fs::read_to_string(folder.path("m")).unwrap());
    // Cross-validation counts the rows of the class that is never answered.
    let said = done(&["svm-train", "-q", "-w1", "0", "-w2", "0", "-v", "3", &data]);
    let share = all.iter().filter(|(label, _)| *label == 3.0).count() as f64 / 60.0;
    let told: f64 = said
        .trim()
        .trim_start_matches("Cross Validation Accuracy = ")
        .trim_end_matches('%')
        .parse()
        .unwrap();
    assert!((told - 100.0 * share).abs() < 1e-3, "{said}");
    let refused = mercer(&["svm-train", "-q", "-w1", "0", "-b", "1", &data, &folder.path("m")]);
    assert_eq!(refused.status.code(), Some(1));
}
