//! Tests of audits: which rows are drawn, and how often bounds hold.

use super::*;

#[test]
fn the_random_number_of_a_query_stays_the_same() {
    let drawn = [0, 1, 12345].map(|number| uniform(7, number));
    assert_eq!(drawn, [0.3898297483912715, 0.9237001069304558, 0.4299290985364814]);
}

/// Runs an audit over made-up labels; the share of disagreements may change on the way.
fn simulate(audit: &mut Audit, queries: u64, seed: u64, other: impl Fn(u64) -> f64) {
    for number in 0..queries {
        audit.seen += 1;
        let parts = parts(if audit.share < 0.05 && number % 7 == 0 { 2.0 } else { 1.0 });
        if uniform(audit.seed, number) < audit.probability(parts) {
            let is_other = uniform(seed.wrapping_mul(77), number) < other(number);
            audit.note(parts, is_other);
        }
    }
}

#[test]
fn rows_are_drawn_by_number_however_they_come_and_are_counted_when_they_are_settled() {
    let rows = Matrix::dense(1, vec![0.5; 1000]).unwrap();
    let new = || Audit::of_promise(0.1, 1e-3, 0.05, 3).unwrap();
    let (mut whole, mut cut) = (new(), new());
    let all = whole.draw(&rows);
    let mut found = Vec::new();
    for first in (0..1000).step_by(100) {
        let part = cut.draw(&rows.select(first..first + 100));
        found.extend(part.positions().map(|at| at + first));
        assert_eq!(cut.report().seen, first as u64);
        cut.settle(&part, &vec![false; part.positions().count()]);
    }
    assert_eq!(found, all.positions().collect::<Vec<_>>());
    assert_eq!((whole.report().seen, whole.report().high), (0, 1.0), "nothing is known yet");
    whole.settle(&all, &vec![false; found.len()]);
    assert_eq!(whole.report(), cut.report());
    let mut none = all.clone();
    none.keep(|_| false);
    none.extend_undrawn(7);
    whole.settle(&none, &[]);
    assert_eq!((whole.report().seen, whole.report().audited), (2007, found.len() as u64));
}

#[test]
fn bounds_hold_at_all_times_together_as_often_as_they_say() {
    let (rounds, delta) = (300u64, 0.1);
    let (mut alarms, mut missed_low, mut missed_high) = (0, 0, 0);
    for round in 0..rounds {
        // As bad as is allowed: an alarm is a mistake.
        let mut audit = Audit::of_promise(0.2, 0.02, delta, 1000 + round).unwrap();
        let (mut is_low, mut is_high) = (false, false);
        for part in 0..20u64 {
            let first = 500 * part;
            let seen = audit.seen;
            assert_eq!(seen, first);
            for number in first..first + 500 {
                audit.seen += 1;
                if uniform(audit.seed, number) < 0.2 {
                    audit.note(PARTS, uniform(round * 31 + 7, number) < 0.02);
                }
            }
            let AuditReport { low, high, .. } = audit.report();
            (is_low, is_high) = (is_low || low > 0.02, is_high || high < 0.02);
        }
        alarms += u32::from(audit.alarm.is_some());
        missed_low += u32::from(is_low);
        missed_high += u32::from(is_high);
    }
    let rounds = rounds as f64;
    let allowed = delta + 3.0 * (delta * (1.0 - delta) / rounds).sqrt();
    for (what, count) in [("alarm", alarms), ("low", missed_low), ("high", missed_high)] {
        assert!(f64::from(count) / rounds <= allowed, "{what}: {count}");
    }
}

#[test]
fn drift_rings_the_alarm_and_the_upper_bound_falls_without_it() {
    for share in [0.01, 0.2] {
        let mut quiet = Audit::of_promise(share, 1e-3, 0.05, 5).unwrap();
        simulate(&mut quiet, 60_000, 9, |_| 2e-4);
        assert_eq!(quiet.report().alarm, None);
        assert!(quiet.report().high < 0.02, "{:?}", quiet.report());
        let mut drifting = Audit::of_promise(share, 1e-3, 0.05, 5).unwrap();
        simulate(&mut drifting, 60_000, 9, |at| if at < 30_000 { 2e-4 } else { 0.05 });
        let report = drifting.report();
        assert!(report.alarm.is_some_and(|at| at > 30_000), "{report:?}");
        assert!(report.low > 1e-3 && report.low < report.high, "{report:?}");
    }
}

#[test]
fn every_query_audited_bounds_as_tightly_as_counting_can() {
    let mut audit = Audit::of_promise(1.0, 1e-3, 0.05, 1).unwrap();
    for _ in 0..10_000 {
        audit.seen += 1;
        audit.note(PARTS, false);
    }
    // Clopper-Pearson, which holds at one time only, gives 3.0e-4.
    let AuditReport { high, low, .. } = audit.report();
    assert!(high < 7e-4 && low == 0.0, "{high}");
    assert_eq!(Audit::of_promise(0.0, 1e-3, 0.05, 1).unwrap_err(), AuditError::Share(0.0));
}

#[test]
fn the_probability_is_proportional_to_the_distance() {
    let values = (0..400).map(|n| f64::from(n % 20) - 9.5).collect();
    let rows = Matrix::dense(2, values).unwrap();
    let known = Distances::new(&rows).unwrap();
    let audit = Audit::of_promise(0.01, 1e-3, 0.05, 1).unwrap();
    let audit = audit.reference(&rows).unwrap();
    let at = |x: f64| {
        let far = Matrix::dense(2, vec![x, x]).unwrap();
        audit.probability(parts(known.relative(far.row(0))))
    };
    // Twice as far, twice as likely; the mean distance gives the share, the middle half of it.
    assert!((at(40.0) / at(20.0) - 2.0).abs() < 0.02, "{} {}", at(40.0), at(20.0));
    let mean: f64 = rows.iter().map(|row| known.relative(row)).sum::<f64>() / rows.rows() as f64;
    assert!((mean - 1.0).abs() < 1e-12, "{mean}");
    assert_eq!((at(0.0), at(1e300), audit.least_probability()), (0.005, 1.0, 0.005));
    assert!(Distances::new(&Matrix::dense(2, vec![]).unwrap()).is_none());
    let alike = Distances::new(&Matrix::dense(1, vec![3.0; 4]).unwrap()).unwrap();
    assert_eq!(alike.relative(rows.row(0)), 1.0);
}

/// Bounds hold although every query has a probability of its own.
#[test]
fn the_upper_bound_allows_for_the_least_probability() {
    let values = (0..400).map(|n| f64::from(n % 20) - 9.5).collect();
    let rows = Matrix::dense(2, values).unwrap();
    let (rounds, delta) = (200u64, 0.1);
    let mut missed = 0;
    for round in 0..rounds {
        let audit = Audit::of_promise(0.2, 0.02, delta, 500 + round).unwrap();
        let mut audit = audit.reference(&rows).unwrap();
        for number in 0..4000 {
            audit.seen += 1;
            let far = 2.5 * uniform(round + 9000, number);
            // What is far disagrees more often: 0.02 on average.
            let is_other = uniform(round * 31 + 7, number) < 0.016 * far;
            if uniform(audit.seed, number) < audit.probability(parts(far)) {
                audit.note(parts(far), is_other);
            }
        }
        let AuditReport { low, high, .. } = audit.report();
        missed += u32::from(low > 0.02 || high < 0.02);
    }
    let allowed = 2.0 * delta + 3.0 * (2.0 * delta / rounds as f64).sqrt();
    assert!(f64::from(missed) / rounds as f64 <= allowed, "{missed}");
}
