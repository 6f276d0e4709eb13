//! What a Python program does with its options: what it hands to the class that configures its framework, and which model it
//! loads. Each value is a literal, or it comes from an option, a variable of the environment, or code.
//!
//! Rule: no option of the framework reaches a program that fills this class itself.

use std::collections::{BTreeMap, BTreeSet};

use super::batch_options::{BatchOptions, UsedNames};
use super::code_value::{CodeValue, ConfigClasses, PythonFile};
use super::configurator::assignments;
use super::constants::{Constant, settings};
use super::filled_class::{ArgumentRoom, FilledClass};
use super::fixed::fixed;
use super::keyed::KeyedSettings;
use super::listed_options::declared_by;
use super::loaded::{load, lookups};
use super::overwritten::sets_all;
use super::program_option::{ProgramOption, options};
use super::program_text::CodeFiles;
use super::refilled::{Refilled, keys_set};
use super::spelling::{attribute, same_flag, setting_names};
use super::traced::{Traced, Why};
use crate::Spelling;
use oomctl_base::word_list;

/// What gives the keys of settings to the arguments of what a program starts.
const CONFIGURES_ALL: [&str; 4] = word_list("LightningCLI jsonargparse draccus pyrallis");

/// What the code of a program says of its options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramCode {
    /// The framework's class that it fills itself.
    pub class: Option<FilledClass>,
    /// What it hands to other calls, by the flag that says the same.
    arguments: BTreeMap<String, CodeValue>,
    /// Flags that no option of it gives, since only a call takes them, each with the room that the call has.
    call_rooms: BTreeMap<String, Option<ArgumentRoom>>,
    /// Any field that a framework's parser fills, where code may give each of them another value.
    refilled: Option<CodeValue>,
    /// The options that it declares.
    pub(super) options: Vec<ProgramOption>,
    /// Those that size a batch.
    pub(super) batch: BatchOptions,
    /// The model that it loads.
    pub model: Option<CodeValue>,
    /// What it looks up in sections of the settings that it loads.
    pub(super) lookups: BTreeSet<String>,
    /// Its options and the keys of its settings are the arguments of what it starts (`LightningCLI`, draccus).
    pub(super) takes_any_key: bool,
    /// What its files of settings say replaces the defaults of its options (`parser.set_defaults(**yaml)`, `setattr(args, key, value)`).
    pub(super) fills_from_files: bool,
    /// They replace what the words say, too.
    pub(super) files_win: bool,
    /// Keys of its files of settings to which its text gives other values.
    pub(super) keys_set: BTreeMap<String, CodeValue>,
    /// Words without a name are values of its options, in their order (Fire).
    pub(super) takes_bare_values: bool,
    /// Words may name files of further words (argparse's `fromfile_prefix_chars`).
    pub(super) takes_files_of_words: bool,
    /// What its text writes under keys that words override.
    pub(super) keyed: KeyedSettings,
    /// Its constants, where no framework of a stack takes its options.
    pub(super) constants: BTreeMap<String, Constant>,
}

