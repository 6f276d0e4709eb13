//! The texts of a program: which value a name has in them.

use std::collections::{BTreeMap, BTreeSet};

use super::code::CodeArgument;
use super::code_value::{CodeValue, ConfigClasses, MODEL_NAMES, PythonFile};
use super::constants::Constant;
use super::declared::{DeclaredOption, Takes};
use super::literal::is_off;
use super::loaded::settings_key;
use super::python::{
    PythonToken, TokenKind, argument, arguments, assigned, calls, is_conditional, keyword,
};
use super::traced::{Quote, Traced, Why};
use crate::Spelling;
use oomctl_base::only;

/// Most names through which a value is followed.
const DEPTH: usize = 4;

/// The texts of a program, and the options that they declare.
pub(super) struct CodeFiles<'a, 't> {
    pub files: &'a [PythonFile<'t>],
    pub options: Vec<(&'a PythonFile<'t>, Vec<DeclaredOption<'a, 't>>)>,
    /// The constants of its modules of settings, by names in small letters.
    pub settings: BTreeMap<String, Constant>,
}

impl CodeFiles<'_, '_> {
    /// Whether one of these names stands in it.
    pub(super) fn uses(&self, names: &BTreeSet<&str>) -> bool {
        let mut all = self.files.iter().flat_map(|f| &f.tokens);
        all.any(|t| is_one_of(names, t))
    }

    /// Whether a framework configures it.
    pub(super) fn is_configured(&self, wanted: &ConfigClasses<'_>) -> bool {
        self.uses(&wanted.parsers) || self.uses(&wanted.classes)
    }

    /// What the program hands to these calls, by flag: where all calls mean the same.
    pub(super) fn arguments(&self, wanted: &[&CodeArgument]) -> BTreeMap<String, CodeValue> {
        let mut found: BTreeMap<&str, Vec<CodeValue>> = BTreeMap::new();
        for (wanted, file) in wanted
            .iter()
            .flat_map(|w| self.files.iter().map(move |f| (w, f)))
        {
            for at in calls(&file.tokens, |t| t.is(&wanted.call)) {
                let all = arguments(&file.tokens[at + 2..]);
                let given = keyword(&all, &wanted.argument);
                let value = given.and_then(|given| self.value(file, given, 0));
                let value = value.map(|value| match is_conditional(&file.tokens, at) {
                    true => CodeValue::plain(computed(file, &file.tokens[at])),
                    false => value,
                });
                found.entry(&wanted.flag).or_default().extend(value);
            }
        }
        // A value that code computes may still come from a flag of the same name, which a parser reads.
        let same = |all: Vec<CodeValue>| {
            let first = all.first().filter(|first| first.is_told())?;
            all.iter().all(|v| v.means(first)).then(|| first.clone())
        };
        let alone = found.into_iter();
        let alone = alone.filter_map(|(flag, all)| Some((flag.to_owned(), same(all)?)));
        alone.collect()
    }

    /// The model that the program loads, where all that load one mean the same.
    pub(super) fn model(&self) -> Option<CodeValue> {
        let loaded = self.files.iter().flat_map(|file| {
            let calls = calls(&file.tokens, |t| t.is(LOADS) || t.text.ends_with("Trainer"));
            calls.filter_map(move |at| {
                let all = arguments(&file.tokens[at + 2..]);
                if file.tokens[at].is(LOADS) {
                    let loads = loads_a_model(&file.tokens, at);
                    let given = argument(&all, "pretrained_model_name_or_path", 0)
                        .or_else(|| keyword(&all, "model_name"))?;
                    return self.value(file, given, 0).filter(|_| loads);
                }
                let value = self.value(file, keyword(&all, "model")?, 0)?;
                (value.value.known().is_some()).then_some(value)
            })
        });
        let mut known = loaded.filter(CodeValue::is_told);
        if let Some(first) = known.next() {
            return known.all(|v| v.means(&first)).then_some(first);
        }
        let file = self.files.first()?;
        let constants = MODEL_NAMES
            .iter()
            .filter_map(|name| self.constant(file, name, 0));
        only(constants.filter(CodeValue::is_told))
    }

