//! `mercer compress`: what it writes, reports and refuses, and how the compressed model answers.

use std::fs;
use std::process::Command;

use crate::common::{Folder, dataset, done, interrupted, mercer, noise, object, refused};

/// A machine of overlapping classes: most coefficients are at their bound.
fn trained(folder: &Folder, kernel: &str) -> String {
    let (data, model) = (dataset("haberman/haberman.csv"), folder.path("whole.mercer"));
    let arguments = [
        "train", &data, "--label", "label", "--scale", "standard", "--kernel", kernel, "-o", &model,
    ];
    done(&arguments);
    model
}

#[test]
fn a_compressed_model_is_a_model_like_any_other() {
    let folder = Folder::new();
    let whole = trained(&folder, "rbf(gamma=0.1)");
    let (data, small) = (dataset("haberman/haberman.csv"), folder.path("small.mercer"));
    let (page, svg) = (folder.path("r.html"), folder.path("r.svg"));
    let told = object(&[
        "compress", &whole, "--method", "moved", "--error", "0.02", "--sample", &data, "--report",
        &page, "--svg", &svg, "-o", &small, "--json",
    ]);
    let after = told["after"].as_u64().expect("a count");
    assert!(after > 2 && after < 40 && told["before"].as_u64() > Some(100), "{told}");
    assert!(told["weight_error"]["relative"].as_f64().unwrap() <= 0.02, "{told}");
    assert!(told["agreement"]["certified_share"].as_f64().unwrap() > 0.5, "{told}");
    assert!(told["curve"].as_array().unwrap().len() > 2, "{told}");
    assert!(fs::read_to_string(&svg).unwrap().starts_with("<svg"));
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("data-drawing=\"scatter\"") && text.contains("disagreements"), "{text}");
    assert!(!text.contains("NaN"));
    let known = object(&["inspect", &small, "--json"]);
    assert_eq!(known["supports"].as_u64(), Some(after));
    assert_eq!(known["parent"]["supports"], told["before"]);
    assert!(done(&["inspect", &small]).contains("compressed     from"));
    // It predicts, and nearly all labels are those of the whole.
    let labels =
        |model: &str| done(&["predict", model, &data, "--label", "label", "--format", "libsvm"]);
    let (a, b) = (labels(&whole), labels(&small));
    let disagreements = a.lines().zip(b.lines()).filter(|(a, b)| a != b).count();
    assert!(disagreements <= 6, "{disagreements} disagreements");
    // It is exported, C included, and planned.
    for (format, name) in [("c", "small.c"), ("onnx", "small.onnx")] {
        let output = folder.path(name);
        done(&["export", &small, "--format", format, "--sample", &data, "-o", &output]);
        assert!(fs::metadata(&output).unwrap().len() > 100);
    }
    let planned = folder.path("planned.mercer");
    done(&["compile", &small, "--plan", "cascade(compressed(5), exact)", "-o", &planned]);
    assert_eq!(labels(&planned), b);
    // The whole one under a certified cascade says what it says alone.
    done(&["compile", &whole, "--plan", "cascade(compressed(15), exact)", "-o", &planned]);
    assert_eq!(labels(&planned), a);
}

#[test]
fn a_linear_machine_becomes_its_weights_unless_vectors_are_kept() {
    let folder = Folder::new();
    let (whole, small) = (trained(&folder, "linear"), folder.path("small.mercer"));
    let told = object(&["compress", &whole, "-o", &small, "--json"]);
    assert_eq!((told["after"].as_u64(), told["method"].as_str()), (Some(0), Some("weights")));
    let told =
        object(&["compress", &whole, "--keep-vectors", "--size", "3", "-o", &small, "--json"]);
    assert_eq!(told["after"].as_u64(), Some(3));
    assert!(told["weight_error"]["relative"].as_f64().unwrap() < 1e-6, "{told}");
    let output = folder.path("small.model");
    done(&["export", &small, "--format", "libsvm", "-o", &output]);
}

