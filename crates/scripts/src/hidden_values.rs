//! Values that a submission gives in ways that are not read, so that they hide those that are: words behind no option, and keys that code
//! sets.

use super::spelling::setting_names;
use super::stack::StackKnob;
use super::traced::{Span, Why};
use super::walk::{Arg, Call, SettingsFile};
use crate::{SettingsReader, Spelling};

impl Call {
    /// Whether a word that follows no option may say what options say.
    pub(super) fn is_for_any_option(&self, word: &str) -> bool {
        let bare = |word: &str| word.parse::<f64>().is_ok() || word == "True" || word == "False";
        self.code.as_ref().is_some_and(|code| {
            code.takes_files_of_words && word.starts_with('@')
                || code.takes_bare_values && bare(word)
        })
    }

    /// Where code of the program gives a key of its file of settings another value.
    pub(super) fn sets_in_code(&self, file: &SettingsFile, key: &str) -> Option<(Span, Why)> {
        let code = self.code.as_ref();
        let code = code.filter(|_| file.reader == SettingsReader::Program)?;
        let leaf = key.rsplit('.').next().unwrap_or(key);
        code.keys_set.get(leaf)?.value.unknown()
    }
}

/// A word that names a knob without dashes, in a way that is not read: `batch_size 32` of a program that takes pairs, `batch_size=32` of
/// one that takes what its parser leaves over.
pub(super) fn named_alone<'a>(call: &Call, own: &'a [Arg], knob: &StackKnob) -> Option<&'a Arg> {
    let is_flag = |s: &&Spelling| matches!(s, Spelling::Flag(_) | Spelling::Key(_));
    let names = knob.spellings.iter().filter(is_flag);
    let names: Vec<String> = names.flat_map(setting_names).collect();
    let named = own.iter().enumerate().find(|(at, word)| {
        let text = word.text.text();
        let name = text.split('=').next().unwrap_or_default();
        let before = at.checked_sub(1).map(|at| own[at].text.text());
        let is_value = before.is_some_and(|word| call.takes_a_value(&word));
        names.iter().any(|own| own == name) && !is_value
    });
    named.map(|(_, word)| word)
}
