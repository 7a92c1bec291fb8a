//! An attack on certificates: machines of every kernel at every scale, and the ranges and labels of every certifying
//! stage against true scores; attributions against Shapley values, prediction sets against exact scores. A million ranges here;
//! `cargo xtask bench soak` runs as many as wanted.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mercer_compile::{FITTERS, compile};
use mercer_kernel::KERNELS;
use mercer_query::{Plan, PlanTrust};
use mercer_spec::Spec;
use mercer_testkit::attack::{
    ATTRIBUTIONS, AttackCase, AttackCounts, REFERENCE_BITS, SETS, Scale, TrueScore, Violation,
};
use rayon::prelude::*;

/// Of the test; the soak draws its own.
const SEED: u64 = 38;
/// Rounds of queries for each machine of the soak: queries cost less than machines and their plans.
const SOAK_ROUNDS: usize = 32;
/// Machines between two looks at what was found.
const AT_ONCE: u64 = 143;
/// Violations after which an attack ends.
const ENOUGH: usize = 1000;

/// What a run found.
#[derive(Default)]
struct Findings {
    counts: AttackCounts,
    violations: Vec<Violation>,
}

impl Findings {
    fn plus(mut self, other: Self) -> Self {
        self.counts = self.counts.plus(&other.counts);
        self.violations.extend(other.violations);
        self
    }
}

/// How much is asked of each machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// One round of queries, and one plan of each stage: many machines.
    Test,
    /// Many rounds, and all plans of each stage: many ranges for each true score.
    Soak,
}

impl Effort {
    fn case(self, seed: u64, number: u64) -> AttackCase {
        AttackCase::new(seed, number, if self == Self::Test { 1 } else { SOAK_ROUNDS })
    }

    /// Rows that are attributed.
    fn attributed(self) -> usize {
        if self == Self::Test { 4 } else { 8 }
    }

    fn plans(self, case: &AttackCase, stage: &str) -> Vec<Spec> {
        if self == Self::Test { vec![case.plan(stage)] } else { case.plans(stage) }
    }
}

/// Every certifying stage of the registry.
fn certifying() -> impl Iterator<Item = &'static str> {
    let certify = FITTERS.iter().filter(|fitter| !fitter.estimates && !fitter.stops);
    certify.map(|fitter| fitter.stage.name)
}

/// One machine under every stage that takes it; a panic is a violation as well.
fn attack_one(seed: u64, number: u64, effort: Effort) -> Findings {
    let mut findings = Findings::default();
    let mut stage = "generator";
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let case = effort.case(seed, number);
        let truth: Vec<Vec<TrueScore>> =
            (0..case.queries.rows()).map(|query| case.true_scores(query)).collect();
        let precise = truth.iter().flatten().filter(|score| score.is_precise()).count();
        findings.counts.references += precise as u64;
        stage = "exact";
        let plan = Plan::exact(&case.machine);
        findings.violations.extend(case.check("exact", &plan, &truth, &mut findings.counts));
        stage = ATTRIBUTIONS;
        let rows = effort.attributed();
        findings.violations.extend(case.check_attributions(rows, &mut findings.counts));
        for name in certifying() {
            stage = name;
            for text in effort.plans(&case, name) {
                // A stage may refuse a machine; what it takes it must answer truly.
                let Ok(sections) = compile(&case.machine, &text, None) else { continue };
                let plan = Plan::load(&case.machine, &sections, PlanTrust::Everything)
                    .expect("a plan that was just made");
                let counts = &mut findings.counts;
                findings.violations.extend(case.check(name, &plan, &truth, counts));
                findings.violations.extend(case.check_sets(name, &plan, &truth, counts));
            }
        }
    }));
    if ended.is_err() {
        let kernel = KERNELS.entries[(number % KERNELS.entries.len() as u64) as usize].name;
        findings.violations.push(Violation {
            stage,
            scale: Scale::ALL[(number / KERNELS.entries.len() as u64) as usize % Scale::ALL.len()],
            kernel: kernel.to_owned(),
            what: "a panic".to_owned(),
            replay: format!("cargo xtask bench soak --seed {seed} --machine {number}"),
        });
    }
    findings
}

/// An attack: machines from number 0 on until so many ranges were looked at, until enough violations were found, or
/// until `stop`.
struct Attack {
    seed: u64,
    effort: Effort,
    pairs: f64,
    /// Violations after which it ends.
    enough: usize,
    stop: Arc<AtomicBool>,
}

impl Attack {
    /// `step` sees what was found, and how many machines were attacked.
    fn run(&self, mut step: impl FnMut(&Findings, u64)) -> Findings {
        let (mut findings, mut number) = (Findings::default(), 0);
        let is_stopped = || self.stop.load(Ordering::Relaxed);
        while (findings.counts.total().pairs as f64) < self.pairs
            && findings.violations.len() < self.enough
            && !is_stopped()
        {
            let some = (number..number + AT_ONCE).into_par_iter().filter(|_| !is_stopped());
            let parts: Vec<Findings> =
                some.map(|number| attack_one(self.seed, number, self.effort)).collect();
            findings = parts.into_iter().fold(findings, Findings::plus);
            number += AT_ONCE;
            step(&findings, number);
        }
        findings
    }
}