#[test]
fn every_method_tells_what_it_did() {
    let folder = Folder::new();
    let (whole, small) = (trained(&folder, "rbf(gamma=0.1)"), folder.path("small.mercer"));
    for method in ["greedy", "moved", "exact_basis", "regression", "primal(penalty=l1)", "lasso"] {
        let text = done(&["compress", &whole, "--method", method, "--size", "15", "-o", &small]);
        assert!(text.contains("|W - W~|"), "{method}: {text}");
    }
    let text = done(&["compress", &whole, "--method", "exact_basis", "-o", &small]);
    assert!(text.contains("compressed to"), "{text}");
}

#[test]
fn an_interrupted_compression_writes_nothing_and_leaves_what_was_there() {
    let folder = Folder::new();
    let (data, whole) =
        (folder.write("noise.svm", &noise(1500, 19, 1e7)), folder.path("whole.mercer"));
    done(&["train", &data, "-o", &whole, "--kernel", "rbf(gamma=0.5)"]);
    let (small, page) = (folder.write("small.mercer", "as it was"), folder.path("r.html"));
    // Thousands of descents: no machine is through with them in a second.
    let mut command = Command::new(env!("CARGO_BIN_EXE_mercer"));
    command.args(["compress", &whole, "--method", "moved(iterations=10000)", "--error", "1e-6"]);
    let output = interrupted(command.args(["--report", &page, "-o", &small]), 1200);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.contains("interrupted; nothing was written") && output.stdout.is_empty(),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&small).unwrap(), "as it was");
    assert!(!std::path::Path::new(&page).exists());
    // Nothing half written is left beside it.
    let names = fs::read_dir(std::path::Path::new(&small).parent().unwrap()).unwrap();
    assert_eq!(names.count(), 3);
}

/// `C(d + p, p)` products of at most p of d columns span the feature space of degree p.
#[test]
fn a_polynomial_of_few_columns_needs_no_more_vectors_than_its_map_has_products() {
    let folder = Folder::new();
    for (kernel, products) in [
        ("polynomial(degree=2, gamma=0.3, coef0=1)", 10),
        ("polynomial(degree=3, gamma=0.3, coef0=1)", 20),
        ("polynomial(degree=4, gamma=0.3, coef0=1)", 35),
    ] {
        let (whole, small) = (trained(&folder, kernel), folder.path("small.mercer"));
        let told = object(&["compress", &whole, "--method", "exact_basis", "-o", &small, "--json"]);
        assert!(told["before"].as_u64() > Some(100), "{told}");
        assert!(told["after"].as_u64() <= Some(products), "{kernel}: {told}");
        assert!(told["weight_error"]["relative"].as_f64().unwrap() < 1e-5, "{kernel}: {told}");
        // The same map as explicit weights, for any of the two.
        for model in [&whole, &small] {
            let planned = folder.path("planned.mercer");
            done(&["compile", model, "--plan", "cascade(monomials, exact)", "-o", &planned]);
            let data = dataset("haberman/haberman.csv");
            let ask = |model: &str| done(&["predict", model, &data, "--label", "label"]);
            assert_eq!(ask(model), ask(&planned), "{kernel}");
        }
    }
    let whole = trained(&folder, "polynomial(degree=3, gamma=0.3, coef0=1)");
    let small = folder.path("small.mercer");
    let text = refused(&["compress", &whole, "--method", "quadratic", "-o", &small]);
    assert!(text.contains("exact_basis") && text.contains("monomials"), "{text}");
}

#[test]
fn what_cannot_be_done_is_said_and_nothing_is_written() {
    let folder = Folder::new();
    let (whole, small) = (trained(&folder, "rbf(gamma=0.1)"), folder.path("small.mercer"));
    assert!(refused(&["compress", &whole, "-o", &small]).contains("needs a goal"));
    let text = refused(&["compress", &whole, "--method", "magic", "--size", "3", "-o", &small]);
    assert!(text.contains("greedy"), "{text}");
    let text = refused(&["compress", &whole, "--method", "lasso(lambda=2)", "-o", &small]);
    assert!(text.contains("lambda"), "{text}");
    let both = mercer(&["compress", &whole, "--size", "3", "--error", "0.1", "-o", &small]);
    assert_eq!(both.status.code(), Some(2));
    let without = mercer(&["compress", &whole, "--certified", "0.9", "-o", &small]);
    assert_eq!(without.status.code(), Some(2));
    assert!(!std::path::Path::new(&small).exists());
}
