//! The options by which a program takes a knob: its own, where its code declares them or fills its framework's class itself.

use std::borrow::Cow;

use super::adopt::Adoption;
use super::code_value::CodeValue;
use super::configured::ProgramCode;
use super::constants::Constant;
use super::filled_class::FilledClass;
use super::given_keys::GivenKeys;
use super::knobs::{FoundKnob, KnobForm, KnobState, given as given_as, in_words};
use super::resources::asked;
use super::spelling::{attribute, same_flag, setting_names};
use super::stack::StackKnob;
use super::walk::{Call, Reading, SettingsFile, UnreadFile};
use crate::{SettingsReader, Spelling};
use oomctl_base::{Role, Value, ValueKind, only};

/// Begins what is said of a file whose code gives values in a way that is not read.
pub const CODE_OF: &str = "the code of ";
/// Begins the same of a map that is handed on.
pub const SPREAD_MAP: &str = "`**";

impl ProgramCode {
    /// Whether it declares an option that stands alone.
    fn is_switch(&self, word: &str) -> bool {
        let value = self.value(&Spelling::Switch(word.to_owned()));
        let option = value.and_then(|value| value.option.as_ref());
        matches!(option, Some(Spelling::Switch(_)))
    }

    /// The option of a knob that is known by what the program does with it, and by none of the knob's names.
    fn unnamed(&self, knob: &StackKnob) -> Option<&str> {
        let role = knob.role?;
        if role == Role::TrainBatch {
            return self.batch.global();
        }
        let used = self.batch.used_as(role)?;
        let is_global = self.batch.global().is_some_and(|g| same_flag(g, used));
        let mut own = knob.spellings.iter().filter(|s| !self.is_other(knob, s));
        let has_name = own.any(|s| self.value(s).is_some());
        (!is_global && !has_name).then_some(used)
    }

    /// Whether an option that is spelled as a knob is another: a micro batch one for the batch of all GPUs, or a letter the
    /// short form of a name that the knob does not have (`-b, --base`).
    fn is_other(&self, knob: &StackKnob, spelling: &Spelling) -> bool {
        let forms = match spelling.name() {
            letter if letter.len() == 2 => self.other_forms(letter, &[]),
            _ => Vec::new(),
        };
        let mut long = forms.iter().filter(|form| form.starts_with("--"));
        let names = |form: &&String| knob.spellings.iter().any(|s| same_flag(s.name(), form));
        if long.clone().next().is_some() && !long.any(|form| names(&form)) {
            return true;
        }
        let is_micro = knob.role == Some(Role::MicroBatch);
        let global = self.batch.global().filter(|_| is_micro);
        global.is_some_and(|flag| same_flag(spelling.name(), flag))
    }
}

