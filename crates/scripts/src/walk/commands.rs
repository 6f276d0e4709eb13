//! The shell's own commands.

use std::rc::Rc;

use super::Walker;
use super::call::Arg;
use super::doc::Doc;
use super::reading::FileRole;
use super::scope::VariableValue;
use crate::shell::{Assignment, RedirectTarget, SimpleCommand, in_name};
use crate::traced::{Traced, Why};
use oomctl_base::word_list;

/// Text that files made by scripts may have, all together, in bytes.
const MAX_CREATED: usize = 4 << 20;
/// Files made by scripts.
const MAX_FILES: usize = 64;

/// Files that set up an environment and no variable of a job's own.
const SET_UP: [&str; 14] = word_list(
    "activate conda.sh mamba.sh micromamba.sh profile .profile .bash_profile bashrc .bashrc bash modules.sh lmod.sh setvars.sh setup-env.sh",
);

impl Walker<'_> {
    pub(super) fn run_command(&mut self, command: &SimpleCommand, doc: &Rc<Doc>) {
        let Some((first, rest)) = command.words.split_first() else {
            for assignment in &command.assignments {
                self.assign(assignment, doc);
            }
            return;
        };
        let name = first.plain(&doc.text).unwrap_or_default();
        if matches!(
            name.as_str(),
            "export" | "declare" | "typeset" | "local" | "readonly"
        ) {
            return self.declare(&name, rest, doc);
        }
        let before = (!command.assignments.is_empty()).then(|| self.copied());
        self.quiet = matches!(name.as_str(), "echo" | "printf") && command.redirects.is_empty();
        let args = self.expand_all(&command.words, doc);
        self.quiet = false;
        self.keep_output(command, &args, doc);
        // The words of the command are put together before.
        for assignment in &command.assignments {
            self.assign(assignment, doc);
            self.scope.exported.insert(assignment.name.clone());
        }
        let outside = self.outputs.len();
        let files = self.outputs_of(&command.redirects, doc);
        // `exec` alone moves the streams of all that follows.
        let ends = !(files.is_empty() || name == "exec" && rest.is_empty());
        self.outputs.extend(files);
        if !self.run_builtin(&name, &args, command, doc) {
            self.run_program(args, command, doc);
        }
        if ends {
            self.outputs.truncate(outside);
        }
        if let Some(before) = before {
            // Assignments before a command are the command's, and what it sets besides stays.
            for Assignment { name, .. } in &command.assignments {
                match before.variables.get(name) {
                    Some(value) => self.scope.variables.insert(name.clone(), value.clone()),
                    None => self.scope.variables.remove(name),
                };
            }
            self.scope.exported = before.exported;
        }
    }

    pub(super) fn assign(&mut self, assignment: &Assignment, doc: &Rc<Doc>) {
        let value = match &assignment.value.list {
            Some(list) => VariableValue::List(self.expand_all(list, doc)),
            None => VariableValue::Text(self.text_of(&assignment.value.pieces, doc)),
        };
        let calculates = self.scope.numbers.contains(&assignment.name) && {
            let is_number = |text: &Traced| text.known().is_some_and(|t| t.parse::<i64>().is_ok());
            assignment.append || !matches!(&value, VariableValue::Text(text) if is_number(text))
        };
        if assignment.element || calculates {
            let start = assignment.value.start;
            return self.forget(&assignment.name, doc.place(start, start, false).0);
        }
        self.scope.set(&assignment.name, value, assignment.append);
    }

    /// Runs a command of the shell; false where it is a program.
    fn run_builtin(
        &mut self,
        name: &str,
        args: &[Arg],
        command: &SimpleCommand,
        doc: &Rc<Doc>,
    ) -> bool {
        let rest = args.get(1..).unwrap_or_default();
        match name {
            "exit" | "return" => self.scope.ended = true,
            "source" | "." => self.source_file(rest, doc),
            "cd" | "pushd" => {
                let folder = rest.iter().find(|a| !a.text.text().starts_with('-'));
                self.scope.folder = folder.and_then(|f| self.resolved(&f.text, doc));
            }
            "unset" => {
                for arg in rest {
                    let name = arg.text.text();
                    self.scope.variables.remove(&name);
                    self.scope.exported.remove(&name);
                    if let Some(place) = arg.text.place().filter(|_| self.is_inherited(&name)) {
                        self.forget(&name, place);
                    }
                }
            }
            "shift" => self.shift(rest),
            "set" => self.set_options(rest),
            "let" => self.forget_assigned(rest),
            "read" | "mapfile" | "readarray" | "getopts" => self.read_variables(command, rest, doc),
            "printf" if rest.first().is_some_and(|a| a.text.text() == "-v") => {
                self.forget_all(rest.get(1..2).unwrap_or_default(), doc);
            }
            "eval" => self.run_code(Arg::joined(rest), doc),
            ":" | "echo" | "true" | "false" | "test" | "[" | "trap" | "wait" | "ulimit"
            | "shopt" | "module" | "ml" | "set-e" | "printf" => {}
            _ => return false,
        }
        true
    }

    /// `read -r -d '' NAME <<EOF` takes all of a here-document; what else is read is not known.
    fn read_variables(&mut self, command: &SimpleCommand, args: &[Arg], doc: &Rc<Doc>) {
        self.forget_all(args, doc);
        let texts: Vec<String> = args.iter().map(|arg| arg.text.text()).collect();
        if self.read_words(command, &texts, doc).is_some() {
            return;
        }
        let whole = texts.windows(2).any(|w| w[0] == "-d" && w[1].is_empty());
        let raw = texts.iter().any(|t| t.starts_with('-') && t.contains('r'));
        let name = texts
            .last()
            .filter(|_| whole && raw && command.words.len() == args.len() + 1);
        let (Some(name), Some(text)) = (name, self.here_document(command, doc)) else {
            return;
        };
        let length = text.text().trim_end_matches('\n').len();
        self.scope
            .set(name, VariableValue::Text(text.slice(0, length)), false);
    }

    /// `read -r LR BS <<< "$LINE"`: a line whose words are known.
    fn read_words(
        &mut self,
        command: &SimpleCommand,
        words: &[String],
        doc: &Rc<Doc>,
    ) -> Option<()> {
        let [option, names @ ..] = words else {
            return None;
        };
        let plain = |name: &String| !name.is_empty() && name.chars().all(in_name);
        let [redirect] = command.redirects.as_slice() else {
            return None;
        };
        let RedirectTarget::Text(word) = &redirect.target else {
            return None;
        };
        let is_read = option == "-r" && names.iter().all(plain) && !names.is_empty();
        let first = command.words.first().and_then(|w| w.plain(&doc.text));
        if !is_read || first.as_deref() != Some("read") {
            return None;
        }
        let between = match command.assignments.as_slice() {
            [] => " \t".to_owned(),
            [ifs] if ifs.name == "IFS" => self.text_of(&ifs.value.pieces, doc).known()?,
            _ => return None,
        };
        let text = self.text_of(&word.pieces, doc);
        let line = text.known().filter(|line| !line.contains('\n'))?;
        let (blank, end) = (between.trim().is_empty(), line.len());
        let (mut all, mut start) = (Vec::new(), 0);
        let ends = line.match_indices(|c| between.contains(c));
        for (at, behind) in ends.map(|(at, c)| (at, at + c.len())).chain([(end, end)]) {
            // Several blanks are one.
            all.extend(Some(start..at).filter(|part| !(blank && part.is_empty())));
            start = behind;
        }
        // What is left over goes to the last name.
        if all.len() > names.len() {
            return None;
        }
        let words = command.words.get(2..)?;
        for (at, (name, word)) in names.iter().zip(words).enumerate() {
            let part = all.get(at).cloned().unwrap_or(end..end);
            let (span, quote) = doc.place(word.start, word.end, false);
            // The line stays as it is: another value is given where the variable is used.
            self.out.uses.insert((span, vec![span]));
            let value = Traced::escape(span, line.get(part)?, quote);
            self.scope.set(name, VariableValue::Text(value), false);
        }
        Some(())
    }

    fn here_document(&mut self, command: &SimpleCommand, doc: &Rc<Doc>) -> Option<Traced> {
        command.redirects.iter().find_map(|r| match &r.target {
            RedirectTarget::Here(number) => {
                let pieces = doc.script.heres.get(*number)?;
                Some(self.text_of(pieces, doc))
            }
            _ => None,
        })
    }

    fn shift(&mut self, args: &[Arg]) {
        let by = match args.first() {
            None => Some(1),
            Some(arg) => arg.text.known().and_then(|t| t.parse::<usize>().ok()),
        };
        match by {
            Some(by) if by <= self.scope.args.len() => {
                self.scope.args.drain(..by);
            }
            // The shell takes none where there are fewer.
            Some(_) => {}
            None => self.scope.args.iter_mut().for_each(|arg| arg.maybe = true),
        }
    }

    fn source_file(&mut self, args: &[Arg], doc: &Rc<Doc>) {
        let Some(word) = args.first().map(|a| a.text.clone()) else {
            return;
        };
        let Some(path) = self.resolved(&word, doc) else {
            // What a command prints may set any variable.
            if word.text().starts_with("<(") {
                self.scope.cloud(&word);
            }
            return self.not_followed(&word.text());
        };
        match self.named(&path, &word, FileRole::Sourced) {
            Some(file) => {
                let before = self.scope.args.clone();
                if args.len() > 1 {
                    self.scope.args = args[1..].to_vec();
                }
                self.run_file(file);
                self.scope.args = before;
                self.scope.ended = false;
            }
            None => {
                let base = path.rsplit('/').next().unwrap_or(&path);
                if let Some(place) = word.place().filter(|_| !SET_UP.contains(&base)) {
                    self.scope.unread = Some(Traced::computed(&word.text(), place, Why::Code));
                }
                self.not_followed(&path);
                self.out.wanted.insert(path);
            }
        }
    }

    /// Remembers the text of a file that a command makes of a here-document or of its arguments.
    fn keep_output(&mut self, command: &SimpleCommand, args: &[Arg], doc: &Rc<Doc>) {
        let name = args.first().map(|a| a.text.text()).unwrap_or_default();
        let Some(text) = self.written(command, &name, args, doc) else {
            return self.remember_rewritten(command, args, doc);
        };
        let path = match name.as_str() {
            "tee" => args.iter().skip(1).find_map(|arg| {
                let option = arg.text.text().starts_with('-');
                (!option).then(|| self.resolved(&arg.text, doc)).flatten()
            }),
            _ => command.redirects.iter().find_map(|r| match &r.target {
                RedirectTarget::File(word) if matches!(r.operator, ">" | ">|" | ">>") => {
                    let path = self.text_of(&word.pieces, doc);
                    self.resolved(&path, doc)
                }
                _ => None,
            }),
        };
        let bytes: usize = self.out.created.values().map(Traced::len).sum();
        let fits = bytes + text.len() <= MAX_CREATED && self.out.created.len() < MAX_FILES;
        if let Some(path) = path.filter(|_| fits) {
            let appends = command.redirects.iter().any(|r| r.operator == ">>");
            if appends && self.out.rewritten.contains(&path) {
                return;
            }
            self.out.rewritten.remove(&path);
            let file = self.out.created.entry(path).or_default();
            if !appends {
                *file = Traced::default();
            }
            file.push(&text);
        }
    }

    fn written(
        &mut self,
        command: &SimpleCommand,
        name: &str,
        args: &[Arg],
        doc: &Rc<Doc>,
    ) -> Option<Traced> {
        if name == "echo" {
            let [_, only] = args else {
                return None;
            };
            return Some(only.text.clone());
        }
        if !matches!(name, "cat" | "tee") {
            return None;
        }
        self.here_document(command, doc)
    }
}
