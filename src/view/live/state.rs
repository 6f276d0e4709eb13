//! What a person chose: which run, which attempt, which log, and where in it. Keys change it, and may give a wish that
//! somebody else must fulfil.

use super::keys::KeyPress;
use super::model::{Board, RunCard};
use super::steer::{Confirmation, NextRungChoice, NextRungPreview};
use super::text::{LogPosition, LogText};
use crate::core::engine::Attempt;

/// Characters that can be typed.
const TYPED_MAX: usize = 200;

/// Which part of the screen the arrows move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Focus {
    /// The list of runs.
    #[default]
    Runs,
    /// The log.
    Log,
}

/// What the keys mean now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Mode {
    /// Each key is a command.
    #[default]
    Commands,
    /// They are typed: which runs are shown.
    Filter(String),
    /// They are typed: what is searched for in the log.
    Search(String),
    /// The help is shown.
    Help,
    /// A question is answered.
    Asked(Confirmation),
}

/// What only others can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScreenRequest {
    /// Go away; the runs go on.
    Detach,
    /// Do what the question was about.
    Do(Confirmation),
    /// Say what the next rung of a run would be.
    LookAhead(String),
    /// Make the report of a run and open it.
    Report(String),
    /// Look for what is searched for, from where the log stands.
    Find {
        /// Towards the beginning.
        back: bool,
    },
}

/// What is read from files for the attempt that is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttemptFiles {
    /// Names of its logs.
    pub logs: Vec<String>,
    /// Which of them the text is of.
    pub log: usize,
    /// The part that is looked at.
    pub text: LogText,
    /// Its GPUs over time.
    pub tracks: Vec<crate::core::report::GpuTrack>,
}

/// What a person chose.
#[derive(Debug, Clone, Default)]
pub struct ScreenState {
    /// The run that is shown; the first at first.
    pub run: Option<String>,
    /// The attempt that is shown; the present one at first.
    pub attempt: Option<u32>,
    /// The log that is shown; the one with the evidence at first.
    pub log: Option<usize>,
    /// Where in it.
    pub place: LogPosition,
    /// The log has the whole screen.
    pub large: bool,
    pub focus: Focus,
    /// Words that the runs on the list contain.
    pub filter: String,
    /// What is marked in the log.
    pub search: String,
    pub mode: Mode,
    /// What is to be done with the next rung, while it is asked for.
    pub ahead: NextRungChoice,
    /// Said once, until the next key.
    pub told: Option<String>,
}

/// How much of things there is on the screen, so that a page is a page.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rows {
    /// Runs.
    pub runs: usize,
    /// Lines of the log.
    pub log: usize,
}

impl ScreenState {
    /// The runs on the list, by their places on the board.
    pub fn listed(&self, board: &Board) -> Vec<usize> {
        let cards = board.cards().iter().enumerate();
        let shown = cards.filter(|(_, card)| card.matches(&self.filter));
        shown.map(|(at, _)| at).collect()
    }

