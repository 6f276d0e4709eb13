//! Options of a program that no table knows, by the last part of their names: `--train.micro_batch_size 4`,
//! `model.train_ds.batch_size=32`, `SOLVER.IMS_PER_BATCH 16`.

use super::batch_options::{PART_NAMES, WHOLE_NAMES};
use super::given_keys::GivenKeys;
use super::hydra;
use super::parts::{OF, PARTS};
use super::spelling::{OF_EVALUATION, setting_names};
use super::stack::{Stack, StackKnob};
use super::walk::{Call, Reached};
use crate::{SettingsReader, Spelling};
use oomctl_base::{Role, only, word_list};

/// Parts of a name that are about neither training nor an evaluation.
pub(super) const OF_NEITHER: [&str; 4] = word_list("inference generation generate sampling");
/// Models of a reinforcement learner: parts of a name that say nothing of the training of one model.
const MODELS: [&str; 5] = word_list("rollout actor critic ref reward");

/// Stands before the keys of a configuration that is composed, all of which are of its program.
const ROOT: &str = "config";

/// Roles whose names mean the same in any section of training.
const ROLES: [Role; 7] = [
    Role::MicroBatch,
    Role::TrainBatch,
    Role::GradAccumulation,
    Role::GradientCheckpointing,
    Role::SequenceLength,
    Role::EvalBatch,
    Role::NumWorkers,
];

impl Stack {
    /// The stack, whose knobs are known behind any sections where its programs are the user's own. The batch of an
    /// evaluation bears the name of that of training, in a section of its own.
    #[must_use]
    pub fn with_endings(mut self) -> Self {
        if !self.is_of_any_program() {
            return self;
        }
        let all: Vec<(Role, Vec<String>)> = self
            .knobs
            .iter()
            .filter_map(|knob| Some((knob.role?, last_parts(knob))))
            .collect();
        for knob in &mut self.knobs {
            let Some(role) = knob.role.filter(|role| ROLES.contains(role)) else {
                continue;
            };
            let shared =
                |of: &Role| *of == role || role == Role::EvalBatch && *of == Role::MicroBatch;
            let names = all.iter().filter(|(of, _)| shared(of));
            knob.endings = names.flat_map(|(_, names)| names.clone()).collect();
        }
        self
    }
}

/// The last parts of a knob's names, but letters alone. A length that is not one of sequences may be of anything.
fn last_parts(knob: &StackKnob) -> Vec<String> {
    let names = knob
        .spellings
        .iter()
        .map(|s| s.name().trim_matches(['-', '=']));
    let last = names.filter_map(|name| name.rsplit('.').next());
    let last = last.map(|name| name.to_ascii_lowercase().replace('-', "_"));
    let is_length = knob.role == Some(Role::SequenceLength);
    last.filter(|name| name.len() > 1 && (!is_length || name.contains("seq")))
        .collect()
}

impl Call {
    /// The one option with sections before a name of this knob, or else the one key of its files of settings.
    pub(super) fn sectioned(&self, knob: &StackKnob) -> Option<Spelling> {
        if knob.endings.is_empty() {
            return None;
        }
        if let Some(key) = self.of_accumulation(knob) {
            return Some(key);
        }
        let words = self.own_texts();
        let options = words.iter().filter_map(|word| sectioned_option(word));
        // `accum=2`: what a flag is called, a bare word may be called.
        let is_bare = |s: &Spelling| match s {
            Spelling::Hydra(key) if knob.role != Some(Role::EvalBatch) => {
                knob.endings.contains(&key.to_ascii_lowercase())
            }
            _ => false,
        };
        let options = options.filter(|s| is_named(knob, s.name()) || is_bare(s));
        let options: Vec<Spelling> = options.collect();
        let found = match &options[..] {
            [] => self.keyed(knob).or_else(|| self.sectioned_key(knob)),
            [first, rest @ ..] if rest.iter().all(|other| other == first) => Some(first.clone()),
            _ => None,
        }?;
        let given = GivenKeys::of(&words);
        let is_plain = knob.spellings.iter().any(|s| given.has(s.name()));
        (!is_plain).then_some(found)
    }

