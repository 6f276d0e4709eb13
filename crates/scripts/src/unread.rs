//! Files of a job that are not read, and which knobs they may give.

use std::collections::BTreeSet;

use super::adopt::Adoption;
use super::recognise::{Recognise, ends_a_key, is_of_settings};
use super::settings::SettingsFormat;
use super::stack::StackKnob;
use super::traced::PartOrigin;
use super::walk::{Call, UnreadFile};
use crate::{SettingsReader, Spelling};
use oomctl_base::word_list;

/// Most characters of a word that is named.
const SHOWN: usize = 60;

/// The parser that takes a JSON file of settings as the only word (transformers' examples: `len(sys.argv) == 2`).
const OF_ONE_FILE: &str = "HfArgumentParser";

/// How code begins that stands for numbers, so for no option: Slurm's variables, counts and calculations.
const NUMBERS: [&str; 8] = [
    "$SLURM_", "${SLURM_", "$((", "$(seq ", "`seq ", "$(nproc", "`nproc", "$(expr ",
];

/// Options whose file a program surely reads.
const READ: [&str; 8] =
    word_list("config cfg config_file config_path cfg_file cfg_path yaml_file recipe");

impl Call {
    /// The words of the program that are not known, and may be any of its options: `$(cat args.txt)` without quotes, `@args.txt`,
    /// and values without a name that Fire gives to its parameters.
    pub(super) fn unknown_words(&self) -> Option<String> {
        let own = self.words.get(self.args..).unwrap_or_default();
        let unknown = own.iter().enumerate().find(|(at, word)| {
            let begins = word.text.parts().first().map(|part| &part.from);
            let is_code = matches!(begins, Some(PartOrigin::Computed { .. }));
            let text = word.text.text();
            // A path is no option.
            let is_path = word
                .text
                .parts()
                .get(1)
                .is_some_and(|part| part.text.starts_with('/'));
            let is_number = NUMBERS.iter().any(|begin| text.starts_with(begin));
            let is_code = is_code && !is_path && !is_number;
            let before = at.checked_sub(1).map(|at| own[at].text.text());
            let alone = || !before.is_some_and(|word| self.takes_a_value(&word));
            (is_code && word.maybe || self.is_for_any_option(&text)) && alone()
                || self.holds_options(&text)
        });
        let text = unknown?.1.text.text();
        let line = text.lines().next().unwrap_or_default();
        let shown: String = line.chars().take(SHOWN).collect();
        let more = if shown.len() < text.len() { "…" } else { "" };
        Some(format!("`{shown}{more}`"))
    }

    /// Whether a word is a map with values for options of the program: `--kwargs '{"batch_size": 32}'`.
    fn holds_options(&self, word: &str) -> bool {
        let map = word
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'));
        let (Some(map), Some(code)) = (map, &self.code) else {
            return false;
        };
        let pieces: Vec<&str> = map.split(['"', '\'']).collect();
        let mut keys = pieces
            .windows(2)
            .filter(|w| w[1].trim_start().starts_with(':'));
        keys.any(|w| code.declared(&format!("--{}", w[0])).is_some())
    }
}

impl Call {
    /// Whether a file that an option of the program names is one of data, whatever its ending.
    pub(super) fn has_for_data(
        &self,
        file: &UnreadFile,
        known: &Recognise,
        launched: &[String],
    ) -> bool {
        let (option, stem) = (file.option.as_str(), SettingsFormat::stem(&file.path));
        let flag = format!("--{option}");
        let of_settings = is_of_settings(option)
            || is_of_settings(stem)
            || ends_a_key(known.file_keys.iter().chain(launched), option);
        let mut names = self.names.iter().flat_map(|names| names.keys());
        let among_others = self.words.len() > self.args + 1;
        if option.is_empty()
            && among_others
            && file.path.ends_with(".json")
            && names.any(|name| name == OF_ONE_FILE)
        {
            return true;
        }
        let named = !option.is_empty() && self.takes_a_value(&flag);
        named && (!of_settings || known.is_indifferent(option) || known.is_indifferent(&flag))
    }
}

