//! A Tab in bash, zsh and fish, as a person presses it: the shell itself, on a terminal, with the line of its
//! start-up file that the documentation names. A shell that is not installed is skipped, with a word; in CI
//! that fails.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::gpus::terminal;
use super::place::{PATIENCE, Place};
use super::shell::{with_a_run, with_oomctl};
use super::weaver;

/// A knob whose values are awkward in every shell.
const AWKWARD: &str = r#"
  - { name: yarn, type: text, choices: ["raw silk", "cuda:0", "it's", 'two "ply"', "$HOME"], effect: resources, doc: "Yarn: raw or spun" }
"#;

/// A shell that reads our script when it starts. Ctrl-G writes its line into a file.
struct Shell {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Where in its home it looks for its first lines.
    start: &'static str,
    /// Its prompt, and what Ctrl-G does.
    prompt: &'static str,
    /// Reads our script.
    reads: &'static str,
}

const BASH: Shell = Shell {
    name: "bash",
    arguments: &["--noprofile", "--rcfile", "../home/bashrc", "-i"],
    start: "bashrc",
    prompt: r#"
PS1='> '
bind 'set enable-bracketed-paste off'
bind 'set show-all-if-ambiguous on'
bind -x '"\C-g": printf %s "$READLINE_LINE" >~/line.new; mv ~/line.new ~/line'
"#,
    reads: "source <(oomctl completions bash)",
};

const ZSH: Shell = Shell {
    name: "zsh",
    arguments: &["-d", "-i"],
    start: ".zshrc",
    prompt: r#"
PS1='> '
unsetopt prompt_sp
written() { print -rn -- "$BUFFER" >~/line.new; mv ~/line.new ~/line }
zle -N written
bindkey '^G' written
autoload -Uz compinit
"#,
    reads: "compinit -u -D; source <(oomctl completions zsh)",
};

/// The same, where a package has put the script.
const ZSH_WITH_A_PACKAGE: Shell = Shell {
    reads: "fpath=(~/functions $fpath); compinit -u -D",
    ..ZSH
};

const FISH: Shell = Shell {
    name: "fish",
    arguments: &["-i"],
    start: ".config/fish/config.fish",
    prompt: r"
set fish_greeting
set fish_autosuggestion_enabled 0
function fish_prompt; echo '> '; end
function fish_title; end
bind \cg 'commandline >~/line.new; mv ~/line.new ~/line'
",
    reads: "oomctl completions fish | source",
};

/// A shell that waits for keys.
struct Typing<'a> {
    place: &'a Place,
    child: Child,
    keys: File,
    screen: vt100::Parser,
}

