//! The help of every verb: options stand in groups, `-h` is one screen, `--help` names every option; names with slips get
//! the nearest right one.

use crate::common::{Folder, done, refused};
use crate::guide::table;
use crate::shell::verbs;

/// Lines of a screen that `-h` may take.
const SCREEN: usize = 48;

/// Verbs whose options are ours, not LIBSVM's.
fn own_verbs() -> Vec<String> {
    verbs().into_iter().filter(|verb| !verb.starts_with("svm-")).collect()
}

/// The headings of a help text with the options below each.
fn groups(help: &str) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for line in help.lines() {
        if let Some(heading) = line.strip_suffix(':').filter(|text| !text.starts_with(' ')) {
            groups.push((heading.to_owned(), Vec::new()));
        }
        // Text that goes on in the next line is indented further.
        let indent = line.len() - line.trim_start().len();
        let is_option = (2..=6).contains(&indent) && line.trim_start().starts_with('-');
        if is_option && let Some((_, options)) = groups.last_mut() {
            let words = line.split([' ', ',', '=']).filter(|word| word.starts_with("--"));
            options.extend(words.take(1).map(str::to_owned));
        }
    }
    groups
}

#[test]
fn options_stand_in_groups() {
    for verb in own_verbs() {
        let help = done(&[&verb, "--help"]);
        for (heading, options) in groups(&help) {
            let alone = ["--help", "--version"];
            let is_grouped = heading != "Options" || options.iter().all(|o| alone.contains(&&**o));
            assert!(is_grouped, "{verb}: {options:?} have no heading");
        }
    }
    let train = groups(&done(&["train", "--help"]));
    let of = |heading: &str| {
        let found = train.iter().find(|(name, _)| name == heading);
        found.unwrap_or_else(|| panic!("no group {heading}")).1.clone()
    };
    for (heading, option) in [
        ("Data", "--label"),
        ("Kernel and formulation", "--formulation"),
        ("Solver", "--tolerance"),
        ("Limits", "--memory"),
        ("Output", "--output"),
    ] {
        assert!(of(heading).contains(&option.to_owned()), "{option} is not in {heading}");
    }
}

#[test]
fn short_help_is_one_screen_and_long_help_is_whole() {
    for verb in own_verbs() {
        let (short, long) = (done(&[&verb, "-h"]), done(&[&verb, "--help"]));
        assert!(short.lines().count() <= SCREEN, "{verb}: {} lines", short.lines().count());
        let options = |help: &str| -> Vec<String> {
            groups(help).into_iter().flat_map(|(_, options)| options).collect()
        };
        let (few, all) = (options(&short), options(&long));
        assert!(few.iter().all(|option| all.contains(option)), "{verb}: {few:?} {all:?}");
        for common in ["--threads", "--seed", "--quiet", "--json", "--log-level"] {
            assert!(all.iter().any(|option| option == common), "{verb}: {common}");
        }
    }
    assert!(!done(&["train", "-h"]).contains("--max-unpacked"));
}

#[test]
fn parameters_are_read_in_either_case() {
    let folder = Folder::new();
    let data = folder.write("train.csv", &table(60, 0, false));
    let models = [("c_svc(C=3)", "rbf(gamma=0.5)"), ("c_svc(c=3)", "rbf(Gamma=0.5)")];
    let [upper, lower] = models.map(|(formulation, kernel)| {
        let model = folder.path("m.mercer");
        done(&["train", &data, "-o", &model, "--formulation", formulation, "--kernel", kernel]);
        std::fs::read(model).unwrap()
    });
    assert!(upper == lower, "the case of a parameter's name changed the model");
}

#[test]
fn a_wrong_name_gets_the_nearest_right_one() {
    let folder = Folder::new();
    let data = folder.write("train.csv", &table(60, 0, false));
    let model = folder.path("m.mercer");
    let train = |flag: &str, text: &str| refused(&["train", &data, "-o", &model, flag, text]);
    for (flag, text, nearest) in [
        ("--kernel", "poly", "polynomial"),
        ("--kernel", "rbf(gama=1)", "gamma"),
        ("--formulation", "csvc(C=1)", "c_svc"),
        ("--formulation", "epsilon_svr(eps=1, C=1)", "epsilon"),
        ("--solver", "lowrank", "low_rank"),
        ("--scale", "minmax", "min_max"),
        ("--input-format", "cvs", "csv"),
    ] {
        let said = train(flag, text);
        assert!(said.contains(&format!("(did you mean '{nearest}'?)")), "{text}: {said}");
    }
    done(&["train", &data, "-o", &model]);
    let said = refused(&["compile", &model, "--plan", "low_precison", "-o", "unused"]);
    assert!(said.contains("no stage 'low_precison' (did you mean 'low_precision'?)"), "{said}");
}
