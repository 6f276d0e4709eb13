//! What stands around a message: the traceback of the one who printed it, and what was going on.

use std::collections::VecDeque;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use super::clean::clip;
use super::frame::{Frame, FrameShape};
use super::frame_marks::FrameMarks;
use super::phase::{self, PhaseMention};
use super::prefix::{CleanLine, Printer};
use super::replicas;
use super::signatures::CompiledSignature;
use super::traceback_part::{TracebackPart, classify, numbered};

/// Frames of one traceback that are remembered, the heaviest of a longer one included.
const FRAMES: usize = 48;

/// Frames of one traceback whose places are remembered, the innermost.
const TRACE: usize = 24;

/// Frames of the user's own code in one traceback that are remembered: the outermost, and the innermost.
const OWN: usize = 12;

/// Printers (ranks, Ray actors) of one file that are told apart; the least recent is forgotten.
const PRINTERS: usize = 64;

/// Lines after which frames without a traceback's end belong to nothing any more.
const STALE_LINES: u64 = 60;

/// The source line that is looked at for an assertion, in characters.
const CODE_CHARS: usize = 200;

/// One printer's traceback.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct TracebackStream {
    printer: Printer,
    frames: Vec<PhaseMention>,
    /// Inside a traceback, before its last line.
    pub open: bool,
    /// Line of the latest frame.
    latest: u64,
    /// "The above exception was …": the next traceback continues this one.
    chained: bool,
    /// Who printed the latest frame, and how many of the next lines may be its source.
    source: Option<(FrameShape, u8)>,
    /// The first part of a frame that a narrow box breaks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    broken: String,
    /// The latest source line shown.
    pub code: String,
    /// The innermost frame, and the innermost of the user's own code.
    innermost: Option<Frame>,
    users: Option<Frame>,
    /// Those of the user's own code, the outermost first: the innermost stands last also where there are more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    own: Vec<Frame>,
    /// The latest frames, as `path/file.py:function`.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    trace: VecDeque<String>,
    /// What they show.
    #[serde(default)]
    marks: FrameMarks,
}

/// Lines of source that a notebook or a box shows for one frame.
const SOURCE_LINES: u8 = 16;