    /// The value of an expression; nothing for `None`, which says nothing.
    pub(super) fn value(
        &self,
        file: &PythonFile<'_>,
        value: &[PythonToken<'_>],
        depth: usize,
    ) -> Option<CodeValue> {
        let (from, to) = (value.first()?.from, value.last()?.to);
        let computed = || CodeValue::plain(file.computed(from, to, Why::Code));
        match value {
            [none] if none.is("None") => None,
            written if CodeValue::written(file, written).is_some() => {
                CodeValue::written(file, written)
            }
            [kind, open, inner @ .., close]
                if ["int", "float", "str"].contains(&kind.text)
                    && open.is("(")
                    && close.is(")") =>
            {
                self.value(file, inner, depth)
            }
            [object, dot, attribute] if object.kind == TokenKind::Name && dot.is(".") => {
                let known = self.option(attribute.text, false);
                let known = known.or_else(|| self.setting(attribute.text));
                Some(known.unwrap_or_else(computed))
            }
            // `cfg.TRAIN.BATCH_SIZE`
            [object, first, _, second, attribute]
                if object.kind == TokenKind::Name && first.is(".") && second.is(".") =>
            {
                Some(self.setting(attribute.text).unwrap_or_else(computed))
            }
            [name] if name.kind == TokenKind::Name => {
                let known = self.option(name.text, true);
                let known = known.or_else(|| self.constant(file, name.text, depth));
                Some(known.unwrap_or_else(computed))
            }
            _ => {
                let loaded = || {
                    let key = settings_key(self.files, value)?;
                    let option = Some(Spelling::Key(key));
                    Some(CodeValue {
                        option,
                        ..computed()
                    })
                };
                let known = self.variable(file, value, depth).or_else(loaded);
                Some(known.unwrap_or_else(computed))
            }
        }
    }

    /// `os.environ.get("NAME", default)`, `os.getenv(…)` or `os.environ["NAME"]`.
    pub(super) fn variable(
        &self,
        file: &PythonFile<'_>,
        value: &[PythonToken<'_>],
        depth: usize,
    ) -> Option<CodeValue> {
        let at = value
            .iter()
            .take(3)
            .position(|t| t.is("environ") || t.is("getenv"))?;
        let rest = match &value[at + 1..] {
            [dot, get, rest @ ..] if dot.is(".") && get.is("get") => rest,
            rest => rest,
        };
        let (open, close) = (rest.first()?, rest.last()?);
        if !(open.is("(") && close.is(")") || open.is("[") && close.is("]")) {
            return None;
        }
        let all = arguments(&rest[1..]);
        let [name] = all.first()? else { return None };
        let default = all
            .get(1)
            .and_then(|default| self.value(file, default, depth + 1));
        let computed = || file.computed(open.from, close.to, Why::Environment);
        let default = default.map_or_else(computed, |d| d.value);
        (name.kind == TokenKind::Text).then(|| CodeValue {
            option: Some(Spelling::Env(name.text.to_owned())),
            ..CodeValue::plain(default)
        })
    }

    /// What a module of settings says under a name.
    fn setting(&self, name: &str) -> Option<CodeValue> {
        let found = self.settings.get(&name.to_lowercase())?;
        Some(found.value.clone())
    }

    /// The option that the program reads under a name, unless its code gives the name another value.
    fn option(&self, name: &str, is_parameter: bool) -> Option<CodeValue> {
        let all = self.options.iter().flat_map(|(file, options)| {
            let same = options
                .iter()
                .filter(|o| o.name == name && o.is_parameter == is_parameter);
            same.map(|option| of_option(file, option))
                .collect::<Vec<_>>()
        });
        let all: Vec<CodeValue> = all.collect();
        let [one] = &all[..] else { return None };
        let mut files = self.files.iter();
        let rebound = files.any(|f| assigned(&f.tokens, name, !is_parameter).next().is_some());
        (!rebound).then(|| one.clone())
    }

    /// The value of a name that is assigned once, in this file or else in one other.
    fn constant(&self, file: &PythonFile<'_>, name: &str, depth: usize) -> Option<CodeValue> {
        if depth > DEPTH {
            return None;
        }
        let assigned =
            |file: &PythonFile<'_>| -> Vec<usize> { assigned(&file.tokens, name, false).collect() };
        let others = self.files.iter().filter(|other| other.path != file.path);
        let mut given = std::iter::once(file).chain(others);
        let (file, places) =
            given.find_map(|f| Some((f, assigned(f))).filter(|(_, p)| !p.is_empty()))?;
        let [at] = places[..] else { return None };
        let rest = file
            .tokens
            .get(at + 2..)
            .filter(|_| file.tokens[at + 1].is("="))?;
        let end = rest.iter().position(|t| t.kind == TokenKind::End)?;
        let found = self.value(file, &rest[..end], depth + 1)?;
        // Where it gets its value, and one place that takes it; an f-string takes it too.
        let uses = |f: &PythonFile<'_>| {
            let used = |at: &usize| {
                let token = &f.tokens[*at];
                let is_keyword = f.tokens.get(at + 1).is_some_and(|t| t.is("="));
                let hands_on = f.tokens.get(at + 2).is_some_and(|t| t.is(name));
                let in_text = token.kind == TokenKind::Other && token.text.contains(name);
                token.is(name) && !(is_keyword && hands_on) || in_text
            };
            (0..f.tokens.len()).filter(used).count()
        };
        let is_own = found.is_own && self.files.iter().map(uses).sum::<usize>() == 2;
        Some(CodeValue { is_own, ..found })
    }
}

/// The call of transformers, and of many libraries after it, that loads what a folder or the hub has.
pub(super) const LOADS: &str = "from_pretrained";

/// Whether the call `at` loads a model, as its class says.
pub(super) fn loads_a_model(tokens: &[PythonToken<'_>], at: usize) -> bool {
    let class = at.checked_sub(2).and_then(|at| tokens.get(at));
    class.is_some_and(|class| {
        let of_model = class.text.contains("Model") || class.text.contains("For");
        of_model && !class.is("PeftModel")
    })
}

pub(super) fn is_one_of(names: &BTreeSet<&str>, token: &PythonToken<'_>) -> bool {
    token.kind == TokenKind::Name && names.contains(token.text)
}

/// `choices=[16, 32]` of an option, as they are written.
fn choices(file: &PythonFile<'_>, option: &DeclaredOption<'_, '_>) -> Vec<String> {
    let (start, end) = option.range;
    let behind = |byte: usize| file.tokens.partition_point(|t| t.from < byte);
    let own = &file.tokens[behind(start)..behind(end)];
    let Some(at) = own
        .windows(3)
        .position(|w| w[0].is("choices") && w[1].is("=") && w[2].opens())
    else {
        return Vec::new();
    };
    let listed = own[at + 3..].iter().take_while(|t| !t.closes());
    let listed: Vec<_> = listed.filter(|t| !t.is(",")).collect();
    let is_plain = |t: &PythonToken<'_>| matches!(t.kind, TokenKind::Text | TokenKind::Number);
    match listed.iter().all(|t| is_plain(t)) {
        true => listed.iter().map(|t| t.text.to_owned()).collect(),
        false => Vec::new(),
    }
}

/// An option with its default.
pub(super) fn of_option(file: &PythonFile<'_>, option: &DeclaredOption<'_, '_>) -> CodeValue {
    let (start, end) = option.range;
    let computed = file.computed(start, end, Why::Code);
    let meant = |text| match computed.place() {
        Some(span) => Traced::escape(span, text, Quote::Raw),
        None => computed.clone(),
    };
    let literal = option.default.and_then(|d| CodeValue::written(file, d));
    let value = match (literal, option.takes) {
        (Some(literal), _) => literal.value,
        (None, Takes::TurnsOn | Takes::TurnsOnOrValue) if option.default.is_none() => {
            meant("False")
        }
        (None, Takes::TurnsOff) if option.default.is_none() => meant("True"),
        _ => computed,
    };
    let flag = option.flag.clone();
    CodeValue {
        choices: choices(file, option),
        value,
        option: match option.takes {
            Takes::Value | Takes::Truth => Some(Spelling::Flag(flag)),
            Takes::TurnsOn | Takes::TurnsOnOrOff | Takes::TurnsOnOrValue => {
                Some(Spelling::Switch(flag))
            }
            Takes::TurnsOff | Takes::Other => None,
        },
        off: match option.takes {
            Takes::TurnsOnOrOff => Some(format!("--no-{}", option.flag.trim_start_matches('-'))),
            Takes::TurnsOff => Some(option.flag.clone()),
            _ => None,
        },
        is_unset: match option.default {
            Some([none]) => none.is("None"),
            Some(_) => false,
            None => option.takes == Takes::Value,
        },
        is_off: option.default.is_none_or(is_off),
        is_truth: option.takes == Takes::Truth,
        may_take_value: option.takes == Takes::TurnsOnOrValue,
        follows: false,
        is_own: false,
    }
}

/// What code computes, at this token.
pub(super) fn computed(file: &PythonFile<'_>, token: &PythonToken<'_>) -> Traced {
    file.computed(token.from, token.to, Why::Code)
}
