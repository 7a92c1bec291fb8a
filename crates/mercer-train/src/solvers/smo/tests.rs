//! Tests of `smo` that need its private parts: limits of steps, the two stopping tests, and steps over all variables between their bounds.

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

/// After some rounds a step over all variables between their bounds lowers the objective, and keeps box, sums and gradient.
#[test]
fn a_newton_step_lowers_the_objective_and_stays_feasible() {
    let data = ripley(120, 9);
    let Targets::Numbers(targets) = &data.targets else { panic!("ripley has numbers") };
    let part = Subproblem { name: "one", targets, weights: &vec![1.0; targets.len()] };
    let forms = [
        "c_svc(C=1)",
        "c_svc(C=100)",
        "nu_svc(nu=0.3)",
        "epsilon_svr(C=2, epsilon=0.1)",
        "nu_svr(C=2, nu=0.4)",
    ];
    // The last kernel matrix has rank 2: all but two directions are flat.
    let mut lowered = 0;
    for (kernel, form) in ["rbf(gamma=2)", "rbf(gamma=0.01)", "linear"]
        .iter()
        .flat_map(|kernel| forms.map(|form| (kernel, form)))
    {
        let kernel_ref = mercer_kernel::parse(kernel).unwrap();
        let qp = crate::formulation(form).unwrap().quadratic_program(&part).unwrap();
        let rows = data.examples.rows() as u32;
        let source = Source::new(&kernel_ref, &data.examples);
        let mut gram = Gram::new(source, vec![(0..rows).collect()], 1 << 22);
        let view = View::new(&[0]);
        let (stopping_test, memory) = (StoppingTest::Recomputed, 1 << 22);
        let from = StartPoint::Point(qp.start.clone());
        let mut problem = GramProblem {
            gram: &mut gram,
            view,
            qp: &qp,
            from,
            shared: true,
            stopping_test,
            memory,
            file: None,
        };
        let step_limit = StepLimit { steps: 1, per_variable: 0 };
        let smo = Smo { working_set: 16, shrinking: false, step_limit };
        let mut run = SmoRun::new(&smo, &mut problem);
        run.switch_to_f64();
        let mut observer = |_: &crate::Progress| {};
        let mut control = Control::new(&mut observer, Cancel::new());
        control.tolerance = 1e-6;
        for _ in 0..12 {
            let scan = select::scan(&qp, &run.state);
            run.round(&scan, &mut control);
            let objective = |run: &SmoRun<'_, '_, '_>| {
                let k_beta = run.recompute_k_beta_of(&run.examples);
                Optimality::of(&qp, &run.state.beta, &k_beta).objective
            };
            let sums = |run: &SmoRun<'_, '_, '_>| {
                [0, 1].map(|group| {
                    let members = (0..qp.len()).filter(|v| qp.groups[*v] == group);
                    members.map(|v| run.state.beta[v]).sum::<f64>()
                })
            };
            let (before, sums_before) = (objective(&run), sums(&run));
            run.newton_step();
            let after = objective(&run);
            let slack = 1e-9 * before.abs().max(1.0);
            assert!(after <= before + slack, "{kernel} {form}: {before} became {after}");
            lowered += usize::from(after < before - slack);
            for (sum, before) in sums(&run).iter().zip(sums_before) {
                assert!((sum - before).abs() < 1e-9, "{kernel} {form}: {before} became {sum}");
            }
            let inside = |v: usize| (qp.lower[v]..=qp.upper[v]).contains(&run.state.beta[v]);
            assert!((0..qp.len()).all(inside), "{kernel} {form}");
            let k_beta = run.recompute_k_beta_of(&run.examples);
            let off = k_beta.iter().zip(&run.state.k_beta).map(|(a, b)| (a - b).abs());
            assert!(off.fold(0.0, f64::max) < 1e-8, "{kernel} {form}");
        }
    }
    // Where nearly all are at a bound nothing is left to lower.
    assert!(lowered >= 15, "{lowered}");
}