    /// The key of a knob, where the program or its configuration computes the accumulation of two settings: those are what one forward
    /// takes and the batch of a step.
    fn of_accumulation(&self, knob: &StackKnob) -> Option<Spelling> {
        let mut names = self.names.iter().flatten();
        let of_code = names.find_map(|(name, _)| name.strip_prefix(PARTS)?.split_once(OF));
        let of_code = of_code.map(|(part, whole)| (part.to_owned(), whole.to_owned()));
        let keys = of_code.or_else(|| self.computed_accumulation())?;
        let leaves = self.program_keys();
        // What a word of Hydra gives is no longer a leaf.
        let of = |wanted: &str| {
            let mut leaves = leaves.iter();
            let leaf = leaves.find(|(key, _)| key == wanted).cloned();
            leaf.or_else(|| self.is_override(wanted).then(|| (wanted.to_owned(), true)))
        };
        let (part, whole) = (of(&keys.0)?, of(&keys.1)?);
        let (key, composed) = match knob.role? {
            Role::MicroBatch => part,
            Role::TrainBatch => whole,
            _ => return None,
        };
        Some(spelling(key, composed))
    }

    /// The keys of the settings of the program itself, and whether they are composed.
    fn program_keys(&self) -> Vec<(String, bool)> {
        let files = self.settings.iter();
        let files = files.filter(|file| file.reader == SettingsReader::Program);
        let keys = files.flat_map(|file| {
            let composed = file.reached == Reached::Composed;
            let keys = file.leaves().into_iter();
            keys.map(move |(key, _)| (key, composed))
        });
        keys.collect()
    }

    /// Whether a key is of a batch of training that the program divides among its GPUs.
    fn is_shared(&self, key: &str) -> bool {
        let last = key.rsplit('.').next().unwrap_or(key);
        let code = self.code.as_ref();
        code.is_some_and(|code| code.batch.is_shared(last))
            && !key
                .split(['.', '_'])
                .any(|part| OF_EVALUATION.contains(&part))
    }

    /// The one key of a section of its settings that its code looks up by a name of this knob. An option that has a
    /// default of its own may win over it.
    pub(super) fn looked_up(&self, knob: &StackKnob) -> Option<String> {
        let code = self.code.as_ref().filter(|_| knob.is_of_program())?;
        let decided = self.code_value(knob).is_some_and(|coded| !coded.is_unset);
        if decided || code.class.is_some() {
            return None;
        }
        let names: Vec<String> = knob.spellings.iter().flat_map(setting_names).collect();
        let files = self.settings.iter();
        let files: Vec<_> = files
            .filter(|f| f.reader == SettingsReader::Program)
            .collect();
        let all = code.lookups.iter().filter(|key| {
            let (sections, name) = key.rsplit_once('.').unwrap_or(("", key));
            let mut parts = sections.split('.');
            let of_training = !parts.any(|s| OF_EVALUATION.contains(&s) || OF_NEITHER.contains(&s));
            of_training
                && names.iter().any(|n| n == name)
                && files.iter().any(|file| file.find(key).is_some())
        });
        let key = only(all)?;
        let name = key.rsplit('.').next().unwrap_or(key);
        // `{**cfg["train"], **cfg["large"]}`: the other section has the last word.
        let is_handed_on = |leaf: &str| {
            let (section, last) = leaf.rsplit_once('.').unwrap_or(("", leaf));
            leaf != key && last == name && code.lookups.contains(&format!("{section}.*"))
        };
        let mut leaves = files.iter().flat_map(|file| file.leaves());
        (!leaves.any(|(leaf, _)| is_handed_on(&leaf))).then(|| key.clone())
    }

