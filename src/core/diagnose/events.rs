//! What happened in the logs of one attempt, in order: failures, what followed, what was survived.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::clean::clip;
use super::figures::Figures;
use super::frame::Frame;
use super::incident::{Class, Evidence, EvidenceRole};
use super::kind;
use super::phase::{Found, LOOP};
use super::prefix::{Line, Printer, Stamp};
use super::signatures::{Role, SAID, Signature, UserSignature};

/// Events that are remembered. When there are more, survived ones go first, then the latest but one:
/// the first failures and the last are what a verdict needs.
const EVENTS: usize = 96;

/// Lines of a wrapped message that belong to it, the first included.
const MESSAGE_LINES: usize = 8;

/// Steps of training after a failure that prove that it was survived. One may be work that was already
/// under way in another process.
const STEPS_SURVIVED: u64 = 2;

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
pub(crate) struct Event {
    #[serde(with = "super::kept::signature")]
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
    pub stamp: Option<Stamp>,
    pub printer: Printer,
    pub rank: Option<u32>,
    /// From the frames.
    pub phase: Option<Found>,
    /// From what the file announced last.
    pub ambient: Option<Found>,
    /// Where the program was.
    pub frame: Option<Frame>,
    /// It is the last line of a traceback.
    pub in_traceback: bool,
    /// The frames are those of one process that drives several GPUs.
    #[serde(default)]
    pub replicas: bool,
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
    /// Lines that may still belong to the message.
    open: usize,
}

