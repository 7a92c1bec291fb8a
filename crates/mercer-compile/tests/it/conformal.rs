//! Prediction sets: their coverage on fresh rows, plans that decide them by ranges, and refusals.

use mercer_compile::{CompileError, Compiler, conformal_split, conformalize, retest_conformal};
use mercer_data::synthetic::{banana, normal};
use mercer_data::{Dataset, Matrix, Targets};
use mercer_machine::{Answer, ClassName, Conformal, Machine, Output, Scheme};
use mercer_query::{
    Certainty, EmptySets, Plan, PredictionSet, QueryError, SetDecision, SetOptions,
};
use mercer_testkit::{generate, machines};
use mercer_train::{Training, formulation, train};
use rand::RngExt;

const NEVER_EMPTY: SetOptions = SetOptions { tolerance: None, empty: EmptySets::Never };
const MAY_BE_EMPTY: SetOptions = SetOptions { tolerance: None, empty: EmptySets::Allowed };

/// Targets that scores tell of, but not surely: the class with the largest margin after noise, or the value with noise.
fn targets(machine: &Machine, rows: &Matrix, seed: u64) -> Vec<Option<Answer>> {
    let scores = Plan::exact(machine).scores(rows).unwrap();
    let mut rng = generate::rng(seed);
    let each = scores.chunks_exact(machine.scores().len()).map(|scores| match machine.output() {
        Output::Value => Answer::Value(scores[0] + normal(&mut rng) * (1.0 + scores[0].abs())),
        output => {
            let fits = |class: usize| match scores {
                [score] if class == 1 => -score,
                [score] => *score,
                _ => output.margin(scores, class),
            };
            let noisy: Vec<f64> = (0..machine.classes().len())
                .map(|class| fits(class) + 0.4 * normal(&mut rng))
                .collect();
            let best = (0..noisy.len()).max_by(|a, b| noisy[*a].total_cmp(&noisy[*b]));
            Answer::Class(best.unwrap())
        }
    });
    each.map(Some).collect()
}

/// The share of the targets that the sets hold.
fn covered(sets: &[SetDecision], targets: &[Option<Answer>]) -> f64 {
    let holds = |(set, target): (&SetDecision, &Option<Answer>)| {
        target.is_some_and(|target| set.set.contains(target))
    };
    sets.iter().zip(targets).filter(|pair| holds(*pair)).count() as f64 / sets.len() as f64
}

fn problem(output: &Output, seed: u64) -> Machine {
    let kernel = mercer_kernel::parse("rbf(gamma=0.3)").unwrap();
    machines::random(&kernel, &generate::dense(15, 3, seed), output, seed)
}

/// Of n = 199 rows the quantile has rank 180, so the coverage of one calibration has the distribution Beta(180, 20), with
/// mean 0.9 and variance 0.09 / 201 (targets without ties); counting it on 2,000 fresh rows adds at most 0.09 / 2000. The mean of
/// 25 problems lies within five standard deviations of 0.9, but for one run in a million.
fn deviation() -> f64 {
    ((0.09f64 / 201.0 + 0.09 / 2000.0) / 25.0).sqrt()
}

/// Sets that may be empty cover as often as asked and no more; sets that hold the label may cover more.
#[test]
fn sets_cover_fresh_targets_of_a_hundred_problems_as_promised() {
    let kinds = machines::outputs().into_iter().filter(|(_, output)| *output != Output::Novelty);
    let mut problems = 0;
    for (name, output) in kinds {
        let mut shares = [0.0; 2];
        for seed in 0..25 {
            let machine = problem(&output, 1000 + seed);
            let (sample, fresh) =
                (generate::dense(199, 3, seed), generate::dense(2000, 3, seed + 500));
            let fit =
                conformalize(&machine, &sample, &targets(&machine, &sample, seed), 0.9).unwrap();
            let targets = targets(&machine, &fresh, seed + 500);
            for (share, options) in shares.iter_mut().zip([NEVER_EMPTY, MAY_BE_EMPTY]) {
                let plan = Plan::exact(&machine);
                let sets = plan.predict_sets(&fresh, &fit.conformal, &options).unwrap();
                *share += covered(&sets, &targets) / 25.0;
            }
            problems += 1;
        }
        let [never, allowed] = shares;
        assert!(never >= allowed, "{name}: {shares:?}");
        assert!((allowed - 0.9).abs() <= 5.0 * deviation(), "{name}: {shares:?}");
    }
    assert_eq!(problems, 100);
}

