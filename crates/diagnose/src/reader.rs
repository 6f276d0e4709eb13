//! One file's lines to events.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::bugs::Versions;
use super::clean::sanitize;
use super::context::Context;
use super::events::{Events, LogEvent};
use super::exceptions;
use super::frame::{Frame, FrameShape};
use super::lines::windows;
use super::phase::{self, PhaseMention};
use super::prefilter::LineHits;
use super::prefix::{CleanLine, PrintedTime, Severity, level_of, rank_in, summary_rank};
use super::progress::{LineProgress, ProgressPattern, ProgressTrack, shown};
use super::signatures::{COMPILED, CompiledSignature, LineRole, Signature, UserTable};
use super::tenants::Ours;
use super::traceback_part::TracebackPart;

/// What is known of one file besides its bytes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SourceText {
    pub(super) context: Context,
    pub(super) track: ProgressTrack,
    /// First bytes of the latest line that is not blank.
    #[serde(with = "super::serial::bytes")]
    pub(super) last_line: Vec<u8>,
    /// The same of the line before.
    #[serde(with = "super::serial::bytes")]
    line_before: Vec<u8>,
    /// In boxes, these two: most of thousands of logs have neither.
    pending: Option<Box<Pending>>,
    /// First bytes of the latest line that showed progress.
    #[serde(with = "super::serial::bytes")]
    pub(super) progress_line: Vec<u8>,
    /// The rank in torchrun's summary.
    pub(super) summary_rank: Option<u32>,
    /// An earlier run of the same job wrote to this file.
    pub(super) earlier: bool,
    last_stamp: Option<(PrintedTime, u64)>,
    /// A traceback whose last line has not come.
    pub(super) unfinished: Option<Box<LogEvent>>,
    /// The latest line that only says that something went wrong.
    pub(super) said: Option<Box<LogEvent>>,
    #[serde(default)]
    pub(super) versions: Versions,
}

/// A message whose first line holds a literal and whose pattern may match when the next are joined.
#[derive(Debug, Serialize, Deserialize)]
struct Pending {
    #[serde(with = "super::serial::entry")]
    signature: usize,
    event: LogEvent,
    lines_left: u8,
}

/// Bytes of a line that are kept for display.
pub(super) const LAST_LINE: usize = 2_000;

impl SourceText {
    /// Is the next line wanted whatever it holds?
    pub(super) fn attentive(&self, events: &Events, source: usize) -> bool {
        self.pending.is_some() || self.context.wants_next() || events.is_open(source)
    }

    /// What was going on at the end, by the lines that announce it.
    pub(super) fn ambient(&self, lines: u64) -> Option<PhaseMention> {
        self.context.ambient(lines)
    }

    pub(super) fn note_last_line(&mut self, block: &[u8]) {
        let blank = |line: &[u8]| line.iter().all(|b| b.is_ascii_whitespace() || *b == 0);
        let mut rest = Some(block);
        let mut latest = None;
        while let Some(text) = rest
            && latest.is_none()
        {
            let end = memchr::memrchr2(b'\n', b'\r', text);
            let line = &text[end.map_or(0, |end| end + 1)..];
            latest = Some(line).filter(|line| !blank(line));
            rest = end.map(|end| &text[..end]);
        }
        if let Some(line) = latest {
            let window = windows(line.len()).last();
            let line = &line[window.map_or(0, |(from, _, _)| from)..];
            std::mem::swap(&mut self.last_line, &mut self.line_before);
            self.last_line.clear();
            self.last_line
                .extend_from_slice(&line[..line.len().min(LAST_LINE)]);
        }
    }
}

/// One file's state while a line is read.
pub(super) struct LineReader<'a> {
    pub(super) source: usize,
    pub(super) text: &'a mut SourceText,
    pub(super) events: &'a mut Events,
    pub(super) ours: &'a mut Ours,
    pub(super) table: &'a UserTable,
}

