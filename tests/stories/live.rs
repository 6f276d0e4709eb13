//! The live view of `watch`, on a terminal that a parser of its escapes draws.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::gpus::terminal;
use super::place::{PATIENCE, Place, install};
use super::weaver;

const WATCH: [&str; 4] = ["submit", "--backend", "local", "--watch"];

/// A watch on a terminal.
struct Watching {
    child: Child,
    /// Our end of the terminal, and the other one, which we keep so that its settings can be asked for.
    ours: File,
    theirs: OwnedFd,
    screen: vt100::Parser,
    /// All that was sent.
    sent: Vec<u8>,
}

impl Watching {
    fn start(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let (ours, theirs) = terminal();
        let mut command = place.command(arguments);
        command
            .env("TERM", "xterm-256color")
            .envs(variables.iter().copied())
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs.try_clone().unwrap());
        Self {
            child: command.spawn().unwrap(),
            ours: File::from(ours),
            theirs,
            screen: vt100::Parser::new(cells(24), cells(80), 1_000),
            sent: Vec::new(),
        }
    }

    /// The screen as it is.
    fn shown(&self) -> String {
        self.screen.screen().contents()
    }

    /// Reads what is sent; false where nothing comes for a moment.
    fn read(&mut self) -> bool {
        let mut wait = [PollFd::new(&self.ours, PollFlags::IN)];
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        if poll(&mut wait, Some(&moment)).unwrap() == 0 {
            return false;
        }
        let mut bytes = [0; 4_096];
        let Ok(n @ 1..) = self.ours.read(&mut bytes) else {
            return false;
        };
        self.screen.process(&bytes[..n]);
        self.sent.extend_from_slice(&bytes[..n]);
        true
    }

    /// Reads on until the screen is so.
    #[track_caller]
    fn until_so(&mut self, what: &str, so: impl Fn(&str) -> bool) {
        let start = Instant::now();
        while !so(&self.shown()) {
            if !self.read() && start.elapsed() > PATIENCE {
                drop(self.child.kill());
                panic!("in vain waited for {what:?} on\n{}", self.shown());
            }
        }
    }

    #[track_caller]
    fn until(&mut self, words: &str) {
        self.until_so(words, |screen| screen.contains(words));
    }

    fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end, and that the terminal is as it was found.
    #[track_caller]
    fn ends(mut self, code: i32) -> String {
        let start = Instant::now();
        let ended = loop {
            self.read();
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "no end on\n{}", self.shown());
        };
        while self.read() {}
        let shown = self.shown();
        assert_eq!(ended.code(), Some(code), "{shown}");
        let modes = tcgetattr(self.theirs.as_fd()).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO));
        let screen = self.screen.screen();
        assert!(
            !screen.alternate_screen() && !screen.hide_cursor(),
            "{shown}"
        );
        shown
    }
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

fn told(place: &Place, fact: &str) -> usize {
    let facts = place.facts("weaver-1");
    facts.iter().filter(|f| f["fact"] == fact).count()
}

#[test]
fn from_out_of_memory_to_success_on_one_screen_and_the_story_stays() {
    let mut place = weaver::project("");
    place.set("WEAVER", "hang");
    let mut watching = Watching::start(&place, &WATCH, &[]);
    watching.until("attempts of weaver-1");
    let end = watching.ends(0);
    // What plain mode prints: the incident, the rung, the end.
    for words in [
        "climb      thin",
        "slurm.err:3:",
        "weaver-1 succeeded (2 attempts",
    ] {
        assert!(end.contains(words), "{words:?} is not in\n{end}");
    }
}

