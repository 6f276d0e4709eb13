//! One pass over what a splitter hands out: which lines are read, and what is put off.
//!
//! Most places that the prefilter finds are announcements of which only the latest counts: a redrawn bar, a
//! notice that rollout has begun. They are noted, and looked at when a line is read or the block ends.
//! What is read, and what is known afterwards, does not depend on how the bytes were cut.

use super::events::Events;
use super::lines::{LineBlock, LinePiece, Sink, WINDOW, each_line};
use super::prefilter::{Bar, BarMatch, Hit, PREFILTER, PrefilterHits, What};
use super::prefix::CleanLine;
use super::progress::{self, ProgressPatterns};
use super::reached::Progress;
use super::reader::{LineReader, SourceText};
use super::rising;
use super::signatures::UserTable;
use super::tenants::Ours;

/// What one file's bytes go through.
pub(super) struct Pass<'a> {
    pub(super) source: usize,
    pub(super) text: &'a mut SourceText,
    pub(super) events: &'a mut Events,
    pub(super) ours: &'a mut Ours,
    pub(super) table: &'a UserTable,
    pub(super) patterns: &'a ProgressPatterns,
    /// Reused from block to block.
    pub(super) found: &'a mut PrefilterHits,
    /// Reads every line with plain searches: what the fast way must agree with.
    #[cfg(test)]
    pub(super) naive: bool,
}

/// Where a pass over a block stands.
#[derive(Debug)]
struct Cursor<'f> {
    found: &'f PrefilterHits,
    /// What lies before was read or can be left out.
    done: usize,
    /// The latest line is known up to here.
    noted: usize,
    /// What lies before was asked whether it counts.
    counted_to: usize,
    /// A line that shows progress and need not be looked at yet.
    bar: Option<(usize, BarMatch)>,
    /// The latest announcement of a phase.
    ambient: Option<(u8, usize)>,
    /// A place before which the newlines are counted, and how many they are.
    counted: (usize, usize),
}

impl<'f> Cursor<'f> {
    fn new(found: &'f PrefilterHits) -> Self {
        Self {
            found,
            done: 0,
            noted: 0,
            counted_to: 0,
            bar: None,
            ambient: None,
            counted: (0, 0),
        }
    }

    /// Number of the line that a byte stands in.
    fn line(&mut self, block: &LineBlock<'_>, at: usize) -> u64 {
        let newlines = self.found.newlines_before(block.bytes, at, self.counted);
        self.counted = (at, newlines);
        block.line + newlines as u64
    }

    /// How many bars a line has that show progress or may.
    fn bars(&self, block: &LineBlock<'_>, start: usize, end: usize) -> usize {
        let of_line = self.found.between(start, end);
        let bars = of_line.iter().filter(|hit| match hit.what {
            What::Progress(bar) => bar.shown(block.bytes, hit.at) != BarMatch::Nothing,
            _ => false,
        });
        bars.count()
    }
}

impl Sink for Pass<'_> {
    fn block(&mut self, block: LineBlock<'_>) -> u64 {
        self.text.versions.take(block.bytes, block.offset);
        #[cfg(test)]
        if self.naive {
            return self.every_line(block);
        }
        let mut found = std::mem::take(self.found);
        // A bar of a pattern that is trusted less than the one seen says nothing.
        let latest = self.text.track.latest_pattern();
        let counts = |number: &usize| latest.is_none_or(|p| p >= self.patterns.built_in[*number]);
        let wants = |bar: Bar| bar.patterns().iter().any(counts);
        PREFILTER.search(block.bytes, wants, &mut found);
        self.ask_others(block.bytes, &mut found.hits);
        let mut cursor = Cursor::new(&found);
        self.read_on(&block, &mut cursor);
        for hit in &found.hits {
            if hit.at >= cursor.done {
                let done = cursor.done;
                self.hit(&block, &mut cursor, *hit);
                if cursor.done > done {
                    self.read_on(&block, &mut cursor);
                }
            }
        }
        self.catch_up(&block, &mut cursor);
        self.count_up_to(&block, &mut cursor, block.bytes.len());
        self.text.note_last_line(&block.bytes[cursor.noted..]);
        let newlines = found.newlines as u64;
        *self.found = found;
        newlines
    }

    fn piece(&mut self, piece: LinePiece<'_>) {
        self.text.note_last_line(piece.bytes);
        #[cfg(test)]
        if self.naive {
            return self.naive_piece(piece);
        }
        let mut found = std::mem::take(self.found);
        PREFILTER.search(piece.bytes, |_| true, &mut found);
        let hits = &found.hits;
        let seen = LineFlags {
            read: hits.iter().any(|hit| self.wants(hit.what)),
            progress: hits.iter().any(|hit| match hit.what {
                What::Progress(bar) => bar.shown(piece.bytes, hit.at) != BarMatch::Nothing,
                _ => false,
            }),
            ambient: hits.iter().rev().find_map(|hit| match hit.what {
                What::Ambient(marker) => Some(marker),
                _ => None,
            }),
        };
        self.see(piece, &seen);
        self.text.track.figures(piece.bytes, &found.hits);
        *self.found = found;
    }
}

