//! The streaming scanner: bytes of several files in, an incident out.
//!
//! It is pure and holds a bounded amount per file (one window of a line, the frames of the latest
//! tracebacks, the events). What it says does not depend on how the bytes were cut into pieces.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use oomctl_base::job::JobStatus;

use super::bugs::{Bugs, Versions};
use super::class::Class;
use super::clean::{clip, sanitize};
use super::course::{self, MemoryCourse, Records};
use super::events::{Events, LogEvent};
use super::findings::Findings;
use super::incident::Incident;
use super::lines::Splitter;
use super::pass::Pass;
use super::prefilter::PrefilterHits;
use super::prefix::body_of;
use super::progress::{ProgressPattern, ProgressPatterns, ProgressTrack};
use super::reached::Progress;
use super::reader::{LAST_LINE, SourceText};
use super::signatures::{UserSignature, UserTable};
use super::tail::Tail;
use super::tenants::Ours;
use super::verdict;

/// A file that was registered with [`Scanner::source`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceId(pub(super) usize);

/// What the logs say so far; see [`Scanner::digest`].
#[derive(Debug, Clone, PartialEq)]
pub struct Digest {
    /// How far training has come in this attempt.
    pub progress: Option<Progress>,
    /// The failure of which the attempt seems to die; `None` while there is none, or where it was
    /// survived.
    pub incident: Option<Incident>,
    /// Lines seen in all files.
    pub lines_seen: u64,
    /// The latest line that is not blank, sanitised, at most 1,000 characters.
    pub last_line: String,
    /// Bytes that the incident's file grew by after its root line.
    pub bytes_after_incident: u64,
    /// Training steps finished after the incident, by any file: while this grows the incident may yet
    /// turn out to be survived.
    pub steps_after_incident: u64,
}

/// Reads the log files of one attempt of a job.
///
/// Feed files in the order in which they grow. [`Scanner::digest`] answers at any time;
/// [`Scanner::verdict`] joins the text with what the scheduler says.
///
/// It can be written down (as [`Serialize`] does) and taken up again by [`Scanner::resume`].
#[derive(Debug, Serialize)]
pub struct Scanner {
    #[serde(skip)]
    patterns: Arc<ProgressPatterns>,
    pub(super) sources: Vec<LogSource>,
    pub(super) events: Events,
    pub(super) ours: Ours,
    #[serde(skip)]
    table: UserTable,
    /// What is known of bugs; asked for only where an attempt died of memory.
    #[serde(skip)]
    bugs: Option<fn() -> &'static Bugs>,
    /// Bugs of the project's own tables.
    #[serde(skip)]
    own_bugs: Bugs,
    /// Versions of packages in the environment of the job.
    #[serde(skip)]
    installed: Versions,
    /// Reused from block to block.
    #[serde(skip)]
    found: PrefilterHits,
    #[cfg(test)]
    #[serde(skip)]
    pub(super) naive: bool,
}

/// One file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LogSource {
    pub name: String,
    pub(super) splitter: Splitter,
    pub(super) text: SourceText,
    #[serde(default)]
    tail: Tail,
    /// Nothing was fed since registration or restart: the next offset is taken as it comes.
    fresh: bool,
}

impl LogSource {
    /// The traceback in whose middle the file ends, or the last that a program says of a failure.
    fn unfinished(&self) -> Option<&LogEvent> {
        const LINES: u64 = 120;
        const SAID_LINES: u64 = 40;
        let lines = self.splitter.lines_seen();
        let cut_off = self.text.unfinished.as_deref();
        let said = self.text.said.as_deref();
        cut_off
            .filter(|e| e.line + LINES >= lines)
            .or(said.filter(|e| e.line + SAID_LINES >= lines))
    }
}

impl Scanner {
    /// A scanner that knows these progress patterns, the more trusted ones first, and the built-in
    /// ones behind them.
    pub fn new(progress: &[ProgressPattern]) -> Self {
        Self {
            patterns: ProgressPatterns::of(progress),
            sources: Vec::new(),
            events: Events::default(),
            ours: Ours::default(),
            table: UserTable::default(),
            bugs: None,
            own_bugs: Bugs::default(),
            installed: Versions::default(),
            found: PrefilterHits::default(),
            #[cfg(test)]
            naive: false,
        }
    }

    /// The same with signatures of the project's own. One that [`UserSignature::check`] refuses is left
    /// out.
    pub fn knowing(mut self, signatures: &[UserSignature]) -> Self {
        self.table = UserTable::new(signatures);
        self
    }