impl Call {
    /// The knob with the options by which this program takes it.
    pub(super) fn as_declared<'k>(&self, knob: &'k StackKnob) -> Cow<'k, StackKnob> {
        let sectioned = self.sectioned(knob);
        let Some(code) = self.code.as_ref().filter(|_| knob.is_of_program()) else {
            return with(knob, sectioned);
        };
        let fills = code.class.is_some();
        let taken = |spelling: &Spelling| match (spelling, code.value(spelling)) {
            (_, Some(coded)) => {
                let option = coded.option.clone().filter(|_| fits(coded, knob.kind));
                let has_value = |option: &Spelling| {
                    coded.may_take_value && self.is_followed_by_a_value(option.name())
                };
                option.filter(|option| !has_value(option))
            }
            (Spelling::Flag(flag) | Spelling::Switch(flag), None)
                if (fills || code.is_only_in_call(flag)) && !self.is_given(flag) =>
            {
                None
            }
            (other, None) => Some(other.clone()),
        };
        let unnamed = code.unnamed(knob).map(|flag| (Spelling::read(flag), 0));
        // What the program declares itself is its own name for the knob, and others are not.
        let own_name = unnamed.is_some() || knob.spellings.iter().any(|s| code.value(s).is_some());
        let declared = !fills && own_name;
        let all = knob.spellings.iter().zip(&knob.styles);
        let all =
            all.filter(|(s, _)| !code.is_other(knob, s) && (!declared || code.value(s).is_some()));
        let own = self.own_texts();
        let all = all.filter_map(|(spelling, style)| Some((taken(spelling)?, *style)));
        let all = all.chain(unnamed);
        let all = all.flat_map(|(spelling, style)| {
            let other = |form: String| match &spelling {
                Spelling::Switch(_) => Spelling::Switch(form),
                _ => Spelling::Flag(form),
            };
            let others = match &spelling {
                Spelling::Flag(flag) | Spelling::Switch(flag) => code.other_forms(flag, &own),
                _ => Vec::new(),
            };
            let others: Vec<Spelling> = others.into_iter().map(other).collect();
            let all = std::iter::once(spelling).chain(others);
            all.map(move |spelling| (spelling, style))
        });
        let key = self.looked_up(knob).map(|key| (Spelling::Key(key), 0));
        // No option gives what a constant gives.
        let is_option = self.constant(knob).is_none();
        let all = all.filter(|_| is_option);
        let sectioned = sectioned.map(|spelling| (spelling, 0));
        let (spellings, styles) = all.chain(key).chain(sectioned).unzip();
        Cow::Owned(StackKnob {
            spellings,
            styles,
            ..knob.clone()
        })
    }

    /// Whether the words give this option a value.
    fn is_followed_by_a_value(&self, flag: &str) -> bool {
        let words = self.own_texts();
        let begins = format!("{flag}=");
        let pairs = || words.windows(2).filter(|pair| pair[0] == flag);
        words.iter().any(|word| word.starts_with(&begins))
            || pairs().any(|pair| !pair[1].starts_with('-'))
    }

    /// Whether a word of the program is this option.
    fn is_given(&self, flag: &str) -> bool {
        let words = self.taken_words();
        let own: Vec<String> = words
            .iter()
            .skip(self.args)
            .map(|w| w.text.text())
            .collect();
        GivenKeys::of(&own).has(flag)
    }

    /// What the program's code says of a knob.
    pub(super) fn code_value(&self, knob: &StackKnob) -> Option<&CodeValue> {
        let code = self.code.as_ref().filter(|_| knob.is_of_program())?;
        let own = knob.spellings.iter().filter(|s| !code.is_other(knob, s));
        let unnamed = code.unnamed(knob).map(Spelling::read);
        let mut values = own.chain(&unnamed).filter_map(|s| code.value(s));
        values.find(|value| !value.off.as_ref().is_some_and(|off| self.is_given(off)))
    }

    /// The value that the program's code gives a knob.
    pub(super) fn coded(&self, knob: &StackKnob) -> Option<&CodeValue> {
        let fills = self.code.as_ref().is_some_and(|code| code.class.is_some());
        let of_option = || {
            let coded = self.code_value(knob);
            let coded = coded.or_else(|| self.constant(knob))?;
            let of_words = matches!(coded.option, Some(Spelling::Flag(_) | Spelling::Switch(_)));
            let hidden = of_words && self.unknown_words().is_some();
            let of_file = of_words && self.is_of_file(coded);
            (!hidden && !of_file && (fills || !coded.is_unset)).then_some(coded)
        };
        of_option().or_else(|| self.keyed_value(knob))
    }

    /// Whether a file of settings has the option of a value, in a program that takes what it does not give from such a file.
    fn is_of_file(&self, coded: &CodeValue) -> bool {
        let defaults = self.code.as_ref().is_some_and(|code| code.fills_from_files);
        let names: Vec<String> = coded.option.iter().flat_map(setting_names).collect();
        let has = |file: &SettingsFile| names.iter().any(|name| file.find(name).is_some());
        let mut unread = self.unread.iter();
        let is_unread = unread.any(|file| file.reader == SettingsReader::Program);
        defaults && (is_unread || self.settings.iter().any(has))
    }

    /// Whether a file of settings has the option of a knob, in a program that believes such a file against its words.
    pub(super) fn is_of_winning_file(&self, knob: &StackKnob) -> bool {
        let wins = self.code.as_ref().is_some_and(|code| code.files_win);
        wins && self
            .code_value(knob)
            .is_some_and(|coded| self.is_of_file(coded))
    }

    /// Whether the word behind this one is its value.
    pub(super) fn takes_a_value(&self, word: &str) -> bool {
        let is_option = word.starts_with('-') && !word.contains('=');
        let code = self.code.as_ref();
        is_option && !code.is_some_and(|code| code.is_switch(word))
    }

    /// The constant of the program that gives a knob, where nothing else does.
    pub(super) fn constant(&self, knob: &StackKnob) -> Option<&CodeValue> {
        let code = self.code.as_ref().filter(|_| knob.is_of_program())?;
        // A length is too often one of something else.
        if code.constants.is_empty() || knob.role == Some(Role::SequenceLength) {
            return None;
        }
        let flags = knob.spellings.iter().map(Spelling::name);
        let mut flags = flags.filter(|name| name.starts_with("--"));
        if self.code_value(knob).is_some()
            || self.unknown_words().is_some()
            || flags.clone().any(|flag| self.is_given(flag))
        {
            return None;
        }
        let fits = |name: &str| {
            let found = code.constants.get(name)?;
            let is_other = knob.role == Some(Role::MicroBatch) && found.is_global;
            let in_file = self.settings.iter().any(|file| file.find(name).is_some());
            (!is_other && !in_file).then_some(&found.value)
        };
        let global = || {
            let is_batch =
                |(name, found): &(&String, &Constant)| found.is_global && name.contains("batch");
            let all = code.constants.iter().filter(is_batch);
            let one = only(all).filter(|_| knob.role == Some(Role::TrainBatch))?;
            Some(&one.1.value)
        };
        flags
            .find_map(|flag| fits(&attribute(flag)))
            .or_else(global)
    }

    /// Whether the program itself declares an option for a knob.
    pub(super) fn declares(&self, knob: &StackKnob) -> bool {
        self.code_value(knob)
            .is_some_and(|coded| fits(coded, knob.kind))
    }

    /// The variables that its code reads.
    pub(super) fn variables_of_code(&self) -> Vec<String> {
        let values = self.code.iter().flat_map(ProgramCode::all);
        let name = |value: &CodeValue| match &value.option {
            Some(Spelling::Env(name)) => Some(name.clone()),
            _ => None,
        };
        values.filter_map(name).collect()
    }
}

