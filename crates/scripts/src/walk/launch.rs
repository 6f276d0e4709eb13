//! Programs: through launchers, shells and scripts to what is started in the end.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::call::{Arg, ArgumentsEnd, Call, CallTarget, OutputFile};
use super::container::variables_set;
use super::doc::Doc;
use super::paths::folder_of_file;
use super::reading::FileRole;
use super::scope::{ShellScope, VariableValue};
use super::{MAX_CALLS, Walker};
use crate::launchers::{Follows, Launcher, Starts};
use crate::shell::SimpleCommand;
use crate::traced::{Quote, Span, Traced, Use};

/// Bytes that a word takes which is looked at, roughly.
const WORK_OF_WORD: usize = 32;

/// Programs that one launcher starts together.
const MAX_TOGETHER: usize = 16;

/// How far the words of a command are understood.
struct Chain {
    words: Vec<Arg>,
    at: usize,
    launchers: Vec<String>,
    launched: Vec<usize>,
    scope: Option<ShellScope>,
    /// Files that its launchers name for what is printed.
    outputs: Vec<OutputFile>,
}

impl Chain {
    fn texts(&self) -> Vec<String> {
        let rest = self.words.get(self.at..).unwrap_or_default();
        rest.iter().map(|arg| arg.text.text()).collect()
    }
}

