//! Knobs in the words of a command: where one stands, and the same command with another value.

use oomctl_scripts::{Spelling, same_flag};

/// The value that a command gives, and the word that says so; of several the last, as programs read them.
pub(super) fn find<'a>(words: &'a [String], spelling: &Spelling) -> Option<&'a str> {
    let found = words.iter().enumerate().rev().find_map(|(at, word)| {
        let (value, place) = place(word, spelling)?;
        match place {
            ValuePlace::Here => Some(value),
            ValuePlace::Next => words.get(at + 1).map(String::as_str),
        }
    });
    found.filter(|_| !matches!(spelling, Spelling::Env(_)))
}

/// Puts a value in place of those that the command gives, or at its end.
pub(super) fn put(words: &mut Vec<String>, spelling: &Spelling, value: &str) {
    let mut found = false;
    for at in 0..words.len() {
        let Some((old, place)) = place(&words[at], spelling) else {
            continue;
        };
        match place {
            ValuePlace::Here => {
                let key = words[at].len() - old.len();
                words[at].replace_range(key.., value);
                found = true;
            }
            ValuePlace::Next if at + 1 < words.len() => {
                value.clone_into(&mut words[at + 1]);
                found = true;
            }
            ValuePlace::Next => {}
        }
    }
    if found {
        return;
    }
    match spelling {
        Spelling::Hydra(path) => words.push(format!("{path}={value}")),
        Spelling::HydraAdd(path) => words.push(format!("+{path}={value}")),
        Spelling::HydraForce(path) => words.push(format!("++{path}={value}")),
        Spelling::Flag(flag) if flag.ends_with('=') => words.push(format!("{flag}{value}")),
        Spelling::Flag(flag) => words.extend([flag.clone(), value.to_owned()]),
        Spelling::Switch(_) | Spelling::Env(_) | Spelling::Yaml(_) | Spelling::Key(_) => {}
    }
}

/// Turns a switch on or off.
pub(super) fn switch(words: &mut Vec<String>, flag: &str, on: bool) {
    let there = words.iter().any(|w| same_flag(w, flag));
    match (there, on) {
        (false, true) => words.push(flag.to_owned()),
        (true, false) => words.retain(|w| !same_flag(w, flag)),
        _ => {}
    }
}

/// Is the switch there?
pub(super) fn has_switch(words: &[String], flag: &str) -> bool {
    words.iter().any(|w| same_flag(w, flag))
}

/// Is there a `{knob}` in the command?
pub(super) fn has_placeholder(words: &[String], knob: &str) -> bool {
    words.iter().any(|w| placeholders(w, knob).next().is_some())
}

/// Puts a value in place of each `{knob}`.
pub(super) fn fill(words: &mut [String], knob: &str, value: &str) {
    for word in words {
        let places: Vec<usize> = placeholders(word, knob).collect();
        for at in places.into_iter().rev() {
            word.replace_range(at..at + knob.len() + 2, value);
        }
    }
}

/// Where `{knob}` stands in a word. `${knob}` is the shell's.
fn placeholders<'a>(word: &'a str, knob: &str) -> impl Iterator<Item = usize> + use<'a> {
    let mark = format!("{{{knob}}}");
    let places: Vec<usize> = word.match_indices(&mark).map(|(at, _)| at).collect();
    places.into_iter().filter(|at| !word[..*at].ends_with('$'))
}

/// Where the value is that a word announces.
enum ValuePlace {
    Here,
    Next,
}

/// The value in a word that spells the knob, or the word to the next of which it belongs.
fn place<'a>(word: &'a str, spelling: &Spelling) -> Option<(&'a str, ValuePlace)> {
    let (key, value) = word
        .split_once('=')
        .map_or((word, None), |(k, v)| (k, Some(v)));
    match spelling {
        Spelling::Hydra(path) | Spelling::HydraAdd(path) | Spelling::HydraForce(path) => {
            let same = key.trim_start_matches('+') == path;
            value.filter(|_| same).map(|v| (v, ValuePlace::Here))
        }
        Spelling::Flag(flag) if same_flag(key, flag.trim_end_matches('=')) => {
            Some(value.map_or(("", ValuePlace::Next), |v| (v, ValuePlace::Here)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_base::table;

    fn words(command: &str) -> Vec<String> {
        command.split(' ').map(str::to_owned).collect()
    }

    /// A spelling, a command, the value found in it (`-` for none), and the command with 32.
    const FOUND: [[&str; 4]; 7] = table(
        "
        training.batch_size | t.py lr=1 training.batch_size=64 | 64 | t.py lr=1 training.batch_size=32
        training.batch_size | t.py ++training.batch_size=64 | 64 | t.py ++training.batch_size=32
        --batch_size | t.py --batch_size 64 x | 64 | t.py --batch_size 32 x
        --batch_size | t.py --batch-size=64 | 64 | t.py --batch-size=32
        --batch_size= | t.py --batch_size 64 | 64 | t.py --batch_size 32
        -b | t.py -b 64 | 64 | t.py -b 32
        training.batch_size | training.batch_size=8 training.batch_size=64 | 64 | training.batch_size=32 training.batch_size=32
        ",
    );

    /// The same where nothing is found: a key or a flag that merely begins or ends alike, a variable, a flag without its value.
    const APPENDED: [[&str; 4]; 7] = table(
        "
        device | t.py x=1 | - | t.py x=1 device=32
        --device | t.py x=1 | - | t.py x=1 --device 32
        --device= | t.py x=1 | - | t.py x=1 --device=32
        batch_size | t.py eval.batch_size=8 | - | t.py eval.batch_size=8 batch_size=32
        --batch | t.py --batch_size 8 | - | t.py --batch_size 8 --batch 32
        env:BATCH | t.py BATCH=8 | - | t.py BATCH=8
        --b | t.py --b | - | t.py --b --b 32
        ",
    );

    #[test]
    fn a_value_is_changed_where_it_stands_in_the_form_that_it_has_or_comes_last() {
        for [spelled, command, value, after] in FOUND.into_iter().chain(APPENDED) {
            let spelling = Spelling::read(spelled);
            let mut words = words(command);
            let found = find(&words, &spelling).unwrap_or("-");
            assert_eq!(found, value, "{spelled}: {command}");
            put(&mut words, &spelling, "32");
            assert_eq!(words.join(" "), after, "{spelled}: {command}");
        }
    }

    #[test]
    fn placeholders_are_filled_and_the_shells_are_left() {
        let mut command = words("bash -c {batch}x{batch} ${batch} {accum} {other}");
        assert!(has_placeholder(&command, "batch") && has_placeholder(&command, "accum"));
        assert!(!has_placeholder(&words("${batch} batch {}"), "batch"));
        fill(&mut command, "batch", "16");
        assert_eq!(command.join(" "), "bash -c 16x16 ${batch} {accum} {other}");
    }

    #[test]
    fn switches_come_and_go() {
        let mut command = words("t.py --grad-checkpointing");
        assert!(has_switch(&command, "--grad_checkpointing"));
        switch(&mut command, "--grad_checkpointing", true);
        assert_eq!(command.len(), 2);
        switch(&mut command, "--grad_checkpointing", false);
        assert_eq!(command.len(), 1);
        switch(&mut command, "--grad_checkpointing", true);
        assert_eq!(command.join(" "), "t.py --grad_checkpointing");
    }
}