    /// The run that is shown.
    pub fn card<'a>(&self, board: &'a Board) -> Option<&'a RunCard> {
        let chosen = self.run.as_deref().and_then(|run| board.card(run));
        let first = || {
            let mut cards = board.cards().iter();
            cards.find(|card| card.matches(&self.filter))
        };
        chosen.filter(|c| c.matches(&self.filter)).or_else(first)
    }

    /// The attempt that is shown.
    pub fn attempt<'a>(&self, card: &'a RunCard) -> Option<&'a Attempt> {
        let attempts = &card.history.attempts;
        let chosen = attempts.iter().find(|a| Some(a.number) == self.attempt);
        chosen.or(attempts.last())
    }

    /// A key.
    pub fn press(
        &mut self,
        key: KeyPress,
        board: &Board,
        shown: &AttemptFiles,
        rows: Rows,
    ) -> Option<ScreenRequest> {
        self.told = None;
        if key == KeyPress::Interrupt {
            return Some(ScreenRequest::Detach);
        }
        match std::mem::take(&mut self.mode) {
            Mode::Commands => self.command(key, board, shown, rows),
            Mode::Help => None,
            Mode::Filter(text) => {
                if let Some(text) = typed(text, key, &mut self.mode, Mode::Filter) {
                    self.filter = text;
                }
                None
            }
            Mode::Search(text) => {
                self.search = typed(text, key, &mut self.mode, Mode::Search)?;
                (!self.search.is_empty()).then_some(ScreenRequest::Find { back: false })
            }
            Mode::Asked(question) => {
                let agreed = matches!(key, KeyPress::Char('y' | 'Y'));
                agreed.then_some(ScreenRequest::Do(question))
            }
        }
    }

    fn command(
        &mut self,
        key: KeyPress,
        board: &Board,
        shown: &AttemptFiles,
        rows: Rows,
    ) -> Option<ScreenRequest> {
        match key {
            KeyPress::Char('q') => return Some(ScreenRequest::Detach),
            KeyPress::Char('?' | 'h') => self.mode = Mode::Help,
            KeyPress::Char('f') => self.mode = Mode::Filter(self.filter.clone()),
            KeyPress::Char('/') => self.mode = Mode::Search(String::new()),
            KeyPress::Char('n') => return self.find(false),
            KeyPress::Char('N') => return self.find(true),
            KeyPress::Char('c') => self.mode = self.ask_to_cancel(board),
            KeyPress::Char('e') => return self.look_ahead(board, NextRungChoice::Take),
            KeyPress::Char('s') => return self.look_ahead(board, NextRungChoice::LeaveOut),
            KeyPress::Char('r') => {
                return self
                    .card(board)
                    .map(|c| ScreenRequest::Report(c.name().to_owned()));
            }
            KeyPress::Char('z') | KeyPress::Enter => self.large = !self.large,
            KeyPress::Char('o') => self.turn_to_log((shown.log + 1) % shown.logs.len().max(1)),
            KeyPress::Char('v') => self.turn_to_evidence(board, shown),
            KeyPress::Char('[') | KeyPress::Left => self.turn_attempt(board, -1),
            KeyPress::Char(']') | KeyPress::Right => self.turn_attempt(board, 1),
            KeyPress::Tab => {
                self.focus = match self.focus {
                    Focus::Runs => Focus::Log,
                    Focus::Log => Focus::Runs,
                }
            }
            KeyPress::Escape => (self.filter, self.search) = Default::default(),
            _ => self.travel(key, board, shown, rows),
        }
        None
    }

    fn find(&self, back: bool) -> Option<ScreenRequest> {
        (!self.search.is_empty()).then_some(ScreenRequest::Find { back })
    }

    fn ask_to_cancel(&mut self, board: &Board) -> Mode {
        let question = self
            .card(board)
            .map(|card| Confirmation::cancel(&card.history));
        match question {
            Some(Ok(question)) => Mode::Asked(question),
            Some(Err(why)) => {
                self.told = Some(why);
                Mode::Commands
            }
            None => Mode::Commands,
        }
    }

    fn look_ahead(&mut self, board: &Board, ahead: NextRungChoice) -> Option<ScreenRequest> {
        let card = self.card(board)?;
        if card.history.outcome.is_some() {
            self.told = Some(format!("{} is over", card.name()));
            return None;
        }
        self.ahead = ahead;
        Some(ScreenRequest::LookAhead(card.name().to_owned()))
    }

    /// What the next rung would be: then it is asked whether to go on.
    pub fn heard(&mut self, outlook: NextRungPreview) {
        self.told = None;
        match outlook.question(self.ahead) {
            Ok(question) => self.mode = Mode::Asked(question),
            Err(why) => self.told = Some(why),
        }
    }

    /// The keys that move.
    fn travel(&mut self, key: KeyPress, board: &Board, shown: &AttemptFiles, rows: Rows) {
        let far = isize::MAX;
        let in_log = self.is_in_log(board);
        let page = if in_log { rows.log } else { rows.runs };
        let page = isize::try_from(page.saturating_sub(1).max(1)).unwrap_or(1);
        let by = match key {
            KeyPress::Up | KeyPress::Char('k') => -1,
            KeyPress::Down | KeyPress::Char('j') => 1,
            KeyPress::PageUp | KeyPress::Char('b') => -page,
            KeyPress::PageDown | KeyPress::Char(' ') => page,
            KeyPress::Home | KeyPress::Char('g') => -far,
            KeyPress::End | KeyPress::Char('G') => far,
            _ => return,
        };
        if !in_log {
            self.turn_run(board, by);
            return;
        }
        self.place = match by {
            isize::MAX => LogPosition::End,
            by if by == -far => LogPosition::At(0),
            by => shown.text.moved(self.place, by, rows.log),
        };
    }

    /// Do the arrows move the log? They do where there is nothing else.
    pub fn is_in_log(&self, board: &Board) -> bool {
        self.large || self.focus == Focus::Log || board.cards().len() < 2
    }

    fn turn_run(&mut self, board: &Board, by: isize) {
        let listed = self.listed(board);
        let cards = board.cards();
        let present = self.card(board).map(|c| c.name().to_owned());
        let at = listed
            .iter()
            .position(|i| Some(cards[*i].name()) == present.as_deref());
        let last = listed.len().saturating_sub(1);
        let to = at.unwrap_or(0).saturating_add_signed(by).min(last);
        if let Some(run) = listed.get(to).map(|i| cards[*i].name())
            && Some(run) != present.as_deref()
        {
            self.run = Some(run.to_owned());
            self.attempt = None;
            (self.log, self.place) = (None, LogPosition::End);
        }
    }

    fn turn_attempt(&mut self, board: &Board, by: i32) {
        let Some(card) = self.card(board) else {
            return;
        };
        let last = card.history.attempt().map_or(1, |a| a.number);
        let present = self.attempt(card).map_or(last, |a| a.number);
        let to = present.saturating_add_signed(by).clamp(1, last);
        if to != present {
            self.attempt = (to != last).then_some(to);
            (self.log, self.place) = (None, LogPosition::End);
        }
    }

    fn turn_to_log(&mut self, log: usize) {
        self.log = Some(log);
        self.place = LogPosition::End;
    }

    fn turn_to_evidence(&mut self, board: &Board, shown: &AttemptFiles) {
        let card = self.card(board);
        let attempt = card.and_then(|c| self.attempt(c));
        let Some(evidence) = attempt.and_then(evidence) else {
            self.told = Some("the logs do not say why this attempt failed".to_owned());
            return;
        };
        if let Some(log) = shown.logs.iter().position(|name| *name == evidence.file) {
            self.log = Some(log);
            self.place = LogPosition::At(evidence.offset.saturating_sub(200));
        }
    }
}

/// The line that proves why an attempt failed, where it stands in a log.
pub fn evidence(attempt: &Attempt) -> Option<&oomctl_diagnose::Evidence> {
    let incident = attempt.incident.as_ref()?;
    incident.evidence.iter().find(|e| !e.file.is_empty())
}

/// A key where text is typed: the text, when it is whole. Until then the mode goes on.
fn typed(
    mut text: String,
    key: KeyPress,
    mode: &mut Mode,
    on: impl Fn(String) -> Mode,
) -> Option<String> {
    match key {
        KeyPress::Enter => return Some(text),
        KeyPress::Escape => return Some(String::new()),
        KeyPress::Backspace => {
            text.pop();
        }
        KeyPress::Char(c) if text.chars().count() < TYPED_MAX => text.push(c),
        _ => {}
    }
    *mode = on(text);
    None
}
