//! Tests of `smo` that need its private parts: limits of steps and the two stopping tests.

use mercer_data::synthetic::ripley;
use mercer_data::{Dataset, Matrix, Targets};

use super::*;
use crate::gram::{Gram, Source, View};
use crate::{Cancel, Qp, Subproblem};

/// Values near 100 with a polynomial kernel of degree 3: kernel values up to 1e13, almost equal rows.
fn unscaled() -> Dataset {
    let mut data = ripley(60, 4);
    let values: Vec<f64> =
        data.examples.clone().into_dense().unwrap().iter().map(|x| 100.0 + x).collect();
    data.examples = Matrix::dense(2, values).unwrap();
    data
}

fn quadratic_program(data: &Dataset, c: f64) -> Qp {
    let Targets::Numbers(targets) = &data.targets else { panic!("ripley has numbers") };
    let part = Subproblem { name: "one", targets, weights: &vec![1.0; targets.len()] };
    crate::formulation(&format!("c_svc(C={c})")).unwrap().quadratic_program(&part).unwrap()
}

fn solve(
    data: &Dataset,
    qp: &Qp,
    step_limit: StepLimit,
    stopping_test: StoppingTest,
) -> (Solution, u64) {
    let kernel = mercer_kernel::parse("polynomial(degree=3, gamma=1, coef0=1)").unwrap();
    let rows = data.examples.rows() as u32;
    let source = Source::new(&kernel, &data.examples);
    let mut gram = Gram::new(source, vec![(0..rows).collect()], 1 << 22);
    let from = StartPoint::Point(qp.start.clone());
    let (view, memory) = (View::new(&[0]), 1 << 22);
    let mut problem = GramProblem {
        gram: &mut gram,
        view,
        qp,
        from,
        shared: true,
        stopping_test,
        memory,
        file: None,
    };
    let mut observer = |_: &crate::Progress| {};
    let mut control = Control::new(&mut observer, Cancel::new());
    control.tolerance = 1e-3;
    let smo = Smo { working_set: 16, shrinking: false, step_limit };
    let solution = smo.solve(&mut problem, &mut control).unwrap();
    (solution, control.iterations)
}

#[test]
fn a_problem_that_reaches_the_step_limit_says_so_and_returns_its_best_point() {
    let data = unscaled();
    let qp = quadratic_program(&data, 10.0);
    for stopping_test in [StoppingTest::Recomputed, StoppingTest::Sampled] {
        let step_limit = StepLimit { steps: 300, per_variable: 2 };
        let (solution, steps) = solve(&data, &qp, step_limit, stopping_test);
        assert_eq!(solution.stop, Some(Stop::GivenUp));
        // The round that crosses the limit is finished.
        assert!((300..300 + 16 * 100).contains(&steps), "{steps}");
        assert!(solution.optimality.violation > 1e-3, "{:?}", solution.optimality);
        let sum: f64 = solution.beta.iter().sum();
        assert!(sum.abs() < 1e-9, "{sum}");
        let inside = |v: usize| (qp.lower[v]..=qp.upper[v]).contains(&solution.beta[v]);
        assert!((0..qp.len()).all(inside));
        // However unequal the kernel values, the gap bounds what more steps can gain.
        let (later, _) =
            solve(&data, &qp, StepLimit { steps: 3000, per_variable: 2 }, stopping_test);
        let gain = solution.optimality.objective - later.optimality.objective;
        let gap = solution.optimality.gap;
        assert!(gap.is_finite() && gain <= gap * (1.0 + 1e-9), "{gain} {gap}");
    }
}
