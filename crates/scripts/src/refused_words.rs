//! Words of a command that its program refuses, because its parser has no such option.

use std::borrow::Cow;

use super::adopt::Adoption;
use super::stack::StackKnob;
use super::traced::Traced;
use super::walk::{Arg, Call, RefusedWord};
use super::whole_parser::WholeParser;
use oomctl_base::Value;

impl Call {
    /// The words that a program with this parser refuses.
    pub(super) fn refused_by(&self, parser: &WholeParser) -> Vec<RefusedWord> {
        let own = self.words.iter().enumerate().skip(self.args);
        let texts = own.map(|(at, word)| (at, word, word.text.text()));
        let options = texts.take_while(|(_, _, text)| text != "--");
        let refused = options.filter_map(|(at, word, text)| {
            let name = text.split('=').next().unwrap_or_default();
            let certain = !word.maybe && word.text.slice(0, name.len()).known().is_some();
            let meant = parser.refused(&text).filter(|_| certain)?;
            let meant = meant.map(str::to_owned);
            Some(RefusedWord { at, meant })
        });
        refused.collect()
    }

    /// Why its program refuses a value of a knob: its option takes others only.
    pub(super) fn refuses_value(&self, knob: &StackKnob, value: &Value) -> Option<String> {
        let choices = &self.code_value(knob)?.choices;
        let taken = choices.is_empty() || choices.contains(&value.to_string());
        (!taken).then(|| format!("the program takes only {} for it", choices.join(", ")))
    }

    /// Its words; those that its program refuses say nothing.
    pub(super) fn taken_words(&self) -> Cow<'_, [Arg]> {
        let mut words = Cow::Borrowed(&self.words[..]);
        for refused in &self.refused {
            words.to_mut()[refused.at].text = Traced::default();
        }
        words
    }
}

impl Adoption<'_> {
    /// The words that programs refuse, with their places, as sentences.
    pub fn refused(&self) -> Vec<String> {
        let calls = self.reading.calls.iter();
        let mut said: Vec<String> = calls.flat_map(|call| self.refused_of(call)).collect();
        said.dedup();
        said
    }

    /// The words that one program refuses, with their places, as sentences.
    pub fn refused_of(&self, call: &Call) -> Vec<String> {
        let program = call.program.as_deref().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default();
        let said = call.refused.iter().map(|RefusedWord { at, meant }| {
            let word = &call.words[*at].text;
            let text = word.text();
            let name = text.split('=').next().unwrap_or_default();
            let place = word.place().and_then(|span| self.reading.place(span));
            let place = place.map(|place| format!(" ({place})"));
            let place: String = place.unwrap_or_default();
            let meant: String = meant
                .as_ref()
                .map(|m| format!("; did you mean {m}?"))
                .unwrap_or_default();
            format!("{program} refuses {name}{place}: it has no such option{meant}")
        });
        said.collect()
    }
}
