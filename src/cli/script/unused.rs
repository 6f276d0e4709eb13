//! Arguments behind a script that reads none.

use crate::cli::script::read::Read;
use crate::core::adopt::command;
use oomctl_scripts::is_shell;

/// How a shell script gets at its arguments.
const READ: [&str; 8] = [
    "$@", "$*", "${@", "${*", "$#", "shift", "getopts", "BASH_ARG",
];

/// That nothing reads the words behind the script. A script in another language may read them in ways of its own.
pub fn told(read: &Read) -> Option<String> {
    let script = &read.submission.script;
    let args = &read.submission.args;
    let is_in_shell = read.files.get(script).is_some_and(|text| is_shell(text));
    let mut texts = read.files.values().filter(|text| is_shell(text));
    if args.is_empty() || !is_in_shell || texts.any(|text| reads(text)) {
        return None;
    }
    Some(format!(
        "note: {script} does not read its arguments (`\"$@\"`), so what is behind it changes nothing: {}",
        command(args)
    ))
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
