//! What a shell gets from us: candidates at the Tab (what becomes of them on the line: `tab.rs`), and manual
//! pages.

use std::process::{Command, Stdio};

use super::place::{Done, Place};
use super::weaver;

/// The words that bash would offer at the end of a line.
fn bash(place: &Place, line: &str) -> Vec<String> {
    // The last word is what is typed; bash takes words apart at `=` and `:` itself.
    let script = format!(
        r#"
source <(oomctl completions bash) || exit 1
COMP_LINE={line:?}
COMP_POINT=${{#COMP_LINE}}
COMP_WORDS=() COMP_TYPE=9
rest=$COMP_LINE
while [[ -n $rest ]]; do
    case $rest in
        ' '*) rest=${{rest# }}; [[ -n $rest ]] || COMP_WORDS+=("") ;;
        [=:]*) COMP_WORDS+=("${{rest:0:1}}"); rest=${{rest:1}} ;;
        *) word=${{rest%%[ =:]*}}; COMP_WORDS+=("$word"); rest=${{rest#"$word"}} ;;
    esac
done
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
$(complete -p oomctl | sed 's/.*-F \([^ ]*\).*/\1/') oomctl "${{COMP_WORDS[COMP_CWORD]}}" ""
printf '%s\n' "${{COMPREPLY[@]}}"
"#
    );
    let done = shell(place, "bash", &["--norc", "-c", &script]);
    assert_eq!(done.code, 0, "{line}: {}", done.told());
    assert_eq!(done.err, "", "{line}");
    done.out
        .lines()
        .filter(|l| !l.is_empty())
        .map(str::to_owned)
        .collect()
}

fn shell(place: &Place, shell: &str, arguments: &[&str]) -> Done {
    let mut command = Command::new(shell);
    command.args(arguments);
    place.at_home(&mut command);
    command.stdin(Stdio::null()).output().unwrap().into()
}

/// Finds the program by its name, as a shell does.
pub fn with_oomctl(mut place: Place) -> Place {
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_oomctl"));
    place.first_on_path = vec![binary.parent().unwrap().to_owned()];
    place
}

/// A project with a run, `loom-a`.
pub fn with_a_run() -> Place {
    let place = with_oomctl(weaver::project(""));
    place
        .run(&["submit", "--backend", "local", "--run", "loom-a", "--watch"])
        .ends(0);
    place
}

#[test]
fn bash_offers_commands_flags_and_what_there_is_here() {
    let place = with_a_run();
    let offers = |line: &str, wanted: &[&str]| {
        let offered = bash(&place, line);
        for word in wanted {
            assert!(offered.iter().any(|o| o == word), "{line:?}: {offered:?}");
        }
        offered
    };
    offers("oomctl sta", &["status"]);
    offers("oomctl submit --da", &["--dataset"]);
    offers("oomctl submit --dataset dia", &["diamonds-seed0"]);
    offers("oomctl submit --dataset=dia", &["diamonds-seed0"]);
    offers("oomctl plan --cluster ", &["example-a100", "example-h100"]);
    offers("oomctl plan --preset we", &["weaver"]);
    offers("oomctl presets verl-g", &["verl-grpo"]);
    offers("oomctl status loo", &["loom-a"]);
    offers("oomctl watch ", &["loom-a"]);
    offers("oomctl explain --run lo", &["loom-a"]);
    offers("oomctl diagnose lo", &["loom-a"]);
    // Knobs are those of the preset: the project's, or that of the line.
    assert_eq!(offers("oomctl explain thre", &["threads"]), ["threads"]);
    assert_eq!(
        offers("oomctl submit --set thre", &["threads="]),
        ["threads="]
    );
    offers(
        "oomctl plan --preset verl-grpo --set ppo_micro",
        &["ppo_micro_batch_size_per_gpu="],
    );
    offers(
        "oomctl plan --preset=verl-grpo --set ppo_micro",
        &["ppo_micro_batch_size_per_gpu="],
    );
    // Behind the `=` only what is missing is offered, for bash replaces only that.
    assert_eq!(
        bash(
            &place,
            "oomctl plan --preset verl-grpo --set param_offload=t"
        ),
        ["true"]
    );
    assert_eq!(
        bash(
            &place,
            "oomctl plan --preset verl-grpo --set param_offload="
        ),
        ["true", "false"]
    );
    // Ids of jobs.
    let status = place.json("status loom-a --json");
    let job = status["runs"][0]["attempts"][0]["job"]
        .as_str()
        .unwrap()
        .to_owned();
    offers(&format!("oomctl watch {}", &job[..1]), &[&job]);
    // Nothing is broken by what is no name.
    assert_eq!(
        bash(&place, "oomctl submit --dataset zzqqx"),
        Vec::<String>::new()
    );
    assert_eq!(
        bash(&place, "oomctl no-such-command --da"),
        Vec::<String>::new()
    );
}

/// What zsh asks for, without zsh: candidates with what they are.
#[test]
fn candidates_come_with_what_they_mean_where_the_shell_shows_it() {
    let place = weaver::project("");
    let mut command = place.command(&["--", "oomctl", "submit", "--set", "thre"]);
    command
        .env("OOMCTL_COMPLETE", "zsh")
        .env("_CLAP_COMPLETE_INDEX", "3");
    let done: Done = command.output().unwrap().into();
    assert!(done.out.starts_with("threads=:"), "{}", done.told());
}

/// Long names of the flags in a help text.
fn flags(help: &str) -> Vec<String> {
    let long = regex::Regex::new(r"(?m)^ +(?:-\w, )?(--[a-z][a-z-]*)").unwrap();
    long.captures_iter(help).map(|c| c[1].to_owned()).collect()
}

#[test]
fn there_is_a_manual_page_for_each_command_and_it_holds_every_flag() {
    let place = Place::bare();
    place.run(&["man", "--out", "share/man1"]).ends(0);
    let page = |words: &[&str]| {
        let name = ["oomctl"]
            .iter()
            .chain(words)
            .copied()
            .collect::<Vec<_>>()
            .join("-");
        place
            .read(&format!("share/man1/{name}.1"))
            .replace("\\-", "-")
    };
    let commands = |words: &[&str]| -> Vec<String> {
        let help = place.run(&[words, &["--help"]].concat()).ends(0).out;
        // The first page has its commands in groups, and names the rare ones in a line.
        let list = match words {
            [] => help.split("Options:").next(),
            _ => help
                .split("Commands:\n")
                .nth(1)
                .and_then(|l| l.split("\n\n").next()),
        };
        let list = list.unwrap_or_default();
        let rare = list
            .split("Also: ")
            .nth(1)
            .and_then(|l| l.split('.').next());
        let rare = rare.into_iter().flat_map(|names| names.split(", "));
        let lines = list
            .lines()
            .filter_map(|l| l.strip_prefix("  ")?.split(' ').next());
        let names = lines.chain(rare).filter(|n| !n.is_empty() && *n != "help");
        names.map(str::to_owned).collect()
    };
    let mut seen = 0;
    let mut check = |words: &[&str]| {
        let help = place.run(&[words, &["--help"]].concat()).ends(0).out;
        let page = page(words);
        for flag in flags(&help) {
            assert!(page.contains(&flag), "{words:?}: {flag}");
            seen += 1;
        }
    };
    check(&[]);
    for command in commands(&[]) {
        check(&[&command]);
        for below in commands(&[&command]) {
            check(&[&command, &below]);
        }
    }
    assert!(seen > 250, "{seen}");
    assert!(page(&[]).contains("Exit codes"));
    // `man` can show them.
    if Command::new("man").arg("--version").output().is_ok() {
        let done = shell(&place, "man", &["-l", "share/man1/oomctl-submit.1"]);
        assert_eq!(done.code, 0, "{}", done.told());
        done.says(&["--dataset", "NAME"]);
    }
}
