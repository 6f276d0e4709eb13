//! Whether a script may end in exit code 0 although the program in it failed.

use super::traced::Span;
use super::walk::{Call, Reading, SCRIPT};

/// Words that only close a block.
const CLOSING: [&str; 4] = ["fi", "done", "esac", "}"];

/// Words before a command whose exit code only decides what follows.
const ASKING: [&str; 5] = ["if", "elif", "while", "until", "!"];

/// The place where exit code 0 of the job says nothing of a program: its output goes through a pipe without `pipefail`, a script goes on
/// after it without `set -e`, only asks for its exit code (`if`, `||`), or ends in a trap that exits. None where a script hands on a code
/// itself (`exit $rc`).
pub fn hiding_place(reading: &Reading, call: &Call) -> Option<Span> {
    let mut places = call.carriers.iter().chain(&call.start);
    let found = places.find(|place| {
        let source = reading.sources.get(place.file);
        place.file >= SCRIPT && source.is_some_and(|source| hides(&source.text, place.start))
    });
    found.copied()
}

/// Whether a script goes on after a program whose exit code it hides, and starts another of these calls behind it.
pub fn goes_on_to_another(reading: &Reading, call: &Call) -> bool {
    let Some(hidden) = hiding_place(reading, call) else {
        return false;
    };
    let Some(text) = reading.sources.get(hidden.file).map(|s| &s.text) else {
        return false;
    };
    let (command, rest) = first_command(text.get(hidden.start..).unwrap_or_default());
    let behind = text.len() - rest.len();
    let calls = reading.calls.iter();
    let mut others = calls.flat_map(|call| call.carriers.iter().chain(&call.start));
    let again = is_repeated(text.get(..hidden.start).unwrap_or_default(), &command);
    let another = others.any(|at| at.file == hidden.file && at.start >= behind);
    !command.contains("||") && (again || another)
}

/// Whether a script hides the exit code of the command at this byte.
fn hides(text: &str, at: usize) -> bool {
    let (command, rest) = first_command(text.get(at..).unwrap_or_default());
    let hands_on = ["exit $", "exit \"$"]
        .iter()
        .any(|exit| rest.contains(exit));
    let hands_on = hands_on || rest.contains("$?") && fails(rest);
    let hidden = match is_asked(text.get(..at).unwrap_or_default()) {
        true => !fails(rest),
        false => {
            let (_, then) = command.split_once("||").unwrap_or_default();
            let (block, rest) = rest_of_block(then, rest);
            let ignored = command.contains("||") && !fails(then) && !fails(block);
            let piped = command.replace("||", "").contains('|') && !text.contains("pipefail");
            let left = command.contains("||") && fails(&format!("{then}{block}"));
            let runs_again = !left && is_repeated(text.get(..at).unwrap_or_default(), &command);
            // `set -e` sees nothing of what runs behind it.
            let waits = ["wait $", "wait \"$"]
                .iter()
                .any(|wait| rest.contains(wait));
            let is_seen = ends_on_errors(text) && (waits || !rest.starts_with('&'));
            ignored || piped || (goes_on(rest) || runs_again) && !is_seen
        }
    };
    hidden && !hands_on || is_trapped(text)
}

/// Whether a loop that is open behind `before` runs a command several times whatever it ends in: the last time alone counts.
fn is_repeated(before: &str, command: &str) -> bool {
    let stops = command.split("&&").skip(1);
    let stops = stops.filter_map(|then| then.split_whitespace().next());
    let mut loops: Vec<&str> = Vec::new();
    let mut header = "";
    for command in before.split(['\n', ';']).map(str::trim) {
        let command = command.strip_prefix("do ").map_or(command, |body| {
            loops.push(header);
            body.trim_start()
        });
        match command.split_whitespace().next() {
            Some("for" | "while" | "until" | "select") => header = command,
            Some("do") => loops.push(header),
            Some("done") => drop(loops.pop()),
            _ => {}
        }
    }
    let is_of_one = |header: &&str| {
        let words: Vec<&str> = header.split_whitespace().collect();
        matches!(words[..], ["for", _, "in", one] if !one.contains(['$', '*', '?', '{', '`', '(']))
    };
    let retries = stops
        .into_iter()
        .any(|word| ["break", "exit"].contains(&word));
    !retries && loops.iter().any(|header| !is_of_one(header))
}

/// Whether only a condition has the exit code of the command that follows this text.
fn is_asked(before: &str) -> bool {
    let command = before.rsplit(['\n', ';', '&', '|', '(', '{']).next();
    let first = command.and_then(|command| command.split_whitespace().next());
    first.is_some_and(|first| ASKING.contains(&first))
}

