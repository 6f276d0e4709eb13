//! Templates and expressions, with values that want to be more than values: what is rendered ends, and
//! a value stays one word of the shell.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use minijinja::Value as Jinja;
use oomctl::core::config::{from_flags, parse_knob_set, parse_preset};
use oomctl::core::recipe::expr::{self, Scope};
use oomctl::core::recipe::{ClusterFacts, Preset, Shape};
use oomctl::core::render::{comment, hydra_value, render, sbatch_word, shell_word};
use oomctl::io::library::{Library, LibraryFolder};
use oomctl_base::Value;

use super::allocations::within;
use super::project::place;

/// Bytes that an expression or a template may hold, with what it renders.
const MOST_MEMORY: usize = 256 << 20;
const ENTRY: &str = "torchrun/job.sbatch.j2";

static PRESET: LazyLock<Preset> = LazyLock::new(|| {
    let library = Library::new(None);
    let source = library.get(LibraryFolder::Presets, "torchrun").unwrap();
    let file = parse_preset(&source.path, &source.text).unwrap();
    let set = |name: &String| {
        let set = library.get(LibraryFolder::Sets, name).unwrap();
        parse_knob_set(&set.path, &set.text).unwrap()
    };
    let sets = file.uses.iter().map(set).collect();
    Preset::assemble(file, sets, None).unwrap()
});
static TEMPLATES: LazyLock<BTreeMap<String, String>> =
    LazyLock::new(|| Library::new(None).templates().unwrap());

pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let value = text.lines().next().unwrap_or_default();
    words(value);
    within(MOST_MEMORY, || {
        for line in text.lines().take(20) {
            expression(line);
        }
        rendered(&text, value);
    });
}

/// What is quoted for the shell is read back by a shell as that one word.
fn words(value: &str) {
    if let Ok(word) = shell_word(value) {
        assert_eq!(shlex::split(&word), Some(vec![value.to_owned()]), "{word}");
    }
    if let Ok(word) = sbatch_word(value) {
        let plain = !word.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#');
        assert!(plain, "{word:?}");
    }
    assert!(!comment(value).contains(char::is_control));
    let text = hydra_value(&Value::Text(value.to_owned()));
    assert!(!text.contains('\n') || value.contains('\n'), "{text:?}");
}

fn expression(line: &str) {
    let mut scope = Scope::default();
    scope.set("batch", Jinja::from(1024));
    scope.set("rollout.n", Jinja::from(5));
    scope.set("mem", Jinja::from("64G"));
    scope.set("none_yet", Jinja::from(()));
    let env = expr::environment(None);
    match expr::evaluate(&env, line, &scope) {
        Ok(value) => drop(expr::from_jinja(&value)),
        Err(what) => {
            let start: String = line.chars().take(40).collect();
            assert!(what.contains(&start), "{what}");
        }
    }
    let _ = expr::holds(&env, line, &scope);
    if expr::check_length(line).is_ok()
        && let Ok(expression) = env.compile_expression(line)
    {
        let _ = expr::names(&expression);
    }
}

/// The text as a template of the user's own, and its first line as a value in ours.
fn rendered(text: &str, value: &str) {
    let given = [
        format!("script={value}"),
        "batch_size=1".to_owned(),
        format!("args=x,{value}"),
    ];
    let Ok(layer) = from_flags(&PRESET, &given, &[]) else {
        return;
    };
    let facts = ClusterFacts::default();
    let Ok(shape) = Shape::new(&PRESET, &[layer], &facts, None) else {
        return;
    };
    match render(&PRESET, &shape, &TEMPLATES, &place()) {
        Ok(files) => {
            for file in files {
                let script = file.text.lines().filter(|line| line.starts_with("#SBATCH"));
                script.for_each(|line| assert!(!line.contains('\0'), "{line:?}"));
            }
        }
        Err(error) => assert!(value.contains('\0') || error.line.is_some(), "{error}"),
    }
    let mut templates = TEMPLATES.clone();
    templates.insert(ENTRY.to_owned(), text.to_owned());
    if let Err(error) = render(&PRESET, &shape, &templates, &place()) {
        assert!(
            !error.template.is_empty() && !error.what.is_empty(),
            "{error:?}"
        );
    }
}
