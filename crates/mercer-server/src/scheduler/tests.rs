//! Tests of the scheduler on a machine of two supports.

use mercer_query::Certainty;

use super::*;

const INLINE: Duration = Duration::from_micros(100);

fn served() -> Arc<ServedModel> {
    Arc::new(crate::served::tests::two_supports())
}

#[tokio::test]
async fn what_is_taken_on_is_bounded_before_a_request_is_read() {
    let (served, limit) = (served(), Duration::from_micros(1));
    let scheduler = Scheduler::start(1, limit, INLINE, Overload::Shed).unwrap();
    let much = Expected { nanoseconds: 1001, multiply_adds: 1 };
    scheduler.check_room(much).unwrap();
    let admitted = scheduler.admit(much).unwrap();
    let refused = scheduler.check_room(Expected::default()).unwrap_err();
    assert!(refused.message.contains("the queue is full"), "{refused}");
    assert!(scheduler.admit(much).is_err());
    assert!(scheduler.is_busy()());
    let other = scheduler.answer(work(&served), None).await.unwrap_err();
    assert!(matches!(other.kind, Kind::Overloaded { reason: Shed::Queue, .. }), "{other}");
    // What was taken on is answered, however long it is, and then there is room again.
    assert!(scheduler.answer(work(&served), Some(admitted)).await.is_ok());
    assert!(!scheduler.is_busy()());
    scheduler.stop();
    scheduler.check_room(much).unwrap();
    assert!(!scheduler.is_busy()());
    assert!(served.pace.mean_ns().unwrap() > 0.0, "the batches were timed");
}

#[tokio::test]
async fn a_request_that_began_before_a_long_one_is_not_refused_for_it() {
    let served = served();
    let scheduler =
        Scheduler::start(1, Duration::from_millis(100), INLINE, Overload::Shed).unwrap();
    let small = scheduler.admit(Expected { nanoseconds: 1_000_000, multiply_adds: 1 }).unwrap();
    let long = Expected { nanoseconds: 9_000_000_000, multiply_adds: 1 };
    let long = scheduler.admit(long).unwrap();
    assert!(scheduler.admit(Expected { nanoseconds: 1, multiply_adds: 1 }).is_err());
    let rows = Matrix::dense(2, vec![0.5; 20]).unwrap();
    let work = Work { rows, ..work(&served) };
    assert_eq!(scheduler.answer(work, Some(small)).await.unwrap().decisions.len(), 10);
    drop(long);
    scheduler.stop();
}

/// So many rows that they wait for a worker.
fn work(served: &Arc<ServedModel>) -> Work {
    let values = (0..200_000).map(|at| f64::from(at % 17) / 8.0 - 1.0).collect();
    let rows = Matrix::dense(2, values).unwrap();
    let options = QueryOptions::default();
    Work { served: Arc::clone(served), rows, options, deadline: None }
}

/// Two requests that both come before anything is answered: the workers start once both have been taken on or refused.
async fn both(scheduler: &Scheduler, works: [Work; 2]) -> [Result<Answered, Failure>; 2] {
    let [first, second] = works.map(|work| scheduler.answer(work, None));
    let start = async { scheduler.start_workers().unwrap() };
    let (first, second, ()) = tokio::join!(biased; first, second, start);
    scheduler.stop();
    [first, second]
}

#[tokio::test]
async fn what_waits_is_bounded_and_what_runs_is_answered_in_order() {
    let served = served();
    let alone = served.plan.decide(&work(&served).rows).unwrap();
    let limit = Duration::from_nanos(1);
    let scheduler = Scheduler::without_workers(1, limit, INLINE, Overload::Shed);
    let [first, second] = both(&scheduler, [work(&served), work(&served)]).await;
    assert_eq!(first.unwrap().decisions, alone, "cut into batches and joined again");
    let refused = second.unwrap_err();
    assert!(matches!(refused.kind, Kind::Overloaded { .. }), "{refused}");
    assert!(refused.message.contains("the queue is full"), "{refused}");
}

#[tokio::test]
async fn overload_gives_smaller_budgets_before_it_refuses_unless_proof_is_required() {
    for (require, is_answered) in [(Require::Nothing, true), (Require::Certified, false)] {
        // Nothing has been timed yet. What waits is between the limit and twice the limit when the second comes.
        let served = served();
        let expected = (1e5 * served.queued_ns()) as u64;
        let limit = Duration::from_nanos((expected * 2 / 3).max(1000));
        let scheduler = Scheduler::without_workers(1, limit, INLINE, Overload::Degrade);
        let options = QueryOptions { require, ..QueryOptions::default() };
        let second = Work { options, ..work(&served) };
        let [first, second] = both(&scheduler, [work(&served), second]).await;
        assert_eq!(first.unwrap().budget, None);
        assert_eq!(scheduler.degraded(), u64::from(is_answered));
        match second {
            Ok(second) => assert!(is_answered && second.budget.is_some()),
            Err(refused) => assert!(!is_answered, "{refused}"),
        }
    }
}

#[tokio::test]
async fn the_time_of_a_request_is_shared_by_its_rows_and_one_limit_holds_for_all() {
    let served = served();
    let scheduler = Scheduler::start(1, Duration::from_secs(9), INLINE, Overload::Shed).unwrap();
    let time = Duration::from_nanos(served.expected_ns(50_000));
    let some = Work { deadline: Some(Instant::now() + time), ..work(&served) };
    let all = scheduler.answer(some, None).await.unwrap();
    let budget = all.budget.unwrap();
    // Half the time that 100,000 rows are expected to take is not enough for each to be exact.
    assert!(budget < served.plan.exact_stage().cost().multiply_adds, "{budget}");
    let options = QueryOptions { budget: Some(budget), ..QueryOptions::default() };
    let again = scheduler.answer(Work { options, ..work(&served) }, None).await.unwrap();
    assert_eq!(all.decisions, again.decisions);
    scheduler.stop();
}

#[tokio::test]
async fn a_deadline_that_is_over_leaves_rows_unsettled() {
    let served = served();
    let scheduler = Scheduler::start(1, Duration::from_secs(9), INLINE, Overload::Shed).unwrap();
    let late = Work { deadline: Some(Instant::now()), ..work(&served) };
    let answered = scheduler.answer(late, None).await.unwrap();
    assert_eq!(answered.budget, Some(0));
    let mut certainties = answered.decisions.iter().map(|decision| decision.certainty);
    assert!(certainties.all(|certainty| certainty == Certainty::Unsettled));
    scheduler.stop();
    let gone = scheduler.answer(work(&served), None).await.unwrap_err();
    assert_eq!(gone.kind, Kind::Unavailable);
}
