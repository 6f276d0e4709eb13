//! A line now and then while nothing happens: CI systems end jobs that are silent.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::figures::duration;
use super::row;
use super::run_view::{RunView, run_view, total};
use super::story::Story;
use crate::core::engine::History;
use crate::drive::{Notice, Observer};
use oomctl_diagnose::Progress;

/// When the next line is due.
struct Heartbeat {
    every_s: u64,
    /// When something was seen to have been said last, and how often until then.
    last: Option<(Timestamp, u64)>,
}

impl Heartbeat {
    /// Is it time for a line, which is said then? `said` is how often something was said so far.
    fn is_due(&mut self, said: u64, now: Timestamp) -> bool {
        let Some((last, before)) = self.last else {
            self.last = Some((now, said));
            return false;
        };
        if said != before {
            self.last = Some((now, said));
            return false;
        }
        let silent = now.duration_since(last).as_secs();
        let is_due = u64::try_from(silent).is_ok_and(|silent| silent >= self.every_s);
        if is_due {
            self.last = Some((now, said + 1));
        }
        is_due
    }
}

/// Tells the story, and that there is none while nothing happens.
pub struct Attended<'a> {
    story: &'a mut Story,
    heartbeat: Option<Heartbeat>,
    /// How far the runs that are under way have come.
    progress: BTreeMap<String, Progress>,
}

impl<'a> Attended<'a> {
    /// A story with no silence longer than so many seconds; any with `None`.
    pub fn new(story: &'a mut Story, every_s: Option<u64>) -> Self {
        let heartbeat = |every_s| Heartbeat {
            every_s,
            last: None,
        };
        Self {
            story,
            heartbeat: every_s.map(heartbeat),
            progress: BTreeMap::new(),
        }
    }
}

impl Observer for Attended<'_> {
    fn notice(&mut self, notice: &Notice<'_>) {
        if let (Notice::Progress { run, progress }, Some(_)) = (notice, &self.heartbeat) {
            self.progress.insert((*run).to_owned(), (*progress).clone());
        }
        self.story.notice(notice);
    }

    fn turn(&mut self, now: Timestamp, runs: &mut dyn Iterator<Item = &History>) {
        let is_due = |h: &mut Heartbeat| h.is_due(crate::view::print::said(), now);
        if self.heartbeat.as_mut().is_some_and(is_due) {
            let views: Vec<RunView> = runs.map(|history| run_view(history, now)).collect();
            crate::view::print::talk(&line(&views, &self.progress, now));
        }
    }
}

/// How the runs stand, in one line.
fn line(views: &[RunView], progress: &BTreeMap<String, Progress>, now: Timestamp) -> String {
    let [view] = views else {
        return format!(
            "           {}",
            row::summary(views.iter().map(|v| v.state.as_str())).trim()
        );
    };
    let mut text = format!("           {}", view.state);
    if let Some(attempt) = view.attempts.last() {
        let since = now.duration_since(attempt.intended).as_secs().max(0);
        let since = duration(since);
        text = format!(
            "attempt {}  {}, {since} so far",
            attempt.attempt, view.state
        );
    }
    if let Some(p) = progress.get(&view.run) {
        text.push_str(&format!(", step {}{}", p.step, total(p)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn no_silence_is_longer_than_asked_and_every_line_begins_a_new_one() {
        let mut heartbeat = Heartbeat {
            every_s: 300,
            last: None,
        };
        let mut said = 7;
        let mut lines = Vec::new();
        // Two seconds a turn; the story says something at 400 s, the heartbeat what it is due.
        for second in (0..1_500).step_by(2) {
            if second == 400 {
                said += 1;
            }
            if heartbeat.is_due(said, at(second)) {
                lines.push(second);
                said += 1;
            }
        }
        assert_eq!(lines, [300, 700, 1_000, 1_300]);
    }

    #[test]
    fn many_runs_are_counted_and_one_is_told() {
        let history = crate::core::engine::History::default();
        let view = || run_view(&history, at(0));
        let none = BTreeMap::new();
        assert_eq!(line(&[view()], &none, at(9)).trim(), "waiting");
        assert_eq!(
            line(&[view(), view()], &none, at(9)).trim(),
            "2 runs: 2 waiting"
        );
    }
}