impl<'a> Typing<'a> {
    /// Starts it in the folder of a place; `None` where it is not installed.
    fn start(place: &'a Place, shell: &Shell) -> Option<Self> {
        if Command::new(shell.name).arg("--version").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "no {}", shell.name);
            eprintln!("skipped: no {} here", shell.name);
            return None;
        }
        let lines = format!("{}{}\n", shell.prompt, shell.reads);
        place.write(&format!("../home/{}", shell.start), &lines);
        let (ours, theirs) = terminal();
        // The terminal is the shell's own, as it is a person's.
        let mut command = Command::new("setsid");
        command.args(["--ctty", shell.name]).args(shell.arguments);
        place.at_home(&mut command);
        command
            .env("TERM", "xterm")
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs);
        let mut typing = Self {
            place,
            child: command.spawn().unwrap(),
            keys: File::from(ours),
            screen: vt100::Parser::default(),
        };
        typing.until("the prompt", |shown| shown == ">");
        Some(typing)
    }

    /// What is on the screen, without the blanks around it.
    fn shown(&self) -> String {
        self.screen.screen().contents().trim().to_owned()
    }

    /// Reads what is sent, until something is so.
    #[track_caller]
    fn until(&mut self, what: &str, so: impl Fn(&str) -> bool) {
        let start = Instant::now();
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        let mut bytes = [0; 4_096];
        while !so(&self.shown()) {
            assert!(
                start.elapsed() < PATIENCE,
                "in vain waited for {what} on\n{}",
                self.shown()
            );
            let mut wait = [PollFd::new(&self.keys, PollFlags::IN)];
            if poll(&mut wait, Some(&moment)).unwrap() > 0 {
                let n = self.keys.read(&mut bytes).unwrap();
                self.screen.process(&bytes[..n]);
            }
        }
    }

    /// The line after a Tab at its end.
    #[track_caller]
    fn tab(&mut self, line: &str) -> String {
        let written = self.place.home.join("line");
        // Ctrl-U empties the line, and Ctrl-L the screen.
        write!(self.keys, "\x15\x0c{line}\t\x07").unwrap();
        self.until(line, |_| written.exists());
        let text = fs::read_to_string(&written).unwrap();
        fs::remove_file(written).unwrap();
        text.trim_end_matches('\n').to_owned()
    }

    /// The candidates are shown below the line.
    #[track_caller]
    fn lists(&mut self, line: &str, candidates: &[&str]) {
        write!(self.keys, "\x15\x0c{line}\t").unwrap();
        self.until(line, |shown| candidates.iter().all(|c| shown.contains(c)));
    }
}