impl Call {
    /// The micro batch of a program that cuts its batch into parts only where an option says so, and it does not: the whole batch,
    /// or what each GPU has of it.
    pub(super) fn undivided(
        &self,
        reading: &Reading,
        knob: &StackKnob,
        given: Option<&FoundKnob>,
    ) -> Option<FoundKnob> {
        let code = self.code.as_ref()?;
        let (part, whole) = code
            .batch
            .parts()
            .filter(|_| knob.role == Some(Role::MicroBatch))?;
        let default = code.declared(part)?;
        let is_whole = match given.map(|found| (&found.state, found.way)) {
            None | Some((KnobState::Computed(..), KnobForm::Code { .. })) => default.is_off,
            Some((KnobState::Known(Value::Int(number)), _)) => *number <= 0,
            _ => false,
        };
        let words = self.taken_words();
        let own = words.get(self.args..).filter(|_| is_whole)?;
        let way = KnobForm::Code { own: false };
        let word = in_words(own, &Spelling::Flag(whole.to_owned()), knob.kind);
        let all = match word {
            Some((_, found)) => found,
            None => given_as(code.declared(whole)?.value.clone(), way, false, knob.kind),
        };
        let all = match part.contains("gpu") {
            true => shared(all, gpus_of(reading)?)?,
            false => all,
        };
        Some(FoundKnob {
            value: given.map_or_else(|| default.value.clone(), |found| found.value.clone()),
            way: given.map_or(way, |found| found.way),
            maybe: all.maybe || given.is_some_and(|found| found.maybe),
            ..all
        })
    }

