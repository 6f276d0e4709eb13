//! A scanner that outlives its process: what it has understood of the logs, written down and taken up again.
//!
//! The text before cannot be read again for this: it may be truncated or gone by then, and how the lines of
//! two files were interleaved stands in neither. What is written is bounded, for the scanner is.

use serde::Deserialize;

use super::events::Events;
use super::scanner::{LogSource, Scanner, SourceId};
use super::tenants::Ours;

/// What a scanner had understood, as [`Scanner`] writes itself.
#[derive(Debug, Deserialize)]
pub struct ScannerState {
    sources: Vec<LogSource>,
    events: Events,
    ours: Ours,
}

impl Scanner {
    /// Goes on from where another scanner, with the same patterns and signatures, was written down. False
    /// when what was written cannot be right; the scanner is then as it was.
    pub fn resume(&mut self, kept: ScannerState) -> bool {
        let files = kept.sources.len();
        if kept.events.iter().any(|event| event.source >= files) {
            return false;
        }
        let several = self.events.several;
        (self.sources, self.events, self.ours) = (kept.sources, kept.events, kept.ours);
        self.events.several = several;
        true
    }

    /// How many things that may matter were found in all files so far.
    pub fn events_seen(&self) -> u64 {
        self.events.seen()
    }

    /// Is this a file of this scanner?
    pub fn has(&self, source: SourceId) -> bool {
        source.0 < self.sources.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stories::busy_scraps;
    use crate::{Digest, Incident, UserSignature};

    fn scanner() -> Scanner {
        let own = serde_json::from_str::<UserSignature>(
            r#"{"id": "own", "kind": "device_oom", "contains": "skipping batch", "fatal": true}"#,
        );
        Scanner::new(&[]).knowing(&[own.unwrap()])
    }

    /// The process is killed and another takes up what the first wrote down.
    fn again(scanner: &Scanner) -> Scanner {
        let text = serde_json::to_string(scanner).unwrap();
        let mut next = self::scanner();
        assert!(next.resume(serde_json::from_str(&text).unwrap()));
        assert_eq!(serde_json::to_string(&next).unwrap(), text);
        next
    }

    /// What is said of two files that grow by turns, the first of which is truncated at the `truncated`-th.
    fn said(
        bytes: &[u8],
        at: &[usize],
        truncated: usize,
        between: impl Fn(Scanner) -> Scanner,
    ) -> (Incident, Digest) {
        let mut scanner = scanner();
        let files = [scanner.source("slurm.err"), scanner.source("slurm.out")];
        let mut ends = [0, 0];
        for (turn, cut) in at.windows(2).enumerate() {
            let (file, part) = (turn % 2, &bytes[cut[0]..cut[1]]);
            if turn == truncated {
                scanner.restart(files[0]);
                ends[0] = 0;
                scanner = between(scanner);
            }
            scanner.feed(files[file], ends[file], part);
            ends[file] += part.len() as u64;
            scanner = between(scanner);
        }
        for file in files {
            scanner.finish_source(file);
        }
        (scanner.verdict(None), scanner.digest())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_scanner_that_is_taken_up_again_says_what_it_would_have_said(
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
            truncated in 0_usize..20,
        ) {
            let scraps = busy_scraps();
            let bytes: Vec<u8> = picks.iter().flat_map(|i| i.get(&scraps).bytes()).collect();
            let mut at: Vec<usize> = cuts.iter().map(|i| i.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let lived = said(&bytes, &at, truncated, |scanner| scanner);
            let died = said(&bytes, &at, truncated, |scanner| again(&scanner));
            prop_assert_eq!(lived, died);
        }
    }

    #[test]
    fn an_event_of_a_file_that_is_not_there_is_refused() {
        let mut scanner = scanner();
        let file = scanner.source("slurm.err");
        scanner.feed(file, 0, b"torch.OutOfMemoryError: CUDA out of memory.\n");
        let mut kept = serde_json::to_value(&scanner).unwrap();
        kept["sources"] = serde_json::json!([]);
        let before = scanner.digest();
        assert!(!scanner.resume(serde_json::from_value(kept).unwrap()));
        assert_eq!(scanner.digest(), before);
    }
}