/// The same of machines that were trained, by plans that were fitted, on rows that neither has seen.
#[test]
fn plans_of_trained_machines_cover_fresh_targets_and_decide_most_sets_by_ranges() {
    let cloud = |rows: usize, seed: u64| {
        let mut data = banana(rows, seed);
        // Three classes from two clouds; a tenth of the labels is drawn anew.
        let mut rng = generate::rng(seed);
        let mut class = |row: usize| {
            let row = data.examples.row(row);
            let own = if row.get(1) > 0.25 { 2 } else { usize::from(row.get(0) > 0.5) };
            if rng.random_range(0..10) == 0 { rng.random_range(0..3) } else { own }
        };
        let classes: Vec<usize> = (0..rows).map(&mut class).collect();
        data.targets = Targets::Numbers(classes.iter().map(|class| *class as f64).collect());
        data
    };
    let kernel = mercer_kernel::parse("rbf(gamma=2)").unwrap();
    let c_svc = formulation("c_svc(C=1)").unwrap();
    for scheme in [Scheme::OneVsOne, Scheme::OneVsRest] {
        let (mut allowed, mut by_ranges) = (0.0, [0usize; 2]);
        for seed in 0..25 {
            let training = Training::default().scheme(scheme);
            let rows = cloud(200, 10 * seed);
            let trained = train(&rows, &kernel, &c_svc, &training, &mut |_| {}).unwrap();
            let machine = trained.machine;
            let sample = cloud(100, 10 * seed + 1).examples;
            let compiler = Compiler::new(&machine).sample(&sample);
            let text = "cascade(low_precision, exact)".parse().unwrap();
            let plan = Plan::fitted(&machine, &compiler.run(&text).unwrap().sections).unwrap();
            let answers = |data: &Dataset| -> Vec<Option<Answer>> {
                let Targets::Numbers(all) = &data.targets else { panic!("numbers") };
                let place = |target: &f64| {
                    let name = ClassName::Number(*target);
                    machine.classes().iter().position(|class| *class == name).map(Answer::Class)
                };
                all.iter().map(place).collect()
            };
            let (held_out, fresh) = (cloud(199, 10 * seed + 2), cloud(2000, 10 * seed + 3));
            let fit = conformalize(&machine, &held_out.examples, &answers(&held_out), 0.9).unwrap();
            for (count, options) in by_ranges.iter_mut().zip([NEVER_EMPTY, MAY_BE_EMPTY]) {
                let sets = plan.predict_sets(&fresh.examples, &fit.conformal, &options).unwrap();
                let exact = Plan::exact(&machine)
                    .predict_sets(&fresh.examples, &fit.conformal, &options)
                    .unwrap();
                let same = |(a, b): (&SetDecision, &SetDecision)| a.set == b.set;
                assert!(sets.iter().zip(&exact).all(same), "{scheme:?} {seed}");
                *count += sets.iter().filter(|set| set.certainty == Certainty::Certified).count();
                if options == MAY_BE_EMPTY {
                    allowed += covered(&sets, &answers(&fresh)) / 25.0;
                }
            }
        }
        assert!((allowed - 0.9).abs() <= 5.0 * deviation(), "{scheme:?}: {allowed}");
        // More than nine of ten, of 25 times 2,000 rows.
        assert!(by_ranges.iter().all(|count| *count > 45_000), "{scheme:?}: {by_ranges:?}");
    }
}

#[test]
fn plans_give_the_sets_of_exact_scores_and_ranges_decide_most() {
    for (name, output) in machines::outputs() {
        if output == Output::Novelty {
            continue;
        }
        let machine = problem(&output, 3);
        let sample = generate::dense(400, 3, 4);
        let compiler = Compiler::new(&machine).sample(&sample);
        let sections =
            compiler.run(&"cascade(low_precision, exact)".parse().unwrap()).unwrap().sections;
        let plan = Plan::fitted(&machine, &sections).unwrap();
        let (queries, tolerance) = (generate::dense(500, 3, 5), 0.05);
        for coverage in [0.5, 0.9, 0.99] {
            let fit =
                conformalize(&machine, &sample, &targets(&machine, &sample, 6), coverage).unwrap();
            for empty in [EmptySets::Never, EmptySets::Allowed] {
                let options = SetOptions { tolerance: Some(tolerance), empty };
                let exact = SetOptions { tolerance: None, empty };
                let exact =
                    Plan::exact(&machine).predict_sets(&queries, &fit.conformal, &exact).unwrap();
                let found = plan.predict_sets(&queries, &fit.conformal, &options).unwrap();
                let mut by_ranges = 0;
                for (row, (found, exact)) in found.iter().zip(&exact).enumerate() {
                    by_ranges += usize::from(found.certainty == Certainty::Certified);
                    match (&found.set, &exact.set) {
                        (PredictionSet::Interval(wide), PredictionSet::Interval(own)) => {
                            assert!(wide.low <= own.low && own.high <= wide.high, "{name} {row}");
                            assert!(wide.high - wide.low <= own.high - own.low + 2.001 * tolerance);
                        }
                        (found, exact) => assert_eq!(found, exact, "{name}, {coverage}, row {row}"),
                    }
                }
                assert!(by_ranges > 250, "{name}, {coverage}: {by_ranges} of 500 by ranges");
            }
        }
    }
}

