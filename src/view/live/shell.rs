//! The thread that owns the terminal, and the observer that hands on what the drive tells.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ratatui::buffer::Buffer;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::super::story::Story;
use super::keys::{KeyPress, Keys};
use super::model::Board;
use super::painter::TerminalFeatures;
use super::reader::{FileReader, ReaderAnswer, ReaderTask, ViewedAttempt};
use super::scene::Scene;
use super::screen::draw;
use super::state::{AttemptFiles, Rows, ScreenRequest, ScreenState, evidence};
use super::terminal::{Input, Terminal};
use super::text::LogPosition;
use crate::drive::{Asker, Notice, Observer, SteerRequest, Supervisor, WakeSources, attempt_logs};

/// Shortest time between two screens that nobody asked for with a key.
const FRAME: Duration = Duration::from_millis(100);
/// Longest wait for the terminal's thread at the end: one that is stuck in a terminal holds up nobody.
const PATIENCE: Duration = Duration::from_secs(1);

/// Can there be a live view here? On a terminal that can do more than print, and not where a machine reads along.
pub fn is_possible() -> bool {
    let ends = std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
        && std::io::stderr().is_terminal();
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let able = set("TERM").is_some_and(|term| term != "dumb");
    ends && able && set("CI").is_none() && !in_background()
}

/// Behind the shell's prompt the terminal is somebody else's, and who changes its settings is stopped.
fn in_background() -> bool {
    let foreground = rustix::termios::tcgetpgrp(std::io::stdin());
    foreground.is_ok_and(|group| group != rustix::process::getpgrp())
}

/// The board, which the drive changes and the screen looks at.
type SharedBoard = Arc<Mutex<Board>>;

fn locked(board: &SharedBoard) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The live view, as the drive sees it.
pub struct Live {
    board: SharedBoard,
    /// The same as lines, for when the view is over.
    story: Story,
    closing: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Live {
    /// Opens it; an error leaves the terminal as it was.
    pub fn open(
        supervisor: &Supervisor,
        sources: &WakeSources,
        ascii: bool,
    ) -> std::io::Result<Self> {
        let board = Board::of(supervisor);
        let several = board.cards().len() > 1;
        let board = Arc::new(Mutex::new(board));
        let closing = Arc::new(AtomicBool::new(false));
        // The first signal gives the terminal back, so that a second one, which ends the program at once, finds it so.
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&closing))?;
        }
        let wanted = anstream::AutoStream::choice(&std::io::stdout());
        let look = TerminalFeatures {
            unicode: !ascii && crate::view::print::unicode(),
            colour: wanted != anstream::ColorChoice::Never,
        };
        let screen = LiveScreen {
            board: Arc::clone(&board),
            closing: Arc::clone(&closing),
            asker: sources.asker(),
            reader: FileReader::start()?,
            terminal: Terminal::open()?,
            look,
            state: ScreenState::default(),
            shown: AttemptFiles::default(),
            wanted: None,
            rows: Rows::default(),
        };
        let thread = std::thread::Builder::new()
            .name("screen".to_owned())
            .spawn(move || screen.run())?;
        Ok(Self {
            board,
            story: Story::kept(several).summed(),
            closing,
            thread,
        })
    }

    /// Gives the terminal back, and leaves the story on it.
    pub fn close(mut self) {
        self.closing.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        while !self.thread.is_finished() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.story.release();
        self.story.close();
    }
}

impl Observer for Live {
    fn notice(&mut self, notice: &Notice<'_>) {
        locked(&self.board).take(notice, Timestamp::now());
        self.story.notice(notice);
        // The screen is gone, and the runs are not: the story goes on in lines.
        if self.thread.is_finished() {
            self.story.release();
        }
    }
}

/// The thread that owns the terminal.
struct LiveScreen {
    board: SharedBoard,
    closing: Arc<AtomicBool>,
    asker: Asker,
    reader: FileReader,
    terminal: Terminal,
    look: TerminalFeatures,
    state: ScreenState,
    shown: AttemptFiles,
    /// What the reader was asked for last.
    wanted: Option<ViewedAttempt>,
    rows: Rows,
}