impl Adoption<'_> {
    /// What may give knobs and is not read, beside the files that are not there.
    pub fn unread(&self) -> BTreeSet<String> {
        let all = self.calls().flat_map(Call::all_unread).cloned();
        all.filter(|name| !self.reading.wanted.contains(name))
            .collect()
    }

    /// The files of settings that an option of a program, or of what launches it, reads and that are not there.
    pub fn missing_settings<'c>(&'c self, call: &'c Call) -> impl Iterator<Item = &'c str> {
        let reading = &self.reading;
        let is_named = |file: &&UnreadFile| {
            let option = file.option.replace('-', "_");
            READ.contains(&option.as_str()) && reading.wanted.contains(&file.path)
        };
        let named = call.unread.iter().filter(is_named);
        named
            .map(|file| file.path.as_str())
            .filter(|path| !reading.data.contains(*path))
    }

    /// What is not read and may give a knob that a call does not give.
    pub fn hidden(&self, knob: &StackKnob) -> Option<String> {
        let mut calls = self.calls();
        calls.find_map(|call| self.unread_of(call, knob).cloned())
    }

    pub(super) fn unread_of<'c>(&self, call: &'c Call, knob: &StackKnob) -> Option<&'c String> {
        if self.is_given_or_harmless(call, knob) {
            return None;
        }
        let key = |s: &Spelling| matches!(s, Spelling::Key(_));
        let key = knob.spellings.iter().any(key);
        // A stack that marks the knobs that others read marks all of them.
        let mut knobs = self.stack.iter().flat_map(|s| &s.knobs);
        let others = [SettingsReader::Launcher, SettingsReader::Library];
        let beside = key && !knobs.any(|k| others.contains(&k.reader));
        let may_give = |reader| match knob.reader {
            SettingsReader::Any => beside || reader == SettingsReader::Program,
            // The files of the others may name one of the library's.
            SettingsReader::Library => true,
            own => own == reader,
        };
        call.unread_by(may_give).next()
    }
}

#[cfg(test)]
mod tests {
    use oomctl_base::{Effect, ValueKind};

    use super::*;
    use crate::Stack;
    use crate::tests::reading;

    fn knob(name: &str, spelling: Spelling, reader: SettingsReader) -> StackKnob {
        StackKnob {
            name: name.to_owned(),
            role: None,
            kind: ValueKind::Int,
            effect: Effect::SameMath,
            reader,
            styles: vec![0],
            endings: Vec::new(),
            spellings: vec![spelling],
        }
    }

    /// The file that may hide each of the knobs of a program, of what starts it and of a library.
    fn hidden_in(script: &str, marked: [SettingsReader; 2]) -> Vec<(String, Option<String>)> {
        let key = |text: &str| Spelling::Key(text.to_owned());
        let stack = Stack {
            name: "any".to_owned(),
            recognise: Recognise {
                modules: vec!["m".to_owned()],
                file_keys: vec!["deepspeed".to_owned()],
                indifferent: vec!["data_path".to_owned()],
                ..Recognise::default()
            },
            knobs: vec![
                knob(
                    "flag",
                    Spelling::Flag("--batch".to_owned()),
                    SettingsReader::Any,
                ),
                knob("key", key("batch"), SettingsReader::Any),
                knob("fsdp", key("fsdp.shard"), marked[0]),
                knob("zero", key("zero.stage"), marked[1]),
            ],
        };
        reading(stack, script, |adoption| {
            let knobs = adoption.stack.iter().flat_map(|s| &s.knobs);
            knobs
                .map(|k| (k.name.clone(), adoption.hidden(k)))
                .collect()
        })
    }

    fn check(script: &str, marked: bool, expected: [Option<&str>; 4]) {
        let readers = match marked {
            true => [SettingsReader::Launcher, SettingsReader::Library],
            false => [SettingsReader::Any; 2],
        };
        let found = hidden_in(script, readers);
        let found: Vec<_> = found.iter().map(|(_, file)| file.as_deref()).collect();
        assert_eq!(found, expected, "{script}");
    }

    #[test]
    fn a_file_that_is_not_read_hides_the_knobs_of_what_reads_it_alone() {
        let (p, a, d) = (Some("p.yaml"), Some("acc.yaml"), Some("ds.json"));
        let launcher = "accelerate launch --config_file acc.yaml -m m --x 1\n";
        check(launcher, true, [None, None, a, a]);
        check(launcher, false, [None, a, a, a]);
        let program = "python -m m p.yaml\n";
        check(program, true, [p, p, None, p]);
        check(program, false, [p; 4]);
        let library = "python -m m --x 1 --deepspeed ds.json\n";
        check(library, true, [None, None, None, d]);
        check(library, false, [None, d, d, d]);
        check("python -m m --x 1 --data-path a.json\n", false, [None; 4]);
        check(
            "python -m m --x 1 --sizes 1 $(seq 16 8 256)\n",
            false,
            [None; 4],
        );
        let data = [
            "--annotations coco.json",
            "annotations=coco.json",
            "--rows a.json b.json c.json",
        ];
        for words in data.map(|words| format!("python -m m --x 1 {words}\n")) {
            check(&words, false, [None; 4]);
        }
        for (words, file) in [
            ("--run-config a.json", "a.json"),
            ("--other my_config.json", "my_config.json"),
            ("hparams=a.json", "a.json"),
            ("a.json", "a.json"),
            ("--rows a.json b.yaml", "b.yaml"),
            ("--configs a.json b.json", "a.json"),
        ] {
            let script = format!("python -m m --x 1 {words}\n");
            check(&script, false, [Some(file); 4]);
        }
    }
}