impl TracebackStream {
    /// Takes a line and says what it is.
    fn take(&mut self, line: &CleanLine) -> TracebackPart {
        static HEAD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("Traceback (most"));
        static CHAIN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("above exception"));
        let body = line.body();
        let holds = |finder: &Finder<'_>| finder.find(body.as_bytes()).is_some();
        if holds(&HEAD) {
            if !self.chained {
                self.frames.clear();
                self.trace.clear();
            }
            self.forget_places();
            self.marks = FrameMarks::default();
            self.source = None;
            self.chained = false;
            self.open = true;
            self.latest = line.number;
            return TracebackPart::Head;
        }
        if holds(&CHAIN) {
            self.chained = true;
            return TracebackPart::Plain;
        }
        let whole = self.unbroken(body);
        let shown = whole.as_deref().unwrap_or(body);
        if let Some((frame, shape)) = Frame::read(shown) {
            self.frame(line, shown, frame, shape);
            return TracebackPart::Frame;
        }
        if let Some(part) = Frame::broken(shown).filter(|_| self.open) {
            part.clone_into(&mut self.broken);
            self.latest = line.number;
            self.source = Some((FrameShape::Boxed, SOURCE_LINES));
            return TracebackPart::Code;
        }
        if let Some(code) = self.source_line(line, body) {
            self.code_line(code, body);
            return TracebackPart::Code;
        }
        match classify(body) {
            TracebackPart::Frame => {
                self.remember(line.phase());
                self.latest = line.number;
                self.open = true;
                TracebackPart::Frame
            }
            TracebackPart::Plain if line.text.contains('(') => {
                self.stray(line, body);
                TracebackPart::Plain
            }
            part => part,
        }
    }

    /// The line with what stands on the lines before it of a frame that a box breaks, where it goes on in the box.
    fn unbroken(&mut self, body: &str) -> Option<String> {
        let first = std::mem::take(&mut self.broken);
        let rest = body.trim_start().strip_prefix('│')?.trim_start();
        let gap = if first.contains(".py:") { " " } else { "" };
        (!first.is_empty()).then(|| format!("│ {first}{gap}{rest}"))
    }

    fn frame(&mut self, line: &CleanLine, body: &str, frame: Frame, shape: FrameShape) {
        if line.number > self.latest + STALE_LINES {
            self.frames.clear();
            self.trace.clear();
            self.forget_places();
            self.marks = FrameMarks::default();
        }
        if self.trace.len() == TRACE {
            self.trace.pop_front();
        }
        self.trace
            .push_back(clip(&format!("{}:{}", frame.file, frame.function)));
        let canonical = frame.canonical();
        self.marks.replicas |= replicas::in_frame(&frame);
        self.marks.see(&canonical);
        self.leave_the_optimizer(&canonical);
        // A frame and its source can be glued into one line.
        let found = phase::in_frame(body, Some(&frame)).or_else(|| line.phase());
        self.remember(found);
        self.latest = line.number;
        self.open = true;
        let lines = if shape == FrameShape::Plain {
            1
        } else {
            SOURCE_LINES
        };
        self.source = Some((shape, lines));
        if frame.is_users() {
            self.users = Some(frame.clone());
            self.own.truncate(OWN - 1);
            self.own.push(frame.clone());
        }
        self.innermost = Some(frame);
    }

    fn forget_places(&mut self) {
        (self.innermost, self.users) = (None, None);
        self.own.clear();
    }

    /// A line of source under a frame. `Some("")` for one that is only shown around the line itself.
    fn source_line<'l>(&mut self, line: &CleanLine, body: &'l str) -> Option<&'l str> {
        let (shape, left) = self.source?;
        let near = line.number <= self.latest + u64::from(SOURCE_LINES) + 2;
        if left == 0 || !near {
            self.source = None;
            return None;
        }
        let code = match shape {
            FrameShape::Plain => (body.starts_with("  ") && self.latest + 3 >= line.number)
                .then(|| body.trim_start_matches([' ', '|', '│'])),
            FrameShape::Notebook | FrameShape::Boxed => numbered(body),
        };
        self.source = code.is_some().then_some((shape, left - 1));
        code
    }

    fn code_line(&mut self, code: &str, body: &str) {
        if code.is_empty() {
            return;
        }
        self.leave_the_optimizer(code);
        self.remember(phase::in_frame(code, None));
        self.marks.see(code);
        self.marks.replicas &= !replicas::has_one_gpu(code);
        self.code = code.chars().take(CODE_CHARS).collect();
        let trimmed = self.code.trim();
        let places = [&mut self.innermost, &mut self.users].into_iter().flatten();
        for frame in places.chain(self.own.last_mut()) {
            if frame.code.is_empty() && !body.trim().starts_with('^') {
                trimmed.clone_into(&mut frame.code);
            }
        }
    }

    /// A step of training that the optimizer calls is not the optimizer's.
    fn leave_the_optimizer(&mut self, text: &str) {
        if phase::leaves_the_optimizer(text) {
            self.frames.retain(|f| f.phase != "optimizer_step");
        }
    }

    /// Where the program was: the innermost frame of the user's own code, or else the innermost.
    pub(crate) fn place(&self, number: u64) -> Option<&Frame> {
        (number <= self.latest + STALE_LINES)
            .then(|| self.users.as_ref().or(self.innermost.as_ref()))
            .flatten()
    }

    /// Does the innermost frame before line `number` hold this in its function or its source?
    fn innermost_holds(&self, text: &str, number: u64) -> bool {
        let near = number <= self.latest + STALE_LINES;
        let holds = |frame: &Frame| frame.function.contains(text) || frame.code.contains(text);
        near && self.innermost.as_ref().is_some_and(holds)
    }

    /// The frames of the traceback that ends on line `number`, the outermost first.
    pub(crate) fn trace(&self, number: u64) -> Vec<String> {
        let near = number <= self.latest + STALE_LINES;
        self.trace.iter().filter(|_| near).cloned().collect()
    }

    /// Those of them that are the user's own code.
    pub(crate) fn own_frames(&self, number: u64) -> Vec<Frame> {
        let near = number <= self.latest + STALE_LINES;
        self.own.iter().filter(|_| near).cloned().collect()
    }

    /// What the frames around line `number` show.
    pub(crate) fn marks(&self, number: u64) -> FrameMarks {
        match number <= self.latest + STALE_LINES {
            true => self.marks,
            false => FrameMarks::default(),
        }
    }

    /// A source line whose frame was lost among the lines of other ranks.
    fn stray(&mut self, line: &CleanLine, body: &str) {
        let found = line
            .phase()
            .filter(|f| f.weight >= phase::LOOP || body.contains("backward("));
        if found.is_some() {
            self.latest = line.number;
            self.remember(found);
        }
    }

    fn remember(&mut self, found: Option<PhaseMention>) {
        let Some(found) = found else { return };
        if self.frames.len() == FRAMES {
            let lightest = (0..FRAMES)
                .min_by_key(|i| self.frames[*i].weight)
                .unwrap_or(0);
            self.frames.remove(lightest);
        }
        self.frames.push(found);
    }

    /// The phase that the traceback shows, for a message on line `number`.
    pub(crate) fn phase(&self, number: u64) -> Option<PhaseMention> {
        (number <= self.latest + STALE_LINES)
            .then(|| phase::of(&self.frames))
            .flatten()
    }
}

