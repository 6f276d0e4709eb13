//! Arguments behind a script: options of oomctl, and any where the script reads none.

use crate::core::adopt::{Scripts, command};
use crate::view::print;
use oomctl_base::word_list;
use oomctl_scripts::is_shell;

/// How a shell script gets at its arguments.
const READ: [&str; 8] = [
    "$@", "$*", "${@", "${*", "$#", "shift", "getopts", "BASH_ARG",
];

/// Options that only oomctl has, as far as is known.
const OURS: [&str; 17] = word_list(
    "--json --set --preset --all --measure --watch --yes --dry-run --supervise --attempts --same-math --fresh -n -w -y -wy -yw",
);

/// Those of them that change what oomctl does with the job: who gave one behind the script meant oomctl.
const DECIDE: [&str; 12] =
    word_list("--measure --watch --yes --dry-run --supervise --same-math --fresh -n -w -y -wy -yw");

/// Whether only oomctl has a word as an option.
fn is_ours(word: &str) -> bool {
    OURS.contains(&word)
}

/// Says which options of ours stand behind the script, where they are the script's.
pub fn tell_ours(args: &[String], is_ours: impl Fn(&str) -> bool) {
    let ours = args.iter().filter(|w| is_ours(w));
    ours.for_each(|word| print::talk(&passed(word)));
}

fn passed(word: &String) -> String {
    format!("note: {word} comes after SCRIPT, so it is passed to the script: {REMEDY}")
}

/// Whether nothing reads the words behind a script. A script in another language may read them in ways of its own.
fn is_unread(scripts: &Scripts) -> bool {
    let text = scripts.files.get(&scripts.script);
    let mut texts = scripts.files.values().filter(|text| is_shell(text));
    !scripts.args.is_empty()
        && text.is_some_and(|text| is_shell(text))
        && !texts.any(|text| reads(text))
}

/// What is said of the words behind a script of which some are options of ours, or which nothing reads.
pub fn told(scripts: &Scripts) -> Vec<String> {
    let script = &scripts.script;
    let handed = are_the_scripts(script);
    let ours = scripts.args.iter().filter(|word| !handed && is_ours(word));
    let passed = ours.map(passed);
    let unread = is_unread(scripts).then(|| {
        let words = command(&scripts.args);
        format!("note: {script} reads no arguments: {words} has no effect: {REMEDY}")
    });
    passed.chain(unread).collect()
}

/// What to do about an option of ours behind a script.
const REMEDY: &str = "put oomctl options before SCRIPT";

/// Why options of ours behind a script are an error, and what to do: the script reads none, or they change what oomctl does with the
/// job. A `--` before the script says that all words behind it are the script's.
pub fn misplaced(scripts: &Scripts) -> Option<(String, String)> {
    let script = &scripts.script;
    if are_the_scripts(script) {
        return None;
    }
    let unread = is_unread(scripts);
    let words = scripts.args.iter().enumerate().filter(|(at, word)| {
        // A short option with something else behind it is the script's own.
        let alone = word.starts_with("--") || scripts.args[*at..].iter().all(|word| is_ours(word));
        DECIDE.contains(&word.as_str()) && alone || unread && is_ours(word)
    });
    let words: Vec<&str> = words.map(|(_, word)| word.as_str()).collect();
    let s = if words.len() == 1 { "s" } else { "" };
    let (what, hint) = match (words.is_empty(), unread) {
        (true, _) => return None,
        (false, true) => ("reads no arguments", REMEDY.to_owned()),
        (false, false) => (
            "would get it",
            format!("{REMEDY}. If it is meant for the script: `oomctl submit -- {script} …`"),
        ),
    };
    let words = words.join(", ");
    Some((
        format!("{words} come{s} after {script}, which {what}"),
        hint,
    ))
}

/// Whether a `--` stands before the script.
fn are_the_scripts(script: &str) -> bool {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let mut before = words.take_while(|word| !word.ends_with(script));
    before.any(|word| word == "--")
}

fn reads(text: &str) -> bool {
    let numbered = |sign: &str| {
        let mut after = text.split(sign).skip(1);
        after.any(|rest| rest.starts_with(|c: char| ('1'..='9').contains(&c)))
    };
    READ.iter().any(|word| text.contains(word)) || numbered("$") || numbered("${")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_its_arguments_by_any_of_the_shells_ways() {
        for text in [
            "a \"$@\"",
            "for x in $*; do",
            "B=$1",
            "B=${2:-8}",
            "shift",
            "while getopts b: o",
        ] {
            assert!(reads(text), "{text}");
        }
        for text in ["a --batch 8", "a $BATCH ${HOME}", "echo $0", ""] {
            assert!(!reads(text), "{text}");
        }
    }
}