impl ProgramCode {
    /// What the files of a program say, its own first.
    pub(super) fn read(files: &[PythonFile<'_>], wanted: &ConfigClasses<'_>) -> Self {
        let tokens: Vec<_> = files.iter().map(|file| &*file.tokens).collect();
        let text = CodeFiles {
            files,
            options: files.iter().zip(declared_by(&tokens)).collect(),
            settings: settings(files),
        };
        let class = text.configured(wanted);
        let is_configured = text.is_configured(wanted);
        let of_framework = class.is_some() || is_configured;
        let options = options(&text, !of_framework);
        let mut arguments = text.arguments(&wanted.arguments);
        let refilled = match class.is_none() {
            true if text.uses(&wanted.parsers) => Refilled::of(files),
            true if options.is_empty() => Refilled::by_words(files),
            _ => Refilled::default(),
        };
        arguments.extend(refilled.fields);
        let loads = load(files);
        let files_win = loads && files.iter().any(sets_all);
        // A package that is not read takes the words and loads the settings.
        let is_opaque = !of_framework && options.is_empty() && !loads;
        let used = UsedNames::of(&text);
        let batch = BatchOptions::read(&text, &options, &used, of_framework);
        Self {
            class,
            arguments,
            refilled: refilled.all,
            call_rooms: match is_configured {
                true => text.call_rooms(wanted),
                false => BTreeMap::new(),
            },
            options,
            batch,
            model: text.model(),
            lookups: lookups(files),
            keyed: KeyedSettings::default(),
            takes_any_key: is_opaque || text.uses(&CONFIGURES_ALL.into()),
            fills_from_files: loads
                && (files_win || text.uses(&["set_defaults", "setattr"].into())),
            files_win,
            keys_set: match loads {
                true => keys_set(files, None),
                false => BTreeMap::new(),
            },
            takes_bare_values: text.uses(&["Fire"].into()),
            takes_files_of_words: text.uses(&["fromfile_prefix_chars"].into()),
            constants: match is_configured {
                true => BTreeMap::new(),
                false => fixed(files, &used.accumulations, &used.widths),
            },
        }
    }

    /// Whether words of its command may name files of assignments (`configurator.rs`).
    pub(super) fn is_configured_by_files(&self) -> bool {
        self.options.iter().any(ProgramOption::is_variable)
    }

    /// Takes in such a file.
    pub(super) fn override_by(&mut self, file: &PythonFile<'_>) {
        for (at, value) in assignments(&file.tokens) {
            let name = file.tokens[at].text;
            let is = |o: &&mut ProgramOption| o.is_variable() && o.forms[0][2..] == *name;
            let value = CodeValue::written(file, value);
            if let (Some(option), Some(value)) = (self.options.iter_mut().find(is), value) {
                option.value.value = value.value;
            }
        }
    }

    /// Such a file was not read: each variable may have another value.
    pub(super) fn leave_open(&mut self) {
        let variables = self.options.iter_mut().filter(|o| o.is_variable());
        for option in variables {
            if let Some(place) = option.value.value.place() {
                option.value.value = Traced::computed("", place, Why::Code);
            }
        }
    }

    /// What it gives the option of this spelling.
    pub(super) fn value(&self, spelling: &Spelling) -> Option<&CodeValue> {
        let flag = match spelling {
            Spelling::Flag(flag) | Spelling::Switch(flag) => flag,
            // An option and an argument of one name are one.
            Spelling::Hydra(key) => return self.arguments.get(key),
            _ => return None,
        };
        let name = attribute(flag);
        match &self.class {
            _ if self.arguments.contains_key(&name) => self.arguments.get(&name),
            Some(class) => class.values.get(&name),
            None => self.declared(flag).or(self.refilled.as_ref()),
        }
    }

    /// Whether no option of its parser gives this flag.
    pub(super) fn is_only_in_call(&self, flag: &str) -> bool {
        self.call_rooms.contains_key(&attribute(flag))
    }

    /// Whether its code alone gives a knob, to the class that it fills or to a call.
    pub(super) fn decides(&self, spellings: &[Spelling]) -> bool {
        let is_of_call = |name: &str| self.is_only_in_call(name);
        self.class.is_some() || argument_name(spellings).is_some_and(|name| is_of_call(&name))
    }

    /// Where a knob is added, with the name that it has there.
    pub(super) fn room(&self, spellings: &[Spelling]) -> Option<(String, &ArgumentRoom)> {
        let name = argument_name(spellings)?;
        let room = match self.call_rooms.get(&name) {
            Some(room) => room.as_ref(),
            None => self.class.as_ref()?.room.as_ref(),
        };
        Some((name, room?))
    }

    /// Why a knob is added nowhere.
    pub(super) fn lacks_room(&self, spellings: &[Spelling]) -> Option<String> {
        let why = match &self.class {
            _ if argument_name(spellings).is_some_and(|name| self.is_only_in_call(&name)) => {
                "the program hands it to no call, or to one of several".to_owned()
            }
            class => {
                let FilledClass { name, path, .. } = class.as_ref()?;
                format!("{path} fills {name} without it")
            }
        };
        self.room(spellings).is_none().then_some(why)
    }

    /// The other ways in which words may give a declared option: its further forms, and a beginning that no other option has,
    /// as argparse takes it.
    pub(super) fn other_forms(&self, flag: &str, words: &[String]) -> Vec<String> {
        let mut all = self.options.iter().map(|option| &option.forms);
        let Some(own) = all.find(|forms| forms.iter().any(|f| f == flag)) else {
            return Vec::new();
        };
        let others = own.iter().filter(|form| *form != flag).cloned();
        let begin = |word: &str, forms: &[String]| forms.iter().any(|form| form.starts_with(word));
        let is_form = |word: &str| {
            self.options
                .iter()
                .any(|o| o.forms.iter().any(|f| f == word))
        };
        let short = words.iter().filter_map(|word| word.split('=').next());
        let short = short.filter(|word| word.len() > 2 && word.starts_with("--") && !is_form(word));
        let short = short.filter(|word| {
            let mut all = self.options.iter().map(|option| &option.forms);
            begin(word, own) && all.all(|forms| forms == own || !begin(word, forms))
        });
        others.chain(short.map(str::to_owned)).collect()
    }

    /// All values that it gives.
    pub(super) fn all(&self) -> impl Iterator<Item = &CodeValue> {
        let class = self.class.iter().flat_map(|class| class.values.values());
        let given = class.chain(self.arguments.values());
        let options = self.options.iter().map(|option| &option.value);
        given.chain(&self.model).chain(options)
    }

    /// The one option of this name that it declares.
    pub(super) fn declared(&self, flag: &str) -> Option<&CodeValue> {
        let flag = flag.trim_end_matches('=');
        let is = |o: &&ProgramOption| same_flag(o.flag.trim_end_matches('='), flag);
        let mut same = self.options.iter().filter(is);
        let first = &same.next()?.value;
        same.all(|other| other.value == *first).then_some(first)
    }
}

/// The argument of a call that a knob of these spellings is.
fn argument_name(spellings: &[Spelling]) -> Option<String> {
    let mut names = spellings.iter().flat_map(setting_names);
    names.find(|name| !name.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::super::code::CodeArgument;
    use super::super::python::tokens;
    use super::super::traced::Traced;
    use super::*;

    fn code(texts: &[&str]) -> ProgramCode {
        let rank = CodeArgument {
            fields_of: None,
            call: "Adapter".to_owned(),
            argument: "r".to_owned(),
            flag: "lora_r".to_owned(),
        };
        let wanted = ConfigClasses {
            classes: ["Config"].into(),
            parsers: ["Parser"].into(),
            generating: BTreeSet::new(),
            lacking: BTreeSet::new(),
            arguments: vec![&rank],
        };
        let files = texts.iter().enumerate();
        let files: Vec<_> = files
            .map(|(at, text)| PythonFile {
                content: Traced::file(3 + at, text),
                path: ["a.py", "b.py", "c.py"][at],
                tokens: tokens(text),
                can_change: true,
                is_of_settings: false,
                is_program: at == 0,
            })
            .collect();
        ProgramCode::read(&files, &wanted)
    }

    /// The value, or `?` where it is computed, and the option behind it.
    fn shown(coded: &CodeValue) -> String {
        let value = coded.value.known().unwrap_or_else(|| "?".to_owned());
        let option = coded.option.iter().map(|option| match option {
            Spelling::Env(name) => format!(" ${name}"),
            other => format!(" {}", other.name()),
        });
        format!("{value}{}", option.collect::<String>())
    }

    /// What texts give the class.
    fn read(texts: &[&str]) -> Vec<String> {
        let values = code(texts).class.map(|c| c.values).unwrap_or_default();
        let all = values
            .iter()
            .map(|(name, coded)| format!("{name}={}", shown(coded)));
        all.collect()
    }

    #[test]
    fn literals_constants_and_own_options_are_read_and_all_else_is_computed() {
        let text = "SEQ = 4096\nN = 1\nN = 2\np.add_argument('-b', '--batch-size', type=int, default=8)\n\
                    p.add_argument(\"--gc\", action='store_true')\np.add_argument('--lr')\n\
                    p.add_argument('--half', default=2)\nargs.half //= 2\n\
                    p.add_argument('--bf16', action=argparse.BooleanOptionalAction, default=False)\n\
                    c = Config(a.out, batch=a.batch_size, length=SEQ, n=N, gc=a.gc, lr=a.lr, bf16=a.bf16, half=a.half, \
                    optim='adamw', steps=f(1, x=2), none=None, sum=1 + 2, tf32=True)\n";
        let expected = [
            "batch=8 --batch-size",
            "bf16=False --bf16",
            "gc=False --gc",
            "half=?",
            "length=4096",
            "lr=? --lr",
            "n=?",
            "optim=adamw",
            "steps=?",
            "sum=?",
            "tf32=True",
        ];
        assert_eq!(read(&[text]), expected);
    }

    #[test]
    fn click_typer_variables_and_other_files_give_values_too() {
        let click = "import click\n@click.command()\n@click.option('--bs', default=4)\n@click.option('--len', 'length', default=512)\n\
                     def main(bs, length):\n  length = length * 2\n  Config(batch=bs, length=length)\n";
        assert_eq!(read(&[click]), ["batch=4 --bs", "length=?"]);
        let typer = "import typer\ndef main(batch_size: int = 4):\n  Config(batch=batch_size)\ntyper.run(main)\n";
        assert_eq!(read(&[typer]), ["batch=4 --batch-size"]);
        let variables = "BS = int(os.environ.get('BS', 8))\nConfig(batch=BS, steps=os.environ['N'], length=os.getenv('LEN', '512'))\n";
        assert_eq!(
            read(&[variables]),
            ["batch=8 $BS", "length=512 $LEN", "steps=? $N"]
        );
        let parser = "p.add_argument('--bs', default=2)\nLENGTH = 99\n";
        let class =
            "from args import LENGTH\ndef make(a): return Config(batch=a.bs, length=LENGTH)\n";
        assert_eq!(
            read(&["make(parse())", parser, class]),
            ["batch=2 --bs", "length=99"]
        );
    }

    #[test]
    fn an_option_may_be_given_by_its_short_form_or_by_its_beginning() {
        let code =
            code(&["p.add_argument('-b', '--batch-size')\np.add_argument('--batch-order')\n"]);
        let other = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            code.other_forms("--batch-size", &words)
        };
        assert_eq!(other(&["--batch-s", "3"]), ["-b", "--batch-s"]);
        assert_eq!(other(&["--batch=3", "--batch-order", "x"]), ["-b"]);
    }

    #[test]
    fn what_a_file_of_settings_gives_is_known_by_its_keys() {
        let load = "import yaml\ncfg = yaml.safe_load(open(p))\n";
        let text = format!(
            "{load}Config(batch=cfg['train'][\"batch\"], lr=cfg['lr'] * 2, **cfg['hf']['args'])"
        );
        assert_eq!(read(&[&text]), ["batch=? train.batch", "lr=?"]);
        let class = code(&[&text]).class.unwrap();
        let section = class.unpacked.and_then(|s| s.section);
        assert_eq!(section.as_deref(), Some("hf.args"));
        let unread = code(&["Config(a=1, **cfg['hf'])"])
            .class
            .and_then(|c| c.unpacked);
        assert!(unread.is_some_and(|s| s.section.is_none()));
    }

    #[test]
    fn a_class_that_a_parser_or_a_map_fills_says_nothing() {
        for text in [
            "Parser((Config,)); Config(a=1)",
            "Config(a=1, *more)",
            "Config(a=1, **vars(p.parse_args()))",
            "class Config(Base): a: int = 1",
            "Config(a=1); Config(a=2)",
            "Config",
            "Config(a=",
        ] {
            assert!(read(&[text]).is_empty(), "{text}");
        }
        assert!(read(&["Config(a=1)", "Config(a=2)"]).is_empty());
    }

    #[test]
    fn the_model_is_what_all_calls_that_load_one_mean() {
        let model = |text: &str| code(&[text]).model.as_ref().map(shown);
        let cases = [
            ("AutoModelForCausalLM.from_pretrained('gpt2')", Some("gpt2")),
            (
                "M = 'gpt2'\nAutoTokenizer.from_pretrained('x')\nAutoModel.from_pretrained(M, dtype=d)\n",
                Some("gpt2"),
            ),
            (
                "p.add_argument('--model', default='gpt2')\nAutoModel.from_pretrained(a.model)",
                Some("gpt2 --model"),
            ),
            (
                "m = os.environ.get('MODEL', 'gpt2')\nAutoModel.from_pretrained(m)\n",
                Some("gpt2 $MODEL"),
            ),
            ("SFTTrainer(model='gpt2', args=c)", Some("gpt2")),
            ("model_name = 'gpt2'\nbuild(model_name)\n", Some("gpt2")),
            (
                "AutoModel.from_pretrained('a')\nAutoModel.from_pretrained('b')\n",
                None,
            ),
            ("AutoModel.from_pretrained(load())", None),
            ("SFTTrainer(model=model)", None),
            ("PeftModel.from_pretrained(model, 'adapter')", None),
        ];
        for (text, expected) in cases {
            assert_eq!(model(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn an_option_that_code_gives_a_value_again_is_none() {
        let head = "p.add_argument('--workers', default=4)\nopt = p.parse_args()\n";
        let cases = [
            ("opt.workers=1", "1"),
            ("opt.workers = 2 * 4", "8"),
            ("opt.workers = f()", "?"),
            ("opt.workers = 1\nopt.workers = 2", "?"),
            ("opt.workers = opt.workers // 2", "4 --workers"),
            ("if x:\n  opt.workers = 1", "4 --workers"),
            ("self.workers = 1", "4 --workers"),
            ("opt.workers += 1", "4 --workers"),
        ];
        for (text, expected) in cases {
            let own = code(&[&format!("{head}{text}\n")]);
            assert_eq!(
                own.declared("--workers").map(shown).unwrap(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn what_another_tool_calls_so_is_no_option_of_the_program() {
        let (train, other) = (
            "p.add_argument('--batch', default=32)\nloss.backward()\n",
            "p.add_argument('--batch', default=1)\np.add_argument('--crop', default=4)\n",
        );
        let own = code(&[train, other]);
        assert_eq!(own.declared("--batch").map(shown).unwrap(), "32 --batch");
        assert_eq!(own.declared("--crop").map(shown).unwrap(), "4 --crop");
        assert!(
            code(&["import x\n", train, other])
                .declared("--batch")
                .is_none()
        );
        // Two commands of one program may have it, each with a default of its own.
        let commands = format!("{train}q.add_argument('--batch', default=1)\n");
        assert!(code(&[&commands]).declared("--batch").is_none());
        let hydra = "@hydra.main(config_path='conf')\ndef main(cfg): loss.backward()\n";
        assert!(code(&[hydra, other]).declared("--batch").is_none());
    }

    #[test]
    fn a_constant_stands_whatever_functions_call_theirs_and_files_give_with_a_star() {
        let train = "from b import *\nBATCH = 96\nfor x in DataLoader(d, batch_size=BATCH):\n  f(x).backward()\n";
        let read = |other: &str| code(&[train, other]).constants.contains_key("batch");
        for other in [
            "import os\n",
            "def load(d, batch): return DataLoader(d, batch)\n",
            "def size(x):\n  batch = x.size(0)\n  return batch\n",
        ] {
            assert!(read(other), "{other}");
        }
        for other in [
            "BATCH = 4\n",
            "from c import *\n",
            "def f():\n  global BATCH\n  BATCH = 4\n",
            "from .d import *\n",
        ] {
            assert!(!read(other), "{other}");
        }
        let unread = train.replace("b import", "other import");
        assert!(!code(&[&unread]).constants.contains_key("batch"));
        let library = train.replace("b import", "torch.nn import");
        assert!(code(&[&library]).constants.contains_key("batch"));
    }

    #[test]
    fn a_configurator_makes_options_of_variables_which_files_override() {
        let text = "grad_accum = 5 * 8\nbatch_size = 12\nexec(open('configurator.py').read())\n";
        let mut own = code(&[text]);
        let shown_as = |own: &ProgramCode, flag: &str| own.declared(flag).map(shown).unwrap();
        assert_eq!(shown_as(&own, "--grad_accum"), "40 --grad_accum=");
        let content = "batch_size = 4 * 2\nother = 1\n";
        own.override_by(&PythonFile {
            content: Traced::file(9, content),
            path: "config/x.py",
            tokens: tokens(content),
            can_change: false,
            is_of_settings: false,
            is_program: false,
        });
        assert_eq!(shown_as(&own, "--batch_size"), "8 --batch_size=");
        own.leave_open();
        assert_eq!(shown_as(&own, "--batch_size"), "? --batch_size=");
    }

    #[test]
    fn the_batch_of_a_library_that_trains_stands_where_data_is_loaded() {
        let read = |text: &str| {
            let all = code(&[text]).constants;
            let shown = all
                .iter()
                .map(|(name, c)| format!("{name}={}", c.value.value.text()));
            shown.collect::<Vec<_>>().join(" ")
        };
        let fits = "import lightning as L\nL.Trainer().fit(m, data)\n";
        let cases = [
            ("data = DataLoader(d, batch_size=64)", "batch_size=64"),
            (
                "BATCH = 8 * 4\ndata = DataLoader(d, batch_size=BATCH)",
                "batch=32 batch_size=32",
            ),
            (
                "A = 1\nB = 2\nx = DataLoader(d, batch_size=A)\ny = DataLoader(e, batch_size=B)",
                "a=1 b=2",
            ),
            (
                "class D:\n  def train_dataloader(self):\n    return DataLoader(a, batch_size=8)\n  \
                 def val_dataloader(self):\n    return DataLoader(b, batch_size=4)",
                "batch_size=8 eval_batch_size=4",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(read(&format!("{fits}{text}\n")), expected, "{text}");
        }
        assert_eq!(
            read("import other\nt.fit(m)\ndata = DataLoader(d, batch_size=64)\n"),
            ""
        );
    }

    #[test]
    fn parts_of_a_batch_leave_the_whole() {
        let parts = "p.add_argument('--batch_size', default=8)\np.add_argument('--microbatch', default=-1)\n";
        let own = code(&[parts]);
        assert_eq!(own.batch.parts(), Some(("--microbatch", "--batch_size")));
        assert_eq!(own.batch.global(), Some("--batch_size"));
        assert!(own.declared("--microbatch").unwrap().is_off);
        assert_eq!(
            code(&["p.add_argument('--batch_size')"]).batch.parts(),
            None
        );
        let of_gpu = "p.add_argument('--batch')\np.add_argument('--batch-gpu')\n";
        assert_eq!(
            code(&[of_gpu]).batch.parts(),
            Some(("--batch-gpu", "--batch"))
        );
    }

    #[test]
    fn an_option_of_its_own_is_found_in_either_spelling() {
        let own = code(&["p.add_argument('--batch-size', default=64)"]);
        let found = own.value(&Spelling::Flag("--batch_size".to_owned()));
        assert_eq!(found.map(shown).unwrap(), "64 --batch-size");
        assert_eq!(own.value(&Spelling::Flag("--lr".to_owned())), None);
    }

    #[test]
    fn an_argument_of_a_call_says_what_a_flag_says() {
        let cases = [
            ("Adapter(r=16)", Some("16")),
            (
                "p.add_argument('--rank', default=8)\nAdapter(alpha=1, r=args.rank)",
                Some("8 --rank"),
            ),
            ("Config(a=1)\nAdapter(r=4)", Some("4")),
            ("Adapter(r=8); Adapter(r=8)", Some("8")),
            ("Adapter(r=8); Adapter(r=16)", None),
            ("Adapter(r=8); Adapter(r=f(x))", None),
            ("Adapter(r=args.unknown)", None),
            ("Adapter()", None),
            ("r = 8", None),
        ];
        for (text, expected) in cases {
            let own = code(&[text]);
            let found = own.value(&Spelling::Flag("--lora_r".to_owned()));
            assert_eq!(found.map(shown).as_deref(), expected, "{text}");
        }
        let flag = code(&["p.add_argument('--lora_r', default=2)\nAdapter(r=f(a.lora_r))"]);
        let found = flag.value(&Spelling::Flag("--lora_r".to_owned()));
        assert_eq!(found.map(shown).unwrap(), "2 --lora_r");
    }
}