impl LiveScreen {
    fn run(mut self) {
        let mut keys = Keys::default();
        let mut drawn = None::<(Instant, u64, i64)>;
        let mut buffer = Buffer::default();
        loop {
            let input = self.terminal.keys(FRAME);
            // After the wait: what is over is not drawn once more.
            if self.closing.load(Ordering::Relaxed) || !self.terminal.is_ours() {
                return;
            }
            let pressed = match input {
                Input::Bytes(bytes) => keys.take(&bytes),
                Input::Nothing => keys.settled().into_iter().collect(),
                Input::Gone => return,
            };
            let mut fresh = !pressed.is_empty();
            for key in pressed {
                if key == KeyPress::Redraw {
                    self.terminal.forget();
                    continue;
                }
                let wish = {
                    let board = locked(&self.board);
                    self.state.press(key, &board, &self.shown, self.rows)
                };
                if let Some(wish) = wish
                    && !self.fulfil(wish)
                {
                    return;
                }
            }
            while let Some(answer) = self.reader.answer() {
                self.hear(answer);
                fresh = true;
            }
            fresh |= self.listen();
            self.look_at();
            let (changes, now) = (locked(&self.board).changes, Timestamp::now());
            let area = self.terminal.area();
            let same = drawn.is_some_and(|(at, seen, second)| {
                at.elapsed() < FRAME || (seen, second) == (changes, now.as_second())
            });
            if same && !fresh && area == buffer.area {
                continue;
            }
            buffer.resize(area);
            self.draw(&mut buffer, now);
            if self.terminal.show(&buffer).is_err() {
                return;
            }
            drawn = Some((Instant::now(), changes, now.as_second()));
        }
    }

    fn draw(&mut self, buffer: &mut Buffer, now: Timestamp) {
        let board = locked(&self.board);
        let scene = Scene {
            board: &board,
            state: &self.state,
            shown: &self.shown,
            now,
        };
        self.rows = draw(buffer, self.look, scene);
    }

    /// Does what the keys cannot do alone; false where that is the end.
    fn fulfil(&mut self, wish: ScreenRequest) -> bool {
        match wish {
            ScreenRequest::Detach => {
                // The terminal first: whoever is in a hurry and does it again is heard at once.
                super::terminal::restore();
                let us = rustix::process::getpid();
                let _ = rustix::process::kill_process(us, rustix::process::Signal::INT);
                return false;
            }
            ScreenRequest::Do(question) => {
                self.state.told = Some("asked for".to_owned());
                self.asker.ask(question.asked());
            }
            ScreenRequest::LookAhead(run) => {
                self.state.told = Some("looking for the next rung".to_owned());
                self.asker.ask(SteerRequest::Outlook { run });
            }
            ScreenRequest::Report(run) => {
                let folder = locked(&self.board).card(&run).map(|c| c.folder.clone());
                if let Some(project) = folder.and_then(|f| f.project().map(ToOwned::to_owned)) {
                    self.state.told = Some("making the report".to_owned());
                    self.reader.ask(ReaderTask::Report { run, project });
                }
            }
            ScreenRequest::Find { back } => {
                let text = &self.shown.text;
                let top = text.lines.get(text.top(self.state.place, self.rows.log));
                let top = top.map_or(0, |line| line.offset);
                let from = if back { top } else { top + 1 };
                self.state.told = Some("searching".to_owned());
                self.reader.ask(ReaderTask::Find {
                    words: self.state.search.clone(),
                    from,
                    back,
                });
            }
        }
        true
    }

    /// What the drive has for the person at the keys; false where that is nothing.
    fn listen(&mut self) -> bool {
        let (outlook, told) = {
            let mut board = locked(&self.board);
            (board.outlook.take(), board.told.take())
        };
        let heard = outlook.is_some() || told.is_some();
        if let Some(outlook) = outlook {
            self.state.heard(outlook);
        }
        self.state.told = told.or(self.state.told.take());
        heard
    }

    fn hear(&mut self, answer: ReaderAnswer) {
        match answer {
            // Of what was asked for before the last keys, nothing is worth showing.
            ReaderAnswer::Seen(seen) if Some(&seen.0) == self.wanted.as_ref() => {
                self.shown = seen.1
            }
            ReaderAnswer::Seen(_) => {}
            ReaderAnswer::Found(Some(offset)) => {
                self.state.told = None;
                self.state.place = LogPosition::At(offset);
            }
            ReaderAnswer::Found(None) => {
                self.state.told = Some(format!("\"{}\" is not there", self.state.search));
            }
            ReaderAnswer::Told(text) => self.state.told = Some(text),
        }
    }

    /// Asks for what is to be shown, when that is something else than before.
    fn look_at(&mut self) {
        let board = locked(&self.board);
        let attempt = self
            .state
            .card(&board)
            .and_then(|card| Some((card, self.state.attempt(card)?)));
        let Some((card, attempt)) = attempt else {
            return;
        };
        let before = self.wanted.as_ref();
        if before.is_none_or(|w| w.run != card.name() || w.attempt != attempt.number) {
            self.shown = AttemptFiles::default();
            (self.state.log, self.state.place) = (None, LogPosition::End);
        }
        let wanted = ViewedAttempt {
            run: card.name().to_owned(),
            attempt: attempt.number,
            folder: card.folder.attempt(attempt.number),
            logs: attempt_logs(&card.folder, attempt),
            log: self.state.log,
            proof: evidence(attempt).map(|e| e.file.clone()),
            place: self.state.place,
        };
        drop(board);
        if self.wanted.as_ref() != Some(&wanted) {
            self.wanted = Some(wanted.clone());
            self.reader.ask(ReaderTask::Look(wanted));
        }
    }
}
