//! The thread that reads files for the screen: a file system that hangs keeps neither the keys nor the drive waiting.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use super::state::AttemptFiles;
use super::text::{LogPosition, LogText};
use crate::core::report::GpuTrack;
use crate::io::sampler::tracks;
use crate::io::window::{LineSearch, part};

/// Time between two looks at the log.
const LOG_EVERY: Duration = Duration::from_millis(250);
/// Time between two looks at the samples, and how many times as long as such a look takes.
const SAMPLES_EVERY: Duration = Duration::from_secs(2);
const SAMPLES_SHARE: u32 = 20;

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ViewedAttempt {
    /// The run.
    pub run: String,
    /// The attempt.
    pub attempt: u32,
    /// Its folder.
    pub folder: PathBuf,
    /// Its logs.
    pub logs: Vec<PathBuf>,
    /// Which one; where none was chosen, the one that has this name, or else the first with something in it.
    pub log: Option<usize>,
    /// Name of the log with the evidence.
    pub proof: Option<String>,
    /// Where in it.
    pub place: LogPosition,
}

/// Something to be done.
pub enum ReaderTask {
    /// Look at this from now on.
    Look(ViewedAttempt),
    /// Look for words in the log that is shown.
    Find {
        /// The words.
        words: String,
        /// From the line that begins here.
        from: u64,
        /// Towards the beginning.
        back: bool,
    },
    /// Make the report of a run and open it.
    Report {
        /// The run.
        run: String,
        /// Folder of its project.
        project: PathBuf,
    },
}

/// What came of it.
pub enum ReaderAnswer {
    /// What there is to see, whenever it changed.
    Seen(Box<(ViewedAttempt, AttemptFiles)>),
    /// Where the words stand.
    Found(Option<u64>),
    /// Something to be told.
    Told(String),
}

/// The reader, as the screen sees it.
pub struct FileReader {
    errands: Sender<ReaderTask>,
    answers: Receiver<ReaderAnswer>,
}

impl FileReader {
    /// Starts one. It ends when nobody listens any more.
    pub fn start() -> std::io::Result<Self> {
        let (errands, todo) = channel();
        // One answer waits at most: whoever draws slowly gets the later one.
        let (tell, answers) = sync_channel(1);
        std::thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || {
                ReaderState::default().serve(&todo, &tell);
            })?;
        Ok(Self { errands, answers })
    }

    /// Gives it something to do.
    pub fn ask(&self, delivery: ReaderTask) {
        drop(self.errands.send(delivery));
    }

    /// What it has found.
    pub fn answer(&self) -> Option<ReaderAnswer> {
        self.answers.try_recv().ok()
    }
}

#[derive(Default)]
struct ReaderState {
    wanted: Option<ViewedAttempt>,
    told: Option<(ViewedAttempt, AttemptFiles)>,
    tracks: Vec<GpuTrack>,
    /// When the samples are worth another look, and of which attempt they are.
    due: Option<(PathBuf, Instant)>,
}

impl ReaderState {
    fn serve(&mut self, todo: &Receiver<ReaderTask>, tell: &SyncSender<ReaderAnswer>) {
        loop {
            let answer = match todo.recv_timeout(LOG_EVERY) {
                Ok(ReaderTask::Look(wanted)) => {
                    self.wanted = Some(wanted);
                    None
                }
                Ok(ReaderTask::Find { words, from, back }) => {
                    Some(ReaderAnswer::Found(self.find(&words, from, back)))
                }
                Ok(ReaderTask::Report { run, project }) => {
                    Some(ReaderAnswer::Told(report(&run, &project)))
                }
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let told = answer.or_else(|| self.look());
            if told.is_some_and(|told| tell.send(told).is_err()) {
                return;
            }
        }
    }

    /// What there is to see, where that is something new.
    fn look(&mut self) -> Option<ReaderAnswer> {
        let wanted = self.wanted.clone()?;
        self.sample(&wanted.folder);
        let (log, text) = text(&wanted);
        let shown = AttemptFiles {
            logs: wanted.logs.iter().map(|path| name(path)).collect(),
            log,
            text,
            tracks: self.tracks.clone(),
        };
        let seen = (wanted, shown);
        if self.told.as_ref() == Some(&seen) {
            return None;
        }
        self.told = Some(seen.clone());
        Some(ReaderAnswer::Seen(Box::new(seen)))
    }

    fn sample(&mut self, folder: &Path) {
        let begun = Instant::now();
        let due = self.due.as_ref();
        if due.is_some_and(|(of, at)| of == folder && begun < *at) {
            return;
        }
        self.tracks = tracks(folder);
        let wait = SAMPLES_EVERY.max(begun.elapsed() * SAMPLES_SHARE);
        self.due = Some((folder.to_owned(), Instant::now() + wait));
    }

    fn find(&self, words: &str, from: u64, back: bool) -> Option<u64> {
        let (wanted, shown) = self.told.as_ref()?;
        let path = wanted.logs.get(shown.log)?;
        let words = LineSearch::new(words)?;
        let look = |from| match back {
            true => words.before(path, from).ok().flatten(),
            false => words.after(path, from).ok().flatten(),
        };
        // Once around, so that a log that stands at its end can be searched from there.
        look(from).or_else(|| look(if back { u64::MAX } else { 0 }))
    }
}

/// The part of the log that is wanted, and which log that is.
fn text(wanted: &ViewedAttempt) -> (usize, LogText) {
    let read = |path: &Path| part(path, |length| wanted.place.part(length)).ok();
    let named = |path: &PathBuf| Some(name(path)) == wanted.proof;
    let chosen = wanted.log.or_else(|| wanted.logs.iter().position(named));
    let filled = || {
        let logs = wanted.logs.iter();
        let has = |path: &PathBuf| path.metadata().is_ok_and(|m| m.len() > 0);
        logs.into_iter().position(has)
    };
    let log = chosen.or_else(filled).unwrap_or(0);
    let part = wanted.logs.get(log).and_then(|path| read(path));
    let text = part.map(|p| LogText::new(&p.bytes, p.start, p.length));
    (log, text.unwrap_or_default())
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Makes the report as `oomctl report` does, and opens it where there is a desktop.
fn report(run: &str, project: &Path) -> String {
    let Ok(program) = std::env::current_exe() else {
        return format!("`oomctl report {run}` makes the report");
    };
    let made = Command::new(program)
        .args(["report", run])
        .current_dir(project)
        .stdin(Stdio::null())
        .output();
    let page = match made {
        Ok(made) if made.status.success() => {
            String::from_utf8_lossy(&made.stdout).trim().to_owned()
        }
        Ok(made) => {
            let why = String::from_utf8_lossy(&made.stderr);
            let why = why.lines().next().unwrap_or_default().to_owned();
            return format!("no report: {why}");
        }
        Err(error) => return format!("no report: {error}"),
    };
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter();
    let has_desktop = desktop.filter_map(std::env::var_os).any(|v| !v.is_empty());
    let opened = has_desktop
        && Command::new("xdg-open")
            .arg(&page)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success());
    match opened {
        true => format!("opened {page}"),
        false => format!("the report is {page}"),
    }
}
