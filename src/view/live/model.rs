//! What is known of the runs that are watched.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

use super::super::run_view::state;
use super::steer::NextRungPreview;
use crate::core::engine::History;
use crate::drive::{Notice, RunFolder, Supervisor};
use oomctl_diagnose::{Class, Progress};

/// Looks at the progress of an attempt from which its speed is told: of the last ones, for it changes.
const LOOKS_MAX: usize = 32;

/// How far the present attempt has come, and how fast.
#[derive(Debug, Clone, Default)]
pub struct AttemptProgress {
    /// The last word of the log.
    pub progress: Option<Progress>,
    looks: VecDeque<(Timestamp, u64)>,
}

impl AttemptProgress {
    fn take(&mut self, progress: &Progress, now: Timestamp) {
        let done = progress.done();
        // When the first one was done, nobody saw.
        let is_first = self.progress.is_none();
        self.progress = Some(progress.clone());
        if is_first {
            return;
        }
        if self.looks.back().is_some_and(|(_, before)| *before > done) {
            self.looks.clear();
        }
        self.looks.push_back((now, done));
        if self.looks.len() > LOOKS_MAX {
            self.looks.pop_front();
        }
    }

    /// Steps in a second; `None` until two were seen to be done, in different seconds.
    pub fn steps_per_s(&self) -> Option<f64> {
        let ((from, first), (to, last)) = (self.looks.front()?, self.looks.back()?);
        let seconds = to.duration_since(*from).as_secs_f64();
        let steps = last.saturating_sub(*first) as f64;
        (seconds >= 1.0 && steps > 0.0).then(|| steps / seconds)
    }

    /// Seconds that are left at this speed.
    pub fn left_s(&self) -> Option<i64> {
        let progress = self.progress.as_ref()?;
        let left = progress.total?.checked_sub(progress.step)?;
        let seconds = left as f64 / self.steps_per_s()?;
        let seconds = seconds.clamp(0.0, 1e9) as i64;
        Some(seconds)
    }
}

/// One run.
#[derive(Debug, Clone)]
pub struct RunCard {
    /// What its facts add up to.
    pub history: History,
    /// Where its files lie.
    pub folder: RunFolder,
    /// The word for where it stands.
    pub state: String,
    /// How far the present attempt has come.
    pub course: AttemptProgress,
    /// The scheduler's reason, as it said at last: a change of it alone is no fact for a while.
    pub reason: Option<String>,
    /// The log of the present job shows a fatal failure, and the job still runs.
    pub fatal: Option<Class>,
    /// Why this process no longer works on it.
    pub error: Option<String>,
}

impl RunCard {
    /// A run with this history.
    pub fn new(history: History, folder: RunFolder) -> Self {
        Self {
            state: state(&history),
            history,
            folder,
            course: AttemptProgress::default(),
            reason: None,
            fatal: None,
            error: None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.history.run
    }

    /// Is it shown where only what contains these words is?
    pub fn matches(&self, words: &str) -> bool {
        let mut words = words.split_whitespace();
        words.all(|word| self.name().contains(word) || self.state.contains(word))
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Board {
    cards: Vec<RunCard>,
    places: BTreeMap<String, usize>,
    /// What does not work at the moment, with all runs.
    pub trouble: Option<String>,
    /// Something to be told to the person at the keys.
    pub told: Option<String>,
    /// What the next rung of a run would be, as was asked.
    pub outlook: Option<NextRungPreview>,
    /// Grows with every change.
    pub changes: u64,
}

impl Board {
    /// The runs as they are taken up.
    pub fn of(supervisor: &Supervisor) -> Self {
        let card = |h: &crate::drive::Handle| RunCard::new(h.history().clone(), h.folder().clone());
        Self::with(supervisor.runs().map(card).collect())
    }

    /// These runs.
    pub fn with(cards: Vec<RunCard>) -> Self {
        let places = cards.iter().enumerate();
        Self {
            places: places.map(|(i, c)| (c.name().to_owned(), i)).collect(),
            cards,
            ..Self::default()
        }
    }

    /// The runs, by name.
    pub fn cards(&self) -> &[RunCard] {
        &self.cards
    }

    /// The run of this name.
    pub fn card(&self, name: &str) -> Option<&RunCard> {
        self.places.get(name).and_then(|at| self.cards.get(*at))
    }

    fn card_mut(&mut self, name: &str) -> Option<&mut RunCard> {
        self.places.get(name).and_then(|at| self.cards.get_mut(*at))
    }

    /// Takes in what the drive tells.
    pub fn take(&mut self, notice: &Notice<'_>, now: Timestamp) {
        self.changes += 1;
        match notice {
            Notice::Fact { run, record } => {
                if let Some(card) = self.card_mut(run) {
                    let attempts = card.history.attempts.len();
                    card.history.apply(record);
                    card.state = state(&card.history);
                    if card.history.attempts.len() > attempts {
                        (card.course, card.reason, card.fatal) = Default::default();
                    }
                }
            }
            Notice::Status { run, status, .. } => {
                if let Some(card) = self.card_mut(run) {
                    card.reason.clone_from(&status.reason);
                }
            }
            Notice::Resumed { run, look } => {
                if let Some(card) = self.card_mut(run) {
                    card.fatal = look.fatal;
                    card.course.progress.clone_from(&look.progress);
                }
            }
            Notice::Progress { run, progress } => {
                if let Some(card) = self.card_mut(run) {
                    card.course.take(progress, now);
                }
            }
            Notice::Fatal { run, class } => {
                if let Some(card) = self.card_mut(run) {
                    card.fatal = Some(*class);
                }
            }
            Notice::SetAside { run, why } => {
                if let Some(card) = self.card_mut(run) {
                    card.error = Some(why.to_string());
                    card.state = "set aside".to_owned();
                }
            }
            Notice::Trouble { run: None, what } => self.trouble = Some((*what).to_owned()),
            Notice::Trouble {
                run: Some(run),
                what,
            } => self.told = Some(format!("{run}: {what}")),
            Notice::Outlook { run, attempt, next } => {
                self.outlook = Some(NextRungPreview::new(run, *attempt, *next));
            }
            Notice::Recovered => self.trouble = None,
            Notice::Dependent { .. } | Notice::Checkpoint { .. } | Notice::Explained { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn step(step: u64, total: Option<u64>) -> Progress {
        Progress::new(step, total)
    }

    #[test]
    fn the_speed_is_that_of_the_last_steps_and_says_how_long_it_takes() {
        let mut course = AttemptProgress::default();
        // What an earlier watch has seen, and a step soon after.
        course.take(&step(9, Some(100)), at(-1));
        course.take(&step(10, Some(100)), at(0));
        assert_eq!(course.steps_per_s(), None);
        course.take(&step(20, Some(100)), at(20));
        assert_eq!(course.steps_per_s(), Some(0.5));
        assert_eq!(course.left_s(), Some(160));
        // A bar that begins anew says nothing of the speed until it went on.
        course.take(&step(1, Some(100)), at(30));
        assert_eq!(course.left_s(), None);
    }

    #[test]
    fn a_day_of_steps_is_few_looks() {
        let mut course = AttemptProgress::default();
        for second in 0..86_400_i64 {
            course.take(&step(second.unsigned_abs(), None), at(second));
        }
        assert!(course.looks.len() <= LOOKS_MAX);
        assert_eq!(course.steps_per_s(), Some(1.0));
        assert_eq!(course.left_s(), None);
    }
}
