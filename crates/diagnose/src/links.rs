//! Links that trackers of experiments print, to the pages of the run.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clean::sanitize;

/// Links that are kept of an attempt.
pub const LINKS_MAX: usize = 8;
/// Bytes of a line that are looked at; trackers print their links near its beginning.
const LINE_MAX: usize = 1_024;
/// What every link holds.
static SCHEME: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("://"));

/// Who prints links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tracker {
    /// Weights & Biases.
    Wandb,
    /// MLflow.
    Mlflow,
    /// `TensorBoard`, where the job serves it.
    Tensorboard,
}

impl Tracker {
    /// Its name, as it writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wandb => "W&B",
            Self::Mlflow => "MLflow",
            Self::Tensorboard => "TensorBoard",
        }
    }
}

/// A page of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// Whose.
    pub tracker: Tracker,
    /// Its address: ASCII, without credentials and without a query, in which there may be some.
    pub url: String,
}

/// The end of one log, in case a line goes on in the next read.
#[derive(Debug, Clone, Default)]
pub struct Seam(Vec<u8>);

impl Seam {
    /// The log begins anew.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn keep(&mut self, data: &[u8]) {
        let room = LINE_MAX.saturating_sub(self.0.len());
        self.0.extend_from_slice(&data[..data.len().min(room)]);
    }
}

/// Finds links in logs.
#[derive(Debug, Default)]
pub struct Links {
    found: Vec<Link>,
    /// How many were found in all.
    seen: usize,
}

impl Links {
    /// Takes the next bytes of a log.
    pub fn feed(&mut self, seam: &mut Seam, data: &[u8]) {
        let mut rest = data;
        if !seam.0.is_empty() {
            let Some(end) = memchr::memchr(b'\n', data) else {
                return seam.keep(data);
            };
            seam.keep(&data[..end]);
            let line = std::mem::take(&mut seam.0);
            self.line(&line);
            rest = &data[end + 1..];
        }
        let whole = memchr::memrchr(b'\n', rest).map_or(0, |end| end + 1);
        let (lines, open) = rest.split_at(whole);
        let mut from = 0;
        while let Some(at) = SCHEME.find(&lines[from..]).map(|at| from + at) {
            let start = memchr::memrchr(b'\n', &lines[..at]).map_or(0, |end| end + 1);
            let end = memchr::memchr(b'\n', &lines[at..]).map_or(lines.len(), |end| at + end);
            self.line(&lines[start..end]);
            from = end;
        }
        seam.keep(open);
    }

    /// The links that were found since this was last asked.
    pub fn take(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.found)
    }

    fn line(&mut self, line: &[u8]) {
        if self.seen >= LINKS_MAX {
            return;
        }
        if let Some(link) = link(&line[..line.len().min(LINE_MAX)])
            && !self.found.contains(&link)
        {
            self.seen += 1;
            self.found.push(link);
        }
    }
}

/// The link in a line that a tracker prints.
///
/// Sources: wandb, `printer.py` and `run.py` ("View run at …", at the end "View run NAME at: …"); mlflow,
/// `tracking/fluent.py` ("View run NAME at: …"); tensorboard, `program.py` ("TensorBoard 2.16.2 at … (Press CTRL+C to quit)").
fn link(line: &[u8]) -> Option<Link> {
    let text = sanitize(line);
    let at = text.find("https://").or_else(|| text.find("http://"))?;
    let (before, url) = text.split_at(at);
    let url = address(url)?;
    let tracker = match before.rsplit_once("View run") {
        Some(_) if url.contains("#/experiments/") => Tracker::Mlflow,
        // Some frameworks print the link themselves, as a line of their own log.
        Some((head, _))
            if url.contains("/runs/") && (head.contains("wandb:") || url.contains("wandb")) =>
        {
            Tracker::Wandb
        }
        Some(_) => return None,
        None if before.contains("TensorBoard ") && before.ends_with(" at ") => Tracker::Tensorboard,
        None => return None,
    };
    Some(Link { tracker, url })
}

/// The address that a text begins with.
fn address(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_graphic() && !"\"'<>`?".contains(c);
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let url = text[..end].trim_end_matches(['.', ',', ';', ')', '/']);
    let host = url.split_once("://")?.1.split('/').next()?;
    (!host.is_empty() && !host.contains('@')).then(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a log that comes in pieces of so many bytes.
    fn found(log: &str, pieces: usize) -> Vec<String> {
        let (mut links, mut seam) = (Links::default(), Seam::default());
        let mut all = Vec::new();
        for piece in log.as_bytes().chunks(pieces) {
            links.feed(&mut seam, piece);
            all.extend(links.take());
        }
        let shown = |l: Link| format!("{} {}", l.tracker.name(), l.url);
        all.into_iter().map(shown).collect()
    }

    const LOG: &str = "\
wandb: Currently logged in as: me (lab). Use `wandb login --relogin` to force relogin
wandb: \u{2b50}\u{fe0f} View project at \u{1b}[34m\u{1b}[4mhttps://wandb.ai/lab/path-star\u{1b}[0m
\u{1b}[36m(WorkerDict pid=77)\u{1b}[0m wandb: \u{1f680} View run at \u{1b}[34m\u{1b}[4mhttps://wandb.ai/lab/path-star/runs/x1y2z3\u{1b}[0m
wandb:  View run at https://wandb.example.org/lab/p/runs/abc?apiKey=0123456789abcdef
\u{1f3c3} View run able-cow-12 at: http://tracking:5000/#/experiments/3/runs/0a1b2c
\u{1f9ea} View experiment at: http://tracking:5000/#/experiments/3
TensorBoard 2.16.2 at http://node7:6006/ (Press CTRL+C to quit)
INFO:     Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)
wandb: View run at https://me:secret@wandb.example.org/lab/p/runs/abc
see https://wandb.ai/site for how to View run pages
";

    #[test]
    fn links_are_found_however_the_log_is_cut_and_without_what_may_be_secret() {
        let expected = [
            "W&B https://wandb.ai/lab/path-star/runs/x1y2z3",
            "W&B https://wandb.example.org/lab/p/runs/abc",
            "MLflow http://tracking:5000/#/experiments/3/runs/0a1b2c",
            "TensorBoard http://node7:6006",
        ];
        for pieces in [1, 2, 7, 64, 100_000] {
            assert_eq!(found(LOG, pieces), expected, "{pieces}");
        }
    }

    #[test]
    fn endless_lines_and_endless_links_take_no_room() {
        let (mut links, mut seam) = (Links::default(), Seam::default());
        for _ in 0..100 {
            links.feed(&mut seam, &[b'x'; 10_000]);
        }
        assert!(seam.0.len() <= LINE_MAX);
        for n in 0..1_000 {
            let line = format!("\nwandb: View run at https://wandb.ai/a/b/runs/{n}\n");
            links.feed(&mut seam, line.as_bytes());
        }
        assert_eq!(links.take().len(), LINKS_MAX);
    }
}
