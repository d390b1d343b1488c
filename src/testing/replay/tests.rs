//! Pasts that a cluster of a test has made, played again.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::*;
use crate::api::{Job, Schedule};
use crate::domain::{HandlerError, Overlap, Retry};
use crate::node::context::Context;
use crate::testing::TestCluster;

const REPORT: Job<()> = Job::new("report");
const MAIL: Job<u64> = Job::new("mail").retry(Retry::fixed(Duration::from_secs(30)).at_most(3));
const HOUR: Duration = Duration::from_secs(3_600);

/// Twelve hours: a report of four minutes each half hour, and 20 mails, of which every fifth fails once.
fn past() -> (TestCluster, Range<DateTime<Utc>>) {
    let mut cluster = TestCluster::new("shop");
    let (time, mails) = (cluster.time(), cluster.time());
    let report = move |_: &Context, ()| {
        time.sleep(Duration::from_secs(240));
        Ok(())
    };
    let mail = move |context: &Context, number: u64| -> Result<(), HandlerError> {
        mails.sleep(Duration::from_secs(2));
        if number.is_multiple_of(5) && context.attempt() == 1 { Err("no such host".into()) } else { Ok(()) }
    };
    cluster.node(|node| node.handler(REPORT, report).handler(MAIL, mail).threads(2, 2)).unwrap();
    let begin = cluster.now();
    let often = Trigger::cron("0 0/30 * * * ?", "UTC").unwrap();
    let often = Schedule::new("often", REPORT, &(), often).unwrap().overlap(Overlap::Skip);
    cluster.client().ensure(&often).run().unwrap();
    for number in 0..20 {
        cluster.client().enqueue(MAIL, &number).run().unwrap();
        cluster.advance(HOUR / 2);
    }
    cluster.advance(2 * HOUR);
    let end = cluster.now();
    (cluster, begin..end)
}

fn of<'a>(replayed: &'a Replayed, name: &str) -> &'a ReplayedSchedule {
    replayed.schedules.iter().find(|it| it.name == name).unwrap()
}

#[test]
fn a_past_that_nothing_changes_comes_to_the_same() {
    let (cluster, span) = past();
    let replayed = Replay::of(&cluster.client(), span).unwrap().run().unwrap();
    let often = of(&replayed, "often");
    assert_eq!((often.recorded.ran, often.recorded.late), (24, 0), "{replayed:#?}");
    let mails = of(&replayed, "queue:mail");
    assert_eq!((mails.recorded.ran, mails.recorded.failed), (20, 4));
    for it in [often, mails] {
        assert_eq!((&it.unchanged.skipped, &it.changed), (&it.recorded.skipped, &it.unchanged));
        assert_eq!((it.unchanged.ran, it.unchanged.failed), (it.recorded.ran, it.recorded.failed));
    }
    assert_eq!(replayed.differing().count(), 0);
}

#[test]
fn another_trigger_collides_with_itself() {
    let (cluster, span) = past();
    let often = Trigger::cron("0 0/3 * * * ?", "UTC").unwrap();
    let replayed = Replay::of(&cluster.client(), span).unwrap().trigger("often", often).run().unwrap();
    let often = of(&replayed, "often");
    assert_eq!(often.changed.skipped.get("overlap"), Some(&120), "{replayed:#?}");
    assert_eq!(replayed.differing().map(|it| &it.name).collect::<Vec<_>>(), ["often"]);
}

#[test]
fn an_outage_makes_late_what_it_does_not_skip() {
    let (cluster, span) = past();
    let away = span.start + TimeDelta::minutes(115)..span.start + TimeDelta::minutes(130);
    let replayed = Replay::of(&cluster.client(), span).unwrap().outage(away).run().unwrap();
    let (often, mails) = (of(&replayed, "often"), of(&replayed, "queue:mail"));
    assert_eq!((often.unchanged.late, often.changed.late), (0, 1), "{replayed:#?}");
    assert_eq!(often.changed.ran, 24);
    assert_eq!((mails.unchanged.late, mails.changed.late), (0, 1), "{replayed:#?}");
}

#[test]
fn a_shorter_limit_ends_what_took_longer() {
    let (cluster, span) = past();
    let replay = Replay::of(&cluster.client(), span).unwrap();
    let replayed = replay.time_limit("report", Duration::from_secs(60)).run().unwrap();
    let often = of(&replayed, "often");
    assert_eq!((often.changed.ran, often.changed.failed), (0, 24), "{replayed:#?}");
}

#[test]
fn what_is_not_there_is_refused() {
    let (cluster, span) = past();
    let replay = || Replay::of(&cluster.client(), span.clone()).unwrap();
    let refused = |replay: Replay| replay.run().unwrap_err().to_string();
    let nightly = Trigger::cron("0 0 2 * * ?", "UTC").unwrap();
    assert!(refused(replay().trigger("nightly", nightly)).contains("there is no schedule \"nightly\""));
    assert!(refused(replay().time_limit("none", HOUR)).contains("there is no job \"none\""));
    assert!(refused(replay().nodes(0)).contains("0 nodes: 1 to 100 are possible"));
    let empty = Replay::of(&cluster.client(), span.end..span.start).unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::Config);
}
