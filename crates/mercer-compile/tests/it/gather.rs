//! Queries that cheap stages leave open are gathered from many blocks; nobody can tell from the answers.

use mercer_compile::Compiler;
use mercer_compile::risk::Target;
use mercer_data::Matrix;
use mercer_machine::Output;
use mercer_query::{Certainty, Plan, QueryError, QueryOptions, Require};
use mercer_testkit::{generate, machines};

/// Plans whose last sharing stage stands first, in the middle and nowhere.
const PLANS: &[&str] = &[
    "cascade(linear, student(2), low_precision, exact)",
    "cascade(low_precision, pca(2, 4), exact)",
    "cascade(low_precision, exact)",
    "cascade(linear, exact)",
];

#[test]
fn gathered_queries_get_the_answers_they_get_alone() {
    let target = Target { risk: 0.05, delta: 0.1, ..Target::default() };
    for (name, output) in machines::outputs() {
        if output == Output::Value {
            continue;
        }
        let kernel = mercer_kernel::parse("rbf(gamma=0.2)").unwrap();
        let machine = machines::random(&kernel, &generate::dense(30, 8, 4), &output, 9);
        let sample = generate::dense(600, 8, 5);
        let queries = generate::dense(700, 8, 6);
        let full = Plan::exact(&machine).exact_stage().cost().multiply_adds;
        for text in PLANS {
            let compiler = Compiler::new(&machine).sample(&sample).target(target);
            let sections = compiler.run(&text.parse().unwrap()).unwrap().sections;
            let plan = Plan::fitted(&machine, &sections).unwrap();
            let mut settled = 0;
            for budget in [None, Some(full / 2), Some(full + 40)] {
                for require in [Require::Nothing, Require::Certified] {
                    let options = QueryOptions { budget, require, ..QueryOptions::default() };
                    let batch = plan.decide_with(&queries, &options).unwrap();
                    let mut worker = plan.worker();
                    for row in 0..queries.rows() {
                        let alone = worker.decide(&queries, row..row + 1, &options).unwrap();
                        let what = format!("{name}, {text}, {options:?}, row {row}");
                        assert_eq!(alone[0], batch.decisions[row], "{what}");
                        let told = plan.explain(&queries, row, &options).unwrap();
                        assert_eq!(told.answered_by, batch.answered_by[row], "{what}");
                    }
                    settled += batch.settled_by_stage[plan.stages().len()];
                }
            }
            assert!(settled > 0, "{name}, {text}: nothing was left to gather");
        }
    }
}

#[test]
fn a_score_that_overflows_is_reported_by_its_own_row() {
    let kernel = mercer_kernel::parse("polynomial(degree=9, gamma=1, coef0=1)").unwrap();
    let (_, output) =
        machines::outputs().into_iter().find(|(_, output)| *output != Output::Value).unwrap();
    let machine = machines::random(&kernel, &generate::dense(30, 4, 4), &output, 9);
    let text = "cascade(low_precision, exact)".parse().unwrap();
    let sections = Compiler::new(&machine).run(&text).unwrap().sections;
    let plan = Plan::fitted(&machine, &sections).unwrap();
    let rows = generate::dense(600, 4, 7);
    let sane = plan.decide(&rows).unwrap();
    // Not all of those before it are gathered with it.
    assert!(sane[..437].iter().any(|decision| decision.certainty == Certainty::Certified));
    let mut values = rows.into_dense().unwrap();
    values[4 * 437..4 * 438].fill(1e60);
    let error = plan.decide(&Matrix::dense(4, values).unwrap()).unwrap_err();
    assert!(matches!(error, QueryError::NotFinite { row: 438, .. }), "{error}");
}