impl Event {
    /// An event on a line whose message begins at byte `at` of its text.
    pub(crate) fn new(
        signature: &'static Signature,
        source: usize,
        line: &Line,
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
            in_traceback: false,
            replicas: false,
            user: None,
            step: None,
            handled: signature.handled,
            dealt_with: false,
            dead: false,
            traced: false,
            progressed: false,
            survived: false,
            restarted_at: None,
            rerun: false,
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
    pub(crate) fn absorb(&mut self, line: &Line) {
        self.open -= 1;
        if line.printer != self.printer && line.printer != Printer::default() {
            return;
        }
        self.texts.push(clip_message(line.body(), 0));
        if self.complete() {
            self.open = 0;
        }
    }

    /// Training shows `step` finished steps; `anew` when it counts from its beginning.
    fn progress(&mut self, step: u64, anew: bool) {
        self.progressed = true;
        if self.survived {
            return;
        }
        let ended = matches!(self.signature.kind, "preempted" | "node_failure");
        if self.dead || ended {
            self.restart(step, anew);
            return;
        }
        let base = *self.step.get_or_insert(step);
        if step < base {
            self.step = Some(step);
        } else if step >= base + STEPS_SURVIVED {
            self.survived = true;
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
        self.rerun |= begun.is_some_and(|at| step >= at + STEPS_SURVIVED);
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures::read(&self.texts)
    }

    pub(crate) fn is_cause(&self) -> bool {
        self.signature.role == Role::Cause
    }

    /// Could this be why the attempt ends?
    pub(crate) fn is_candidate(&self) -> bool {
        matches!(self.signature.role, Role::Cause | Role::Consequence)
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

/// The events of all files, at most [`EVENTS`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Events {
    /// The first to be forgotten stand in front.
    list: VecDeque<Event>,
    /// As many of them at the front were survived and are complete: no further line changes what they mean.
    #[serde(skip)]
    settled: usize,
    seen: u64,
}

impl Events {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.list.iter()
    }

    /// Does an event stand on this line?
    pub(crate) fn stands_on(&self, source: usize, line: u64) -> bool {
        let latest = self.list.iter().rfind(|e| e.source == source);
        latest.is_some_and(|e| e.line == line)
    }

    /// How many were ever added.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Adds an event; a consequence tells that what failed before it in the same file was fatal.
    pub(crate) fn push(&mut self, mut event: Event) {
        self.seen += 1;
        event.order = self.seen;
        if event.signature.role == Role::Consequence {
            self.mark(event.source, |e| e.dead |= !e.survived);
        }
        if self.list.len() == EVENTS {
            let spare = self
                .list
                .iter()
                .position(|e| e.survived || !e.is_candidate());
            let spare = spare.unwrap_or(EVENTS - 1);
            self.list.remove(spare);
            self.settled -= usize::from(spare < self.settled);
        }
        if self.list.is_empty() {
            // Most of thousands of logs have one or none.
            self.list.reserve_exact(1);
        }
        self.list.push_back(event);
    }

    fn mark(&mut self, source: usize, change: impl Fn(&mut Event)) {
        self.list
            .iter_mut()
            .filter(|e| e.source == source)
            .for_each(change);
    }

    /// The program says that it goes on after the failure before: one of this kind, or with
    /// `no_failure` any lack of memory.
    pub(crate) fn handled(&mut self, source: usize, line: u64, kind: &str) {
        const NEAR: u64 = 80;
        self.mark(source, |e| {
            let memory = kind::row(e.signature.kind).class != Class::NotOom;
            let meant = e.signature.kind == kind || (kind == "no_failure" && memory);
            if meant && e.line + NEAR >= line && !e.dead {
                e.handled = true;
                e.dealt_with = true;
                e.traced = false;
            }
        });
    }

    /// A traceback begins.
    pub(crate) fn traceback(&mut self, source: usize) {
        self.mark(source, |e| e.traced = true);
    }

    /// The run in this file came to its end: nothing before was fatal to it. A script's own word counts
    /// only for failures after which training went on.
    pub(crate) fn success(&mut self, source: usize, signature: &Signature) {
        let said = signature.weight == SAID;
        self.mark(source, |e| {
            e.survived |= !said || (e.progressed && !e.dead);
        });
    }

    /// Training shows `step` finished steps; `anew` when it counts from its beginning.
    pub(crate) fn progress(&mut self, source: usize, step: u64, anew: bool) {
        for e in self.unsettled(source) {
            e.progress(step, anew);
        }
        let settled = |e: &Event| e.survived && e.open == 0;
        while self.list.get(self.settled).is_some_and(settled) {
            self.settled += 1;
        }
    }

    /// The events of a file that can still change.
    fn unsettled(&mut self, source: usize) -> impl Iterator<Item = &mut Event> {
        let unsettled = self.list.range_mut(self.settled..);
        unsettled.filter(move |e| e.source == source)
    }

    /// Has training gone on after everything that this file says? Then progress proves nothing more.
    pub(crate) fn all_survived(&self, source: usize) -> bool {
        let mut unsettled = self.list.range(self.settled..);
        unsettled.all(|e| e.survived || e.source != source)
    }

    /// Does a message of this file wait for its next lines?
    pub(crate) fn is_open(&self, source: usize) -> bool {
        let mut unsettled = self.list.range(self.settled..);
        unsettled.any(|e| e.open > 0 && e.source == source)
    }

    /// Gives a line to the messages that wait for it.
    pub(crate) fn absorb(&mut self, source: usize, line: &Line) {
        self.unsettled(source)
            .filter(|e| e.open > 0)
            .for_each(|e| e.absorb(line));
    }

    /// The line begins something else: open messages of its printer end.
    pub(crate) fn close(&mut self, source: usize, printer: Printer) {
        self.unsettled(source)
            .filter(|e| e.printer == printer || printer == Printer::default())
            .for_each(|e| e.open = 0);
    }

    /// Frames printed behind a message (a remote error raised again) complete its phase.
    pub(crate) fn refine_phase(
        &mut self,
        source: usize,
        printer: Printer,
        line: u64,
        found: Found,
    ) {
        const BEHIND: u64 = 60;
        let near = self
            .list
            .iter_mut()
            .filter(|e| e.source == source && e.printer == printer && e.line + BEHIND >= line);
        for e in near {
            // Ray names the error first and prints its frames behind it.
            let heads_frames = e.texts[0].contains("RayTaskError(");
            if (heads_frames || found.weight >= LOOP)
                && e.phase.is_none_or(|p| p.weight < found.weight.min(LOOP))
            {
                e.phase = Some(found);
            }
        }
    }

    /// Forgets a file: what it said belongs to an earlier run.
    pub(crate) fn forget(&mut self, source: usize) {
        self.list.retain(|e| e.source != source);
        self.settled = 0;
    }
}