/// Ranges by stage and scale, and the violations by stage, kernel and scale with one example each.
fn print(findings: &Findings) {
    let counts = &findings.counts;
    print!("{:>14}", "ranges");
    Scale::ALL.iter().for_each(|scale| print!("{:>14}", scale.name()));
    println!("{:>14}{:>12}", "all", "certified");
    for stage in certifying().chain(["exact", ATTRIBUTIONS, SETS]) {
        print!("{stage:>14}");
        let own = |scale: Scale| counts.by_stage.get(&(stage, scale)).copied().unwrap_or_default();
        Scale::ALL.iter().for_each(|scale| print!("{:>14}", own(*scale).pairs));
        let all: u64 = Scale::ALL.iter().map(|scale| own(*scale).pairs).sum();
        let certified: u64 = Scale::ALL.iter().map(|scale| own(*scale).certified).sum();
        println!("{all:>14}{certified:>12}");
    }
    let total = counts.total();
    println!(
        "{} ranges, {} certified labels and proved signs, {} of the ranges against {} references of {REFERENCE_BITS} bits; {} \
         targets of prediction sets, {} sets decided by ranges; {} queries overflow; {} violations",
        total.pairs,
        total.certified,
        total.precise,
        counts.references,
        counts.sets().pairs,
        counts.sets().certified,
        counts.refused,
        findings.violations.len()
    );
    let mut classes: BTreeMap<(&str, &str, Scale), (u64, &Violation)> = BTreeMap::new();
    for violation in &findings.violations {
        let family = violation.kernel.split('(').next().unwrap_or_default();
        let key = (violation.stage, family, violation.scale);
        classes.entry(key).or_insert((0, violation)).0 += 1;
    }
    for ((stage, kernel, scale), (count, example)) in classes {
        println!("{count} times {stage}, {kernel}, {}; for instance {example}", scale.name());
    }
}

#[test]
fn a_million_ranges_hold_at_every_scale_for_every_kernel_and_certifying_stage() {
    let (effort, stop) = (Effort::Test, Arc::default());
    let attack = Attack { seed: SEED, effort, pairs: 1e6, enough: 1, stop };
    let findings = attack.run(|_, _| ());
    print(&findings);
    assert!(findings.violations.is_empty(), "{} violations", findings.violations.len());
    for stage in certifying().chain(["exact", ATTRIBUTIONS, SETS]) {
        let own = findings.counts.by_stage.iter().filter(|((name, _), _)| *name == stage);
        let certified: u64 = own.clone().map(|(_, count)| count.certified).sum();
        let scales = own.filter(|(_, count)| count.pairs > 0).count();
        // Bounds that are infinite certify nothing, and tables take histograms only.
        assert!(scales >= 3, "{stage} was asked at {scales} scales");
        assert!(certified > 0 || stage == "exact", "{stage} certifies nothing");
    }
    let total = findings.counts.total();
    assert!(total.precise > 50_000 && findings.counts.references > 20_000, "{total:?}");
}

/// A setting of the soak.
fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is '{text}'")))
}

/// `cargo xtask bench soak --pairs 1e9`: the same with a seed of its own, until Ctrl-C at most. With
/// `--seed S --machine N` only that machine.
#[test]
#[ignore = "runs for MERCER_SOAK ranges, a hundred million by default"]
fn soak() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs());
    let seed: u64 = setting("MERCER_SOAK_SEED").unwrap_or_else(now);
    if let Some(number) = setting::<u64>("MERCER_SOAK_MACHINE") {
        return replay(seed, number);
    }
    let pairs: f64 = setting("MERCER_SOAK").unwrap_or(1e8);
    println!(
        "soak: seed {seed}, {pairs:e} ranges, {SOAK_ROUNDS} rounds of queries for each machine"
    );
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop)).unwrap();
    let (start, mut share_printed, mut seen) = (Instant::now(), 0.0, 0);
    let attack =
        Attack { seed, effort: Effort::Soak, pairs, enough: ENOUGH, stop: Arc::clone(&stop) };
    let findings = attack.run(|findings, machines| {
        findings.violations.iter().skip(seen).for_each(|violation| println!("{violation}"));
        seen = findings.violations.len();
        let count = findings.counts.total().pairs;
        let share = count as f64 / pairs;
        if share >= share_printed + 0.01 {
            share_printed = share;
            let seconds = start.elapsed().as_secs_f64();
            println!(
                "soak: {count} ranges of {machines} machines, {:.0} %, {seconds:.0} s, {seen} violations",
                100.0 * share.min(1.0)
            );
        }
    });
    if stop.load(Ordering::Relaxed) {
        println!("soak: interrupted");
    }
    println!("soak: seed {seed}, {:.0} s", start.elapsed().as_secs_f64());
    print(&findings);
    assert!(findings.violations.is_empty(), "{} violations", findings.violations.len());
}

/// One machine, with all that is wrong with it.
fn replay(seed: u64, number: u64) {
    let case = Effort::Soak.case(seed, number);
    println!(
        "machine {number} of seed {seed}, {}: {}",
        case.scale.name(),
        case.machine.kernel().spec()
    );
    println!("{:?}", case.machine.scores());
    for row in case.machine.supports().iter() {
        println!("support {row:?}");
    }
    let findings = attack_one(seed, number, Effort::Soak);
    for violation in &findings.violations {
        println!("{violation}");
        let query = violation.what.split([' ', ',', ':']).nth(1).and_then(|at| at.parse().ok());
        if let Some(query) = query.filter(|query: &usize| *query < case.queries.rows()) {
            println!("    {:?}", case.queries.row(query));
        }
    }
    print(&findings);
    assert!(findings.violations.is_empty(), "{} violations", findings.violations.len());
}
