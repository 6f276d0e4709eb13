//! Files that options name: what is there and is not a regular file is written into, and links are followed.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, symlink};

use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat};

use super::place::{Done, Place};
use super::{sweeps, weaver};
use oomctl_base::word_list;

/// An option that takes a file to write.
struct Writes {
    words: &'static [&'static str],
    /// What stands in the file.
    text: &'static str,
}

const REPORT: Writes = Writes {
    words: &["report", "--format", "text", "--to"],
    text: "w succeeded: ",
};
const WATCHED: [Writes; 3] = [
    Writes {
        words: &["watch", "w", "--junit"],
        text: "<testsuites",
    },
    Writes {
        words: &["watch", "w", "--code-quality"],
        text: "[]",
    },
    Writes {
        words: &["watch", "w", "--dotenv"],
        text: "OOMCTL_RUN=w",
    },
];
const FIX: Writes = Writes {
    words: &word_list::<6>("sweep fix sweep.yaml --set graph_vocab_size=10000 -o"),
    text: "graph_vocab_size:",
};

/// A place for each option, with what it needs.
fn all() -> Vec<(Place, Writes)> {
    let ran = || {
        let mut place = weaver::project("");
        place.set("WEAVER", "fits 9");
        let words = ["submit", "--backend", "local", "--watch", "--run", "w"];
        place.run(&words).ends(0);
        place
    };
    let mut all = vec![(ran(), REPORT), (sweeps::path_star(), FIX)];
    all.extend(WATCHED.map(|writes| (ran(), writes)));
    all
}

impl Writes {
    fn to(&self, place: &Place, file: &str) -> Done {
        place.run(&[self.words, &[file]].concat()).ends(0)
    }

    #[track_caller]
    fn is_in(&self, text: &str) {
        assert!(text.contains(self.text), "{:?}: {text:?}", self.words);
    }
}

#[test]
fn every_option_that_takes_a_file_writes_into_what_is_no_regular_file() {
    for (place, option) in all() {
        let pipe = place.path("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        // Open for reading before it is written, and for writing, so that no opening waits.
        let nonblock = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
        let mut options = File::options();
        options.read(true).write(true).custom_flags(nonblock);
        let mut reader = options.open(&pipe).unwrap();
        symlink("pipe", place.path("to-the-pipe")).unwrap();
        for name in ["pipe", "to-the-pipe"] {
            let done = option.to(&place, name);
            let kind = fs::symlink_metadata(&pipe).unwrap().file_type();
            assert!(kind.is_fifo(), "{:?}: {}", option.words, done.told());
            let mut read = vec![0; 1 << 16];
            let length = reader.read(&mut read).unwrap();
            option.is_in(&String::from_utf8_lossy(&read[..length]));
        }
        assert!(place.path("to-the-pipe").is_symlink());

        option.is_in(&option.to(&place, "/dev/stdout").out);
        let command = format!("$OOMCTL {}", option.words.join(" "));
        let waits = "until [ -e done ]; do sleep 0.01; done";
        for line in [
            format!("{command} >(cat >out; : >done); {waits}; cat out"),
            format!("{command} /dev/fd/3 3>out >other; cat out"),
        ] {
            option.is_in(&place.shell(&line).out);
        }
        let group = format!("{{ echo before; {command} /dev/stdout; echo after; }} >out; cat out");
        let out = place.shell(&group).out;
        option.is_in(&out);
        let kept = out.starts_with("before\n") && out.ends_with("after\n");
        assert!(kept, "{out}");
    }
}

#[test]
fn every_option_that_takes_a_file_follows_links_and_replaces_the_file() {
    for (place, option) in all() {
        place.write("far/file", "old");
        symlink("far/file", place.path("link")).unwrap();
        option.to(&place, "link");
        assert!(place.path("link").is_symlink(), "{:?}", option.words);
        option.is_in(&place.read("far/file"));
        symlink("far/new", place.path("dangling")).unwrap();
        option.to(&place, "dangling");
        option.is_in(&place.read("far/new"));
    }
}

/// As root: a device is what everybody would miss.
#[test]
fn a_device_stays_a_device() {
    for (place, option) in all() {
        let null = place.path("null");
        if mknodat(
            CWD,
            &null,
            FileType::CharacterDevice,
            Mode::RWXU,
            makedev(1, 3),
        )
        .is_err()
        {
            return;
        }
        option.to(&place, "null");
        let kind = fs::symlink_metadata(&null).unwrap().file_type();
        assert!(kind.is_char_device(), "{:?}", option.words);
    }
}

#[test]
fn a_project_file_behind_a_link_is_written_there() {
    let place = Place::bare();
    place.write("shared.yaml", "preset: torchrun\n");
    symlink("shared.yaml", place.path("oomctl.yaml")).unwrap();
    place.write("train.py", "");
    place.run("init --force --preset robust").ends(0);
    assert!(place.path("oomctl.yaml").is_symlink());
    assert!(place.read("shared.yaml").contains("yaml-language-server"));
}
