//! Values of settings that are one reference to another key (`batch_size: ${profile.images_per_gpu}`), as OmegaConf resolves them.
//!
//! Rule: all that sees a key changes with it, so a reference is followed only where nothing of another kind sees the key.

use std::borrow::Cow;

use super::adopt::Adoption;
use super::hydra;
use super::parts::is_accumulation;
use super::spelling::OF_EVALUATION;
use super::spelling::setting_names;
use super::stack::StackKnob;
use super::walk::{Call, Reached, SettingsFile};
use crate::{SettingsReader, Spelling};
use oomctl_base::{Role, word_list};

/// References behind one another that are followed.
const MAX_REFERENCES: usize = 8;

/// Parts of the names of settings that only label a run.
const LABELS: [&str; 16] = word_list(
    "name dir path tag tags group file id title note notes description comment project prefix suffix",
);

impl Adoption<'_> {
    /// How the program spells a knob, first of all.
    pub fn spelling(&self, knob: &StackKnob) -> Option<Spelling> {
        let knob = self.calls().next().map(|call| call.as_read(knob))?;
        knob.spellings.first().cloned()
    }
}

impl Call {
    /// The knob with the options by which this program takes it, and for a key that refers to another that one.
    pub(super) fn as_read<'k>(&self, knob: &'k StackKnob) -> Cow<'k, StackKnob> {
        if knob.role == Some(Role::GradAccumulation) && self.computed_accumulation().is_some() {
            return Cow::Owned(StackKnob {
                spellings: Vec::new(),
                styles: Vec::new(),
                ..knob.clone()
            });
        }
        let read = self.as_declared(knob);
        let followed = |s: &Spelling| {
            let mut names = setting_names(s).into_iter();
            names.find_map(|name| self.followed(knob, &name))
        };
        if !read.spellings.iter().any(|s| followed(s).is_some()) {
            return read;
        }
        let mut knob = read.into_owned();
        for spelling in &mut knob.spellings {
            if let Some(meant) = followed(spelling) {
                *spelling = meant;
            }
        }
        Cow::Owned(knob)
    }

    /// The key that is to be changed in place of one whose value is a reference; None where that is not one, where a word gives
    /// the key itself, or where something else would change with what it names.
    pub(super) fn followed(&self, knob: &StackKnob, key: &str) -> Option<Spelling> {
        if knob.endings.is_empty() {
            return None;
        }
        let mut meant = reference(self.text_of(key)?, key)?;
        for _ in 0..MAX_REFERENCES {
            let next = self.text_of(&meant);
            match next.and_then(|text| reference(text, &meant)) {
                Some(next) => meant = next,
                None => break,
            }
        }
        // A batch of training that an evaluation takes, too, is that of training.
        let is_of_other = knob.role == Some(Role::EvalBatch)
            && !meant
                .split(['.', '_'])
                .any(|part| OF_EVALUATION.contains(&part));
        if is_of_other || self.is_override(key) || !self.sees_its_like(knob, key, &meant) {
            return None;
        }
        let file = self.file_of(&meant);
        match file.map(|file| file.reached) {
            _ if self.is_override(&meant) => Some(Spelling::Hydra(meant)),
            Some(Reached::Composed) => Some(Spelling::Hydra(meant)),
            Some(_) => {
                let text = self.text_of(&meant)?;
                (!text.contains("${")).then_some(Spelling::Key(meant))
            }
            None => None,
        }
    }

    /// The keys of the part and the whole of which a composed configuration computes the accumulation, if no word gives that.
    pub(super) fn computed_accumulation(&self) -> Option<(String, String)> {
        let files = self.settings.iter();
        let mut leaves = files
            .filter(|file| file.reached == Reached::Composed)
            .flat_map(SettingsFile::leaves);
        leaves.find_map(|(key, _)| {
            let text = self.text_of(&key).filter(|_| !self.is_override(&key))?;
            parts_of_setting(&key, text)
        })
    }

    /// Whether a word of Hydra gives a key.
    pub(super) fn is_override(&self, key: &str) -> bool {
        let words = self.own_texts();
        words.iter().any(|word| hydra::of(word, key).is_some())
    }

    /// The last of the program's files that says a key.
    fn file_of(&self, key: &str) -> Option<&SettingsFile> {
        let mut files = self.settings.iter().rev();
        files.find(|f| f.reader == SettingsReader::Program && f.find(key).is_some())
    }

    /// What the last of the program's files that says a key says of it.
    fn text_of(&self, key: &str) -> Option<&str> {
        self.file_of(key)?.find(key)?.text.as_deref()
    }

    /// Whether all that sees a key is the knob itself, by whatever section, or a label.
    fn sees_its_like(&self, knob: &StackKnob, from: &str, meant: &str) -> bool {
        let files = self.settings.iter();
        let files = files.filter(|file| file.reader == SettingsReader::Program);
        let mut leaves = files.flat_map(SettingsFile::leaves);
        let of_batches = [Role::MicroBatch, Role::TrainBatch, Role::EvalBatch].map(Some);
        let is_batch = of_batches.contains(&knob.role);
        leaves.all(|(key, text)| {
            let last = last_of(&key).to_ascii_lowercase();
            let same = last == last_of(from) || last == last_of(meant);
            let same = same || knob.endings.contains(&last) || is_batch && last.contains("batch");
            let whole = reference(&text, &key).as_deref() == Some(meant);
            let mut parts = last.split('_');
            !sees(&text, &key, meant) || whole && same || parts.any(|part| LABELS.contains(&part))
        })
    }
}