    fn sectioned_key(&self, knob: &StackKnob) -> Option<Spelling> {
        // A default of an option may win over the file.
        if self.code_value(knob).is_some_and(|coded| !coded.is_unset) {
            return None;
        }
        // A text that was read looks it up, whatever it calls the section. That of a program of Hydra is handed all of it.
        let own = self.code.as_ref().filter(|code| !code.takes_any_key);
        let lookups = own.map(|code| &code.lookups);
        let is_looked_up = |key: &str| {
            let (section, last) = key.rsplit_once('.').unwrap_or(("", key));
            let spread = format!("{section}.*");
            lookups.is_none_or(|all| all.contains(last) || all.contains(&spread))
        };
        let mut keys = self.program_keys();
        keys.retain(|(key, composed)| *composed || self.config.is_empty() && is_looked_up(key));
        let used = |key: &str| {
            let last = key.rsplit('.').next().unwrap_or(key);
            let accumulates = self
                .code
                .as_ref()
                .is_some_and(|code| code.batch.accumulates_by(last));
            knob.role == Some(Role::GradAccumulation) && accumulates
        };
        let all = keys.iter().filter(|(key, composed)| match composed {
            _ if used(key) => true,
            _ if self.is_shared(key) => knob.role == Some(Role::TrainBatch),
            true => is_named(knob, &format!("{ROOT}.{key}")),
            false => is_named(knob, key) || is_whole(knob, key, &keys),
        });
        // Keys that refer to one another are one.
        let all = all.map(|(key, composed)| {
            let meant = self.followed(knob, key);
            (
                key,
                meant.unwrap_or_else(|| spelling(key.clone(), *composed)),
            )
        });
        let all: Vec<(&String, Spelling)> = all.collect();
        let ((_, first), rest) = all.split_first()?;
        match rest.iter().all(|(_, meant)| meant == first) {
            true => Some(first.clone()),
            false => {
                only(all.into_iter().filter(|(key, _)| is_part(knob, key))).map(|(_, meant)| meant)
            }
        }
    }
}

/// An option with sections in its name: a flag, an override, or a key of yacs, which stands before its value.
fn sectioned_option(word: &str) -> Option<Spelling> {
    if word.starts_with('-') {
        let flag = word.split('=').next()?;
        return Some(Spelling::Flag(flag.to_owned()));
    }
    if let Some(read) = hydra::read(word) {
        return (read.sign != "~").then(|| Spelling::Hydra(read.key.to_owned()));
    }
    let of_yacs = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "._".contains(c);
    word.chars()
        .all(of_yacs)
        .then(|| Spelling::Flag(word.to_owned()))
}

/// Whether a name beside that of the whole batch is that of its parts, which a GPU takes one after the other.
fn is_part(knob: &StackKnob, name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    knob.role == Some(Role::MicroBatch) && PART_NAMES.contains(&last)
}

/// A key of the program's settings. Words of Hydra change what is composed.
fn spelling(key: String, composed: bool) -> Spelling {
    match composed {
        true => Spelling::Hydra(key),
        false => Spelling::Key(key),
    }
}

/// Whether a key is the batch of which another key of its section is a part.
fn is_whole(knob: &StackKnob, key: &str, keys: &[(String, bool)]) -> bool {
    let Some((section, last)) = key.rsplit_once('.') else {
        return false;
    };
    let beside = |other: &str| {
        let part = other.rsplit_once('.');
        part.is_some_and(|(of, part)| of == section && PART_NAMES.contains(&part))
    };
    let of_training = !section
        .split(['.', '_'])
        .any(|s| OF_EVALUATION.contains(&s));
    knob.role == Some(Role::TrainBatch)
        && of_training
        && WHOLE_NAMES.contains(&last)
        && keys.iter().any(|(other, _)| beside(other))
}

/// Whether a name has sections, and is one of this knob.
pub(super) fn is_named(knob: &StackKnob, name: &str) -> bool {
    if !name.contains(['.', '#', '/']) {
        return false;
    }
    let name = name.trim_start_matches('-').to_ascii_lowercase();
    let name = name.replace('-', "_");
    let last = name.rsplit(['.', '#', '/']).next().unwrap_or(&name);
    let is_of = |parts: &[&str]| {
        name.split(['.', '#', '/', '_'])
            .any(|part| parts.contains(&part))
    };
    let evaluates = knob.role == Some(Role::EvalBatch);
    knob.endings.iter().any(|ending| *ending == *last)
        && is_of(&OF_EVALUATION) == evaluates
        && !is_of(&OF_NEITHER)
        && !is_of(&MODELS)
}
