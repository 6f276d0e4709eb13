//! One thing that a log says, and what becomes of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::clean::clip;
use super::evidence::{Evidence, EvidenceRole};
use super::figures::MemoryFigures;
use super::frame::Frame;
use super::frame_marks::FrameMarks;
use super::phase::PhaseMention;
use super::prefix::{CleanLine, PrintedTime, Printer};
use super::rising::Count;
use super::signatures::{LineRole, Signature, UserSignature};

/// Lines of a wrapped message that belong to it, the first included.
const MESSAGE_LINES: usize = 8;

/// Steps of training after a failure that prove that it was survived. One may be work that was already
/// under way in another process.
const STEPS_SURVIVED: u64 = 2;

/// Ways of counting behind a failure that are told apart.
const COUNTS: usize = 4;

/// Ends of PyTorch's messages: what follows is not theirs.
const COMPLETE: &[&str] = &[
    "reserved in total by PyTorch",
    "reserved by PyTorch but unallocated",
    " cached)",
    " bytes.",
    "_ALLOC_CONF",
];

/// One thing that a log says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LogEvent {
    #[serde(with = "super::serial::signature")]
    pub signature: &'static Signature,
    /// Index of the file.
    pub source: usize,
    /// Order of arrival over all files.
    pub order: u64,
    /// Line number and offset of the first line.
    pub line: u64,
    pub offset: u64,
    /// File offset behind the first line.
    pub end: u64,
    /// The message's lines, cleaned; the first with its prefix.
    pub texts: Vec<String>,
    pub stamp: Option<PrintedTime>,
    pub printer: Printer,
    pub rank: Option<u32>,
    /// From the frames.
    pub phase: Option<PhaseMention>,
    /// From what the file announced last.
    pub ambient: Option<PhaseMention>,
    /// Where the program was.
    pub frame: Option<Frame>,
    /// The innermost frames of its traceback, as `path/file.py:function`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
    /// The frames of the user's own code in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_frames: Vec<Frame>,
    /// It is the last line of a traceback.
    pub in_traceback: bool,
    /// What the frames show.
    #[serde(default)]
    pub marks: FrameMarks,
    /// The project's own signature, where it is one.
    pub user: Option<Arc<UserSignature>>,
    /// Steps finished when it happened.
    pub step: Option<u64>,
    /// The program says that it goes on, or only warned.
    pub handled: bool,
    /// It was handled by the program's own word: it skipped, tried again, chose another way.
    pub dealt_with: bool,
    /// Processes ended after it before training went on.
    pub dead: bool,
    /// A traceback followed.
    pub traced: bool,
    /// Training showed progress after it, however little.
    pub progressed: bool,
    /// Training went on, or the run came to its end.
    pub survived: bool,
    /// After processes had ended, training began anew at this step.
    restarted_at: Option<u64>,
    /// Training began anew after it and made some steps.
    pub rerun: bool,
    /// It ended a traceback, and steps started over behind it: the next program may print them.
    #[serde(default)]
    pub anew: bool,
    /// What was counted behind it, each with how far it rose.
    #[serde(default)]
    counted: Vec<(Count, u64)>,
    /// Lines that may still belong to the message.
    pub(super) open: usize,
}

impl LogEvent {
    /// An event on a line whose message begins at byte `at` of its text.
    pub(crate) fn new(
        signature: &'static Signature,
        source: usize,
        line: &CleanLine,
        at: usize,
    ) -> Self {
        let mut event = Self {
            signature,
            source,
            order: 0,
            line: line.number,
            offset: line.offset,
            end: line.offset + line.text.len() as u64,
            texts: vec![clip_message(&line.text, at)],
            stamp: line.stamp,
            printer: line.printer,
            rank: line.printer.rank,
            phase: None,
            ambient: None,
            frame: None,
            trace: Vec::new(),
            own_frames: Vec::new(),
            in_traceback: false,
            marks: FrameMarks::default(),
            user: None,
            step: None,
            handled: !signature.fatal,
            dealt_with: false,
            dead: false,
            traced: false,
            progressed: false,
            survived: false,
            restarted_at: None,
            rerun: false,
            anew: false,
            counted: Vec::new(),
            open: 0,
        };
        if signature.wraps && !event.complete() {
            event.open = MESSAGE_LINES - 1;
        }
        event
    }

    fn complete(&self) -> bool {
        let joined = self.texts.join(" ");
        COMPLETE.iter().any(|end| joined.contains(end))
    }

    /// Takes a line that follows, if it can belong to the message.
    pub(crate) fn absorb(&mut self, line: &CleanLine) {
        self.open -= 1;
        if line.printer != self.printer && line.printer != Printer::default() {
            return;
        }
        self.texts.push(clip_message(line.body(), 0));
        if self.complete() {
            self.open = 0;
        }
    }