impl Drop for Typing<'_> {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Tells a story in every shell that is installed.
fn in_each(place: &Place, story: impl Fn(&'static str, &mut Typing)) {
    for shell in [BASH, ZSH, FISH] {
        if let Some(mut typing) = Typing::start(place, &shell) {
            story(shell.name, &mut typing);
        }
    }
}

/// A project whose preset has the awkward knob.
fn awkward() -> Place {
    let place = with_oomctl(weaver::project(""));
    let preset = place.read("presets/weaver.yaml");
    let with_yarn = preset.replacen("\nknobs:", &format!("\nknobs:{AWKWARD}"), 1);
    assert_ne!(preset, with_yarn);
    place.write("presets/weaver.yaml", &with_yarn);
    place
}

#[test]
fn what_there_is_here_is_completed() {
    let place = with_a_run();
    in_each(&place, |shell, typing| {
        for (typed, completed) in [
            ("oomctl sta", "oomctl status "),
            ("oomctl submit --datas", "oomctl submit --dataset "),
            (
                "oomctl submit --dataset dia",
                "oomctl submit --dataset diamonds-seed0 ",
            ),
            (
                "oomctl submit --dataset=dia",
                "oomctl submit --dataset=diamonds-seed0 ",
            ),
            ("oomctl plan --preset weav", "oomctl plan --preset weaver "),
            ("oomctl status loo", "oomctl status loom-a "),
            ("oomctl explain --run lo", "oomctl explain --run loom-a "),
            // More follows, and right behind it.
            ("oomctl plan --set threa", "oomctl plan --set threads="),
            (
                "oomctl plan --preset verl-grpo --set param_offload=t",
                "oomctl plan --preset verl-grpo --set param_offload=true ",
            ),
            // What is quoted is the same word.
            (
                "oomctl plan --preset 'verl-grpo' --set \"param_offload=t",
                "oomctl plan --preset 'verl-grpo' --set \"param_offload=true\" ",
            ),
        ] {
            assert_eq!(typing.tab(typed), completed, "{shell}");
        }
        typing.lists(
            "oomctl plan --cluster example-",
            &["example-a100", "example-h100"],
        );
        typing.lists(
            "oomctl plan --preset verl-grpo --set param_offload=",
            &["true", "false"],
        );
    });
}

#[test]
fn awkward_names_are_quoted_as_the_shell_wants_them() {
    let place = awkward();
    for file in ["my logs/slurm one.err", "it's.log", "co:lon.log"] {
        place.write(file, "");
    }
    place.write("../home/far off/a.log", "");
    in_each(&place, |shell, typing| {
        for (typed, completed) in [
            ("oomctl diagnose my", r"oomctl diagnose my\ logs/"),
            (r"oomctl diagnose my\ lo", r"oomctl diagnose my\ logs/"),
            (
                "oomctl diagnose 'my logs/",
                "oomctl diagnose 'my logs/slurm one.err' ",
            ),
            (
                r"oomctl diagnose my\ logs/",
                r"oomctl diagnose my\ logs/slurm\ one.err ",
            ),
            ("oomctl diagnose it", r"oomctl diagnose it\'s.log "),
            ("oomctl diagnose \"it", "oomctl diagnose \"it's.log\" "),
            ("oomctl diagnose co", "oomctl diagnose co:lon.log "),
            // What a shell expands is left as it was typed.
            (
                r"oomctl diagnose ~/far\ off/",
                r"oomctl diagnose ~/far\ off/a.log ",
            ),
            (
                "oomctl plan --set yarn=r",
                r"oomctl plan --set yarn=raw\ silk ",
            ),
            (
                "oomctl plan --set 'yarn=r",
                "oomctl plan --set 'yarn=raw silk' ",
            ),
            ("oomctl plan --set yarn=c", "oomctl plan --set yarn=cuda:0 "),
            (
                "oomctl plan --set yarn=cuda:",
                "oomctl plan --set yarn=cuda:0 ",
            ),
            ("oomctl plan --set yarn=i", r"oomctl plan --set yarn=it\'s "),
            (
                "oomctl plan --set 'yarn=t",
                "oomctl plan --set 'yarn=two \"ply\"' ",
            ),
            (
                r"oomctl plan --set yarn=\$",
                r"oomctl plan --set yarn=\$HOME ",
            ),
        ] {
            assert_eq!(typing.tab(typed), completed, "{shell}");
        }
    });
}

/// A file whose name no command would take is no candidate.
#[test]
fn only_names_that_can_be_used_are_offered() {
    let place = with_oomctl(weaver::project(""));
    for name in ["silk", "silk and wool", "silk\nred"] {
        place.write(&format!("presets/datasets/{name}.yaml"), "dataset: silk\n");
    }
    in_each(&place, |shell, typing| {
        let completed = typing.tab("oomctl plan --dataset sil");
        assert_eq!(completed, "oomctl plan --dataset silk ", "{shell}");
    });
}

/// Nothing is offered, and nothing is written into the middle of the line.
#[test]
fn a_tab_is_silent_whatever_is_wrong() {
    let lines = [
        "oomctl submit --set zzqqx",
        "oomctl submit --dataset zzqqx",
        "oomctl watch zzqqx",
        "oomctl no-such-command --da",
    ];
    for yaml in [
        None,
        Some("preset: [\n"),
        Some("preset: nothing\n"),
        Some("\u{1}\0"),
    ] {
        let place = with_oomctl(Place::bare());
        if let Some(yaml) = yaml {
            place.write("oomctl.yaml", yaml);
            place.write("presets/weaver.yaml", "knobs: [\n");
            place.write("presets/datasets/torn.yaml", "- \u{1b}[31m");
        }
        in_each(&place, |shell, typing| {
            for line in lines {
                assert_eq!(typing.tab(line), line, "{shell}");
                typing.until("the line alone", |shown| shown == format!("> {line}"));
            }
        });
    }
}

/// Zsh reads such a file only at the first Tab, which wants its answer.
#[test]
fn the_first_tab_counts_where_a_package_has_put_the_script() {
    let place = with_oomctl(weaver::project(""));
    let script = place.run(&["completions", "zsh"]).ends(0).out;
    place.write("../home/functions/_oomctl", &script);
    if let Some(mut typing) = Typing::start(&place, &ZSH_WITH_A_PACKAGE) {
        assert_eq!(typing.tab("oomctl sta"), "oomctl status ");
    }
}