/// Whether commands end a script or function in failure.
fn fails(commands: &str) -> bool {
    let words = commands.split(|c: char| c.is_whitespace() || c == ';');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut ends = words.iter().enumerate();
    ends.any(|(at, word)| match *word {
        "exit" | "return" => words.get(at + 1).is_none_or(|code| *code != "0"),
        word => word == "false",
    })
}

/// The rest of a block that this command opens (`|| { echo failed; exit 1; }`), and what follows the block.
fn rest_of_block<'t>(command: &str, rest: &'t str) -> (&'t str, &'t str) {
    let closing = match command.trim_start().chars().next() {
        Some('{') => '}',
        Some('(') => ')',
        _ => return ("", rest),
    };
    rest.split_once(closing).unwrap_or(("", rest))
}

/// Whether a script has more to do after a command than to close blocks.
fn goes_on(rest: &str) -> bool {
    let lines = rest.lines().map(str::trim);
    let mut commands = lines
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.split(';'))
        .map(|command| command.trim_matches([' ', '\t', '&', ')']));
    commands.any(|command| !command.is_empty() && !CLOSING.contains(&command))
}

/// Whether a trap at the end of a script sets its exit code: `trap 'rm -r $TMP; exit 0' EXIT`, or a function that does so.
fn is_trapped(text: &str) -> bool {
    let traps = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("trap "));
    let mut bodies = traps.filter_map(|trap| {
        let body = trap.trim_end().strip_suffix("EXIT")?.trim();
        let name = body.trim_matches(['"', '\'']);
        let function = text.split_once(&format!("{name}()"));
        Some(function.map_or(body, |(_, body)| body.split("\n}").next().unwrap_or(body)))
    });
    bodies.any(|body| {
        let mut exits = body.match_indices("exit");
        exits.any(|(at, exit)| {
            let code = body[at + exit.len()..].trim_start();
            code.starts_with('0')
        })
    })
}