/// What stands in a line.
#[derive(Debug, Default)]
struct LineFlags {
    read: bool,
    progress: bool,
    ambient: Option<u8>,
}

impl Pass<'_> {
    /// Is a line with this to be read? The first announcement of each phase tells who runs here; later ones
    /// say only that it is going on.
    fn wants(&self, what: What) -> bool {
        match what {
            What::Read => true,
            What::Ambient(marker) => self.text.context.is_new(marker),
            What::Progress(_) | What::Figure(_) => false,
        }
    }

    fn attentive(&self) -> bool {
        self.text.attentive(self.events, self.source)
    }

    fn reader(&mut self) -> LineReader<'_> {
        LineReader {
            source: self.source,
            text: self.text,
            events: self.events,
            ours: self.ours,
            table: self.table,
        }
    }

    /// A line, or a window of one, of which everything is known.
    fn see(&mut self, piece: LinePiece<'_>, seen: &LineFlags) {
        let waited = self.events.waits(self.source);
        self.look_at(piece, seen);
        if piece.starts_line && waited && self.events.waits(self.source) {
            self.count(piece.bytes);
        }
    }

    fn look_at(&mut self, piece: LinePiece<'_>, seen: &LineFlags) {
        if self.attentive() || seen.read || self.table.may_match(piece.bytes) {
            let line = CleanLine::read(piece);
            let patterns = self.patterns;
            let held = PREFILTER.held(&line.text);
            let mut reader = self.reader();
            if held.bar || !patterns.others.is_empty() {
                reader.progress(&line, piece.bytes, &patterns.list);
            }
            reader.read(&line, &held);
            return;
        }
        if let Some(marker) = seen.ambient {
            self.text.context.announce(marker, piece.line);
        }
        let mut others = self.patterns.others.iter().map(|i| &self.patterns.list[*i]);
        if seen.progress || others.any(|p| p.may_match(piece.bytes)) {
            let line = CleanLine::read(piece);
            let patterns = self.patterns;
            self.reader().progress(&line, piece.bytes, &patterns.list);
        }
    }

    /// Takes a line that may count, while a failure waits for its meaning.
    fn count(&mut self, line: &[u8]) {
        if let Some(counted) = rising::read(line) {
            self.events
                .count(self.source, &counted.count, counted.printer);
        }
    }

    /// The same for the lines before a byte that nothing else reads.
    fn count_up_to(&mut self, block: &LineBlock<'_>, cursor: &mut Cursor<'_>, to: usize) {
        let from = cursor.counted_to;
        cursor.counted_to = from.max(to);
        if from >= to || !self.events.waits(self.source) {
            return;
        }
        each_line(
            &block.bytes[from..to],
            |at| rising::next_in(&block.bytes[from..to], at),
            |at| {
                let (start, end) = block.line_at(from + at);
                self.count(&block.bytes[start..end]);
            },
        );
    }

    /// Adds the lines in which a project's own signatures and patterns could matter. These have their
    /// regular expressions only, so this is slower than the prefilter.
    fn ask_others(&self, block: &[u8], hits: &mut Vec<Hit>) {
        let known = hits.len();
        if let Some(filter) = self.table.filter() {
            each_line(
                block,
                |from| filter.find_at(block, from).map(|m| m.start()),
                |at| {
                    hits.push(Hit {
                        at,
                        what: What::Read,
                    });
                },
            );
        }
        for number in &self.patterns.others {
            let pattern = &self.patterns.list[*number];
            each_line(
                block,
                |from| pattern.next_in(block, from),
                |at| {
                    hits.push(Hit {
                        at,
                        what: What::Progress(Bar::Other),
                    });
                },
            );
        }
        if hits.len() > known {
            hits.sort_by_key(|hit| hit.at);
        }
    }

    /// Reads lines while one that was read asks for the next.
    fn read_on(&mut self, block: &LineBlock<'_>, cursor: &mut Cursor<'_>) {
        while cursor.done < block.bytes.len() && self.attentive() {
            self.line(block, cursor, cursor.done);
        }
    }

    fn hit(&mut self, block: &LineBlock<'_>, cursor: &mut Cursor<'_>, hit: Hit) {
        match hit.what {
            what if self.wants(what) => self.line(block, cursor, hit.at),
            What::Read => {}
            What::Ambient(marker) => cursor.ambient = Some((marker, hit.at)),
            What::Progress(bar) => self.bar(block, cursor, bar, hit.at),
            What::Figure(_) => {
                self.catch_up(block, cursor);
                self.text.track.figures(block.bytes, &[hit]);
            }
        }
    }

    /// A bar is put off while it can only say what a later one says as well.
    fn bar(&mut self, block: &LineBlock<'_>, cursor: &mut Cursor<'_>, bar: Bar, at: usize) {
        let shown = bar.shown(block.bytes, at);
        if shown == BarMatch::Nothing {
            return;
        }
        if let BarMatch::Step {
            pattern,
            step,
            total,
            initial,
        } = shown
            && let Some(latest) = self.text.track.latest_pattern()
        {
            let pattern = self.patterns.built_in[pattern];
            if latest < pattern {
                return;
            }
            let before = cursor.bar;
            if !before.is_none_or(|(_, before)| before.goes_on(step, total)) {
                self.catch_up(block, cursor);
            }
            let track = &self.text.track;
            if latest == pattern
                && track.moved
                && !initial
                && track.goes_on(step, total)
                && (track.is_at(step) || self.events.all_survived(self.source))
            {
                cursor.bar = Some((at, shown));
                return;
            }
        }
        self.catch_up(block, cursor);
        self.progress_line(block, cursor, at, shown);
    }

    /// Takes a line with a bar that shows this. Where it is the only one in the line, all is known already.
    fn progress_line(
        &mut self,
        block: &LineBlock<'_>,
        cursor: &mut Cursor<'_>,
        at: usize,
        shown: BarMatch,
    ) {
        let (start, end) = block.line_at(at);
        if end - start >= WINDOW {
            // A giant line is read in windows, here and in pieces alike.
            self.line(block, cursor, at);
            return;
        }
        self.count_up_to(block, cursor, start);
        let alone = cursor.bars(block, start, end) == 1;
        let patterns = self.patterns;
        match shown {
            BarMatch::Step {
                pattern,
                step,
                total,
                ..
            } if alone && patterns.others.is_empty() => {
                let line = &block.bytes[start..end];
                let progress = Progress::new(step, total);
                let pattern = patterns.built_in[pattern];
                let known = progress::LineProgress::known(pattern, progress, line);
                self.reader().shown(known, line);
            }
            _ => {
                let number = cursor.line(block, start);
                for piece in block.pieces(start, end, number) {
                    let line = CleanLine::read(piece);
                    self.reader().progress(&line, piece.bytes, &patterns.list);
                }
            }
        }
    }

    /// Looks at what was put off.
    fn catch_up(&mut self, block: &LineBlock<'_>, cursor: &mut Cursor<'_>) {
        if let Some((marker, at)) = cursor.ambient.take() {
            let number = cursor.line(block, at);
            self.text.context.announce(marker, number);
        }
        if let Some((at, shown)) = cursor.bar.take() {
            self.progress_line(block, cursor, at, shown);
        }
    }

    /// Reads the line that holds a byte.
    fn line(&mut self, block: &LineBlock<'_>, cursor: &mut Cursor<'_>, at: usize) {
        self.catch_up(block, cursor);
        let (start, end) = block.line_at(at);
        self.count_up_to(block, cursor, start);
        cursor.counted_to = cursor.counted_to.max(end + 1);
        let number = cursor.line(block, start);
        self.text
            .note_last_line(&block.bytes[cursor.noted.min(start)..start]);
        for piece in block.pieces(start, end, number) {
            if end - start >= WINDOW {
                self.piece(piece);
                continue;
            }
            self.text.note_last_line(piece.bytes);
            let read = LineFlags {
                read: true,
                ..LineFlags::default()
            };
            self.see(piece, &read);
            let of_line = cursor.found.between(start, end);
            self.text.track.figures(block.bytes, of_line);
        }
        cursor.done = end + 1;
        cursor.noted = cursor.done.min(block.bytes.len());
    }
}

#[cfg(test)]
impl Pass<'_> {
    /// The oracle: every line, one after the other.
    fn every_line(&mut self, block: LineBlock<'_>) -> u64 {
        let (mut at, mut newlines) = (0, 0);
        while at < block.bytes.len() {
            let (start, end) = block.line_at(at);
            for piece in block.pieces(start, end, block.line + newlines) {
                self.piece(piece);
            }
            newlines += u64::from(block.bytes[end] == b'\n');
            at = end + 1;
        }
        newlines
    }

    fn naive_piece(&mut self, piece: LinePiece<'_>) {
        use super::prefilter::naive;
        let markers = naive::ambient(piece.bytes);
        let seen = LineFlags {
            read: naive::is_read(piece.bytes)
                || markers.iter().any(|m| self.text.context.is_new(*m)),
            progress: true,
            ambient: markers.last().copied(),
        };
        self.see(piece, &seen);
        for (at, number) in naive::figures(piece.bytes) {
            self.text.track.note(piece.bytes, at, number);
        }
    }
}
