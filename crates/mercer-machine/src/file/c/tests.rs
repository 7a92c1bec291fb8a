//! Tests of the C writer: the text, and what the compiled program answers.

use std::path::Path;
use std::process::Command;

use mercer_data::Matrix;

use super::super::{from_bytes, to_bytes};
use super::{DOUBLE, FLOAT, quoted};
use crate::{ClassName, Machine, Model, Output, Scheme, Score};

fn machine(kernel: &str, classes: usize, scheme: Scheme, is_sparse: bool) -> Model {
    let kernel = mercer_kernel::parse(kernel).unwrap();
    let values = (0..60).map(|at| f64::from((at * 37) % 17) / 8.0);
    let values = values.enumerate().map(|(at, v)| if is_sparse && at % 4 != 0 { 0.0 } else { v });
    let supports = Matrix::dense(6, values.collect()).unwrap();
    let names = (0..classes).map(|class| ClassName::Text(format!("c\"{class}"))).collect();
    let output = match classes {
        0 => Output::Value,
        1 => Output::Novelty,
        _ => Output::Classes { names, scheme },
    };
    let score = |s: usize| {
        let betas = (0..10).map(|i| f64::from(((i * 7 + s as i32 * 5) % 9) - 4) / 3.0);
        Score::expansion(&betas.collect::<Vec<_>>(), 0.01 * s as f64)
    };
    let scores = (0..output.scores()).map(score).collect();
    Machine::new(kernel, supports, scores, output).unwrap().into()
}

fn compile_and_run(text: &[u8], name: &str, folder: &Path) {
    let source = folder.join(format!("{name}.c"));
    let program = folder.join(name);
    std::fs::write(&source, text).unwrap();
    let flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-DMERCER_TEST"];
    let mut compiler = Command::new("cc");
    let made = compiler.args(flags).arg(&source).arg("-o").arg(&program).arg("-lm").output();
    let made = made.unwrap();
    assert!(made.status.success(), "{name}: {}", String::from_utf8_lossy(&made.stderr));
    let run = Command::new(&program).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{name}: {said}");
    assert!(!said.contains("of 0 wrong"), "{name}: {said}");
}

#[test]
fn files_compile_without_a_warning_and_pass_their_own_tests() {
    if Command::new("cc").arg("--version").output().is_err() {
        return; // no compiler here
    }
    let folder = std::env::temp_dir().join(format!("mercer-c-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let linear = b"solver_type MCSVM_CS\nnr_class 3\nlabel 3 1 2\nnr_feature 2\nbias 1\nw\n\
        1 2 3 \n4 5 6 \n7 8 1\n";
    let models = [
        ("rbf", machine("rbf(gamma=0.5)", 4, Scheme::OneVsOne, false)),
        ("rest", machine("polynomial(degree=2,gamma=0.5,coef0=1)", 3, Scheme::OneVsRest, true)),
        ("sigmoid", machine("sigmoid(gamma=0.1,coef0=-1)", 2, Scheme::OneVsOne, false)),
        ("chi2", machine("exponential(chi2,gamma=0.5)", 1, Scheme::OneVsOne, true)),
        ("js", machine("jensen_shannon", 0, Scheme::OneVsOne, false)),
        ("laplacian", machine("laplacian(gamma=0.5)", 2, Scheme::OneVsOne, true)),
        ("hellinger", machine("hellinger", 2, Scheme::OneVsOne, false)),
        ("liblinear", from_bytes(linear).unwrap()),
    ];
    for (name, model) in &models {
        compile_and_run(&to_bytes(model, &DOUBLE).unwrap(), name, &folder);
    }
    let (name, model) = &models[0];
    compile_and_run(&to_bytes(model, &FLOAT).unwrap(), &format!("{name}_float"), &folder);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_c_cannot_say_is_refused_by_name() {
    let given = machine("normalized(linear)", 2, Scheme::OneVsOne, false);
    let said = to_bytes(&given, &DOUBLE).unwrap_err().to_string();
    assert_eq!(said, "C cannot express the kernel normalized(linear)");
}

#[test]
fn names_cannot_leave_their_string() {
    assert_eq!(quoted("a\"*/\\n?ü"), "\"a\\042*/\\134n\\077\\303\\274\"");
}