    /// Training shows `step` finished steps; `anew` when it counts from its beginning. In a script that starts the next of
    /// `several` programs whatever became of the one before, the next begins.
    pub(super) fn progress(&mut self, step: u64, anew: bool, several: bool) {
        self.progressed = true;
        if self.survived {
            return;
        }
        if self.ended() {
            if !several {
                self.restart(step, anew);
            }
            return;
        }
        let first = self.step.is_none_or(|before| step < before) && step <= 1;
        if self.begins(anew || first, several) {
            return;
        }
        let base = *self.step.get_or_insert(step);
        if step < base {
            self.step = Some(step);
        } else if step - base >= STEPS_SURVIVED {
            self.survived = true;
        }
    }

    /// Did processes end before training showed progress?
    fn ended(&self) -> bool {
        self.dead || matches!(self.signature.kind.as_str(), "preempted" | "node_failure")
    }

    /// Could it be a failure that the program survives?
    pub(super) fn waits(&self) -> bool {
        self.is_cause() && !self.survived && !self.ended()
    }

    /// Something is counted behind a traceback from its beginning. Where that is the next program, the one before is dead.
    fn begins(&mut self, at_its_beginning: bool, several: bool) -> bool {
        self.anew |= self.in_traceback && at_its_beginning;
        self.dead |= self.anew && several;
        self.dead
    }

    /// A line of the file counts. What another rank counts proves nothing for the one that failed.
    pub(super) fn count(&mut self, count: &Count, printer: Printer, several: bool) {
        let other = matches!((self.rank, printer.rank), (Some(a), Some(b)) if a != b);
        if other || !self.waits() {
            return;
        }
        let known = self.counted.iter_mut().find(|(c, _)| c.is_like(count));
        let Some((before, risen)) = known else {
            if self.counted.len() < COUNTS {
                self.counted.push((count.clone(), 0));
            }
            return;
        };
        let rose = count.rose(before);
        let first = *risen == 0 && before.is_first(count);
        before.clone_from(count);
        *risen = risen.saturating_add(rose.unwrap_or(0));
        self.progressed |= rose.is_some();
        let survived = *risen >= STEPS_SURVIVED;
        self.survived = !self.begins(first, several) && survived;
        if self.survived {
            self.counted = Vec::new();
        }
    }

    /// Training began anew after processes had ended. That may be another run in the same file (requeue,
    /// a loop in the script), but the other ranks of a dying job print bars as well: only a scheduler's
    /// word makes it one.
    fn restart(&mut self, step: u64, anew: bool) {
        let backwards = self.step.is_some_and(|before| step <= before);
        if self.restarted_at.is_none() && (anew || backwards) {
            self.restarted_at = Some(step);
        }
        let begun = self.restarted_at;
        self.rerun |= begun.is_some_and(|at| step.saturating_sub(at) >= STEPS_SURVIVED);
    }

    pub(crate) fn figures(&self) -> MemoryFigures {
        MemoryFigures::read(&self.texts)
    }

    pub(crate) fn is_cause(&self) -> bool {
        self.signature.role == LineRole::Cause
    }

    /// Could this be why the attempt ends?
    pub(crate) fn is_candidate(&self) -> bool {
        matches!(self.signature.role, LineRole::Cause | LineRole::Consequence)
            && !self.survived
            && !self.handled
    }

    /// True when `self` surely or probably happened before `other`.
    pub(crate) fn before(&self, other: &Self) -> bool {
        if self.source != other.source
            && let (Some(a), Some(b)) = (self.stamp, other.stamp)
            && a != b
        {
            return a.before(b);
        }
        self.order < other.order
    }

    pub(crate) fn evidence(&self, role: EvidenceRole, file: &str) -> Evidence {
        Evidence {
            signature: match &self.user {
                Some(user) => user.id.clone(),
                None => self.signature.id.to_owned(),
            },
            role,
            file: file.to_owned(),
            line: self.line,
            offset: self.offset,
            text: clip(self.texts.join(" ").trim_end()),
        }
    }
}

/// A line of a giant file can be a whole window; what is kept of it is the message and a little before.
fn clip_message(text: &str, at: usize) -> String {
    const BEFORE: usize = 200;
    const MESSAGE: usize = 4_096;
    if text.len() <= MESSAGE {
        return text.to_owned();
    }
    let whole_char = |at: usize| (0..=at).rev().find(|i| text.is_char_boundary(*i));
    let from = whole_char(at.saturating_sub(BEFORE)).unwrap_or(0);
    let to = whole_char((from + MESSAGE).min(text.len())).unwrap_or(from);
    text[from..to].to_owned()
}