#[test]
fn detaching_leaves_the_job_alone_and_the_next_watch_takes_up_again() {
    let mut place = weaver::project("knobs: { threads: 2 }");
    place.set("WEAVER", "wait");
    for key in ["q", "\u{3}"] {
        let words = match key {
            "q" => WATCH.to_vec(),
            _ => vec!["watch", "weaver-1"],
        };
        let mut watching = Watching::start(&place, &words, &[]);
        watching.until("RUNNING");
        watching.press(key);
        let end = watching.ends(130);
        assert!(end.contains("`oomctl watch weaver-1` continues"), "{end}");
        assert_eq!(told(&place, "cancel_requested"), 0);
    }
    place.write("go", "");
    let watching = Watching::start(&place, &["watch", "weaver-1"], &[]);
    watching.ends(0);
}

#[test]
fn a_terminal_that_vanishes_and_signals_detach_and_the_terminal_is_given_back() {
    let mut place = weaver::project("knobs: { threads: 2 }");
    place.set("WEAVER", "wait");
    let watch = ["watch", "weaver-1"];
    for (words, signal, code) in [(&WATCH[..], Signal::TERM, 143), (&watch, Signal::HUP, 129)] {
        let mut watching = Watching::start(&place, words, &[]);
        watching.until("RUNNING");
        let pid = rustix::process::Pid::from_child(&watching.child);
        rustix::process::kill_process(pid, signal).unwrap();
        watching.ends(code);
    }
    // Nothing tells this one that its terminal is gone, and the run is not the terminal's.
    let mut watching = Watching::start(&place, &watch, &[]);
    watching.until("RUNNING");
    let Watching {
        mut child,
        ours,
        theirs,
        ..
    } = watching;
    drop((ours, theirs));
    place.write("go", "");
    // That it could not say so at the end is another matter.
    child.wait().unwrap();
    assert_eq!(told(&place, "finished"), 1);
}

#[test]
fn cancelling_asks_first() {
    let mut place = weaver::project("knobs: { threads: 2 }");
    place.set("WEAVER", "sleep");
    let mut watching = Watching::start(&place, &WATCH, &[]);
    watching.until("RUNNING");
    watching.press("c");
    watching.until("End weaver-1 and its job 1?");
    watching.press("n");
    watching.until_so("the keys", |s| s.contains("? help"));
    assert_eq!(told(&place, "cancel_requested"), 0);
    watching.press("cy");
    let end = watching.ends(9);
    assert!(end.contains("cancelled"), "{end}");
}

#[test]
fn the_next_rung_is_climbed_when_asked_and_one_that_was_skipped_is_not() {
    let mut place = weaver::project("");
    place.set("WEAVER", "sleep");
    let mut watching = Watching::start(&place, &WATCH, &[]);
    watching.until("RUNNING");
    watching.press("s");
    watching.until("Skip thin");
    watching.press("y");
    place.wait_for_fact("weaver-1", "rung_left_out");
    watching.press("e");
    watching.until("End attempt 1 for narrow (cloth 64 → 32)?");
    watching.press("y");
    watching.until("  2  2  ");
    watching.until("narrow");
    watching.press("q");
    watching.ends(130);
    assert_eq!(weaver::words(&place, 1)[5], "64");
    place.wait_for("the second attempt", || place.has("argv.2"));
    assert!(weaver::words(&place, 2).join(" ").contains("--cloth 32"));
    place.run(&["cancel", "weaver-1"]).ends(0);
}

/// The key for the report: the page is made beside the run, and where there is a desktop it is opened.
#[test]
fn the_report_is_made_and_opened_at_a_key() {
    let mut place = weaver::project("");
    place.set("WEAVER", "sleep");
    let opener = "#!/bin/bash\nprintf '%s' \"$1\" >opened.new && mv opened.new opened\n";
    install(&place.path("xdg-open"), opener);
    place.first_on_path = vec![place.root.clone()];
    let page = ".oomctl/runs/weaver-1/report.html";
    for (desktop, words) in [("", "the report is "), (":0", "opened ")] {
        let watch: &[&str] = match desktop {
            "" => &WATCH,
            _ => &["watch", "weaver-1"],
        };
        let variables = [("DISPLAY", desktop), ("WAYLAND_DISPLAY", "")];
        let mut watching = Watching::start(&place, watch, &variables);
        watching.until("RUNNING");
        watching.press("r");
        watching.until(words);
        watching.press("q");
        watching.ends(130);
        assert!(place.read(page).contains("<title>weaver-1"));
        assert_eq!(place.has("opened"), !desktop.is_empty());
    }
    assert!(place.read("opened").ends_with(page));
    place.run(&["cancel", "weaver-1"]).ends(0);
}