impl Walker<'_> {
    /// Follows a command that is none of the shell's own.
    pub(super) fn run_program(&mut self, args: Vec<Arg>, command: &SimpleCommand, doc: &Rc<Doc>) {
        let outside = (self.scope.folder.clone(), self.scope.container.clone());
        match self.programs_of(command, doc) {
            None => self.run_chain(args, command, doc),
            Some(programs) => {
                for program in programs {
                    let args = self.expand_all(&program.words, doc);
                    self.run_chain(args, &program, doc);
                }
            }
        }
        (self.scope.folder, self.scope.container) = outside;
    }

    /// `srun -n1 a : -n3 b`: a command each for the programs that a launcher starts together.
    fn programs_of(&self, command: &SimpleCommand, doc: &Doc) -> Option<Vec<SimpleCommand>> {
        let (first, rest) = command.words.split_first()?;
        let (launcher, _) = self.launchers.find(&[first.plain(&doc.text)?])?;
        let between = launcher.between.as_deref()?;
        let parts = rest.split(|word| word.bare(&doc.text) == Some(between));
        let parts = parts.map(|words| SimpleCommand {
            words: std::iter::once(first).chain(words).cloned().collect(),
            ..command.clone()
        });
        let parts: Vec<SimpleCommand> = parts.take(MAX_TOGETHER).collect();
        (parts.len() > 1).then_some(parts)
    }

    fn run_chain(&mut self, args: Vec<Arg>, command: &SimpleCommand, doc: &Rc<Doc>) {
        let mut chain = Chain {
            words: args,
            at: 0,
            launchers: Vec::new(),
            launched: Vec::new(),
            scope: None,
            outputs: Vec::new(),
        };
        // Each turn takes at least one word.
        loop {
            let texts = chain.texts();
            if !self.spend(WORK_OF_WORD * texts.len()) {
                return;
            }
            let Some(name) = texts.first() else {
                return;
            };
            if let Some(function) = self.scope.functions.get(name).cloned() {
                let args = chain.words[chain.at + 1..].to_vec();
                return self.call(&function, args);
            }
            let Some((launcher, named)) = self.launchers.find(&texts) else {
                return self.run_other(chain, command, doc);
            };
            let launcher = launcher.clone();
            chain.launchers.push(texts[..named].join(" "));
            chain.launched.push(chain.at);
            let first = chain.at;
            chain.at += named;
            let follows = self.options(&launcher, &mut chain);
            let own = chain.words.get(first..chain.at).unwrap_or_default();
            let named = self.outputs_of_launcher(&launcher, own, doc);
            chain.outputs.extend(named);
            match follows {
                Follows::Value => return,
                Follows::Module => {
                    let module = chain.texts().into_iter().next().unwrap_or_default();
                    chain.at += 1;
                    return self.remember(chain, CallTarget::Module(module), command, doc);
                }
                Follows::Code if launcher.starts == Starts::Shell => {
                    return self.run_string(&chain, command, doc);
                }
                Follows::Code => return self.remember(chain, CallTarget::Code, command, doc),
                Follows::Nothing => {}
            }
            if let (Some(options), Some(first)) = (&launcher.container, chain.launched.last()) {
                let words = &chain.words[*first..chain.at];
                self.enter(options, words, doc);
                if let Some(scope) = &mut chain.scope {
                    scope.folder.clone_from(&self.scope.folder);
                    scope.container.clone_from(&self.scope.container);
                }
                for (name, value) in variables_set(options, words) {
                    self.export(&mut chain, &name, value);
                }
            }
            chain.at += launcher.words;
            match launcher.starts {
                Starts::Program => {}
                Starts::Shell => return self.run_other(chain, command, doc),
                Starts::Script => {
                    let Some(script) = chain.words.get(chain.at).map(|arg| arg.text.text()) else {
                        return;
                    };
                    chain.at += 1;
                    return self.remember(chain, CallTarget::Script(script), command, doc);
                }
            }
        }
    }

    /// Sets a variable for what a chain starts.
    fn export(&self, chain: &mut Chain, name: &str, value: Traced) {
        let scope = chain.scope.get_or_insert_with(|| self.scope.clone());
        scope.set(name, VariableValue::Text(value), false);
        scope.exported.insert(name.to_owned());
    }

    /// Goes through the options of a launcher: `Nothing` where what it starts stands next, `Value` where the words
    /// end before.
    fn options(&mut self, launcher: &Launcher, chain: &mut Chain) -> Follows {
        while let Some(word) = chain.words.get(chain.at).map(|arg| arg.text.text()) {
            let variable = word.split_once('=').filter(|_| launcher.variables);
            if let Some((name, _)) = variable {
                let text = &chain.words[chain.at].text;
                let value = text.slice(name.len() + 1, text.len());
                self.export(chain, name, value);
                chain.at += 1;
                continue;
            }
            if !word.starts_with('-') || word == "-" {
                return Follows::Nothing;
            }
            chain.at += 1;
            if word == "--" {
                return Follows::Nothing;
            }
            match launcher.follows(&word) {
                Follows::Nothing => {}
                Follows::Value => chain.at += 1,
                other => return other,
            }
        }
        Follows::Value
    }

    /// A script of the shell, or a program that nothing is known of.
    fn run_other(&mut self, chain: Chain, command: &SimpleCommand, doc: &Rc<Doc>) {
        let Some(first) = chain.words.get(chain.at) else {
            return;
        };
        let name = first.text.text();
        let shell = chain
            .launchers
            .last()
            .and_then(|l| self.launchers.find(std::slice::from_ref(l)))
            .is_some_and(|(l, _)| l.starts == Starts::Shell);
        // Its first line names its interpreter.
        if !shell && name.contains('/') && name.ends_with(".py") {
            let mut chain = chain;
            chain.at += 1;
            return self.remember(chain, CallTarget::Script(name), command, doc);
        }
        if let Some(path) = self.resolved(&first.text, doc)
            && (shell || name.ends_with(".sh") || name.contains('/'))
        {
            // What the scripts write themselves is there before what is there now.
            let made = self.out.created.get(&path).cloned();
            let file = match made {
                Some(_) => None,
                None => self.named(&path, &first.text, FileRole::Run),
            };
            if made.is_some() || file.is_some() {
                let args = chain.words[chain.at + 1..].to_vec();
                let start = doc.start_of(command);
                return self.within(&chain, start, args, |walker| match (made, file) {
                    (Some(text), _) => walker.run_text(text, folder_of_file(&path).to_owned()),
                    (None, Some(file)) => walker.run_file(file),
                    (None, None) => {}
                });
            }
            if shell || name.ends_with(".sh") {
                self.not_followed(&name);
                self.out.wanted.insert(path);
                return;
            }
        }
        let base = name.rsplit('/').next().unwrap_or_default().to_owned();
        if base == "sbatch" {
            let script = chain.words.last().map(|word| word.text.text());
            self.out
                .submits
                .insert(format!("sbatch … {}", script.unwrap_or_default()));
        }
        if self.names.contains(&base) || !chain.launchers.is_empty() {
            let mut chain = chain;
            chain.at += 1;
            return self.remember(chain, CallTarget::Program(base), command, doc);
        }
        self.not_followed(&name);
    }

    /// Remembers a command that nothing is known of, or a script that is not read.
    pub(super) fn not_followed(&mut self, name: &str) {
        let base = name.rsplit('/').next().unwrap_or_default();
        if self.out.unfollowed.len() < MAX_CALLS {
            self.out.unfollowed.insert(base.to_owned());
        }
    }

    /// `bash -c 'commands' name args`.
    fn run_string(&mut self, chain: &Chain, command: &SimpleCommand, doc: &Rc<Doc>) {
        let Some(text) = chain.words.get(chain.at).map(|arg| arg.text.clone()) else {
            return;
        };
        let args = chain.words.get(chain.at + 2..).unwrap_or_default().to_vec();
        let folder = doc.folder.clone();
        let start = doc.start_of(command);
        self.within(chain, start, args, |walker| walker.run_text(text, folder));
    }

    /// Runs commands in a shell of their own, which the launchers of a chain start; their command begins at `start`.
    fn within(
        &mut self,
        chain: &Chain,
        start: Option<Span>,
        args: Vec<Arg>,
        run: impl FnOnce(&mut Self),
    ) {
        let scope = chain.scope.as_ref().unwrap_or(&self.scope);
        let mut scope = scope.inherited();
        scope.args = args;
        let before = std::mem::replace(&mut self.scope, scope);
        let (outside, outputs) = (self.around.len(), self.outputs.len());
        let launchers = chain.words.iter().take(chain.at);
        self.around.extend(launchers.cloned());
        self.outputs.extend(chain.outputs.iter().cloned());
        let carried = self.carriers.len();
        self.carriers.extend(start);
        run(self);
        self.carriers.truncate(carried);
        self.around.truncate(outside);
        self.outputs.truncate(outputs);
        self.scope = before;
    }

    fn remember(
        &mut self,
        chain: Chain,
        target: CallTarget,
        command: &SimpleCommand,
        doc: &Rc<Doc>,
    ) {
        if self.muted > 0 {
            return;
        }
        if self.out.calls.len() >= MAX_CALLS {
            self.out.cut = true;
            return;
        }
        let scope = chain.scope.as_ref().unwrap_or(&self.scope);
        let mut variables = BTreeMap::new();
        for name in &scope.exported {
            if let Some(VariableValue::Text(text)) = scope.variables.get(name) {
                variables.insert(name.clone(), text.clone());
            }
        }
        let (mut settings, unread) = self.settings(&chain.words, chain.at, doc);
        if settings.is_empty() && unread.is_empty() {
            settings = self.settings_of_variables(&variables, doc);
        }
        let config = self.config_options(&chain.words[chain.at.min(chain.words.len())..], doc);
        let script = chain.at.checked_sub(1).and_then(|at| chain.words.get(at));
        let script = script.filter(|_| matches!(target, CallTarget::Script(_)));
        let program = script.and_then(|word| self.resolved(&word.text, doc));
        let call = Call {
            program,
            takes_no_words: false,
            one_process: false,
            trains: false,
            names: None,
            code: None,
            refused: Vec::new(),
            config,
            settings,
            unread,
            start: doc.start_of(command),
            carriers: self.carriers.clone(),
            target,
            args: chain.at,
            words: chain.words,
            launchers: chain.launchers,
            launched: chain.launched,
            around: self.around.clone(),
            variables,
            folder: self.scope.folder.clone(),
            container: self.scope.container.clone(),
            outputs: [self.outputs.clone(), chain.outputs].concat(),
            end: end_of(command, doc),
        };
        self.out.calls.push(call);
    }
}

