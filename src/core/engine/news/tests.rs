use std::path::Path;

use serde_json::json;

use super::*;
use crate::core::engine::{History, RetryCause};
use oomctl_base::job::JobState;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn record(seq: u64, fact: serde_json::Value) -> Record {
    let mut record = json!({ "v": 1, "seq": seq, "at": at(0), "epoch": 1 });
    for (key, value) in fact.as_object().unwrap() {
        record[key] = value.clone();
    }
    serde_json::from_value(record).unwrap()
}

fn finished(seq: u64, outcome: Outcome) -> Record {
    record(seq, json!({ "fact": "finished", "outcome": outcome }))
}

fn idle(seq: u64) -> Record {
    record(seq, json!({ "fact": "idle", "attempt": 1, "idle_s": 1800 }))
}

fn log(records: &[Record]) -> NewsLog {
    let mut log = NewsLog::default();
    records.iter().for_each(|record| log.take(record));
    log
}

fn kinds(log: &NewsLog, notices: &Notices) -> Vec<NewsKind> {
    log.due(notices).iter().map(|news| news.kind).collect()
}

#[test]
fn what_was_noticed_is_not_told_again_and_what_came_after_is() {
    let notices = Notices::default();
    let noticed = record(5, json!({ "fact": "noticed", "until": 3 }));
    let records = [idle(3), noticed, idle(7), finished(9, Outcome::Succeeded)];
    let kinds = kinds(&log(&records), &notices);
    assert_eq!(kinds, [NewsKind::Stalled, NewsKind::Succeeded]);
}

#[test]
fn an_end_that_was_asked_for_is_no_news_and_others_are() {
    let notices = Notices::default();
    let spent = Outcome::RetriesSpent {
        cause: RetryCause::TimeLimit,
        state: JobState::Timeout,
        retries: 0,
        setting: None,
    };
    for (outcome, expected) in [
        (Outcome::Cancelled { by: None }, &[][..]),
        (Outcome::Succeeded, &[NewsKind::Succeeded][..]),
        (spent, &[NewsKind::GaveUp][..]),
    ] {
        assert_eq!(kinds(&log(&[finished(2, outcome)]), &notices), expected);
    }
}

#[test]
fn only_what_is_asked_for_is_told_and_after_many_notices_only_the_end() {
    let only = Notices {
        on: vec![NewsKind::GaveUp],
        ..Notices::default()
    };
    assert!(log(&[idle(2)]).due(&only).is_empty());
    let few = Notices {
        at_most: 2,
        ..Notices::default()
    };
    let mut log = NewsLog::default();
    for seq in (2..20).step_by(2) {
        log.take(&idle(seq));
        if !log.due(&few).is_empty() {
            log.take(&record(seq + 1, json!({ "fact": "noticed", "until": seq })));
        }
    }
    assert_eq!(log.told, 2);
    log.take(&finished(30, Outcome::Succeeded));
    assert_eq!(kinds(&log, &few), [NewsKind::Succeeded]);
}

#[test]
fn a_day_of_failures_every_minute_is_some_thirty_notices_and_one_failure_is_told_at_once() {
    let mut pause = Pause::default();
    let mut told = Vec::new();
    for minute in 0..1_440 {
        let now = at(minute * 60);
        if pause.is_over(now) {
            pause.told(now, 60);
            told.push(minute);
        }
    }
    assert_eq!(told[..5], [0, 1, 3, 7, 15]);
    assert!((25..35).contains(&told.len()), "{}", told.len());
    // After a quiet while the next two are told a minute apart again.
    let later = at(1_440 * 60 + 7_200);
    pause.told(later, 60);
    assert!(
        pause.is_over(
            later
                .saturating_add(jiff::SignedDuration::from_secs(60))
                .unwrap()
        )
    );
}

#[test]
fn one_thing_is_told_by_itself_and_many_as_numbers_with_the_last_twenty() {
    let news = |seq: u64, kind| News {
        seq,
        at: at(seq.cast_signed()),
        kind,
        attempt: None,
        quiet_s: None,
    };
    let told = |run: &str, seq: u64, kind| {
        let history = History {
            run: run.to_owned(),
            ..History::default()
        };
        NotifiedEvent::new(&history, &news(seq, kind))
    };
    let one = notification(Path::new("/p"), vec![told("a", 1, NewsKind::Succeeded)]);
    assert_eq!(one.title, "a: succeeded after 0 attempts");
    let many = (0..1_000_u64).map(|n| {
        let kind = if n % 2 == 0 {
            NewsKind::GaveUp
        } else {
            NewsKind::Succeeded
        };
        told(&format!("s.{n}"), n, kind)
    });
    let many = notification(Path::new("/p"), many.collect());
    assert_eq!(many.title, "1000 runs: 500 gave up, 500 succeeded");
    assert_eq!((many.events.len(), many.more), (20, 980));
    assert_eq!(many.events[19].run, "s.999");
    assert_eq!(many.text.lines().count(), 21);
}

#[test]
fn no_secret_is_in_a_document_however_deep() {
    let mut document =
        json!({ "text": "token hunter22 here", "events": [{ "headline": "hunter22", "n": 1 }] });
    mask(&mut document, &["hunter22".to_owned(), "e".to_owned()]);
    assert_eq!(
        document,
        json!({ "text": "token *** here", "events": [{ "headline": "***", "n": 1 }] })
    );
}