    /// The same with tables of bugs, and the versions of packages that are installed where the job runs.
    pub fn knowing_bugs(mut self, bugs: fn() -> &'static Bugs, installed: Versions) -> Self {
        (self.bugs, self.installed) = (Some(bugs), installed);
        self
    }

    /// The same with a project's own tables of bugs.
    pub fn knowing_own_bugs(mut self, own: &Bugs) -> Self {
        self.own_bugs = own.clone();
        self
    }

    /// The same for the logs of a script that starts the next of `several` programs, whatever became of the one before.
    pub fn of_several_programs(mut self, several: bool) -> Self {
        self.events.several = several;
        self
    }

    /// Registers a file under the name that evidence shows.
    pub fn source(&mut self, name: &str) -> SourceId {
        // There are thousands of scanners, most of them of one or two files.
        self.sources.reserve_exact(1);
        self.sources.push(LogSource {
            name: sanitize(name.as_bytes()),
            splitter: Splitter::new(),
            text: SourceText::default(),
            tail: Tail::default(),
            fresh: true,
        });
        SourceId(self.sources.len() - 1)
    }

    /// Takes the bytes of a file from `offset` on. Bytes that were fed before are skipped; after a gap
    /// the unfinished line is given up.
    pub fn feed(&mut self, source: SourceId, offset: u64, bytes: &[u8]) {
        let Some(file) = self.sources.get_mut(source.0) else {
            return;
        };
        let fresh = std::mem::take(&mut file.fresh);
        let position = file.splitter.position();
        let known = if fresh {
            0
        } else {
            position.saturating_sub(offset)
        };
        let skip = usize::try_from(known)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let bytes = &bytes[skip..];
        if fresh {
            self.sources[source.0].splitter.restart_at(offset);
        } else if offset > position {
            self.finish_source(source);
            self.sources[source.0].splitter.restart_at(offset);
            self.sources[source.0].tail = Tail::default();
        }
        self.sources[source.0].tail.take(bytes);
        let (splitter, mut pass) = self.pass(source.0);
        splitter.feed(bytes, &mut pass);
    }

    /// What was fed so far from this file belongs to an earlier run of the job (requeue, truncation,
    /// replacement). The next bytes may begin at any offset; at 0 line numbers begin anew.
    pub fn restart(&mut self, source: SourceId) {
        let Some(file) = self.sources.get_mut(source.0) else {
            return;
        };
        file.fresh = true;
        // Its unfinished line is of the earlier run too, also when nothing follows.
        file.splitter.restart_at(file.splitter.position());
        file.text = SourceText::default();
        file.tail = Tail::default();
        file.text.earlier = true;
        self.events.forget(source.0);
    }

    /// Reads a last line that has no newline (the node died in mid-word).
    pub fn finish_source(&mut self, source: SourceId) {
        if source.0 < self.sources.len() {
            let (splitter, mut pass) = self.pass(source.0);
            splitter.finish(&mut pass);
        }
    }

    /// What the logs say so far. Cheap enough to ask at every poll.
    pub fn digest(&self) -> Digest {
        let findings = self.findings().without_earlier_part(None);
        let root = verdict::live_root(&findings);
        let finished = findings.progress.as_ref().map_or(0, |p| p.step);
        Digest {
            lines_seen: self.sources.iter().map(|s| s.splitter.lines_seen()).sum(),
            last_line: self.last_line(),
            bytes_after_incident: root.map_or(0, |event| {
                let end = self.sources[event.source].splitter.position();
                end.saturating_sub(event.end)
            }),
            steps_after_incident: root
                .and_then(|event| event.step)
                .map_or(0, |step| finished.saturating_sub(step)),
            incident: root.map(|event| self.naming_bugs(verdict::describe(&findings, event))),
            progress: findings.progress,
        }
    }

    /// Why the attempt ended: the text joined with what the scheduler says, where it is known.
    pub fn verdict(&self, job: Option<&JobStatus>) -> Incident {
        self.naming_bugs(verdict::judge(self.findings(), job))
    }