    /// Takes in the map that fills a class: a section of a file of settings, or values that are not read.
    pub(super) fn take_unpacked(&mut self, class: &FilledClass) {
        let Some(unpacked) = &class.unpacked else {
            return;
        };
        let within = |section: &String| {
            let within = format!("{section}.");
            move |file: &SettingsFile| {
                let mut keys = file.says.leaves().into_iter();
                keys.any(|(key, _)| within == "." || key.starts_with(&within))
            }
        };
        let named = unpacked.section.as_ref().filter(|section| {
            let mut files = self.settings.iter();
            files.any(within(section)) || !self.unread.is_empty()
        });
        let Some(section) = named else {
            let place = match unpacked.text.as_str() {
                "" => format!("{CODE_OF}{}", class.path),
                text => format!("{SPREAD_MAP}{text}` in {}", class.path),
            };
            let unread = UnreadFile::of(SettingsReader::Program, place);
            return self.unread.push(unread);
        };
        let has = within(section);
        let files = self.settings.iter_mut().filter(|file| has(file));
        files.for_each(|file| file.section.clone_from(section));
    }
}

impl Adoption<'_> {
    /// Whether code of the program gives a knob, which none of its options does, and which cannot be changed there.
    pub fn is_fixed(&self, knob: &StackKnob) -> bool {
        let mut calls = self.calls();
        calls.any(|call| {
            let coded = call.coded(knob).filter(|coded| !coded.is_own);
            coded.is_some() && call.as_read(knob).spellings.is_empty()
        })
    }

    /// The model of a call: an option of the program, one that the preset lists, or what the code loads.
    pub fn model(&self, call: &Call) -> Option<FoundKnob> {
        const MODEL: &str = "model";
        let bare = |spelling| StackKnob::bare(MODEL, ValueKind::Text, spelling);
        let coded = call.code.as_ref().and_then(|code| code.model.as_ref());
        let own = coded.and_then(|coded| coded.option.clone());
        let listed = self
            .stack?
            .recognise
            .model
            .iter()
            .map(|key| Spelling::read(key));
        let mut spellings = own.into_iter().chain(listed);
        let told = spellings.find_map(|spelling| self.given_by(call, &bare(spelling)));
        let code = || {
            given_as(
                coded?.value.known().and(coded.map(|c| c.value.clone()))?,
                KnobForm::Code { own: false },
                false,
                ValueKind::Text,
            )
            .into()
        };
        told.or_else(code)
    }
}

/// GPUs of the whole job.
fn gpus_of(reading: &Reading) -> Option<i64> {
    let nodes = asked(reading, Role::Nodes).map_or(1, |(nodes, _)| nodes);
    let (of_node, _) = asked(reading, Role::GpusPerNode)?;
    Some(i64::from(of_node) * i64::from(nodes))
}

/// A batch that GPUs share.
fn shared(batch: FoundKnob, gpus: i64) -> Option<FoundKnob> {
    let KnobState::Known(Value::Int(all)) = batch.state else {
        return None;
    };
    let each = (gpus > 0 && all % gpus == 0).then(|| all / gpus)?;
    Some(FoundKnob {
        state: KnobState::Known(Value::Int(each)),
        ..batch
    })
}

/// Whether an option gives a value of this kind: a word alone is a truth value, and a truth value is no word of its own, for
/// programs differ in what they take for true, unless the option is known to take Python's words.
fn fits(coded: &CodeValue, kind: ValueKind) -> bool {
    match &coded.option {
        Some(Spelling::Switch(_)) => kind == ValueKind::Bool,
        Some(Spelling::Flag(_)) => kind != ValueKind::Bool || coded.is_truth,
        Some(_) => true,
        None => false,
    }
}

/// A knob that may have one more spelling.
fn with(knob: &StackKnob, spelling: Option<Spelling>) -> Cow<'_, StackKnob> {
    let Some(spelling) = spelling else {
        return Cow::Borrowed(knob);
    };
    let mut knob = knob.clone();
    knob.spellings.push(spelling);
    knob.styles.push(0);
    Cow::Owned(knob)
}
