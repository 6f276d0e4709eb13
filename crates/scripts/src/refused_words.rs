//! Words of a command that its program refuses, because its parser has no such option.

use std::borrow::Cow;

use super::adopt::Adoption;
use super::traced::Traced;
use super::walk::{Arg, Call};

impl Call {
    /// The numbers of the words that its program refuses, each with the option that may be meant.
    fn refused(&self) -> Vec<(usize, Option<&str>)> {
        let Some(parser) = &self.parser else {
            return Vec::new();
        };
        let own = self.words.iter().enumerate().skip(self.args);
        let texts = own.map(|(at, word)| (at, word, word.text.text()));
        let options = texts.take_while(|(_, _, text)| text != "--");
        let refused = options.filter_map(|(at, word, text)| {
            let name = text.split('=').next().unwrap_or_default();
            let certain = !word.maybe && word.text.slice(0, name.len()).known().is_some();
            Some((at, parser.refused(&text).filter(|_| certain)?))
        });
        refused.collect()
    }

    /// Whether its program refuses a word.
    pub(super) fn refuses(&self) -> bool {
        !self.refused().is_empty()
    }

    /// Its words; those that its program refuses say nothing.
    pub(super) fn taken_words(&self) -> Cow<'_, [Arg]> {
        let mut words = Cow::Borrowed(&self.words[..]);
        for (at, _) in self.refused() {
            words.to_mut()[at].text = Traced::default();
        }
        words
    }
}

impl Adoption<'_> {
    /// The words that programs refuse, with their places, as sentences.
    pub fn refused(&self) -> Vec<String> {
        let said = self.reading.calls.iter().flat_map(|call| {
            let program = call.program.as_deref().unwrap_or_default();
            let program = program.rsplit('/').next().unwrap_or_default();
            call.refused().into_iter().map(move |(at, meant)| {
                let word = &call.words[at].text;
                let text = word.text();
                let name = text.split('=').next().unwrap_or_default();
                let place = word.place().and_then(|span| self.reading.place(span));
                let place = place.map(|place| format!(" ({place})"));
                let place: String = place.unwrap_or_default();
                let meant: String = meant
                    .map(|m| format!("; did you mean {m}?"))
                    .unwrap_or_default();
                format!("{program} refuses {name}{place}: it has no such option{meant}")
            })
        });
        let mut said: Vec<String> = said.collect();
        said.dedup();
        said
    }
}
