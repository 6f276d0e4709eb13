//! Commands that set variables, and what is left of a variable that code may have set.

use std::rc::Rc;

use super::call::Arg;
use super::doc::Doc;
use super::scope::VariableValue;
use super::{Walker, arithmetic};
use crate::shell::{Assignment, Word, in_name};
use crate::traced::{Quote, Span, Traced, Why};

/// What code has in it that changes a shell's paths and functions, and no variable of a training.
const HOOKS: [&str; 4] = ["hook", "activate", "ssh-agent", "modulecmd"];

impl Walker<'_> {
    /// A variable gets a value that nobody knows.
    pub(super) fn forget(&mut self, name: &str, place: Span) {
        let value = Traced::computed(&format!("${{{name}}}"), place, Why::Code);
        self.scope.set(name, VariableValue::Text(value), false);
    }

    /// The same for several.
    pub(super) fn forget_names(&mut self, names: &[&str], place: Span) {
        names.iter().for_each(|name| self.forget(name, place));
    }

    pub(super) fn declare(&mut self, command: &str, words: &[Word], doc: &Rc<Doc>) {
        let option = |w: &Word| {
            w.bare(&doc.text)
                .filter(|t| t.starts_with('-'))
                .map(str::to_owned)
        };
        let options: String = words.iter().filter_map(option).collect();
        let exports = command == "export" || options.contains('x');
        let own = matches!(command, "local" | "declare" | "typeset") && !options.contains('g');
        for word in words {
            let assignment = Assignment::of(word, &doc.text);
            let name = match &assignment {
                Some(assignment) => assignment.name.clone(),
                None if word.bare(&doc.text).is_none() => {
                    self.declare_by_code(word, exports, doc);
                    continue;
                }
                None => word.bare(&doc.text).unwrap_or_default().to_owned(),
            };
            if own && let Some(locals) = self.locals.last_mut() {
                let before = self.scope.variables.get(&name).cloned();
                locals.entry(name.clone()).or_insert(before);
            }
            if options.contains('i') {
                self.scope.numbers.insert(name.clone());
            }
            if let Some(assignment) = &assignment {
                self.assign(assignment, doc);
            }
            if exports && !name.is_empty() && !options.contains('n') {
                self.scope.exported.insert(name);
            }
        }
    }

    pub(super) fn forget_all(&mut self, args: &[Arg], doc: &Rc<Doc>) {
        for arg in args {
            let name = arg.text.text();
            if !name.is_empty() && name.chars().all(in_name) {
                let place = arg.text.place();
                self.forget(&name, place.unwrap_or(doc.place(0, 0, false).0));
            }
        }
    }

    /// `let X=2*X`: calculations among the words.
    pub(super) fn forget_assigned(&mut self, args: &[Arg]) {
        for arg in args {
            if let Some(place) = arg.text.place() {
                self.forget_names(&arithmetic::assigned(&arg.text.text()), place);
            }
        }
    }

    /// `set -a` exports whatever is set from now on, `set --` replaces the script's arguments.
    pub(super) fn set_options(&mut self, args: &[Arg]) {
        let texts: Vec<String> = args.iter().map(|arg| arg.text.text()).collect();
        for (at, text) in texts.iter().enumerate() {
            if text == "--" {
                self.scope.args = args[at + 1..].to_vec();
                return;
            }
            let (on, off) = (text.strip_prefix('-'), text.strip_prefix('+'));
            let Some(letters) = on.or(off) else { continue };
            let named = letters == "o" && texts.get(at + 1).is_some_and(|t| t == "allexport");
            if named || letters.contains('a') {
                self.scope.exports_all = on.is_some();
            }
        }
    }

    /// `export "X=$Y"`, or `export $(grep -v '^#' .env | xargs)`: a file that the code names tells which variables it sets; without one it may
    /// be any.
    fn declare_by_code(&mut self, word: &Word, exports: bool, doc: &Rc<Doc>) {
        let text = self.text_of(&word.pieces, doc);
        let code = text.text();
        let name = code.split('=').next().unwrap_or_default();
        if text.slice(0, name.len()).unknown().is_none() {
            if name.len() < code.len() {
                let value = text.slice(name.len() + 1, code.len());
                self.scope.set(name, VariableValue::Text(value), false);
            }
            if exports {
                self.scope.exported.insert(name.to_owned());
            }
            return;
        }
        let ends = |c: char| c.is_whitespace() || "'\"()<>|;`$".contains(c);
        let paths = code.split(ends).filter(|word| word.contains("env"));
        let span = doc.place(word.start, word.start, false).0;
        let paths =
            paths.filter_map(|path| self.resolved(&Traced::escape(span, path, Quote::Nested), doc));
        let paths: Vec<String> = paths.collect();
        for path in paths {
            let Some(file) = self.files.get(&path) else {
                self.out.sought.insert(path);
                continue;
            };
            let lines = file.lines().filter_map(|line| line.split_once('='));
            let names: Vec<&str> = lines
                .map(|(name, _)| name.trim().trim_start_matches("export "))
                .collect();
            for name in &names {
                self.scope.exported.insert((*name).to_owned());
            }
            return self.forget_names(&names, span);
        }
        self.scope.cloud(&Traced::computed(&code, span, Why::Code));
    }

    /// Runs what `eval` is given. Where even the command is not known, it may set any variable.
    pub(super) fn run_code(&mut self, code: Traced, doc: &Rc<Doc>) {
        let unknown = code.slice(0, 1).unknown();
        let text = code.text();
        let Some((span, _)) = unknown else {
            return self.run_text(code, doc.folder.clone());
        };
        if !HOOKS.iter().any(|hook| text.contains(hook)) {
            self.not_followed("eval");
            self.scope.cloud(&Traced::computed(&text, span, Why::Code));
        }
    }
}