    /// An incident with the bugs that it is, or may be.
    fn naming_bugs(&self, mut incident: Incident) -> Incident {
        if incident.class == Class::NotOom {
            return incident;
        }
        let trace = self.trace(&incident);
        incident.innermost = trace.last().cloned();
        let Some(bugs) = self.bugs else {
            return incident;
        };
        let mut versions = Versions::default();
        for source in &self.sources {
            versions.and(&source.text.versions);
        }
        versions.or(&self.installed);
        incident.known_bugs = bugs().of(&self.own_bugs, &incident, trace, &versions);
        incident
    }

    /// The frames of the traceback of an incident's root, the outermost first.
    fn trace(&self, incident: &Incident) -> &[String] {
        let root = incident.evidence.first();
        let mut events = self.events.iter();
        let event = root.and_then(|root| {
            events.find(|e| e.offset == root.offset && self.sources[e.source].name == root.file)
        });
        event.map_or(&[][..], |event| &event.trace)
    }

    fn findings(&self) -> Findings<'_> {
        let track = self.best_track();
        Findings {
            events: &self.events,
            files: self.sources.iter().map(|s| s.name.as_str()).collect(),
            ours: &self.ours,
            progress: self.progress(),
            moved: track.is_some_and(|t| t.moved),
            summary_rank: self.sources.iter().find_map(|s| s.text.summary_rank),
            earlier: self.sources.iter().any(|s| s.text.earlier),
            since: 0,
            unfinished: self.sources.iter().find_map(LogSource::unfinished),
            progress_line: self.progress_line(),
            tails: self.sources.iter().map(|s| &s.tail).collect(),
            records: self.records(),
            ambient: self
                .sources
                .iter()
                .rev()
                .find_map(|s| s.text.ambient(s.splitter.lines_seen())),
            lines: self
                .sources
                .iter()
                .map(|s| s.splitter.lines_seen())
                .collect(),
        }
    }

    /// Did no source have a line so far?
    pub fn is_without_lines(&self) -> bool {
        let mut sources = self.sources.iter();
        sources.all(|s| s.splitter.lines_seen() == 0)
    }

    /// What memory does over the steps while the attempt is alive, where it rises, with the seconds of a usual step.
    pub fn rising(&self) -> (Vec<MemoryCourse>, Option<f64>) {
        let records = self.records();
        records.map_or_else(Default::default, |r| (course::ahead(r), r.step_s()))
    }

    /// The figures of the log that has most of them.
    pub(super) fn records(&self) -> Option<&Records> {
        let all = self.sources.iter().filter_map(|s| s.text.track.records());
        all.max_by_key(|records| records.len())
    }

    fn best_track(&self) -> Option<&ProgressTrack> {
        let tracks = self.sources.iter().map(|s| &s.text.track);
        tracks
            .filter(|t| t.progress().is_some())
            .min_by_key(|t| t.trust())
    }

    /// The line of the most trusted pattern that was seen last.
    fn progress_line(&self) -> Option<String> {
        let shown = self
            .sources
            .iter()
            .filter(|s| s.text.track.progress().is_some());
        let latest = shown.min_by_key(|s| s.text.track.trust())?;
        let line = sanitize(&latest.text.progress_line);
        Some(clip(body_of(&line).trim()))
    }

    /// How far training has come: by the most trusted file; how many steps there are may stand in another one.
    pub fn progress(&self) -> Option<Progress> {
        let best = self.best_track()?.progress()?;
        let others = self.sources.iter().filter_map(|s| s.text.track.progress());
        let longest = others.filter_map(|p| p.total).max();
        Some(Progress {
            total: best.total.or(longest.filter(|total| *total >= best.step)),
            ..best
        })
    }

    fn last_line(&self) -> String {
        let latest = self.sources.iter().rev().find_map(|s| {
            let unfinished = s.splitter.unfinished();
            let line = if unfinished.iter().all(u8::is_ascii_whitespace) {
                &s.text.last_line[..]
            } else {
                unfinished
            };
            (!line.is_empty()).then(|| sanitize(&line[..line.len().min(LAST_LINE)]))
        });
        latest.map(|l| clip(l.trim())).unwrap_or_default()
    }

    /// One file's splitter, and what its lines go through.
    fn pass(&mut self, source: usize) -> (&mut Splitter, Pass<'_>) {
        let file = &mut self.sources[source];
        let pass = Pass {
            source,
            text: &mut file.text,
            events: &mut self.events,
            ours: &mut self.ours,
            table: &self.table,
            patterns: &self.patterns,
            found: &mut self.found,
            #[cfg(test)]
            naive: self.naive,
        };
        (&mut file.splitter, pass)
    }
}