/// All printers of one file, and what the file last announced.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Context {
    /// Most recent last.
    streams: Vec<TracebackStream>,
    ambient: Option<(PhaseMention, u64)>,
    /// Markers of [`phase::Markers::announced`] that were read, one bit each.
    read: u64,
}

impl Context {
    /// Takes a line with the markers of [`phase::Markers::announced`] in it; returns what it is and its printer's
    /// traceback.
    pub(crate) fn take(
        &mut self,
        line: &CleanLine,
        markers: &[u8],
    ) -> (TracebackPart, &mut TracebackStream) {
        for marker in markers {
            self.read |= 1 << marker;
            self.announce(*marker, line.number);
        }
        match self.streams.iter().position(|s| s.printer == line.printer) {
            Some(at) => self.streams[at..].rotate_left(1),
            None => self.begin(line.printer),
        }
        let last = self.streams.len() - 1;
        let stream = &mut self.streams[last];
        (stream.take(line), stream)
    }

    fn begin(&mut self, printer: Printer) {
        if self.streams.len() == PRINTERS {
            self.streams.remove(0);
        }
        if self.streams.is_empty() {
            // Most of thousands of logs have one printer.
            self.streams.reserve_exact(1);
        }
        self.streams.push(TracebackStream {
            printer,
            ..TracebackStream::default()
        });
    }

    /// The traceback of a printer.
    pub(crate) fn stream(&mut self, printer: Printer) -> Option<&mut TracebackStream> {
        self.streams.iter_mut().find(|s| s.printer == printer)
    }

    /// Is the traceback of the line's printer one that a signature is about?
    pub(crate) fn suits(&mut self, entry: &CompiledSignature, line: &CleanLine) -> bool {
        entry.signature.innermost.as_deref().is_none_or(|text| {
            let stream = self.stream(line.printer);
            stream.is_some_and(|s| s.innermost_holds(text, line.number))
        })
    }

    /// Was no line with this marker read yet?
    pub(crate) fn is_new(&self, marker: u8) -> bool {
        self.read >> marker & 1 == 0
    }

    /// A line announces a phase: a marker of [`phase::Markers::announced`].
    pub(crate) fn announce(&mut self, marker: u8, number: u64) {
        self.ambient = Some((phase::announced(marker), number));
    }

    /// What was going on at line `number`, by the lines that announce it.
    pub(crate) fn ambient(&self, number: u64) -> Option<PhaseMention> {
        self.ambient
            .filter(|(_, at)| number <= at + STALE_LINES)
            .map(|(found, _)| found)
    }

    /// Is the next line wanted whatever it holds? (The source line under a frame tells the phase.)
    pub(crate) fn wants_next(&self) -> bool {
        self.streams.last().is_some_and(|s| s.source.is_some())
    }
}