impl LineReader<'_> {
    /// Takes a line that could matter, or that a line before asked for, with what it holds.
    pub(super) fn read(&mut self, line: &CleanLine, held: &LineHits) {
        self.surroundings(line);
        let (part, stream) = self.text.context.take(line, &held.markers);
        let in_traceback = stream.open;
        match part {
            TracebackPart::Head => self.traceback(line),
            TracebackPart::Frame => {
                self.events.close(self.source, line.printer);
                self.late_frame(line);
            }
            TracebackPart::Code => self.late_frame(line),
            TracebackPart::Plain => {}
        }
        let failed = (part != TracebackPart::Code && self.users(line))
            || self.signatures(line, part, in_traceback, &held.entries);
        if !failed && part == TracebackPart::Plain {
            self.exception(line, in_traceback);
        }
        if !failed && matches!(part, TracebackPart::Plain | TracebackPart::Code) {
            self.events.absorb(self.source, line);
        }
    }

    /// Takes a line that may show progress; `raw` is the same with its prefix, as it stands in the log.
    pub(super) fn progress(&mut self, line: &CleanLine, raw: &[u8], patterns: &[ProgressPattern]) {
        if let Some(shown) = shown(patterns, line.body()) {
            self.shown(shown, raw);
        }
    }

    /// Takes what a line shows.
    pub(super) fn shown(&mut self, shown: LineProgress, raw: &[u8]) {
        let (step, anew) = (shown.progress.step, shown.initial);
        if self.text.track.take(shown) {
            self.text.progress_line.clear();
            self.text
                .progress_line
                .extend_from_slice(&raw[..raw.len().min(LAST_LINE)]);
            self.text.unfinished = None;
            self.text.said = None;
            self.events.progress(self.source, step, anew);
        }
    }

    /// Who prints, and when.
    fn surroundings(&mut self, line: &CleanLine) {
        self.ours.see(line.printer.pid, &line.text);
        if let Some(stamp) = line.stamp {
            self.text.last_stamp = Some((stamp, line.number));
        }
    }

    fn traceback(&mut self, line: &CleanLine) {
        self.events.traceback(self.source);
        self.events.close(self.source, line.printer);
        let cut_off = LogEvent::new(exceptions::unfinished(line.body()), self.source, line, 0);
        self.text.unfinished = Some(Box::new(self.placed(cut_off, line)));
        if let Some(stream) = self.text.context.stream(line.printer) {
            stream.open = true;
        }
    }

    /// A frame or the source below it may belong to a message before, or to one that never ends.
    fn late_frame(&mut self, line: &CleanLine) {
        let read = Frame::read(line.body());
        let quoted = line.body().trim_start_matches([' ', '|']);
        let boxed = matches!(read, Some((_, FrameShape::Boxed)));
        if self.text.unfinished.is_none() && (boxed || quoted.starts_with("File \"")) {
            // The log begins inside a traceback.
            let cut_off = LogEvent::new(exceptions::unfinished(""), self.source, line, 0);
            self.text.unfinished = Some(Box::new(cut_off));
        }
        if let (Some(cut_off), Some(stream)) = (
            self.text
                .unfinished
                .as_mut()
                .filter(|e| e.printer == line.printer),
            self.text.context.stream(line.printer),
        ) {
            cut_off.frame = stream.place(line.number).cloned();
            cut_off.phase = stream.phase(line.number);
        }
        let frame = read.map(|(frame, _)| frame);
        if let Some(found) = phase::in_frame(line.body(), frame.as_ref()) {
            self.events
                .refine_phase(self.source, line.printer, line.number, found);
        }
    }

    /// Asks the tables, of which the line holds these literals. True when a failure was found.
    fn signatures(
        &mut self,
        line: &CleanLine,
        part: TracebackPart,
        in_traceback: bool,
        literals: &[(usize, usize)],
    ) -> bool {
        let (mut failure, mut advice, mut handled) = (None, None, None);
        for (index, at) in literals {
            let (index, entry) = (*index, &COMPILED[*index]);
            let found = entry.find(&line.text, *at, line.body_at, line.own);
            let Some(found) = found.filter(|_| self.text.context.suits(entry, line)) else {
                continue;
            };
            match entry.signature.role {
                LineRole::Cause | LineRole::Consequence if part == TracebackPart::Code => {}
                LineRole::Cause | LineRole::Consequence => {
                    let heavier = failure.is_none_or(|(i, _): (usize, usize)| {
                        COMPILED[i].signature.role == LineRole::Consequence
                            && entry.signature.role == LineRole::Cause
                    });
                    if heavier {
                        failure = Some((index, found.at));
                    }
                }
                LineRole::Handled => handled = Some(&entry.signature.kind),
                LineRole::Success => {
                    self.text.said = None;
                    self.events.success(self.source, entry.signature);
                }
                LineRole::Advice => advice = Some((entry.signature, found.at)),
            }
        }
        if let Some((index, at)) = failure {
            self.fail(line, COMPILED[index].signature, at, in_traceback);
        }
        if let Some(kind) = handled {
            self.text.unfinished = None;
            self.events.handled(self.source, line.number, kind);
        }
        if failure.is_some() || handled.is_some() {
            return true;
        }
        if part != TracebackPart::Code && self.continued(line) {
            return true;
        }
        self.wait(line, part, literals);
        if let Some((signature, at)) = advice {
            self.events
                .push(LogEvent::new(signature, self.source, line, at));
        }
        false
    }

    /// Completes a message that began on a line before.
    fn continued(&mut self, line: &CleanLine) -> bool {
        let Some(mut pending) = self.text.pending.take() else {
            return false;
        };
        pending.event.texts.push(line.body().to_owned());
        let entry: &CompiledSignature = &COMPILED[pending.signature];
        let joined = [" ", ""].map(|gap| pending.event.texts.join(gap));
        let hit = joined
            .iter()
            .any(|text| entry.find_anywhere(text).is_some());
        if hit {
            let event = self.placed(pending.event, line);
            self.events.push(event);
            return true;
        }
        pending.lines_left -= 1;
        if pending.lines_left > 0 {
            self.text.pending = Some(pending);
        }
        false
    }

    /// Remembers a line that may be the first of a wrapped message.
    fn wait(&mut self, line: &CleanLine, part: TracebackPart, literals: &[(usize, usize)]) {
        if part == TracebackPart::Code || self.text.pending.is_some() {
            return;
        }
        let first = literals
            .iter()
            .find(|(entry, at)| *at < line.own && COMPILED[*entry].may_continue(&line.text, *at));
        if let Some((signature, _)) = first {
            let signature = *signature;
            let entry = COMPILED[signature].signature;
            self.text.pending = Some(Box::new(Pending {
                signature,
                event: LogEvent::new(entry, self.source, line, 0),
                lines_left: 2,
            }));
        }
    }

    /// A message that the project itself described.
    fn users(&mut self, line: &CleanLine) -> bool {
        let Some((row, user, at)) = self.table.find(&line.text, line.body_at) else {
            return false;
        };
        self.text.unfinished = None;
        self.events.close(self.source, line.printer);
        let mut event = LogEvent::new(row, self.source, line, at);
        event.rank = event.rank.or_else(|| rank_in(&line.text));
        event.handled = !user.fatal;
        event.user = Some(user.clone());
        let event = self.placed(event, line);
        self.events.push(event);
        true
    }

    fn fail(&mut self, line: &CleanLine, row: &'static Signature, at: usize, in_traceback: bool) {
        self.text.pending = None;
        self.text.unfinished = None;
        self.events.close(self.source, line.printer);
        let mut event = LogEvent::new(row, self.source, line, at);
        event.rank = event.rank.or_else(|| rank_in(&line.text));
        let level = level_of(line.text.get(..at).unwrap_or_default());
        // A log shipper may call all of stderr INFO; a traceback's last line is no warning.
        let mild = line.level == Severity::Mild || level == Severity::Mild;
        if mild && !row.any_level && !in_traceback {
            event.handled = true;
        }
        let event = self.placed(event, line);
        self.events.push(event);
    }

    /// Puts an event into its surroundings.
    fn placed(&mut self, mut event: LogEvent, line: &CleanLine) -> LogEvent {
        const STAMP_LINES: u64 = 200;
        let around = self.text.context.stream(line.printer).and_then(|stream| {
            event.in_traceback = std::mem::take(&mut stream.open);
            event.frame = stream.place(line.number).cloned();
            event.trace = stream.trace(line.number);
            event.own_frames = stream.own_frames(line.number);
            event.marks = stream.marks(line.number);
            stream.phase(line.number)
        });
        event.phase = line
            .phase()
            .into_iter()
            .chain(around)
            .max_by_key(|f| f.weight);
        if event.phase.is_none() {
            event.phase = phase::in_frame(&sanitize(&self.text.line_before), None);
        }
        event.ambient = self.text.context.ambient(line.number);
        event.step = self.text.track.progress().map(|p| p.step);
        event.stamp = event.stamp.or_else(|| {
            self.text
                .last_stamp
                .filter(|(_, at)| at + STAMP_LINES >= line.number)
                .map(|(stamp, _)| stamp)
        });
        event
    }

    /// Is it an entry behind `Root Cause (first observed failure):`? What stands before it came later.
    fn is_root_of_summary(&self, line: &CleanLine) -> bool {
        const ENTRY: u64 = 6;
        let latest = self.events.latest(self.source);
        latest.is_some_and(|e| {
            e.line + ENTRY >= line.number && e.texts.iter().any(|t| t.contains("Root Cause"))
        })
    }

    /// The last line of a traceback that no signature knows.
    fn exception(&mut self, line: &CleanLine, in_traceback: bool) {
        if let Some(rank) = summary_rank(&line.text)
            && self.is_root_of_summary(line)
        {
            self.text.summary_rank.get_or_insert(rank);
        }
        if line.level == Severity::Mild && !in_traceback {
            return;
        }
        let stream = self.text.context.stream(line.printer);
        let code = || match stream.map_or("", |s| s.code.as_str()) {
            "" if !in_traceback => Cow::Owned(sanitize(&self.text.line_before)),
            code => Cow::Borrowed(code),
        };
        let Some(signature) = exceptions::find(line.body(), code) else {
            if let Some(signature) = exceptions::said(&line.text, line.body())
                && !self.events.stands_on(self.source, line.number)
            {
                let event = LogEvent::new(signature, self.source, line, 0);
                self.text.said = Some(Box::new(self.placed(event, line)));
            }
            return;
        };
        if in_traceback || !exceptions::carries_another(signature) {
            self.fail(line, signature, 0, in_traceback);
        }
    }
}
