//! What a Python program does with its options: what it hands to the class that configures its framework, and which model it
//! loads. Each value is a literal, or it comes from an option, a variable of the environment, or code.
//!
//! Rule: no option of the framework reaches a program that fills this class itself.

use std::collections::{BTreeMap, BTreeSet};

use super::code_value::{CodeValue, ConfigClasses, PythonFile};
use super::constants::{Constant, constants};
use super::declared::declared;
use super::dictionary::entries;
use super::filled_class::FilledClass;
use super::loaded::lookups;
use super::program_text::{CodeFiles, of_option};
use crate::Spelling;

/// An option that a program declares.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProgramOption {
    /// Its first long form.
    flag: String,
    /// All its forms.
    forms: Vec<String>,
    /// Its default.
    value: CodeValue,
    /// What it counts is of all GPUs together.
    is_global: bool,
}

/// What the code of a program says of its options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramCode {
    /// The framework's class that it fills itself.
    pub class: Option<FilledClass>,
    /// What it hands to other calls, by the flag that says the same.
    arguments: BTreeMap<String, CodeValue>,
    /// The options that it declares.
    options: Vec<ProgramOption>,
    /// The model that it loads.
    pub model: Option<CodeValue>,
    /// What it looks up in sections of the settings that it loads.
    pub(super) lookups: BTreeSet<String>,
    /// Its constants, where no framework of a stack takes its options.
    pub(super) constants: BTreeMap<String, Constant>,
}

impl ProgramCode {
    /// What the files of a program say, its own first.
    pub(super) fn read(files: &[PythonFile<'_>], wanted: &ConfigClasses<'_>) -> Self {
        let text = CodeFiles {
            files,
            options: files.iter().map(|f| (f, declared(&f.tokens))).collect(),
        };
        let class = text.configured(wanted);
        let options = text.options.iter().flat_map(|(file, options)| {
            options.iter().map(|option| ProgramOption {
                flag: option.flag.clone(),
                forms: option.forms.clone(),
                value: of_option(file, option),
                is_global: option.is_global,
            })
        });
        Self {
            class,
            arguments: text.arguments(&wanted.arguments),
            options: options.collect(),
            model: text.model(),
            lookups: lookups(files),
            constants: match text.is_configured(wanted) {
                true => BTreeMap::new(),
                false => fixed(files),
            },
        }
    }

    /// What it gives the option of this spelling.
    pub(super) fn value(&self, spelling: &Spelling) -> Option<&CodeValue> {
        let (Spelling::Flag(flag) | Spelling::Switch(flag)) = spelling else {
            return None;
        };
        let name = flag.trim_matches(['-', '=']).replace('-', "_");
        match &self.class {
            _ if self.arguments.contains_key(&name) => self.arguments.get(&name),
            Some(class) => class.values.get(&name),
            None => self.declared(flag),
        }
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

    /// The one option for a batch that all GPUs share.
    pub(super) fn global_batch(&self) -> Option<&str> {
        let is_batch = |o: &&ProgramOption| o.is_global && o.flag.contains("batch");
        let mut all = self.options.iter().filter(is_batch);
        let first = all.next()?;
        all.next().is_none().then_some(&*first.flag)
    }

    /// All values that it gives.
    pub(super) fn all(&self) -> impl Iterator<Item = &CodeValue> {
        let class = self.class.iter().flat_map(|class| class.values.values());
        let given = class.chain(self.arguments.values());
        given.chain(&self.model)
    }

    /// The one option of this name that it declares.
    pub(super) fn declared(&self, flag: &str) -> Option<&CodeValue> {
        let plain = |flag: &str| flag.trim_end_matches('=').replace('_', "-");
        let mut same = self
            .options
            .iter()
            .filter(|option| plain(&option.flag) == plain(flag));
        let first = &same.next()?.value;
        same.all(|other| other.value == *first).then_some(first)
    }
}

/// The values that a program's text fixes, by names in small letters: constants, and entries of dictionaries.
fn fixed(files: &[PythonFile<'_>]) -> BTreeMap<String, Constant> {
    let mut all = constants(files);
    for (key, constant) in entries(files) {
        let key = key.to_lowercase();
        if all.remove(&key).is_none() {
            all.insert(key, constant);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::code::CodeArgument;
    use super::super::python::tokens;
    use super::super::traced::Traced;
    use super::*;

    fn code(texts: &[&str]) -> ProgramCode {
        let rank = CodeArgument {
            call: "Adapter".to_owned(),
            argument: "r".to_owned(),
            flag: "lora_r".to_owned(),
        };
        let wanted = ConfigClasses {
            classes: ["Config"].into(),
            parsers: ["Parser"].into(),
            arguments: vec![&rank],
        };
        let files = texts.iter().enumerate();
        let files: Vec<_> = files
            .map(|(at, text)| PythonFile {
                content: Traced::file(3 + at, text),
                path: ["a.py", "b.py", "c.py"][at],
                tokens: tokens(text),
                can_change: true,
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
