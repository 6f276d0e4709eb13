//! What happened in the logs of one attempt, in order: failures, what followed, what was survived.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::class::Class;
pub(crate) use super::event::LogEvent;
use super::kind;
use super::phase::{LOOP, PhaseMention};
use super::prefix::{CleanLine, Printer};
use super::rising::Count;
use super::signatures::{LineRole, Signature, weight};

/// Events that are remembered. When there are more, survived ones go first, then the latest but one:
/// the first failures and the last are what a verdict needs.
const EVENTS: usize = 96;

/// The events of all files, at most [`EVENTS`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Events {
    /// The first to be forgotten stand in front.
    list: VecDeque<LogEvent>,
    /// As many of them at the front were survived and are complete: no further line changes what they mean.
    #[serde(skip)]
    settled: usize,
    seen: u64,
    /// The script starts the next of several programs, whatever became of the one before.
    #[serde(skip)]
    pub(super) several: bool,
}

impl Events {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &LogEvent> {
        self.list.iter()
    }

    /// Does an event stand on this line?
    pub(crate) fn stands_on(&self, source: usize, line: u64) -> bool {
        self.latest(source).is_some_and(|e| e.line == line)
    }

    /// What a file said last.
    pub(crate) fn latest(&self, source: usize) -> Option<&LogEvent> {
        self.list.iter().rfind(|e| e.source == source)
    }

    /// How many were ever added.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Adds an event; a consequence tells that what failed before it in the same file was fatal.
    pub(crate) fn push(&mut self, mut event: LogEvent) {
        self.seen += 1;
        event.order = self.seen;
        if event.signature.role == LineRole::Consequence {
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

    fn mark(&mut self, source: usize, change: impl Fn(&mut LogEvent)) {
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
            let memory = kind::row(&e.signature.kind).class != Class::NotOom;
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
        let said = signature.weight == weight::SAID;
        self.mark(source, |e| {
            e.survived |= !said || (e.progressed && !e.dead);
        });
    }

    /// Training shows `step` finished steps; `anew` when it counts from its beginning.
    pub(crate) fn progress(&mut self, source: usize, step: u64, anew: bool) {
        let several = self.several;
        for e in self.unsettled(source) {
            e.progress(step, anew, several);
        }
        self.settle();
    }

    /// A line of the file counts.
    pub(crate) fn count(&mut self, source: usize, count: &Count, printer: Printer) {
        let several = self.several;
        for e in self.unsettled(source) {
            e.count(count, printer, several);
        }
        self.settle();
    }

    /// Does a failure of this file wait for a sign that the program goes on?
    pub(crate) fn waits(&self, source: usize) -> bool {
        let mut unsettled = self.list.range(self.settled..);
        unsettled.any(|e| e.source == source && e.waits())
    }

    fn settle(&mut self) {
        let settled = |e: &LogEvent| e.survived && e.open == 0;
        while self.list.get(self.settled).is_some_and(settled) {
            self.settled += 1;
        }
    }

    /// The events of a file that can still change.
    fn unsettled(&mut self, source: usize) -> impl Iterator<Item = &mut LogEvent> {
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
    pub(crate) fn absorb(&mut self, source: usize, line: &CleanLine) {
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
        found: PhaseMention,
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