/// The words of a command without what is quoted, and what follows the command. Backslashes, quotes and a here-document
/// carry it over lines; `;` and `&` end it.
fn first_command(text: &str) -> (String, &str) {
    let (mut words, mut quote, mut escaped) = (String::new(), None, false);
    let (mut end, mut before, mut depth) = (text.len(), ' ', 0_usize);
    for (at, sign) in text.char_indices() {
        let taken = std::mem::take(&mut escaped);
        let next = text[at + sign.len_utf8()..].chars().next();
        let alone = || !['>', '<', '&'].contains(&before) && !matches!(next, Some('>' | '&'));
        match (sign, quote) {
            ('\n', None) if !taken => {
                end = at;
                break;
            }
            (';' | ')', None) if !taken && depth == 0 => {
                end = at;
                break;
            }
            ('&', None) if !taken && depth == 0 && alone() => {
                end = at;
                break;
            }
            ('\\', None | Some('"')) if !taken => escaped = true,
            ('"' | '\'', None) if !taken => quote = Some(sign),
            (_, Some(open)) if sign == open && !taken => quote = None,
            (_, Some(_)) => {}
            (_, None) => {
                depth += usize::from(sign == '(' && !taken);
                depth -= usize::from(sign == ')' && !taken && depth > 0);
                words.push(sign);
            }
        }
        before = sign;
    }
    let rest = &text[end..];
    let here = text[..end].split_once("<<");
    let closing = here.and_then(|(_, word)| {
        word.trim_start_matches(['-', ' '])
            .split_whitespace()
            .next()
    });
    let closing = closing.map(|word| word.trim_matches(['"', '\'']));
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
    use std::collections::BTreeSet;

    use super::super::walk::{Submission, follow};
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
            "torchrun t.py; echo done\n",
            "cd x && torchrun t.py --a 1; echo \"finished at $(date)\"\n",
            "(cd x && torchrun t.py; echo done)\n",
            "time torchrun t.py ; rc=$? ; echo \"rc $rc\"\n",
            "torchrun t.py|tee log\n",
            "torchrun t.py > log 2>&1 &\nwait\n",
            "set -eo pipefail\ntorchrun t.py > log 2>&1 &\nwait\n",
            "torchrun t.py && echo ok || echo bad\n",
            "if torchrun t.py; then echo good; else echo bad; fi\n",
            "if ! time torchrun t.py; then\n  echo bad\nfi\n",
            "trap 'echo cleaning; exit 0' EXIT\ntorchrun t.py\n",
            "for s in 1 2; do\n  torchrun t.py --seed $s\ndone\n",
            "for s in $SEEDS; do torchrun t.py; done\n",
            "for s in 1 2\ndo\n  if true; then\n    torchrun t.py || break\n  fi\ndone\n",
            "for ((i = 0; i < 3; i++)); do\n  torchrun t.py\ndone\n",
            "while read -r seed; do\n  torchrun t.py\ndone < seeds\n",
            "cleanup() {\n  rm -r x\n  exit 0\n}\ntrap cleanup EXIT\nset -e\ntorchrun t.py\n",
        ] {
            assert!(of(script), "{script}");
        }
        for script in [
            "#!/bin/bash\ntorchrun t.py \\\n  --lr 1\n\n# done\n",
            "if true; then\n  torchrun t.py\nfi\n",
            "#!/bin/bash -e\ntorchrun t.py\necho finished\n",
            "set -euo pipefail\ntorchrun t.py | tee log\necho finished\n",
            "set -o errexit\ntorchrun t.py\necho finished\n",
            "set -e\ntorchrun t.py &\nwait $!\n",
            "torchrun t.py\nrc=$?\necho $rc\nexit $rc\n",
            "torchrun t.py | tee log\nexit ${PIPESTATUS[0]}\n",
            "torchrun t.py || exit 1\n",
            "torchrun t.py \"a\nb | c\" 'd | e\n'\n",
            "torchrun - <<'EOF'\nimport x\nEOF\n",
            "torchrun t.py > log 2>&1;\n",
            "torchrun t.py &> log\n",
            "for s in 1; do torchrun t.py; done\n",
            "for s in 1 2; do echo $s; done\ntorchrun t.py\n",
            "for s in 1 2; do\n  torchrun t.py || exit 1\ndone\n",
            "for try in 1 2 3; do\n  torchrun t.py && break\ndone\n",
            "set -e\nfor s in 1 2; do\n  torchrun t.py\ndone\n",
            "(cd x && torchrun t.py)\n",
            "torchrun t.py --at $(date +%s; true)\n",
            "torchrun t.py || { echo failed; exit 1; }\n",
            "torchrun t.py || {\n  echo failed\n  exit 1\n}\n",
            "if ! torchrun t.py; then\n  exit 1\nfi\n",
            "torchrun t.py\nif [ $? -ne 0 ]; then echo failed; exit 1; fi\n",
            "trap 'rm -r $TMP' EXIT\ntorchrun t.py\n",
            "trap 'rc=$?; rm -r $TMP; exit $rc' EXIT\ntorchrun t.py\n",
        ] {
            assert!(!of(script), "{script}");
        }
    }

    fn read(text: &str, other: &str) -> Reading {
        let launchers = include_str!("../../../presets/launchers/known.yaml");
        let launchers = serde_yaml::from_str(launchers).unwrap();
        let submission = Submission {
            script: "a.sh".to_owned(),
            ..Submission::default()
        };
        let files = [("a.sh", text), ("b.sh", other)];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        follow(&submission, &files.into(), &launchers, &BTreeSet::new())
    }

    #[test]
    fn a_script_goes_on_to_another_program_where_nothing_stops_it() {
        let goes_on = |text: &str| {
            let reading = read(text, "");
            goes_on_to_another(&reading, &reading.calls[0])
        };
        for script in [
            "python train.py\npython eval.py\n",
            "torchrun train.py --fold 0 | tee log\ntorchrun train.py --fold 1\n",
            "srun python train.py; python eval.py\n",
            "for seed in 1 2; do\n  python train.py --seed $seed\ndone\n",
        ] {
            assert!(goes_on(script), "{script}");
        }
        for script in [
            "python train.py\necho done\n",
            "set -e\npython train.py\npython eval.py\n",
            "python train.py && python eval.py\n",
            "python train.py || python train.py --batch-size 8\n",
            "for i in 1 2 3; do\n  python train.py && break\ndone\n",
        ] {
            assert!(!goes_on(script), "{script}");
        }
    }

    /// A command in a variable is as good as one that stands there.
    #[test]
    fn a_command_in_a_variable_is_hidden_by_what_runs_it() {
        let of = |text: &str, other: &str| {
            let reading = read(text, other);
            let at = hiding_place(&reading, reading.calls.last().unwrap());
            at.map(|at| &text[at.start..])
                .and_then(|text| text.split_whitespace().next().map(str::to_owned))
        };
        let command = "CMD=\"export A=1 && \"\nCMD=\"${CMD}torchrun t.py\"\n";
        let run = "srun --container-image=x bash -c \"$CMD\"\n";
        let hidden = of(&format!("{command}{run}echo \"EXIT=$?\"\n"), "");
        assert_eq!(hidden.as_deref(), Some("srun"));
        assert_eq!(of(&format!("{command}{run}"), ""), None);
        assert_eq!(of(&format!("set -e\n{command}{run}echo done\n"), ""), None);
        let started = of(
            "bash b.sh\necho done\n",
            "set -e\ntorchrun t.py\necho done\n",
        );
        assert_eq!(started.as_deref(), Some("bash"));
        assert_eq!(
            of("bash b.sh\n", "set -e\ntorchrun t.py\necho done\n"),
            None
        );
    }
}