#[test]
fn a_log_is_searched_enlarged_and_shown_from_either_stream() {
    let mut place = weaver::project("knobs: { threads: 2 }");
    place.set("WEAVER", "wait");
    let trainer = place.read("trainer.sh").replace(
        "wait)",
        "wait) for i in $(seq 1 5000); do echo \"row $i is woven\"; done; echo 'to \u{1b}]0;title\u{7}err' >&2;",
    );
    place.write("trainer.sh", &trainer);
    let mut watching = Watching::start(&place, &WATCH, &[]);
    // Standard error comes first.
    watching.until("to err");
    watching.press("o");
    watching.until("row 5000 is woven");
    watching.press("/row 17 is\r");
    watching.until("row 17 is woven");
    watching.until("\"row 17 is\"");
    watching.press("/no such row\r");
    watching.until("is not there");
    watching.press("z");
    watching.until_so("the log alone", |s| !s.contains("attempts of"));
    watching.press("G");
    watching.until("row 5000 is woven");
    let sent = String::from_utf8_lossy(&watching.sent);
    assert!(
        !sent.contains("\u{1b}]"),
        "the log has no hand in the terminal"
    );
    watching.press("q");
    watching.ends(130);
    place.write("go", "");
    place.run(&["watch", "weaver-1"]).ends(0);
}

#[test]
fn it_follows_the_size_of_the_terminal_without_colours_and_in_ascii() {
    let mut place = weaver::project("knobs: { threads: 2 }");
    place.set("WEAVER", "wait");
    let words = [&WATCH[..], &["--ascii"]].concat();
    let mut watching = Watching::start(&place, &words, &[("NO_COLOR", "1")]);
    watching.until("RUNNING");
    let first = watching.shown();
    assert!(
        first.is_ascii() && first.lines().all(|l| l.len() <= 80),
        "{first}"
    );
    let size = Winsize {
        ws_row: 50,
        ws_col: 200,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let screen = watching.screen.screen_mut();
    screen.set_size(cells(50), cells(200));
    tcsetwinsize(&watching.theirs, size).unwrap();
    watching.until_so("a wide screen", |s| s.contains(&"-".repeat(120)));
    let row = watching.shown().lines().count();
    assert_eq!(row, 50);
    watching.press("q");
    watching.until("Detached.");
    let sent = String::from_utf8_lossy(&watching.sent).into_owned();
    let colour = regex::Regex::new(r"\x1b\[[0-9;]*;3[0-7]m").unwrap();
    assert!(!colour.is_match(&sent));
    watching.ends(130);
    place.write("go", "");
    place.run(&["watch", "weaver-1"]).ends(0);
}

#[test]
fn lines_are_told_where_lines_are_wanted() {
    let place = weaver::project("knobs: { threads: 2 }");
    let plain = [&WATCH[..], &["--plain"]].concat();
    for (words, variables) in [
        (&plain[..], [("X", "")]),
        (&WATCH[..], [("CI", "true")]),
        (&WATCH[..], [("TERM", "dumb")]),
    ] {
        let mut watching = Watching::start(&place, words, &variables);
        watching.until("succeeded (1 attempt");
        let sent = String::from_utf8_lossy(&watching.sent).into_owned();
        assert!(!sent.contains("\u{1b}[?1049h"), "{sent}");
        watching.ends(0);
    }
}
