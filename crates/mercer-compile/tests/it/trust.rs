//! Machines at the ends of the range of f64, with queries bisected to the border: no range misses the score, no
//! certified label is wrong. The scores are those of `references.py` beside the files, independent of Mercer.

use std::collections::HashMap;
use std::path::PathBuf;

use mercer_compile::{CompileError, FITTERS, compile};
use mercer_data::{Matrix, read};
use mercer_machine::{Answer, Machine, PlanSections, file};
use mercer_query::{Certainty, Decision, Plan, PlanTrust, QueryError, QueryOptions};

/// Two numbers that enclose a score.
type Enclosed = (f64, f64);

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../mercer-machine/tests/data/trust").join(name)
}

/// Scores of all queries, by the name of the machine.
fn references() -> HashMap<String, Vec<Enclosed>> {
    let text = std::fs::read_to_string(path("references.txt")).unwrap();
    let mut found: HashMap<String, Vec<Enclosed>> = HashMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<f64>().unwrap();
        found.entry(words[0].to_owned()).or_default().push((number(1), number(2)));
    }
    found
}

fn machine(name: &str) -> Machine {
    let is_own = path(&format!("{name}.mercer")).exists();
    let file_name = format!("{name}.{}", if is_own { "mercer" } else { "model" });
    file::load(&path(&file_name)).unwrap().machine
}

fn queries(name: &str) -> Matrix {
    read::dataset(&path(&format!("{name}.svm")), &read::Options::default()).unwrap().examples
}

/// What a plan did with the queries of one machine.
#[derive(Debug, Default)]
struct Found {
    asked: usize,
    certified: usize,
    finite: usize,
}

/// Every range of the answers, and of each step on the way, contains the score; every certified label is that of
/// its sign.
fn check(name: &str, plan: &Plan, rows: &Matrix, scores: &[Enclosed]) -> Found {
    let mut found = Found::default();
    let (mut worker, options, mut steps) = (plan.worker(), QueryOptions::default(), Vec::new());
    let decisions = plan.decide(rows).unwrap();
    for (row, (decision, (low, high))) in decisions.iter().zip(scores).enumerate() {
        let Decision { answer, range: score, certainty, .. } = decision;
        assert!(
            score.low <= *low && *high <= score.high,
            "{name}, row {row}: {decision:?}, {low:e}"
        );
        found.asked += 1;
        found.finite += usize::from(score.low.is_finite() && score.high.is_finite());
        if *certainty == Certainty::Certified {
            found.certified += 1;
            let is_right = *answer == Answer::Class(usize::from(*high <= 0.0));
            assert!(is_right, "{name}, row {row}: {decision:?}, {low:e}");
        }
        match worker.explain(rows, row, &options, &mut steps) {
            Ok(_) => {}
            Err(QueryError::NotFinite { .. }) => continue,
            Err(other) => panic!("{name}: {other}"),
        }
        for step in steps.iter().filter(|step| !step.is_estimate) {
            let holds = step.range.low <= *low && *high <= step.range.high;
            assert!(holds, "{name}, row {row}: {step:?}, {low:e}");
        }
    }
    found
}

/// The plan of each certifying stage that takes the machine.
fn plans(machine: &Machine) -> Vec<(String, PlanSections)> {
    let proving = FITTERS.iter().filter(|fitter| !fitter.estimates && !fitter.stops);
    let mut texts: Vec<String> =
        proving.map(|fitter| format!("cascade({}, exact)", fitter.stage.name)).collect();
    texts.push("cascade(projected(directions=0), exact)".to_owned());
    texts.push("cascade(compressed(3), exact)".to_owned());
    texts.push("cascade(low_precision(integers=quantised), exact)".to_owned());
    let mut found = Vec::new();
    for text in texts {
        match compile(machine, &text.parse().unwrap(), None) {
            Ok(sections) => found.push((text, sections)),
            Err(CompileError::Unfit { .. } | CompileError::Load(_)) => {}
            Err(other) => panic!("{text}: {other}"),
        }
    }
    found
}

#[test]
fn exact_ranges_hold_at_the_ends_of_the_range_of_numbers() {
    for (name, scores) in references() {
        let (machine, rows) = (machine(&name), queries(&name));
        let found = check(&name, &Plan::exact(&machine), &rows, &scores);
        assert_eq!((found.asked, found.finite), (scores.len(), scores.len()), "{name}");
    }
}

#[test]
fn no_stage_certifies_a_wrong_label_at_the_ends_of_the_range_of_numbers() {
    let mut taken = 0;
    for (name, scores) in references() {
        let (machine, rows) = (machine(&name), queries(&name));
        for (text, sections) in plans(&machine) {
            let plan = Plan::fitted(&machine, &sections).unwrap();
            let found = check(&format!("{name}, {text}"), &plan, &rows, &scores);
            println!("{name}, {text}: {found:?}");
            taken += 1;
        }
    }
    assert!(taken > 20, "{taken} plans");
}

/// Plans that were fitted to kernel values that underflowed, before those were computed in a scaled form.
#[test]
fn stored_plans_of_values_that_underflow_certify_nothing_wrong() {
    for (name, scores) in references().into_iter().filter(|(name, _)| name.starts_with("norm_")) {
        for kind in ["anyt", "comp"] {
            let stored = path(&format!("{name}.{kind}.mercer"));
            if !stored.exists() {
                continue;
            }
            let model = file::load(&stored).unwrap();
            let sections = model.plan.unwrap();
            // A plan that is refused certifies nothing.
            for trust in [PlanTrust::Nothing, PlanTrust::Everything] {
                let Ok(plan) = Plan::load(&model.machine, &sections, trust) else { continue };
                let found = check(&format!("{name}.{kind}"), &plan, &queries(&name), &scores);
                println!("{name}.{kind}, {trust:?}: {found:?}");
            }
        }
    }
}

/// At ordinary scales stages are still of use, on queries as near to the border.
#[test]
fn an_ordinary_machine_beside_them_is_certified() {
    let name = "proj_linear_1";
    let (machine, rows, scores) = (machine(name), queries(name), &references()[name]);
    let sections = compile(&machine, &"cascade(monomials, exact)".parse().unwrap(), None).unwrap();
    let found = check(name, &Plan::fitted(&machine, &sections).unwrap(), &rows, scores);
    assert_eq!((found.asked, found.certified), (scores.len(), scores.len()), "{found:?}");
}
