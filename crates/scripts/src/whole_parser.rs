//! All options that a program takes, where its texts show all of them: those of one parser of argparse, or one command of click or
//! typer.
//!
//! Rule: what may add an option that is not read makes all of them unknown. Sources: Python 3.13 argparse ("Argument abbreviations
//! (prefix matching)"); click 8.1 and typer 0.12 take no beginnings and tell `_` from `-`.

use super::declared::{DeclaredOption, Takes, declared};
use super::python::{
    PythonToken, TokenKind, arguments, block, bracket, calls, closed_call, is_conditional,
    is_named, keyword, line_of, rest_of_line, tokens,
};
use oomctl_base::{nearest, word_list};

/// Names that show that a program takes more options than its text declares, or others.
const TAKES_MORE: [&str; 16] = word_list(
    "parse_known_args parse_known_intermixed_args parents HfArgumentParser add_argparse_args add_config_arguments
     add_subparsers REMAINDER _add_action prefix_chars fromfile_prefix_chars argv SystemExit jsonargparse configargparse
     simple_parsing",
);

/// The same of a command of click or typer.
const COMMANDS_TAKE_MORE: [&str; 7] = word_list(
    "group add_command add_typer callback context_settings ignore_unknown_options allow_extra_args",
);

/// What takes each option that no text declares.
const BUILT_IN: [&str; 3] = word_list("--help --install-completion --show-completion");

/// Decorators that stand beside the options of a command and add none.
const BESIDE: [&str; 6] = word_list("command option argument pass_context version_option record");

/// All options that a program in Python takes, where its text shows them.
pub fn all_options(text: &str) -> Option<Vec<String>> {
    WholeParser::of(&[&tokens(text)]).map(|parser| parser.forms)
}

type FileTokens<'a, 't> = &'a [PythonToken<'t>];

/// The options that a program takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WholeParser {
    forms: Vec<String>,
    /// A beginning that only one has stands for it.
    abbreviates: bool,
}

impl WholeParser {
    /// That of a program with these files, its own first.
    pub(super) fn of(files: &[FileTokens<'_, '_>]) -> Option<Self> {
        let has = |wanted: &dyn Fn(&PythonToken<'_>) -> bool| {
            files.iter().any(|tokens| tokens.iter().any(wanted))
        };
        let says = |names: &[&str]| has(&|t| t.kind == TokenKind::Name && names.contains(&t.text));
        // `nargs="..."` takes all words behind it.
        if says(&TAKES_MORE) || has(&|t| t.kind == TokenKind::Text && t.text == "...") {
            return None;
        }
        match (says(&["ArgumentParser"]), says(&["click", "typer"])) {
            (true, false) => Self::of_argparse(files),
            (false, true) if !says(&COMMANDS_TAKE_MORE) => Self::of_command(files),
            _ => None,
        }
    }

    /// The option that is nearest to a word which it does not take; none where it does, or where that is unknown.
    pub(super) fn refused(&self, word: &str) -> Option<Option<&str>> {
        let name = word.split('=').next().unwrap_or(word);
        let is_option =
            name.len() > 2 && name.starts_with("--") && !name.contains(char::is_whitespace);
        let begins = |form: &String| self.abbreviates && form.starts_with(name);
        let taken = |form: &String| form == name || begins(form);
        let built_in = BUILT_IN.iter().any(|form| form.starts_with(name));
        let refused = is_option && !built_in && !self.forms.iter().any(taken);
        let long = self.forms.iter().filter(|form| form.starts_with("--"));
        refused.then(|| nearest(name, long.map(String::as_str)))
    }