/// Where words are put behind the last one of a command.
fn end_of(command: &SimpleCommand, doc: &Doc) -> Option<ArgumentsEnd> {
    let last = command.words.last()?.end;
    let before = command.words.len().checked_sub(2);
    let between = before.and_then(|at| {
        let from = command.words[at].end;
        doc.text.get(from..command.words[at + 1].start)
    });
    let is_blank = |text: &&str| {
        let mut rest = text.chars().filter(|c| !matches!(c, '\\' | '\n'));
        !text.is_empty() && rest.all(|c| c == ' ' || c == '\t')
    };
    let separator = between.filter(is_blank).unwrap_or(" ").to_owned();
    let bytes = doc.traced.slice(last, last).quoted(Quote::Bare);
    let part = bytes.parts().first()?;
    let (span, quote, via) = bytes.stretch()?;
    if via.is_empty() {
        return Some(ArgumentsEnd {
            span,
            quote,
            separator,
            through: None,
        });
    }
    // Behind the outermost variable whose value ends with the last word, or else behind the word itself.
    let word = doc.text.get(command.words.last()?.start..last)?;
    let ends = |u: &Use| u.whole.trim_end_matches([' ', '\t']).ends_with(word);
    let outermost = via.iter().position(ends);
    let at = match outermost {
        Some(at) => via[at].span.end,
        None => span.end,
    };
    let file = outermost.map_or(span.file, |at| via[at].span.file);
    let uses: Vec<Span> = part.via.iter().rev().map(|u| u.span).collect();
    let known = via.len() - outermost.unwrap_or(via.len());
    Some(ArgumentsEnd {
        span: Span::empty(file, at),
        quote: Quote::Nested,
        separator: " ".to_owned(),
        through: Some((span, uses[..known].to_vec(), uses)),
    })
}