#[test]
fn bad_coverages_samples_and_targets_get_a_sentence() {
    let machine = problem(&Output::Value, 1);
    let sample = generate::dense(8, 3, 4);
    let known = vec![Some(Answer::Value(0.0)); 8];
    let refused = |targets: &[Option<Answer>], coverage: f64| {
        conformalize(&machine, &sample, targets, coverage).unwrap_err().to_string()
    };
    assert!(
        refused(&known, 0.9)
            .contains("8 rows are too few to promise a coverage of 0.9: 9 are needed")
    );
    assert!(refused(&known, 1.5).contains("the coverage is 1.5; it must be between 0 and 1"));
    assert!(conformalize(&machine, &sample, &known, 0.8).is_ok());
    let mut unknown = known.clone();
    unknown[4] = None;
    assert!(refused(&unknown, 0.5).contains("row 5"));
    assert_eq!(conformalize(&machine, &sample, &[], 0.5), Err(CompileError::NoTargets));
    let novelty = problem(&Output::Novelty, 1);
    let inliers = vec![Some(Answer::Inlier(true)); 8];
    assert!(
        conformalize(&novelty, &sample, &inliers, 0.5).unwrap_err().to_string().contains("novelty")
    );
}

#[test]
fn a_sample_is_cut_into_disjoint_parts_by_the_seed() {
    let (own, rest) = conformal_split(90, 0.9, 7).unwrap();
    assert_eq!((own.len(), rest.len()), (30, 60));
    let mut all: Vec<usize> = own.iter().chain(&rest).copied().collect();
    all.sort_unstable();
    assert_eq!(all, (0..90).collect::<Vec<_>>());
    assert_eq!(conformal_split(90, 0.9, 7).unwrap(), (own, rest));
    assert_eq!(conformal_split(110, 0.99, 7).unwrap().0.len(), 99);
    assert!(conformal_split(50, 0.99, 7).unwrap_err().to_string().contains("99 are needed"));
}

/// A stored quantile holds on a sample exactly where it is at least the quantile that the sample gives itself.
#[test]
fn stored_sets_hold_where_the_sample_itself_would_promise_them() {
    let mut held = 0;
    for seed in 0..60 {
        let machine = problem(&Output::Value, 1000 + seed);
        let rows = |seed: u64| {
            let rows = generate::dense(199, 3, seed);
            let targets = targets(&machine, &rows, seed);
            (rows, targets)
        };
        let ((one, own), (other, theirs)) = (rows(seed), rows(seed + 500));
        let stored = conformalize(&machine, &one, &own, 0.9).unwrap().conformal;
        let fresh = conformalize(&machine, &other, &theirs, 0.9).unwrap().conformal;
        let test = retest_conformal(&machine, &other, &theirs, &stored).unwrap();
        assert_eq!((test.rows, test.needed), (199, 180));
        assert_eq!(test.holds(), stored.quantile() >= fresh.quantile(), "{seed}: {test:?}");
        held += usize::from(test.holds());
        // What a stranger would like to be believed.
        let forged = Conformal::from_parts(0.9, 199, stored.quantile() / 3.0).unwrap();
        assert!(!retest_conformal(&machine, &other, &theirs, &forged).unwrap().holds(), "{seed}");
        let found = Plan::exact(&machine).predict_sets(&one, &forged, &NEVER_EMPTY);
        assert_eq!(found, Err(QueryError::UntestedSets));
        assert!(Plan::exact(&machine).predict_sets(&one, &forged.vouched(), &NEVER_EMPTY).is_ok());
    }
    // Five standard deviations of 60 coins.
    assert!((10..=50).contains(&held), "{held}");
}
