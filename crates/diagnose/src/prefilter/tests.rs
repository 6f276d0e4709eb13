//! The prefilter against plain searches, at every place and alignment.

use proptest::prelude::*;

use super::needles::{PYTEST_FRAME, needles};
use super::*;
use crate::signatures;

/// Most needles that are too short for `ngrams`: each costs every log a little.
const SHORT_NEEDLES: usize = 57;

fn found(text: &[u8]) -> (bool, Vec<u8>, usize) {
    let mut found = PrefilterHits::default();
    PREFILTER.search(text, |_| true, &mut found);
    let PrefilterHits { hits, newlines, .. } = found;
    let read = hits.iter().any(|hit| hit.what == What::Read);
    let ambient = hits.iter().filter_map(|hit| match hit.what {
        What::Ambient(marker) => Some(marker),
        _ => None,
    });
    (read, ambient.collect(), newlines)
}

fn expected(text: &[u8]) -> (bool, Vec<u8>, usize) {
    let newlines = text.iter().filter(|b| **b == b'\n').count();
    (naive::is_read(text), naive::ambient(text), newlines)
}

#[test]
fn a_needle_is_found_at_every_alignment_and_at_both_ends() {
    for needle in needles().iter().filter(|n| n.what == What::Read) {
        let text = if needle.text == PYTEST_FRAME.as_bytes() {
            b"train.py:12: in main"
        } else {
            needle.text
        };
        for before in 0..70 {
            for behind in [0, 1, 40] {
                let line = [&b"z".repeat(before)[..], text, &b"z".repeat(behind)].concat();
                let shown = String::from_utf8_lossy(&line);
                assert!(found(&line).0, "{shown}");
            }
        }
    }
}

#[test]
fn ordinary_lines_hold_nothing() {
    for line in [
        "{'loss': 1.2, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.1}",
        "INFO 06-30 13:53:19 [worker.py:267] Memory profiling takes 4.26 seconds",
        "\u{1b}[36m(WorkerDict pid=4321)\u{1b}[0m Before update policy, memory allocated (GB): 12.01",
        "Therefore the answer is 42. Note: in the first case x | y.",
    ] {
        assert_eq!(found(line.as_bytes()), (false, vec![], 0), "{line}");
    }
}

#[test]
fn a_signature_has_a_long_literal_or_the_short_ones_are_few() {
    assert!(PREFILTER.short.needles.len() <= SHORT_NEEDLES);
    for signature in signatures::all() {
        assert!(!signature.contains.is_empty(), "{}", signature.id);
    }
}

#[test]
fn the_entries_of_a_line_are_those_whose_literals_it_holds() {
    for signature in signatures::all() {
        let line = signature.example.replace('\n', " ");
        let plain = signatures::all().enumerate().filter_map(|(entry, s)| {
            let places = s.contains.iter().filter_map(|l| line.find(l));
            Some((entry, places.min()?))
        });
        assert_eq!(
            PREFILTER.held(&line).entries,
            plain.collect::<Vec<_>>(),
            "{line}"
        );
    }
}

fn parts() -> Vec<Vec<u8>> {
    let mut parts: Vec<Vec<u8>> = needles().iter().map(|n| n.text.to_vec()).collect();
    let cut: Vec<Vec<u8>> = parts
        .iter()
        .flat_map(|p| [p[..p.len() / 2].to_vec(), p[p.len() / 2..].to_vec()])
        .collect();
    parts.extend(cut);
    let gaps = [
        "\0",
        "\0\0\0",
        "\u{1b}[1m",
        "\u{1b}[0m\u{1b}[31m",
        "^[[32m",
        "^[[",
        "\u{1b}]0;t\u{7}",
        "\u{1b}",
        "\u{1b}(B",
        "\u{1b}[",
    ];
    let plain = [
        " ",
        "x",
        "12: in f",
        "(a) ",
        ")",
        "\u{1b}[36m(W pid=1)\u{1b}[0m ",
        "é█",
        "0123456789abcdef",
    ];
    for _ in 0..8 {
        parts.extend(gaps.iter().chain(&plain).map(|t| t.as_bytes().to_vec()));
    }
    parts
}

#[test]
fn newlines_are_counted_up_to_any_place() {
    let mut found = PrefilterHits::default();
    for length in [0, 1, 63, 67, 4_095, 4_096, 4_097, 4_163, 8_192, 20_000] {
        let text: Vec<u8> = (0..length)
            .map(|i| {
                if i % 7 == 0 || i % 11 == 0 {
                    b'\n'
                } else {
                    b'x'
                }
            })
            .collect();
        PREFILTER.search(&text, |_| true, &mut found);
        let (mut newlines, mut counted) = (0, (0, 0));
        for at in 0..length {
            for counted in [(0, 0), counted, (length, 0)] {
                let before = found.newlines_before(&text, at, counted);
                assert_eq!(before, newlines, "{at} of {length}");
            }
            if at % 97 == 0 {
                counted = (at, newlines);
            }
            newlines += usize::from(text[at] == b'\n');
        }
        assert_eq!(found.newlines, newlines, "{length}");
    }
}

#[test]
fn a_number_that_is_too_large_is_left_to_the_pattern() {
    use super::{Bar, BarMatch};
    let large = "7".repeat(90);
    let step = format!("step:{large} - loss:0.1");
    assert_eq!(Bar::Step.shown(step.as_bytes(), 0), BarMatch::Perhaps);
    for bar in [
        format!(" 1%|# | {large}/9 [00:01"),
        format!(" 1%|# | 1/{large} [00:01"),
    ] {
        assert_eq!(Bar::Percent.shown(bar.as_bytes(), 2), BarMatch::Perhaps);
    }
}

#[test]
fn what_an_escape_sequence_takes_out_is_no_end_of_a_bar() {
    use super::{Bar, BarMatch};
    let shown = |text: &[u8]| {
        let at = memchr::memmem::find(text, b"%|").unwrap();
        Bar::Percent.shown(text, at)
    };
    let is_step = |text: &[u8]| matches!(shown(text), BarMatch::Step { .. });
    assert!(is_step(b"Training Progress: 11%|## | 13/120 [00:03"));
    assert!(is_step(
        b"\x1b[36m(TaskRunner pid=1)\x1b[0m Training Progress: 11%|## | 13/120 [00:03"
    ));
    for text in [
        b"Training Progress: 11%|# \x1b[| 13/120 [00:03".as_slice(),
        b"Training Progress: 11%|\x1b[32m## | 13/120 [00:03",
        b"\x1b]0;a title Training Progress: 11%|## | 13/120 [00:03",
        b"Training Progress: 11\x1b[0m%|## | 13/120 [00:03",
    ] {
        assert_eq!(shown(text), BarMatch::Perhaps, "{}", text.escape_ascii());
    }
    assert!(is_step(b"\x1b]0;a title\n 11%|## | 13/120 [00:03"));
}

#[test]
fn a_needle_whose_first_letter_an_escape_takes_is_found_as_it_stands() {
    for line in [
        "   TIMEOUT     \u{1b}[Validating: ",
        "\u{1b}Evaluating: ",
        "^[[Validating: ",
    ] {
        assert_eq!(
            found(line.as_bytes()),
            expected(line.as_bytes()),
            "{line:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_line_gives_what_plain_searches_give(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..14),
    ) {
        let parts = parts();
        let line: Vec<u8> = picks.iter().flat_map(|i| i.get(&parts).clone()).collect();
        let line: Vec<u8> = line.into_iter().filter(|b| !is_end(*b)).collect();
        prop_assert_eq!(found(&line), expected(&line), "{:?}", String::from_utf8_lossy(&line));
    }
}