    fn of_argparse(files: &[FileTokens<'_, '_>]) -> Option<Self> {
        let made: Vec<(usize, usize)> = places(files, "ArgumentParser").collect();
        let [(number, at)] = made[..] else {
            return None;
        };
        let tokens = files[number];
        let begin = line_of(tokens, at);
        let (given, _) = closed_call(tokens.get(at + 2..)?)?;
        let [name, equals, ..] = tokens.get(begin..at)? else {
            return None;
        };
        if !equals.is("=") || !files.iter().all(|tokens| stays(files, tokens, name.text)) {
            return None;
        }
        // A function of the program's own may have the name, too.
        let parsed = places(files, "parse_args").filter(|(of, at)| is_member(files[*of], *at));
        let parsed: Vec<(usize, usize)> = parsed.collect();
        let [(of, parses)] = parsed[..] else {
            return None;
        };
        if !takes_all(files[of], parses) || !runs(files, (of, parses)) {
            return None;
        }
        let mut forms = options(files, "add_argument")?;
        let off = |form: &String| form.strip_prefix("--").map(|name| format!("--no-{name}"));
        let is_off = |o: &DeclaredOption<'_, '_>| o.takes == Takes::TurnsOnOrOff;
        let more: Vec<String> = all(files).filter(is_off).flat_map(|o| o.forms).collect();
        forms.extend(more.iter().filter_map(off));
        let says_no = keyword(&given, "allow_abbrev").is_some_and(|v| v[0].is("False"));
        Some(Self {
            forms,
            abbreviates: !says_no,
        })
    }

    fn of_command(files: &[FileTokens<'_, '_>]) -> Option<Self> {
        let commands: Vec<(usize, usize)> = places(files, "command").collect();
        let started = places(files, "run").filter(|(of, at)| {
            let before = at.checked_sub(2).map(|at| &files[*of][at]);
            before.is_some_and(|t| t.is("typer"))
        });
        match (&commands[..], &started.collect::<Vec<_>>()[..]) {
            ([(0, at)], []) if is_plain(files[0], *at) => {}
            ([], [(0, _)]) => {}
            _ => return None,
        }
        let mut forms = options(files, "option")?;
        // The first argument of typer's may be a default.
        let mut typed = places(files, "Option").flat_map(|(of, at)| {
            let given = arguments(&files[of][at + 2..]).into_iter();
            given.skip(1).filter(|a| !is_named(a))
        });
        if !typed.all(is_text) {
            return None;
        }
        let off = all(files).filter(|o| o.takes == Takes::TurnsOnOrOff && o.forms.len() == 1);
        forms.extend(off.map(|o| format!("--no-{}", o.flag.trim_start_matches('-'))));
        Some(Self {
            forms,
            abbreviates: false,
        })
    }
}

fn is_text(argument: &[PythonToken<'_>]) -> bool {
    matches!(argument, [one] if one.kind == TokenKind::Text)
}

fn all<'a, 't>(files: &[FileTokens<'a, 't>]) -> impl Iterator<Item = DeclaredOption<'a, 't>> {
    let all: Vec<_> = files.iter().flat_map(|tokens| declared(tokens)).collect();
    all.into_iter()
}

/// The places at which a name is called, each with the number of its file.
fn places<'a>(
    files: &'a [FileTokens<'_, '_>],
    name: &'a str,
) -> impl Iterator<Item = (usize, usize)> + 'a {
    let files = files.iter().enumerate();
    files.flat_map(move |(number, tokens)| {
        calls(tokens, move |t| t.is(name)).map(move |at| (number, at))
    })
}

/// The forms of all options, where each call that declares some names them as texts.
fn options(files: &[FileTokens<'_, '_>], call: &str) -> Option<Vec<String>> {
    let is_named = |(number, at): (usize, usize)| {
        let (given, _) = closed_call(&files[number][at + 2..])?;
        let mut placed = given.into_iter().filter(|a| !is_named(a));
        placed.all(is_text).then_some(())
    };
    let count = |name: &str| {
        let all = files.iter().flat_map(|tokens| tokens.iter());
        all.filter(|t| t.is(name)).count()
    };
    // Under another name it may declare what is not seen.
    if call == "add_argument" && count(call) != places(files, call).count() {
        return None;
    }
    places(files, call)
        .try_for_each(|at| is_named(at).ok_or(()))
        .ok()?;
    Some(all(files).flat_map(|o| o.forms).collect())
}

