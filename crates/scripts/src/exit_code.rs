//! Whether a script may end in exit code 0 although the program in it failed.

use super::walk::{Call, Reading, SCRIPT};

/// Lines that only close a block.
const CLOSING: [&str; 5] = ["fi", "done", "esac", "}", ")"];

/// Whether exit code 0 of the job says nothing of a program: its output goes through a pipe without `pipefail`, or a script
/// goes on after it without `set -e`. False where a script hands on a code itself (`exit $rc`), and where the place of the
/// program is unknown.
pub fn may_hide(reading: &Reading, call: &Call) -> bool {
    let Some(start) = call.start else {
        return false;
    };
    let Some(source) = reading.sources.get(start.file) else {
        return false;
    };
    let name = source.path.rsplit('/').next().unwrap_or(&source.path);
    // A script that starts the one with the program may hide its exit code too.
    let others = reading.sources.iter().skip(SCRIPT).enumerate();
    let mut others = others.filter(|(at, _)| at + SCRIPT != start.file && start.file != SCRIPT);
    let around = others.any(|(_, other)| {
        let mut places = other.text.match_indices(name);
        places.any(|(at, _)| hides(&other.text, at))
    });
    around || hides(&source.text, start.start)
}

/// Whether a script hides the exit code of the command at this byte.
fn hides(text: &str, at: usize) -> bool {
    let (command, rest) = first_command(text.get(at..).unwrap_or_default());
    let piped = command.contains(" | ") || command.contains(" |& ");
    let ignored = command.split_once(" || ");
    let ignored = ignored.is_some_and(|(_, then)| !then.contains("exit"));
    let goes_on = rest.lines().map(str::trim).any(|line| {
        let bare = line.trim_end_matches(';');
        !bare.is_empty() && !bare.starts_with('#') && !CLOSING.contains(&bare)
    });
    let hands_on = ["exit $", "exit \"$"]
        .iter()
        .any(|exit| rest.contains(exit));
    let hidden = piped && !text.contains("pipefail") || ignored || goes_on && !ends_on_errors(text);
    hidden && !hands_on
}

/// The words of a command without what is quoted, and what follows the command. Backslashes, quotes and a here-document
/// carry it over lines.
fn first_command(text: &str) -> (String, &str) {
    let (mut words, mut quote, mut escaped) = (String::new(), None, false);
    let mut end = text.len();
    for (at, sign) in text.char_indices() {
        let taken = std::mem::take(&mut escaped);
        match (sign, quote) {
            ('\n', None) if !taken => {
                end = at;
                break;
            }
            ('\\', None | Some('"')) if !taken => escaped = true,
            ('"' | '\'', None) if !taken => quote = Some(sign),
            (_, Some(open)) if sign == open && !taken => quote = None,
            (_, None) => words.push(sign),
            (_, Some(_)) => {}
        }
    }
    let rest = &text[end..];
    let word = text[..end]
        .split_once("<<")
        .map(|(_, word)| word.trim_start_matches(['-', ' ']));
    let word = word.and_then(|word| word.split_whitespace().next());
    let closing = word.map(|word| word.trim_matches(['"', '\'']));
    let closed = closing.and_then(|closing| {
        let mut lines = rest.split_inclusive('\n').scan(0, |at, line| {
            *at += line.len();
            Some((*at, line))
        });
        lines
            .find(|(_, line)| line.trim() == closing)
            .map(|(at, _)| at)
    });
    (words, &rest[closed.unwrap_or(0)..])
}

/// Whether a shell ends at the first command that fails (`set -e`, `set -euo pipefail`, `#!/bin/bash -e`).
fn ends_on_errors(text: &str) -> bool {
    let has_e = |words: &str| {
        let mut words = words.split_whitespace();
        words.any(|word| word == "errexit" || is_short(word) && word.contains('e'))
    };
    let shebang = text.lines().next().filter(|line| line.starts_with("#!"));
    let mut set = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("set "));
    set.any(has_e) || shebang.is_some_and(has_e)
}

/// Whether a word is letters behind one dash.
fn is_short(word: &str) -> bool {
    let letters = word.strip_prefix('-');
    letters.is_some_and(|l| !l.is_empty() && l.chars().all(|c| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &str) -> bool {
        hides(script, script.find("torchrun").unwrap())
    }

    #[test]
    fn a_script_that_goes_on_or_pipes_hides_an_exit_code() {
        for script in [
            "#!/bin/bash\ntorchrun t.py 2>&1 | tee log\n",
            "set -e\ntorchrun t.py \\\n  --lr 1 | tee log\n",
            "torchrun t.py\necho finished\n",
            "torchrun t.py || true\n",
            "torchrun t.py \"a\nb\"\necho finished\n",
            "torchrun - <<EOF\nimport x\nEOF\necho finished\n",
            "set -eo pipefail\ntorchrun t.py || echo failed\n",
        ] {
            assert!(of(script), "{script}");
        }
        for script in [
            "#!/bin/bash\ntorchrun t.py \\\n  --lr 1\n\n# done\n",
            "if true; then\n  torchrun t.py\nfi\n",
            "#!/bin/bash -e\ntorchrun t.py\necho finished\n",
            "set -euo pipefail\ntorchrun t.py | tee log\necho finished\n",
            "set -o errexit\ntorchrun t.py\necho finished\n",
            "torchrun t.py\nrc=$?\necho $rc\nexit $rc\n",
            "torchrun t.py | tee log\nexit ${PIPESTATUS[0]}\n",
            "torchrun t.py || exit 1\n",
            "torchrun t.py \"a\nb | c\" 'd | e\n'\n",
            "torchrun - <<'EOF'\nimport x\nEOF\n",
        ] {
            assert!(!of(script), "{script}");
        }
    }
}
