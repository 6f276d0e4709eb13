//! Everything that goes wrong with a log that somebody writes: each told exactly once.

use super::*;

/// Each case with inotify, by polling, and on a network file system.
macro_rules! in_every_mode {
    ($($name:ident)*) => {
        mod hints {
            use super::Mode;
            $(#[test] fn $name() { super::$name(Mode::Hints); })*
        }
        mod polling {
            use super::Mode;
            $(#[test] fn $name() { super::$name(Mode::Polling); })*
        }
        mod network {
            use super::Mode;
            $(#[test] fn $name() { super::$name(Mode::Network); })*
        }
    };
}

in_every_mode! {
    case_01_an_append
    case_02_half_a_line_and_its_rest_later
    case_03_a_signature_split_over_two_reads
    case_04_one_byte_per_write
    case_05_utf8_split_at_the_border_of_a_chunk
    case_06_invalid_bytes_and_nuls
    case_07_a_last_line_without_newline
    case_08_truncated_by_a_requeue
    case_09_truncated_and_regrown_past_the_offset
    case_10_renamed_and_created
    case_11_renamed_while_the_old_one_is_still_written
    case_12_replaced_by_one_of_the_same_size
    case_13_an_inode_used_again_at_once
    case_14_a_log_that_appears_later
    case_15_a_folder_that_appears_later
    case_16_a_link_retargeted_to_the_next_attempt
    case_17_removed_for_good
    case_18_permission_lost_and_granted_again
    case_19_two_files_with_equal_heads
    case_20_a_modification_time_in_1970
    case_21_a_line_of_100_mb
    case_22_a_progress_bar_of_40_mb
    case_23_a_hole_of_a_gibibyte
    case_24_a_burst_of_20000_lines
    case_25_the_follower_is_stopped_for_a_while
    case_26_escapes_in_a_line
    case_27_no_inotify_instance
    case_28_no_watch_after_the_fifth
    case_29_no_descriptor_left
    case_30_a_stale_handle_once
    case_31_an_error_on_every_seventh_read
    case_32_interrupted_reads
    killed_and_started_again_from_a_checkpoint
    killed_and_started_again_after_a_rotation
    renamed_three_times_before_anybody_looks_again
    renamed_twice_while_nobody_follows
    truncated_and_renamed_before_anybody_looks_again
    a_log_that_is_gone_is_not_told_to_be_gone_again
    an_old_log_that_is_written_for_ever_does_not_hide_its_successor
    a_removed_log_that_comes_back_is_told_from_one_that_was_moved_away
}

fn case_01_an_append(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    rig.append("log", OOM.as_bytes());
    rig.tick();
    assert_eq!(rig.text(), format!("one\n{OOM}"));
    assert_eq!(rig.incident().as_deref(), Some("cuda_oom"));
    rig.settle();
    assert_eq!(rig.text(), format!("one\n{OOM}"));
}

fn case_02_half_a_line_and_its_rest_later(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    let (half, rest) = OOM.split_at(40);
    rig.append("log", half.as_bytes());
    rig.tick();
    assert_eq!(rig.text(), format!("one\n{half}"));
    rig.pass(1_500);
    rig.append("log", rest.as_bytes());
    rig.tick();
    assert_eq!(rig.text(), format!("one\n{OOM}"));
    let incident = rig.scanner.digest().incident.unwrap();
    assert_eq!(incident.evidence[0].text, OOM.trim_end());
}

fn case_03_a_signature_split_over_two_reads(mode: Mode) {
    let mut rig = Rig::new(mode);
    let filler = "x".repeat(256 * 1024 - 30);
    let text = format!("{filler}\n{OOM}");
    rig.append("log", text.as_bytes());
    rig.follow("log");
    rig.settle();
    assert_eq!(rig.text(), text);
    assert_eq!(rig.incident().as_deref(), Some("cuda_oom"));
}

fn case_04_one_byte_per_write(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    for byte in OOM.as_bytes() {
        rig.append("log", &[*byte]);
        rig.tick();
    }
    assert_eq!(rig.text(), format!("one\n{OOM}"));
    assert_eq!(rig.scanner.digest().incident.unwrap().evidence.len(), 1);
}

fn case_05_utf8_split_at_the_border_of_a_chunk(mode: Mode) {
    let mut rig = Rig::new(mode);
    let text = format!("{}{}\n", "x".repeat(256 * 1024 - 1), "█".repeat(100));
    rig.append("log", text.as_bytes());
    rig.follow("log");
    rig.settle();
    assert!(rig.told[0].text == text.as_bytes());
}

fn case_06_invalid_bytes_and_nuls(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    let mut bytes = b"\xff\xfe\0\0 half \xe2\x96\n".to_vec();
    bytes.extend(OOM.bytes());
    rig.append("log", &bytes);
    rig.tick();
    assert_eq!(rig.told[0].text[4..], bytes);
    assert_eq!(rig.incident().as_deref(), Some("cuda_oom"));
}

fn case_07_a_last_line_without_newline(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    rig.append("log", OOM.trim_end().as_bytes());
    rig.tick();
    let source = rig.told[0].source;
    rig.scanner.finish_source(source);
    assert_eq!(rig.incident().as_deref(), Some("cuda_oom"));
    rig.append("log", b"\n");
    rig.tick();
    assert_eq!(rig.text(), format!("one\n{OOM}"));
    assert_eq!(rig.scanner.digest().incident.unwrap().evidence.len(), 1);
}

fn case_08_truncated_by_a_requeue(mode: Mode) {
    let mut rig = Rig::with(mode, "the first part dies\n");
    rig.rewrite("log", "second\n");
    rig.tick();
    assert_eq!(rig.text(), "the first part dies\n[new]second\n");
}

fn case_09_truncated_and_regrown_past_the_offset(mode: Mode) {
    let mut rig = Rig::with(mode, "first\n");
    rig.rewrite("log", "second, and longer than the first\n");
    rig.tick();
    assert_eq!(
        rig.text(),
        "first\n[new]second, and longer than the first\n"
    );
    // The same head, another tail.
    let head = "#".repeat(600);
    let mut rig = Rig::with(mode, &format!("{head}1"));
    rig.rewrite("log", &format!("{head}2 and more"));
    rig.tick();
    assert_eq!(rig.text(), format!("{head}1[new]{head}2 and more"));
    // Another head, the same tail.
    let mut rig = Rig::with(mode, &format!("1{head}"));
    rig.rewrite("log", &format!("2{head}"));
    rig.settle();
    assert_eq!(rig.text(), format!("1{head}[new]2{head}"));
}

fn case_10_renamed_and_created(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    rig.append("log", b"unread\n");
    rig.rename("log", "log.1");
    rig.append("log", b"new\n");
    rig.tick();
    assert_eq!(rig.text(), "one\nunread\n");
    rig.settle();
    assert_eq!(rig.text(), "one\nunread\n[rotated]new\n");
}

fn case_11_renamed_while_the_old_one_is_still_written(mode: Mode) {
    let mut rig = Rig::new(mode);
    let mut old = rig.append("log", b"one\n");
    rig.follow("log");
    rig.tick();
    rig.rename("log", "log.1");
    rig.append("log", b"new\n");
    for second in 0..4 {
        rig.pass(1_000);
        old.write_all(format!("late {second}\n").as_bytes())
            .unwrap();
    }
    rig.settle();
    let late = "late 0\nlate 1\nlate 2\nlate 3\n";
    assert_eq!(rig.text(), format!("one\n{late}[rotated]new\n"));
    assert_eq!(rig.followers.held, 0);
    assert_eq!(descriptors(rig.folder.path()), 1, "only the test's own");
}

fn case_12_replaced_by_one_of_the_same_size(mode: Mode) {
    let mut rig = Rig::with(mode, "aaaa\n");
    rig.append("other", b"aaaa\n");
    rig.rename("other", "log");
    rig.tick();
    assert_eq!(rig.text(), "aaaa\n[new]aaaa\n");
}

fn case_13_an_inode_used_again_at_once(mode: Mode) {
    let mut rig = Rig::with(mode, "one\nsame size\n");
    rig.remove("log");
    rig.append("log", b"two\nsame size\n");
    rig.settle();
    assert_eq!(rig.text(), "one\nsame size\n[new]two\nsame size\n");
    // Even with the same text, where the file system knows when a file was made.
    if fs::metadata(rig.path("log")).unwrap().created().is_ok() {
        rig.remove("log");
        rig.append("log", b"two\nsame size\n");
        rig.settle();
        assert!(
            rig.text()
                .ends_with("[new]two\nsame size\n[new]two\nsame size\n")
        );
    }
}

fn case_14_a_log_that_appears_later(mode: Mode) {
    let mut rig = Rig::new(mode);
    rig.follow("log");
    rig.settle();
    assert_eq!(rig.text(), "");
    rig.append("log", b"now\n");
    rig.tick();
    assert_eq!(rig.text(), "now\n");
}

fn case_15_a_folder_that_appears_later(mode: Mode) {
    let mut rig = Rig::new(mode);
    rig.follow("logs/log");
    rig.settle();
    fs::create_dir(rig.path("logs")).unwrap();
    rig.append("logs/log", b"now\n");
    rig.pass(2_000);
    assert_eq!(rig.text(), "now\n");
    rig.append("logs/log", b"more\n");
    rig.tick();
    assert_eq!(rig.text(), "now\nmore\n");
}

fn case_16_a_link_retargeted_to_the_next_attempt(mode: Mode) {
    let mut rig = Rig::new(mode);
    let mut first = rig.append("first", b"attempt 1\n");
    std::os::unix::fs::symlink(rig.path("first"), rig.path("log")).unwrap();
    rig.follow("log");
    rig.pass(1_000);
    first.write_all(b"its end\n").unwrap();
    rig.append("second", b"attempt 2\n");
    rig.remove("log");
    std::os::unix::fs::symlink(rig.path("second"), rig.path("log")).unwrap();
    rig.settle();
    assert_eq!(rig.text(), "attempt 1\nits end\n[new]attempt 2\n");
}

fn case_17_removed_for_good(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    rig.append("other", b"a");
    let other = rig.follow("other");
    rig.pass(1_000);
    rig.remove("log");
    rig.settle();
    rig.append("other", b"b");
    rig.tick();
    assert_eq!(
        (rig.text(), rig.text_of(other)),
        ("one\n[removed]".into(), "ab".into())
    );
    // What nobody follows any more costs nothing, and its place is used again.
    let kept = rig.told.pop().unwrap();
    rig.told.clear();
    rig.append("third", b"c");
    assert_eq!(
        rig.followers
            .follow(rig.path("third"), FollowStart::At(0), 7)
            .file(),
        0
    );
    drop(kept);
}

fn case_18_permission_lost_and_granted_again(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    fault(Some(Fault::Refused));
    rig.append("log", b"two\n");
    rig.settle();
    assert_eq!(rig.text(), "one\n[trouble]");
    fault(None);
    rig.pass(2_000);
    assert_eq!(rig.text(), "one\n[trouble]two\n");
}

fn case_19_two_files_with_equal_heads(mode: Mode) {
    let mut rig = Rig::with(mode, "the same head\n");
    rig.append("other", b"the same head\n");
    let other = rig.follow("other");
    rig.pass(1_000);
    rig.append("log", b"a\n");
    rig.append("other", b"b\n");
    rig.tick();
    assert_eq!(rig.text(), "the same head\na\n");
    assert_eq!(rig.text_of(other), "the same head\nb\n");
}

fn case_20_a_modification_time_in_1970(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    rig.settle();
    let file = rig.append("log", b"two\n");
    let epoch = std::time::UNIX_EPOCH;
    file.set_times(fs::FileTimes::new().set_modified(epoch))
        .unwrap();
    rig.tick();
    assert_eq!(rig.text(), "one\ntwo\n");
    file.set_times(fs::FileTimes::new().set_modified(epoch))
        .unwrap();
    rig.settle();
    assert_eq!(rig.text(), "one\ntwo\n");
}

/// Follows a file to its end without keeping what is told. Bytes told, and the largest piece.
fn drain(rig: &mut Rig) -> (u64, usize) {
    let file = &rig.told[0].followed;
    let (mut bytes, mut largest, mut end) = (0, 0, 0);
    while rig
        .followers
        .read(file, rig.now, LookMode::Now, &mut |growth| {
            if let Growth::Bytes { offset, data } = growth {
                assert!(offset >= end);
                end = offset + data.len() as u64;
                bytes += data.len() as u64;
                largest = data.len().max(largest);
            }
        })
    {}
    (bytes, largest)
}

fn case_21_a_line_of_100_mb(mode: Mode) {
    let mut rig = Rig::new(mode);
    rig.follow("log");
    for _ in 0..100 {
        rig.append("log", &vec![b'x'; 1_000_000]);
    }
    let (bytes, largest) = drain(&mut rig);
    assert_eq!(bytes, 100_000_000);
    assert!(largest <= 256 * 1024);
    rig.append("log", format!("\n{OOM}").as_bytes());
    rig.tick();
    assert_eq!(rig.incident().as_deref(), Some("cuda_oom"));
}

fn case_22_a_progress_bar_of_40_mb(mode: Mode) {
    let mut rig = Rig::new(mode);
    rig.follow("log");
    let bar = "\r 12%|#         | 1234/9999 [00:12<01:30]".repeat(1_000);
    for _ in 0..1_000 {
        rig.append("log", bar.as_bytes());
    }
    let (bytes, largest) = drain(&mut rig);
    assert_eq!(bytes, 1_000 * bar.len() as u64);
    assert!(largest <= 256 * 1024);
    rig.append("log", format!("\r{OOM}").as_bytes());
    rig.tick();
    assert_eq!(rig.incident().as_deref(), Some("cuda_oom"));
}

fn case_23_a_hole_of_a_gibibyte(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    let file = rig.append("log", b"");
    file.set_len(1 << 30).unwrap();
    rig.settle();
    assert_eq!(
        rig.text().trim_end_matches('\0'),
        "one\n",
        "a hole at the end is waited at"
    );
    rig.append("log", format!("\n{OOM}").as_bytes());
    BYTES.set(0);
    rig.tick();
    assert_eq!(rig.text().replace('\0', ""), format!("one\n[hole]\n{OOM}"));
    assert!(BYTES.get() < 100_000, "{} bytes were read", BYTES.get());
    assert_eq!(rig.incident().as_deref(), Some("cuda_oom"));
}

fn case_24_a_burst_of_20000_lines(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    rig.append("other", b"");
    let other = rig.follow("other");
    rig.pass(1_000);
    let burst = format!("{}\n", "y".repeat(499)).repeat(20_000);
    rig.append("log", burst.as_bytes());
    rig.append("other", b"quiet\n");
    rig.now += SignedDuration::from_secs(1);
    let ready = rig.followers.ready(rig.now);
    rig.read(&ready, LookMode::Due);
    assert_eq!(rig.text_of(other), "quiet\n", "the burst holds nobody up");
    assert!(
        rig.text().len() < 5_000_000,
        "one look reads a bounded part"
    );
    assert!(rig.followers.is_behind());
    // The rest comes without any time passing.
    rig.pass(0);
    assert!(rig.text() == format!("one\n{burst}"));
}

fn case_25_the_follower_is_stopped_for_a_while(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    let mut expected = ["one\n".to_owned(), String::new()];
    rig.append("other", b"");
    let other = rig.follow("other");
    rig.pass(1_000);
    // More events than the kernel keeps: it drops them and says so.
    for line in 0..10_000 {
        for (text, name) in expected.iter_mut().zip(["log", "other"]) {
            let line = format!("{line}\n");
            rig.append(name, line.as_bytes());
            text.push_str(&line);
        }
    }
    rig.pass(3_000);
    assert!(rig.text() == expected[0] && rig.text_of(other) == expected[1]);
}

fn case_26_escapes_in_a_line(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    let line = format!("\x1b]0;title\x07\x1b[31m{}\x1b[0m\n", OOM.trim_end());
    rig.append("log", line.as_bytes());
    rig.tick();
    assert_eq!(
        rig.text(),
        format!("one\n{line}"),
        "bytes are handed on as they are"
    );
    let incident = rig.scanner.digest().incident.unwrap();
    assert!(
        incident
            .evidence
            .iter()
            .all(|e| !e.text.contains(['\x1b', '\x07']))
    );
}

fn case_27_no_inotify_instance(mode: Mode) {
    fault(Some(Fault::NoInstance));
    let mut rig = Rig::with(mode, "one\n");
    rig.append("log", b"two\n");
    rig.pass(1_000);
    assert_eq!(rig.text(), "one\ntwo\n");
    assert_eq!(
        rig.followers.notices().len(),
        usize::from(mode != Mode::Polling)
    );
    assert!(rig.followers.waiter().is_none());
}

fn case_28_no_watch_after_the_fifth(mode: Mode) {
    fault(Some(Fault::WatchesAfter(5)));
    let mut rig = Rig::new(mode);
    for folder in 0..9 {
        fs::create_dir(rig.path(&folder.to_string())).unwrap();
        rig.follow(&format!("{folder}/log"));
    }
    rig.settle();
    for folder in 0..9 {
        rig.append(&format!("{folder}/log"), b"one\n");
    }
    rig.pass(2_000);
    for folder in 0..9 {
        assert_eq!(rig.text_of(folder), "one\n");
    }
    assert_eq!(
        rig.followers.notices().len(),
        usize::from(mode == Mode::Hints)
    );
    rig.settle();
    assert!(rig.followers.notices().is_empty(), "said once");
}

fn case_29_no_descriptor_left(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    fault(Some(Fault::NoDescriptor));
    rig.append("log", b"two\n");
    rig.settle();
    assert_eq!(rig.text(), "one\n", "no trouble of this log's");
    assert_eq!(rig.followers.notices().len(), 1);
    fault(None);
    rig.pass(2_000);
    assert_eq!(rig.text(), "one\ntwo\n");
}

fn case_30_a_stale_handle_once(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    fault(Some(Fault::StaleOnce));
    rig.append("log", b"two\n");
    rig.tick();
    assert_eq!(rig.text(), "one\ntwo\n");
}

fn case_31_an_error_on_every_seventh_read(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    fault(Some(Fault::EverySeventhRead));
    let mut expected = "one\n".to_owned();
    for line in 0..100 {
        let line = format!("{line}\n");
        rig.append("log", line.as_bytes());
        expected.push_str(&line);
        rig.tick();
    }
    rig.settle();
    assert_eq!(rig.text().replace("[trouble]", ""), expected);
}

fn case_32_interrupted_reads(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    fault(Some(Fault::Interrupted));
    rig.append("log", b"two\n");
    rig.tick();
    assert_eq!(rig.text(), "one\ntwo\n");
}

fn killed_and_started_again_from_a_checkpoint(mode: Mode) {
    let mut rig = Rig::with(mode, "one\nhalf a li");
    rig.append("log", b"ne\n");
    rig.restart();
    rig.pass(1_000);
    rig.restart();
    rig.append("log", b"two\n");
    rig.pass(1_000);
    assert_eq!(rig.text(), "one\nhalf a line\ntwo\n");
    rig.rewrite("log", "a requeue while nobody looked, long enough\n");
    rig.restart();
    rig.pass(1_000);
    assert!(
        rig.text()
            .ends_with("two\n[new]a requeue while nobody looked, long enough\n")
    );
}

fn killed_and_started_again_after_a_rotation(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    rig.append("log", b"unread\n");
    rig.rename("log", "log.1");
    rig.append("log", b"new\n");
    rig.restart();
    rig.pass(1_000);
    rig.append("log.1", b"late\n");
    rig.restart();
    rig.settle();
    assert_eq!(rig.text(), "one\nunread\nlate\n[rotated]new\n");
}

fn renamed_three_times_before_anybody_looks_again(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    rig.rename("log", "log.1");
    rig.append("log", b"two\n");
    rig.pass(1_000);
    rig.rename("log.1", "log.2");
    rig.rename("log", "log.1");
    rig.append("log", b"three\n");
    rig.append("log.2", b"one is late\n");
    rig.settle();
    assert_eq!(
        rig.text(),
        "one\none is late\n[rotated]two\n[rotated]three\n"
    );
}

fn renamed_twice_while_nobody_follows(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    rig.append("log", b"unread\n");
    // The names of logrotate with dates; what else lies there is none of ours.
    rig.rename("log", "log-20261120");
    rig.append("log", b"two\n");
    rig.append("log.gz", b"no text\n");
    rig.append("log.1.tmp", b"no log\n");
    rig.rename("log", "log-20261121");
    rig.append("log", b"three\n");
    rig.restart();
    rig.settle();
    assert_eq!(rig.text(), "one\nunread\n[rotated]two\n[rotated]three\n");
}

fn truncated_and_renamed_before_anybody_looks_again(mode: Mode) {
    let mut rig = Rig::with(mode, "the first part dies\n");
    if fs::metadata(rig.path("log")).unwrap().created().is_err() {
        return;
    }
    rig.rewrite("log", "second\n");
    rig.rename("log", "log.1");
    rig.append("log", b"third\n");
    rig.settle();
    let text = "the first part dies\n[new]second\n[rotated]third\n";
    assert_eq!(rig.text(), text);
    // The same while nobody follows, and before there is a successor.
    rig.rewrite("log", "4.\n");
    rig.rename("log", "log.2");
    rig.restart();
    rig.pass(1_000);
    assert_eq!(rig.text(), format!("{text}[new]4.\n"));
    rig.append("log", b"fifth\n");
    rig.settle();
    assert_eq!(rig.text(), format!("{text}[new]4.\n[rotated]fifth\n"));
    assert_eq!(rig.followers.held, 0);
}

fn a_log_that_is_gone_is_not_told_to_be_gone_again(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    rig.remove("log");
    rig.pass(1_000);
    rig.restart();
    rig.pass(1_000);
    assert_eq!(rig.text(), "one\n[removed]");
    rig.append("log", b"two\n");
    rig.pass(1_000);
    assert_eq!(rig.text(), "one\n[removed][new]two\n");
}

fn an_old_log_that_is_written_for_ever_does_not_hide_its_successor(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    rig.rename("log", "log.1");
    rig.append("log", b"new\n");
    for _ in 0..100 {
        rig.append("log.1", b"x");
        rig.pass(1_000);
    }
    let text = rig.text();
    assert!(
        text.starts_with("one\nxxxxx") && text.ends_with("x[rotated]new\n"),
        "{text}"
    );
}

fn a_removed_log_that_comes_back_is_told_from_one_that_was_moved_away(mode: Mode) {
    let mut rig = Rig::with(mode, "one\n");
    let elsewhere = tempfile::tempdir_in(rig.folder.path()).unwrap();
    fs::rename(rig.path("log"), elsewhere.path().join("log")).unwrap();
    rig.settle();
    fs::rename(elsewhere.path().join("log"), rig.path("log")).unwrap();
    rig.append("log", b"two\n");
    rig.settle();
    assert_eq!(rig.text(), "one\n[removed]two\n");
    rig.remove("log");
    rig.settle();
    rig.append("log", b"one\ntwo\nof another file\n");
    rig.settle();
    let end = "[removed][new]one\ntwo\nof another file\n";
    assert!(rig.text().ends_with(end), "{}", rig.text());
}

#[test]
fn events_are_heard_without_any_time_passing() {
    let mut rig = Rig::with(Mode::Hints, "one\n");
    assert!(rig.followers.woken().is_empty());
    rig.append("log", b"two\n");
    rig.append("nobody follows this", b"x");
    let waiter = rig.followers.waiter().unwrap();
    assert!(waiter.wait(std::time::Duration::from_secs(10)));
    assert_eq!(rig.followers.woken(), [0]);
    rig.read(&[0], LookMode::Due);
    assert_eq!(rig.text(), "one\ntwo\n");
    assert!(rig.followers.woken().is_empty());
}

#[test]
fn logs_that_are_heard_of_are_polled_rarely_and_others_more_often() {
    for (mode, most) in [(Mode::Hints, 10), (Mode::Polling, 60), (Mode::Network, 60)] {
        let mut rig = Rig::with(mode, "one\n");
        let mut looks = 0;
        for _ in 0..100 {
            rig.now += SignedDuration::from_secs(1);
            let ready = rig.followers.ready(rig.now);
            looks += ready.len();
            rig.read(&ready, LookMode::Due);
        }
        assert!((most / 2..=most + 3).contains(&looks), "{mode:?}: {looks}");
    }
}

#[test]
fn a_log_that_grows_without_an_event_is_polled() {
    let mut rig = Rig::new(Mode::Hints);
    // What is written through another name sends its events there.
    fs::create_dir(rig.path("there")).unwrap();
    rig.append("log", b"one\n");
    fs::hard_link(rig.path("log"), rig.path("there/log")).unwrap();
    rig.follow("log");
    rig.settle();
    rig.append("there/log", b"two\n");
    rig.settle();
    assert_eq!(rig.text(), "one\ntwo\n");
    rig.append("there/log", b"three\n");
    rig.pass(2_000);
    assert_eq!(rig.text(), "one\ntwo\nthree\n");
}

#[test]
fn a_clock_that_is_set_back_stops_nobody() {
    let mut rig = Rig::with(Mode::Polling, "one\n");
    rig.settle();
    rig.now -= SignedDuration::from_hours(1);
    rig.append("log", b"two\n");
    rig.pass(1_000);
    assert_eq!(rig.text(), "one\ntwo\n");
}

#[test]
fn nobody_waits_for_the_log_of_an_ended_job() {
    let mut rig = Rig::with(Mode::Network, "one\n");
    rig.append("log", b"two\n");
    rig.rename("log", "log.1");
    rig.append("log", b"new\0\0");
    for _ in 0..3 {
        rig.read(&[0], LookMode::Last);
    }
    assert_eq!(rig.text(), "one\ntwo\n[rotated]new\0\0");
}

#[test]
fn a_folder_or_a_pipe_is_no_log_and_blocks_nobody() {
    let mut rig = Rig::new(Mode::Polling);
    fs::create_dir(rig.path("log")).unwrap();
    rig.follow("log");
    rig.settle();
    fs::remove_dir(rig.path("log")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, rig.path("log"), fifo, mode, 0).unwrap();
    rig.settle();
    assert_eq!(rig.text(), "[trouble]");
    rig.remove("log");
    rig.append("log", b"now");
    rig.settle();
    assert_eq!(rig.text(), "[trouble]now");
}

#[test]
fn nuls_of_an_nfs_client_are_waited_out() {
    let mut rig = Rig::with(Mode::Network, "before\n");
    // The client shows the file grown, and NULs for what it has not fetched yet.
    let mut page = b"before\n".to_vec();
    page.resize(4_096, 0);
    fs::write(rig.path("log"), &page).unwrap();
    rig.pass(1_000);
    page.extend_from_slice(b"second page\n");
    fs::write(rig.path("log"), &page).unwrap();
    rig.pass(1_000);
    assert_eq!(rig.text(), "before\n");
    page[7..4_096].fill(b'z');
    fs::write(rig.path("log"), &page).unwrap();
    rig.pass(1_000);
    assert_eq!(rig.told[0].text, page);
}

#[test]
fn nuls_that_stay_are_believed() {
    let mut rig = Rig::new(Mode::Network);
    rig.append("log", b"a\0\0");
    rig.follow("log");
    rig.pass(1_000);
    assert_eq!(rig.text(), "a");
    for _ in 0..super::super::record::NUL_LOOKS + 1 {
        rig.pass(1_000);
    }
    assert_eq!(rig.text(), "a\0\0");
}

#[test]
fn a_restart_that_appends_is_read_from_its_offset() {
    let mut rig = Rig::new(Mode::Polling);
    rig.append("log", b"first run\n");
    rig.follow_from("log", FollowStart::At(10));
    let beyond = rig.follow_from("log", FollowStart::At(500));
    rig.pass(1_000);
    rig.append("log", b"second\n");
    rig.pass(1_000);
    assert_eq!(rig.text(), "second\n");
    assert_eq!(rig.text_of(beyond), "[new]first run\nsecond\n");
}

#[test]
fn one_file_is_a_small_record() {
    assert!(
        Followers::bytes_per_file() <= 512,
        "{}",
        Followers::bytes_per_file()
    );
}

/// Goes on in a process of its own that may open 48 files.
#[test]
fn two_hundred_files_are_followed_with_48_descriptors() {
    const CHILD: &str = "OOMCTL_TEST_FEW_DESCRIPTORS";
    if std::env::var_os(CHILD).is_none() {
        let test = "tests::faults::two_hundred_files_are_followed_with_48_descriptors";
        let done = std::process::Command::new("sh")
            .args([
                "-c",
                "ulimit -n 48; exec \"$0\" --exact \"$1\" --test-threads 1",
            ])
            .arg(std::env::current_exe().unwrap())
            .arg(test)
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    for mode in [Mode::Hints, Mode::Polling] {
        let mut rig = Rig::new(mode);
        for file in 0..200 {
            rig.append(&file.to_string(), b"one\n");
            rig.follow(&file.to_string());
        }
        rig.pass(1_000);
        for file in 0..200 {
            rig.rename(&file.to_string(), &format!("{file}.old"));
            rig.append(&file.to_string(), b"two\n");
        }
        rig.pass(1_000);
        assert!(descriptors(rig.folder.path()) <= 32);
        rig.settle();
        for file in 0..200 {
            assert_eq!(rig.text_of(file), "one\n[rotated]two\n");
        }
        assert!(rig.followers.notices().is_empty());
    }
}