/// Whether no code but the files' own gets hold of the parser of this name.
fn stays(files: &[FileTokens<'_, '_>], tokens: FileTokens<'_, '_>, name: &str) -> bool {
    let mut places = (0..tokens.len()).filter(|at| tokens[*at].is(name));
    places.all(|at| {
        let before = at.checked_sub(1).map(|at| &tokens[at]);
        let is = |text: &str| tokens.get(at + 1).is_some_and(|t| t.is(text));
        if is_member(tokens, at) {
            return true;
        }
        is(".") || is("=") || before.is_some_and(|t| t.is("return")) || {
            let function = called_with(tokens, at).map(|at| tokens[at].text);
            function.is_some_and(|function| is_own(files, function, name))
        }
    })
}

/// The name in front of the bracket in which a token stands.
fn called_with(tokens: FileTokens<'_, '_>, at: usize) -> Option<usize> {
    let open = bracket(tokens, at).filter(|open| tokens[*open].is("("))?;
    let name = open.checked_sub(1)?;
    let is_function = tokens[name].kind == TokenKind::Name && !is_member(tokens, name);
    is_function.then_some(name)
}

/// Whether the files have a function of this name with such a parameter.
fn is_own(files: &[FileTokens<'_, '_>], function: &str, parameter: &str) -> bool {
    let has = |tokens: &FileTokens<'_, '_>| {
        let mut defs = tokens.windows(3).enumerate();
        defs.any(|(at, w)| {
            let is_def = w[0].is("def") && w[1].is(function) && w[2].is("(");
            is_def
                && arguments(&tokens[at + 3..])
                    .iter()
                    .any(|p| p[0].is(parameter))
        })
    };
    files.iter().any(has)
}

/// Whether a call of `parse_args` takes the words of the command.
fn takes_all(tokens: FileTokens<'_, '_>, at: usize) -> bool {
    let given = closed_call(&tokens[at + 2..]).map(|(given, _)| given);
    given.is_some_and(|given| given.is_empty()) && !is_conditional(tokens, at)
}

/// Whether a name is that of a member (`a.name`).
fn is_member(tokens: FileTokens<'_, '_>, at: usize) -> bool {
    let before = at.checked_sub(1).map(|at| &tokens[at]);
    before.is_some_and(|t| t.is("."))
}

/// Whether the program comes to a place: at the margin of its own file, or in a function that something calls.
fn runs(files: &[FileTokens<'_, '_>], (number, at): (usize, usize)) -> bool {
    let tokens = files[number];
    let Some((begin, word)) = block(tokens, at) else {
        return number == 0;
    };
    let Some(name) = tokens.get(begin + 1).filter(|_| word == "def") else {
        return false;
    };
    let is_def = |tokens: FileTokens<'_, '_>, at: usize| at > 0 && tokens[at - 1].is("def");
    let mentions = |of: usize| {
        let tokens = files[of];
        let mut all = (0..tokens.len()).filter(|at| tokens[*at].is(name.text));
        all.any(|at| !is_def(tokens, at) && (number > 0 || !is_member(tokens, at)))
    };
    let declares = |of: usize| {
        let tokens = files[of];
        (0..tokens.len()).any(|at| tokens[at].is(name.text) && is_def(tokens, at))
    };
    let mut others = (0..files.len()).filter(|of| *of != number);
    match number {
        0 => mentions(0),
        _ => others.any(mentions) && !declares(0),
    }
}

/// Whether the decorators of a command add no options but those that stand there.
fn is_plain(tokens: FileTokens<'_, '_>, at: usize) -> bool {
    let begin = line_of(tokens, at);
    let mut lines = Vec::new();
    let mut before = begin;
    while let Some(end) = before.checked_sub(1) {
        let line = line_of(tokens, end);
        if !tokens[line].is("@") {
            break;
        }
        lines.push(line);
        before = line;
    }
    let mut next = begin;
    while tokens.get(next).is_some_and(|t| t.is("@")) {
        lines.push(next);
        next += rest_of_line(&tokens[next..]).len() + 1;
    }
    let is_known = |line: &usize| {
        let words = rest_of_line(&tokens[*line..]);
        let name = words.iter().take_while(|t| !t.is("("));
        let name = name.filter(|t| t.kind == TokenKind::Name).last();
        name.is_some_and(|name| BESIDE.contains(&name.text))
    };
    tokens.get(next).is_some_and(|t| t.is("def")) && lines.iter().all(is_known)
}

#[cfg(test)]
mod tests;