/// The last part of a key.
fn last_of(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// The key that a value names which is one reference and nothing else.
fn reference(text: &str, key: &str) -> Option<String> {
    let named = text.trim().strip_prefix("${")?.strip_suffix('}')?;
    absolute(named, key).filter(|_| named.chars().all(is_of_key))
}

fn is_of_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.".contains(c)
}

/// A key as from the root. Dots before it count from the mapping in which `key` stands.
fn absolute(named: &str, key: &str) -> Option<String> {
    let rest = named.trim_start_matches('.');
    let mut section = key;
    for _ in 0..named.len() - rest.len() {
        section = section.rsplit_once('.').map_or("", |(outer, _)| outer);
    }
    let is_root = section.is_empty() || rest.len() == named.len();
    let full = if is_root {
        rest.to_owned()
    } else {
        format!("{section}.{rest}")
    };
    (!rest.is_empty()).then_some(full)
}

/// The keys of the part and the whole of which a setting of OmegaConf computes the accumulation: `accum: ${div:${batch},${micro}}`.
fn parts_of_setting(key: &str, text: &str) -> Option<(String, String)> {
    let last = key.rsplit('.').next()?;
    let divides = text.contains("div") || text.contains('/');
    if !divides || !is_accumulation(last) {
        return None;
    }
    let named = text
        .split("${")
        .filter_map(|rest| Some(rest.split_once('}')?.0));
    let named = named.filter(|name| last_of(name).contains("batch"));
    let keys: Vec<String> = named.filter_map(|name| absolute(name, key)).collect();
    match <[String; 2]>::try_from(keys) {
        Ok([whole, part]) if whole != part => Some((part, whole)),
        _ => None,
    }
}

/// Whether a value says something of a key, or of the mapping in which that stands.
fn sees(text: &str, key: &str, meant: &str) -> bool {
    let mut all = text.split("${").skip(1).peekable();
    let by_name = all.peek().is_some() && text.contains(meant);
    by_name
        || all.any(|inner| {
            let end = inner.find(|c| !is_of_key(c)).unwrap_or(inner.len());
            let named = absolute(&inner[..end], key).unwrap_or_default();
            let rest = meant.strip_prefix(&named);
            rest.is_some_and(|rest| !named.is_empty() && (rest.is_empty() || rest.starts_with('.')))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_a_key_from_the_root_or_from_its_mapping() {
        for (text, named) in [
            ("${a.b}", Some("a.b")),
            ("${.b}", Some("x.y.b")),
            ("${..b}", Some("x.b")),
            ("${...b}", Some("b")),
            ("${oc.env:A}", None),
            ("${a}/${b}", None),
            ("${}", None),
            ("8", None),
        ] {
            assert_eq!(reference(text, "x.y.z").as_deref(), named, "{text}");
        }
        assert!(sees("${mul:${a.b},2}", "x", "a.b"));
        assert!(sees("${a}", "x", "a.b"));
        assert!(!sees("${ab}", "x", "a.b"));
        assert!(!sees("a.b", "x", "a.b"));
    }

    #[test]
    fn an_accumulation_that_a_setting_computes_of_two_others_is_found() {
        let of = |text: &str| parts_of_setting("trainer.accumulate_grad_batches", text);
        let found = Some((
            "loader.batch_size".to_owned(),
            "loader.all_batch".to_owned(),
        ));
        let text =
            "${div_up:${loader.all_batch}, ${eval:${trainer.devices} * ${loader.batch_size}}}";
        assert_eq!(of(text), found);
        assert_eq!(of(&text.replace("trainer.devices", "other_batch")), None);
        assert_eq!(of(&text.replace("div_up", "mul")), None);
        assert_eq!(parts_of_setting("trainer.steps", text), None);
        let near = "${div:${..loader.all_batch},${..loader.batch_size}}";
        assert_eq!(of(near), found);
    }
}
