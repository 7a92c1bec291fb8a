//! Adversarial names of classes and columns in every model format: read back as they were, refused with a sentence, or
//! inside of a string where nothing else can be read.

use std::io::Write;
use std::process::Command;

use mercer_data::Matrix;
use mercer_machine::file::{FORMATS, format, from_bytes, to_bytes};
use mercer_machine::{ClassName, Machine, MachineError, Model, Output, Scheme, Score};
use mercer_testkit::names::ADVERSARIAL;

fn model(classes: &[&str], scheme: Scheme) -> Model {
    let kernel = mercer_kernel::parse("rbf(gamma=0.5)").unwrap();
    let supports = Matrix::dense(2, vec![0.0, 1.0, 2.0, 0.5, 1.5, -1.0]).unwrap();
    let names = classes.iter().map(|name| ClassName::Text((*name).to_owned())).collect();
    let output = Output::Classes { names, scheme };
    let scores = (0..output.scores()).map(|_| Score::expansion(&[1.0, -1.0, 0.5], 0.1)).collect();
    let mut model = Model::from(Machine::new(kernel, supports, scores, output).unwrap());
    model.input.names = Some(vec![classes[0].to_owned(), classes[1].to_owned()]);
    classes[0].clone_into(&mut model.provenance.origin);
    model.provenance.formulation = Some(classes[1].to_owned());
    model
}

/// A C text without what is between quotes, and what is between them.
fn without_literals(text: &str) -> (String, Vec<String>) {
    let (mut outside, mut inside, mut literals) = (String::new(), None::<String>, Vec::new());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (&mut inside, character) {
            (None, '"') => inside = Some(String::new()),
            (None, other) => outside.push(other),
            (Some(_), '"') => literals.extend(inside.take()),
            (Some(literal), '\\') => {
                literal.push('\\');
                literal.extend(characters.next());
            }
            (Some(literal), other) => literal.push(other),
        }
    }
    (outside, literals)
}

#[test]
fn every_format_gives_names_back_or_refuses_them() {
    for pair in ADVERSARIAL.windows(2) {
        let model = model(pair, Scheme::OneVsOne);
        for format in FORMATS {
            let bytes = match to_bytes(&model, format) {
                Ok(bytes) => bytes,
                Err(MachineError::Inexpressible { what, .. }) => {
                    assert!(!what.is_empty() && !["mercer", "onnx"].contains(&format.name));
                    continue;
                }
                Err(other) => panic!("{}: {other}", format.name),
            };
            if format.name.starts_with('c') {
                continue; // written only; the next test
            }
            let again = from_bytes(&bytes).unwrap();
            assert_eq!(again.machine.classes(), model.machine.classes(), "{}", format.name);
            if format.name == "mercer" {
                assert_eq!(again.input.names, model.input.names);
                assert_eq!(again.provenance.origin, model.provenance.origin);
                assert_eq!(again.provenance.formulation, model.provenance.formulation);
            }
        }
    }
}

#[test]
fn a_c_file_holds_names_in_string_literals_alone() {
    let text = |classes: &[&str], name: &str| {
        let bytes = to_bytes(&model(classes, Scheme::OneVsRest), format(name).unwrap());
        String::from_utf8(bytes.unwrap()).unwrap()
    };
    let plain: Vec<String> =
        (0..ADVERSARIAL.len()).map(|number| format!("plain {number}")).collect();
    let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
    let adversarial: Vec<&str> =
        ADVERSARIAL.iter().copied().filter(|name| !name.contains('\0')).collect();
    for name in ["c", "c-float"] {
        let (outside, literals) = without_literals(&text(&adversarial, name));
        let (expected, _) = without_literals(&text(&plain[..adversarial.len()], name));
        assert_eq!(outside, expected);
        assert!(literals.len() >= adversarial.len());
        for literal in literals {
            assert!(literal.bytes().all(|byte| (32..127).contains(&byte)), "{literal}");
        }
    }
    let nul = model(&["a\0b", "c"], Scheme::OneVsOne);
    assert!(matches!(
        to_bytes(&nul, format("c").unwrap()),
        Err(MachineError::Inexpressible { .. })
    ));
}

#[test]
fn a_compiled_c_file_says_the_names_byte_by_byte() {
    if Command::new("cc").arg("--version").output().is_err() {
        return; // no compiler here
    }
    let adversarial: Vec<&str> =
        ADVERSARIAL.iter().copied().filter(|name| !name.contains('\0')).collect();
    let mut text = to_bytes(&model(&adversarial, Scheme::OneVsRest), format("c").unwrap()).unwrap();
    let main = "#include <stdio.h>\nint main(void) { int i; const char *p; \
        for (i = 0; i < MERCER_CLASSES; i++) { for (p = mercer_names[i]; *p; p++) \
        printf(\"%02x\", (unsigned)(unsigned char)*p); printf(\"\\n\"); } return 0; }\n";
    text.write_all(main.as_bytes()).unwrap();
    let folder = std::env::temp_dir().join(format!("mercer-names-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("names.c"), folder.join("names"));
    std::fs::write(&source, text).unwrap();
    let flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-trigraphs"];
    let mut compiler = Command::new("cc");
    let made =
        compiler.args(flags).arg(&source).arg("-o").arg(&program).arg("-lm").output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let said = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    let hex = |name: &&str| name.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(said.lines().collect::<Vec<_>>(), adversarial.iter().map(hex).collect::<Vec<_>>());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn kernel_parameters_that_vanish_in_32_bit_floats_are_refused() {
    let kernel = mercer_kernel::parse("rbf(gamma=1e-50)").unwrap();
    let supports = Matrix::dense(1, vec![1e25, 2e25]).unwrap();
    let scores = vec![Score::expansion(&[1.0, -1.0], 0.0)];
    let model = Model::from(Machine::new(kernel, supports, scores, Output::Value).unwrap());
    for name in ["onnx", "c-float"] {
        let refusal = to_bytes(&model, format(name).unwrap()).unwrap_err().to_string();
        assert!(
            refusal.contains("0.00000000000000000000000000000000000000000000000001")
                || refusal.contains("e-50"),
            "{refusal}"
        );
    }
    assert!(to_bytes(&model, format("c").unwrap()).is_ok());
}

#[test]
fn numbers_that_name_classes_keep_every_bit() {
    let exact = 9_007_199_254_740_992.0;
    let names = [
        exact - 1.0,
        exact,
        -exact,
        0.1,
        1.0 / 3.0,
        5e-324,
        1.7976931348623157e308,
        -9.2e18,
        0.30000000000000004,
    ];
    let mut model = model(&ADVERSARIAL[..names.len()], Scheme::OneVsRest);
    let names: Vec<ClassName> = names.iter().map(|number| ClassName::Number(*number)).collect();
    let output = Output::Classes { names: names.clone(), scheme: Scheme::OneVsRest };
    let machine = &model.machine;
    let machine = Machine::new(
        machine.kernel().clone(),
        machine.supports().as_ref().clone(),
        machine.scores().to_vec(),
        output,
    );
    model.machine = machine.unwrap();
    let again = from_bytes(&to_bytes(&model, format("mercer").unwrap()).unwrap()).unwrap();
    assert_eq!(again.machine.classes(), names);
}
